"""Measures: how far every patch of an embedding is from every prototype (Sec. 2 and 4), by generalised convolution.

A measure falls as patch and prototype become more alike; it need not be a distance in the mathematical sense
(`Projection` is negative). Each measure answers for itself: how much rounding a proof must allow, how a similarity is
shared by the channels, when two prototypes are the same.

A distance between patches and prototypes is expanded so that its only large part is one convolution of the
embeddings with the prototypes; no tensor of batch x prototypes x cells x dim ever exists. Everything is computed in
float32 or better, also under autocast: the similarity has its pole at distance 0, where bfloat16 has three digits.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import pi, sqrt

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor
from torch.nn import functional as F

from pixpnet.parts.chosen import one_minus, products_at
from pixpnet.parts.products import all_products
from pixpnet.parts.similarities import Similarity

Patches = Float[Tensor, "protos dim kernel_rows kernel_cols"]
# Rounding that a proof allows, in units in the last place of what a measure is computed from.
_UNITS_IN_THE_LAST_PLACE = 16
# Keeps the root, and its gradient, away from 0; the published number of ProtoTree.
_LEAST_SQUARE = 1e-14
# Keeps the reciprocal of a squared difference finite.
_SMALLEST_DIFFERENCE = 1e-12
# Keeps norms, and with them gradients, away from the pole of a vector of zeros; its distance to anything is 1.
_SMALLEST_SQUARE = 1e-12


@dataclass(frozen=True)
class Factors:
    """What a measure is computed from: scalar products of two factors, and a number for each patch and prototype.

    Attributes:
        patches: the left factor, at every cell.
        prototypes: the right factor.
        of_patches: a number for each patch; None where the measure needs none.
        of_prototypes: a number for each prototype; None where the measure needs none.
    """

    patches: Float[Tensor, "batch dim rows cols"]
    prototypes: Float[Tensor, "protos dim kernel_rows kernel_cols"]
    of_patches: Float[Tensor, "batch 1 positions_down positions_across"] | None = None
    of_prototypes: Float[Tensor, " protos"] | None = None

    def products(self) -> Float[Tensor, "batch protos positions_down positions_across"]:
        """The scalar product of every patch with every prototype: the only large part."""
        return all_products(self.patches, self.prototypes)


class Measure(ABC):
    """How alike a patch and a prototype are: smaller is more alike."""

    @abstractmethod
    def factors(
        self,
        embeddings: Float[Tensor, "batch dim rows cols"],
        prototypes: Float[Tensor, "protos dim kernel_rows kernel_cols"],
    ) -> Factors:
        """What the measure is computed from."""

    @abstractmethod
    def of_products(
        self,
        products: Float[Tensor, "batch protos *positions"],
        of_patches: Float[Tensor, "batch ..."] | None,
        of_prototypes: Float[Tensor, "protos ..."] | None,
    ) -> Float[Tensor, "batch protos *positions"]:
        """The measure, number by number, from the scalar products and the numbers of patches and prototypes."""

    def maps(
        self,
        embeddings: Float[Tensor, "batch dim rows cols"],
        prototypes: Float[Tensor, "protos dim kernel_rows kernel_cols"],
    ) -> Float[Tensor, "batch protos positions_down positions_across"]:
        """The measure at every position, in the precision of what is given."""
        return self.maps_of(factors := self.factors(embeddings, prototypes), factors.products())

    def maps_of(
        self, factors: Factors, products: Float[Tensor, "batch protos positions_down positions_across"]
    ) -> Float[Tensor, "batch protos positions_down positions_across"]:
        """The measure at every position, from the scalar products at every position."""
        numbers = factors.of_prototypes
        return self.of_products(products, factors.of_patches, None if numbers is None else numbers[:, None, None])

    def at_cells(
        self,
        factors: Factors,
        products: Float[Tensor, "batch protos rows cols"],
        cells: Int64[Tensor, "batch protos"],
    ) -> Float[Tensor, "batch protos"]:
        """The measure at one cell for each prototype: the numbers of its map, with a gradient as sparse as the choice.

        Args:
            factors: of prototypes of one cell.
            products: scalar products at every position.
            cells: the number of a cell for each prototype, row by row.
        """
        chosen = products_at(factors.patches, factors.prototypes, products, cells)
        numbers = factors.of_patches
        of_patches = None if numbers is None else numbers.flatten(1).gather(1, cells)
        return self.of_products(chosen, of_patches, factors.of_prototypes)

    @abstractmethod
    def shares(self, patches: Patches, prototypes: Patches, similarity: Similarity) -> Patches:
        """What part each channel of each patch has in the similarity to its prototype; not negative, sum 1."""

    @abstractmethod
    def magnitude(self, numbers: int) -> float:
        """How large the numbers are that cancel in it, for vectors of so many: rounding errors are in units of that."""

    def rounding(self, numbers: int, value: float) -> float:
        """How far rounding may move the measure where it has this value, for vectors of so many numbers, in float32."""
        return _UNITS_IN_THE_LAST_PLACE * torch.finfo(torch.float32).eps * self.magnitude(numbers)

    @abstractmethod
    def range(self, numbers: int) -> tuple[float, float]:
        """The least and the largest value for vectors of so many numbers, each between 0 and 1."""

    def range_for(self, prototypes: Patches) -> tuple[float, float]:
        """The least and the largest value between these prototypes and patches of numbers between 0 and 1."""
        return self.range(prototypes[0].numel())

    @abstractmethod
    def after_move(
        self, values: Float64[Tensor, "batch protos"], old: Patches, new: Patches
    ) -> tuple[Float64[Tensor, "batch protos"], Float64[Tensor, "batch protos"]]:
        """The least and the largest value to the nearest patch after prototypes moved, from the value before.

        By the triangle inequality for each patch; the minimum over patches keeps it.
        """

    def comparable(self, vectors: Float[Tensor, "protos numbers"]) -> Float[Tensor, "protos numbers"]:
        """Prototypes as vectors that are equal exactly where the measure cannot tell them apart."""
        return vectors


class Cosine(Measure):
    """One minus the cosine of the angle between patch and prototype: 0 the same direction, 1 none.

    >>> one = torch.tensor([1.0, 0.0]).reshape(1, 2, 1, 1)
    >>> two = torch.tensor([[3.0, 0.0], [0.0, 1.0]]).reshape(2, 2, 1, 1)
    >>> Cosine().maps(one, two).flatten().tolist()
    [0.0, 1.0]
    """

    def factors(self, embeddings: Tensor, prototypes: Tensor) -> Factors:
        """Directions; those of patches of several cells are known only where the whole patch is."""
        squares = prototypes.square().sum(dim=(1, 2, 3), keepdim=True)
        directions = prototypes * squares.clamp_min(_SMALLEST_SQUARE).rsqrt()
        squares = window_sums(embeddings.square().sum(dim=1, keepdim=True), prototypes)
        scales = squares.clamp_min(_SMALLEST_SQUARE).rsqrt()
        if prototypes.shape[-2:] == (1, 1):
            return Factors(embeddings * scales, directions)
        return Factors(embeddings, directions, scales)

    def of_products(self, products: Tensor, of_patches: Tensor | None, of_prototypes: Tensor | None) -> Tensor:
        """See `Measure`."""
        cosines = products if of_patches is None else products * of_patches
        return one_minus(cosines)

    def shares(self, patches: Patches, prototypes: Patches, similarity: Similarity) -> Patches:
        """The parts of the scalar product that speak for the prototype: (z_n p_n)+ over their sum."""
        return divided(patches * prototypes)

    def magnitude(self, numbers: int) -> float:
        """Directions have length 1."""
        return 1.0

    def range(self, numbers: int) -> tuple[float, float]:
        """Vectors without negative numbers are at most at right angles."""
        return 0.0, 1.0

    def range_for(self, prototypes: Patches) -> tuple[float, float]:
        """Learnt prototypes may have negative numbers, and then point away from patches."""
        return (0.0, 1.0) if float(prototypes.amin()) >= 0 else (0.0, 2.0)

    def after_move(self, values: Tensor, old: Patches, new: Patches) -> tuple[Tensor, Tensor]:
        """Angles on the sphere change by at most the angle that the prototype moved."""
        angles = (1 - values).clamp(-1, 1).arccos()
        moved = _angle(old, new)
        return 1 - (angles - moved).clamp_min(0).cos(), 1 - (angles + moved).clamp_max(pi).cos()

    def comparable(self, vectors: Tensor) -> Tensor:
        """Only directions count."""
        return F.normalize(vectors)


class Projection(Measure):
    """Minus the length of a patch's projection onto the direction of a prototype (TesNet).

    Patches keep their length, so it is not bounded by 1; it is positive where they point away from the prototype.

    >>> one = torch.tensor([2.0, 1.0]).reshape(1, 2, 1, 1)
    >>> two = torch.tensor([[3.0, 0.0], [0.0, -1.0]]).reshape(2, 2, 1, 1)
    >>> Projection().maps(one, two).flatten().tolist()
    [-2.0, 1.0]
    """

    def factors(self, embeddings: Tensor, prototypes: Tensor) -> Factors:
        """Patches as they are, and directions of prototypes."""
        squares = prototypes.square().sum(dim=(1, 2, 3), keepdim=True)
        return Factors(embeddings, prototypes * squares.clamp_min(_SMALLEST_SQUARE).rsqrt())

    def of_products(self, products: Tensor, of_patches: Tensor | None, of_prototypes: Tensor | None) -> Tensor:
        """See `Measure`."""
        return -products

    def shares(self, patches: Patches, prototypes: Patches, similarity: Similarity) -> Patches:
        """The parts of the scalar product that speak for the prototype: (z_n p_n)+ over their sum."""
        return divided(patches * prototypes)

    def magnitude(self, numbers: int) -> float:
        """A scalar product with a vector of length 1: at most the length of the patch."""
        return sqrt(numbers)

    def range(self, numbers: int) -> tuple[float, float]:
        """The longest patch along the prototype or against it: learnt prototypes may have negative numbers."""
        return -sqrt(numbers), sqrt(numbers)

    def after_move(self, values: Tensor, old: Patches, new: Patches) -> tuple[Tensor, Tensor]:
        """By at most the length of the longest patch times how far the direction moved."""
        moved = sqrt(old[0].numel()) * (F.normalize(old.flatten(1)) - F.normalize(new.flatten(1))).norm(dim=1)
        return values - moved, values + moved

    def comparable(self, vectors: Tensor) -> Tensor:
        """Only directions count."""
        return F.normalize(vectors)


class SquaredL2(Measure):
    """The squared Euclidean distance of patch and prototype.

    >>> one = torch.tensor([1.0, 0.0]).reshape(1, 2, 1, 1)
    >>> two = torch.tensor([[3.0, 0.0], [0.0, 1.0]]).reshape(2, 2, 1, 1)
    >>> SquaredL2().maps(one, two).flatten().tolist()
    [4.0, 2.0]
    """

    def factors(self, embeddings: Tensor, prototypes: Tensor) -> Factors:
        """Both around the mean of the prototypes, and their squared lengths."""
        # The distance does not change when both move, and the nearer they are to the origin, the less is cancelled.
        center = prototypes.detach().mean(dim=(0, 2, 3))[:, None, None]
        embeddings, prototypes = embeddings - center, prototypes - center
        patches = window_sums(embeddings.square().sum(dim=1, keepdim=True), prototypes)
        return Factors(embeddings, prototypes, patches, prototypes.square().sum(dim=(1, 2, 3)))

    def of_products(self, products: Tensor, of_patches: Tensor | None, of_prototypes: Tensor | None) -> Tensor:
        """See `Measure`."""
        assert of_patches is not None and of_prototypes is not None
        return (of_patches - 2 * products + of_prototypes).clamp_min(0)

    def shares(self, patches: Patches, prototypes: Patches, similarity: Similarity) -> Patches:
        """The similarity that each channel would have alone, over the sum of those."""
        return divided(similarity((patches - prototypes).square()))

    def magnitude(self, numbers: int) -> float:
        """A sum of squares of numbers between 0 and 1."""
        return float(numbers)

    def range(self, numbers: int) -> tuple[float, float]:
        """From the same vector to opposite corners of the unit cube."""
        return 0.0, float(numbers)

    def after_move(self, values: Tensor, old: Patches, new: Patches) -> tuple[Tensor, Tensor]:
        """Distances change by at most how far the prototype moved."""
        roots, moved = values.clamp_min(0).sqrt(), _moved(old, new)
        return (roots - moved).clamp_min(0).square(), (roots + moved).square()


class L2(SquaredL2):
    """The Euclidean distance, not squared (ProtoTree); a floor under the root keeps its gradient finite."""

    def of_products(self, products: Tensor, of_patches: Tensor | None, of_prototypes: Tensor | None) -> Tensor:
        """See `Measure`."""
        return (super().of_products(products, of_patches, of_prototypes) + _LEAST_SQUARE).sqrt()

    def shares(self, patches: Patches, prototypes: Patches, similarity: Similarity) -> Patches:
        """The nearer a channel, the larger its share: in proportion to one over its squared difference (PRP)."""
        return divided(((patches - prototypes).square() + _SMALLEST_DIFFERENCE).reciprocal())

    def magnitude(self, numbers: int) -> float:
        """Of the squared distance, a sum of squares of numbers between 0 and 1."""
        return float(numbers)

    def rounding(self, numbers: int, value: float) -> float:
        """A root is the steeper the nearer it is to 0: an error e of the square is one of e / d, at most its root."""
        squared = super().rounding(numbers, value)
        return squared / max(value, sqrt(squared))

    def range(self, numbers: int) -> tuple[float, float]:
        """From the same vector to opposite corners of the unit cube."""
        return 0.0, sqrt(numbers)

    def after_move(self, values: Tensor, old: Patches, new: Patches) -> tuple[Tensor, Tensor]:
        """Distances change by at most how far the prototype moved; the floor under the root is part of them."""
        squares, moved = (values.square() - _LEAST_SQUARE).clamp_min(0), _moved(old, new)
        near, far = (squares.sqrt() - moved).clamp_min(0), squares.sqrt() + moved
        return (near.square() + _LEAST_SQUARE).sqrt(), (far.square() + _LEAST_SQUARE).sqrt()


def _moved(old: Patches, new: Patches) -> Float[Tensor, " protos"]:
    moved: Tensor = torch.linalg.vector_norm(new - old, dim=(1, 2, 3))
    return moved


def _angle(old: Patches, new: Patches) -> Float[Tensor, " protos"]:
    """Between each prototype and where it moves; from the chord, because the cosine forgets small angles.

    A vector of zeros has no direction, so it may be at any angle.
    """
    one, other = old.flatten(1), new.flatten(1)
    chords: Tensor = torch.linalg.vector_norm(F.normalize(one) - F.normalize(other), dim=1)
    shortest: Tensor = torch.minimum(*(torch.linalg.vector_norm(vectors, dim=1) for vectors in (one, other)))
    return (2 * (chords / 2).clamp_max(1).arcsin()).masked_fill(shortest <= sqrt(_SMALLEST_SQUARE), pi)


def divided(parts: Patches) -> Patches:
    """Shares in proportion to what is positive; equal ones where nothing is.

    >>> divided(torch.tensor([3.0, 1.0, -1.0]).reshape(1, 3, 1, 1)).flatten().tolist()
    [0.75, 0.25, 0.0]
    """
    parts = parts.clamp_min(0)
    sums = parts.sum(dim=(1, 2, 3), keepdim=True)
    return torch.where(sums > 0, parts / sums, 1 / parts[0].numel())


def window_sums(values: Float[Tensor, "batch 1 rows cols"], prototypes: Tensor) -> Tensor:
    """Sums over windows of the size of a prototype."""
    rows, cols = prototypes.shape[-2:]
    return values if (rows, cols) == (1, 1) else F.conv2d(values, values.new_ones(1, 1, rows, cols))
