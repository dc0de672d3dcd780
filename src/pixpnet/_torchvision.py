"""The one place that makes torchvision importable beside a CPU-only torch.

torchvision's wheel from the package registry carries operators compiled against a CUDA build of torch.
Beside a CPU-only torch its library of operators does not load, and ``import torchvision`` then stops with
"operator torchvision::nms does not exist", because it attaches shape functions to operators that were
never defined. Nothing in pixpnet uses those operators (they serve object detection), so on that very error
we declare them, without an implementation, and run torchvision's code again. Any other error is not ours to cure.

``import pixpnet`` watches for the import of torchvision, whoever asks for it afterwards (Lightning, torchmetrics, timm,
a user's script), and imports nothing itself. A script that imports torch or Lightning first gets the same: ``import
torch`` calls what installed packages name in the group ``torch.backends`` (its way to be extended from outside), and
ours is `watch`; ``TORCH_DEVICE_BACKEND_AUTOLOAD=0`` switches that off. Only a script whose very first import is
torchvision is on its own.
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, no_type_check

_MISSING = "operator torchvision::nms does not exist"
_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
# A torch.library.Library takes its definitions with it when it is collected, so it lives as long as we do.
_libraries: list[Any] = []


class _Finder(MetaPathFinder):
    """Finds torchvision where everybody else does, and loads it with `_Loader`."""

    @no_type_check  # whoever checks types at run time imports modules for it, and would call this again
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torchvision":
            return None
        others = (finder for finder in sys.meta_path if not isinstance(finder, _Finder))
        spec = next((spec for finder in others if (spec := finder.find_spec(fullname, path, target))), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """Runs torchvision's code, and again with its operators declared where they are missing."""

    def __init__(self, own: Loader) -> None:
        self.own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self.own
        module.__loader__ = self.own
        try:
            self.own.exec_module(module)
        except RuntimeError as error:
            if _MISSING not in str(error):
                raise
            for name in [name for name in sys.modules if name.startswith("torchvision.")]:
                del sys.modules[name]
            _declare_operators()
            self.own.exec_module(module)


def _declare_operators() -> None:
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for schema in _SCHEMAS:
        library.define(schema)
    _libraries.append(library)


def watch() -> None:
    """Stands by for the import of torchvision; once in a process."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
