"""Running a model's code once, on tensors without data, and keeping account of what each element reads.

A ``TorchDispatchMode`` sees every operation in order, whatever the Python code around it looks like:
residual, branching, functional, reused modules, several outputs. Each operation is executed on meta tensors
(which gives the shapes) and answered by its rule (which gives the sources). Forward hooks on the shell of the
model give the layers their names.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten_with_path

from pixpnet.fields import rules as _fill_the_table  # noqa: F401
from pixpnet.fields.constants import Constants
from pixpnet.fields.errors import UnknownValue, UnsupportedOperation
from pixpnet.fields.literals import KeepLiterals
from pixpnet.fields.rules.registry import VIEWS, Call, View, find_rule, functional_form
from pixpnet.fields.shell import make_shell
from pixpnet.fields.shortcuts import SHORTCUTS
from pixpnet.fields.sources import Sources

META = torch.device("meta")


@dataclass(frozen=True)
class Layer:
    """One tensor that one call of a module returned."""

    path: str
    call: int
    part: str
    sources: Sources


def trace(model: nn.Module, input_shape: tuple[int, ...]) -> list[Layer]:
    """The outputs of every call of every module of ``model``, in the order in which they were computed."""
    space = input_shape[1:]
    tracer = _Tracer(space)
    shell = make_shell(model, tracer.constants.stand_in)
    layers: list[Layer] = []
    calls: dict[str, int] = {}
    for path, module in shell.named_modules():
        if not isinstance(module, torch.jit.ScriptModule) or path == "":
            _watch(module, path, tracer, layers, calls)
    pixels = torch.empty((1, *input_shape), dtype=_dtype(model), device=META)
    tracer.follow(pixels, _Memory(Sources.of_input((1, *input_shape), space)))
    try:
        with torch.no_grad(), tracer, KeepLiterals():
            shell(pixels)
    except Exception as error:
        error.add_note(
            f"This happened at {tracer.place} while the receptive fields of {type(model).__name__} were computed "
            f"for one input of shape {(1, *input_shape)}, on tensors that have a shape but no values."
        )
        raise
    return layers


def _watch(module: nn.Module, path: str, tracer: "_Tracer", layers: list[Layer], calls: dict[str, int]) -> None:
    def enter(module: nn.Module, args: Any) -> None:
        tracer.entered.append(path)

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        tracer.entered.pop()
        calls[path] = calls.get(path, 0) + 1
        parts = [(keys, item) for keys, item in tree_flatten_with_path(output)[0] if isinstance(item, Tensor)]
        for keys, item in parts:
            part = "".join(f"[{_key(key)}]" for key in keys) if len(parts) > 1 else ""
            layers.append(Layer(path, calls[path], part, tracer.read(item)))

    module.register_forward_pre_hook(enter)
    module.register_forward_hook(leave)


def _key(key: Any) -> Any:
    """The index or name in an entry of a pytree's key path."""
    return next(getattr(key, name) for name in ("idx", "key", "name") if hasattr(key, name))


def _dtype(model: nn.Module) -> torch.dtype:
    floating = (p.dtype for p in (*model.parameters(), *model.buffers()) if p.dtype.is_floating_point)
    return next(floating, torch.get_default_dtype())


@dataclass
class _Memory:
    """What the elements of a tensor's own memory read; shared by all its views."""

    sources: Sources
    version: int = 0

    def overwrite(self, sources: Sources) -> None:
        self.sources = sources
        self.version += 1


@dataclass
class _Handle:
    """A tensor: a chain of views on a memory."""

    memory: _Memory
    views: tuple[View, ...] = ()
    seen: tuple[int, Sources] | None = field(default=None, repr=False)

    def read(self) -> Sources:
        if self.seen is None or self.seen[0] != self.memory.version:
            sources = self.memory.sources
            for each in self.views:
                sources = each.read(sources)
            self.seen = (self.memory.version, sources)
        return self.seen[1]

    def write(self, sources: Sources) -> None:
        bases = [self.memory.sources]
        for each in self.views[:-1]:
            bases.append(each.read(bases[-1]))
        for each, base in zip(reversed(self.views), reversed(bases), strict=False):
            if each.write is None:
                raise UnsupportedOperation("writing through this kind of view has no receptive-field rule")
            sources = each.write(base, sources)
        self.memory.overwrite(sources)


