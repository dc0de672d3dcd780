"""The one place that makes torchvision importable beside a CPU-only torch.

torchvision's wheel from the package registry carries operators compiled against a CUDA build of torch.
Beside a CPU-only torch its library of operators does not load, and ``import torchvision`` then stops with
"operator torchvision::nms does not exist", because it attaches shape functions to operators that were
never defined. Nothing in pixpnet uses those operators (they serve object detection), so on that very error
we declare them, without an implementation, and import again. Any other error is not ours to cure.

Write ``from pixpnet._torchvision import torchvision``, or import this module before anything that imports
torchvision by itself (timm, torchmetrics).
"""

import importlib
import sys
from types import ModuleType

import torch

_MISSING = "operator torchvision::nms does not exist"
_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
# A torch.library.Library takes its definitions with it when it is collected, so it lives as long as we do.
_libraries: list[torch.library.Library] = []


def ensure() -> ModuleType:
    """Makes ``import torchvision`` work and returns it, or raises what torchvision itself raises."""
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if _MISSING not in str(error):
            raise
        _forget_half_imported()
        library = torch.library.Library("torchvision", "DEF")
        for schema in _SCHEMAS:
            library.define(schema)
        _libraries.append(library)
        return importlib.import_module("torchvision")


def _forget_half_imported() -> None:
    for name in list(sys.modules):
        if name == "torchvision" or name.startswith("torchvision."):
            del sys.modules[name]


torchvision = ensure()
