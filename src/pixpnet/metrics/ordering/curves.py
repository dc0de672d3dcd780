"""Making curves: after every pixel or at a few points, and what is prepared once for that."""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from pixpnet.metrics.ordering.by_cell import can_go_by_cell, cellwise_distance_maps
from pixpnet.metrics.ordering.curve import Curve
from pixpnet.metrics.ordering.full import full_distance_maps
from pixpnet.metrics.ordering.incremental import incremental_distance_maps
from pixpnet.metrics.ordering.plan import Plan, plan
from pixpnet.metrics.ordering.rules import NoIncrementalRule
from pixpnet.metrics.ordering.spacing import Spacing, stepped_curve
from pixpnet.model import Grid, PixPNet

Method = Literal["stepped", "exact"]


class OrderingWarning(UserWarning):
    """The exact test takes far longer than it should, and why."""


class Curves:
    """One way to make curves, with what it prepared for each grid and size of images.

    Attributes:
        model: in eval mode.
        name: "stepped", "exact", or "full: " and why every step of the exact test takes a whole forward pass.
    """

    def __init__(self, model: PixPNet, method: Method, spacing: Spacing) -> None:
        self.name: str = method
        self.model = model
        self._method, self._spacing = method, spacing
        self._plans: dict[tuple[int, tuple[int, int]], Plan | None] = {}

    def evaluations(self, image: Float[Tensor, "3 height width"]) -> int:
        """How many evaluations a curve takes, at most."""
        return self._spacing.passes if self._method == "stepped" else image[0].numel() + 1

    def curve(
        self,
        start: Float[Tensor, "3 height width"],
        image: Float[Tensor, "3 height width"],
        order: Int64[Tensor, " pixels"],
        prototype: int,
        tick: Callable[[int], None] | None = None,
    ) -> Curve:
        """The curve of one prototype.

        Args:
            start: the image before the first step.
            image: where the pixels come from.
            order: all pixels (row by row), in the order in which they are put back.
            prototype: its number.
            tick: hears how many evaluations are done.
        """
        grid, chosen = self.model.grid_of(prototype), torch.tensor([prototype], device=image.device)
        by_cell = can_go_by_cell(self.model, grid)
        passes = cellwise_distance_maps if by_cell else full_distance_maps
        full = partial(passes, self.model, start, image, order, chosen)
        if self._method == "stepped":
            return stepped_curve(lambda steps: self._similarities(grid, full(steps), None), len(order), self._spacing)
        steps = torch.arange(len(order) + 1)
        prepared = None if by_cell else self._plan(grid, (image.shape[1], image.shape[2]))
        maps = (
            full(steps)
            if prepared is None
            else incremental_distance_maps(self.model, prepared, start, image, order, chosen)
        )
        return Curve(steps.double() / len(order), self._similarities(grid, maps, tick))

    def _similarities(
        self, grid: Grid, maps: Iterator[Float[Tensor, "steps 1 rows cols"]], tick: Callable[[int], None] | None
    ) -> Float64[Tensor, " points"]:
        """The similarity to the nearest patch at each step."""
        similarities, done = [], 0
        for some in maps:
            # Similarities fall as the measure rises: the nearest patch is the most similar one.
            similarities.append(grid.comparison.similarity(some.double().amin(dim=(1, 2, 3))).cpu())
            done += len(some)
            if tick is not None:
                tick(done)
        return torch.cat(similarities)

    def _plan(self, grid: Grid, size: tuple[int, int]) -> Plan | None:
        key = grid.number, size
        if key not in self._plans:
            try:
                self._plans[key] = plan(self.model, size, grid.number)
            except NoIncrementalRule as why:
                self._plans[key] = None
                self.name = f"full: {why}"
                warnings.warn(
                    f"every step of the exact test takes a whole forward pass: {why}; method='stepped' is faster, or "
                    "add a rule to pixpnet.metrics.ordering.rules.RULES",
                    OrderingWarning,
                    stacklevel=6,
                )
        return self._plans[key]
