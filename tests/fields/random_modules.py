"""Random small networks for the comparison with the probe: chains and branches of every kind of operation."""

from collections.abc import Callable

import torch
from hypothesis import reject
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.fields.random_steps import GENERAL, KINDS, SPATIAL, Draw, Kind, Step, pick, small


class Apply(nn.Module):
    """One step, so that its result is a layer with a name."""

    def __init__(self, name: str, step: Step) -> None:
        super().__init__()
        self.name, self.step = name, step
        # Steps may hide modules in double precision from us; this tells the engine which type to expect.
        self.register_buffer("precision", torch.zeros((), dtype=torch.float64))
        if isinstance(step, nn.Module):
            step.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.step(x)

    def extra_repr(self) -> str:
        return f"{self.name} {getattr(self.step, 'keywords', '')}"


class Branches(nn.Module):
    """Two chains on the same input, joined."""

    def __init__(self, left: nn.Module, right: nn.Module, join: Callable[[Tensor, Tensor], Tensor], name: str) -> None:
        super().__init__()
        self.left, self.right, self.join, self.name = left, right, join, name

    def forward(self, x: Tensor) -> Tensor:
        return self.join(self.left(x), self.right(x))

    def extra_repr(self) -> str:
        return self.name


JOINS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda a, b: a + b,
    "cat": lambda a, b: torch.cat([a, b], 1),
    "cat last": lambda a, b: torch.cat([a, b], -1),
    "gate": lambda a, b: a * torch.sigmoid(b),
    "in place": lambda a, b: a.clone().add_(b),
    "broadcast": lambda a, b: a + b.mean(-1, keepdim=True),
}


@st.composite
def random_modules(draw: Draw, kind: str) -> tuple[nn.Module, tuple[int, int, int]]:
    """A random network that holds a step of the given kind, and the shape of its input."""
    shape = (small(draw, 1, 4), small(draw, 1, 7), small(draw, 2, 7))
    x = torch.randn((1, *shape), dtype=torch.float64)
    with torch.no_grad():
        before, x = _chain(draw, x, small(draw, 0, 2), branching=True)
        if kind in (k.__name__ for k in SPATIAL) and x.ndim != 4:
            before, x = nn.Sequential(), torch.randn((1, *shape), dtype=torch.float64)
        wanted = _step(draw, KINDS[kind], x)
        after, _ = _chain(draw, wanted(x.clone()), small(draw, 0, 2), branching=True)
    return nn.Sequential(*before, wanted, *after), shape


def _step(draw: Draw, kind: Kind, x: Tensor) -> nn.Module:
    """A possible step of one kind."""
    for _ in range(4):
        try:
            step = Apply(kind.__name__, kind(draw, x))
        except (ValueError, RuntimeError, AssertionError):
            continue
        if _try(step, x) is not None:
            return step
    return reject()


def _maybe_step(draw: Draw, x: Tensor) -> nn.Module:
    kinds = (*SPATIAL, *GENERAL, *GENERAL) if x.ndim == 4 else GENERAL
    kind = pick(draw, *kinds)
    try:
        return Apply(kind.__name__, kind(draw, x))
    except (ValueError, RuntimeError, AssertionError):
        return Apply("identity", lambda t: t)


def _chain(draw: Draw, x: Tensor, length: int, branching: bool) -> tuple[nn.Sequential, Tensor]:
    steps: list[nn.Module] = []
    while len(steps) < length:
        if branching and small(draw, 0, 3) == 0:
            step: nn.Module = _branches(draw, x)
        else:
            step = _maybe_step(draw, x)
        result = _try(step, x)
        if result is None:
            step, result = Apply("identity", lambda t: t), x
        steps.append(step)
        x = result
    return nn.Sequential(*steps), x


def _branches(draw: Draw, x: Tensor) -> nn.Module:
    left, a = _chain(draw, x, small(draw, 0, 2), branching=False)
    right, b = _chain(draw, x, small(draw, 0, 2), branching=False)
    name = pick(draw, *JOINS)
    try:
        JOINS[name](a, b)
    except (RuntimeError, IndexError):
        return left
    return Branches(left, right, JOINS[name], name)


def _try(step: nn.Module, x: Tensor) -> Tensor | None:
    """The result, if the step is possible and leaves something of a sensible size behind."""
    try:
        result = step(x.clone())
    except (RuntimeError, IndexError, ValueError, NotImplementedError):
        return None
    fits = isinstance(result, Tensor) and 2 <= result.ndim <= 6 and result.shape[0] == 1 and 0 < result.numel() <= 1500
    return result if fits and result.isfinite().all() else None
