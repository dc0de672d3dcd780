"""What lies behind a cut is removed: modules that do not run before it, and parameters that nobody reads."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from pixpnet.model.edits import EditError
from pixpnet.model.segments import ForwardPass


class _Removed(nn.Module):
    """Stands where a module was that the cut does not need."""

    def forward(self, *inputs: Any) -> Any:
        raise RuntimeError("this module lies behind the cut and was removed; only a training mode could have called it")


def remove_what_is_not_used(network: nn.Module, seen: ForwardPass) -> None:
    """Removes modules that neither ran nor lent their tensors in a forward pass, and parameters that nobody read.

    A dropout inside a module that ran stays: fused attention reads its probability, and only while it learns.
    """
    called = {id(network.get_submodule(path)) for path in seen.calls}

    def needed(module: nn.Module) -> bool:
        tensors = (*module.parameters(), *module.buffers())
        return id(module) in called or any(id(tensor) in seen.read for tensor in tensors)

    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            read_in_training = isinstance(child, nn.Dropout) and module is not network and id(module) in called
            if not read_in_training and not any(needed(inner) for inner in child.modules()):
                setattr(module, name, _Removed())
        for name, parameter in list(module.named_parameters(recurse=False)):
            if id(parameter) not in seen.read:
                setattr(module, name, None)


def refuse_edits_behind_the_cut(network: nn.Module, at: str, edited: Mapping[str, str]) -> None:
    """Says which edit changes nothing that is left.

    Raises:
        EditError: if there is one.
    """
    left = {path for path, module in network.named_modules() if not isinstance(module, _Removed)}
    for edit, path in edited.items():
        if path not in left:
            raise EditError(f"the edit '{edit}' changes nothing in front of the cut at '{at}': leave it out")
