"""Running a model's code once, on tensors without data, and keeping account of what each element reads.

A ``TorchDispatchMode`` sees every operation in order, whatever the Python code around it looks like:
residual, branching, functional, reused modules, several outputs. Each operation is executed on meta tensors
(which gives the shapes) and answered by its rule (which gives the sources). Forward hooks on the shell of the
model give the layers their names.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from pixpnet.fields import rules as _fill_the_table  # noqa: F401
from pixpnet.fields.constants import META, Constants, tensors_in
from pixpnet.fields.errors import UnknownValue, UnsupportedOperation
from pixpnet.fields.introspection import Introspection
from pixpnet.fields.memory import Handle, Memory
from pixpnet.fields.rules.reach import reach_of
from pixpnet.fields.rules.registry import VIEWS, Call, View, find_rule, functional_form
from pixpnet.fields.rules.taps import Anywhere, Reach
from pixpnet.fields.scripts import watching_scripts
from pixpnet.fields.shell import make_shell
from pixpnet.fields.shortcuts import SHORTCUTS
from pixpnet.fields.sources import Sources
from pixpnet.messages import first_line


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
    home = _home(model)
    tracer = _Tracer(space)
    shell = make_shell(model, tracer.constants.replace)
    layers: list[Layer] = []
    calls: dict[str, int] = {}
    for path, module in shell.named_modules():
        if not isinstance(module, torch.jit.ScriptModule):
            _watch(module, path, tracer, layers, calls)
    pixels = torch.empty((1, *input_shape), dtype=_dtype(model), device=META)
    tracer.follow(pixels, Memory(Sources.of_input((1, *input_shape), space)))
    try:
        introspection = Introspection(tracer, home)
        # Under a function mode, as `introspection` is, attention runs step by step and not as one fused operation.
        with torch.no_grad(), watching_scripts(tracer.refuse_script), tracer, introspection:
            output = shell(pixels)
        if tracer.refusal is not None:  # the model's own code caught it and went on
            raise tracer.refusal
        if not any(layer.path == "" for layer in layers):
            raise UnsupportedOperation(
                f"the model returned {type(output).__name__}, in which no tensors were found; "
                "return tensors, or tuples, lists, dictionaries or dataclasses of them"
            )
    except Exception as failure:
        # What came of it after the model's own code caught a refusal is not what went wrong.
        error = tracer.refusal or failure
        error.add_note(
            f"This happened at {tracer.current_module} while the receptive fields of {type(model).__name__} were "
            f"computed for one input of shape {(1, *input_shape)}, on tensors that have a shape but no values."
        )
        if error is not failure:
            raise error from failure
        raise
    finally:
        tracer.constants.give_back(home)
    return layers


def _watch(module: nn.Module, path: str, tracer: "_Tracer", layers: list[Layer], calls: dict[str, int]) -> None:
    def enter(module: nn.Module, args: Any) -> None:
        tracer.entered.append(path)

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        calls[path] = calls.get(path, 0) + 1
        parts = list(_parts(output, ""))
        with torch._C.DisableTorchFunction():  # we want to know about the meta device
            sources = [tracer.read(tensor) for _, tensor in parts]
        tracer.entered.pop()
        for (part, _), read in zip(parts, sources, strict=True):
            layers.append(Layer(path, calls[path], part if len(parts) > 1 else "", read))

    module.register_forward_pre_hook(enter)
    module.register_forward_hook(leave)


def _parts(output: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors in what a module returned, each with the way to it: ``[0][out]``."""
    if isinstance(output, Tensor):
        yield name, output
    elif isinstance(output, Mapping):
        for key, item in output.items():
            yield from _parts(item, f"{name}[{key}]")
    elif isinstance(output, (list, tuple)):
        keys = getattr(output, "_fields", range(len(output)))  # the names of a named tuple
        for key, item in zip(keys, output, strict=True):
            yield from _parts(item, f"{name}[{key}]")
    elif is_dataclass(output) and not isinstance(output, type):
        for field in fields(output):
            yield from _parts(getattr(output, field.name), f"{name}[{field.name}]")


def _dtype(model: nn.Module) -> torch.dtype:
    floating = (p.dtype for p in (*model.parameters(), *model.buffers()) if p.dtype.is_floating_point)
    return next(floating, torch.get_default_dtype())


def _home(model: nn.Module) -> torch.device:
    """Where the model lives, and so what its code is told of every tensor; on the meta device it would be the CPU."""
    devices = (tensor.device for tensor in (*model.parameters(), *model.buffers()))
    return next((device for device in devices if device != META), torch.device("cpu"))


