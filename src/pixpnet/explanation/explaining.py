"""Explains one answer: one forward pass, and the sum that the decision computed, or the path it took, taken apart.

image --model--> logits, scores, cells --head.reasons()--> terms --comparison.region()--> exact regions --> Explanation
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from pixpnet.data import Sample, preprocess, to_uint8
from pixpnet.data.pictures import Picture, as_sample
from pixpnet.explanation.answer import OtherAnswer
from pixpnet.explanation.certainty import certainty_of
from pixpnet.explanation.lookups import Pictures, Seen, pictures_of, seen_by
from pixpnet.explanation.names import label_of
from pixpnet.explanation.record import ClassExplanation, Explanation, Matrix, Term, TreePath
from pixpnet.model import Grid, PixPNet
from pixpnet.model.grids import Output
from pixpnet.model.mending import removed_by
from pixpnet.model.modes import refuse_training_mode
from pixpnet.parts import Path as ByPath
from pixpnet.parts import Route
from pixpnet.parts.comparison import Places
from pixpnet.parts.ownership import NOBODY
from pixpnet.records import filled


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
    seen = [sample.image.as_subclass(Tensor) for sample in samples]
    pixels = torch.stack(seen) if len(seen) > 1 else seen[0][None]
    with torch.no_grad():
        output = model(pixels.to(model.device))
        common = _Common(model, seen_by(model, (pixels.shape[-2], pixels.shape[-1])), pictures_of(model))
        return tuple(
            _explanation(common, sample, image, output, row, labels, top)
            for row, (sample, image) in enumerate(zip(samples, seen, strict=True))
        )


def _explanation(
    common: "_Common", sample: Sample, image: Tensor, output: Output, row: int, requested: Sequence[int], top: int
) -> Explanation:
    model, head = common.model, common.model.head
    exact_logits = output.logits[row].double()
    logits = exact_logits.tolist()
    if not all(map(math.isfinite, logits)):
        raise ValueError(f"the model's logits for {sample.id} are not finite: are there such numbers in the image?")
    labels = _explained_labels(logits, requested)
    scores = output.matches.scores[row]
    reasons = head.reasons(scores, labels)
    shares = exact_logits.softmax(dim=0).tolist()
    others = head.readings(scores[None])
    kinds = [_Class(label, logits[label], shares[label]) for label in labels]
    # As lists: each call of torch costs more than what it does to so few numbers.
    listed_scores = scores.tolist()
    if isinstance(reasons, ByPath):
        answer = _answer(
            common, output, row, listed_scores, {turn.node for route in reasons.routes for turn in route.turns}
        )
        explained = tuple(map(partial(_by_path, answer, reasons.soft), kinds, reasons.routes))
    else:
        most = len(listed_scores) if head.own_only else top
        rows = zip(reasons.connections(), reasons.constants(), strict=True)
        addends = [_addends(weights, listed_scores, constant, most) for weights, constant in rows]
        answer = _answer(
            common, output, row, listed_scores, {addend.prototype for part in addends for addend in part.listed}
        )
        explained = tuple(map(partial(_by_sum, answer), kinds, addends))
    sight, *more_sights = (seen.sight(model) for seen in common.grids)
    return Explanation(
        image=sample.id,
        size=(image.shape[-2], image.shape[-1]),
        source_size=sample.source_size,
        to_source=_matrix(sample),
        pixels=to_uint8(image, model.preprocessing).tobytes(),
        class_names=model.class_names,
        logits=tuple(logits),
        classes=explained,
        head=head.name,
        explanation_size=head.size(),
        sight=sight,
        model=_name(model),
        more_sights=tuple(more_sights),
        score_note=_score_note(seen.grid for seen in common.grids),
        other_answers=tuple(OtherAnswer(rule, model.class_names[int(answers)]) for rule, answers in others.items()),
        choice_note=head.choice_note,
        certainty=certainty_of(model, max(logits), max(listed_scores)),
    )


def _explained_labels(logits: list[float], requested: Sequence[int]) -> list[int]:
    """The answer, and the classes that were asked for, or else the runner-up; of equals the first."""
    answer = logits.index(max(logits))
    others = list(dict.fromkeys(label for label in requested if label != answer))
    if not others and len(logits) > 1:
        rest = logits[:answer] + logits[answer + 1 :]
        runner_up = rest.index(max(rest))
        others = [runner_up + (runner_up >= answer)]
    return [answer, *others]


def as_the_network_sees(model: PixPNet, picture: Picture, name: str = "picture") -> Sample:
    """The image that the network gets: read where it is a file, preprocessed where it is not yet.

    Raises:
        ImageError: if it cannot be read.
        TypeError: if it is no picture.
    """
    sample = as_sample(picture, name)
    if isinstance(picture, (str, Path)):
        sample = replace(sample, id=str(picture))
    kind = sample.image.as_subclass(Tensor).dtype
    if kind == torch.uint8:
        return preprocess(sample, model.preprocessing)
    if not kind.is_floating_point:
        raise ValueError(
            f"{sample.id}: an image is uint8 as read from its file, or float once preprocessed, got {kind}"
        )
    return sample


def score_note(model: PixPNet) -> str | None:
    """What a model's scores rest on beside the similarity of their cells; None where they are those similarities."""
    return _score_note(model.grids)


def _score_note(grids: Iterable[Grid]) -> str | None:
    notes = (grid.comparison.pooling.beside_the_cell for grid in grids)
    return "; ".join(dict.fromkeys(note for note in notes if note is not None)) or None


