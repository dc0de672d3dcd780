"""Prototypes on background: patches that do not show the object (App. J warns of them).

Where the data set has masks, a prototype is on background when less than `least` of its region's pixels show the
object. Where it has only points, when no visible part lies in its region, which is a coarser question: a patch of plain
feathers between two points counts as background.
"""

from collections.abc import Sequence
from typing import Literal

from pixpnet.metrics.bootstrap import class_clusters, defined_mean
from pixpnet.metrics.health.patches import Patch
from pixpnet.metrics.health.record import Background

LEAST_OBJECT = 0.1


def on_background(patch: Patch, least: float = LEAST_OBJECT) -> bool | None:
    """Whether a patch shows the object too little; None where nothing is known."""
    if not patch.region:
        return None
    if patch.masks:
        return patch.object_share is not None and patch.object_share < least
    return None if not patch.visible.any() else not bool(patch.hit.any())


def background(patches: Sequence[Patch], count: int, seed: int = 0, least: float = LEAST_OBJECT) -> Background:
    """The share of prototypes on background.

    Args:
        patches: what is known about prototypes.
        count: how many prototypes there are.
        seed: of the interval, which draws whole classes again.
        least: share of a region's pixels that must show the object.
    """
    classes = class_clusters([patch.label for patch in patches])
    verdicts = [on_background(patch, least) for patch in patches]
    known = [(patch, verdict) for patch, verdict in zip(patches, verdicts, strict=True) if verdict is not None]
    known_by: Literal["masks", "keypoints", "nothing"] = "nothing"
    if known:
        known_by = "masks" if known[0][0].masks else "keypoints"
    return Background(
        share=defined_mean(
            [None if is_background is None else float(is_background) for is_background in verdicts], classes, seed
        ).estimate,
        object_share=defined_mean([patch.object_share for patch in patches], classes, seed).estimate,
        undefined=count - len(known),
        known_by=known_by,
        least=least,
        prototypes=tuple(patch.prototype for patch, verdict in known if verdict),
    )
