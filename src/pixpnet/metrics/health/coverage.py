"""Part coverage: which of a class's parts at least one of its prototypes stands for.

A part counts when at least one of the images that the class's prototypes come from shows it, and is covered when it
lies in the exact region of a prototype that comes from an image that shows it. A prototype that speaks for several
classes counts for each of them, and one without a class for none.
"""

from collections.abc import Sequence

from pixpnet.metrics.bootstrap import bootstrap_mean
from pixpnet.metrics.health.patches import Patch
from pixpnet.metrics.health.record import ClassCoverage, Coverage


def coverage(patches: Sequence[Patch], num_classes: int, seed: int = 0) -> Coverage:
    """The mean over classes of the share of visible parts that are covered.

    Args:
        patches: what is known about prototypes.
        num_classes: how many classes there are.
        seed: of the interval, which draws classes again.
    """
    by_owner: list[list[Patch]] = [[] for _ in range(num_classes)]
    for patch in patches:
        for label in patch.owners:
            by_owner[label].append(patch)
    classes = tuple(_covered(owned, label) for label, owned in enumerate(by_owner))
    defined = [of_class for of_class in classes if of_class.visible]
    shares = [len(of_class.covered) / len(of_class.visible) for of_class in defined]
    return Coverage(
        share=bootstrap_mean(shares, [of_class.label for of_class in defined], seed),
        undefined=num_classes - len(defined),
        classes=classes,
    )


def _covered(patches: Sequence[Patch], label: int) -> ClassCoverage:
    visible = {part for patch in patches for part in patch.visible.nonzero().flatten().tolist()}
    covered = {part for patch in patches for part in patch.hit.nonzero().flatten().tolist()}
    return ClassCoverage(label, tuple(sorted(visible)), tuple(sorted(covered)))
