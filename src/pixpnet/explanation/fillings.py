"""Changed images of a proof: which pixels are replaced, and what is put there (noise, one colour, a picture)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pixpnet.box import Box
from pixpnet.data import ImageError, read_sample
from pixpnet.model import PixPNet

Region = tuple[Box, ...]
FILLINGS = ("noise", "one colour", "a picture")
"""What is put in the place of pixels, in turns."""


@dataclass(frozen=True)
class Change:
    """Pixels that are replaced: those of a region, or all others."""

    region: Region
    inside: bool

    def mask(self, size: tuple[int, int]) -> Bool[Tensor, "height width"]:
        """True where pixels are replaced."""
        seen = torch.zeros(size, dtype=torch.bool)
        for y0, x0, y1, x1 in self.region:
            seen[y0:y1, x0:x1] = True
        return seen if self.inside else ~seen


def fillings_for(
    model: PixPNet,
    image: Float[Tensor, "3 height width"],
    draws: int,
    seed: int,
    others: Sequence[Float[Tensor, "3 _ _"]],
) -> Float[Tensor, "draws 3 height width"]:
    """What is put in the place of pixels, in turns: noise, one colour, a picture."""
    generator = torch.Generator().manual_seed(seed)
    mean, std = (torch.tensor(values)[:, None, None] for values in (model.preprocessing.mean, model.preprocessing.std))
    fillings = []
    for draw in range(draws):
        if draw % len(FILLINGS) == 0:
            fillings.append(torch.randn(image.shape, generator=generator))
        elif draw % len(FILLINGS) == 1:
            color = (torch.rand(3, 1, 1, generator=generator) - mean) / std
            fillings.append(color.expand(image.shape))
        elif others:
            fillings.append(others[draw // len(FILLINGS) % len(others)].cpu())
        else:
            down, across = (int(torch.randint(side, (1,), generator=generator)) for side in image.shape[-2:])
            fillings.append(image.cpu().flip(-1).roll((down, across), dims=(-2, -1)))
    for other in fillings:
        if other.shape != image.shape:
            raise ValueError(f"a picture of {tuple(other.shape)} cannot be put around parts of {tuple(image.shape)}")
    return torch.stack(fillings).to(image)


def training_images(
    model: PixPNet, size: tuple[int, int], count: int, seed: int
) -> list[Float[Tensor, "3 height width"]]:
    """Some of the pictures beside the model's prototypes, normalised; none if they are missing or of another size."""
    files = [] if model.pictures is None else sorted(model.pictures.glob("*.jpg"))
    chosen = np.random.default_rng(seed).permutation(len(files))[:count].tolist()
    preprocessing = model.preprocessing
    mean, std = (torch.tensor(values)[:, None, None] for values in (preprocessing.mean, preprocessing.std))
    try:
        read = [read_sample(files[number]).image.as_subclass(Tensor) for number in chosen]
    except (ImageError, OSError):  # a damaged run: the proof does not need them
        return []
    return [(image / 255 - mean) / std for image in read] if all(image.shape[-2:] == size for image in read) else []
