"""Whether a picture is on both sides of a split, whatever its name."""

from collections.abc import Iterable

from pixpnet.data.catalog import Entry
from pixpnet.data.errors import Leak


def find_leaks(train: Iterable[Entry], test: Iterable[Entry]) -> tuple[Leak, ...]:
    """Images held out whose pixels are also those of a training image; images without a digest have no copies.

    Args:
        train: entries that a model may learn from.
        test: entries that it may not.
    """
    first_with: dict[str, str] = {}
    for entry in train:
        if entry.digest is not None:
            first_with.setdefault(entry.digest, entry.id)
    return tuple(Leak(first_with[entry.digest], entry.id) for entry in test if entry.digest in first_with)
