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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from pixpnet.mapping.relevance.crops import Crop, cropped
from pixpnet.mapping.relevance.errors import UnsupportedRelevance
from pixpnet.mapping.relevance.layers import NOTHING, BeyondTheBounds, Geometry, PositiveParts
from pixpnet.mapping.relevance.pixels import PixelBox
from pixpnet.mapping.relevance.windows import to_the_largest
from pixpnet.tracing import Program, Traced, TracedStep

aten = torch.ops.aten

# The relevance of each result; None where there is none. A rule gives the same for the inputs.
Crops = list[Crop | None]
Relevances = list[Tensor | None]


@dataclass(frozen=True)
class Passage:
    """A step, and what its rule may have to know of its surroundings.

    Attributes:
        step: the operation.
        program: that it is a step of.
        values: what tensors were.
        box: the values that pixels can have.
        prepared: from a step, the first crops that came there and a function that makes it, to what the step needs
            whatever the relevance is; made once.
    """

    step: TracedStep
    program: Program
    values: Mapping[Traced, Tensor]
    box: PixelBox
    prepared: Callable[[TracedStep, Sequence[Crop], Callable[[bool], Any]], Any]

    def __getitem__(self, name: str) -> Any:
        return self.step[name]

    def value(self, traced: Traced) -> Tensor:
        """What the tensor was."""
        return self.values[traced]

    def follower(self) -> TracedStep | None:
        """The only operation that reads the (first) result; None if there are others."""
        readers = self.program.readers(self.step.outputs[0])
        return readers[0] if len(readers) == 1 else None


Rule = Callable[[Passage, Crops], Crops]
JointRule = Callable[[Passage, list[Crops]], list[Crops]]
RULES: dict[Any, JointRule] = {}


def _rule(*operations: Any) -> Callable[[Rule], Rule]:
    """Registers a rule that takes rectangles."""

    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(operations, _one_by_one(rule)))
        return rule

    return register


def _one_by_one(rule: Rule) -> JointRule:
    return lambda passage, all_crops: [rule(passage, crops) for crops in all_crops]


def _whole_rule(*operations: Any) -> Callable[[Callable[[Passage, Relevances], Relevances]], Rule]:
    """Registers a rule that takes the relevance of whole tensors."""

    def register(rule: Callable[[Passage, Relevances], Relevances]) -> Rule:
        def on_crops(passage: Passage, crops: Crops) -> Crops:
            relevances = rule(passage, [None if crop is None else crop.whole() for crop in crops])
            return [None if relevance is None else cropped(relevance) for relevance in relevances]

        return _rule(*operations)(on_crops)

    return register


def rule_for(step: TracedStep) -> JointRule:
    """The rule of an operation.

    Raises:
        UnsupportedRelevance: if there is none.
    """
    rule = RULES.get(step.operation.overloadpacket)
    if rule is not None:
        return rule
    if torch.Tag.pointwise in step.operation.tags and len(step.inputs) == 1:
        return _one_by_one(_to_the_only_input)
    raise UnsupportedRelevance(
        f"no relevance rule for {step.operation} on {len(step.inputs)} tensors that depend on the image: cut the "
        "backbone before it, or choose another mapping (the receptive field needs no such rule)"
    )


_BATCH_NORMS = (
    *(aten.native_batch_norm, aten._native_batch_norm_legit, aten._native_batch_norm_legit_no_training),
    *(aten.cudnn_batch_norm, aten.miopen_batch_norm),
)


def hands_all_on(step: TracedStep) -> bool:
    """Whether its rule hands all relevance to the only input, and reads no value for it."""
    operation = step.operation
    return len(step.inputs) == 1 and (operation.overloadpacket in _BATCH_NORMS or torch.Tag.pointwise in operation.tags)


