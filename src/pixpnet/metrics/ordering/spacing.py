"""At which fractions of pixels the *stepped* test looks, so that few forward passes tell nearly what all would.

Similarity rises early and steeply for a good mapping, so the points are dense there: the k-th of n lies at (k / n)^2.
The %2R then needs one fraction exactly, that at which the similarity recovers: the gap between the last point before it
and the first point after it is divided again, a few points at a time.

How far that is from the exact test: on a curve that never falls, AUSC is off by at most half the largest gap (0.016),
and %2R by a gap divided twice (0.04 points of a hundred). Real curves fall as well, and a brief crossing between two
points goes unseen, so that %2R comes out too large. `STATED_ERROR` is what that came to where both tests were made
(`studies/ordering_error.py`, a finished demo run): with 32 points %2R was 3.3 points too large on average for the field
mapping and 11 at most, with 64 points 1.1 and 4.2, with 100 points 0.6 and 2.2. The AUSC of a curve that hardly rises
is a large number with a large error; the median error of a curve was 0.002. A hint, not a bound: repeat the study for
the network at hand.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from pixpnet.metrics.ordering.curve import RECOVERY_TOLERANCE, Curve

Similarities = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Spacing:
    """How many forward passes the stepped test spends on a curve, and where.

    Attributes:
        points: over the whole curve, both ends included.
        finer: how many more divide the gap in which the similarity recovers, each time.
        times: how often that is done.
    """

    points: int = 64
    finer: int = 8
    times: int = 2

    def __post_init__(self) -> None:
        if self.points < 2 or self.finer < 0 or self.times < 0:
            raise ValueError(f"a curve has at least 2 points and divides gaps by no less than 0, not {self}")

    @property
    def passes(self) -> int:
        """The largest number of forward passes for a curve."""
        return self.points + self.finer * self.times


@dataclass(frozen=True)
class StatedError:
    """How far the stepped test, with the default spacing, was from the exact one where both were made. Not a bound.

    Attributes:
        area: of a single curve's AUSC, at most.
        recovery: of a single curve's %2R, as a fraction, at most.
        mean_area: of the mean AUSC of a mapping, at most.
        mean_recovery: of the mean %2R of a mapping, at most.
        curves: how many there were.
        where: of what network, images and mappings.
    """

    area: float
    recovery: float
    mean_area: float
    mean_recovery: float
    curves: int
    where: str


STATED_ERROR = StatedError(
    area=0.243,
    recovery=0.042,
    mean_area=0.030,
    mean_recovery=0.011,
    curves=16,
    where="small-61 on drawn birds, field and upsampling mapping",
)


def first_steps(spacing: Spacing, pixels: int) -> Int64[Tensor, " steps"]:
    """Numbers of pixels, from none to all, dense at the beginning.

    >>> first_steps(Spacing(points=5), 1600).tolist()
    [0, 100, 400, 900, 1600]
    """
    fractions = torch.linspace(0, 1, spacing.points, dtype=torch.float64).square()
    steps: Tensor = (fractions * pixels).round().long().unique()
    return steps


def stepped_curve(similarities_at: Similarities, pixels: int, spacing: Spacing) -> Curve:
    """A curve from few points.

    Args:
        similarities_at: gives the similarity after each of some numbers of pixels.
        pixels: how many there are.
        spacing: how many points, and where.

    Example:
        >>> steep = stepped_curve(lambda steps: (steps.double() - 70).clamp(0, 3), 100, Spacing(points=6))
        >>> (steep.fractions * 100).round().int().tolist()
        [0, 4, 16, 36, 64, 68, 72, 73, 74, 75, 76, 80, 84, 88, 92, 96, 100]
    """
    steps = first_steps(spacing, pixels)
    similarities = similarities_at(steps)
    for _ in range(spacing.times):
        more = _inside_the_gap(_curve(steps, similarities, pixels), steps, spacing.finer)
        if not len(more):
            break
        order = torch.cat([steps, more]).argsort()
        steps, similarities = torch.cat([steps, more])[order], torch.cat([similarities, similarities_at(more)])[order]
    return _curve(steps, similarities, pixels)


def _curve(steps: Int64[Tensor, " points"], similarities: Float64[Tensor, " points"], pixels: int) -> Curve:
    return Curve(steps.double() / pixels, similarities)


def _inside_the_gap(curve: Curve, steps: Int64[Tensor, " points"], count: int) -> Int64[Tensor, " more"]:
    """New steps between the last point before the similarity recovers and the first at which it has."""
    if curve.rise is None:
        return steps[:0]
    enough = curve.similarities[-1] - RECOVERY_TOLERANCE * curve.rise
    after = int((curve.similarities >= enough).nonzero()[0])
    low, high = int(steps[after - 1]), int(steps[after])
    inner: Tensor = torch.linspace(low, high, count + 2, dtype=torch.float64)[1:-1].round().long().unique()
    return inner[(inner > low) & (inner < high)]
