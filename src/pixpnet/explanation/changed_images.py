"""Running a model on changed images, and reading single cells: what proofs and the qualities of a part share."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from pixpnet.data import Sample, to_uint8
from pixpnet.data.pictures import Picture
from pixpnet.explanation.explaining import as_the_network_sees
from pixpnet.explanation.record import Explanation, Term
from pixpnet.model import PixPNet
from pixpnet.model.modes import refuse_training_mode
from pixpnet.parts import Matches
from pixpnet.parts.precision import full_precision

Work = TypeVar("Work")
# Of input numbers in one batch: 6 images of 224 x 224, whose activations in a VGG are some 200 MB.
_BATCH_NUMBERS = 2**20


@dataclass(frozen=True)
class Cell:
    """Where the network is read: the match of a prototype with one patch of its grid."""

    grid: int
    prototype: int
    row: int
    col: int


def cell_of(term: Term) -> Cell:
    """The cell whose similarity a term is about."""
    return Cell(term.grid, term.prototype, *term.cell)


def explained_pixels(model: PixPNet, image: Picture, explanation: Explanation) -> Float[Tensor, "3 height width"]:
    """The image as the network takes it, on the model's device, when it is the one that was explained.

    Raises:
        ValueError: if the image or the model is not that of the explanation, or the model is in training mode.
    """
    refuse_training_mode(model)
    pixels = pixels_of(model, as_the_network_sees(model, image))
    if tuple(pixels.shape[-2:]) != explanation.size or _bytes(model, pixels) != explanation.pixels:
        raise ValueError(f"this is not the image that was explained: give the one of {explanation.image}")
    if explanation.class_names != model.class_names:
        raise ValueError("this model knows other classes than the explanation: give the model that was explained")
    return pixels


def pixels_of(model: PixPNet, sample: Sample) -> Float[Tensor, "3 height width"]:
    """A sample's image on the model's device."""
    return sample.image.as_subclass(Tensor).to(model.device)


def matches_of(model: PixPNet, images: Float[Tensor, "batch 3 height width"]) -> Matches:
    """What prototypes match in images, in full precision: with three digits one would see nothing but rounding."""
    with torch.no_grad(), full_precision(images.device):
        matches: Matches = model(images).matches
    return matches


def batches(work: Sequence[Work], numbers: int) -> Iterator[tuple[int, Sequence[Work]]]:
    """Work in pieces that fit into memory beside one unchanged image, each with where it starts.

    Args:
        work: an item for each changed image.
        numbers: that an image consists of.
    """
    length = max(1, _BATCH_NUMBERS // numbers - 1)
    for start in range(0, len(work), length):
        yield start, work[start : start + length]


def _bytes(model: PixPNet, pixels: Float[Tensor, "3 height width"]) -> bytes:
    return to_uint8(pixels, model.preprocessing).tobytes()
