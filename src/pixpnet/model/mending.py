"""What was done to a model after training: prototypes that a person removed or required, and how."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pixpnet.class_names import printable

Way = Literal["scaled", "dropped", "refitted"]
WAYS: dict[Way, str] = {
    "scaled": "The others of the class are scaled by as many as there were over as many as are left.",
    "dropped": "Their scores are left out, and nothing else changes.",
    "refitted": "The weights of all others were fitted anew, in closed form.",
}


@dataclass(frozen=True)
class Mending:
    """How a model differs from the one that was trained.

    Attributes:
        source: name of the run that it was made from.
        source_model: hash of the model there.
        removed: prototypes that were removed then; they keep their numbers, and count for nothing.
        required: prototypes whose weight had to be at least `least_weights`.
        least_weights: of those.
        way: how the others make up for those that were removed.
    """

    source: str
    source_model: str
    removed: tuple[int, ...]
    required: tuple[int, ...]
    least_weights: tuple[float, ...]
    way: Way

    def __post_init__(self) -> None:
        if len(self.required) != len(self.least_weights):
            raise ValueError(f"{len(self.required)} prototypes are required with {len(self.least_weights)} weights")


def removed_by(mendings: Sequence[Mending]) -> frozenset[int]:
    """Prototypes that are removed after all mendings; one that was required later is there again.

    >>> first = Mending("a", "0", (3, 7), (), (), "dropped")
    >>> sorted(removed_by([first, Mending("b", "1", (), (7,), (0.5,), "refitted")]))
    [3]
    """
    removed: set[int] = set()
    for mending in mendings:
        removed = (removed | set(mending.removed)) - set(mending.required)
    return frozenset(removed)


def mending_text(mendings: Sequence[Mending]) -> str:
    """What was done to a model, as sentences.

    >>> mending_text([Mending("birds", "0a1b", (3, 7), (), (), "dropped")])  # doctest: +ELLIPSIS
    'Made from the run birds, without training: 2 prototypes removed (3, 7). Their scores are left out, and ...'
    """
    return " ".join(_sentence(mending) for mending in mendings)


def _sentence(mending: Mending) -> str:
    done = []
    if mending.removed:
        count = len(mending.removed)
        numbers = ", ".join(map(str, mending.removed))
        done.append(f"{count} prototype{'' if count == 1 else 's'} removed ({numbers})")
    if mending.required:
        pairs = zip(mending.required, mending.least_weights, strict=True)
        done.append(
            f"required with at least {', '.join(f'{weight:g} (prototype {number})' for number, weight in pairs)}"
        )
    return f"Made from the run {printable(mending.source)}, without training: {', '.join(done)}. {WAYS[mending.way]}"
