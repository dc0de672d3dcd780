"""Which files make up a run: a digest of each, in `manifest.json`, so that parts of another run are not taken for it.

A file is announced before it takes its place: the manifest then lists the digest of what is there and of what comes.
So a process may be killed at any moment, and what it leaves still belongs together. When the run ends, each file has
one digest (`settle`). What is added to a run later (measurements, reports, the record of openings) is not listed.

A manifest tells accidents and mix-ups, not forgery: who writes the files can write it too.
"""

import hashlib
import json
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pixpnet.whole_file import read_text, refuse_irregular, written_whole

MANIFEST_FILE = "manifest.json"
# Everything that decides a run or comes out of it, but for the pictures of its prototypes and Lightning's checkpoint.
PARTS = (
    "config.yaml",
    "images.csv",
    "model.safetensors",
    "prototypes.json",
    "checkpoints/before_replacement.safetensors",
    "log.csv",
    "answers.csv",
    "metrics.json",
)
_FORMAT = 1
# Two pictures of each of 20 000 prototypes, 80 characters for each.
_LARGEST = 2**22
_CURE = "put the run's own file back, or train again"


class ManifestError(ValueError):
    """A run folder with a file that is not the run's; the message says which one and what to do."""


class ManifestWarning(UserWarning):
    """A run folder of an earlier version, which says nothing about which files belong to it."""


def digest_of(path: Path) -> str:
    """A hash of what a file holds."""
    refuse_irregular(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


class Manifest:
    """The list of a run folder's files.

    Attributes:
        folder: of the run.
        pictures: name of the folder in it that holds pictures of prototypes.
    """

    def __init__(self, folder: Path, pictures: str = "prototypes") -> None:
        self.folder = folder
        self.pictures = pictures

    @property
    def path(self) -> Path:
        """Where the list is; may not be there."""
        return self.folder / MANIFEST_FILE

    @contextmanager
    def replacing(self, name: str) -> Iterator[Path]:
        """A temporary file that takes its place in the run once the manifest lists it; see `written_whole`."""
        with written_whole(self.folder / name) as temporary:
            yield temporary
            listed = self._read()
            here = [digest_of(self.folder / name)] if (self.folder / name).exists() else []
            known = [digest for digest in here if digest in listed.get(name, ())]
            self._write({**listed, name: [digest_of(temporary), *known]})

    def lists(self, name: str) -> bool:
        """Whether the run has, or had, a file of this name."""
        return name in self._read()

    def settle(self, pictures: bool) -> None:
        """Lists every file once, as it is now; pictures only when they are complete."""
        names = [name for name in PARTS if (self.folder / name).exists()]
        if pictures:
            names += self._pictures()
        self._write({name: [digest_of(self.folder / name)] for name in names})

    def check(self, pictures: bool = True) -> None:
        """Compares the files with the list.

        A file that is missing is none that could mislead, and is missed by whoever needs it.

        Args:
            pictures: look at the pictures of prototypes as well.

        Raises:
            ManifestError: if a file is another than the run wrote, or the list is damaged.

        Warns:
            ManifestWarning: if there is no list, as in runs of earlier versions.
        """
        if not self.path.exists():
            warnings.warn(
                f"{self.folder} has no {MANIFEST_FILE}, as runs of earlier versions: whether its files belong together "
                "is not checked",
                ManifestWarning,
                stacklevel=2,
            )
            return
        listed = self._read()
        for name in PARTS:
            path = self.folder / name
            if path.exists() and digest_of(path) not in listed.get(name, ()):
                raise ManifestError(f"{path} does not belong to this run, or is damaged: {_CURE}")
        if pictures and any(map(self._is_picture, listed)):
            self._check_pictures(listed)

    def _check_pictures(self, listed: dict[str, list[str]]) -> None:
        for name in self._pictures():
            if digest_of(self.folder / name) not in listed.get(name, ()):
                raise ManifestError(f"{self.folder / name} does not belong to this run, or is damaged: {_CURE}")

    def _pictures(self) -> list[str]:
        folder = self.folder / self.pictures
        files: Iterable[Path] = sorted(folder.iterdir()) if folder.is_dir() else ()
        return [f"{self.pictures}/{path.name}" for path in files if path.suffix in (".png", ".jpg")]

    def _is_picture(self, name: str) -> bool:
        return name.startswith(f"{self.pictures}/")

    def _read(self) -> dict[str, list[str]]:
        if not self.path.exists():
            return {}
        try:
            values = json.loads(read_text(self.path, _LARGEST))
            files = values["files"]
            if values["format"] != _FORMAT or not all(
                isinstance(name, str) and all(isinstance(digest, str) for digest in digests)
                for name, digests in files.items()
            ):
                raise ValueError(f"its format is {values['format']!r}, this version reads {_FORMAT}")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ManifestError(f"{self.path} is damaged ({error}): {_CURE}") from error
        return {name: list(digests) for name, digests in files.items()}

    def _write(self, files: dict[str, list[str]]) -> None:
        with written_whole(self.path) as temporary:
            temporary.write_text(json.dumps({"format": _FORMAT, "files": files}, indent=1) + "\n", encoding="utf-8")
