"""Which pictures a command was given: files, folders with everything in them, and patterns."""

import os
from collections.abc import Iterator, Sequence
from glob import glob, has_magic
from pathlib import Path


def picture_files(names: Sequence[str]) -> list[Path]:
    """Every picture that is meant, in the order of the names, and once.

    A folder stands for the pictures in it at any depth (by the endings of their names, hidden ones apart), a pattern
    such as `photos/**/*.jpg` for the files that match, so that it need not be the shell that finds them.

    Raises:
        ValueError: if a folder holds no picture, or nothing matches a pattern.
    """
    return list(dict.fromkeys(path for name in names for path in _meant(name)))


def _meant(name: str) -> Iterator[Path]:
    path = Path(name)
    if path.is_dir():
        pictures = [*_in_folder(path)]
        if not pictures:
            raise ValueError(f"there is no picture in the folder {name}")
        yield from pictures
    elif has_magic(name) and not path.exists():
        matches = [Path(match) for match in sorted(glob(name, recursive=True))]  # noqa: PTH207  patterns may be absolute
        if not matches:
            raise ValueError(f"no file matches the pattern {name}")
        for match in matches:
            yield from _in_folder(match) if match.is_dir() else (match,)
    else:
        yield path  # whoever reads it says what is wrong with it


def _in_folder(folder: Path) -> Iterator[Path]:
    from pixpnet.data.decode import EXTENSIONS

    for current, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and Path(name).suffix.lower() in EXTENSIONS:
                yield Path(current, name)
