"""Reductions, normalisation, softmax, cumulative sums, Fourier transforms: whole axes at once."""

from collections.abc import Sequence
from typing import Any

import torch

from pixpnet.fields.rules.registry import Call, rule
from pixpnet.fields.sources import Sources

aten = torch.ops.aten


@rule(
    aten.sum.default,
    aten.sum.dim_IntList,
    aten.mean.default,
    aten.mean.dim,
    aten.amax.default,
    aten.amin.default,
    aten.aminmax.default,
    aten.max.default,
    aten.max.dim,
    aten.min.default,
    aten.min.dim,
    aten.argmax.default,
    aten.argmin.default,
    aten.prod.default,
    aten.prod.dim_int,
    aten.nansum.default,
    aten.median.default,
    aten.median.dim,
    aten.nanmedian.dim,
    aten.mode.default,
    aten.kthvalue.default,
    aten.var.correction,
    aten.var_mean.correction,
    aten.std.correction,
    aten.std_mean.correction,
    aten.var.dim,
    aten.std.dim,
    aten.norm.Scalar,
    aten.norm.ScalarOpt_dim,
    aten.norm.ScalarOpt_dim_dtype,
    aten.linalg_vector_norm.default,
    aten.logsumexp.default,
    aten.all.default,
    aten.all.dim,
    aten.any.default,
    aten.any.dim,
    aten.count_nonzero.dim_IntList,
)
def reduction(call: Call) -> tuple[Sources, ...]:
    """The whole of the reduced axes."""
    sources = call.sources("x" if "x" in call else "self")
    dims = call.get("dim")
    keepdim = bool(call["keepdim"]) if "keepdim" in call else False
    reduced = sources.reduce(_dims(dims, len(sources.shape)), keepdim)
    return (reduced,) * len(call.shapes)


@rule(
    aten._softmax.default,
    aten._log_softmax.default,
    aten._safe_softmax.default,
    aten.sort.default,
    aten.sort.stable,
    aten.argsort.default,
)
def along_one_axis(call: Call) -> tuple[Sources, ...]:
    """Each element reads the whole of its axis."""
    sources = call.sources("self")
    return (sources.everything_along(call["dim"]) if sources.shape else sources,) * len(call.shapes)


@rule(aten.topk.default)
def topk(call: Call) -> tuple[Sources, ...]:
    """Any of the chosen ones may come from anywhere along the axis."""
    picked = call.sources("self").reduce([call["dim"]], keepdim=True).expand(call.shape)
    return picked, picked


@rule(
    aten.cumsum.default,
    aten.cumprod.default,
    aten.cummax.default,
    aten.cummin.default,
    aten.logcumsumexp.default,
)
def cumulative(call: Call) -> tuple[Sources, ...]:
    """The positions up to and including one's own."""
    sources = call.sources("self")
    return (sources.up_to(call["dim"]) if sources.shape else sources,) * len(call.shapes)


@rule(aten.native_layer_norm.default)
def layer_norm(call: Call) -> tuple[Sources | None, ...]:
    """All of the normalised axes."""
    sources = call.sources("input")
    axes = range(len(sources.shape) - len(call["normalized_shape"]), len(sources.shape))
    normalized = sources.everything_along(*axes)
    return Sources.union([normalized, call.sources("weight"), call.sources("bias")]), None, None


@rule(aten._fused_rms_norm.default)
def rms_norm(call: Call) -> tuple[Sources | None, ...]:
    """All of the normalised axes."""
    sources = call.sources("input")
    axes = range(len(sources.shape) - len(call["normalized_shape"]), len(sources.shape))
    return Sources.union([sources.everything_along(*axes), call.sources("weight")]), None


@rule(aten.native_group_norm.default)
def group_norm(call: Call) -> tuple[Sources | None, ...]:
    """All channels of the group at all positions."""
    sources = call.sources("input")
    batch, channels, groups = sources.shape[0], sources.shape[1], call["group"]
    grouped = sources.reshape((batch, groups, channels // groups, *sources.shape[2:]))
    normalized = grouped.everything_along(*range(2, len(grouped.shape))).reshape(sources.shape)
    return _scaled(call, normalized), None, None


@rule(
    aten.native_batch_norm.default,
    aten._native_batch_norm_legit.default,
    aten._native_batch_norm_legit.no_stats,
    aten._native_batch_norm_legit_no_training.default,
    aten.cudnn_batch_norm.default,
)
def batch_norm(call: Call) -> tuple[Sources | None, ...]:
    """Nothing more than itself in eval mode; in training mode the whole batch at all positions."""
    sources = call.sources("input")
    if call.get("training"):
        sources = sources.everything_along(0, *range(2, len(sources.shape)))
    statistics = [call.sources(name) for name in ("running_mean", "running_var") if name in call]
    if any(statistic.terms for statistic in statistics):
        sources = Sources.union([sources, *(_per_channel(s, sources) for s in statistics)])
    return (_scaled(call, sources), *[None] * (len(call.shapes) - 1))


def _scaled(call: Call, sources: Sources) -> Sources:
    """Adds what a weight and a bias for each channel read, should they depend on the input."""
    factors = [call.sources(name) for name in ("weight", "bias")]
    return Sources.union([sources, *(_per_channel(f, sources) for f in factors if f.terms)])


def _per_channel(sources: Sources, like: Sources) -> Sources:
    return sources.reshape((*sources.shape, *[1] * (len(like.shape) - 2)))


@rule(aten._fft_r2c.default, aten._fft_c2c.default, aten._fft_c2r.default)
def fourier(call: Call) -> Sources:
    """All of the transformed axes."""
    dims = call["dim"]
    return call.sources("self").reduce(dims, keepdim=True).expand(call.shape)


def _dims(dims: Any, count: int) -> Sequence[int]:
    if dims is None or dims == []:
        return range(count)
    if not count:
        return ()
    return [dims] if isinstance(dims, int) else list(dims)
