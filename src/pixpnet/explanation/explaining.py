"""Explains one answer: one forward pass, and the sum that the decision computed, or the path it took, taken apart.

image --model--> logits, scores, cells --head.reasons()--> terms --comparison.region()--> exact regions --> Explanation
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from pixpnet.data import Sample, preprocess, to_uint8
from pixpnet.data.pictures import Picture, as_sample
from pixpnet.explanation.names import label_of
from pixpnet.explanation.record import ClassExplanation, Explanation, Matrix, OtherAnswer, Sight, Term, TreePath
from pixpnet.explanation.size import explanation_size
from pixpnet.fields import Field
from pixpnet.model import Grid, PixPNet, picture_name
from pixpnet.model.modes import refuse_training_mode
from pixpnet.model.network import Output
from pixpnet.model.part_names import PartNames, read_part_names
from pixpnet.parts import Path as ByPath
from pixpnet.parts import Route
from pixpnet.parts.comparison import Places
from pixpnet.parts.ownership import NOBODY


def explain(model: PixPNet, image: Picture, classes: Sequence[str | int] = (), top: int = 10) -> Explanation:
    """Why the model answers as it does, as the very sum that its decision computes, or the path through its tree.

    Args:
        model: in eval mode.
        image: a picture: a file, bytes, a PIL image, an array or tensor; or a sample, as it was read or preprocessed.
        classes: further classes to explain, by name or label; where none but the answer is named, the runner-up.
        top: how many terms of a class are listed where it is connected with the prototypes of other classes too; the
            others are summed up as `rest`. Where it is connected with its own only, all of them are listed.

    Raises:
        ImageError: if the file cannot be read.
        UnknownClass: if a class is asked for that the model does not have.
        ValueError: if the model is in training mode, or its answer is not finite.

    >>> import numpy as np
    >>> from pixpnet import zoo
    >>> from pixpnet.data import Preprocessing
    >>> from pixpnet.data.sample import NO_ANNOTATION, source_sample
    >>> from pixpnet.model import Backbone
    >>> from pixpnet.members.pixpnet import Architecture
    >>> backbone = Backbone(zoo.build("small-21"), "", (32, 32))
    >>> model = PixPNet(backbone, Architecture(dim=8), ("jay", "wren"), Preprocessing(None, 32, 32)).eval()
    >>> black = source_sample(np.zeros((32, 32, 3), np.uint8), -1, "black", NO_ANNOTATION, masks=None)
    >>> explanation = explain(model, black)
    >>> len(explanation.predicted.terms), explanation.sight.cells
    (10, (4, 4))
    """
    (explanation,) = explain_batch(model, [image], classes, top)
    return explanation


def explain_batch(
    model: PixPNet, images: Sequence[Picture], classes: Sequence[str | int] = (), top: int = 10
) -> tuple[Explanation, ...]:
    """Like `explain`, for several images in one forward pass.

    Numbers may differ from those of `explain` in their last digits, since a batch is added up in another order.

    Raises:
        ImageError: if a file cannot be read.
        UnknownClass: if a class is asked for that the model does not have.
        TypeError: if one of them is no picture.
        ValueError: if the model is in training mode, or an answer is not finite.
    """
    if isinstance(classes, str):
        raise ValueError(f"classes is a list: classes=[{classes!r}]")
    if top < 1:
        raise ValueError(f"at least one term is listed, got top={top}")
    refuse_training_mode(model)
    if isinstance(images, (str, bytes)) or not isinstance(images, Iterable):
        raise TypeError(f"images is a list of pictures, got {type(images).__name__}: explain() takes one")
    labels = [label_of(class_or_label, model.class_names) for class_or_label in classes]
    samples = [as_the_network_sees(model, image, f"picture {number}") for number, image in enumerate(images, start=1)]
    if not samples:
        return ()
    pixels = torch.stack([sample.image.as_subclass(Tensor) for sample in samples])
    with torch.no_grad():
        output = model(pixels.to(model.device))
        fields = model.fields_at(samples[0].size)
        common = _Common(model, tuple(map(_Seen, model.grids, fields)), model.ownership.mask(), _folder_of(model))
        return tuple(_explanation(common, sample, output, row, labels, top) for row, sample in enumerate(samples))


def _explanation(
    common: "_Common", sample: Sample, output: Output, row: int, requested: Sequence[int], top: int
) -> Explanation:
    model, matches = common.model, output.matches
    logits = output.logits[row].tolist()
    if not all(map(math.isfinite, logits)):
        raise ValueError(f"the model's logits for {sample.id} are not finite: are there such numbers in the image?")
    order = sorted(range(len(logits)), key=lambda label: -logits[label])
    labels = [order[0], *(dict.fromkeys(label for label in requested if label != order[0]) or order[1:2])]
    scores = matches.scores[row]
    answer = _Answer(
        model,
        common.grids,
        scores.tolist(),
        matches.distances[row].tolist(),
        matches.cells[row].tolist(),
        [partial(grid.places_at, row) for grid in matches.grids],
        common.owned,
        common.pictures,
    )
    reasons = model.head.reasons(scores, labels)
    shares = output.logits[row].double().softmax(dim=0)[labels].tolist()
    others = model.head.readings(scores[None])
    kinds = [_Class(label, logits[label], share) for label, share in zip(labels, shares, strict=True)]
    if isinstance(reasons, ByPath):
        explained = tuple(map(partial(_by_path, answer, reasons.soft), kinds, reasons.routes))
    else:
        weights = reasons.weights.cpu().double()
        addends = _addends(weights, weights * scores.cpu().double(), reasons.constant.tolist())
        most = len(answer.scores) if model.head.own_only else top
        owners = _owners(answer, dict.fromkeys(number for part in addends for number in part.order[:most]))
        explained = tuple(map(partial(_by_sum, answer, owners, most), kinds, addends))
    sight, *more_sights = _sights(answer)
    return Explanation(
        image=sample.id,
        size=sample.size,
        source_size=sample.source_size,
        to_source=_matrix(sample),
        pixels=to_uint8(sample.image.as_subclass(Tensor), model.preprocessing).tobytes(),
        class_names=model.class_names,
        logits=tuple(logits),
        classes=explained,
        head=model.head.name,
        explanation_size=explanation_size(model),
        sight=sight,
        model=_name(model),
        more_sights=tuple(more_sights),
        score_note=score_note(model),
        other_answers=tuple(OtherAnswer(rule, model.class_names[int(answers)]) for rule, answers in others.items()),
        choice_note=model.head.choice_note,
    )


def as_the_network_sees(model: PixPNet, picture: Picture, name: str = "picture") -> Sample:
    """The image that the network gets: read where it is a file, preprocessed where it is not yet.

    Raises:
        ImageError: if it cannot be read.
        TypeError: if it is no picture.
    """
    sample = as_sample(picture, name)
    if isinstance(picture, (str, Path)):
        sample = replace(sample, id=str(picture))
    if sample.image.dtype == torch.uint8:
        return preprocess(sample, model.preprocessing)
    if not sample.image.is_floating_point():
        raise ValueError(
            f"{sample.id}: an image is uint8 as read from its file, or float once preprocessed, got "
            f"{sample.image.dtype}"
        )
    return sample


def score_note(model: PixPNet) -> str | None:
    """What a model's scores rest on beside the similarity of their cells; None where they are those similarities."""
    notes = (grid.comparison.pooling.beside_the_cell for grid in model.grids)
    return "; ".join(dict.fromkeys(note for note in notes if note is not None)) or None


