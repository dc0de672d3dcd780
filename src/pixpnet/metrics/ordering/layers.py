"""How each kind of operation computes single cells: rows of channels in, rows of channels out.

A layer says which of its cells have versions, given those of its inputs (`changed`), and computes the rows of some
of them at some steps (`rows`). It reads what it needs through a `Source`: the fresh rows of an input where cells
correspond one to one, or its store where a window reaches over cells.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

from pixpnet.metrics.ordering.versions import Store, Versions
from pixpnet.metrics.ordering.windows import Window, readers


@dataclass
class Source:
    """A tensor as its readers see it while a block is computed.

    Attributes:
        count, channels: its cells, and values in each.
        store: its values at every moment; None where nobody looks back.
        versions: what changes in this block; None while the state before the first step is computed.
        fresh: the rows of its versions (of all its cells, before the first step).
    """

    count: int
    channels: int
    store: Store | None = None
    versions: Versions | None = None
    fresh: Tensor | None = None

    def look(
        self, cells: Int64[Tensor, "*shape"], steps: Int64[Tensor, "*#shape"] | None
    ) -> tuple[Float[Tensor, "rows channels"], Int64[Tensor, "*shape"]]:
        """All rows that there are, and which of them hold the values of some cells at some steps."""
        assert self.store is not None
        return self.store.rows, cells if steps is None else self.store.latest(cells, steps)

    def at(self, versions: Versions | None) -> Float[Tensor, "versions channels"]:
        """The values of cells at versions of a tensor that has versions whenever this one has."""
        assert self.fresh is not None
        if versions is None or self.versions is None or len(versions) == len(self.versions):
            return self.fresh
        rows, places = self.look(versions.cells, versions.steps)
        return rows[places]


class ReplayLayer(ABC):
    """One operation on rows of channels.

    Attributes:
        count, channels: cells of the result, and values in each.
        looks_back: it reads its inputs at moments other than their versions, so they need a store.
    """

    count: int
    channels: int
    looks_back: bool

    @abstractmethod
    def changed(self, *inputs: Versions) -> Versions:
        """The versions of the result, given those of the inputs."""

    @abstractmethod
    def rows(self, versions: Versions | None, *inputs: Source, out: Tensor | None = None) -> Tensor:
        """The rows of these versions, or of all cells before the first step; written to `out` where that is given."""


class Rowwise(ReplayLayer):
    """Each cell is computed from the same cell of the inputs: activations, norms, 1x1 convolutions, sums."""

    def __init__(self, count: int, channels: int, compute: Callable[..., Tensor], inputs: int = 1) -> None:
        self.count, self.channels, self.looks_back = count, channels, inputs > 1
        self._compute = compute

    def changed(self, *inputs: Versions) -> Versions:
        """What changes in any of the inputs."""
        union = inputs[0]
        for versions in inputs[1:]:
            union = union.united(versions)
        return union

    def rows(self, versions: Versions | None, *inputs: Source, out: Tensor | None = None) -> Tensor:
        """The rows of these versions."""
        return _into(out, self._compute(*(source.at(versions) for source in inputs)))


class Product(ReplayLayer):
    """Each cell's channels times one matrix: a 1x1 convolution, or what a cell gives to each tap of a larger one."""

    looks_back = False

    def __init__(self, count: int, weight: Float[Tensor, "channels out"], bias: Tensor | None = None) -> None:
        self.count, self.channels = count, weight.shape[1]
        self._weight, self._bias = weight.contiguous(), bias

    def changed(self, *inputs: Versions) -> Versions:
        """The same as in the input."""
        return inputs[0]

    def rows(self, versions: Versions | None, *inputs: Source, out: Tensor | None = None) -> Tensor:
        """The rows of these versions."""
        return _product(inputs[0].at(versions), self._weight, self._bias, out)


class Windowed(ReplayLayer):
    """A layer whose cells read windows of their input."""

    looks_back = True

    def __init__(self, window: Window, channels: int, outside: int, device: torch.device) -> None:
        self.count, self.channels = window.count, channels
        taps = window.taps(outside)
        self._taps = taps.to(device)
        self._readers = readers(taps, window.size[0] * window.size[1]).to(device)

    def changed(self, *inputs: Versions) -> Versions:
        """All cells whose windows reach something that changes."""
        return inputs[0].reaching(self._readers, self.count)

    def _look(self, versions: Versions | None, source: Source) -> tuple[Tensor, Tensor]:
        """All rows of the input, and for each version the rows of its taps."""
        if versions is None:
            return source.look(self._taps, None)
        return source.look(self._taps[versions.cells], versions.steps[:, None])


