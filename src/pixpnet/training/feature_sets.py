"""Features on disk: a folder of files, each written whole or not at all, and read by memory mapping."""

import hashlib
import json
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from pixpnet.whole_file import written_whole


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
        """Whether a view is there."""
        return key in self._places

    def read(self, key: str) -> tuple[Tensor, Tensor]:
        """Its features, and the way from its pixels to the file's."""
        file, row = self._places[key]
        features, to_source = self._tensors[file]
        return features[row], to_source[row]

    def add(self, keys: Sequence[str], features: Tensor, to_source: Tensor) -> None:
        """Writes a file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.blake2b("\n".join(keys).encode(), digest_size=12).hexdigest()
        header = {"keys": json.dumps(list(keys)), "checksum": str(_checksum(features))}
        with written_whole(self.folder / f"{name}.safetensors") as temporary:
            temporary.write_bytes(save({"features": features, "to_source": to_source}, metadata=header))
        self.refresh()


def _read(path: Path) -> tuple[list[str], Tensor, Tensor]:
    with safe_open(path, framework="pt") as file:
        header = file.metadata() or {}
        features, to_source = file.get_tensor("features"), file.get_tensor("to_source")
    keys = json.loads(header["keys"])
    if len(keys) != len(features) or int(header["checksum"]) != _checksum(features):
        raise ValueError(f"{path} is damaged")
    return keys, features, to_source


def _checksum(features: Tensor) -> int:
    return zlib.crc32(features.contiguous().numpy().view(np.uint8).data)
