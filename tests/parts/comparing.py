"""Comparisons of given prototypes, by names of their parts."""

from torch import Tensor

from pixpnet.parts import Comparison, Cosine, Measure, Nearest, Original, Pooling, Reformulated, Similarity, SquaredL2

MEASURES: dict[str, Measure] = {"cosine": Cosine(), "squared_l2": SquaredL2()}
SIMILARITIES: dict[str, type[Reformulated | Original]] = {"reformulated": Reformulated, "original": Original}


def similarity_of(form: str, epsilon: float) -> Similarity:
    """A similarity by its name."""
    return SIMILARITIES[form](epsilon)


def comparison_of(
    prototypes: Tensor,
    measure: str = "cosine",
    similarity: str = "reformulated",
    epsilon: float = 1e-6,
    pooling: Pooling | None = None,
) -> Comparison:
    """A comparison with these prototypes."""
    return Comparison(prototypes, MEASURES[measure], similarity_of(similarity, epsilon), pooling or Nearest())
