"""Features on disk: a folder of files, each written whole or not at all, read by memory mapping, within a budget."""

import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Sequence, Set
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from pixpnet.whole_file import written_whole

_BUDGET = "PIXPNET_FEATURES_GB"
_DEFAULT_GIGABYTES = 20.0


class FeaturesError(RuntimeError):
    """Features that cannot be kept; the message says what to do."""


class FeatureSet:
    """A folder of files with features of one stem and one augmentation; keys name views."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checked = False
        self._places: dict[str, tuple[int, int]] = {}
        self._files: dict[str, int] = {}
        self._tensors: list[tuple[Tensor, Tensor]] = []
        self.refresh()

    def refresh(self) -> None:
        """Opens files that were not there before; a damaged one is deleted, and its views are computed again."""
        if not self.folder.is_dir():
            return
        (self.folder / ".used").touch()
        for path in sorted(self.folder.glob("*.safetensors")):
            if path.name in self._files:
                continue
            try:
                keys, features, to_source = _read(path)
            except (SafetensorError, OSError, ValueError, KeyError, TypeError):
                path.unlink(missing_ok=True)
                continue
            self._files[path.name] = len(self._tensors)
            self._places.update({key: (len(self._tensors), row) for row, key in enumerate(keys)})
            self._tensors.append((features, to_source))

    def holds(self, key: str) -> bool:
        """Whether the features of a view are stored."""
        return key in self._places

    def read(self, key: str) -> tuple[Tensor, Tensor]:
        """Its features, and the way from its pixels to the file's."""
        file, row = self._places[key]
        features, to_source = self._tensors[file]
        return features[row], to_source[row]

    def add(self, keys: Sequence[str], features: Tensor, to_source: Tensor) -> None:
        """Writes the features of some views as one file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.blake2b("\n".join(keys).encode(), digest_size=12).hexdigest()
        header = {"keys": json.dumps(list(keys)), "checksum": str(_checksum(features))}
        with written_whole(self.folder / f"{name}.safetensors") as temporary:
            temporary.write_bytes(save({"features": features, "to_source": to_source}, metadata=header))
        self.refresh()


def make_room(root: Path, own: Set[Path], needed: int) -> None:
    """Removes the sets that were not used for longest, until what is to come fits into the budget.

    Args:
        root: the folder of all sets.
        own: folders that stay.
        needed: bytes that will be written.

    Raises:
        FeaturesError: if it does not fit into the budget or on the disk.
    """
    budget = _budget()
    sizes = {folder: _size(folder) for folder in root.iterdir() if folder.is_dir()} if root.is_dir() else {}
    used = sum(sizes.values())
    own_bytes = sum(size for folder, size in sizes.items() if folder in own)
    if own_bytes + needed > budget:
        raise FeaturesError(
            f"the features of these views take {_gigabytes(own_bytes + needed)}, and the cache may hold "
            f"{_gigabytes(budget)}: take fewer views (--views) or fewer cells (--window-stride), or "
            f"allow more (set {_BUDGET}, in gigabytes)"
        )
    free = shutil.disk_usage(_existing(root)).free
    others = sorted((folder for folder in sizes if folder not in own), key=lambda folder: _last_used(folder))
    while others and (used + needed > budget or needed > free):
        used, free = used - sizes[others[0]], free + sizes[others[0]]
        shutil.rmtree(others.pop(0), ignore_errors=True)
    if needed > free:
        raise FeaturesError(
            f"the features of these views take {_gigabytes(needed)}, and there are {_gigabytes(free)} left on the "
            f"disk of {root}: make room, or set PIXPNET_CACHE to a folder on another one"
        )


def _read(path: Path) -> tuple[list[str], Tensor, Tensor]:
    with safe_open(path, framework="pt") as file:
        header = file.metadata() or {}
        features, to_source = file.get_tensor("features"), file.get_tensor("to_source")
    keys = json.loads(header["keys"])
    if len(keys) != len(features) or int(header["checksum"]) != _checksum(features):
        raise ValueError(f"{path} is damaged")
    return keys, features, to_source


def _checksum(features: Tensor) -> int:
    return zlib.crc32(features.contiguous().view(torch.uint8).numpy().data)


def _budget() -> int:
    text = os.environ.get(_BUDGET, str(_DEFAULT_GIGABYTES))
    try:
        gigabytes = float(text)
    except ValueError as error:
        raise FeaturesError(f"{_BUDGET} is a number of gigabytes, got {text!r}") from error
    return int(gigabytes * 1e9)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def _last_used(folder: Path) -> float:
    mark = folder / ".used"
    return (mark if mark.exists() else folder).stat().st_mtime


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
