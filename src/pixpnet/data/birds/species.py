"""The species of the drawn birds: twelve words over the variants of eight parts.

No part decides. Every variant belongs to exactly four of the twelve species, in two of the four genera,
so whoever reads one part, however well, names three species in twelve at best. The three species of a
genus differ in exactly two parts, always one on the head and one on the trunk or below it, so that a leaf
in front of either leaves the other to decide; species of different genera differ in at least six.

How the table is made: each genus owns two parts which cycle through their variants within it; over the
other three genera, where such a part is constant, its variants are a permutation. That gives the balance;
the permutations were searched for the largest distance between genera and for the most independent parts
(any two parts together take at least six of their nine combinations).

Colour is no part of the table: a bird's colours are drawn anew for every picture.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

PARTS = ("beak", "crown", "eye", "cheek", "throat", "back", "wing", "belly", "tail", "leg")
"""The annotated parts, in the order of `Drawing.masks`, `Drawing.keypoints` and `Drawing.visible`."""

VARIANTS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "beak": ("cone", "needle", "sickle"),
        "crown": ("cap", "crest", "stripes"),
        "eye": ("ring", "mask", "brow"),
        "throat": ("plain", "bib", "collar"),
        "wing": ("plain", "bars", "spots"),
        "belly": ("plain", "streaks", "bands"),
        "tail": ("fork", "fan", "stub"),
        "leg": ("bare", "trousers", "rings"),
    }
)
"""The parts that tell species apart, each with its variants. Cheek and back are the same in all species."""


@dataclass(frozen=True)
class Species:
    """A kind of bird: a name, and one variant for each part of `VARIANTS`, in that order.

    >>> finch = Species("test finch", ("cone", "cap", "ring", "plain", "plain", "plain", "fork", "bare"))
    >>> finch.variant("tail")
    'fork'
    """

    name: str
    variants: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.variants) != len(VARIANTS):
            raise ValueError(
                f"{self.name!r} has {len(self.variants)} variants; give one for each of {list(VARIANTS)}"
            )
        for part, variant in zip(VARIANTS, self.variants, strict=True):
            if variant not in VARIANTS[part]:
                raise ValueError(f"{self.name!r} has {part} {variant!r}; choose one of {VARIANTS[part]}")

    @property
    def genus(self) -> str:
        """The last word of the name.

        >>> SPECIES[0].genus
        'finch'
        """
        return self.name.split()[-1]

    def variant(self, part: str) -> str:
        """The variant that this species has of a part.

        >>> SPECIES[0].variant("beak")
        'needle'
        """
        if part not in VARIANTS:
            raise KeyError(f"part {part!r} has no variants; parts that have: {list(VARIANTS)}")
        return self.variants[list(VARIANTS).index(part)]

    def differs_from(self, other: "Species") -> tuple[str, ...]:
        """The parts in which two species differ.

        >>> SPECIES[0].differs_from(SPECIES[1])
        ('eye', 'tail')
        """
        return tuple(part for part in VARIANTS if self.variant(part) != other.variant(part))


SPECIES: tuple[Species, ...] = tuple(
    Species(name, tuple(variants.split()))
    for name, variants in (
        # name            beak    crown   eye   throat  wing   belly   tail  leg
        ("alder finch", "  needle crest   ring  collar  plain  bands   fork  bare"),
        ("birch finch", "  needle crest   mask  collar  plain  bands   fan   bare"),
        ("cedar finch", "  needle crest   brow  collar  plain  bands   stub  bare"),
        ("dune lark", "    sickle stripes mask  plain   plain  plain   stub  trousers"),
        ("elder lark", "   sickle stripes mask  bib     bars   plain   stub  trousers"),
        ("fen lark", "     sickle stripes mask  collar  spots  plain   stub  trousers"),
        ("gorse wren", "   cone   cap     brow  bib     spots  streaks fork  bare"),
        ("heath wren", "   needle cap     brow  bib     spots  streaks fork  trousers"),
        ("ivy wren", "     sickle cap     brow  bib     spots  streaks fork  rings"),
        ("juniper tit", "  cone   cap     ring  plain   bars   plain   fan   rings"),
        ("knoll tit", "    cone   crest   ring  plain   bars   streaks fan   rings"),
        ("larch tit", "    cone   stripes ring  plain   bars   bands   fan   rings"),
    )
)
"""The twelve species. Their place in this tuple is their label."""
