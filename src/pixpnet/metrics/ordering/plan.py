"""What is computed cell by cell and what as a whole, decided once for a model and a size of images."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pixpnet.metrics.ordering.layers import ReplayLayer
from pixpnet.metrics.ordering.rules import NoIncrementalRule, Probe, cells_of, layers_of
from pixpnet.metrics.ordering.versions import Versions
from pixpnet.model import PixPNet
from pixpnet.tracing import Program, RecordingError, Traced, TracedStep, record

# If a pixel reaches a larger share of a layer's cells than this, the whole layer is computed.
_NEARLY_ALL = 0.7
# The rows of a block's versions should stay near the processor; far fewer steps would leave it waiting for Python.
_BLOCK_BYTES, _SMALLEST_BLOCK, _LARGEST_BLOCK = 2**25, 8, 64
_SAMPLED_PIXELS = 64
# It hands on the values it was given, in a memory that may be arranged in another way.
_HANDED_ON = torch.ops.aten.clone.default


@dataclass
class Node:
    """A tensor of the network, or what a convolution's taps get from each cell.

    Attributes:
        inputs: the nodes it is computed from; node 0 is the image.
        shape: channels, rows and columns.
        layer: computes single cells; None for the image, and where `whole` is there.
        whole: computes the whole tensor, because a pixel reaches nearly all of it.
        stored: another node needs it at moments other than its versions.
        reach: how many of its cells a pixel changes, on average.
    """

    inputs: tuple[int, ...]
    shape: tuple[int, int, int]
    layer: ReplayLayer | None = None
    whole: TracedStep | None = None
    stored: bool = False
    reach: float = 1.0

    @property
    def count(self) -> int:
        """How many cells it has."""
        return self.shape[1] * self.shape[2]


@dataclass(frozen=True)
class Plan:
    """The nodes of a network, each after those it reads; the last one is the embedding.

    Attributes:
        nodes: node 0 is the image.
        block: how many steps to compute together.
    """

    nodes: tuple[Node, ...]
    block: int


def plan(model: PixPNet, size: tuple[int, int], grid: int = 0) -> Plan:
    """Prepares a model for images of one size.

    Args:
        model: in eval mode.
        size: height and width of the images.
        grid: the number of the grid whose embeddings are wanted.

    Raises:
        NoIncrementalRule: if the network has an operation that no rule is for, or its operations cannot be recorded.
    """
    image = torch.zeros(1, 3, *size, dtype=model.dtype, device=model.device)
    try:
        program = record(model.embedding(grid), image).program
    except RecordingError as error:
        raise NoIncrementalRule(str(error)) from error
    return _Planner(program, image).plan()


def pixel_versions(pixels: Tensor, count: int, block: int) -> Versions:
    """One pixel changes at each step."""
    keys = pixels * block + torch.arange(len(pixels), device=pixels.device)
    return Versions(keys.sort().values, count, block)


class _Planner:
    """Adds the nodes of one operation after the other, and follows a sample of pixels through them."""

    def __init__(self, program: Program, image: Tensor) -> None:
        self._program = program
        count = image.shape[2] * image.shape[3]
        pixels = torch.randperm(count, generator=torch.Generator().manual_seed(0))[:_SAMPLED_PIXELS].to(image.device)
        self._nodes = [Node((), cells_of(program.image))]
        self._samples = [pixel_versions(pixels, count, len(pixels))]
        self._bytes_each = image.element_size()

    def plan(self) -> Plan:
        numbers: dict[Traced, int] = {self._program.image: 0}
        for step in self._program.steps:
            if any(traced not in numbers for traced in step.inputs):
                raise NoIncrementalRule(f"no rule for {step.operation} of another result than an operation's first")
            inputs = tuple(numbers[traced] for traced in step.inputs)
            numbers[step.outputs[0]] = inputs[0] if step.operation is _HANDED_ON else self._add(step, inputs)
        largest = max(
            (node.count if node.whole is not None else node.reach) * node.shape[0] * self._bytes_each
            for node in self._nodes
        )
        block = int(_BLOCK_BYTES // max(largest, 1))
        return Plan(tuple(self._nodes), min(max(block, _SMALLEST_BLOCK), _LARGEST_BLOCK))

    def _add(self, step: TracedStep, inputs: tuple[int, ...]) -> int:
        shape = cells_of(step.outputs[0])
        layers = layers_of(step, [Probe(self._nodes[n].shape, self._samples[n]) for n in inputs])
        samples = [layers[0].changed(*(self._samples[number] for number in inputs))]
        for layer in layers[1:]:
            samples.append(layer.changed(samples[-1]))
        # The first layer is the one that multiplies.
        nearly_all = len(samples[0]) > _NEARLY_ALL * samples[0].block * samples[0].count
        if nearly_all or any(self._nodes[number].whole is not None for number in inputs):
            self._append(Node(inputs, shape, whole=step), samples[-1])
            return len(self._nodes) - 1
        for layer, changed in zip(layers, samples, strict=True):
            cells = shape[1:] if layer is layers[-1] else self._nodes[inputs[0]].shape[1:]
            self._append(Node(inputs, (layer.channels, *cells), layer), changed)
            inputs = (len(self._nodes) - 1,)
        return len(self._nodes) - 1

    def _append(self, node: Node, changed: Versions) -> None:
        for number in node.inputs:
            source = self._nodes[number]
            source.stored |= source.whole is None and (node.layer is None or node.layer.looks_back)
        node.reach = len(changed) / changed.block
        self._nodes.append(node)
        self._samples.append(changed)
