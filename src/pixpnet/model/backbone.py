"""The core f_core: any network, cut at a layer, with everything behind the cut removed (Sec. 4)."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pixpnet import zoo
from pixpnet.fields import Field, Fields, receptive_fields
from pixpnet.fields.names import parse_layer
from pixpnet.fields.table import percent
from pixpnet.model.edits import EditError, apply_edits, paths_of

# Above this a "part" is most of the picture.
_ALMOST_EVERYTHING = 0.75
_PART_SIZED = (0.02, 0.6)


class CutError(ValueError):
    """A layer at which a network cannot be cut; the message says why."""


class FieldWarning(UserWarning):
    """The cells of a backbone see so much that an explanation cannot point at a part."""


class Backbone(nn.Module):
    """A network up to a layer; its output has rows and columns of cells, each with a known field.

    Attributes:
        network: what is left of the network; its parameters keep their names.
        at: the layer, by its path, with the call ("relu#1") or part ("branch[0]") where one was chosen.
        edits: what was changed in the network before it was cut.
        channels: of the output.
    """

    def __init__(self, network: nn.Module, at: str, size: tuple[int, int], edits: Sequence[str] = ()) -> None:
        """Cuts a copy of a network.

        Args:
            network: any module that takes images; it stays as it is.
            at: a module path, or the paper's name for the layer; "" for the whole network.
            size: height and width of the images that it will be used with.
            edits: what to change in the copy, see `apply_edits`.

        Raises:
            UnknownLayer: if there is no such layer.
            CutError: if the layer's output has no rows and columns.
            EditError: if an edit does not fit, or lies behind the cut.
        """
        super().__init__()
        edited = paths_of(edits, network)
        network = apply_edits(network, edits, (3, *size)).eval()
        fields = receptive_fields(network, (3, *size))
        field = fields[at]
        if len(field.shape) != 3:
            raise CutError(
                f"the output at '{at}' has the shape {field.shape}; prototypes need channels, rows and columns: "
                f"cut at {_better_cuts(network, fields) or 'a layer before it is flattened'}"
            )
        target = _Target(at, network, fields)
        self.at = target.name
        self.edits = tuple(edits)
        self.network = network
        self._call = target.call
        self._part = target.part
        self._channels_last = field.channel_dim == 2
        self._calls_seen = 0
        self.channels = field.shape[field.channel_dim]
        if target.path:
            network.get_submodule(target.path).register_forward_hook(self._stop)
            _remove_what_is_not_used(self, size)
            _refuse_edits_behind_the_cut(self, edited)
        # Convolutions on the CPU, and on GPUs in half precision, are faster with the channels last.
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        _warn_if_it_sees_everything(field, at, network, fields)

    def forward(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch channels rows cols"]:
        """Runs the network up to the cut."""
        self._calls_seen = 0
        try:
            output: Any = self.network(images.contiguous(memory_format=torch.channels_last))
        except _Reached as reached:
            output = reached.output
        if self._part:
            output = output[self._part if isinstance(output, Mapping) else int(self._part)]
        cells: Tensor = output.permute(0, 3, 1, 2) if self._channels_last else output
        return cells

    @property
    def cut(self) -> str:
        """The layer and what was changed in front of it, for people; "" for a whole network as it was."""
        changes = f"after {', '.join(self.edits)}" if self.edits else ""
        return " ".join(filter(None, (self.at, changes)))

    def _stop(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self._calls_seen += 1
        if self._calls_seen == self._call:
            raise _Reached(output)

    def extra_repr(self) -> str:
        """What is printed of it."""
        where = f"cut at {self.at!r}" if self.at else "whole"
        return ", ".join([where, f"{self.channels} channels", *self.edits])


class _Reached(Exception):
    """Carries the output of the layer at the cut out of the network's code."""

    def __init__(self, output: Any) -> None:
        super().__init__()
        self.output = output


class _Removed(nn.Module):
    """Stands where a module was that the cut does not need."""

    def forward(self, *inputs: Any) -> Any:
        raise RuntimeError("this module lies behind the cut and was removed; only a training mode could have called it")


class _Target:
    """A layer's name taken apart: the path, which call of it, and which of several results."""

    def __init__(self, at: str, network: nn.Module, fields: Fields) -> None:
        self.name = fields.names.get(at, at)
        found = parse_layer(self.name)
        # A module that is registered twice has its calls counted under its first path.
        module = network.get_submodule(found.path)
        self.path = next(path for path, other in network.named_modules() if other is module)
        self.part = found.part
        calls = 0
        while any(f"{self.path}#{calls + 1}{tail}" in fields for tail in ("", f"[{self.part}]")):
            calls += 1
        self.call = found.call or max(calls, 1)


class _UsedTensors(TorchDispatchMode):
    """Takes note of every tensor that an operation reads."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.update(id(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor))
        return func(*args, **(kwargs or {}))


def _remove_what_is_not_used(backbone: Backbone, size: tuple[int, int]) -> None:
    """Removes modules that neither run nor lend their parameters before the cut, and parameters that nobody reads."""
    network = backbone.network
    called: set[int] = set()
    handles = [
        module.register_forward_pre_hook(lambda module, _: called.add(id(module))) for module in network.modules()
    ]
    first = next(network.parameters(), None)
    images = torch.zeros(1, 3, *size) if first is None else first.new_zeros(1, 3, *size)
    try:
        with torch.no_grad(), _UsedTensors() as used:
            backbone(images)
    finally:
        for handle in handles:
            handle.remove()

    def needed(module: nn.Module) -> bool:
        tensors = (*module.parameters(), *module.buffers())
        return id(module) in called or any(id(tensor) in used.seen for tensor in tensors)

    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if not any(needed(inner) for inner in child.modules()):
                setattr(module, name, _Removed())
        for name, parameter in list(module.named_parameters(recurse=False)):
            if id(parameter) not in used.seen:
                setattr(module, name, None)


def _refuse_edits_behind_the_cut(backbone: Backbone, edited: Mapping[str, str]) -> None:
    left = {path for path, module in backbone.network.named_modules() if not isinstance(module, _Removed)}
    for edit, path in edited.items():
        if path not in left:
            raise EditError(f"the edit '{edit}' changes nothing in front of the cut at '{backbone.at}': leave it out")


def _better_cuts(network: nn.Module, fields: Fields) -> str:
    """Up to three layers, whose cells see the size of a part, in words."""
    low, high = _PART_SIZED
    paths = {path: name for name, path in fields.names.items()}
    stages = [name for names in zoo.PAPER_LAYERS.values() for name in names]
    names = dict.fromkeys([*paths, *(name for name in stages if name in fields)])
    if not names:
        names = dict.fromkeys(name for name in fields if name and name.count(".") <= 1)
    good = [
        (fields[name].mean_fraction_union, paths.get(name, name))
        for name in names
        if name in fields and len(fields[name].shape) == 3 and low <= fields[name].mean_fraction_union <= high
    ]
    return ", ".join(f"'{name}' ({percent(seen)})" for seen, name in sorted(set(good), reverse=True)[:3])


def _warn_if_it_sees_everything(field: Field, at: str, network: nn.Module, fields: Fields) -> None:
    seen = field.mean_fraction_union
    if seen <= _ALMOST_EVERYTHING:
        return
    better = _better_cuts(network, fields)
    hint = f"; cells at {better} see parts" if better else ""
    warnings.warn(
        f"a cell at '{at or 'the output'}' sees {percent(seen)} of the image on average, so an explanation cannot "
        f"point at a part{hint}",
        FieldWarning,
        stacklevel=3,
    )
