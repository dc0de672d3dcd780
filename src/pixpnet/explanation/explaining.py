"""Explains one answer: one forward pass, and the sum that the head computed taken apart.

image --model--> logits, scores, best cells --head.weights()--> terms --field--> exact regions --> Explanation
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor, nn

from pixpnet.box import Box
from pixpnet.data import Sample, preprocess, read_sample, to_uint8
from pixpnet.explanation.names import label_of
from pixpnet.explanation.record import ClassExplanation, Explanation, Matrix, Sight, Term
from pixpnet.explanation.size import explanation_size
from pixpnet.fields import Field
from pixpnet.model import Linear, PixPNet, picture_name


def explain(
    model: PixPNet, image: str | Path | Sample, classes: Sequence[str | int] = (), top: int = 10
) -> Explanation:
    """Why the model answers as it does, as the very sum that its head computes.

    Args:
        model: in eval mode.
        image: a picture file; or a sample, as it was read or already preprocessed.
        classes: further classes to explain, by name or label; where none but the answer is named, the runner-up.
        top: how many terms of a class are listed where the head connects it with all prototypes (linear, frozen); the
            others are summed up as `rest`. A class's own prototypes (class_sum, own_class) are all listed.

    Raises:
        ImageError: if the file cannot be read.
        UnknownClass: if a class is asked for that the model does not have.
        ValueError: if the model is in training mode, or its answer is not finite.

    >>> import numpy as np
    >>> from pixpnet import zoo
    >>> from pixpnet.data import Preprocessing
    >>> from pixpnet.data.sample import NO_ANNOTATION, source_sample
    >>> from pixpnet.model import Backbone
    >>> from pixpnet.recipe import Architecture
    >>> backbone = Backbone(zoo.build("small-21"), "", (32, 32))
    >>> model = PixPNet(backbone, Architecture(dim=8), ("jay", "wren"), Preprocessing(None, 32, 32)).eval()
    >>> black = source_sample(np.zeros((32, 32, 3), np.uint8), -1, "black", NO_ANNOTATION, masks=None)
    >>> explanation = explain(model, black)
    >>> len(explanation.predicted.terms), explanation.sight.cells
    (10, (4, 4))
    """
    if isinstance(classes, str):
        raise ValueError(f"classes is a list: classes=[{classes!r}]")
    if top < 1:
        raise ValueError(f"at least one term is listed, got top={top}")
    refuse_training_mode(model)
    asked = [label_of(which, model.class_names) for which in classes]
    sample = as_the_network_sees(model, image)
    pixels = sample.image.as_subclass(Tensor)
    with torch.no_grad():
        output = model(pixels[None].to(model.labels.device))
        logits = output.logits[0].tolist()
        if not all(map(math.isfinite, logits)):
            raise ValueError(f"the model's logits for {sample.id} are not finite: are there such numbers in the image?")
        order = sorted(range(len(logits)), key=lambda label: -logits[label])
        labels = [order[0], *(dict.fromkeys(label for label in asked if label != order[0]) or order[1:2])]
        matches = output.matches
        answer = _Answer(
            model,
            model.field_at(sample.size),
            matches.scores[0].tolist(),
            matches.distances[0].tolist(),
            matches.best[0].tolist(),
            matches.distance_maps.shape[-1],
            _folder_of(model),
        )
        weights = model.head.weights()[labels].tolist()
        shares = output.logits[0].double().softmax(dim=0)[labels].tolist()
    listed = top if isinstance(model.head, Linear) else len(answer.scores)
    explained = tuple(
        _explained(answer, label, logits[label], share, row, listed)
        for label, share, row in zip(labels, shares, weights, strict=True)
    )
    return Explanation(
        image=sample.id,
        size=sample.size,
        source_size=sample.source_size,
        to_source=_matrix(sample),
        pixels=to_uint8(pixels, model.preprocessing).tobytes(),
        class_names=model.class_names,
        logits=tuple(logits),
        classes=explained,
        head=model.architecture.head,
        explanation_size=explanation_size(model),
        sight=_sight(answer.field),
        model=_name(model),
    )


def as_the_network_sees(model: PixPNet, image: str | Path | Sample) -> Sample:
    """The image that the network gets: read where it is a file, preprocessed where it is not yet."""
    if isinstance(image, (str, Path)):
        image = replace(read_sample(Path(image)), id=str(image))
    if image.image.dtype == torch.uint8:
        return preprocess(image, model.preprocessing)
    if not image.image.is_floating_point():
        raise ValueError(
            f"{image.id}: an image is uint8 as read from its file, or float once preprocessed, got {image.image.dtype}"
        )
    return image


def refuse_training_mode(model: PixPNet) -> None:
    """What is explained is the network as it answers; in training mode, batch norm looks at other images too."""
    if _trains(model):
        raise ValueError("the model is in training mode, in which it answers differently: call model.eval() first")


def _trains(module: nn.Module) -> bool:
    # Half the time of `modules()`, which matters beside a small network.
    return module.training or any(map(_trains, module.children()))


@dataclass(frozen=True)
class _Answer:
    """What one forward pass says of one image, as plain numbers."""

    model: PixPNet
    field: Field
    scores: list[float]
    distances: list[float]
    best: list[int]
    cols: int
    pictures: "_Folder | None"


@dataclass(frozen=True)
class _Folder:
    """The pictures of prototypes that are there."""

    path: str
    names: frozenset[str]

    def file(self, name: str) -> str | None:
        return f"{self.path}/{name}" if name in self.names else None


def _explained(
    answer: _Answer, label: int, logit: float, share: float, weights: list[float], listed: int
) -> ClassExplanation:
    products = [weight * score for weight, score in zip(weights, answer.scores, strict=True)]
    # A weight of exactly 0 is no connection; a score of 0 is a term all the same.
    order = sorted((j for j, weight in enumerate(weights) if weight != 0), key=lambda j: -abs(products[j]))
    return ClassExplanation(
        label=label,
        class_name=answer.model.class_names[label],
        logit=logit,
        share=share,
        terms=tuple(_term(answer, j, weights[j], products[j]) for j in order[:listed]),
        rest=math.fsum(products[j] for j in order[listed:]),
        rest_terms=len(order[listed:]),
    )


def _term(answer: _Answer, prototype: int, weight: float, contribution: float) -> Term:
    model = answer.model
    cell = divmod(answer.best[prototype], answer.cols)
    label = prototype // model.architecture.prototypes_per_class
    name = picture_name(prototype, len(answer.scores))
    return Term(
        prototype=prototype,
        label=label,
        class_name=model.class_names[label],
        weight=weight,
        score=answer.scores[prototype],
        distance=answer.distances[prototype],
        contribution=contribution,
        cell=cell,
        region=tuple(Box(*box) for box in answer.field.boxes(*cell)),
        origin=None if model.origins is None else model.origins[prototype],
        crop=None if answer.pictures is None else answer.pictures.file(f"{name}.png"),
        picture=None if answer.pictures is None else answer.pictures.file(f"{name}.jpg"),
    )


def _sight(field: Field) -> Sight:
    _, rows, cols = field.shape
    return Sight(
        cells=(rows, cols),
        mean_fraction=field.mean_fraction_union,
        max_fraction=field.max_fraction,
        everything=field.fraction_that_sees_everything,
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
    return _Folder(str(path), frozenset(file.name for file in path.iterdir()))