@dataclass(frozen=True)
class _Seen:
    """A grid, and what each of its patches sees of this image."""

    grid: Grid
    field: Field


@dataclass(frozen=True)
class _Common:
    """What explanations of several images of one size have in common."""

    model: PixPNet
    grids: tuple[_Seen, ...]
    owned: Bool[Tensor, "classes protos"]
    pictures: "_Folder | None"


@dataclass(frozen=True)
class _Answer:
    """What one forward pass says of one image, and whom each prototype speaks for."""

    model: PixPNet
    grids: tuple[_Seen, ...]
    scores: list[float]
    distances: list[float]
    cells: list[list[int]]
    places: list[Callable[[tuple[int, int]], Places]]
    owned: Bool[Tensor, "classes protos"]
    pictures: "_Folder | None"

    def grid_of(self, prototype: int) -> _Seen:
        if len(self.grids) == 1:
            return self.grids[0]
        return next(seen for seen in self.grids if prototype in seen.grid.prototypes)


@dataclass(frozen=True)
class _Addends:
    """What the logit of one class is made of: weights, weights x scores of all prototypes, and a constant.

    `order` has the prototypes that are connected with the class, those that contribute most first.
    """

    weights: list[float]
    products: list[float]
    constant: float
    order: list[int]


def _addends(
    weights: Float64[Tensor, "classes protos"], products: Float64[Tensor, "classes protos"], constants: list[float]
) -> list[_Addends]:
    # For all classes at once, and as lists: each call of torch costs more than what it does to so few numbers.
    # A weight of exactly 0 is no connection; a score of 0 is a term all the same.
    connected = weights != 0
    order = torch.where(connected, products.abs(), -1.0).sort(descending=True, stable=True).indices.tolist()
    counts = connected.sum(dim=1).tolist()
    columns = zip(weights.tolist(), products.tolist(), constants, order, counts, strict=True)
    return [_Addends(weight, product, constant, order[:count]) for weight, product, constant, order, count in columns]


@dataclass(frozen=True)
class _Folder:
    """The pictures of prototypes that are there, and the annotated parts on them."""

    path: str
    names: frozenset[str]
    parts: PartNames

    def file(self, name: str) -> str | None:
        return f"{self.path}/{name}" if name in self.names else None

    def parts_of(self, prototype: int) -> tuple[str, ...]:
        return self.parts[prototype] if prototype < len(self.parts) else ()


@dataclass(frozen=True)
class _Class:
    """An explained class, and what the network gave it."""

    label: int
    logit: float
    share: float


