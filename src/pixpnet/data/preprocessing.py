"""From the file to the network at test time: resize, centre crop, downsample, normalise (App. E).

`Preprocessing` is what a trained model must remember to read new images the way it was taught.
"""

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import cv2
import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torchvision import tv_tensors

from pixpnet.data import homography
from pixpnet.data.homography import Matrix
from pixpnet.data.resample import as_image, moved, normalized, pixels_of, warped
from pixpnet.data.sample import Sample
from pixpnet.records import ADDED_LATER

if TYPE_CHECKING:
    from pixpnet.data.pictures import Picture

Channels = tuple[float, float, float]


@dataclass(frozen=True)
class Preprocessing:
    """Sizes and statistics between a file and the network; the defaults are the paper's for CUB-200-2011.

    Attributes:
        shortest_side: what the shortest side is resized to first; None keeps the file's size, unless that is
            smaller than the crop, and then the shortest side becomes the crop (the paper omits this step for
            ImageNette, whose few tiny images would otherwise not hold a crop).
        crop: side of the square that is cut out.
        size: side of the network's input.
        mean: of each channel over the training images, 0-1.
        std: standard deviation of each channel, 0-1.
        frame: how a picture that is not square becomes a square. "crop" is the paper's: the shortest side is resized
            and the middle cut out, so what lies at the border is lost (only 14 % of CUB's birds stay whole). "stretch"
            shows the whole picture and changes its aspect; "pad" shows all of it in its aspect, on black. Both bring
            the picture to `crop` and have no `shortest_side`.
    """

    shortest_side: int | None = 510
    crop: int = 384
    size: int = 224
    mean: Channels = (0.4862, 0.5005, 0.4334)
    std: Channels = (0.2321, 0.2277, 0.2665)
    frame: Literal["crop", "stretch", "pad"] = field(default="crop", metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        if self.frame != "crop" and self.shortest_side is not None:
            raise ValueError(f"the frame {self.frame} shows the whole picture and has no shortest_side: set it to None")
        if self.crop < 1 or self.size < 1:
            raise ValueError(f"crop and size must be positive, got crop={self.crop}, size={self.size}")
        if self.shortest_side is not None and self.shortest_side < self.crop:
            raise ValueError(
                f"a crop of {self.crop} does not fit into a shortest side of {self.shortest_side}: lower crop"
            )
        if min(self.std) <= 0:
            raise ValueError(f"std must be positive, got {self.std}: are all training images one colour?")

    def scaled_to(self, size: int) -> "Preprocessing":
        """The same proportions for another input size.

        >>> half = Preprocessing().scaled_to(112)
        >>> half.shortest_side, half.crop, half.size
        (255, 192, 112)
        """
        factor = size / self.size
        shortest = None if self.shortest_side is None else round(self.shortest_side * factor)
        return replace(self, shortest_side=shortest, crop=round(self.crop * factor), size=size)

    def framed(self, frame: Literal["crop", "stretch", "pad"]) -> "Preprocessing":
        """The same input size with another frame; "crop" has the paper's proportions.

        >>> Preprocessing().framed("pad").resized((300, 400))
        (288, 384)
        """
        if frame == self.frame:
            return self
        if frame == "crop":
            paper = Preprocessing()
            return replace(paper, mean=self.mean, std=self.std).scaled_to(self.size)
        return replace(self, frame=frame, shortest_side=None)

    def __call__(self, picture: "Picture") -> Float[Tensor, "3 size size"]:
        """A picture, wherever it is (file, bytes, PIL image, array, tensor), as a network gets it.

        Raises:
            ImageError: if it cannot be read.
            TypeError: if it is no picture.
        """
        from pixpnet.data.pictures import as_sample

        return preprocess(as_sample(picture), self).image.as_subclass(Tensor)

    def resized(self, source_size: tuple[int, int]) -> tuple[int, int]:
        """Height and width after the first step, rounded as torchvision does.

        >>> Preprocessing().resized((300, 400))
        (510, 680)
        """
        height, width = source_size
        if self.frame == "stretch":
            return self.crop, self.crop
        if self.frame == "pad":
            longest = max(height, width)
            return max(1, round(self.crop * height / longest)), max(1, round(self.crop * width / longest))
        shortest = self.shortest_side
        if shortest is None:
            if min(height, width) >= self.crop:
                return source_size
            shortest = self.crop
        if height <= width:
            return shortest, int(shortest * width / height)
        return int(shortest * height / width), shortest


def source_to_resized(source_size: tuple[int, int], preprocessing: Preprocessing) -> Matrix:
    """The first step as a map."""
    height, width = preprocessing.resized(source_size)
    return homography.scaling(width / source_size[1], height / source_size[0])


def crop_to_pixel(left: int, top: int, side: int, preprocessing: Preprocessing) -> Matrix:
    """The last two geometric steps as a map: cut a square out of the resized image and bring it to size."""
    factor = preprocessing.size / side
    return homography.compose(homography.scaling(factor, factor), homography.translation(-left, -top))


def preprocess(sample: Sample, preprocessing: Preprocessing) -> Sample:
    """The test-time transform: what the network sees of an un-augmented image.

    Args:
        sample: as read from its data set.
        preprocessing: the model's.

    Returns:
        the sample with a normalised float32 image; annotations follow, and points that fell outside the crop
        are no longer visible (App. J).
    """
    return normalize(squared(sample, preprocessing), preprocessing)


def squared(sample: Sample, preprocessing: Preprocessing) -> Sample:
    """All of the test-time transform but the normalisation: the square of uint8 pixels that the network will see."""
    height, width = preprocessing.resized(sample.size)
    left, top = round((width - preprocessing.crop) / 2), round((height - preprocessing.crop) / 2)
    to_pixel = crop_to_pixel(left, top, preprocessing.crop, preprocessing) @ source_to_resized(
        sample.size, preprocessing
    )
    return moved(sample, as_image(warped(pixels_of(sample), to_pixel, preprocessing.size)), to_pixel)


def normalize(sample: Sample, preprocessing: Preprocessing) -> Sample:
    """The sample with a float32 image, minus the mean, over the standard deviation."""
    image = normalized(pixels_of(sample), preprocessing.mean, preprocessing.std)
    return replace(sample, image=tv_tensors.Image(torch.from_numpy(image)))


def to_uint8(
    image: Float[Tensor, "3 height width"], preprocessing: Preprocessing
) -> UInt8[np.ndarray, "height width 3"]:
    """A normalised image as a person sees it."""
    mean, std = _levels(preprocessing.mean), _levels(preprocessing.std)
    levels = torch.addcmul(mean, image.cpu().float(), std).clamp_(0, 255)
    # OpenCV rounds (halves to even, as torch does) and interleaves colours about twice as fast as torch.
    shown: UInt8[np.ndarray, "height width 3"] = cv2.merge([cv2.convertScaleAbs(color) for color in levels.numpy()])
    return shown


@lru_cache(maxsize=8)
def _levels(values: Channels) -> Float[Tensor, "3 1 1"]:
    """Fractions as levels of a picture; made once, as it takes longer than to use them on a small image."""
    return 255 * torch.tensor(values).reshape(3, 1, 1)
