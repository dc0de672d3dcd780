"""The certificate of an answer in words: what it says, and no more than that."""

from pixpnet.explanation.record import Explanation
from pixpnet.wording import percent


def deciding_text(explanation: Explanation) -> str:
    """Which scores decide; empty where that was not asked."""
    if explanation.not_deciding:
        return f"Which scores decide cannot be told: {explanation.not_deciding.rstrip('.')}."
    decisive = explanation.deciding
    if decisive is None:
        return ""
    count = len(decisive.prototypes)
    if count == decisive.of:
        return f"Only all {count} scores together decide the answer: leave out the smallest, and it could be another."
    seen = percent(decisive.seen)
    if count == 1:
        return (
            f"The largest of {decisive.of} scores decides: as long as no other score exceeds it, no values of the rest "
            f"change the answer. The cell that gave it saw {seen} of the image; that nothing else scored higher rests "
            "on the whole image."
        )
    return (
        f"The {count} largest of {decisive.of} scores decide: as long as no other score exceeds the "
        f"{ordinal(count)}, no values of the rest change the answer. The cells that gave these {count} saw {seen} of "
        "the image; that nothing else scored higher rests on the whole image."
    )


def ordinal(number: int) -> str:
    """A number in a row.

    >>> [ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)]
    ['1st', '2nd', '3rd', '4th', '11th', '12th', '13th', '21st', '102nd', '111th']
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
