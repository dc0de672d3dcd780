"""The curve of the relevance ordering test and the two numbers that are read off it (Sec. 5).

A curve is a prototype's similarity against the fraction of pixels that were put back, from none (a random image) to all
(the image itself). Both numbers compare with the rise from the first to the last similarity. Where there is none (the
random image is as similar as the image) they have no meaning, and are None; 0 would be the best %2R there is.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

# A rise that is smaller than this share of the similarities themselves is rounding.
_NO_RISE = 1e-5
# Of the rise; embeddings in float32 leave similarities uncertain by about a tenth of it.
RECOVERY_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Curve:
    """Similarity of a prototype while pixels are put back.

    Attributes:
        fractions: of the pixels that are back, rising from 0 to 1.
        similarities: the prototype's similarity to its nearest patch at each of them.
    """

    fractions: Float64[Tensor, " points"]
    similarities: Float64[Tensor, " points"]

    def __post_init__(self) -> None:
        if len(self.fractions) < 2 or self.fractions[0] != 0 or self.fractions[-1] != 1:
            raise ValueError("a curve has at least two points, the first at fraction 0 and the last at 1")
        if not (self.fractions.diff() > 0).all():
            raise ValueError("the fractions of a curve rise from point to point")

    @property
    def rise(self) -> float | None:
        """From the random image to the image; None if the similarity does not rise."""
        first, last = self.similarities[0].item(), self.similarities[-1].item()
        return last - first if last - first > _NO_RISE * max(abs(first), abs(last)) else None


def area_under_similarity(curve: Curve) -> float | None:
    """AUSC: the area under (s - s_0) / (s_end - s_0) against the fraction of pixels, by the trapezoid rule.

    It is above 1 where the image without some of its pixels is more similar than the whole.

    Returns:
        None if the similarity does not rise.

    Example:
        >>> points = torch.tensor([[0.0, 0.25, 1.0], [2.0, 4.0, 4.0]], dtype=torch.float64)
        >>> area_under_similarity(Curve(*points))
        0.875
    """
    if curve.rise is None:
        return None
    relative = (curve.similarities - curve.similarities[0]) / curve.rise
    return torch.trapezoid(relative, curve.fractions).item()


def pixels_to_recovery(curve: Curve, tolerance: float = RECOVERY_TOLERANCE) -> float | None:
    """%2R, as a fraction: how many pixels are back when the similarity first reaches that of the whole image.

    Args:
        curve: with all points at which it may be reached.
        tolerance: share of the rise that may be missing, so that a rounding error at the end does not decide.

    Returns:
        None if the similarity does not rise.

    Example:
        >>> points = torch.tensor([[0.0, 0.25, 0.5, 1.0], [2.0, 3.0, 4.0, 4.000001]], dtype=torch.float64)
        >>> pixels_to_recovery(Curve(*points))
        0.5
    """
    if curve.rise is None:
        return None
    enough = curve.similarities[-1] - tolerance * curve.rise
    first = (curve.similarities >= enough).nonzero()[0]
    return curve.fractions[first].item()


def pixel_order(
    heatmap: Float[Tensor, "height width"], generator: torch.Generator | None = None
) -> Int64[Tensor, " pixels"]:
    """The pixels (numbered row by row) from the hottest to the coldest; equal ones in a random order.

    Only the order of the values counts. Ties are broken by chance because any rule (row by row) would favour a place.

    Raises:
        ValueError: if a value is not a number.

    Example:
        >>> pixel_order(torch.tensor([[0.1, 0.3], [0.2, 0.4]])).tolist()
        [3, 1, 2, 0]
    """
    values = heatmap.flatten().cpu()
    if values.isnan().any():
        raise ValueError("the heat map has values that are not numbers, so its pixels have no order: mend the mapping")
    shuffled = torch.randperm(len(values), generator=generator)
    return shuffled[values[shuffled].argsort(descending=True, stable=True)]
