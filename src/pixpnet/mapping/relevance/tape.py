"""Running a network once and keeping, in order, every operation between the image and the result, with its values.

A ``TorchDispatchMode`` sees operations, not modules: a functional ReLU, an addition in the code of a residual block
and the private exception that ends a cut backbone are all the same to it. The network is only called; no hook is put
on it and no module replaced, so there is nothing to undo, whatever happens in between.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakTensorKeyDictionary

from pixpnet.fields.rules.registry import functional_form
from pixpnet.mapping.relevance.errors import UnsupportedRelevance


@dataclass(frozen=True, eq=False)
class Traced:
    """A tensor that depends on the image; `value` stays what it was when later code overwrites the tensor."""

    value: Tensor

    @property
    def shape(self) -> torch.Size:
        """Of the value."""
        return self.value.shape


@dataclass(frozen=True)
class Step:
    """One operation: its arguments by their names in its schema, tensors that depend on the image as `Traced`."""

    operation: OpOverload
    arguments: Mapping[str, Any]
    inputs: tuple[Traced, ...]
    outputs: tuple[Traced, ...]

    def __getitem__(self, name: str) -> Any:
        """The argument called ``name``."""
        return self.arguments[name]

    def again(self, values: Mapping[Traced, Tensor]) -> Any:
        """What the operation gives for other values of its inputs."""
        arguments = tree_map(lambda leaf: values[leaf] if isinstance(leaf, Traced) else leaf, dict(self.arguments))
        return self.operation(**arguments)


@dataclass
class Tape:
    """The operations between an image and a result, in the order in which they ran."""

    image: Traced
    result: Traced
    steps: list[Step] = field(default_factory=list)

    def readers(self, traced: Traced) -> list[Step]:
        """The operations that read a tensor."""
        return [step for step in self.steps if traced in step.inputs]


def record(network: Callable[[Tensor], Tensor], images: Tensor) -> Tape:
    """Runs a network on a copy of the images; the tape holds every activation, as a backward pass would.

    >>> tape = record(lambda images: torch.relu(images) + 1, torch.zeros(1, 3, 2, 2))
    >>> [str(step.operation) for step in tape.steps]
    ['aten.relu.default', 'aten.add.Tensor']
    """
    recorder = _Recorder()
    images = images.detach().clone()
    image = recorder.follow(images)
    with torch.no_grad(), recorder:
        result = network(images)
    return Tape(image, recorder.traced[result], recorder.steps)


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self.traced = WeakTensorKeyDictionary()
        self._seen_by_views: list[Tensor] = []

    def follow(self, tensor: Tensor) -> Traced:
        """Takes note of a tensor as it is now."""
        # A second tensor on the same memory: the first may be moved to other memory below.
        traced = Traced(tensor.detach())
        self.traced[tensor] = traced
        return traced

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not any(self._depends(leaf) for leaf in tree_leaves((args, kwargs))):
            return func(*args, **kwargs)
        arguments = _by_name(func, args, kwargs)
        if func._schema.is_mutable:
            return self._overwrite(func, arguments)
        result = func(**arguments)
        self._take_note(func, arguments, result)
        return result

    def _depends(self, leaf: Any) -> bool:
        return isinstance(leaf, Tensor) and leaf in self.traced

    def _take_note(self, func: OpOverload, arguments: dict[str, Any], result: Any) -> None:
        named = tree_map(lambda leaf: self.traced[leaf] if self._depends(leaf) else leaf, arguments)
        inputs = tuple(leaf for leaf in tree_leaves(named) if isinstance(leaf, Traced))
        results = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        if any(each.alias_info is not None for each in func._schema.returns):
            self._seen_by_views += results
        self.steps.append(Step(func, named, inputs, tuple(self.follow(each) for each in results)))

    def _overwrite(self, func: OpOverload, arguments: dict[str, Any]) -> Tensor:
        """Does what an in-place operation does, but in new memory, so that the tape keeps what was there before."""
        form = functional_form(func)
        target: Tensor = next(iter(arguments.values()))
        if form is None or not self._depends(target):
            raise UnsupportedRelevance(
                f"relevance cannot be followed through {func}, which writes into a tensor that the image does not "
                "reach otherwise: cut the backbone earlier, or use the operation that returns a new tensor"
            )
        memory = target.untyped_storage().data_ptr()
        if any(view.untyped_storage().data_ptr() == memory for view in self._seen_by_views):
            raise UnsupportedRelevance(
                f"relevance cannot be followed through {func} on a view of another tensor (or on a tensor that has "
                "views): cut the backbone earlier, or use the operation that returns a new tensor"
            )
        result = form(**arguments)
        self._take_note(form, arguments, result)
        # The code that called it goes on with the same tensor, on the new memory.
        self.traced[target] = self.traced[result]
        target.set_(result)
        return target


def _by_name(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    names = [argument.name for argument in func._schema.arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}
