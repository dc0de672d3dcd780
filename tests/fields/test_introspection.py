"""Code that asks a tensor for its device, its memory or its values: exact by the probe, or refused by name."""

import copy
import functools
import io
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pixpnet as px
from pixpnet.fields.verify import verify_fields

SHAPE = (2, 6, 5)


class Call(nn.Module):
    """A function inside a layer, with a convolution and buffers to use in it."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.layer = _Layer(function)

    def forward(self, x: Tensor) -> object:
        return self.layer(x)


class _Layer(nn.Module):
    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function
        self.conv = nn.Conv2d(2, 2, 3, padding=1)
        self.register_buffer("order", torch.tensor([4, 0, 2]))
        self.register_buffer("total", torch.zeros(1, *SHAPE))

    def forward(self, x: Tensor) -> object:
        return self.function(x, self)


def flip_unless(chosen: bool, x: Tensor) -> Tensor:
    """Another branch reads other pixels."""
    return x * 1 if chosen else x.flip(3)


def after(x: Tensor, change: Callable[[Tensor, Tensor], object], write: bool = True) -> Tensor:
    """A copy of x that was changed through something that may or may not share its memory."""
    made = x * 1
    changed = change(made, x.flip(3))
    if write and isinstance(changed, Tensor):
        changed.copy_(x.flip(3))
    return made


def assign(tensor: Tensor, data: Tensor) -> Tensor:
    tensor.data = data
    return tensor


def assign_then_write(x: Tensor) -> Tensor:
    made, other = torch.zeros_like(x), x * 1
    made.data = other
    other.copy_(x.flip(3))
    return made


EXACT: dict[str, Callable[[Tensor, _Layer], object]] = {
    "device.type": lambda x, layer: flip_unless(x.device.type == "cpu", x),
    "device ==": lambda x, layer: flip_unless(layer.conv(x).device == torch.device("cpu"), x),
    "device of a parameter": lambda x, layer: flip_unless(layer.conv.weight.device.type == "cpu", x),
    "device of a result": lambda x, layer: flip_unless(torch.zeros(2, device=x.device).is_cpu, x),
    "is_cpu": lambda x, layer: flip_unless(x.is_cpu, x),
    "is_meta": lambda x, layer: flip_unless(not x.is_meta, x),
    "is_cuda": lambda x, layer: flip_unless(not x.is_cuda, x),
    "get_device": lambda x, layer: flip_unless(x.get_device() == -1, x),
    "type()": lambda x, layer: flip_unless("meta" not in x.type(), x),
    "type(type())": lambda x, layer: layer.conv(x).type(x.type()),
    "type(class)": lambda x, layer: layer.conv(x).type(torch.DoubleTensor),
    "requires_grad of a parameter": lambda x, layer: flip_unless(layer.conv.weight.requires_grad, x),
    "to its own device": lambda x, layer: after(x, lambda y, _: y.to(x.device)),
    "to the CPU": lambda x, layer: after(x, lambda y, _: y.to("cpu")),
    "to the CPU, copied": lambda x, layer: after(x, lambda y, _: y.to("cpu", copy=True)),
    "to another's": lambda x, layer: after(x, lambda y, _: y.to(torch.zeros(1, dtype=x.dtype))),
    "cpu()": lambda x, layer: after(x, lambda y, _: y.cpu()),
    "as_tensor": lambda x, layer: after(x, lambda y, _: torch.as_tensor(y, device="cpu")),
    "asarray, copied": lambda x, layer: after(x, lambda y, _: torch.asarray(y, copy=True)),
    "zeros on its device": lambda x, layer: torch.cat([x.new_zeros(1, 1, 6, 5, device=x.device), x], 1),
    "data": lambda x, layer: after(x, lambda y, _: y.data),
    "data = result": lambda x, layer: assign(x * 1, layer.conv(x.flip(3))),
    "data = constant": lambda x, layer: assign(x * 1, torch.zeros(1, *SHAPE, dtype=x.dtype)) + x[:, :, :1],
    "data = buffer, used as an index": lambda x, layer: x[:, :, assign(torch.arange(2), layer.order)],
    "data =, written afterwards": lambda x, layer: assign_then_write(x),
    "deepcopy": lambda x, layer: copy.deepcopy({"a": layer.conv(x)})["a"],
    "array of its own, written": lambda x, layer: torch.from_numpy(np.zeros((1, *SHAPE))).clone().copy_(x.flip(3)),
    "numpy of a buffer": lambda x, layer: x[:, :, layer.order.numpy()],
    "tolist of a buffer": lambda x, layer: x[:, :, layer.order.tolist()],
    "array of a buffer": lambda x, layer: x[:, :, np.asarray(layer.order)],
    "torch.tensor of a result": lambda x, layer: layer.conv(x).new_tensor(layer.conv(x)),
    "vmap": lambda x, layer: torch.vmap(lambda y: y.flip(1) + y[:1])(x[0]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:To copy construct from a tensor")
@pytest.mark.parametrize("name", EXACT)
def test_what_code_learns_from_a_tensor_is_what_it_learns_in_use(name: str) -> None:
    torch.manual_seed(0)
    verification = verify_fields(Call(EXACT[name]), SHAPE, list(product(range(6), range(5))))
    assert verification.passed, verification


def test_the_fused_path_of_attention_is_not_taken_for_an_operation_without_a_rule() -> None:
    encoder = nn.TransformerEncoderLayer(2, 1, 4, batch_first=True).eval()
    fields = px.receptive_fields(nn.Sequential(nn.Flatten(2), _Transposed(), encoder), SHAPE)
    assert fields["2"].sees_everything
    assert torch.backends.mha.get_fastpath_enabled()


class _Transposed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


def swapped(x: Tensor) -> Tensor:
    left, right = x * 1, x.flip(3)
    torch.utils.swap_tensors(left, right)
    return left


def swapped_with_a_constant(x: Tensor) -> Tensor:
    left, right = x * 1, torch.zeros(1, *SHAPE)
    torch.utils.swap_tensors(left, right)
    return right


def saved(x: Tensor) -> Tensor:
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file)


def filled(x: Tensor) -> Tensor:
    x.untyped_storage().fill_(0)
    return x


def stored(x: Tensor) -> Tensor:
    made = torch.zeros_like(x)
    made.untyped_storage().copy_(x.contiguous().untyped_storage())
    return made


def written_as_an_array(x: Tensor) -> Tensor:
    array = np.zeros((1, *SHAPE))
    torch.from_numpy(array).copy_(x.flip(3))
    return torch.from_numpy(array)


def written_behind_an_array(x: Tensor) -> Tensor:
    made = torch.zeros(1, *SHAPE)
    array = made.numpy()
    made.copy_(x.flip(3))
    return torch.from_numpy(array.copy())


def written_to_a_buffer(x: Tensor) -> Tensor:
    memory = bytearray(4 * x.numel())
    torch.frombuffer(memory, dtype=torch.float32).copy_(x.flatten())
    return torch.frombuffer(memory, dtype=torch.float32).view(x.shape)


def set_from(x: Tensor) -> Tensor:
    return torch.empty(0).set_(x)


def caught(function: Callable[[], Tensor], x: Tensor) -> Tensor:
    try:
        return function()
    except (TypeError, RuntimeError):
        return x.flip(3)


def in_a_thread(function: Callable[[], Tensor]) -> Tensor:
    results: list[Tensor] = []

    def work() -> None:
        try:
            results.append(function())
        except NotImplementedError:  # the other thread would print it
            return

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return results[0]


def type_under_autocast(x: Tensor, layer: _Layer) -> Tensor:
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        made = layer.conv(x)
    return flip_unless(made.dtype == torch.bfloat16, x)


COPYING = r"copy\.copy, pickle or torch\.save"
REFUSED: dict[str, tuple[str, Callable[[Tensor, _Layer], object]]] = {
    "copy.copy": (COPYING, lambda x, layer: copy.copy(layer.conv(x))),
    "copy.copy of a buffer, written": (COPYING, lambda x, layer: (copy.copy(layer.total).add_(x), layer.total)[1]),
    "pickle": (COPYING, lambda x, layer: pickle.loads(pickle.dumps(layer.conv(x)))),
    "torch.save": (COPYING, lambda x, layer: saved(layer.conv(x))),
    "swap_tensors": ("swap_tensors", lambda x, layer: swapped(x)),
    "swap_tensors with a constant": ("swap_tensors", lambda x, layer: swapped_with_a_constant(x)),
    "storage written": (r"Tensor\.untyped_storage", lambda x, layer: filled(layer.conv(x))),
    "storage copied": (r"Tensor\.untyped_storage", lambda x, layer: stored(layer.conv(x))),
    "storage()": (r"Tensor\.storage", lambda x, layer: torch.tensor(layer.conv(x).storage().tolist())),
    "data_ptr": (r"Tensor\.data_ptr", lambda x, layer: flip_unless(x.data_ptr() == layer.conv.weight.data_ptr(), x)),
    "NumPy's memory written": (r"torch\.from_numpy", lambda x, layer: written_as_an_array(layer.conv(x))),
    "memory of an array written": (r"Tensor\.numpy", lambda x, layer: written_behind_an_array(layer.conv(x))),
    "memory of a buffer written": (r"torch\.frombuffer", lambda x, layer: written_to_a_buffer(layer.conv(x))),
    "cond, caught": (r"operator \(cond\)", lambda x, layer: caught(lambda: torch.cond(x.sum() > 0, abs, abs, (x,)), x)),
    "an operation of no result": (r"aten\._assert_async", lambda x, layer: (torch._assert_async(x.sum() > 0), x)[1]),
    "set_": (r"aten\.set_", lambda x, layer: set_from(layer.conv(x))),
    "resize_": (r"aten\.resize_", lambda x, layer: layer.conv(x).resize_(1, 2, 3, 5)),
    "numpy": (r"Tensor\.numpy", lambda x, layer: torch.from_numpy(layer.conv(x).numpy())),
    "__array__": (r"Tensor\.__array__", lambda x, layer: torch.from_numpy(np.abs(layer.conv(x)))),
    "tolist": (r"Tensor\.tolist", lambda x, layer: torch.tensor(layer.conv(x).tolist())),
    "torch.tensor of numbers": ("calls tensor", lambda x, layer: torch.tensor([x[0, 0, 0, 0], 1.0])),
    "dlpack": (r"Tensor\.__dlpack", lambda x, layer: torch.from_dlpack(layer.conv(x))),
    "NumPy's dlpack": (r"Tensor\.__dlpack", lambda x, layer: torch.as_tensor(np.from_dlpack(layer.conv(x)))),
    "apply_": (r"Tensor\.apply_", lambda x, layer: layer.conv(x).apply_(abs)),
    "numpy, caught": (r"Tensor\.numpy", lambda x, layer: caught(lambda: torch.from_numpy(x.numpy()), x)),
    "no kernel, caught": (r"aten\.", lambda x, layer: caught(lambda: torch.linalg.eigvals(x[0, :, :2, :2]).real, x)),
    "another thread": ("another thread", lambda x, layer: in_a_thread(lambda: layer.conv(x))),
    "dtype under autocast": (r"torch\.autocast", type_under_autocast),
    "max_unpool": (r"aten\.max_unpool2d", lambda x, layer: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_what_a_trace_cannot_follow_is_refused_by_its_name_and_that_of_the_layer(name: str) -> None:
    words, function = REFUSED[name]
    with pytest.raises(px.UnsupportedOperation, match=words) as raised:
        px.receptive_fields(Call(function), SHAPE)
    everything = "\n".join([str(raised.value), *getattr(raised.value, "__notes__", [])])
    assert "'layer'" in everything or "'layer.conv'" in everything


def test_tables_that_code_caches_by_device_are_whole_when_the_model_itself_is_run() -> None:
    @functools.cache
    def table(size: int, device: torch.device) -> dict[str, Tensor]:
        steps = torch.arange(size, device=device)
        return {"steps": steps, "half": steps[: size // 2].flip(0)}

    network = Call(lambda x, layer: x[..., table(5, x.device)["half"]] + table(5, x.device)["steps"][:2])
    px.receptive_fields(network, SHAPE)
    expected = torch.tensor([[[1.0, 2.0]] * 6] * 2)[None]
    assert torch.equal(network(torch.ones(1, *SHAPE)), expected)
    assert verify_fields(network, SHAPE, 6).passed


def test_a_copy_of_a_buffer_as_an_array_cannot_be_written_to() -> None:
    def write(x: Tensor, layer: _Layer) -> Tensor:
        layer.order.numpy()[0] = 1
        return x

    network = Call(write)
    with pytest.raises(ValueError, match="read-only"):
        px.receptive_fields(network, SHAPE)
    assert network.layer.order.tolist() == [4, 0, 2]


SCRIPTED = """
import warnings
import torch
from torch import Tensor, nn
import pixpnet as px