class TapSum(Windowed):
    """A convolution whose `Product` is known: each cell is the sum of what its taps' cells give to it."""

    def __init__(self, window: Window, channels: int, bias: Tensor | None, device: torch.device) -> None:
        super().__init__(window, channels, window.size[0] * window.size[1], device)
        self._bias = bias

    def rows(self, versions: Versions | None, *inputs: Source, out: Tensor | None = None) -> Tensor:
        """Sums of one row for each tap."""
        table, places = self._look(versions, inputs[0])
        taps = self._taps.shape[1]
        parts = table.unflatten(1, (taps, self.channels)).flatten(0, 1)
        sums = F.embedding_bag(places * taps + torch.arange(taps, device=places.device), parts, mode="sum")
        return _into(out, sums if self._bias is None else sums.add_(self._bias))


class Convolution(Windowed):
    """A convolution that gathers what each cell reads and multiplies it with the kernel."""

    def __init__(
        self, window: Window, weight: Float[Tensor, "out in rows cols"], bias: Tensor | None, groups: int
    ) -> None:
        super().__init__(window, weight.shape[0], window.size[0] * window.size[1], weight.device)
        # groups x (taps x channels) x out, to go with gathered rows.
        self._weight = weight.unflatten(0, (groups, -1)).flatten(3).permute(0, 3, 2, 1).flatten(1, 2).contiguous()
        self._bias, self._groups = bias, groups

    def rows(self, versions: Versions | None, *inputs: Source, out: Tensor | None = None) -> Tensor:
        """One matrix product for each group of channels."""
        table, places = self._look(versions, inputs[0])
        patches = table.index_select(0, places.flatten()).unflatten(0, places.shape)
        if self._groups == 1:
            return _product(patches.flatten(1), self._weight[0], self._bias, out)
        grouped = patches.unflatten(2, (self._groups, -1)).permute(2, 0, 1, 3).flatten(2)
        sums = torch.bmm(grouped, self._weight).transpose(0, 1).flatten(1)
        return _into(out, sums if self._bias is None else sums.add_(self._bias))


class MaxPool(Windowed):
    """The largest value of each channel in a window."""

    def __init__(self, window: Window, channels: int, device: torch.device) -> None:
        super().__init__(window, channels, window.size[0] * window.size[1] + 1, device)

    def rows(self, versions: Versions | None, *inputs: Source, out: Tensor | None = None) -> Tensor:
        """Tap after tap, so that no window is ever spread out."""
        table, places = self._look(versions, inputs[0])
        largest = torch.index_select(table, 0, places[:, 0])
        for tap in range(1, places.shape[1]):
            torch.maximum(largest, table.index_select(0, places[:, tap]), out=largest)
        return _into(out, largest)


class AveragePool(Windowed):
    """The mean of each channel in a window; `divisors` says of how many values, for each cell."""

    def __init__(self, window: Window, channels: int, divisors: Float[Tensor, " cells"]) -> None:
        super().__init__(window, channels, window.size[0] * window.size[1], divisors.device)
        self._divisors = divisors[:, None]

    def rows(self, versions: Versions | None, *inputs: Source, out: Tensor | None = None) -> Tensor:
        """Sums over windows, divided."""
        table, places = self._look(versions, inputs[0])
        sums = F.embedding_bag(places, table, mode="sum")
        return _into(out, sums.div_(self._divisors if versions is None else self._divisors[versions.cells]))


def concatenate(count: int, channels: Sequence[int]) -> ReplayLayer:
    """The channels of several inputs, one after the other."""
    return Rowwise(count, sum(channels), lambda *parts: torch.cat(parts, dim=1), len(channels))


def _product(rows: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor | None) -> Tensor:
    if bias is None:
        return torch.mm(rows, weight) if out is None else torch.mm(rows, weight, out=out)
    return torch.addmm(bias, rows, weight) if out is None else torch.addmm(bias, rows, weight, out=out)


def _into(out: Tensor | None, rows: Tensor) -> Tensor:
    return rows if out is None else out.copy_(rows)
