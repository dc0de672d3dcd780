"""How relevance passes an operation on its way from the result back to the image: one rule for each kind.

The relevance of a tensor has the tensor's shape behind an axis of prototypes. A rule gets the relevance of an
operation's results and gives that of its inputs; where a tensor is read several times, what comes back is added.

| operation | rule |
|---|---|
| convolution | z+: shares by positive contributions, or by negative ones where there are no others |
| convolution that reads pixels | zB: shares by contributions beyond the least possible one |
| sum or difference of tensors | z+, as a convolution with those weights |
| average, mean, interpolation | by what has the sign of the result |
| maximum over a window | all to the largest |
| batch norm | all to its input; a convolution before it is taken with the sign of its scale, as if the two were one |
| any function of one element | all to its input |
| product of a map and a gate | all to the map: the gate (one value for many) decides how much, not what |
| concatenation, slicing, reordering, padding | what was moved is moved back |

All of them give non-negative shares of what they get, so relevance is never negative and never grows.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pixpnet.mapping.relevance.errors import UnsupportedRelevance
from pixpnet.mapping.relevance.layers import NOTHING, Convolution, by_distance_from_the_bounds, by_positive_parts
from pixpnet.mapping.relevance.pixels import PixelBox
from pixpnet.mapping.relevance.tape import Step, Tape, Traced

aten = torch.ops.aten

# The relevance of each result; None where there is none. A rule gives the same for the inputs.
Relevances = list[Tensor | None]


def propagate(tape: Tape, relevance: Tensor, box: PixelBox) -> Tensor:
    """The relevance of the image, from that of the tape's result.

    Args:
        tape: of the network.
        relevance: of the result, behind an axis of prototypes.
        box: the values that pixels can have.

    Raises:
        UnsupportedRelevance: if relevance reaches an operation that has no rule.
    """
    found: dict[Traced, Tensor] = {tape.result: relevance}
    for step in reversed(tape.steps):
        relevances: Relevances = [found.pop(output, None) for output in step.outputs]
        if all(each is None for each in relevances):
            continue
        for traced, more in zip(step.inputs, _rule_for(step)(_Passage(tape, step, box), relevances), strict=True):
            if more is not None:
                found[traced] = found[traced] + more if traced in found else more
    return found.get(tape.image, relevance.new_zeros(len(relevance), *tape.image.shape))


class _Passage:
    """A step, and what its rule may have to know of its surroundings."""

    def __init__(self, tape: Tape, step: Step, box: PixelBox) -> None:
        self.tape, self.step, self.box = tape, step, box

    def __getitem__(self, name: str) -> Any:
        return self.step[name]

    def follower(self) -> Step | None:
        """The only operation that reads the (first) result; None if there are others."""
        readers = self.tape.readers(self.step.outputs[0])
        return readers[0] if len(readers) == 1 else None


Rule = Callable[[_Passage, Relevances], Relevances]
RULES: dict[Any, Rule] = {}


def _rule(*operations: Any) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(operations, rule))
        return rule

    return register


def _rule_for(step: Step) -> Rule:
    rule = RULES.get(step.operation.overloadpacket)
    if rule is not None:
        return rule
    if torch.Tag.pointwise in step.operation.tags and len(step.inputs) == 1:
        return _to_the_only_input
    raise UnsupportedRelevance(
        f"no relevance rule for {step.operation} on {len(step.inputs)} tensors that depend on the image: cut the "
        "backbone before it, or choose another mapping (the receptive field needs no such rule)"
    )


_BATCH_NORMS = (
    *(aten.native_batch_norm, aten._native_batch_norm_legit, aten._native_batch_norm_legit_no_training),
    *(aten.cudnn_batch_norm, aten.miopen_batch_norm),
)


@_rule(aten.convolution)
def _convolution(passage: _Passage, relevances: Relevances) -> Relevances:
    if passage["transposed"]:
        raise UnsupportedRelevance("no relevance rule for a transposed convolution: cut the backbone before it")
    if len(passage.step.inputs) > 1 or not isinstance(passage["input"], Traced):
        raise UnsupportedRelevance(
            "no relevance rule for a convolution whose weights depend on the image: cut the backbone before it"
        )
    (traced,), (relevance,) = passage.step.inputs, relevances
    assert relevance is not None
    weight: Tensor = passage["weight"]
    follower = passage.follower()
    if follower is not None and follower.operation.overloadpacket in _BATCH_NORMS and follower["weight"] is not None:
        # A positive factor on an output changes no input's share of it; a negative one turns all signs.
        weight = weight * follower["weight"].sign().reshape(-1, *(1,) * (weight.ndim - 1))
    names = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    layer = Convolution(weight, tuple(passage[name] for name in names))
    bounds = passage.box.bounds(traced)
    if bounds is None:
        return [by_positive_parts(layer, traced.value, relevance)]
    return [by_distance_from_the_bounds(layer, traced.value, bounds.low, bounds.high, relevance)]


@_rule(*_BATCH_NORMS, aten.hardswish, aten.hardsigmoid, aten.hardtanh, aten.silu, aten.gelu, aten.leaky_relu, aten.elu)
def _elementwise(passage: _Passage, relevances: Relevances) -> Relevances:
    return _to_the_only_input(passage, relevances)


def _to_the_only_input(passage: _Passage, relevances: Relevances) -> Relevances:
    (traced,), (relevance, *_) = passage.step.inputs, relevances
    assert relevance is not None
    return [_gathered(relevance, traced.shape)]


def _gathered(relevance: Tensor, shape: torch.Size) -> Tensor:
    """What came to the copies of an element that was broadcast, added."""
    extra = relevance.ndim - 1 - len(shape)
    if extra:
        relevance = relevance.sum(dim=tuple(range(1, 1 + extra)))
    return relevance.sum_to_size(len(relevance), *shape)


@_rule(aten.add, aten.sub)
def _sum(passage: _Passage, relevances: Relevances) -> Relevances:
    if len(passage.step.inputs) == 1:
        return _to_the_only_input(passage, relevances)
    (relevance,) = relevances
    assert relevance is not None
    factor = passage.step.arguments.get("alpha", 1)
    if passage.step.operation.overloadpacket is aten.sub:
        factor = -factor
    one, other = passage["self"].value, passage["other"].value * factor
    # Where neither is positive both are negative, and their parts of the sum are positive again.
    negative = (one <= 0) & (other <= 0)
    one, other = (torch.where(negative, -part, part.clamp_min(0)) for part in (one, other))
    share = relevance / (one + other).clamp_min(NOTHING)
    shapes = [traced.shape for traced in passage.step.inputs]
    return [_gathered(share * part, shape) for part, shape in zip((one, other), shapes, strict=True)]


@_rule(aten.mul)
def _product(passage: _Passage, relevances: Relevances) -> Relevances:
    if len(passage.step.inputs) == 1:
        return _to_the_only_input(passage, relevances)
    (relevance,) = relevances
    shape = passage.step.outputs[0].shape
    full = [traced.shape == shape for traced in passage.step.inputs]
    if sum(full) != 1:
        raise UnsupportedRelevance(
            "no relevance rule for a product of two maps, neither of which is a gate with one value for all cells or "
            "all channels: cut the backbone before it"
        )
    return [relevance if is_map else None for is_map in full]


@_rule(
    *(aten.avg_pool2d, aten._adaptive_avg_pool2d, aten.mean),
    *(aten.upsample_bilinear2d, aten.upsample_nearest2d),
)
def _average(passage: _Passage, relevances: Relevances) -> Relevances:
    (traced,), (relevance,) = passage.step.inputs, relevances
    assert relevance is not None
    positive, negative = traced.value.clamp_min(0), -traced.value.clamp_max(0)
    above = passage.step.again({traced: positive})
    if not negative.any():
        return [positive * _moved_back(passage, [relevance / above.clamp_min(NOTHING)])]
    below = passage.step.again({traced: negative})
    # What a negative result did behind this, it did because it is negative.
    up = torch.where(above >= below, relevance / above.clamp_min(NOTHING), 0)
    down = torch.where(above >= below, 0, relevance / below.clamp_min(NOTHING))
    return [positive * _moved_back(passage, [up]) + negative * _moved_back(passage, [down])]


@_rule(aten.max_pool2d_with_indices)
def _largest(passage: _Passage, relevances: Relevances) -> Relevances:
    (traced,), relevance, step = passage.step.inputs, relevances[0], passage.step
    assert relevance is not None
    protos = len(relevance)
    defaults = {"stride": [], "padding": 0, "dilation": 1, "ceil_mode": False}
    how = [step.arguments.get(name, default) for name, default in defaults.items()]
    _, indices = step.outputs
    moved = aten.max_pool2d_with_indices_backward(
        relevance.flatten(0, 1),
        traced.value.repeat(protos, 1, 1, 1),
        step["kernel_size"],
        *how,
        indices.value.repeat(protos, 1, 1, 1),
    )
    return [moved.unflatten(0, (protos, -1))]


@_rule(aten.cat)
def _concatenation(passage: _Passage, relevances: Relevances) -> Relevances:
    (relevance,) = relevances
    assert relevance is not None
    step = passage.step
    parts = [part.value if isinstance(part, Traced) else part for part in step["tensors"]]
    dim = step.arguments.get("dim", 0)
    pieces = relevance.split([part.shape[dim] for part in parts], dim=dim + 1 if dim >= 0 else dim)
    return [piece for piece, part in zip(pieces, step["tensors"], strict=True) if isinstance(part, Traced)]


@_rule(
    *(aten.view, aten._unsafe_view, aten.reshape, aten.permute, aten.transpose, aten.t, aten.squeeze, aten.unsqueeze),
    *(
        aten.slice,
        aten.select,
        aten.index_select,
        aten.split,
        aten.split_with_sizes,
        aten.chunk,
        aten.unbind,
        aten.expand,
    ),
    *(aten.clone, aten.alias, aten.detach, aten._to_copy, aten.constant_pad_nd, aten.roll, aten.flip),
    *(aten.pixel_shuffle, aten.pixel_unshuffle),
)
def _moved(passage: _Passage, relevances: Relevances) -> Relevances:
    return [_moved_back(passage, relevances)]


def _moved_back(passage: _Passage, relevances: Relevances) -> Tensor:
    """What the transpose of a linear operation on one tensor makes of this, prototype by prototype."""
    (traced,) = passage.step.inputs
    present = next(each for each in relevances if each is not None)
    protos = len(present)
    filled = tuple(
        present.new_zeros(protos, *output.shape) if each is None else each
        for each, output in zip(relevances, passage.step.outputs, strict=True)
    )

    def run(values: Tensor) -> tuple[Tensor, ...]:
        result = passage.step.again({traced: values})
        return (result,) if isinstance(result, Tensor) else tuple(result)

    back = torch.func.vjp(run, torch.zeros_like(traced.value))[1]
    (result,) = torch.vmap(back)(filled)
    return result  # type: ignore[no-any-return]
