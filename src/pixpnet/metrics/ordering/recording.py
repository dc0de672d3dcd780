"""The operations between an image and its embeddings, in order, as they ran once.

The network runs once under a dispatch mode, as in `pixpnet.fields`, so its Python code may look like anything. What is
kept for each operation that reads the image is which earlier results it reads and how to call it again. In-place
operations are recorded as what they compute, a new value for the same memory.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pixpnet.fields.rules.registry import functional_form

aten = torch.ops.aten

# They hand on the values they were given, in a memory that may be arranged in another way.
_HANDED_ON = {aten.clone.default, aten.detach.default, aten.alias.default, aten.contiguous.default}
# They return several results, of which a network in eval mode uses the first.
_FIRST_OF_SEVERAL = {
    aten.native_batch_norm.default,
    aten._native_batch_norm_legit_no_training.default,
    aten.max_pool2d_with_indices.default,
}


class NoIncrementalRule(LookupError):
    """A network cannot be evaluated step by step; the message says why."""


@dataclass(frozen=True)
class Operation:
    """One operation that reads the image, directly or through others.

    Attributes:
        function: what torch calls it, never in its in-place form.
        arguments: by position; a `Tensor` among them is a constant (a weight), an `Input` a result of the network.
        keywords: by name.
        inputs: the numbers of the results it reads, in the order of the arguments; 0 is the image.
        shape: channels, rows and columns of its result.
    """

    function: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    inputs: tuple[int, ...]
    shape: tuple[int, int, int]

    def __call__(self, *results: Tensor) -> Tensor:
        """Calls it again on whole tensors."""
        found = self.function(*self.filled(*results), **self.keywords)
        result: Tensor = found[0] if isinstance(found, tuple | list) else found
        return result

    def filled(self, *results: Tensor) -> list[Any]:
        """Its arguments, with results in the places of the inputs."""
        values = iter(results)
        return [_fill(argument, lambda: next(values)) for argument in self.arguments]


@dataclass(frozen=True)
class Input:
    """Stands for the result of an earlier operation among arguments."""

    number: int


@dataclass(frozen=True)
class Recording:
    """From an image to embeddings: result 0 is the image, result i is that of operation i - 1."""

    operations: tuple[Operation, ...]
    image_shape: tuple[int, int, int]

    def replay(self, images: Float[Tensor, "batch 3 height width"]) -> Tensor:
        """What the operations make of images, all of it computed."""
        results = [images]
        for operation in self.operations:
            results.append(operation(*(results[number] for number in operation.inputs)))
        return results[-1]


def record(network: nn.Module, image: Float[Tensor, "3 height width"]) -> Recording:
    """Runs a network once and writes down what it does to the image.

    Args:
        network: in eval mode; it returns one tensor with channels, rows and columns.
        image: of the size that will be used.

    Raises:
        NoIncrementalRule: if a result has no rows and columns, or the recording does not give what the network gives.

    Example:
        >>> network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True)).eval()
        >>> [str(operation.function) for operation in record(network, torch.zeros(3, 8, 8)).operations]
        ['aten.convolution.default', 'aten.relu.default']
    """
    with torch.inference_mode(False), torch.no_grad():
        batch = image.clone()[None]
        with _Recorder(batch) as recorder:
            output = network(batch)
        number = recorder.number_of(output)
        if number is None:
            raise NoIncrementalRule("the network's output does not come from an operation that was seen")
        shape = image.shape[0], image.shape[1], image.shape[2]
        recording = Recording(_needed(recorder.operations[:number]), shape)
        # Another image: what Python code did with values of the first one must not be taken for what it always does.
        other = torch.randn(batch.shape, generator=torch.Generator().manual_seed(0)).to(batch)
        expected = network(other.clone())
        found = recording.replay(other)
    if found.shape != expected.shape or not torch.allclose(found, expected, rtol=1e-4, atol=1e-5):
        raise NoIncrementalRule("the recorded operations do not give what the network gives for another image")
    return recording


def _needed(operations: Sequence[Operation]) -> tuple[Operation, ...]:
    """The operations that the last one depends on; a cut at several layers runs others as well."""
    needed = {len(operations)}
    for number in range(len(operations), 0, -1):
        if number in needed:
            needed.update(operations[number - 1].inputs)
    numbers = {number: place for place, number in enumerate(sorted(needed | {0}))}
    return tuple(
        replace(
            operation,
            arguments=_renumbered(operation.arguments, numbers),
            inputs=tuple(numbers[n] for n in operation.inputs),
        )
        for number, operation in enumerate(operations, start=1)
        if number in needed
    )


class _Recorder(TorchDispatchMode):
    """Numbers the results that depend on the image, by the memory that holds them."""

    def __init__(self, image: Tensor) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        self._numbers = {_memory(image): 0}
        self._shapes = {_memory(image): image.shape}
        self._kept: list[Any] = [image]  # a memory that is freed would be used, and numbered, again

    def number_of(self, tensor: Any) -> int | None:
        return self._numbers.get(_memory(tensor)) if isinstance(tensor, Tensor) else None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        # Taken before the call: an in-place operation changes what its memory stands for.
        inputs = [n for leaf in tree_leaves((args, keywords)) if (n := self.number_of(leaf)) is not None]
        arguments = tuple(_map_tensors(argument, self._stand_in) for argument in args)
        result = func(*args, **keywords)
        self._kept.append(result)
        if not inputs:
            return result
        if any(self.number_of(leaf) is not None for leaf in tree_leaves(keywords)):
            raise NoIncrementalRule(f"{func} reads the image by a named argument")
        main = result[0] if func in _FIRST_OF_SEVERAL else result
        if not isinstance(main, Tensor) or main.dim() != 4 or main.shape[0] != 1:
            raise NoIncrementalRule(f"{func} gives something without channels, rows and columns")
        if not main.is_floating_point():
            raise NoIncrementalRule(f"{func} gives something else than numbers with fractions")
        if func in _HANDED_ON:
            self._numbers[_memory(main)] = inputs[0]
            return result
        if _memory(main) in self._numbers and main is not args[0]:
            raise NoIncrementalRule(f"{func} gives a view of an earlier result")
        channels, rows, cols = main.shape[1:]
        self.operations.append(
            Operation(_not_in_place(func), arguments, dict(keywords), tuple(inputs), (channels, rows, cols))
        )
        self._numbers[_memory(main)] = len(self.operations)
        return result

    def _stand_in(self, tensor: Tensor) -> Any:
        number = self.number_of(tensor)
        return tensor if number is None else Input(number)


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _not_in_place(func: Any) -> Any:
    """`relu` for `relu_`: the same values, in a memory of their own."""
    if not func._schema.is_mutable or func in _FIRST_OF_SEVERAL:
        return func
    form = functional_form(func)
    if form is None:
        raise NoIncrementalRule(f"{func} writes into its arguments")
    return form


def _map_tensors(value: Any, change: Callable[[Tensor], Any]) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    return [_map_tensors(each, change) for each in value] if isinstance(value, tuple | list) else value


def _renumbered(value: Any, numbers: Mapping[int, int]) -> Any:
    if isinstance(value, Input):
        return Input(numbers[value.number])
    if isinstance(value, tuple | list):
        return type(value)(_renumbered(each, numbers) for each in value)
    return value


def _fill(value: Any, take: Callable[[], Tensor]) -> Any:
    if isinstance(value, Input):
        return take()
    return [_fill(each, take) for each in value] if isinstance(value, tuple | list) else value
