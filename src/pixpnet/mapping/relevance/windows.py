"""The way back through a window that moves over rows and columns, for a rectangle of the result."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pixpnet.mapping.relevance.crops import Crop
from pixpnet.tracing import TracedStep
from pixpnet.tracing.program import pair


@dataclass(frozen=True)
class Reach:
    """What the windows of a rectangle read, before the edges of the input cut it off; may begin above the first row.

    Attributes:
        top, left: its first row and column in the input.
        rows, cols: how many.
        shape: of the input.
        first: image of the batch.
    """

    top: int
    left: int
    rows: int
    cols: int
    shape: torch.Size
    first: int = 0

    def room(self, like: Tensor) -> Tensor:
        """A tensor of this size, one for each prototype and image of `like` (relevance); not to be read."""
        protos, batch = like.shape[:2]
        room = like.new_empty(protos * batch, self.rows, self.cols, self.shape[1])
        return room.permute(0, 3, 1, 2)  # channels last, as networks are run

    def read(self, values: Tensor, images: int) -> Tensor:
        """What the windows read of some images of the input: zeros beyond its edges."""
        (height, width), channels = self.shape[-2:], values.shape[1]
        result = values.new_zeros(images, self.rows, self.cols, channels).permute(0, 3, 1, 2)
        top, left = max(self.top, 0), max(self.left, 0)
        bottom, right = min(self.top + self.rows, height), min(self.left + self.cols, width)
        if bottom > top and right > left:
            inside = values[self.first : self.first + images, :, top:bottom, left:right]
            result[..., top - self.top : bottom - self.top, left - self.left : right - self.left] = inside
        return result

    def clipped(self, values: Tensor) -> Crop:
        """What lies inside of the input (all of it, where the windows read nothing but padding: of nothing)."""
        height, width = self.shape[-2:]
        top, left = min(max(self.top, 0), height - 1), min(max(self.left, 0), width - 1)
        bottom, right = min(self.top + self.rows, height), min(self.left + self.cols, width)
        if bottom <= top or right <= left:
            return Crop(values.new_zeros(*values.shape[:-2], 1, 1), self.shape, top, left, self.first)
        inside = values[..., top - self.top : bottom - self.top, left - self.left : right - self.left]
        return Crop(inside, self.shape, top, left, self.first)


def reach(crop: Crop, shape: torch.Size, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Reach:
    """What the windows of a rectangle of the result read in an input of a shape; the others as torch has them."""
    rows, cols = crop.values.shape[-2:]
    sizes = (pair(kernel), pair(stride), pair(padding), pair(dilation))
    (top, height), (left, width) = (
        (first * step - pad, (count - 1) * step + gap * (size - 1) + 1)
        for first, count, size, step, pad, gap in zip((crop.top, crop.left), (rows, cols), *sizes, strict=True)
    )
    return Reach(top, left, height, width, shape, crop.first)


def to_the_largest(crop: Crop, step: TracedStep, indices: Tensor) -> Crop:
    """All relevance of a maximum to the element that was the largest.

    Args:
        crop: of the result of a max-pool.
        step: the max-pool.
        indices: of the largest elements, in rows x columns of the input.
    """
    kernel = step["kernel_size"]
    stride, dilation = step.get("stride", []) or kernel, step.get("dilation", 1)
    shape = step.inputs[0].shape
    window = reach(crop, shape, kernel, stride, step.get("padding", 0), dilation)
    (channels, height, width), (protos, images) = shape[1:], crop.values.shape[:2]
    top, bottom = max(window.top, 0), min(window.top + window.rows, height)
    # Into whole rows, channels last, as networks are run: a place is then the index of the largest, and its channel.
    places = crop.of(indices).permute(0, 2, 3, 1) * channels
    places += torch.arange(channels, device=places.device) - top * width * channels
    moved = crop.values.new_zeros(protos * images, (bottom - top) * width * channels)
    moved.scatter_add_(
        1,
        places.reshape(1, images, -1).expand(protos, -1, -1).flatten(0, 1),
        crop.values.permute(0, 1, 3, 4, 2).reshape(protos * images, -1),
    )
    rows = moved.view(protos, images, bottom - top, width, channels).permute(0, 1, 4, 2, 3)
    left, right = max(window.left, 0), min(window.left + window.cols, width)
    return Crop(rows[..., left:right], shape, top, left, crop.first)
