"""A network that finds colours, and pictures of coloured squares with points on them: all computable on paper.

Each cell is the mean of a square of pixels (4 x 4, or `side`) and sees that square and nothing else. The prototypes
are red and yellow (class 0), blue and white (class 1); each is found in the square of its colour.
"""

import pixpnet._torchvision  # noqa: F401  isort: skip  before torchvision

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torchvision import tv_tensors

from pixpnet.box import Box
from pixpnet.data import Augmentation, DataSet, Entry, LockedSplit, Sample
from pixpnet.data.sample import keypoints_in
from pixpnet.model import Origin, PixPNet
from tests.explanation.toys import BLACK, BLUE, PLAIN, RED, WHITE, YELLOW, toy

__all__ = ["BLACK", "BLUE", "IDENTITY", "PLAIN", "RED", "WHITE", "YELLOW"]

IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
Color = tuple[int, int, int]
TOP_LEFT, TOP_RIGHT = (Box(0, 0, 4, 4),), (Box(0, 4, 4, 8),)
BOTTOM_LEFT, BOTTOM_RIGHT = (Box(4, 0, 8, 4),), (Box(4, 4, 8, 8),)


def finder(side: int = 4, **preprocessing: object) -> PixPNet:
    """The network, for pictures of 8 x 8."""
    return toy(nn.AvgPool2d(side), **preprocessing)


def picture(
    squares: Sequence[Sequence[Color]],
    points: Sequence[tuple[float, float] | None],
    label: int = 0,
    name: str = "a",
    masks: Tensor | None = None,
) -> Sample:
    """A normalised 8 x 8 picture of 2 x 2 squares; a point (x, y) that is None cannot be seen."""
    pixels = torch.tensor(squares, dtype=torch.float32).permute(2, 0, 1)
    return Sample(
        image=tv_tensors.Image(pixels.repeat_interleave(4, 1).repeat_interleave(4, 2)),
        label=label,
        id=name,
        source_size=(8, 8),
        to_source=torch.eye(3, dtype=torch.float64),
        keypoints=keypoints_in(
            torch.tensor([point or (0.0, 0.0) for point in points]).reshape(-1, 2).double().numpy(), (8, 8)
        ),
        visible=torch.tensor([point is not None for point in points], dtype=torch.bool),
        masks=None if masks is None else tv_tensors.Mask(masks),
    )


def as_read(sample: Sample) -> Sample:
    """The same picture as a data set reads it."""
    return replace(sample, image=tv_tensors.Image((255 * sample.image.as_subclass(Tensor)).to(torch.uint8)))


def data_of(
    train: Sequence[Sample], val: Sequence[Sample] = (), point_parts: tuple[int, ...] = (0, 1), classes: int = 2
) -> DataSet:
    """A data set of pictures that are there already."""
    remaining = {sample.id: as_read(sample) for sample in (*train, *val)}

    def read(entry: Entry) -> Sample:
        return remaining[entry.id]

    reader: Callable[[Entry], Sample] = read
    return DataSet(
        name="squares",
        class_names=tuple(f"class {label}" for label in range(classes)),
        part_names=tuple(f"part {part}" for part in sorted(set(point_parts))),
        point_parts=point_parts,
        train=tuple(Entry(sample.id, sample.label, "train") for sample in train),
        val=tuple(Entry(sample.id, sample.label, "val") for sample in val),
        test=LockedSplit("squares", ()),
        reader=reader,
        preprocessing=PLAIN,
        augmentation=Augmentation(),
    )


def origin(prototype: int, image: str, region: tuple[Box, ...], matrix: tuple[float, ...] = IDENTITY) -> Origin:
    """A patch of a picture; prototypes 0 and 1 are of class 0, 2 and 3 of class 1."""
    return Origin(prototype, prototype // 2, image, 0, 0, region, matrix, 0.0, "image")  # type: ignore[arg-type]
