"""Duplicate prototypes: patches of one image, the very same patch, or nearly the same vector.

Two vectors are nearly the same when they differ by at most `tolerance` of the longer one's length. They are compared as
the comparison sees them (`Comparison.comparable`): where only directions matter, they are brought to length 1 first.
Vectors of different grids have nothing in common.
"""

from collections.abc import Hashable, Iterator, Sequence

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from pixpnet.metrics.bootstrap import Estimate, class_clusters, defined_mean
from pixpnet.metrics.health.record import Duplicates, Twins
from pixpnet.model import PixPNet

TOLERANCE = 0.01
# How much is looked at together: rows of pairs, pairs whose vectors are subtracted.
_ROWS, _PAIRS = 256, 2**14
# Pairs are first compared in so many dimensions, with a margin for rounding.
_DIMENSIONS, _MARGIN = 16, 1e-4


def duplicates(model: PixPNet, tolerance: float = TOLERANCE, seed: int = 0) -> Duplicates:
    """The shares of prototypes that have a twin in a class of their own, and one that shares no class with them.

    A prototype without a class is in no share of the first kind.

    Args:
        model: its vectors, and its origins where it has them.
        tolerance: of vectors.
        seed: of the intervals, which draw whole classes again.
    """
    mask = model.ownership.mask().cpu()
    with_class = mask.any(dim=0)
    everyone = torch.ones_like(with_class)
    classes = class_clusters(model.labels.tolist())
    marks: list[Int64[Tensor, " protos"] | None] = [None, None]
    if model.origins is not None:
        marks = [
            _numbered([origin.image for origin in model.origins]),
            _numbered([(origin.image, origin.boxes) for origin in model.origins]),
        ]
    # Whether each prototype has a twin within its classes, and across, of each kind: a few rows of pairs at a time.
    within, across = (torch.zeros(3, len(classes), dtype=torch.bool) for _ in range(2))
    for rows, near in near_rows(model, tolerance):
        own = _shares_class(mask, rows)
        for kind, known in enumerate([*marks, near]):
            if known is not None:
                alike = known if known is near else known[rows, None] == known[None, :]
                alike[torch.arange(len(rows)), rows] = False
                within[kind, rows] = (alike & own).any(dim=1)
                across[kind, rows] = (alike & ~own).any(dim=1)

    def twins(alike: Bool[Tensor, "3 protos"], counted: Bool[Tensor, " protos"]) -> Twins:
        defined = (model.origins is not None, model.origins is not None, True)
        return Twins(
            *(
                _share(kind, counted, classes, seed) if is_defined else None
                for kind, is_defined in zip(alike, defined, strict=True)
            )
        )

    undefined = len(classes) if model.origins is None else 0
    return Duplicates(twins(within, with_class), twins(across, everyone), tolerance, undefined)


def near_rows(
    model: PixPNet, tolerance: float = TOLERANCE
) -> Iterator[tuple[Int64[Tensor, " some"], Bool[Tensor, "some protos"]]]:
    """Which prototypes are nearly the same vector as which, each as itself.

    A few rows at a time, with their numbers: all pairs of 10,000 would take gigabytes.
    """
    for grid in model.grids:
        vectors = grid.comparison.comparable().cpu()
        lengths, short = vectors.norm(dim=1), _shortened(vectors)
        squares = short.square().sum(dim=1)
        for some in torch.arange(len(vectors)).split(_ROWS):
            limits = tolerance * torch.maximum(lengths[some, None], lengths[None, :])
            # A lower bound on distances, but for rounding in 32 bits, which the margin is far above.
            bounds = torch.addmm(squares[None, :] + squares[some, None], short[some], short.T, alpha=-2)
            margin = _MARGIN * (squares[None, :] + squares[some, None])
            row, col = (bounds <= limits.float().square() * (1 + _MARGIN) + margin).nonzero(as_tuple=True)
            near = torch.zeros(len(some), model.num_prototypes, dtype=torch.bool)
            for at in torch.arange(len(row)).split(_PAIRS):
                # Differences first: by the formula with a product, vectors that are the same would be 1e-8 apart.
                apart = (vectors[some[row[at]]] - vectors[col[at]]).norm(dim=1)
                near[row[at], grid.first + col[at]] = apart <= limits[row[at], col[at]]
            yield grid.first + some, near


def _shortened(vectors: Float[Tensor, "protos numbers"]) -> Float[Tensor, "protos _few"]:
    """Vectors in a subspace of few dimensions: no two are farther apart there than they are."""
    numbers = vectors.shape[1]
    if numbers <= _DIMENSIONS:
        return vectors.float()
    directions = torch.randn(numbers, _DIMENSIONS, generator=torch.Generator().manual_seed(0), dtype=vectors.dtype)
    basis: Tensor = torch.linalg.qr(directions).Q
    return (vectors @ basis).float()


def _shares_class(mask: Bool[Tensor, "classes protos"], rows: Int64[Tensor, " some"]) -> Bool[Tensor, "some protos"]:
    """Which prototypes share a class with these."""
    own = torch.zeros(len(rows), mask.shape[1], dtype=torch.bool)
    owned, label = mask[:, rows].T.nonzero(as_tuple=True)
    turn = torch.arange(len(owned)) - torch.searchsorted(owned, owned)
    for number in range(int(turn.max()) + 1 if len(turn) else 0):  # the first class of each, the second, ...
        here = turn == number
        own[owned[here]] |= mask[label[here]]
    return own


def _numbered(marks: Sequence[Hashable]) -> Int64[Tensor, " protos"]:
    """The same number for the same mark."""
    numbers = {mark: number for number, mark in enumerate(dict.fromkeys(marks))}
    return torch.tensor([numbers[mark] for mark in marks])


def _share(
    with_twin: Bool[Tensor, " protos"], counted: Bool[Tensor, " protos"], classes: Sequence[int], seed: int
) -> Estimate | None:
    values = [
        float(twin) if counts else None for twin, counts in zip(with_twin.tolist(), counted.tolist(), strict=True)
    ]
    return defined_mean(values, classes, seed).estimate
