"""Tensors that do not depend on the image: stand-ins without data, and the values where an index needs them.

Parameters, buffers and tensors made on the way (masks, position tables) are constants. They are followed as
meta tensors like everything else, so no weight is ever copied or run. What an index or an ``if`` may ask for
is the *value* of a constant; so results of constants of known value are computed for real, as long as they
are small. Floating-point parameters count as unknown: what a network reads must not hang on its weights.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

META = torch.device("meta")
# Above this size nobody indexes with it, and computing it might take time.
LARGEST = 1 << 20


class Constants:
    """Stand-ins for real tensors, and the real values of small constants."""

    def __init__(self) -> None:
        self._stand_ins: dict[int, tuple[Tensor, Tensor]] = {}
        self._values: dict[int, tuple[Tensor, Tensor]] = {}
        # Everything on the meta device that is known to be a constant, with its number in C++ (see `_Tracer`).
        self._made: dict[int, tuple[Tensor, int]] = {}
        self._computed: list[Tensor] = []  # the results of operations, as the model's code was given them
        self._borrowed: set[int] = set()  # storages that belong to the model: never to be written to
        self._lost: set[int] = set()  # storages whose values are no longer known
        self._exposed: set[int] = set()  # storages that NumPy arrays share

    def __contains__(self, tensor: Tensor) -> bool:
        entry = self._made.get(id(tensor))
        return entry is not None and entry[1] == tensor._cdata

    def stand_in(self, tensor: Tensor) -> Tensor:
        """A tensor on the meta device in place of a real one; meta tensors stay as they are."""
        if tensor.device == META:
            return tensor
        if id(tensor) not in self._stand_ins:
            made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=META)
            self._stand_ins[id(tensor)] = (tensor, made)
            self._made[id(made)] = (made, made._cdata)
            if not (isinstance(tensor, nn.Parameter) and tensor.dtype.is_floating_point):
                real = tensor.detach()
                self._values[id(made)] = (made, real)
                self._borrowed.add(_storage(real))
        return self._stand_ins[id(tensor)][1]

    def replace(self, tensor: Tensor) -> Tensor:
        """A stand-in for a tensor of the model that still is a parameter, if it was one."""
        made = self.stand_in(tensor)
        if isinstance(tensor, nn.Parameter):
            wrapped = nn.Parameter(made, requires_grad=tensor.requires_grad)
            if id(made) in self._values:
                self._values[id(wrapped)] = (wrapped, self._values[id(made)][1])
            made = wrapped
        self._made[id(made)] = (made, made._cdata)  # also where the model lives on the meta device itself
        return made

    def value(self, tensor: Tensor) -> Tensor | None:
        """The values of a constant, or None where they are not known."""
        entry = self._values.get(id(tensor))
        if entry is None or _storage(entry[1]) in self._lost:
            return None
        if entry[1].device.type != "cpu":  # a model on another device: its few constants are looked at here
            entry = self._values[id(tensor)] = (tensor, entry[1].cpu())
        return entry[1]

    def share(self, tensor: Tensor, other: Tensor) -> None:
        """A tensor has the values of another from now on, whatever is written to either."""
        self._values.pop(id(tensor), None)
        if id(other) in self._values:
            self._values[id(tensor)] = (tensor, self._values[id(other)][1])

    def expose(self, tensor: Tensor) -> None:
        """Takes note that the model's code has an array that shares the memory of a constant."""
        self._exposed.add(_storage(self._values[id(tensor)][1]))

    def is_exposed(self, tensor: Tensor) -> bool:
        """Whether something besides tensors may read the memory of a constant: an array, or any other buffer."""
        entry = self._values.get(id(tensor))
        if entry is None:
            return False
        storage = entry[1].untyped_storage()
        # Memory that torch did not allocate, as behind `torch.from_numpy`, cannot be resized by it.
        return storage._cdata in self._exposed or not storage.resizable()

    def forget(self, tensor: Tensor) -> None:
        """A tensor is written to with something unknown: its values and those of its views are lost."""
        entry = self._values.get(id(tensor))
        if entry is not None:
            self._lost.add(_storage(entry[1]))

    def give_back(self, home: torch.device) -> None:
        """Puts the known values into the tensors that stood in for them, once the trace is over.

        Code outside of the model's modules may have kept one (a position table in a ``functools.cache`` whose key is
        the device), and will hand it to the model itself next.
        """
        for made in self._computed:
            value = self.value(made)
            if value is not None and made.is_meta:
                torch._C._swap_tensor_impl(made, value.detach().to(home))

    def prepare(
        self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with stand-ins for real tensors, and the meta device wherever a device is named."""
        kwargs = {name: self._prepare_one(item) for name, item in kwargs.items()}
        if any(argument.name == "device" for argument in func._schema.arguments):
            kwargs["device"] = META
            kwargs.pop("pin_memory", None)
        prepared = tuple(self._prepare_one(item) for item in args)
        if func in _INDEXED:
            prepared = self._masks_to_places(prepared)
        return prepared, kwargs

    def _prepare_one(self, item: Any) -> Any:
        if isinstance(item, Tensor):
            return self.stand_in(item)
        if isinstance(item, (list, tuple)) and any(isinstance(element, Tensor) for element in item):
            return [self.stand_in(element) if isinstance(element, Tensor) else element for element in item]
        return item

    def _masks_to_places(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Boolean masks of known value as positions, since the shape of the result depends on them."""
        indices: list[Tensor | None] = []
        for index in args[1]:
            is_mask = index is not None and index.dtype in (torch.bool, torch.uint8)
            value = self.value(index) if is_mask else None
            indices += (
                [index]
                if value is None
                else [self.stand_in(indices_of_axis) for indices_of_axis in value.nonzero(as_tuple=True)]
            )
        return (args[0], indices, *args[2:])

    def evaluate(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs an operation on constants only: on stand-ins, and for real where all values are known."""
        values = {id(t): self.value(t) for t in tensors_in(args, kwargs)}
        written = [t for t in written_by(func, args, kwargs) if isinstance(t, Tensor)]
        known = (
            func not in _UNPREDICTABLE
            and torch.Tag.nondeterministic_seeded not in func.tags
            and all(value is not None for value in values.values())
            and not any(_storage(values[id(t)]) in self._borrowed for t in written)
        )
        if not known:
            for tensor in written:
                self.forget(tensor)
        if known and torch.Tag.dynamic_output_shape in func.tags:
            real = self._run(func, args, kwargs, values)
            return pytree.tree_map_only(Tensor, self._adopt, real)
        result = func(*args, **kwargs)
        made = list(result) if isinstance(result, (list, tuple)) else [result]
        self._made.update((id(item), (item, item._cdata)) for item in made if isinstance(item, Tensor))
        is_view = bool(made) and func.is_view
        if known and all(isinstance(t, Tensor) and (is_view or t.numel() <= LARGEST) for t in made):
            real = self._run(func, args, kwargs, values)
            for stand_in, value in zip(made, real if isinstance(real, (list, tuple)) else [real], strict=True):
                self._values[id(stand_in)] = (stand_in, value)
                self._computed.append(stand_in)
        elif known:
            for tensor in written:
                self.forget(tensor)
        return result

    def _adopt(self, real: Tensor) -> Tensor:
        """A stand-in for a tensor that we made ourselves, so that it may be written to."""
        made = self.stand_in(real)
        self._computed.append(made)
        self._borrowed.discard(_storage(real))
        return made

    def _run(
        self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], values: dict[int, Tensor | None]
    ) -> Any:
        real_kwargs = {name: _swap(item, values) for name, item in kwargs.items()}
        if "device" in real_kwargs:
            real_kwargs["device"] = torch.device("cpu")
        return func(*(_swap(item, values) for item in args), **real_kwargs)


aten = torch.ops.aten
_INDEXED = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default)
# Memory as it happens to be, and operations that write to arguments without saying so in their schema.
_UNPREDICTABLE = {
    *(aten.empty.memory_format, aten.empty_like.default, aten.empty_strided.default, aten.new_empty.default),
    *(aten.new_empty_strided.default, aten.native_batch_norm.default, aten.cudnn_batch_norm.default),
}


def tensors_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Tensor]:
    """The tensors among the arguments of an operation, lists included."""
    for argument in (*args, *kwargs.values()):
        if isinstance(argument, Tensor):
            yield argument
        elif isinstance(argument, (list, tuple)):
            yield from (item for item in argument if isinstance(item, Tensor))


def written_by(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments that an operation writes to, by its schema."""
    written = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            written.append(args[position] if position < len(args) else kwargs.get(argument.name))
    return written


def _storage(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.untyped_storage()._cdata


def _swap(item: Any, values: dict[int, Tensor | None]) -> Any:
    if isinstance(item, Tensor):
        return values[id(item)]
    if isinstance(item, (list, tuple)):
        return type(item)(_swap(element, values) for element in item)
    return item
