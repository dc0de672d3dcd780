"""Relevance inside a rectangle of a tensor's rows and columns, of some images of a batch.

A match begins at one cell, and what it was computed from grows layer by layer. Relevance is exactly zero everywhere
else, so only the rectangle that it can have reached is carried, and computed with. On windows, which are the images of
one batch, a cell was computed from one of them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Crop:
    """Relevance of a tensor, behind an axis of prototypes.

    Attributes:
        values: protos x the tensor's axes, of which the last two are those of the rectangle, and the first holds some
            images. Of tensors that have no batch, channels, rows and columns: all of it.
        shape: of the whole tensor.
        top, left: the first row and column.
        first: the first image of the batch.
    """

    values: Tensor
    shape: torch.Size
    top: int = 0
    left: int = 0
    first: int = 0

    @property
    def is_whole(self) -> bool:
        """The rectangle is all of the tensor."""
        return self.values.shape[1:] == self.shape

    def whole(self) -> Tensor:
        """The relevance of the whole tensor."""
        if self.is_whole:
            return self.values
        result = self.values.new_zeros(len(self.values), *self.shape)
        self.of(result).copy_(self.values)
        return result

    def of(self, tensor: Tensor) -> Tensor:
        """The same rectangle of another tensor of this batch, these rows and columns."""
        if self.is_whole:
            return tensor
        images, _, rows, cols = self.values.shape[1:]
        chosen = slice(self.first, self.first + images)
        return tensor[..., chosen, :, self.top : self.top + rows, self.left : self.left + cols]

    def plus(self, other: "Crop") -> "Crop":
        """The sum, on a rectangle that holds both."""
        if self.is_whole and other.is_whole:
            return Crop(self.values + other.values, self.shape)
        first, top, left = (min(starts) for starts in zip(self._start, other._start, strict=True))
        last, bottom, right = (max(ends) for ends in zip(self._end, other._end, strict=True))
        protos, channels = self.values.shape[0], self.values.shape[2]
        larger, smaller = (self, other) if self.values.numel() >= other.values.numel() else (other, self)
        if (larger._start, larger._end) == ((first, top, left), (last, bottom, right)):
            sum_of_both, crops = larger.values.clone(), [smaller]
        else:
            rows, cols = bottom - top, right - left
            # Channels last, as networks are run.
            sum_of_both = self.values.new_zeros(protos, last - first, rows, cols, channels).permute(0, 1, 4, 2, 3)
            crops = [larger, smaller]
        for crop in crops:
            images, _, rows, cols = crop.values.shape[1:]
            after, down, across = crop.first - first, crop.top - top, crop.left - left
            sum_of_both[:, after : after + images, :, down : down + rows, across : across + cols] += crop.values
        return Crop(sum_of_both, self.shape, top, left, first)

    @property
    def rectangle(self) -> tuple[tuple[int, int, int], tuple[int, ...]]:
        """Where it begins (image, row, column) and how large it is: images, channels, rows, columns."""
        return self._start, tuple(self.values.shape[1:])

    @property
    def _start(self) -> tuple[int, int, int]:
        return self.first, self.top, self.left

    @property
    def _end(self) -> tuple[int, int, int]:
        images, _, rows, cols = self.values.shape[1:]
        return self.first + images, self.top + rows, self.left + cols


def cropped(values: Tensor) -> Crop:
    """The smallest rectangle outside of which relevance (protos x a tensor's axes) is zero; one cell if all of it is.

    >>> values = torch.zeros(1, 1, 1, 5, 5)
    >>> values[..., 1:3, 2] = 1
    >>> crop = cropped(values)
    >>> crop.top, crop.left, tuple(crop.values.shape)
    (1, 2, (1, 1, 1, 2, 1))
    """
    shape = values.shape[1:]
    if len(shape) != 4 or not values.numel():
        return Crop(values, shape)
    images = _ends(values.amax(dim=(0, 2, 3, 4)) > 0)
    some = values[:, images[0] : images[1]]
    reached = some.amax(dim=(0, 1, 2)) > 0
    (top, bottom), (left, right) = (_ends(reached.any(dim=dim)) for dim in (1, 0))
    return Crop(some[..., top:bottom, left:right], shape, top, left, images[0])


def _ends(reached: Tensor) -> tuple[int, int]:
    places = reached.nonzero().flatten().tolist() or [0]
    return places[0], places[-1] + 1