@dataclass(frozen=True)
class _Common:
    """What explanations of several images of one size have in common."""

    model: PixPNet
    grids: tuple[Seen, ...]
    pictures: tuple[Pictures, ...]

    def grid_of(self, prototype: int) -> Seen:
        if len(self.grids) == 1:
            return self.grids[0]
        return next(seen for seen in self.grids if prototype in seen.grid.prototypes)


@dataclass(frozen=True)
class _Answer:
    """What one forward pass says of one image.

    Attributes:
        common: what it has in common with other images.
        scores: of all prototypes.
        distances: of all prototypes.
        cells: row and column of the cell of each prototype, one after the other.
        owners: which classes each of the listed prototypes speaks for, its own first.
        places: of each grid, where the parts of a patch are read, where that depends on the image.
    """

    common: _Common
    scores: list[float]
    distances: list[float]
    cells: list[int]
    owners: dict[int, tuple[int, ...]]
    places: list[Callable[[tuple[int, int]], Places] | None]


def _answer(common: _Common, output: Output, row: int, scores: list[float], prototypes: set[int]) -> _Answer:
    numbers, matches = list(prototypes), output.matches
    return _Answer(
        common,
        scores,
        matches.distances[row].tolist(),
        matches.cells[row].flatten().tolist(),
        dict(zip(numbers, common.model.ownership.owners_of(numbers), strict=True)),
        [None if grid.places is None else partial(grid.places_at, row) for grid in matches.grids],
    )


class _Addend(NamedTuple):
    """What one prototype adds to the logit of a class: weight x score."""

    prototype: int
    weight: float
    product: float


@dataclass(frozen=True)
class _Addends:
    """What the logit of one class is made of: the largest addends, largest first, and what else there is."""

    listed: list[_Addend]
    rest: list[float]
    constant: float


def _addends(weights: list[tuple[int, float]], scores: list[float], constant: float, most: int) -> _Addends:
    # A weight of exactly 0 is no connection; a score of 0 is a term all the same.
    connected = [_Addend(number, weight, weight * scores[number]) for number, weight in weights]
    # Of equals the first.
    connected.sort(key=lambda addend: -abs(addend.product))
    return _Addends(connected[:most], [addend.product for addend in connected[most:]], constant)


class _Class(NamedTuple):
    """An explained class, and what the network gave it."""

    label: int
    logit: float
    share: float


def _by_sum(answer: _Answer, explained: _Class, addends: _Addends) -> ClassExplanation:
    return ClassExplanation(
        label=explained.label,
        class_name=answer.common.model.class_names[explained.label],
        logit=explained.logit,
        share=explained.share,
        terms=_terms(answer, explained.label, addends.listed),
        rest=math.fsum([*addends.rest, addends.constant]),
        rest_terms=len(addends.rest),
        constant=addends.constant,
    )


def _by_path(answer: _Answer, soft: bool, explained: _Class, route: Route) -> ClassExplanation:
    class_names = answer.common.model.class_names
    # Where one leaf counts, its logit is what it gives: how likely the turns were adds nothing.
    logs = route.log_probabilities if soft else (0.0,) * len(route.turns)
    return ClassExplanation(
        label=explained.label,
        class_name=class_names[explained.label],
        logit=explained.logit,
        share=explained.share,
        terms=_terms(
            answer,
            explained.label,
            [_Addend(turn.node, 1.0, log) for turn, log in zip(route.turns, logs, strict=True)],
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
            leaf_class=class_names[route.leaf_label],
            soft=soft,
        ),
    )


def _terms(answer: _Answer, explained: int, addends: Iterable[_Addend]) -> tuple[Term, ...]:
    common, cells, terms = answer.common, answer.cells, []
    names, given_names, origins = common.model.class_names, common.model.names, common.model.origins
    for prototype, weight, product in addends:
        seen, pictures, owners = common.grid_of(prototype), common.pictures[prototype], answer.owners[prototype]
        origin = None if origins is None else origins[prototype]
        unowned = NOBODY if origin is None else origin.label
        label = explained if explained in owners else next(iter(owners), unowned)
        cell = cells[2 * prototype], cells[2 * prototype + 1]
        places = answer.places[seen.grid.number]
        region = seen.region(cell, () if places is None else places(cell))
        values = {
            "prototype": prototype,
            "label": label,
            "class_name": "" if label == NOBODY else names[label],
            "weight": weight,
            "score": answer.scores[prototype],
            "distance": answer.distances[prototype],
            "contribution": product,
            "cell": cell,
            "region": region.boxes,
            "origin": origin,
            "crop": pictures.crop,
            "picture": pictures.picture,
            "proof": None,
            "grid": seen.grid.number,
            "also": () if owners == (label,) else tuple(names[owner] for owner in owners if owner != label),
            "parts": () if origin is None else pictures.parts,
            "share": region.share,
            "qualities": (),
            "name": given_names.get(prototype, ""),
        }
        terms.append(filled(Term, values))
    return tuple(terms)


def _matrix(sample: Sample) -> Matrix:
    a, b, c, d, e, f, g, h, i = sample.to_source.flatten().tolist()
    return a, b, c, d, e, f, g, h, i


def _name(model: PixPNet) -> str:
    backbone = model.backbone_name or type(model.backbone.network).__name__
    removed = len(removed_by(model.mendings))
    mended = f", {removed} prototype{'' if removed == 1 else 's'} removed" if removed else ", edited"
    cut = f"{backbone} @ {model.backbone.cut}" if model.backbone.cut else backbone
    return f"{cut}{mended if model.mendings else ''}"
