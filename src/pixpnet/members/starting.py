"""Where networks begin to learn that compare by squared distances."""

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt
from typing import Any

from pixpnet.members.classwise import Settings


def for_photographs(presets: Mapping[str, Settings]) -> Mapping[str, Settings]:
    """Presets in which those for a few hundred photographs begin where squared distances are about 1.

    From the published start the cluster loss first pulls all embeddings to one point, and what is learnt there are the
    training images by heart (docs/decisions/small-budgets.md). Near the centre, cluster and separation weigh an eighth
    of what is published. Where features are kept, so that the same views come again and again, and a prototype is one
    cell, half of the channels are left out at a time; prototypes of several cells do not learn with that. `paper` and
    `scratch` stay as they are.

    Args:
        presets: of a member that compares by squared distances.
    """

    def centered(settings: Any) -> Any:
        architecture, losses = settings.architecture, settings.losses
        channel_dropout = 0.5 if settings.optimization.frozen and architecture.kernel == (1, 1) else 0.0
        return replace(
            settings,
            architecture=replace(architecture, start="centered", channel_dropout=channel_dropout),
            losses=replace(
                losses, cluster_weight=losses.cluster_weight / 8, separation_weight=losses.separation_weight / 8
            ),
        )

    return {
        name: centered(settings) if name in ("laptop", "frozen", "tail") else settings
        for name, settings in presets.items()
    }


def centered_deviation(numbers: int) -> float:
    """The standard deviation of embeddings and prototypes at which squared distances are about 1 on average.

    Both are drawn about the same centre, so each number of a prototype adds twice the variance.

    Args:
        numbers: of a prototype: the length of embeddings times its cells.

    >>> centered_deviation(128)
    0.0625
    """
    return sqrt(1 / (2 * numbers))
