"""Images of noise with labels and names, and a replacement with them in any order."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pixpnet.model import Origin, PixPNet
from pixpnet.settings import Replacement
from pixpnet.training import replace_prototypes
from tests.training.material import batches_of, entries_of

LABELS = [0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1]
IDS = [f"image {letter}" for letter in "khbgdaflceij"]


def noise(count: int, size: int, seed: int = 3) -> Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(seed))


def replaced(
    model: PixPNet, images: Tensor, size: int = 4, order: Sequence[int] | None = None, **options: Any
) -> tuple[Origin, ...]:
    """Replaces the prototypes of a model with images in some order, in batches of some size."""
    order = range(len(images)) if order is None else order
    labels, ids = LABELS[: len(images)], IDS[: len(images)]
    batches = batches_of(images[list(order)], [labels[k] for k in order], [ids[k] for k in order], size)
    return replace_prototypes(model, batches, entries_of(labels, ids), Replacement(**options))
