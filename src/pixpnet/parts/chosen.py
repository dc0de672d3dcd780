"""Scalar products at chosen cells, with a gradient that is as sparse as the choice.

A score rests on one cell of an image, so of the gradient of a map of batch x prototypes x cells numbers all but one in
`cells` are 0. Automatic differentiation multiplies those zeros all the same: two products as large as the one that made
the map, and several passes over it. Here the gradient is gathered from the chosen cells alone, on the CPU: the sums of
rows of a table that it consists of are what bags of embeddings are, for which PyTorch has routines that make no copies.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

# One more than the largest number of 16 bits.
_SHORT = 2**16


def products_at(
    patches: Float[Tensor, "batch dim rows cols"],
    prototypes: Float[Tensor, "protos dim 1 1"],
    products: Float[Tensor, "batch protos rows cols"],
    cells: Int64[Tensor, "batch protos"],
) -> Float[Tensor, "batch protos"]:
    """The scalar product of each prototype with one cell of each image.

    Args:
        patches: of the images.
        prototypes: of one cell each.
        products: of all of them, known already; no gradient flows through them.
        cells: the number of the chosen cell, row by row.

    >>> patches, prototypes = torch.tensor([[[[2.0, 3.0]]]]), torch.tensor([[[[5.0]]]], requires_grad=True)
    >>> product = products_at(patches, prototypes, patches * prototypes, torch.tensor([[1]]))
    >>> product.item(), torch.autograd.grad(product.sum(), prototypes)[0].item()
    (15.0, 3.0)
    """
    chosen: Tensor = _ProductsAt.apply(patches, prototypes, products.detach(), cells)  # type: ignore[no-untyped-call]
    return chosen


def one_minus(cosines: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """One minus the cosine, at least 0: what ``(1 - cosines).clamp_min(0)`` gives, in one pass over new memory.

    In a step of learning the maps of thousands of prototypes are the largest tensors, and memory that was not touched
    before costs more than the arithmetic in it.

    >>> one_minus(torch.tensor([0.25, 1.5], requires_grad=True)).tolist()
    [0.75, 0.0]
    """
    if not cosines.requires_grad or torch.compiler.is_compiling() or torch.compiler.is_exporting():
        return (1 - cosines).clamp_min(0)
    distances: Tensor = _OneMinus.apply(cosines)  # type: ignore[no-untyped-call]
    return distances


class _OneMinus(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, cosines: Tensor) -> Tensor:
        ctx.save_for_backward(cosines)
        return (1 - cosines).clamp_min_(0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (cosines,) = ctx.saved_tensors
        passed: Tensor = gradient * (cosines <= 1)
        return passed.neg_()


class _ProductsAt(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, patches: Tensor, prototypes: Tensor, products: Tensor, cells: Tensor) -> Tensor:
        ctx.save_for_backward(patches, prototypes, cells)
        return products.flatten(2).gather(2, cells[..., None]).squeeze(-1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        patches, prototypes, cells = ctx.saved_tensors
        rows = patches.flatten(2).transpose(1, 2).contiguous()  # batch x cells x dim
        vectors = prototypes.flatten(1)
        of_rows = _of_rows(vectors, gradient, cells, rows.shape[1]) if ctx.needs_input_grad[0] else None
        of_vectors = _of_vectors(rows, gradient, cells) if ctx.needs_input_grad[1] else None
        return (
            None if of_rows is None else of_rows.transpose(1, 2).reshape(patches.shape),
            None if of_vectors is None else of_vectors.view_as(prototypes),
            None,
            None,
        )


def _of_vectors(
    rows: Float[Tensor, "batch cells dim"],
    gradient: Float[Tensor, "batch protos"],
    cells: Int64[Tensor, "batch protos"],
) -> Float[Tensor, "protos dim"]:
    """For each prototype the weighted sum of the patches that speak for it, image by image."""
    numbers = _numbered(cells, rows.shape[1])
    return F.embedding_bag(numbers.T, rows.flatten(0, 1), mode="sum", per_sample_weights=gradient.T)


def _of_rows(
    vectors: Float[Tensor, "protos dim"],
    gradient: Float[Tensor, "batch protos"],
    cells: Int64[Tensor, "batch protos"],
    count: int,
) -> Float[Tensor, "batch cells dim"]:
    """For each cell the weighted sum of the prototypes that it speaks for, in their order."""
    # Numbers of 16 bits are sorted in linear time.
    keys = cells.numpy().astype(np.uint16 if count <= _SHORT else np.int64)
    order = torch.from_numpy(np.argsort(keys, axis=1, kind="stable"))
    sizes = torch.bincount(_numbered(cells, count).flatten(), minlength=len(cells) * count)
    sums: Tensor = F.embedding_bag(
        order.flatten(),
        vectors,
        sizes.cumsum(0) - sizes,
        mode="sum",
        per_sample_weights=gradient.gather(1, order).flatten(),
    )
    return sums.reshape(len(cells), count, -1)


def _numbered(cells: Int64[Tensor, "batch protos"], count: int) -> Int64[Tensor, "batch protos"]:
    """Numbers of cells among those of all images, of `count` cells each."""
    return cells + count * torch.arange(len(cells))[:, None]
