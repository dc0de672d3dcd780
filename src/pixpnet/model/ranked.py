"""The scores of an image in the order of their size, with the least that each prototype of a model can score."""

import numpy as np
from jaxtyping import Float, Float64
from torch import Tensor

from pixpnet.model.network import PixPNet
from pixpnet.parts.ranking import RankedScores


def ranked_scores(model: PixPNet, scores: Float[Tensor, " protos"]) -> RankedScores:
    """The scores of one image, ranked."""
    return RankedScores.of(scores, least_scores(model))


def least_scores(model: PixPNet) -> Float64[np.ndarray, " protos"]:
    """The least that each prototype can score."""
    comparisons = [grid.comparison for grid in model.grids]
    least = [comparison.score_bounds()[0] for comparison in comparisons]
    return np.repeat(np.array(least), [len(comparison.prototypes) for comparison in comparisons])