def _convolution(passage: Passage, all_crops: list[Crops]) -> list[Crops]:
    if passage["transposed"]:
        raise UnsupportedRelevance("no relevance rule for a transposed convolution: cut the backbone before it")
    if len(passage.step.inputs) > 1 or not isinstance(passage["input"], Traced):
        raise UnsupportedRelevance(
            "no relevance rule for a convolution whose weights depend on the image: cut the backbone before it"
        )
    crops = [crop for (crop,) in all_crops if crop is not None]
    layer: PositiveParts | BeyondTheBounds = passage.prepared(
        passage.step, crops, lambda everywhere: _layer(passage, everywhere)
    )
    alike: dict[Any, list[int]] = {}
    for number, crop in enumerate(crops):
        alike.setdefault(crop.values.shape[1:], []).append(number)
    crops_before: dict[int, Crop] = {}
    for numbers in alike.values():
        crops_before |= dict(zip(numbers, layer.back([crops[number] for number in numbers]), strict=True))
    return [[crops_before[number]] for number in range(len(crops))]


RULES[aten.convolution] = _convolution


def _layer(passage: Passage, everywhere: bool) -> PositiveParts | BeyondTheBounds:
    weight: Tensor = passage["weight"]
    follower = passage.follower()
    if follower is not None and follower.operation.overloadpacket in _BATCH_NORMS and follower["weight"] is not None:
        # A positive factor on an output changes no input's share of it; a negative one turns all signs.
        weight = weight * follower["weight"].sign().reshape(-1, *(1,) * (weight.ndim - 1))
    geometry = Geometry(*(passage[name] for name in ("stride", "padding", "dilation", "groups")))
    (traced,) = passage.step.inputs
    bounds = passage.box.bounds(traced)
    if bounds is None:
        return PositiveParts(passage.value(traced), weight, geometry, everywhere)
    return BeyondTheBounds(passage.value(traced), bounds.low, bounds.high, weight, geometry, everywhere)


@_rule(
    *(*_BATCH_NORMS, aten.hardswish, aten.hardsigmoid, aten.hardtanh, aten.silu, aten.gelu, aten.leaky_relu, aten.elu),
    *(aten.clone, aten._to_copy),
)
def _to_the_only_input(passage: Passage, crops: Crops) -> Crops:
    (traced,), (crop, *_) = passage.step.inputs, crops
    assert crop is not None
    if traced.shape == crop.shape:
        return [crop]
    return [cropped(_gathered(crop.whole(), traced.shape))]


def _gathered(relevance: Tensor, shape: torch.Size) -> Tensor:
    """What came to the copies of an element that was broadcast, added."""
    extra = relevance.ndim - 1 - len(shape)
    if extra:
        relevance = relevance.sum(dim=tuple(range(1, 1 + extra)))
    return relevance.sum_to_size(len(relevance), *shape)


@_rule(aten.add, aten.sub)
def _sum(passage: Passage, crops: Crops) -> Crops:
    if len(passage.step.inputs) == 1:
        return _to_the_only_input(passage, crops)
    (crop,) = crops
    assert crop is not None
    shapes = [traced.shape for traced in passage.step.inputs]
    if any(shape != crop.shape for shape in shapes):
        crop = Crop(crop.whole(), crop.shape)
    factor = passage.step.get("alpha", 1)
    if passage.step.operation.overloadpacket is aten.sub:
        factor = -factor
    one, other = (passage.value(passage[name]) for name in ("self", "other"))
    shares = passage.prepared(
        passage.step, [crop], lambda everywhere: _shares_of_sum(one, other, factor) if everywhere else None
    )
    if shares is None:
        parts = _shares_of_sum(crop.of(one), crop.of(other), factor)
    else:
        parts = [crop.of(share) for share in shares]
    if not crop.is_whole or all(shape == crop.shape for shape in shapes):
        return [replace(crop, values=crop.values * part) for part in parts]
    return [cropped(_gathered(crop.values * part, shape)) for part, shape in zip(parts, shapes, strict=True)]


