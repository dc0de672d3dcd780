"""Running a network once and writing down every operation between the image and the result, with its values.

A ``TorchDispatchMode`` sees operations, not modules: a functional ReLU, an addition in the code of a residual block and
a cut are all the same to it. The network is only called; no hook is put on it and no module replaced, so there is
nothing to undo, whatever happens in between. Operations in place are written down as what they compute.

What Python code does with values (a branch, a factor read by ``tolist``) is no operation. It would be taken for what
the network always does, so the operations are replayed on another image and have to give what the network gives there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from pixpnet.fields import UnsupportedOperation
from pixpnet.fields.rules.registry import functional_form
from pixpnet.tracing.program import Program, Traced, TracedStep, needed, tensors_in

# Between a network and its replay, of the largest value: the same operations, perhaps by other kernels.
_TOLERANCE = 1e-5


class RecordingError(UnsupportedOperation):
    """A network whose operations cannot be written down so that they say what it computes."""


@dataclass(frozen=True)
class Recording:
    """What a network did to images.

    Attributes:
        program: the operations.
        values: the images, the result and every activation between them, as a backward pass would keep them; each
            stays what it was when later code overwrote the tensor.
    """

    program: Program
    values: Mapping[Traced, Tensor]

    @property
    def result(self) -> Tensor:
        """What the network gave."""
        return self.values[self.program.result]


def record(network: Callable[[Tensor], Tensor], images: Tensor, owner: nn.Module | None = None) -> Recording:
    """Runs a network on a copy of the images, and checks what was written down on another image.

    Args:
        network: in eval mode; gives one tensor.
        images: which it is to be run on.
        owner: the check takes two more forward passes. It is not made again for a module that a program doing the very
            same was checked for.

    Raises:
        RecordingError: if operations write into views, or do not say what the network computes.

    >>> recording = record(lambda images: torch.relu(images) + 1, torch.zeros(1, 3, 2, 2))
    >>> [str(step.operation) for step in recording.program.steps]
    ['aten.relu.default', 'aten.add.Tensor']
    """
    with torch.inference_mode(False), torch.no_grad():
        recorder = _Recorder()
        images = images.clone()
        image = recorder.follow(images)
        with recorder:
            output = network(images)
        result = recorder.traced_as(output)
        if result is None:
            raise RecordingError("the network's output does not come from an operation that was seen")
        program = needed(image, result, recorder.steps)
        known = _checked.setdefault(owner, {}) if owner is not None else {}
        key = images.shape, images.dtype, images.device
        if key not in known or not known[key].does_the_same_as(program):
            _check(network, program, images)
            known[key] = program
    named = {image, *(traced for step in program.steps for traced in (*step.inputs, *step.outputs))}
    return Recording(program, {traced: value for traced, value in recorder.values.items() if traced in named})


_checked: WeakKeyDictionary[nn.Module, dict[Any, Program]] = WeakKeyDictionary()


def _check(network: Callable[[Tensor], Tensor], program: Program, images: Tensor) -> None:
    other = torch.randn(images.shape, generator=torch.Generator().manual_seed(0)).to(images)
    expected = network(other.clone())
    replayed = program.replay(other)
    if replayed.shape == expected.shape:
        largest = float(expected.abs().nan_to_num().max()) if expected.numel() else 0.0
        if torch.allclose(replayed, expected, rtol=0, atol=_TOLERANCE * largest, equal_nan=True):
            return
    raise RecordingError(
        "the recorded operations do not give what the network gives for another image: its code looks at values, which "
        "no operation shows"
    )


class _Recorder(TorchDispatchMode):
    """Knows tensors that depend on the image by the place that they have in memory, whatever object shows it."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[TracedStep] = []
        self.values: dict[Traced, Tensor] = {}
        # `values` holds every memory that is in here, so none is freed and used again.
        self._traced: dict[Any, Traced] = {}
        self._places: dict[int, set[Any]] = {}

    def follow(self, tensor: Tensor) -> Traced:
        """Takes note of what is in a place from now on."""
        location = _place(tensor)
        traced = Traced(tensor.shape, tensor.dtype)
        self._traced[location] = traced
        self._places.setdefault(location[0], set()).add(location)
        self.values[traced] = tensor.detach()
        return traced

    def traced_as(self, leaf: Any) -> Traced | None:
        """What a tensor is known as; None for what does not depend on the image."""
        return self._traced.get(_place(leaf)) if isinstance(leaf, Tensor) else None

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        arguments = _by_name(func, args, kwargs)
        named = tree_map(lambda leaf: self.traced_as(leaf) or leaf, arguments)
        inputs = tuple(leaf for leaf in tree_leaves(named) if isinstance(leaf, Traced))
        if not inputs:
            return func(*args, **kwargs)
        if func._schema.is_mutable:
            return self._overwrite(func, arguments, named, inputs)
        result = func(**arguments)
        if isinstance(result, Tensor) and self.traced_as(result) in inputs:
            return result  # the same tensor by another name
        outputs = tuple(self.follow(tensor) for tensor in tensors_in(result))
        if not outputs:
            raise RecordingError(f"the network's code reads a value ({func}), and what it does with it is no operation")
        self.steps.append(TracedStep(func, named, inputs, outputs))
        return result

    def _overwrite(
        self, func: OpOverload, arguments: dict[str, Any], named: dict[str, Any], inputs: tuple[Traced, ...]
    ) -> Any:
        """Lets an operation write into its first argument, whose values so far are kept elsewhere."""
        form = functional_form(func)
        target, before = next(iter(arguments.values())), next(iter(named.values()))
        if form is None or not isinstance(before, Traced):
            raise RecordingError(
                f"{func} writes into a tensor that the image does not reach otherwise: cut the backbone earlier, or "
                "use the operation that returns a new tensor"
            )
        if len(self._places[_place(target)[0]]) > 1:
            raise RecordingError(
                f"{func} writes into a view of another tensor (or into a tensor that has views): cut the backbone "
                "earlier, or use the operation that returns a new tensor"
            )
        self.values[before] = target.clone()
        result = func(**arguments)
        self.steps.append(TracedStep(form, {**_defaults(func), **named}, inputs, (self.follow(target),)))
        return result


def _place(tensor: Tensor) -> Any:
    """Which elements of which memory a tensor shows, and as what."""
    memory: int = tensor.untyped_storage()._cdata
    as_what = tensor.dtype, tensor.is_neg(), tensor.is_conj()
    return memory, tensor.storage_offset(), tensor.shape, tensor.stride(), as_what


def _by_name(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    names = [argument.name for argument in func._schema.arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _defaults(func: OpOverload) -> dict[str, Any]:
    """What an operation takes where nothing is given; its functional form need not have the same defaults."""
    arguments = func._schema.arguments
    return {argument.name: argument.default_value for argument in arguments if argument.has_default_value()}
