"""The one record that every data set yields and every later stage reads: an image and what is known about it.

Two frames: `source` is the upright image in the file, `pixel` is the image held here. A freshly read sample
is its own source; a transformed one knows the way back (`to_source`). Coordinates are continuous: the pixel
in row `r` and column `c` covers `[c, c + 1) x [r, r + 1)`.

A *part* (wing) may have several *points* (left wing, right wing; App. J): the data set's `point_parts` says
which part each point belongs to.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Shaped
from torch import Tensor
from torchvision import tv_tensors

from pixpnet.box import Box


@dataclass(frozen=True)
class Sample:
    """An image with its label and annotations, in the `pixel` frame.

    Attributes:
        image: uint8 RGB as decoded, or float32 once normalised.
        label: the class, an index into the data set's `class_names`.
        id: stable name of the image, the same on every machine.
        source_size: height and width of the image in the file.
        to_source: takes (x, y, 1) of the `pixel` frame to the `source` frame.
        keypoints: x and y of each annotated point; of no meaning where not visible.
        visible: which points are annotated, unoccluded and inside the image.
        masks: for each part the pixels that show it, where the data set knows.
        bounding_box: around the object, x0 y0 x1 y1, where the data set knows; see `box`.
    """

    image: Shaped[tv_tensors.Image, "3 height width"]
    label: int
    id: str
    source_size: tuple[int, int]
    to_source: Float64[Tensor, "3 3"]
    keypoints: Float[tv_tensors.KeyPoints, "points 2"]
    visible: Bool[Tensor, " points"]
    masks: Bool[tv_tensors.Mask, "parts height width"] | None = None
    bounding_box: Float[tv_tensors.BoundingBoxes, "1 4"] | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the image held here."""
        return self.image.shape[-2], self.image.shape[-1]

    @property
    def box(self) -> Box | None:
        """The smallest box of whole pixels around the object, cut to the image; empty when it is outside."""
        if self.bounding_box is None:
            return None
        height, width = self.size
        x0, y0, x1, y1 = self.bounding_box[0].tolist()
        top, left = min(max(int(np.floor(y0)), 0), height), min(max(int(np.floor(x0)), 0), width)
        bottom, right = min(max(int(np.ceil(y1)), top), height), min(max(int(np.ceil(x1)), left), width)
        return Box(top, left, bottom, right)


@dataclass(frozen=True)
class Annotation:
    """What a data set knows about an image before it is decoded, in the `source` frame.

    Attributes:
        keypoints: x and y of each point.
        visible: which of them can be seen.
        bounding_box: x0 y0 x1 y1, possibly reaching out of the image.
    """

    keypoints: Float64[np.ndarray, "points 2"]
    visible: Bool[np.ndarray, " points"]
    bounding_box: tuple[float, float, float, float] | None = None


NO_ANNOTATION = Annotation(np.zeros((0, 2)), np.zeros(0, dtype=bool))


def source_sample(
    image: Shaped[np.ndarray, "height width 3"],
    label: int,
    id: str,  # noqa: A002  the sample's field
    annotation: Annotation,
    masks: Bool[np.ndarray, "parts height width"] | None,
) -> Sample:
    """A sample that is its own source: nothing has moved, and points outside the image are not visible."""
    size = image.shape[0], image.shape[1]
    box = annotation.bounding_box
    return Sample(
        image=tv_tensors.Image(torch.from_numpy(image).permute(2, 0, 1)),
        label=label,
        id=id,
        source_size=size,
        to_source=torch.eye(3, dtype=torch.float64),
        keypoints=keypoints_in(annotation.keypoints, size),
        visible=torch.from_numpy(annotation.visible & inside(annotation.keypoints, size)),
        masks=None if masks is None else tv_tensors.Mask(torch.from_numpy(masks)),
        bounding_box=None if box is None else box_in(box, size),
    )


def inside(points: Float64[np.ndarray, "points 2"], size: tuple[int, int]) -> Bool[np.ndarray, " points"]:
    """Which points (x, y) lie in an image of this height and width."""
    limits = np.array([size[1], size[0]])
    return np.asarray(((points >= 0) & (points < limits)).all(axis=1))


def keypoints_in(points: Float64[np.ndarray, "points 2"], size: tuple[int, int]) -> tv_tensors.KeyPoints:
    """Points as torchvision carries them."""
    return tv_tensors.KeyPoints(torch.from_numpy(points.astype(np.float32)), canvas_size=size)


def box_in(box: tuple[float, float, float, float], size: tuple[int, int]) -> tv_tensors.BoundingBoxes:
    """A box x0 y0 x1 y1 as torchvision carries it."""
    return tv_tensors.BoundingBoxes(
        torch.tensor([box], dtype=torch.float32), format=tv_tensors.BoundingBoxFormat.XYXY, canvas_size=size
    )
