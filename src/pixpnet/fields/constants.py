"""Tensors that do not depend on the image: stand-ins without data, and the values where an index needs them.

Parameters, buffers and tensors made on the way (masks, position tables) are constants. They are followed as
meta tensors like everything else, so no weight is ever copied or run. What an index or an ``if`` may ask for
is the *value* of a constant; so results of constants of known value are computed for real, as long as they
are small. Floating-point parameters count as unknown: what a network reads must not hang on its weights.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload

META = torch.device("meta")
# Above this size nobody indexes with it, and computing it might take time.
LARGEST = 1 << 20


class Constants:
    """Stand-ins for real tensors, and the real values of small constants."""

    def __init__(self) -> None:
        self._stand_ins: dict[int, tuple[Tensor, Tensor]] = {}
        self._values: dict[int, tuple[Tensor, Tensor]] = {}
        self._borrowed: set[int] = set()  # storages that belong to the model: never to be written to
        self._lost: set[int] = set()  # storages whose values are no longer known

    def stand_in(self, tensor: Tensor) -> Tensor:
        """A tensor on the meta device in place of a real one; meta tensors stay as they are."""
        if tensor.device == META:
            return tensor
        if id(tensor) not in self._stand_ins:
            made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=META)
            self._stand_ins[id(tensor)] = (tensor, made)
            is_weight = isinstance(tensor, nn.Parameter) and tensor.dtype.is_floating_point
            if not is_weight and tensor.numel() <= LARGEST:
                real = tensor.detach()
                self._values[id(made)] = (made, real)
                self._borrowed.add(_storage(real))
        return self._stand_ins[id(tensor)][1]

    def value(self, tensor: Tensor) -> Tensor | None:
        """The values of a constant, or None where they are not known."""
        entry = self._values.get(id(tensor))
        if entry is None or _storage(entry[1]) in self._lost:
            return None
        return entry[1]

    def forget(self, tensor: Tensor) -> None:
        """A tensor is written to with something unknown: its values and those of its views are lost."""
        entry = self._values.get(id(tensor))
        if entry is not None:
            self._lost.add(_storage(entry[1]))

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
        if isinstance(item, (list, tuple)) and any(isinstance(each, Tensor) for each in item):
            return [self.stand_in(each) if isinstance(each, Tensor) else each for each in item]
        return item

    def _masks_to_places(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Boolean masks of known value as positions, since the shape of the result depends on them."""
        indices: list[Tensor | None] = []
        for index in args[1]:
            value = self.value(index) if index is not None and index.dtype == torch.bool else None
            indices += [index] if value is None else [self.stand_in(place) for place in value.nonzero(as_tuple=True)]
        return (args[0], indices, *args[2:])

    def evaluate(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs an operation on constants only: on stand-ins, and for real where all values are known."""
        result = func(*args, **kwargs)
        if torch.Tag.nondeterministic_seeded in func.tags or "empty" in func._schema.name:
            return result
        made = list(result) if isinstance(result, (list, tuple)) else [result]
        if any(not isinstance(item, Tensor) or item.numel() > LARGEST for item in made):
            return result
        values = {id(t): self.value(t) for t in _flat_tensors(args, kwargs)}
        if any(value is None for value in values.values()):
            if func._schema.is_mutable:
                self.forget(args[0])
            return result
        if func._schema.is_mutable and _storage(values[id(args[0])]) in self._borrowed:
            self.forget(args[0])
            return result
        real_args = tuple(_swap(item, values) for item in args)
        real_kwargs = {name: _swap(item, values) for name, item in kwargs.items()}
        if "device" in real_kwargs:
            real_kwargs["device"] = torch.device("cpu")
        real = func(*real_args, **real_kwargs)
        for stand_in, value in zip(made, real if isinstance(real, (list, tuple)) else [real], strict=True):
            self._values[id(stand_in)] = (stand_in, value)
        return result


_INDEXED = (torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default)


def _storage(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.untyped_storage()._cdata


def _flat_tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    found = []
    for item in (*args, *kwargs.values()):
        found += [each for each in (item if isinstance(item, (list, tuple)) else [item]) if isinstance(each, Tensor)]
    return found


def _swap(item: Any, values: dict[int, Tensor | None]) -> Any:
    if isinstance(item, Tensor):
        return values[id(item)]
    if isinstance(item, (list, tuple)):
        return type(item)(_swap(each, values) for each in item)
    return item
