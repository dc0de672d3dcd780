"""What Python code asks a tensor besides operations: its device, its memory, its values. Exact, or refused by name.

The trace runs on the meta device, where code such as ``if x.device.type == "cpu"`` would take another branch than in
use. So tensors answer with the device on which the model lives. Their memory, though, holds no values: code that
reads or replaces it past torch's operations (``numpy``, ``pickle``, ``untyped_storage``) would lose what a tensor
reads, and is refused. What no Python code can intercept is left to the NaN probe (``verify.py``):
``isinstance(x, torch.FloatTensor)`` and ``torch.utils.dlpack.to_dlpack``.
"""

import sys
from collections.abc import Callable
from typing import Any, NoReturn, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from pixpnet.fields.constants import META, Constants
from pixpnet.fields.errors import UnsupportedOperation
from pixpnet.fields.literals import MAKERS, with_literals


@runtime_checkable
class Tracer(Protocol):
    """What the trace knows, as far as it is needed here."""

    constants: Constants

    def refuse(self, does: str, advice: str) -> NoReturn:
        """Raises, and remembers, a refusal of what the module that is being run does."""

    def depends(self, tensor: Tensor) -> bool:
        """Whether a tensor depends on the image."""

    def share(self, tensor: Tensor, other: Tensor) -> None:
        """Takes note that ``tensor`` has the memory of ``other`` from now on."""


class Introspection(TorchFunctionMode):
    """Answers for tensors without data as they would answer in use, or refuses.

    Inside of torch's own Python functions the mode is off: these see the meta device.
    """

    def __init__(self, tracer: Tracer, home: torch.device) -> None:
        """A mode to be entered after the dispatch mode of ``tracer``; ``home`` is where the model lives."""
        super().__init__()
        self.tracer = tracer
        self.home = home
        self.autocast = False  # whether anything was called under autocast
        self.samples = {dtype: torch.empty(0, dtype=dtype, device=home) for dtype in _DTYPES}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        answer = _ANSWERS.get(func)
        if answer is None and not self.autocast:
            self.autocast = torch.is_autocast_enabled(self.home.type)
        try:
            return func(*args, **kwargs) if answer is None else answer(self, func, args, kwargs)
        except UnsupportedOperation:
            raise
        except Exception as error:
            if isinstance(func, HigherOrderOperator) and isinstance(error, NotImplementedError):
                self.tracer.refuse(f"calls a higher-order operator ({func.name()}), which has no rule", _ADVICE)
            # A model whose code catches this and goes on would take another branch than in use.
            if "meta" not in str(error).lower():
                raise
            self.tracer.refuse(f"calls {_name(func)}, which needs the values of a tensor ({error})", _ADVICE)

    def is_home(self, device: Any) -> bool:
        """Whether a tensor of the model that is moved to ``device`` stays where it is."""
        if not isinstance(device, (str, torch.device)):
            return False
        device = torch.device(device)
        return device.type == self.home.type and device.index in (None, self.home.index or 0)

    def here(self, argument: Any) -> Any:
        """The argument, with the meta device for the model's own and stand-ins for ordinary tensors."""
        if isinstance(argument, Tensor):
            return self.tracer.constants.stand_in(argument)
        return META if self.is_home(argument) else argument


Answer = Callable[[Introspection, Any, tuple[Any, ...], dict[str, Any]], Any]
_ADVICE = "keep to tensor operations, or cut the backbone before it"
_DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128),
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
)


# The device --------------------------------------------------------------------------------------------------


