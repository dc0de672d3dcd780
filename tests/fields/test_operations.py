"""Operations and ways of writing code that are easily got wrong, each compared with the probe on every pixel."""

import copy
import dataclasses
import functools
from collections import deque
from collections.abc import Callable
from itertools import product
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pixpnet as px
from pixpnet.fields.verify import verify_fields


class Call(nn.Module):
    """A module around a function, with a convolution to use in it."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function
        self.conv = nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, x: Tensor) -> object:
        return self.function(x, self.conv)


INDEX = torch.tensor([[[[0, 3, 1, 4, 2]] * 6] * 2])
AGAIN = torch.tensor([[[[0, 3, 1, 1, 2]] * 6] * 2])  # for what adds up; what overwrites may take either
STEPS = torch.tensor([4, 0, 2])
MASK = torch.arange(30).reshape(6, 5) % 3 == 0
LARGE = torch.zeros(1100, 1100, dtype=torch.bool)
LARGE[::2, ::3] = True

EXACT: dict[str, Callable[[Tensor, nn.Module], object]] = {
    "tril_": lambda x, conv: conv(x).tril_(),
    "triu_": lambda x, conv: conv(x).triu_(1),
    "scatter_ source": lambda x, conv: conv(x).scatter_(3, INDEX, x.flip(2)),
    "scatter_ number": lambda x, conv: conv(x).scatter_(3, INDEX, 0.0),
    "scatter_add_": lambda x, conv: conv(x).scatter_add_(3, AGAIN, x.flip(2)),
    "scatter_reduce": lambda x, conv: conv(x).scatter_reduce(3, AGAIN, x, "sum", include_self=False),
    "scatter_reduce with itself": lambda x, conv: conv(x).scatter_reduce(3, INDEX, x, "amax"),
    "index_add_": lambda x, conv: conv(x).index_add_(2, STEPS, x[:, :, :3]),
    "index_copy_": lambda x, conv: conv(x).index_copy_(2, STEPS, x[:, :, :3]),
    "index_fill_": lambda x, conv: conv(x).index_fill_(2, STEPS, 1.0),
    "masked assignment": lambda x, conv: _assign(conv(x), x),
    "where, part of a large mask": lambda x, conv: torch.where(LARGE[:6, :5], x, x.flip(3)),
    "where": lambda x, conv: torch.where(MASK, conv(x), x.flip(3)),
    "deepcopy": lambda x, conv: copy.deepcopy(conv(x)) * 2,
    "transpose_": lambda x, conv: conv(x).transpose_(2, 3),
    "unsqueeze_ and squeeze_": lambda x, conv: conv(x).unsqueeze_(1).squeeze_(1),
    "as_strided from the start": lambda x, conv: conv(x).contiguous().as_strided((1, 3, 4), (60, 5, 2), 0),
    "layer norm, then view": lambda x, conv: F.layer_norm(conv(x).permute(0, 2, 3, 1), (2,)).view(1, -1),
    "channels last, then cat": lambda x, conv: _cat_channels_last(conv(x)),
    "cumsum of all": lambda x, conv: conv(x).flatten(1).cumsum(1),
    "diag_embed": lambda x, conv: torch.diag_embed(conv(x)[0], offset=1),
    "cdist": lambda x, conv: torch.cdist(conv(x)[0], x[0]),
    "nonzero of a constant": lambda x, conv: x[:, :, MASK.nonzero()[:4, 0]],
    "masked select by a constant": lambda x, conv: conv(x)[:, :, MASK],
    "unique of a constant": lambda x, conv: x[:, :, torch.unique(STEPS)],
    "empty list": lambda x, conv: torch.cat([x[:, :, []], conv(x)], 2),
    "byte mask": lambda x, conv: x[:, :, [True, False, True, True, False, False]],
    "asarray": lambda x, conv: x[:, :, torch.asarray([3, 1], device=x.device)],
    "attention": lambda x, conv: F.scaled_dot_product_attention(x, conv(x), x, is_causal=False),
    "fourier": lambda x, conv: torch.fft.rfft2(conv(x)).real,
    "inverse fourier, shorter": lambda x, conv: torch.fft.irfft(torch.fft.rfft(conv(x)), n=4),
    "inverse fourier, longer": lambda x, conv: torch.fft.irfft(torch.fft.rfft(conv(x)) * (1 + 2j), n=12),
    "hermitian fourier": lambda x, conv: torch.fft.hfft(torch.fft.rfft(conv(x)), n=8),
    "gather by pooling": lambda x, conv: _pick(x, F.max_pool2d(x, 2, return_indices=True)[1]),
    "gather by overlapping pooling": lambda x, conv: _pick(x, F.max_pool2d(x, 3, 1, 1, return_indices=True)[1]),
    "gather by a copy of the indices": lambda x, conv: _pick(
        x, F.max_pool2d(x, 2, return_indices=True)[1].int().long()
    ),
    "gather by adaptive pooling": lambda x, conv: _pick(x, F.adaptive_max_pool2d(x, 2, return_indices=True)[1]),
    "gather by pooling in 1-D": lambda x, conv: _pick(x, F.max_pool1d(x.flatten(2), 3, return_indices=True)[1]),
    "gather by argmax": lambda x, conv: x.gather(3, x.argmax(3, keepdim=True)),
    "gather by argmax of a part": lambda x, conv: x.gather(3, x[..., :2].argmax(3, keepdim=True)),
    "take along": lambda x, conv: torch.take_along_dim(x, x.argmax(3, keepdim=True), 3),
    "interpolate in 1-D": lambda x, conv: F.interpolate(x.flatten(2), scale_factor=1.01),
    "interpolate, two axes": lambda x, conv: F.interpolate(x, size=(3, 7), mode="bilinear", antialias=True),
}


def _pick(x: Tensor, index: Tensor) -> Tensor:
    return x.flatten(2).gather(2, index.flatten(2))


def _assign(x: Tensor, other: Tensor) -> Tensor:
    x[:, :, MASK] = other[:, :, MASK] * 2
    return x


def _cat_channels_last(x: Tensor) -> Tensor:
    last = x.contiguous(memory_format=torch.channels_last)
    return torch.cat([last, last], 1).permute(0, 2, 3, 1).view(1, -1)


@pytest.mark.parametrize("name", EXACT)
def test_what_is_read_is_exactly_what_the_probe_sees(name: str) -> None:
    torch.manual_seed(0)
    network = Call(EXACT[name])
    verification = verify_fields(network, (2, 6, 5), list(product(range(6), range(5))))
    assert verification.passed, verification


class Sub(Tensor):
    """A tensor of another class."""


REFUSED: dict[str, Callable[[Tensor, nn.Module], object]] = {
    "a parameter made from a result": lambda x, conv: nn.Parameter(conv(x), requires_grad=False) * 2,
    "another class": lambda x, conv: conv(x).as_subclass(Sub) * 2,
    "random mask": lambda x, conv: x[:, :, torch.zeros(6).bernoulli_(1.0).bool()],
    "random choice": lambda x, conv: torch.where(torch.zeros(6, 5).uniform_(1, 2) > 0.5, x, x.flip(-1)),
    "random branch": lambda x, conv: x if torch.zeros(1).normal_(5, 0.1).item() > 1 else x.flip(-1),
    "mask from weights": lambda x, conv: torch.where(conv.weight[0, 0, 0, 0] > 0, x, x.flip(-1)),
    "complex from two parts": lambda x, conv: torch.view_as_complex(torch.stack([x, x.flip(2)], -1)).real,
    "beyond a view": lambda x, conv: x[:, :, 2:].as_strided((3, 5), (5, 1), 0),
    "dynamic transposed": lambda x, conv: F.conv_transpose2d(x, x[:1].reshape(2, 1, 6, 5), stride=2),
    "values of the image": lambda x, conv: x[x > 0],
    "values, caught by the model": lambda x, conv: _catch(x),
    "positions of the image": lambda x, conv: x.nonzero(),
    "diagonal written": lambda x, conv: _zero_diagonal(conv(x)),
    "inverse fourier of reals": lambda x, conv: torch.fft.irfft(conv(x), n=4),
    "hermitian fourier of reals": lambda x, conv: torch.fft.hfft(x, n=12),
    "inverse fourier of reals, scaled": lambda x, conv: torch.fft.irfft2(x * (1 + 2j), s=(4, 4)),
    "gather by computed pooling": lambda x, conv: _pick(x, F.max_pool2d(x, 2, return_indices=True)[1] % 5),
    "gather by transposed pooling": lambda x, conv: _pick(x, F.max_pool2d(x, 2, return_indices=True)[1].mT),
    "gather by pooling of a part": lambda x, conv: _pick(x, F.max_pool2d(x[..., 1:], 2, return_indices=True)[1]),
    "gather by two values": lambda x, conv: x.gather(3, (x > 0).long()),
    "index by two values": lambda x, conv: x[0, :, :, (x[0, 0, 0] > 0).long()],
    "nothing returned": lambda x, conv: None,
}  # fmt: skip


def _catch(x: Tensor) -> Tensor:
    try:
        return x if x.max() > 0 else -x
    except (RuntimeError, NotImplementedError):
        return x


def _zero_diagonal(x: Tensor) -> Tensor:
    x.diagonal(0, 2, 3).zero_()
    return x


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused(name: str) -> None:
    with pytest.raises(px.UnsupportedOperation):
        px.receptive_fields(Call(REFUSED[name]), (2, 6, 5))


def test_statistics_that_training_updates_are_not_taken_for_constants() -> None:
    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm2d(2)

        def forward(self, x: Tensor) -> Tensor:
            self.norm(x[:, :, 1:])
            return self.norm.running_mean * 1

    field = px.receptive_fields(Reads().train(), (2, 4, 4))[""]
    assert field.boxes(channel=1) == [(1, 0, 4, 4)]


@dataclasses.dataclass
class Output:
    """What a network may return."""

    scores: Tensor
    extra: dict[str, Tensor]


def test_dataclasses_are_looked_into() -> None:
    network = Call(lambda x, conv: Output(conv(x), {"mean": x.mean((2, 3))}))
    fields = px.receptive_fields(network, (2, 6, 5))
    assert fields["[scores]"].size == (3, 3)
    assert fields["[extra][mean]"].sees_everything


def test_integers_are_left_out_of_the_comparison_with_the_probe() -> None:
    assert verify_fields(nn.MaxPool2d(2, return_indices=True), (1, 4, 4), 4).passed


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # TorchScript is on its way out, which it says
def test_compiled_and_traced_models_are_followed_and_get_no_hooks() -> None:
    plain = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2))
    expected = px.receptive_fields(plain, (1, 8, 8))[""].boxes(1, 1)
    traced = torch.jit.trace(plain, torch.randn(1, 1, 8, 8))
    assert px.receptive_fields(traced, (1, 8, 8))[""].boxes(1, 1) == expected
    assert not traced._forward_hooks
    assert not traced._forward_pre_hooks
    assert px.receptive_fields(torch.compile(plain), (1, 8, 8))["2"].boxes(1, 1) == expected
    own = copy.deepcopy(plain)
    own.compile()
    assert px.receptive_fields(own, (1, 8, 8))["2"].boxes(1, 1) == expected


class Keeps(nn.Module):
    """Keeps things in containers of several kinds and writes to its buffers in unusual ways."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.norm = nn.BatchNorm1d(3, affine=False)
        self.recent: deque[Tensor] = deque(maxlen=3)
        self.space = SimpleNamespace(grid=None)
        self.count = nn.Parameter(torch.tensor([2, 0]), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        torch.add(torch.ones(3), torch.ones(3), out=self.total)
        self.norm(torch.arange(6.0).reshape(2, 3))
        self.recent.append(x)
        self.space.grid = torch.arange(3, device=x.device)
        return x[:, :, self.count]


def test_no_way_of_writing_reaches_the_models_own_state() -> None:
    model = Keeps().train()
    field = px.receptive_fields(model, (1, 4, 4))[""]
    assert field.boxes(0, 1) == [(2, 1, 3, 2)]  # an index kept in a parameter of integers
    assert model.total.tolist() == [0, 0, 0]
    assert model.norm.running_mean.tolist() == [0, 0, 0]
    assert model.norm.running_var.tolist() == [1, 1, 1]
    assert not model.recent
    assert model.space.grid is None


def test_the_probe_leaves_torchs_switches_and_random_numbers_alone() -> None:
    from pixpnet.fields.probe import probe

    network = nn.Sequential(nn.Conv2d(1, 1, 1), nn.Dropout(0.5)).train()
    before = torch.random.get_rng_state()
    sightings = probe(network, (1, 4, 4), [(0, 0), (1, 1)])
    next(sightings)
    assert torch.is_grad_enabled()
    assert torch.backends.mkldnn.enabled
    assert torch.backends.mha.get_fastpath_enabled()
    list(sightings)
    assert torch.equal(before, torch.random.get_rng_state())


def test_large_constant_masks_and_long_sums_need_no_square_of_memory() -> None:
    mask = torch.arange(3 * 96 * 96).reshape(3, 96, 96) % 7 == 0

    def zero(x: Tensor, conv: nn.Module) -> Tensor:
        x = x.clone()
        x[:, mask] = 0
        return x.flatten(1).cumsum(1)

    field = px.receptive_fields(Call(zero), (3, 96, 96))[""]
    assert field.boxes(channel=0) == []
    assert field.boxes(channel=2) == [(0, 1, 1, 3)]


@pytest.mark.parametrize(
    ("function", "shape", "dim"),
    [
        (lambda x: torch.cat([x, F.avg_pool2d(x, 3, 1, 1)], 1), (2, 6, 1), 0),
        (lambda x: torch.cat([x, F.avg_pool2d(x, 3, 1, 1)], 1), (2, 1, 6), 0),
        (lambda x: x.permute(0, 2, 3, 1), (3, 6, 5), 2),
        (lambda x: x.flatten(2), (3, 6, 5), 0),
        (lambda x: x.flatten(2).transpose(1, 2), (3, 6, 5), 1),
        (lambda x: x.mean((2, 3)), (3, 6, 5), 0),
        (lambda x: x.mean((2, 3), keepdim=True), (3, 6, 5), 0),
    ],
)
def test_the_channel_axis_is_the_one_that_a_person_would_name(
    function: Callable[[Tensor], Tensor], shape: tuple[int, ...], dim: int
) -> None:
    field = px.receptive_fields(Call(lambda x, conv: function(x)), shape)[""]
    assert field.channel_dim == dim
    assert field.with_channels(-1).channel_dim == len(field.shape) - 1


def test_cached_functions_keyed_by_device_do_not_disturb_the_model() -> None:
    @functools.cache
    def grid(size: int, device: torch.device) -> Tensor:
        return torch.linspace(0, 1, size, device=device)

    network = Call(lambda x, conv: x * grid(x.shape[-1], x.device))
    px.receptive_fields(network, (2, 6, 5))
    assert network(torch.ones(1, 2, 6, 5)).device.type == "cpu"
