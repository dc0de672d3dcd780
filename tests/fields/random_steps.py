"""One step of a random network: every kind of operation, with random options that fit its input."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor, nn

Draw = Callable[[st.SearchStrategy], object]
Step = Callable[[Tensor], Tensor]
Kind = Callable[[Draw, Tensor], Step]


class InSinglePrecision(nn.Module):
    """Interpolation as networks run it: in double precision, ties are read differently from build to build."""

    def __init__(self, keywords: dict) -> None:
        super().__init__()
        self.keywords = keywords

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(x.float(), **self.keywords).double()

    def extra_repr(self) -> str:
        return str(self.keywords)


def small(draw: Draw, low: int, high: int) -> int:
    return draw(st.integers(low, high))


def flag(draw: Draw) -> bool:
    return draw(st.booleans())


def pick(draw: Draw, *options: object) -> object:
    return draw(st.sampled_from(options))


def axis(draw: Draw, x: Tensor) -> int:
    return small(draw, 1, x.ndim - 1)


# Steps for tensors with channels, rows and columns --------------------------------------------------------


def convolution(draw: Draw, x: Tensor) -> Step:
    channels, out = x.shape[1], small(draw, 1, 4)
    groups = pick(draw, *[g for g in range(1, channels + 1) if channels % g == 0])
    dilation = (small(draw, 1, 2), small(draw, 1, 2))
    kernel = (small(draw, 1, 3), small(draw, 1, 3))
    mode = pick(draw, "zeros", "reflect", "replicate", "circular")
    if pick(draw, "same", "numbers") == "same":
        return nn.Conv2d(
            channels,
            out * groups,
            kernel,
            padding="same",
            dilation=dilation,
            groups=groups,
            padding_mode=mode,
        )
    padding, stride = (small(draw, 0, 2), small(draw, 0, 2)), (small(draw, 1, 3), small(draw, 1, 3))
    return nn.Conv2d(channels, out * groups, kernel, stride, padding, dilation, groups, padding_mode=mode)


def transposed_convolution(draw: Draw, x: Tensor) -> Step:
    channels = x.shape[1]
    groups = pick(draw, *[g for g in range(1, channels + 1) if channels % g == 0])
    stride = small(draw, 1, 3)
    return nn.ConvTranspose2d(
        channels, small(draw, 1, 2) * groups, (small(draw, 1, 3), small(draw, 1, 3)), stride,
        small(draw, 0, 1), small(draw, 0, stride - 1), groups, dilation=small(draw, 1, 2),
    )  # fmt: skip


def one_axis_convolution(draw: Draw, x: Tensor) -> Step:
    conv = nn.Conv1d(x.shape[1], 2, small(draw, 1, 3), small(draw, 1, 2), small(draw, 0, 1)).double()
    return lambda t: conv(t.flatten(2))


def volume_convolution(draw: Draw, x: Tensor) -> Step:
    conv = nn.Conv3d(1, 2, (small(draw, 1, 2), 2, 1), padding=(small(draw, 0, 1), 1, 0)).double()
    return lambda t: conv(t.unsqueeze(1)).flatten(1, 2)


def max_pool(draw: Draw, x: Tensor) -> Step:
    kernel = small(draw, 1, 3)
    return nn.MaxPool2d(kernel, small(draw, 1, 3), small(draw, 0, kernel // 2), small(draw, 1, 2), ceil_mode=flag(draw))


def avg_pool(draw: Draw, x: Tensor) -> Step:
    kernel = small(draw, 1, 3)
    padding = small(draw, 0, kernel // 2)
    return nn.AvgPool2d(kernel, small(draw, 1, 3), padding, ceil_mode=flag(draw), count_include_pad=flag(draw))


def lp_pool(draw: Draw, x: Tensor) -> Step:
    return nn.LPPool2d(2, small(draw, 1, 3), small(draw, 1, 2), ceil_mode=flag(draw))


def adaptive_pool(draw: Draw, x: Tensor) -> Step:
    size = (small(draw, 1, 5), small(draw, 1, 5))
    return nn.AdaptiveAvgPool2d(size) if flag(draw) else nn.AdaptiveMaxPool2d(size)


def pad(draw: Draw, x: Tensor) -> Step:
    mode = pick(draw, "constant", "reflect", "replicate", "circular")
    low = -1 if mode == "constant" else 0
    amounts = [small(draw, low, 2) for _ in range(4)]
    return partial(F.pad, pad=amounts, mode=mode)


def interpolate(draw: Draw, x: Tensor) -> Step:
    mode = pick(draw, "nearest", "nearest-exact", "bilinear", "bicubic", "area")
    options: dict = {"mode": mode}
    if mode in ("bilinear", "bicubic"):
        options["align_corners"] = flag(draw)
        options["antialias"] = flag(draw) and not options["align_corners"]
    if flag(draw):
        options["size"] = (small(draw, 1, 9), small(draw, 1, 9))
    else:
        options["scale_factor"] = pick(draw, 0.4, 0.5, 0.7, 1.3, 1.5, 2.0, 3.0)
        options["recompute_scale_factor"] = flag(draw) or None
    return InSinglePrecision(options)


def shuffle(draw: Draw, x: Tensor) -> Step:
    return pick(draw, nn.PixelShuffle(2), nn.PixelUnshuffle(2), nn.ChannelShuffle(2), nn.PixelUnshuffle(3))


def unfold_and_fold(draw: Draw, x: Tensor) -> Step:
    options = {
        "kernel_size": (small(draw, 1, 3), small(draw, 1, 3)),
        "dilation": (small(draw, 1, 2), 1),
        "padding": (small(draw, 0, 1), small(draw, 0, 1)),
        "stride": (small(draw, 1, 2), small(draw, 1, 3)),
    }
    size = x.shape[2:]
    if flag(draw):
        return lambda t: F.unfold(t, **options)
    return lambda t: F.fold(F.unfold(t, **options).flip(2), size, **options)


def normalize(draw: Draw, x: Tensor) -> Step:
    channels = x.shape[1]
    kind = pick(draw, "batch", "instance", "group", "layer")
    if kind == "batch":
        return nn.BatchNorm2d(channels).train(flag(draw))
    if kind == "instance":
        return nn.InstanceNorm2d(channels, track_running_stats=flag(draw)).train(flag(draw))
    if kind == "group":
        return nn.GroupNorm(pick(draw, *[g for g in range(1, channels + 1) if channels % g == 0]), channels)
    return nn.LayerNorm(x.shape[small(draw, 1, 3) :])


def squeeze_excite(draw: Draw, x: Tensor) -> Step:
    inner = nn.Conv2d(x.shape[1], x.shape[1], 1).double()
    return lambda t: t * torch.sigmoid(inner(F.adaptive_avg_pool2d(t, 1)))


def dynamic_convolution(draw: Draw, x: Tensor) -> Step:
    out = small(draw, 1, 3)
    transposed = flag(draw)
    make = nn.Linear(x.shape[1], out * x.shape[1]).double()

    def step(t: Tensor) -> Tensor:
        kernel = make(t[..., 0, 0]).reshape(out, t.shape[1], 1, 1)
        return F.conv_transpose2d(t, kernel.transpose(0, 1)) if transposed else F.conv2d(t, kernel)

    return step


# Steps for tensors of any shape ---------------------------------------------------------------------------


def pointwise(draw: Draw, x: Tensor) -> Step:
    return pick(
        draw, torch.sigmoid, F.gelu, F.hardswish, nn.ReLU(inplace=True), nn.Hardtanh(), lambda t: t * 2 + 1,
        lambda t: t.clone().mul_(3).add_(t), lambda t: t.to(torch.float64), nn.Dropout(0.5).eval(), torch.zeros_like,
        lambda t: F.softplus(t).pow(2), lambda t: t.clone().zero_(), nn.PReLU().double(), F.logsigmoid,
    )  # fmt: skip


def move(draw: Draw, x: Tensor) -> Step:
    dim, size = axis(draw, x), small(draw, -3, 3)
    return pick(
        draw, lambda t: t.roll(size, dim), lambda t: t.flip(dim), lambda t: t.roll(size),
        lambda t: t.rot90(size, (1, dim)),
    )  # fmt: skip


def cut(draw: Draw, x: Tensor) -> Step:
    dim = axis(draw, x)
    size = x.shape[dim]
    start, step = small(draw, 0, size - 1), small(draw, 1, 3)
    index = torch.tensor(draw(st.lists(st.integers(-size, size - 1), min_size=1, max_size=4)))
    keep = torch.tensor([i == 0 or flag(draw) for i in range(size)])
    everything = (slice(None),) * dim
    return pick(
        draw,
        lambda t: t[(*everything, slice(start, None, step))],
        lambda t: t.select(dim, start).unsqueeze(dim),
        lambda t: t.index_select(dim, index),
        lambda t: t[(*everything, index)],
        lambda t: t[(*everything, keep)],
        lambda t: t.narrow(dim, start, 1),
        lambda t: t.split(2, dim)[0],
        lambda t: torch.cat([p.flip(dim) for p in t.chunk(2, dim)], dim),
        lambda t: torch.stack(t.unbind(dim)[::-1], dim),
        lambda t: t.unfold(dim, min(2, size), step).flatten(-2),
        lambda t: t.take_along_dim(index.reshape([-1 if k == dim else 1 for k in range(t.ndim)]), dim),
    )


def index_two(draw: Draw, x: Tensor) -> Step:
    if x.ndim < 4:
        return lambda t: t
    rows = torch.tensor([small(draw, 0, x.shape[2] - 1) for _ in range(3)])
    cols = torch.tensor([small(draw, 0, x.shape[3] - 1) for _ in range(3)])
    chan = torch.tensor([small(draw, 0, x.shape[1] - 1) for _ in range(3)])

    def put(t: Tensor) -> Tensor:
        t = t.clone()
        t[:, :, rows, cols] = t[:, :, cols % t.shape[2], rows % t.shape[3]] * 2
        return t

    return pick(
        draw,
        lambda t: t[:, :, rows, cols],
        lambda t: t[:, chan, :, cols],
        lambda t: t[:, :, rows[:, None], cols],
        put,
    )


def write(draw: Draw, x: Tensor) -> Step:
    dim, other = axis(draw, x), axis(draw, x)
    start, step = small(draw, 0, 2), small(draw, 1, 2)
    everything = (slice(None),) * dim

    def strided(t: Tensor) -> Tensor:
        out = torch.zeros_like(t)
        out[(*everything, slice(start, None, step))] = t[(*everything, slice(start, None, step))]
        return out

    def through_views(t: Tensor) -> Tensor:
        out = t.flip(other).clone()
        out.transpose(1, dim).unsqueeze(0).select(2, 0).add_(t.transpose(1, dim).select(1, 0))
        return out

    def flat_write(t: Tensor) -> Tensor:
        out = t.roll(1, dim).contiguous().clone()
        out.view(-1)[start::2].mul_(t.reshape(-1)[start::2])
        return out

    def overwritten(t: Tensor) -> Tensor:
        out = t.clone()
        out.narrow(dim, 0, 1).fill_(0.5)
        return out

    return pick(draw, strided, through_views, flat_write, overwritten)


def reduce(draw: Draw, x: Tensor) -> Step:
    dim, keep = axis(draw, x), flag(draw)
    last = x.ndim - 1
    return pick(
        draw, lambda t: t.mean(dim, keepdim=True), lambda t: t.sum((dim, last), keepdim=True),
        lambda t: t.amax(dim, keepdim=True), lambda t: t.max(dim, keepdim=True).values,
        lambda t: t.var(dim, keepdim=True, correction=0), lambda t: t.prod(dim, keepdim=True) + t,
        lambda t: t.logsumexp(dim, keepdim=keep).unsqueeze(1) + t.mean(), lambda t: t.norm(dim=dim, keepdim=True),
    )  # fmt: skip


def mix_along(draw: Draw, x: Tensor) -> Step:
    dim = axis(draw, x)
    return pick(
        draw, lambda t: t.softmax(dim), lambda t: t.log_softmax(dim), lambda t: t.cumsum(dim),
        lambda t: F.normalize(t, dim=dim), lambda t: torch.fft.rfft(t, dim=dim).abs(), lambda t: t.cumprod(dim),
        lambda t: F.layer_norm(t, t.shape[dim:]), lambda t: t.logcumsumexp(dim),
    )  # fmt: skip


def reshape(draw: Draw, x: Tensor) -> Step:
    order = draw(st.permutations(range(1, x.ndim)))
    sizes, numel = [], x.numel()
    while numel > 1 and len(sizes) < 3:
        factor = pick(draw, *[f for f in range(1, numel + 1) if numel % f == 0])
        sizes.append(factor)
        numel //= factor
    shape = (1, *sizes, numel)
    dim = axis(draw, x)
    return pick(
        draw, lambda t: t.permute(0, *order), lambda t: t.reshape(shape), lambda t: t.flatten(1),
        lambda t: t.flatten(2), lambda t: t.transpose(1, dim).reshape(shape), lambda t: t.unsqueeze(dim),
        lambda t: t.movedim(1, dim).squeeze(), lambda t: t.repeat_interleave(2, dim),
        lambda t: t.repeat(*[1] * dim, 2, *[1] * (t.ndim - dim - 1)),
        lambda t: t.unsqueeze(dim).expand(*t.shape[:dim], 2, *t.shape[dim:]),
    )  # fmt: skip


def products(draw: Draw, x: Tensor) -> Step:
    if x.ndim < 3:
        return nn.Linear(x.shape[-1], 3)
    linear = nn.Linear(x.shape[-1], small(draw, 1, 4)).double()
    weight = torch.randn(x.shape[1], 3, dtype=torch.float64)
    return pick(
        draw, linear, lambda t: t @ t.mT, lambda t: t.mT @ t, lambda t: F.scaled_dot_product_attention(t, t, t),
        lambda t: torch.einsum("nc...,ck->nk...", t, weight), lambda t: t.tril(), lambda t: t.triu(1),
        lambda t: torch.einsum("n...a,n...b->n...ab", t, t)[..., 0], lambda t: F.glu(torch.cat([t, t.flip(-1)], -1)),
        lambda t: torch.tensordot(t, t, dims=([t.ndim - 1], [t.ndim - 1]))[:, 0, 0],
        lambda t: t.diagonal(0, -2, -1).unsqueeze(1) + t.mean(),
    )  # fmt: skip


def choose(draw: Draw, x: Tensor) -> Step:
    mask = torch.rand(x.shape[1:], generator=torch.Generator().manual_seed(small(draw, 0, 9))) > 0.5
    dim = axis(draw, x)
    return pick(draw, lambda t: torch.where(mask, t, t.roll(1, dim)), lambda t: t.masked_fill(mask, 0.0))


SPATIAL = (
    convolution, transposed_convolution, one_axis_convolution, volume_convolution, max_pool, avg_pool, lp_pool,
    adaptive_pool, pad, interpolate, shuffle, unfold_and_fold, normalize, squeeze_excite, dynamic_convolution,
)  # fmt: skip
GENERAL = (pointwise, move, cut, index_two, write, reduce, mix_along, reshape, products, choose)
KINDS = {kind.__name__: kind for kind in (*SPATIAL, *GENERAL)}