def _shares_of_sum(one: Tensor, other: Tensor, factor: float) -> list[Tensor]:
    """Which part of a sum each summand has; none of them is negative."""
    if factor != 1:
        other = other * factor
    # Where neither is positive both are negative, and their parts of the sum are positive again.
    negative = torch.maximum(one, other) <= 0
    parts = [torch.where(negative, -part, part.clamp_min(0)) for part in (one, other)]
    total = (parts[0] + parts[1]).clamp_min_(NOTHING)
    return [part / total for part in parts]


@_rule(aten.mul)
def _product(passage: Passage, crops: Crops) -> Crops:
    if len(passage.step.inputs) == 1:
        return _to_the_only_input(passage, crops)
    (crop,) = crops
    shape = passage.step.outputs[0].shape
    full = [traced.shape == shape for traced in passage.step.inputs]
    if sum(full) != 1:
        raise UnsupportedRelevance(
            "no relevance rule for a product of two maps, neither of which is a gate with one value for all cells or "
            "all channels: cut the backbone before it"
        )
    return [crop if is_map else None for is_map in full]


@_whole_rule(
    *(aten.avg_pool2d, aten._adaptive_avg_pool2d, aten.mean),
    *(aten.upsample_bilinear2d, aten.upsample_nearest2d),
)
def _average(passage: Passage, relevances: Relevances) -> Relevances:
    (traced,), (relevance,) = passage.step.inputs, relevances
    assert relevance is not None
    positive, negative = passage.value(traced).clamp_min(0), -passage.value(traced).clamp_max(0)
    above = passage.step.again({traced: positive})
    if not negative.any():
        return [positive * _moved_back(passage, [relevance / above.clamp_min(NOTHING)])]
    below = passage.step.again({traced: negative})
    # What a negative result did behind this, it did because it is negative.
    up = torch.where(above >= below, relevance / above.clamp_min(NOTHING), 0)
    down = torch.where(above >= below, 0, relevance / below.clamp_min(NOTHING))
    return [positive * _moved_back(passage, [up]) + negative * _moved_back(passage, [down])]


@_rule(aten.max_pool2d_with_indices)
def _largest(passage: Passage, crops: Crops) -> Crops:
    assert crops[0] is not None
    return [to_the_largest(crops[0], passage.step, passage.value(passage.step.outputs[1]))]


@_rule(aten.cat)
def _concatenation(passage: Passage, crops: Crops) -> Crops:
    (crop,) = crops
    assert crop is not None
    parts, dim = passage["tensors"], passage.step.get("dim", 0) % len(crop.shape)
    if dim == 0 or dim >= len(crop.shape) - 2:
        crop = Crop(crop.whole(), crop.shape)
    pieces = crop.values.split([part.shape[dim] for part in parts], dim=dim + 1)
    return [
        Crop(piece, part.shape, crop.top, crop.left, crop.first)
        for piece, part in zip(pieces, parts, strict=True)
        if isinstance(part, Traced)
    ]


@_whole_rule(
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
    *(aten.constant_pad_nd, aten.roll, aten.flip),
    *(aten.pixel_shuffle, aten.pixel_unshuffle),
)
def _moved(passage: Passage, relevances: Relevances) -> Relevances:
    return [_moved_back(passage, relevances)]


def _moved_back(passage: Passage, relevances: Relevances) -> Tensor:
    """What the transpose of a linear operation on one tensor makes of this, prototype by prototype."""
    (traced,) = passage.step.inputs
    present = next(relevance for relevance in relevances if relevance is not None)
    protos = len(present)
    filled = tuple(
        present.new_zeros(protos, *output.shape) if relevance is None else relevance
        for relevance, output in zip(relevances, passage.step.outputs, strict=True)
    )

    def run(values: Tensor) -> tuple[Tensor, ...]:
        result = passage.step.again({traced: values})
        return (result,) if isinstance(result, Tensor) else tuple(result)

    back = torch.func.vjp(run, torch.zeros_like(passage.value(traced)))[1]
    (result,) = torch.vmap(back)(filled)
    return result  # type: ignore[no-any-return]
