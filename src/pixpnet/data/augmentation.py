"""The random choices of the paper's augmentation (App. E), apart from what is done with them.

All randomness of one augmented view is a `Draw`: plain numbers that do not depend on the image. `fused.py`
turns a draw and an image into the network's input with one resampling; `steps.py` does the same step by step,
with torchvision, as the paper prints it.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

_VIEW, _ORDER = 1, 2
_CORNERS = ((1, 1), (-1, 1), (-1, -1), (1, -1))


@dataclass(frozen=True)
class Augmentation:
    """The paper's augmentation and its defaults (App. E); geometry and normalisation are in `Preprocessing`.

    Attributes:
        factor: how many augmented views of each image an epoch holds.
        blur_probability: of a Gaussian blur ...
        blur_kernel: ... with a kernel of this side ...
        blur_sigma: ... and a sigma drawn from this range, in pixels of the resized image.
        sharpen_probability: of an adjustment of the sharpness ...
        sharpness: ... by this factor.
        rotate_probability: of a rotation ...
        max_rotation: ... by at most this many degrees either way.
        perspective_probability: of a perspective distortion ...
        perspective_scale: ... in which each corner moves inwards by at most this fraction of half a side.
        shear_probability: of a horizontal shear ...
        max_shear: ... by at most this many degrees either way.
        flip_probability: of a horizontal flip.
        max_zoom: the crop is smaller by a factor between 1 and this (1 in the paper, whose crop has room to move).
    """

    factor: int = 16
    blur_probability: float = 1 / 10
    blur_kernel: int = 5
    blur_sigma: tuple[float, float] = (0.1, 5.0)
    sharpen_probability: float = 1 / 10
    sharpness: float = 1.5
    rotate_probability: float = 1 / 3
    max_rotation: float = 15.0
    perspective_probability: float = 1 / 3
    perspective_scale: float = 0.2
    shear_probability: float = 1 / 3
    max_shear: float = 10.0
    flip_probability: float = 1 / 2
    max_zoom: float = 1.0

    def __post_init__(self) -> None:
        if self.factor < 1:
            raise ValueError(f"the augmentation factor is at least 1, got {self.factor}")
        if self.max_zoom < 1:
            raise ValueError(f"max_zoom is at least 1, got {self.max_zoom}")
        if self.blur_kernel % 2 == 0 or self.blur_kernel < 1:
            raise ValueError(f"a blur kernel has an odd, positive side, got {self.blur_kernel}")


@dataclass(frozen=True)
class Draw:
    """One outcome of every random choice; None where a step is left out.

    Attributes:
        blur_sigma: in pixels of the resized image.
        sharpen: whether the sharpness is adjusted.
        rotation: degrees, counter-clockwise.
        corners: for each corner, clockwise from the top left, by how much of width and height it moves right
            and down.
        shear: degrees.
        flip: whether left becomes right.
        crop: where the crop lies in the room that is left for it, 0-1 for x and y.
        zoom: by what the crop's side is divided.
    """

    blur_sigma: float | None
    sharpen: bool
    rotation: float | None
    corners: tuple[tuple[float, float], ...] | None
    shear: float | None
    flip: bool
    crop: tuple[float, float]
    zoom: float = 1.0

    def crop_square(self, size: tuple[int, int], crop: int) -> "Square":
        """A square crop of an image of this height and width, each place equally likely.

        Along an axis that is shorter than the crop, which a padded picture may have, the image lies in the middle.
        """
        side = max(1, round(crop / self.zoom))
        (height, width), (x, y) = size, self.crop
        left = int(x * (width - side + 1)) if width >= side else (width - side) // 2
        top = int(y * (height - side + 1)) if height >= side else (height - side) // 2
        return Square(left, top, side)


class Square(NamedTuple):
    """A square in an image, in pixels; it may reach beyond the image."""

    left: int
    top: int
    side: int


def draw(augmentation: Augmentation, generator: np.random.Generator) -> Draw:
    """Decides everything that is random about one augmented view.

    Args:
        augmentation: the probabilities and ranges.
        generator: 20 numbers are taken from it, whatever the outcome.
    """
    whether, amounts, zoom = generator.random(6), generator.random(13), generator.random()
    low, high = augmentation.blur_sigma
    inward = amounts[5:].reshape(4, 2) * augmentation.perspective_scale / 2
    corners = tuple((float(x * right), float(y * down)) for (x, y), (right, down) in zip(inward, _CORNERS, strict=True))
    return Draw(
        blur_sigma=float(low + (high - low) * amounts[0]) if whether[0] < augmentation.blur_probability else None,
        sharpen=bool(whether[1] < augmentation.sharpen_probability),
        rotation=_either_way(augmentation.max_rotation, amounts[1], whether[2] < augmentation.rotate_probability),
        corners=corners if whether[3] < augmentation.perspective_probability else None,
        shear=_either_way(augmentation.max_shear, amounts[2], whether[4] < augmentation.shear_probability),
        flip=bool(whether[5] < augmentation.flip_probability),
        crop=(float(amounts[3]), float(amounts[4])),
        zoom=float(augmentation.max_zoom**zoom),
    )


def view_generator(seed: int, epoch: int, view: int) -> np.random.Generator:
    """The randomness of one view: a function of its arguments and of nothing that ran before."""
    return np.random.default_rng([_VIEW, seed, epoch, view])


def order_generator(seed: int, epoch: int) -> np.random.Generator:
    """The randomness of one epoch's order."""
    return np.random.default_rng([_ORDER, seed, epoch])


def _either_way(limit: float, amount: float, happens: bool | np.bool_) -> float | None:
    return float(limit * (2 * amount - 1)) if happens else None
