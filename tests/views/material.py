"""What the tests of views share: explanations made by hand, with drawn birds in them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from pixpnet.box import Box
from pixpnet.data.birds import draw_bird
from pixpnet.explanation.record import ClassExplanation, Explanation, Proof, Sight, Term, Trial
from pixpnet.model import Origin
from pixpnet.training.crops import crop

SIZE = 96
UNIT = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
HOSTILE = "<script>alert(1)</script> \"quoted\" & 'apostrophes' {{ 7 * 7 }} $x^2$"


def bird(number: int) -> np.ndarray:
    """A drawn bird as a picture of 96 x 96."""
    return draw_bird(seed=3, index=number, species=number % 12, size=(SIZE, SIZE)).image


def write_pictures(folder: Path, origin: Origin) -> None:
    """Both pictures of a prototype, as a run has them."""
    pixels = bird(origin.prototype)
    crop(pixels, origin).save(folder / f"{origin.prototype}.png")
    Image.fromarray(pixels).save(folder / f"{origin.prototype}.jpg", quality=92)


def box_at(index: int, side: int = 37) -> Box:
    """A window somewhere on the image."""
    y, x = (17 * index) % (SIZE - side), (29 * index) % (SIZE - side)
    return Box(y, x, y + side, x + side)


def comb(step: int = 4) -> tuple[Box, ...]:
    """A region with many holes, as behind a dilated convolution."""
    return tuple(Box(y, x, y + 1, x + 1) for y in range(8, 72, step) for x in range(4, 68, step))


def proof(passed: bool = True, upsampling: float = 0.37, whole: bool = False) -> Proof:
    region = (Box(10, 10, 40, 44),)
    outside = SIZE * SIZE - 30 * 34
    held = Trial(region, 0.0 if passed else 0.25, 0.0 if passed else 0.1, passed, outside)
    if whole:
        held = Trial((Box(0, 0, SIZE, SIZE),), 0.0, 0.0, True, 0)
    return Proof(
        6, 0, 1e-5, held, Trial(region, upsampling, upsampling, upsampling == 0, outside), 1.9, 0.04, "training images"
    )


def term(
    index: int,
    label: int = 0,
    name: str = "jay",
    weight: float = 1.0,
    region: tuple[Box, ...] | None = None,
    pictures: Path | None = None,
    proven: Proof | None = None,
) -> Term:
    number = 10 * label + index
    score = 3.2 - 0.2 * index
    boxes = (box_at(index + 3),)
    origin = Origin(number, label, f"train/{name}/{number}.png", 1, 2, boxes, UNIT, 0.013, "image")
    if pictures is not None:
        write_pictures(pictures, origin)
    return Term(
        prototype=number,
        label=label,
        class_name=name,
        weight=weight,
        score=score,
        distance=0.04,
        contribution=weight * score,
        cell=(1, 2),
        region=(box_at(index),) if region is None else region,
        origin=origin,
        crop=None if pictures is None else str(pictures / f"{number}.png"),
        picture=None if pictures is None else str(pictures / f"{number}.jpg"),
        proof=proven,
    )


def explained(label: int, name: str, terms: Sequence[Term], rest: float = 0.0, rest_terms: int = 0) -> ClassExplanation:
    logit = sum(item.contribution for item in terms) + rest
    return ClassExplanation(label, name, logit, 0.7 if label == 0 else 0.2, tuple(terms), rest, rest_terms)


def explanation(
    classes: Sequence[ClassExplanation], head: str = "class_sum", everything: float = 0.0, image: str = "jay.jpg"
) -> Explanation:
    names = (*(explained.class_name for explained in classes), "other")
    return Explanation(
        image=image,
        size=(SIZE, SIZE),
        source_size=(SIZE, SIZE),
        to_source=UNIT,
        pixels=bird(5).tobytes(),
        class_names=names,
        logits=(*(explained.logit for explained in classes), 0.0),
        classes=tuple(classes),
        head=head,
        explanation_size=(10, 10),
        sight=Sight((12, 12), 1.0 if everything == 1 else 0.27, 1.0 if everything else 0.4, everything),
        model="small-61",
    )
