"""The way back of relevance through a whole network: step by step, several crops side by side.

What passes an operation is its rule's business (`rules`); here is in which order operations are reached, what is added
where a tensor was read several times, and how many crops go together.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pixpnet.mapping.relevance.crops import Crop, cropped
from pixpnet.mapping.relevance.pixels import PixelBox
from pixpnet.mapping.relevance.rules import Crops, Passage, hands_all_on, rule_for
from pixpnet.tracing import Recording, Traced, TracedStep

# Crops go back side by side as long as they have at most so many elements together. Far from the image, where
# rectangles are small and weights are many, these are all of them; near it, where that gains nothing, one.
ELEMENTS_AT_ONCE = 2**22
# What a layer needs whatever the relevance is, it computes of all of a map, unless the crops cover less than this part.
_MUCH = 0.75


class Propagation:
    """The way back from a result to the image, and what its steps need whatever the relevance is."""

    def __init__(self, recording: Recording, box: PixelBox) -> None:
        """Prepares nothing yet: a layer is prepared when relevance first reaches it.

        Args:
            recording: of the network.
            box: the values that pixels can have.
        """
        self.program, self.box = recording.program, box
        self.values = _read_by_rules(recording)
        self._prepared: dict[TracedStep, Any] = {}
        self._crops = 1

    def __call__(self, relevance: Tensor) -> Tensor:
        """The relevance of the image, from that of the result; both behind an axis of prototypes.

        Raises:
            UnsupportedRelevance: if relevance reaches an operation that has no rule.
        """
        (of_image,) = self.each([relevance])
        return of_image

    def each(self, relevances: Sequence[Tensor]) -> Iterator[Tensor]:
        """The same for several, in their order: each may begin at a cell of its own, and has a crop of its own.

        Raises:
            UnsupportedRelevance: if relevance reaches an operation that has no rule.
        """
        program = self.program
        self._prepared, self._crops = {}, len(relevances)
        protos = tuple(len(relevance) for relevance in relevances)
        begin = {program.result: [cropped(relevance.clone()) for relevance in relevances]}
        under_way = [_UnderWay(begin, protos, len(program.steps))] if protos else []
        while under_way:
            crops = under_way.pop()
            if self._walk(crops):
                for number, count in enumerate(crops.protos):
                    if program.image in crops.arrived:
                        yield crops.arrived[program.image][number].whole()
                    else:
                        yield relevances[0].new_zeros(count, *program.image.shape)
            else:
                under_way += reversed(crops.halves())

    @torch.no_grad()
    def _walk(self, crops: "_UnderWay") -> bool:
        """Goes back to the image, or as far as it can be done for all at once; says whether it came there."""
        steps, arrived = self.program.steps, crops.arrived
        while crops.steps_left:
            step = steps[crops.steps_left - 1]
            reached = [output for output in step.outputs if output in arrived]
            if reached:
                if len(crops.protos) > 1 and _elements_before(step, arrived[reached[0]]) > ELEMENTS_AT_ONCE:
                    return False
                outputs = [arrived.pop(output, None) for output in step.outputs]
                all_crops: list[Crops] = [
                    [None if some is None else some[number] for some in outputs] for number in range(len(crops.protos))
                ]
                passage = Passage(step, self.program, self.values, self.box, self.prepared)
                inputs = rule_for(step)(passage, all_crops)
                for traced, *more in zip(step.inputs, *inputs, strict=True):
                    if more[0] is None:
                        continue
                    if traced in arrived:
                        more = [one.plus(other) for one, other in zip(arrived[traced], more, strict=True)]
                    arrived[traced] = more
            crops.steps_left -= 1
        return True

    def prepared(self, step: TracedStep, crops: Sequence[Crop], make: Callable[[bool], Any]) -> Any:
        """What a step needs whatever the relevance is.

        Args:
            step: which.
            crops: of its result, the first that came there.
            make: gives it; is told whether enough of the result will be asked for to compute all of it at once.
        """
        if step not in self._prepared:
            asked = sum({crop.rectangle: crop.values[0].numel() for crop in crops}.values())
            much = asked * self._crops >= _MUCH * len(crops) * crops[0].shape.numel()
            self._prepared[step] = make(much)
        return self._prepared[step]


@dataclass
class _UnderWay:
    """Crops that have come back to the same step.

    Attributes:
        arrived: of each tensor, the relevance of each.
        protos: how many prototypes each is of.
        steps_left: how many steps are before them.
    """

    arrived: dict[Traced, list[Crop]]
    protos: tuple[int, ...]
    steps_left: int

    def halves(self) -> list["_UnderWay"]:
        """The first and the second half of them."""
        middle = len(self.protos) // 2
        return [
            _UnderWay(
                {traced: crops[part] for traced, crops in self.arrived.items()}, self.protos[part], self.steps_left
            )
            for part in (slice(None, middle), slice(middle, None))
        ]


def _read_by_rules(recording: Recording) -> dict[Traced, Tensor]:
    """What tensors were, less those that only functions of one element and batch norms read, whose rules do not."""
    steps = recording.program.steps
    read = {traced for step in steps if not hands_all_on(step) for traced in step.inputs}
    handed_on = {traced for step in steps if hands_all_on(step) for traced in step.inputs}
    return {traced: value for traced, value in recording.values.items() if traced in read or traced not in handed_on}


def _elements_before(step: TracedStep, crops: Sequence[Crop]) -> float:
    """About how many elements crops of a step's result will have before it."""
    growth = max((traced.shape.numel() for traced in step.inputs), default=0) / max(1, crops[0].shape.numel())
    return max(1.0, growth) * sum(crop.values.numel() for crop in crops)
