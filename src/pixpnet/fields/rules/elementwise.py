"""Operations that read the same element of each argument, and those that read none.

Most pointwise operations need no rule: torch tags them, and the table knows the tag. Here are the untagged.
"""

import torch

from pixpnet.fields.rules.registry import RULES, Call, Rule, pointwise, rule
from pixpnet.fields.sources import Sources

aten = torch.ops.aten

UNTAGGED = (
    aten.hardswish.default,
    aten._prelu_kernel.default,
    aten.bernoulli.default,
    aten.bernoulli.p,
    aten.bernoulli.Tensor,
    aten._to_copy.default,
    aten.contiguous.default,
    aten.rsub.Scalar,
    aten.rsub.Tensor,
    aten.floor_divide.default,
    aten.floor_divide.Scalar,
    aten.special_erf.default,
    aten.sub.Scalar,
    aten.pow.Scalar,
)
RULES.update(dict.fromkeys(UNTAGGED, Rule(pointwise.answer, UNTAGGED)))


@rule(
    aten.native_dropout.default,
    aten.log_sigmoid_forward.default,
    aten.frexp.Tensor,
)
def several_results(call: Call) -> tuple[Sources | None, ...]:
    """Pointwise, with by-products such as a dropout's mask."""
    first = Sources.union(call.every_source()).expand(call.shape)
    return tuple(first if shape == call.shape else None for shape in call.shapes)


@rule(
    aten.empty_like.default,
    aten.zeros_like.default,
    aten.ones_like.default,
    aten.full_like.default,
    aten.rand_like.default,
    aten.randn_like.default,
    aten.new_empty.default,
    aten.new_empty_strided.default,
    aten.new_zeros.default,
    aten.new_ones.default,
    aten.new_full.default,
    aten.zero.default,
    aten.fill.Scalar,
    aten.bernoulli_.float,
    aten.normal_.default,
    aten.uniform_.default,
    aten.exponential_.default,
    aten.random_.default,
)
def shape_only(call: Call) -> Sources:
    """A new tensor that takes only its shape from another."""
    return call.nothing(call.shape)


@rule(aten.fill.Tensor)
def fill(call: Call) -> Sources:
    """One number everywhere."""
    return call.sources("value").expand(call.shape)


@rule(aten.copy.default)
def copy(call: Call) -> Sources:
    """``self.copy_(src)``: what was there before is gone."""
    return call.sources("src").expand(call.shape)