class _Tracer(TorchDispatchMode):
    """Follows every operation and knows the sources of every tensor."""

    def __init__(self, space: tuple[int, ...]) -> None:
        super().__init__()
        self.space = space
        self.constants = Constants()
        self.entered: list[str] = []
        # Tensors on the meta device cost nothing, so all are kept, and their ids stay theirs.
        self._handles: dict[int, tuple[Tensor, _Handle | None]] = {}

    @property
    def place(self) -> str:
        """The module that is being run, for messages."""
        if not self.entered or not self.entered[-1]:
            return "the model's own forward"
        return f"'{self.entered[-1]}'"

    def read(self, tensor: Tensor) -> Sources:
        """What each element of a tensor reads."""
        return self._handle(self.constants.stand_in(tensor)).read()

    def follow(self, tensor: Tensor, memory: _Memory, views: tuple[View, ...] = ()) -> None:
        """Takes note of a new tensor."""
        self._handles[id(tensor)] = (tensor, _Handle(memory, views))

    def _handle(self, tensor: Tensor) -> _Handle:
        entry = self._handles.get(id(tensor))
        if entry is None:
            handle = _Handle(_Memory(Sources.nothing(tuple(tensor.shape), self.space)))
            self._handles[id(tensor)] = (tensor, handle)
            return handle
        if entry[1] is None:
            raise UnsupportedOperation(
                f"{self.place} uses a by-product of an operation (such as the saved statistics of a "
                "normalisation) whose receptive field is not known; cut the backbone before it"
            )
        return entry[1]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        args, kwargs = self.constants.prepare(func, args, kwargs or {})
        tensors = list(_tensors(args, kwargs))
        depends = [t for t in tensors if self._handle(t).memory.sources.terms]
        if func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.equal.default):
            return self._look_at_values(func, args, depends)
        is_view = func in VIEWS
        if not depends and not (is_view and tensors):
            return self.constants.evaluate(func, args, kwargs)
        if not depends:
            result = self.constants.evaluate(func, args, kwargs)
        elif func in SHORTCUTS:
            result = SHORTCUTS[func](args, kwargs)
        else:
            result = func(*args, **kwargs)
        results = [result] if isinstance(result, Tensor) else list(result)
        call = Call(
            func,
            args,
            kwargs,
            tuple(tuple(t.shape) if isinstance(t, Tensor) else () for t in results),
            self.space,
            self.read,
            self.constants.value,
        )
        if is_view:
            self._follow_views(call, results)
            return result
        return self._answer(func, call, result, results)

    def _follow_views(self, call: Call, results: list[Tensor]) -> None:
        made = VIEWS[call.operation](call)
        base = self._handle(call.args[0])
        for tensor, view in zip(results, made if isinstance(made, list) else [made], strict=True):
            self.follow(tensor, base.memory, (*base.views, view))

    def _answer(self, func: OpOverload, call: Call, result: Any, results: list[Tensor]) -> Any:
        mutates = func._schema.is_mutable
        found = find_rule(func)
        if found is None and mutates and (form := functional_form(func)) is not None:
            found = find_rule(form)
        if found is None or (mutates and not _in_place(func)):
            raise UnsupportedOperation(
                f"no receptive-field rule for {func} at {self.place}: cut the backbone earlier, "
                f"or register one with @pixpnet.rule(torch.ops.{func})"
            )
        answer = found(call)
        answers = [answer] if isinstance(answer, Sources) else list(answer)
        for tensor, sources in zip(results, answers, strict=True):
            if sources is not None and sources.shape != tuple(tensor.shape):
                raise AssertionError(f"the rule for {func} gave {sources.shape} for {tuple(tensor.shape)}")
            if mutates:
                assert sources is not None
                self.constants.forget(call.args[0])
                self._handle(call.args[0]).write(sources)
            elif sources is None:
                self._handles[id(tensor)] = (tensor, None)
            else:
                self.follow(tensor, _Memory(sources))
        return call.args[0] if mutates else result

    def _look_at_values(self, func: OpOverload, args: tuple[Any, ...], depends: list[Tensor]) -> Any:
        values = [self.constants.value(arg) for arg in args]
        if depends:
            raise UnsupportedOperation(
                f"the Python code of {self.place} looks at values computed from the image ({func}), so what it "
                "reads differs from image to image; cut the backbone earlier, or write that step with tensor "
                "operations such as torch.where"
            )
        if any(value is None for value in values):
            raise UnknownValue(
                f"the Python code of {self.place} looks at the value of a tensor ({func}) that is not known "
                "without running the network; keep it as a Python number or in a buffer"
            )
        return func(*values)


def _in_place(func: OpOverload) -> bool:
    """Whether the first argument, and nothing else, is what the operation writes."""
    written = [a.alias_info is not None and a.alias_info.is_write for a in func._schema.arguments]
    return written[0] and sum(written) == 1


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Tensor]:
    for argument in (*args, *kwargs.values()):
        if isinstance(argument, Tensor):
            yield argument
        elif isinstance(argument, (list, tuple)):
            yield from (item for item in argument if isinstance(item, Tensor))