def _device(mode: Introspection, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """As a tensor on the model's device answers."""
    if not args[0].is_meta:
        return func(*args, **kwargs)
    with _disable_current_modes():
        return func(mode.samples.get(args[0].dtype, mode.samples[torch.float32]), *args[1:], **kwargs)


def _type(mode: Introspection, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``x.type()`` names the device too, and ``x.type("torch.FloatTensor")`` moves to it."""
    wanted = args[1] if len(args) > 1 else kwargs.get("dtype")
    if not args[0].is_meta or isinstance(wanted, torch.dtype):
        return func(*args, **kwargs)
    if wanted is None:
        return _device(mode, func, args, {})
    name = wanted if isinstance(wanted, str) else f"{wanted.__module__}.{wanted.__name__}"
    dtypes = [dtype for dtype, sample in mode.samples.items() if sample.type() == name]
    return args[0].to(dtypes[0]) if dtypes else func(*args, **kwargs)


def _to(mode: Introspection, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Moved to where it is, a tensor stays itself and not a copy: a write to the one is a write to the other."""
    if not args[0].is_meta:
        return func(*args, **kwargs)
    return func(args[0], *map(mode.here, args[1:]), **{name: mode.here(item) for name, item in kwargs.items()})


def _cpu(mode: Introspection, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    stays = args[0].is_meta and mode.home.type == func.__name__
    return args[0].to(META, **kwargs) if stays else func(*args, **kwargs)


def _dtype(mode: Introspection, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Autocast leaves tensors without data as they are, so their type is not the one that they would have."""
    if mode.autocast and args[0].is_meta:
        mode.tracer.refuse(
            "looks at the dtype of a tensor behind torch.autocast, which differs from device to device", _ADVICE
        )
    return func(*args, **kwargs)


# Literals and copies -----------------------------------------------------------------------------------------


def _index(mode: Introspection, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return func(args[0], with_literals(args[1]), *args[2:], **kwargs)


def _make(mode: Introspection, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A literal becomes a tensor on the CPU, whatever device is asked for."""
    if not isinstance(args[0] if args else None, Tensor):
        return func(*args, **{**kwargs, "device": "cpu"})
    return _to(mode, func, args, kwargs)


def _new_tensor(mode: Introspection, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    data = args[1] if len(args) > 1 else kwargs["data"]
    return torch.tensor(data, dtype=kwargs.get("dtype", args[0].dtype), device="cpu")


def _deepcopy(mode: Introspection, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0].clone()


# The memory --------------------------------------------------------------------------------------------------


def _set_data(mode: Introspection, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``y.data = x`` gives y the memory of x."""
    tensor, other = args[0], mode.here(args[1])
    if not tensor.is_meta:
        mode.tracer.refuse("assigns to .data of a tensor that is no part of the model", _ADVICE)
    func(tensor, other)
    mode.tracer.share(tensor, other)


def _values(mode: Introspection, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``x.numpy()`` and the like: of constants whose values are known, but never of what depends on the image."""
    tensor = mode.here(args[0])
    if mode.tracer.depends(tensor):
        mode.tracer.refuse(f"turns a tensor that depends on the image into plain values ({_name(func)})", _ADVICE)
    value = mode.tracer.constants.value(tensor)
    if value is None:
        mode.tracer.refuse(
            f"turns a tensor into plain values ({_name(func)}) that are not known without running the network",
            "keep it as a Python number or in a buffer that nothing writes to",
        )
    with _disable_current_modes():
        result = func(value, *args[1:], **kwargs)
    if isinstance(result, np.ndarray):
        # The memory may be the model's own, and the array does not see what is written to the tensor from now on.
        mode.tracer.constants.expose(tensor)
        result = result.copy()
        result.setflags(write=False)
    return result


def _refuse(does: str) -> Answer:
    def answer(mode: Introspection, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not args[0].is_meta:
            return func(*args, **kwargs)
        if _is_pickling():
            mode.tracer.refuse("copies or saves a tensor by copy.copy, pickle or torch.save", "copy it with .clone()")
        return mode.tracer.refuse(f"{does} ({_name(func)}), past the operations that a trace can follow", _ADVICE)

    return answer


def _is_pickling() -> bool:
    """Whether a tensor is being taken apart for a copy or a file, which no function that can be answered for says."""
    frame = sys._getframe()
    while frame.f_back is not None:
        if frame.f_code is Tensor._reduce_ex_internal.__code__:
            return True
        frame = frame.f_back
    return False


def _name(func: Any) -> str:
    """The function or attribute, as it is called in torch's documentation."""
    name = str(getattr(func, "__name__", func))
    if name in ("__get__", "__set__"):
        return f"Tensor.{func.__self__.__name__}"
    return f"Tensor.{name}" if getattr(Tensor, name, None) is func else name


def _getters(*names: str) -> list[Any]:
    """The attributes of tensors that this version of torch has."""
    return [getattr(Tensor, name).__get__ for name in names if hasattr(Tensor, name)]


def _methods(*names: str) -> list[Any]:
    return [getattr(Tensor, name) for name in names if hasattr(Tensor, name)]


_DEVICES = ("cpu", "cuda", "meta", "mps", "xpu", "xla", "ipu", "hpu", "mtia", "maia", "vulkan")
_ANSWERS: dict[Any, Answer] = {
    **dict.fromkeys(_getters("device", *(f"is_{name}" for name in _DEVICES)), _device),
    **dict.fromkeys(_methods("get_device", "is_shared", "is_pinned"), _device),
    torch.get_device: _device,
    Tensor.type: _type,
    Tensor.to: _to,
    Tensor.cpu: _cpu,
    Tensor.cuda: _cpu,
    Tensor.dtype.__get__: _dtype,  # type: ignore[attr-defined]
    Tensor.__getitem__: _index,
    Tensor.__setitem__: _index,
    **dict.fromkeys(MAKERS, _make),
    Tensor.new_tensor: _new_tensor,
    Tensor.__deepcopy__: _deepcopy,
    Tensor.data.__set__: _set_data,  # type: ignore[attr-defined]
    **dict.fromkeys(_methods("numpy", "tolist", "__array__"), _values),
    **dict.fromkeys(
        [
            *_methods("untyped_storage", "storage", "_typed_storage", "storage_type", "data_ptr", "const_data_ptr"),
            *_methods("__dlpack__", "__dlpack_device__", "share_memory_"),
            *_getters("__cuda_array_interface__"),
        ],
        _refuse("looks at the memory of a tensor"),
    ),
    **dict.fromkeys(
        _methods("apply_", "map_", "map2_"), _refuse("calls a Python function for every element of a tensor")
    ),
}
