"""Suspicion: an order in which to look at prototypes, with reasons in plain words.

A sum of what speaks against a prototype; the numbers are a choice, so that the worst come first:

| evidence | adds |
|---|---|
| its patch shows (nearly) nothing of the object | 2, and up to 1 more the more right answers rely on it |
| it added most to wrong answers | 0.5 for each, up to 2 |
| training images that score highest are of other classes | their share, where it is above a quarter |
| it shows no one part in them | 1/2 - purity, where purity is below a half |
| it is a duplicate of another one | 0.25 |
| no answer depends on it alone | 0.1 |

What was removed has none. A patch on background that is relied on is how a shortcut looks: a model that answers rightly
for a wrong reason.
"""

from collections.abc import Sequence
from dataclasses import replace

from pixpnet.class_names import printable
from pixpnet.metrics.review.record import Review
from pixpnet.wording import percent

_SHARE_OF_OTHERS = 0.25
_PURE = 0.5
_RELIED_ON = 0.5


def with_suspicion(reviews: Sequence[Review], images: int) -> tuple[Review, ...]:
    """The reviews with a score and its reasons.

    Args:
        reviews: of all prototypes.
        images: how many validation images there were.
    """
    reliance = _ranks([review.mean_right if review.counts else None for review in reviews])
    return tuple(_judged(review, reliance[number], images) for number, review in enumerate(reviews))


def _judged(review: Review, reliance: float, images: int) -> Review:
    evidence: list[tuple[float, str]] = []
    if review.on_background:
        shown = "" if review.object_share is None else f" ({percent(review.object_share)} of what it sees)"
        relied = f", and right answers rely on it more than on {percent(reliance)} of the others"
        relied = relied if reliance > _RELIED_ON else ""
        evidence.append((2 + reliance, f"its patch shows background, not the object{shown}{relied}"))
    if review.misled_count:
        times = "one wrong answer" if review.misled_count == 1 else f"{review.misled_count} wrong answers"
        evidence.append((min(2.0, review.misled_count / 2), f"it added most to {times} of {images}"))
    if review.other_share is not None and review.other_share > _SHARE_OF_OTHERS:
        names = " and ".join(map(printable, review.other_classes[:2]))
        evidence.append(
            (
                review.other_share,
                f"{percent(review.other_share)} of its best training images are others, such as {names}",
            )
        )
    if review.purity is not None and review.purity < _PURE:
        evidence.append((_PURE - review.purity, f"it shows no one part: the most frequent in {percent(review.purity)}"))
    if review.duplicates:
        listed = ", ".join(map(str, review.duplicates[:3]))
        evidence.append((0.25, f"it says the same as prototype {listed}"))
    if not review.decides:
        evidence.append((0.1, "no validation answer depends on it alone"))
    if not review.counts:
        return replace(review, suspicion=0.0, reasons=("it counts for nothing: its weights are 0",))
    evidence.sort(key=lambda item: -item[0])
    total = sum(points for points, _ in evidence)
    return replace(review, suspicion=total, reasons=tuple(reason for _, reason in evidence))


def _ranks(values: Sequence[float | None]) -> list[float]:
    """The share of the others that each value exceeds; 0 where there is none.

    >>> _ranks([1.0, None, 3.0, 2.0])
    [0.0, 0.0, 1.0, 0.5]
    """
    known = sorted(value for value in values if value is not None)
    most = max(1, len(known) - 1)
    return [0.0 if value is None else sum(other < value for other in known) / most for value in values]
