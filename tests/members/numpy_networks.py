"""ProtoPNet and its relatives in NumPy: their formulas with loops over cells, and gradients without autograd."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pixpnet.family import Member
from pixpnet.parts import Parts
from pixpnet.parts.losses import Step, loss_of
from pixpnet.parts.matches import matches_of

Array = np.ndarray[Any, np.dtype[np.float64]]


def squared_maps(cells: Array, prototypes: Array) -> Array:
    """The squared distance of every window of cells to every prototype: images x prototypes x rows x columns."""
    images, _, rows, cols = cells.shape
    count, _, down, across = prototypes.shape
    maps = np.empty((images, count, rows - down + 1, cols - across + 1))
    for n, j, y, x in np.ndindex(*maps.shape):
        maps[n, j, y, x] = ((cells[n, :, y : y + down, x : x + across] - prototypes[j]) ** 2).sum()
    return maps


def cosine_maps(cells: Array, prototypes: Array) -> Array:
    """The cosine between every cell and every prototype."""
    images, _, rows, cols = cells.shape
    maps = np.empty((images, len(prototypes), rows, cols))
    for n, j, y, x in np.ndindex(*maps.shape):
        one, other = cells[n, :, y, x], prototypes[j, :, 0, 0]
        maps[n, j, y, x] = one @ other / np.sqrt((one @ one) * (other @ other))
    return maps


def log_similarity(distances: Array, epsilon: float = 1e-4) -> Array:
    """log((d + 1) / (d + eps))."""
    return np.log((distances + 1) / (distances + epsilon))


def cross_entropy(logits: Array, labels: Sequence[int]) -> float:
    """The mean over images of the log of the sum of exponentials, minus the logit of the right class."""
    return float(
        np.mean([np.log(np.exp(line).sum()) - line[label] for line, label in zip(logits, labels, strict=True)])
    )


def smallest(values: Array, labels: Sequence[int], owners: Sequence[Sequence[int]], own: bool) -> float:
    """The mean over images of the smallest value of a prototype that speaks (or does not speak) for their class."""
    lines = []
    for line, label in zip(values, labels, strict=True):
        chosen = [value for value, classes in zip(line, owners, strict=True) if (label in classes) == own]
        lines.append(min(chosen))
    return float(np.mean(lines))


def slope(function: Callable[[Array], float], at: Array, step: float = 1e-6) -> Array:
    """The gradient by central differences."""
    gradient = np.zeros_like(at)
    for position in np.ndindex(*at.shape):
        there, here = at.copy(), at.copy()
        there[position] += step
        here[position] -= step
        gradient[position] = (function(there) - function(here)) / (2 * step)
    return gradient


class Case:
    """The parts of a member on random cells, in double precision."""

    def __init__(
        self, member: Member, architecture: Any, config: Any, classes: int, cells: tuple[int, int], seed: int
    ) -> None:
        rng = np.random.default_rng(seed)
        torch.manual_seed(seed)
        self.parts: Parts = member.parts(architecture, (4,), classes)
        self.comparison = self.parts.comparisons[0].double()
        self.parts.decision.double()
        self.labels = rng.integers(classes, size=5).tolist()
        self.cells: Array = rng.random((5, architecture.dim, *cells))
        self.prototypes: Array = self.comparison.prototypes.detach().numpy().copy()
        self.losses = next(stage for stage in member.stages(config) if stage.name == "joint").losses
        self.owners = [self.parts.ownership.owners(j) for j in range(len(self.prototypes))]

    def put(self, prototypes: Array) -> None:
        """Gives the network other prototypes."""
        self.prototypes = prototypes
        self.comparison.prototypes.data = torch.from_numpy(prototypes.copy())

    def step(self, cells: Tensor) -> Step:
        """What a batch of these cells gives."""
        matches = matches_of((self.comparison(cells),))
        return Step(self.parts.decision(matches), torch.tensor(self.labels), self.parts, matches, (cells,))

    def loss_and_gradients(self) -> tuple[float, Array, Array]:
        """The loss of the joint stage, and its gradients by cells and by prototypes, as the package computes them."""
        cells = torch.from_numpy(self.cells).requires_grad_()
        total = loss_of(self.step(cells), self.losses).total
        by_cells, by_prototypes = torch.autograd.grad(total, (cells, self.comparison.prototypes))
        return float(total.detach()), by_cells.numpy(), by_prototypes.numpy()

    def agrees(self, loss: Callable[[Array, Array], float]) -> None:
        """Compares with a loss in NumPy, from cells and prototypes: its value and both gradients."""
        value, by_cells, by_prototypes = self.loss_and_gradients()
        assert value == loss(self.cells, self.prototypes) or np.isclose(value, loss(self.cells, self.prototypes), 1e-10)
        np.testing.assert_allclose(
            by_cells, slope(lambda cells: loss(cells, self.prototypes), self.cells), rtol=1e-5, atol=1e-7
        )
        np.testing.assert_allclose(
            by_prototypes, slope(lambda protos: loss(self.cells, protos), self.prototypes), rtol=1e-5, atol=1e-7
        )