class _Tracer(TorchDispatchMode):
    """Follows every operation and knows the sources of every tensor."""

    def __init__(self, space: tuple[int, ...]) -> None:
        super().__init__()
        self.space = space
        self.constants = Constants()
        self.entered: list[str] = []
        self.refusal: UnsupportedOperation | None = None
        # Tensors on the meta device cost nothing, so all are kept, and their ids stay theirs. The second number is
        # that of the tensor in C++, which `torch.utils.swap_tensors` exchanges.
        self._handles: dict[int, tuple[Tensor, int, Handle | None]] = {}

    @property
    def current_module(self) -> str:
        """The module that is being run, for messages."""
        if not self.entered or not self.entered[-1]:
            return "the model's own forward"
        return f"'{self.entered[-1]}'"

    def read(self, tensor: Tensor) -> Sources:
        """What each element of a tensor reads."""
        return self._handle(self.constants.stand_in(tensor)).read()

    def follow(self, tensor: Tensor, memory: Memory, views: tuple[View, ...] = ()) -> None:
        """Takes note of a new tensor."""
        self._handles[id(tensor)] = (tensor, tensor._cdata, Handle(memory, views))

    def depends(self, tensor: Tensor) -> bool:
        """Whether a tensor depends on the image."""
        return bool(self._handle(tensor).memory.sources.terms)

    def share(self, tensor: Tensor, other: Tensor) -> None:
        """Takes note that ``tensor`` has the memory of ``other`` from now on."""
        handle = self._handle(other)
        self.constants.share(tensor, other)
        self.follow(tensor, handle.memory, handle.views)

    def refuse(self, does: str, advice: str) -> NoReturn:
        """Raises what is remembered too, should the model's own code catch it and go on."""
        error = UnsupportedOperation(f"{self.current_module} {does}; {advice}")
        self.refusal = self.refusal or error
        raise error

    def refuse_script(self, does: str) -> NoReturn:
        """Refuses compiled code that takes another branch on the meta device."""
        self.refuse(does, "give the model as Python code, before torch.jit.script")

    def _handle(self, tensor: Tensor) -> Handle:
        entry = self._handles.get(id(tensor))
        if entry is None and tensor in self.constants:
            memory = Memory(Sources.nothing(tuple(tensor.shape), self.space))
            entry = self._handles[id(tensor)] = (tensor, tensor._cdata, Handle(memory))
        if entry is None or entry[1] != tensor._cdata:
            self.refuse(
                "uses a tensor that no operation made (from nn.Parameter(...) or as_subclass of a result, in another "
                "thread, or exchanged by swap_tensors), so what it reads is not known",
                "use the result itself",
            )
        if entry[2] is None:
            self.refuse(
                "uses a by-product of an operation (such as the saved statistics of a normalisation) whose receptive "
                "field is not known",
                "cut the backbone before it",
            )
        return entry[2]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.aten.empty.memory_format and torch._C._is_torch_function_mode_enabled():
            # No Python code asks, but a script, which fills the tensor through its address: it needs a real one.
            return func(*args, **kwargs)
        try:
            with torch._C.DisableTorchFunction():  # also for the operations of scripts
                return self._dispatch(func, *self.constants.prepare(func, args, kwargs))
        except UnsupportedOperation as error:
            self.refusal = self.refusal or error
            raise
        except NotImplementedError as error:
            self.refusal = self.refusal or UnsupportedOperation(
                f"{self.current_module} calls {func}, which torch cannot run on tensors without data "
                f"({first_line(error)}); cut the backbone before it"
            )
            raise self.refusal from error

    def _dispatch(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensors = list(tensors_in(args, kwargs))
        depends = [t for t in tensors if self._handle(t).memory.sources.terms]
        if func in _LOOKS_AT_VALUES or (depends and _shape_hangs_on_values(func, args)):
            return self._look_at_values(func, args, depends)
        view = next((form for form in (func, functional_form(func)) if form in VIEWS), None) if tensors else None
        if not depends and view is None:
            return self.constants.evaluate(func, args, kwargs)
        if not depends:
            result = self.constants.evaluate(func, args, kwargs)
        elif func in SHORTCUTS:
            result = SHORTCUTS[func](args, kwargs)
        else:
            result = func(*args, **kwargs)
        # A few return nothing or a number; there is no rule for these.
        results = [result] if isinstance(result, Tensor) else list(result) if isinstance(result, (list, tuple)) else []
        shapes = tuple(tuple(t.shape) if isinstance(t, Tensor) else () for t in results)
        call = Call(func, args, kwargs, shapes, self.space, self.read, self.constants.value, self._reach)
        if view is not None:
            self._follow_views(replace(call, operation=view), func, results)
            return args[0] if func._schema.is_mutable else result
        return self._answer(call, result, results)

    def _follow_views(self, call: Call, func: OpOverload, results: list[Tensor]) -> None:
        made = VIEWS[call.operation](call)
        base = self._handle(call.args[0])
        views = made if isinstance(made, list) else [made]
        # `x.unsqueeze_(0)` makes x itself the view.
        tensors = [call.args[0]] if func._schema.is_mutable else results
        for tensor, view in zip(tensors, views, strict=True):
            self.follow(tensor, base.memory, (*base.views, view))

    def _answer(self, call: Call, result: Any, results: list[Tensor]) -> Any:
        func = call.operation
        mutates = _in_place(func)
        writes_elsewhere = func._schema.is_mutable and not mutates and func not in _WRITES_STATISTICS
        registered = find_rule(func)
        if registered is None or writes_elsewhere:
            raise UnsupportedOperation(
                f"no receptive-field rule for {func} at {self.current_module}: cut the backbone earlier, "
                f"or register one with @pixpnet.rule(torch.ops.{func})"
            )
        if func is torch.ops.aten._fft_c2r.default and self._handle(call.args[0]).memory.is_real:
            self.refuse(
                f"calls an inverse Fourier transform (torch.fft.irfft, hfft: {func}) of real numbers, in which some "
                "coefficients are zero, so that it reads less than its length",
                "give it a spectrum (torch.fft.rfft), or cut the backbone before it",
            )
        rule, form = registered
        answer = rule(replace(call, operation=form))
        answers = [answer] if isinstance(answer, Sources) else list(answer)
        is_real = self._is_real(call, results)
        for k, (tensor, sources) in enumerate(zip(results, answers, strict=True)):
            if sources is not None and sources.shape != tuple(tensor.shape):
                raise AssertionError(f"the rule for {func} gave {sources.shape} for {tuple(tensor.shape)}")
            if mutates:
                assert sources is not None
                self._refuse_exposed(call.args[0])
                self.constants.forget(call.args[0])
                self._handle(call.args[0]).write(sources, self.current_module)
                self._handle(call.args[0]).memory.is_real |= is_real
            elif sources is None:
                self._handles[id(tensor)] = (tensor, tensor._cdata, None)
            else:
                reach = None if tensor.is_floating_point() else reach_of(call, k)
                self.follow(tensor, Memory(sources, reach, is_real))
        if call.get("training"):
            self._update_statistics(call)
        return call.args[0] if mutates else result

    def _reach(self, tensor: Tensor) -> Reach | None:
        """What the elements of a tensor can name as an index; windows only in the order in which they were made."""
        handle = self._handle(tensor)
        reach = handle.memory.reach
        whole = tensor.is_contiguous() and tensor.numel() == handle.memory.sources.numel
        return reach if whole or isinstance(reach, Anywhere) else None

    def _is_real(self, call: Call, results: list[Tensor]) -> bool:
        """Whether complex numbers were made of real ones, so that their imaginary parts do not depend on the image."""
        if not results[0].is_complex() or call.operation in _FOURIER:
            return False
        tensors = [tensor for tensor in tensors_in(call.args, call.kwargs) if self.depends(tensor)]
        return all(not tensor.is_complex() or self._handle(tensor).memory.is_real for tensor in tensors)

    def _update_statistics(self, call: Call) -> None:
        """Batch normalisation in training mode writes its running statistics, often without a word in its schema."""
        for name in ("running_mean", "running_var"):
            if isinstance(statistic := call.get(name), Tensor):
                pixels = call.sources("input")
                seen = pixels.reduce([dim for dim in range(len(pixels.shape)) if dim != 1], keepdim=False)
                self.constants.forget(statistic)
                self._handle(statistic).write(Sources.union([call.read(statistic), seen]), self.current_module)

    def _refuse_exposed(self, tensor: Tensor) -> None:
        if self.constants.is_exposed(tensor):
            self.refuse(
                "writes what depends on the image into memory that is not only a tensor's (torch.from_numpy, "
                "torch.frombuffer, Tensor.numpy), where it could be read past the operations that a trace can follow",
                "write to a copy (.clone())",
            )

    def _look_at_values(self, func: OpOverload, args: tuple[Any, ...], depends: list[Tensor]) -> Any:
        values = [self.constants.value(arg) for arg in args if isinstance(arg, Tensor)]
        if depends:
            raise UnsupportedOperation(
                f"the Python code of {self.current_module} looks at values computed from the image ({func}), so what "
                "it reads differs from image to image; cut the backbone earlier, or write that step with tensor "
                "operations such as torch.where"
            )
        if any(value is None for value in values):
            raise UnknownValue(
                f"the Python code of {self.current_module} looks at the value of a tensor ({func}) that is not known "
                "without running the network; keep it as a Python number or in a buffer that nothing writes to"
            )
        return func(*values)


def _shape_hangs_on_values(func: OpOverload, args: tuple[Any, ...]) -> bool:
    """Whether the shape of the result depends on values; for indexing, only a mask that is still one does that."""
    if func is torch.ops.aten.index.Tensor:
        return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])
    return torch.Tag.dynamic_output_shape in func.tags


_FOURIER = (torch.ops.aten._fft_r2c.default, torch.ops.aten._fft_c2c.default)
_WRITES_STATISTICS = (torch.ops.aten._native_batch_norm_legit.default,)
_LOOKS_AT_VALUES = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.equal.default)


def _in_place(func: OpOverload) -> bool:
    """Whether the first argument, and nothing else, is what the operation writes."""
    written = [a.alias_info is not None and a.alias_info.is_write for a in func._schema.arguments]
    return written[0] and sum(written) == 1