def _by_sum(
    answer: _Answer, owners: dict[int, list[int]], most: int, explained: _Class, addends: _Addends
) -> ClassExplanation:
    listed, rest = addends.order[:most], addends.order[most:]
    weights, products = addends.weights, addends.products
    return ClassExplanation(
        label=explained.label,
        class_name=answer.model.class_names[explained.label],
        logit=explained.logit,
        share=explained.share,
        terms=tuple(
            _term(answer, explained.label, owners[number], number, weights[number], products[number])
            for number in listed
        ),
        rest=math.fsum([*(products[prototype] for prototype in rest), addends.constant]),
        rest_terms=len(rest),
        constant=addends.constant,
    )


def _by_path(answer: _Answer, soft: bool, explained: _Class, route: Route) -> ClassExplanation:
    nodes = [turn.node for turn in route.turns]
    owners = _owners(answer, nodes)
    # Where one leaf counts, its logit is what it gives: how likely the turns were adds nothing.
    logs = route.log_probabilities if soft else (0.0,) * len(route.turns)
    return ClassExplanation(
        label=explained.label,
        class_name=answer.model.class_names[explained.label],
        logit=explained.logit,
        share=explained.share,
        terms=tuple(
            _term(answer, explained.label, owners[node], node, 1.0, log) for node, log in zip(nodes, logs, strict=True)
        ),
        rest=explained.logit - math.fsum(logs),
        rest_terms=0,
        constant=route.log_leaf_probability,
        path=TreePath(
            leaf=route.leaf,
            present=tuple(turn.present for turn in route.turns),
            probabilities=tuple(map(math.exp, route.log_probabilities)),
            weight=route.weight,
            leaf_probability=math.exp(route.log_leaf_probability),
            leaf_class=answer.model.class_names[route.leaf_label],
            soft=soft,
        ),
    )


def _owners(answer: _Answer, prototypes: Iterable[int]) -> dict[int, list[int]]:
    """The classes that each prototype speaks for, the one it is listed under first."""
    numbers = list(prototypes)
    chosen = torch.tensor(numbers, dtype=torch.int64, device=answer.owned.device)
    labels = answer.model.labels[chosen].tolist()
    owners: dict[int, list[int]] = {prototype: [] for prototype in numbers}
    for index, owner in answer.owned[:, chosen].T.nonzero().tolist():
        owners[numbers[index]].insert(0 if owner == labels[index] else len(answer.owned), owner)
    return owners


def _term(
    answer: _Answer, explained: int, owners: list[int], prototype: int, weight: float, contribution: float
) -> Term:
    model, seen = answer.model, answer.grid_of(prototype)
    row, col = answer.cells[prototype]
    origin = None if model.origins is None else model.origins[prototype]
    unowned = NOBODY if origin is None else origin.label
    label = explained if explained in owners else next(iter(owners), unowned)
    name = picture_name(prototype, len(answer.scores))
    region = seen.grid.comparison.region((row, col), seen.field, answer.places[seen.grid.number]((row, col)))
    return Term(
        prototype=prototype,
        label=label,
        class_name="" if label == NOBODY else model.class_names[label],
        weight=weight,
        score=answer.scores[prototype],
        distance=answer.distances[prototype],
        contribution=contribution,
        cell=(row, col),
        region=region,
        origin=origin,
        crop=None if answer.pictures is None else answer.pictures.file(f"{name}.png"),
        picture=None if answer.pictures is None else answer.pictures.file(f"{name}.jpg"),
        grid=seen.grid.number,
        also=tuple(model.class_names[owner] for owner in owners if owner != label),
        parts=() if answer.pictures is None or origin is None else answer.pictures.parts_of(prototype),
        share=sum((y1 - y0) * (x1 - x0) for y0, x0, y1, x1 in region) / math.prod(seen.field.space),
    )


def _sights(answer: _Answer) -> list[Sight]:
    layers = answer.model.grid_layers
    return [_sight(seen, layer) for seen, layer in zip(answer.grids, layers, strict=True)]


def _sight(seen: _Seen, layer: str) -> Sight:
    field = seen.field
    _, rows, cols = field.shape
    return Sight(
        cells=(rows, cols),
        mean_fraction=field.mean_fraction_union,
        max_fraction=field.max_fraction,
        everything=field.fraction_that_sees_everything,
        layer=layer,
        note=seen.grid.comparison.moves,
    )


def _matrix(sample: Sample) -> Matrix:
    a, b, c, d, e, f, g, h, i = sample.to_source.flatten().tolist()
    return a, b, c, d, e, f, g, h, i


def _name(model: PixPNet) -> str:
    backbone = model.backbone_name or type(model.backbone.network).__name__
    return f"{backbone} @ {model.backbone.cut}" if model.backbone.cut else backbone


def _folder_of(model: PixPNet) -> _Folder | None:
    if model.pictures is None or not model.pictures.is_dir():
        return None
    return _listed(model.pictures, model.pictures.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _listed(path: Path, changed: int) -> _Folder:
    """The names in a folder, listed again when it changes: asking for each file would cost more than all terms."""
    return _Folder(str(path), frozenset(file.name for file in path.iterdir()), read_part_names(path))