warnings.simplefilter("ignore")

class Literal(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x[:, :, [3, 1]]
        y[:, :, torch.tensor([0], device=x.device)] = x[:, :, torch.as_tensor([2])]
        return y

def ask(x: Tensor) -> Tensor:
    return x if x.device == torch.device("cpu") else x.flip(3)

def pick(x: Tensor) -> Tensor:
    return x[:, :, [3, 1]]

class Asks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.jit.script(Cuda())
    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)

class Cuda(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flip(3) if x.is_cuda else x

asking, picking = torch.jit.script(ask), torch.jit.script(pick)

class CallsAsking(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return asking(x)

class CallsPicking(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return picking(x)

fields = px.receptive_fields(torch.jit.script(Literal()), (1, 4, 4), verify=16)
print(fields[""].boxes(0, 2), fields[""].boxes(1, 2))
fields = px.receptive_fields(nn.Sequential(CallsPicking()), (1, 4, 4), verify=16)
print(fields[""].boxes(0, 2), fields[""].boxes(1, 2))
for network in (CallsAsking(), Asks()):
    try:
        px.receptive_fields(network, (1, 4, 4))
    except px.UnsupportedOperation as error:
        print(error)
print(asking(torch.ones(1, 1, 1, 2)).shape)
"""


def test_scripts_with_literal_indices_are_exact_and_those_that_ask_for_the_device_are_refused(tmp_path: Path) -> None:
    # In a process of its own: a script that is run on the wrong memory takes the process with it.
    file = tmp_path / "scripted.py"  # torch.jit.script reads the source
    file.write_text(SCRIPTED)
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    literal, function, asks, inner, after_all = done.stdout.splitlines()
    assert literal == "[Box(y0=2, x0=2, y1=3, x1=3)] [Box(y0=1, x0=2, y1=2, x1=3)]"
    assert function == "[Box(y0=3, x0=2, y1=4, x1=3)] [Box(y0=1, x0=2, y1=2, x1=3)]"
    assert "TorchScript code 'ask'" in asks
    assert "prim::device" in asks
    assert "'forward'" in inner
    assert "prim::is_cuda" in inner
    assert after_all == "torch.Size([1, 1, 1, 2])"
