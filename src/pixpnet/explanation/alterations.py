"""Pictures in which one quality of a region is changed: colour, hue, saturation, contrast, texture or shape.

Pixels are RGB from 0 to 1. Pixels outside the region are never touched, and never mixed into it. Colours are taken
apart into brightness (luma of Rec. 601) and the rest, so that changes of colour leave the brightness of every pixel as
it is, and changes of contrast leave its colour. Where a changed colour would leave the range of the screen, it is made
less saturated until it fits.
"""

from collections.abc import Callable, Iterator
from math import cos, pi, sin

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from pixpnet.explanation.quality import QualityName

Image = Float[Tensor, "3 height width"]
Mask = Bool[Tensor, "height width"]

# Turns of the colour circle, in degrees.
_TURNS = (90.0, 180.0, 270.0)
# Times the saturation, and times the contrast.
_FACTORS = (0.5, 2.0)
# Blocks along each side that are shuffled, and how often.
_BLOCKS, _SHUFFLES = 4, 3
# Of a region's shorter side: the width (sigma) of the low-pass that removes texture.
_BLUR = 1 / 16
_LUMA = (0.299, 0.587, 0.114)
# From RGB to two axes of colour at right angles to each other (I and Q of YIQ), and back.
_TO_COLOR = ((0.595716, -0.274453, -0.321263), (0.211456, -0.522591, 0.311135))
_FROM_COLOR = ((0.956296, 0.621024), (-0.272122, -0.647381), (-1.106989, 1.704615))


def alterations(image: Image, region: Mask, quality: QualityName, seed: int) -> Iterator[Image]:
    """The image with one quality of a region changed, in as many ways as the quality has.

    Args:
        image: RGB, 0 to 1.
        region: whose pixels may change; at least one.
        quality: that is changed.
        seed: of shuffles.
    """
    rows, cols = (region.any(dim=dim).nonzero() for dim in (1, 0))
    box = (slice(int(rows.min()), int(rows.max()) + 1), slice(int(cols.min()), int(cols.max()) + 1))
    pixels, inside = image[:, box[0], box[1]], region[box]
    for changed in _WAYS[quality](pixels, inside, seed):
        altered = image.clone()
        altered[:, box[0], box[1]] = torch.where(inside, changed.clamp(0, 1), pixels)
        yield altered


def _without_color(pixels: Image, inside: Mask, seed: int) -> Iterator[Image]:
    yield _luma(pixels).expand_as(pixels)


def _turned(pixels: Image, inside: Mask, seed: int) -> Iterator[Image]:
    luma = _luma(pixels)
    axes = torch.einsum("ac,chw->ahw", pixels.new_tensor(_TO_COLOR), pixels)
    for degrees in _TURNS:
        angle = degrees * pi / 180
        turn = pixels.new_tensor(((cos(angle), -sin(angle)), (sin(angle), cos(angle))))
        yield _in_range(luma, torch.einsum("ca,ab,bhw->chw", pixels.new_tensor(_FROM_COLOR), turn, axes))


def _saturated(pixels: Image, inside: Mask, seed: int) -> Iterator[Image]:
    luma = _luma(pixels)
    for factor in _FACTORS:
        yield _in_range(luma, factor * (pixels - luma))


def _contrasted(pixels: Image, inside: Mask, seed: int) -> Iterator[Image]:
    luma = _luma(pixels)
    mean = luma[:, inside].mean()
    for factor in _FACTORS:
        yield _in_range((mean + factor * (luma - mean)).clamp(0, 1), pixels - luma)


def _smoothed(pixels: Image, inside: Mask, seed: int) -> Iterator[Image]:
    """A Gaussian low-pass that reads the region alone: outside weighs nothing."""
    sigma = max(1.0, _BLUR * min(inside.shape))
    weights = inside.to(pixels.dtype)
    yield _low_pass(pixels * weights, sigma) / _low_pass(weights[None], sigma).clamp_min(1e-12)


def _shuffled(pixels: Image, inside: Mask, seed: int) -> Iterator[Image]:
    """Blocks in another order, each somewhere else; one that is not wholly in the region, or in the box, stays."""
    count = [min(_BLOCKS, side) for side in inside.shape]
    height, width = (side // number for side, number in zip(inside.shape, count, strict=True))
    tiles = [
        (slice(row * height, (row + 1) * height), slice(col * width, (col + 1) * width))
        for row in range(count[0])
        for col in range(count[1])
    ]
    tiles = [tile for tile in tiles if inside[tile].all()]
    generator = torch.Generator().manual_seed(seed)
    for _ in range(_SHUFFLES):
        # A random order, then each block takes the one after it: none stays where it is.
        order = torch.randperm(len(tiles), generator=generator).tolist()
        shuffled = pixels.clone()
        for target, source in zip(order, order[1:] + order[:1], strict=True):
            shuffled[:, tiles[target][0], tiles[target][1]] = pixels[:, tiles[source][0], tiles[source][1]]
        yield shuffled


_WAYS: dict[QualityName, Callable[[Image, Mask, int], Iterator[Image]]] = {
    "color": _without_color,
    "hue": _turned,
    "saturation": _saturated,
    "contrast": _contrasted,
    "texture": _smoothed,
    "shape": _shuffled,
}


def _luma(pixels: Image) -> Float[Tensor, "1 height width"]:
    return torch.einsum("c,chw->hw", pixels.new_tensor(_LUMA), pixels)[None]


def _in_range(luma: Float[Tensor, "1 height width"], color: Image) -> Image:
    """Brightness plus colour, the colour made smaller where the sum would not be from 0 to 1."""
    room = torch.where(color > 0, 1 - luma, luma) / color.abs().clamp_min(1e-12)
    return luma + color * room.amin(dim=0, keepdim=True).clamp(0, 1)


def _low_pass(maps: Float[Tensor, "channels height width"], sigma: float) -> Float[Tensor, "channels height width"]:
    reach = int(3 * sigma + 0.5)
    offsets = torch.arange(-reach, reach + 1, dtype=maps.dtype, device=maps.device)
    kernel = torch.exp(-0.5 * (offsets / sigma) ** 2)
    rows = F.conv2d(maps[:, None], kernel[None, None, :, None], padding=(reach, 0))
    return F.conv2d(rows, kernel[None, None, None, :], padding=(0, reach))[:, 0]
