"""What a network does to an image: operations in order, which can be run again on other values.

A `Program` holds no activations, only constants (weights), so it may be kept for as long as its network.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves


@dataclass(frozen=True, eq=False)
class Traced:
    """Stands for a tensor that depends on the image, among arguments and results; two are the same if identical."""

    shape: torch.Size
    dtype: torch.dtype


@dataclass(frozen=True, eq=False)
class TracedStep:
    """One operation, never in its in-place form.

    Attributes:
        operation: as torch names it.
        arguments: by their names in its schema; a `Tensor` among them is a constant.
        inputs: the `Traced` among the arguments, in their order; one that is read twice is there twice.
        outputs: what it gives.
    """

    operation: OpOverload
    arguments: Mapping[str, Any]
    inputs: tuple[Traced, ...]
    outputs: tuple[Traced, ...]

    def __getitem__(self, name: str) -> Any:
        """The argument called ``name``."""
        return self.arguments[name]

    def get(self, name: str, default: Any) -> Any:
        """The argument called ``name``, or what the operation takes where it was not given."""
        return self.arguments.get(name, default)

    def again(self, values: Mapping[Traced, Tensor]) -> Any:
        """What the operation gives for other values of its inputs."""
        return self.operation(**_filled(self.arguments, values.__getitem__))

    def __call__(self, *values: Tensor) -> Tensor:
        """Its first result for other values of `inputs`."""
        result = self.again(dict(zip(self.inputs, values, strict=True)))
        first: Tensor = result if isinstance(result, Tensor) else result[0]
        return first


@dataclass(frozen=True, eq=False)
class Program:
    """The operations between an image and a result, in the order in which they ran; others that ran are not there."""

    image: Traced
    result: Traced
    steps: tuple[TracedStep, ...]

    def readers(self, traced: Traced) -> list[TracedStep]:
        """The operations that read a tensor."""
        return [step for step in self.steps if traced in step.inputs]

    def replay(self, images: Tensor) -> Tensor:
        """What the operations make of other images of the same shape; nothing is held longer than it is read."""
        values = {self.image: images}
        left = Counter(traced for step in self.steps for traced in step.inputs)
        left[self.result] += 1
        for step in self.steps:
            results = tensors_in(step.again(values))
            for traced in step.inputs:
                left[traced] -= 1
                if not left[traced]:
                    values.pop(traced, None)
            values.update((traced, value) for traced, value in zip(step.outputs, results, strict=True) if left[traced])
        return values[self.result]

    def does_the_same_as(self, other: "Program") -> bool:
        """The same operations on the same constants, wired in the same way: what one computes, the other computes."""
        if len(self.steps) != len(other.steps) or self.image.shape != other.image.shape:
            return False
        partners = {self.image: other.image}
        for mine, theirs in zip(self.steps, other.steps, strict=True):
            if mine.operation is not theirs.operation or len(mine.outputs) != len(theirs.outputs):
                return False
            if not _same(mine.arguments, theirs.arguments, partners):
                return False
            partners.update(zip(mine.outputs, theirs.outputs, strict=True))
        return partners.get(self.result) is other.result


def needed(image: Traced, result: Traced, steps: list[TracedStep]) -> Program:
    """The program of the steps that the result depends on; a cut at several layers runs others as well."""
    wanted, used = {result}, []
    for step in reversed(steps):
        if wanted.intersection(step.outputs):
            wanted.update(step.inputs)
            used.append(step)
    return Program(image, result, tuple(reversed(used)))


def tensors_in(result: Any) -> list[Tensor]:
    """The tensors among the results of an operation."""
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]


def pair(value: Any) -> tuple[int, int]:
    """What torch takes as one number for both axes, or as one for each, as (down, across).

    >>> pair(3), pair([3]), pair([3, 1])
    ((3, 3), (3, 3), (3, 1))
    """
    if isinstance(value, int):
        return value, value
    first, *rest = value
    return first, rest[0] if rest else first


def _filled(value: Any, of: Callable[[Traced], Tensor]) -> Any:
    # torch's own tree_map takes longer than a small operation.
    if isinstance(value, Traced):
        return of(value)
    if isinstance(value, Mapping):
        return {name: _filled(part, of) for name, part in value.items()}
    return [_filled(part, of) for part in value] if isinstance(value, tuple | list) else value


def _same(one: Any, other: Any, partners: Mapping[Traced, Traced]) -> bool:
    if isinstance(one, Traced):
        return partners.get(one) is other
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and _equal(one, other)
    if type(one) is not type(other):
        return False
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_same(one[name], other[name], partners) for name in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(_same(*pair, partners) for pair in zip(one, other, strict=True))
    return bool(one == other)


def _equal(one: Tensor, other: Tensor) -> bool:
    if (one.shape, one.dtype, one.device) != (other.shape, other.dtype, other.device):
        return False
    # Weights are the same memory, and need no comparison.
    return (one.data_ptr(), one.stride()) == (other.data_ptr(), other.stride()) or torch.equal(one, other)
