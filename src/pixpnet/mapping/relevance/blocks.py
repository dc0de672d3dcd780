"""The way back through a convolution with a stride to very few channels, such as the colours of an image.

Convolutions compute a whole vector of channels at a time, wanted or not, so the way back to six takes as long as to
sixteen. Here it is a convolution without a stride to blocks of pixels, whose pixels are channels of the result: the
same products and sums, in vectors that are fuller.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from pixpnet.tracing.program import pair

# Half of the channels that are computed at a time.
_FEW = 8


@dataclass(frozen=True)
class Blocks:
    """The transpose of a convolution without padding.

    Attributes:
        weight: of a convolution to the pixels of a block, rows before columns before channels.
        sides: of a block in pixels, which are the strides of the transposed convolution.
    """

    weight: Tensor
    sides: tuple[int, int]

    def __call__(self, outputs: Tensor) -> Tensor:
        """The inputs of some outputs; rows and columns that none of these was computed from may follow, all zero."""
        around = [taps - 1 for taps in self.weight.shape[2:]]
        blocks: Tensor = torch.ops.aten.convolution(outputs, self.weight, None, [1, 1], around, [1, 1], False, [0], 1)
        pixels: Tensor = blocks.permute(0, 2, 3, 1).unflatten(3, (*self.sides, -1)).transpose(2, 3)
        return pixels.flatten(3, 4).flatten(1, 2).permute(0, 3, 1, 2)


def blocks_of(weight: Tensor, stride: Any, dilation: Any, groups: int) -> Blocks | None:
    """The way back by blocks; None for layers that gain nothing by it."""
    sides = pair(stride)
    if weight.ndim != 4 or weight.shape[1] > _FEW or groups > 1 or pair(dilation) != (1, 1) or max(sides) == 1:
        return None
    rows, cols = (_taps(kernel, side).to(weight.device) for kernel, side in zip(weight.shape[2:], sides, strict=True))
    with_zeros = F.pad(weight, (0, 1, 0, 1))  # behind the last row and column
    arranged = with_zeros[:, :, rows][..., cols].permute(2, 4, 1, 0, 3, 5)
    return Blocks(arranged.flatten(0, 2).contiguous(memory_format=torch.channels_last), sides)


def _taps(kernel: int, stride: int) -> Tensor:
    """Which tap of a kernel leads from an output to a pixel of a block: pixels x outputs that reach it.

    Where none does it is the one behind the last.

    >>> _taps(3, 2)
    tensor([[2, 0],
            [3, 1]])
    """
    reaching = -(-kernel // stride)
    taps = torch.arange(stride)[:, None] + stride * torch.arange(reaching - 1, -1, -1)
    return taps.where(taps < kernel, kernel)
