"""Whether a picture is on both sides of a split, whatever its name."""

from collections.abc import Iterable, Mapping

from pixpnet.data.catalogue import Entry
from pixpnet.data.errors import Leak
from pixpnet.data.scan import FileFacts


def find_leaks(train: Iterable[Entry], test: Iterable[Entry], facts: Mapping[str, FileFacts]) -> tuple[Leak, ...]:
    """Test images whose pixels are also those of a training image.

    Args:
        train: entries that a model may learn from, validation included.
        test: entries that it may not.
        facts: of all of them, by stable id.
    """
    first_with: dict[str, str] = {}
    for entry in train:
        if facts[entry.id].reason is None:
            first_with.setdefault(facts[entry.id].digest, entry.id)
    return tuple(
        Leak(first_with[facts[entry.id].digest], entry.id) for entry in test if facts[entry.id].digest in first_with
    )
