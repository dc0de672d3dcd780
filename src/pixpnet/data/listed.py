"""The list of a data set's images by split, as a run keeps it, and what to make of a data set that has changed since.

What was learnt from must never be evaluated on. Folders grow, files are renamed, and a class of few images may have to
give another one for its test split; so a run writes down which pictures it had where, and whatever opens its
data later puts them there again. A picture is known by its pixels, whatever its name, and a changed file by its name.
"""

import csv
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from io import StringIO
from typing import NamedTuple, get_args

from pixpnet.data.catalog import Entry, Split
from pixpnet.data.errors import DataError, listing

_COLUMNS = ("split", "class", "id", "digest")
_LEARNT: tuple[Split, ...] = ("train", "val")


class Listed(NamedTuple):
    """One image of a list.

    Attributes:
        split: where the run had it.
        class_name: of its label.
        id: its stable name then.
        digest: hash of its pixels; empty for an image that was drawn.
    """

    split: Split
    class_name: str
    id: str
    digest: str


@dataclass(frozen=True)
class ImageList:
    """All images of a data set, with the split that each is in."""

    images: tuple[Listed, ...]

    @classmethod
    def of(cls, splits: Iterable[tuple[Split, Iterable[Entry]]], class_names: tuple[str, ...]) -> "ImageList":
        """The list of entries that have been put into splits."""
        return cls(
            tuple(
                Listed(split, class_names[entry.label], entry.id, entry.digest or "")
                for split, entries in splits
                for entry in entries
            )
        )

    @classmethod
    def from_text(cls, text: str) -> "ImageList":
        """Reads what `text` wrote.

        Raises:
            DataError: if it is no such table.
        """
        rows = list(csv.reader(StringIO(text, newline="")))
        if not rows or tuple(rows[0]) != _COLUMNS:
            raise DataError(f"a list of images begins with the columns {','.join(_COLUMNS)}")
        for number, row in enumerate(rows[1:], start=2):
            if len(row) != len(_COLUMNS) or row[0] not in get_args(Split):
                raise DataError(
                    f"row {number}: expected {', '.join(_COLUMNS)} with a split of {get_args(Split)}, got {row}"
                )
        images = tuple(Listed(row[0], *row[1:]) for row in rows[1:])  # type: ignore[arg-type]
        if len({image.id for image in images}) < len(images):
            raise DataError("an image is listed twice")
        return cls(images)

    @property
    def text(self) -> str:
        """The list as comma-separated values."""
        written = StringIO()
        # The csv module does not quote a lone carriage return, and reads it as the end of a row.
        odd = any("\r" in value for image in self.images for value in image)
        writer = csv.writer(written, lineterminator="\n", quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL)
        writer.writerow(_COLUMNS)
        writer.writerows(self.images)
        return written.getvalue()

    @property
    def class_names(self) -> frozenset[str]:
        """Classes that have images to learn from."""
        return frozenset(image.class_name for image in self.images if image.split == "train")

    @property
    def learnt(self) -> frozenset[str]:
        """Digests of the pictures that the run learnt from or was chosen by."""
        return frozenset(image.digest for image in self.images if image.split in _LEARNT and image.digest)


@dataclass(frozen=True)
class Changes:
    """How a data set differs from the list of a run, as stable names of today (of the list for those that are gone).

    Attributes:
        returned: would be in the test split now, but were learnt from (or chosen by) then: not tested on.
        missing: learnt from (or chosen by) then, and no longer there.
        altered: learnt from (or chosen by) then under this name, but with other pixels.
        fresh: not there then, and not in the test split now: the run does not have them.
        fresh_test: not there then, and in the test split now: tested on as well.
    """

    returned: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    altered: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    fresh_test: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """What happened, in words; empty if nothing did."""
        changes = (
            (self.returned, "that the run learnt from or was chosen by would be in the test split now: left out of it"),
            (self.missing, "that the run learnt from or was chosen by are no longer there"),
            (self.altered, "that the run learnt from or was chosen by have other pixels now"),
            (self.fresh, "are new and not in the test split: left out, the run never saw them"),
            (self.fresh_test, "are new in the test split: used there"),
        )
        return tuple(f"{len(ids)} image(s) {change}\n{listing(sorted(ids))}" for ids, change in changes if ids)


class Placed(NamedTuple):
    """Entries where a run had them, and what is different."""

    train: tuple[Entry, ...]
    val: tuple[Entry, ...]
    test: tuple[Entry, ...]
    changes: Changes


def assign_splits(
    splits: Iterable[tuple[Split, Iterable[Entry]]], class_names: tuple[str, ...], listed: ImageList
) -> Placed:
    """Puts entries where a run had them.

    A file that was renamed keeps the name that the run knows it by. A second copy of a listed picture is left out.

    Args:
        splits: where the data set has them now.
        class_names: of their labels.
        listed: where the run had them.
    """
    now = [(split, entry) for split, entries in splits for entry in entries]
    matches = _matches([entry for _, entry in now], class_names, listed)
    names = {entry.id for _, entry in now}
    split_of = {image.digest: image.split for image in reversed(listed.images) if image.digest}
    placed: dict[Split, list[Entry]] = {"train": [], "val": [], "test": []}
    changes: dict[str, list[str]] = defaultdict(list)
    present: set[str] = set()
    for split, entry in now:
        image, digest = matches.get(entry.id), entry.digest or ""
        if (image is None or image.digest != digest) and digest in split_of:
            # A second copy, or one that was put into another class.
            if split == "test" and split_of[digest] != "test":
                changes["returned"].append(entry.id)
        elif image is None or (image.digest != digest and image.split == "test"):
            changes["fresh_test" if split == "test" else "fresh"].append(entry.id)
            if split == "test":
                placed["test"].append(entry)
        else:
            if image.digest != digest:
                changes["altered"].append(entry.id)
            elif split == "test" and image.split != "test":
                changes["returned"].append(entry.id)
            placed[image.split].append(entry if image.id in names else replace(entry, id=image.id))
            present.add(image.id)
    changes["missing"] = [image.id for image in listed.images if image.split in _LEARNT and image.id not in present]
    train, val, test = (tuple(sorted(placed[split], key=lambda entry: entry.id)) for split in ("train", "val", "test"))
    return Placed(train, val, test, Changes(**{name: tuple(ids) for name, ids in changes.items()}))


def _matches(entries: list[Entry], class_names: tuple[str, ...], listed: ImageList) -> dict[str, Listed]:
    """For each entry's id the listed image that it is: the same file, a renamed one, or else one that was altered."""
    known = {image.id: image for image in listed.images}
    matches = {
        entry.id: known[entry.id]
        for entry in entries
        if entry.id in known and known[entry.id].digest == (entry.digest or "")
    }
    unmatched: dict[tuple[str, str], list[Listed]] = defaultdict(list)
    for image in listed.images:
        if image.id not in matches and image.digest:
            unmatched[image.digest, image.class_name].append(image)
    taken = set(matches)
    for entry in entries:
        renamed = unmatched[entry.digest or "", class_names[entry.label]]
        if entry.id not in matches and renamed:
            matches[entry.id] = renamed.pop(0)
            taken.add(matches[entry.id].id)
    for entry in entries:
        if entry.id not in matches and entry.id in known and entry.id not in taken:
            matches[entry.id] = known[entry.id]
    return matches
