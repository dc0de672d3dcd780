"""Distance maps at every step of a relevance ordering, without computing what does not change.

Putting back one pixel changes only the cells whose fields hold it. For a block of steps all (cell, step) pairs that may
change are computed together, layer by layer: a pair's inputs are, for each tap, the latest version up to that step, so
one gather and one matrix product do a layer for the whole block. Values are always computed anew from values, never by
adding a difference, so no error builds up over the steps. A convolution is taken apart where that is cheaper: first
what each changed cell gives to each tap (`Product`), then for each cell that reads it a sum of rows (`TapSum`). Where a
pixel reaches nearly every cell, from there on whole tensors are computed, a batch of steps at once.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pixpnet.metrics.ordering.full import distances_to, of_one_grid
from pixpnet.metrics.ordering.layers import Rowwise, Source
from pixpnet.metrics.ordering.plan import Node, Plan, pixel_versions
from pixpnet.metrics.ordering.versions import Store, Versions
from pixpnet.model import PixPNet
from pixpnet.parts import Comparison


def incremental_distance_maps(
    model: PixPNet,
    plan: Plan,
    start: Float[Tensor, "3 height width"],
    image: Float[Tensor, "3 height width"],
    order: Int64[Tensor, " pixels"],
    prototypes: Int64[Tensor, " protos"],
) -> Iterator[Float[Tensor, "steps protos rows cols"]]:
    """The distance maps before the first step, then those after each step, block by block.

    Args:
        model: in eval mode.
        plan: of this model and the grid of these prototypes, for images of this size.
        start: the image before the first step.
        image: where the pixels come from.
        order: the pixels (row by row) that are put back, one at each step, each at most once.
        prototypes: their numbers; all look at one grid.

    Raises:
        ValueError: if prototypes look at several grids.
    """
    grid, chosen = of_one_grid(model, prototypes)
    with torch.no_grad():
        walk = _Walk(grid.comparison, plan, chosen, start)
        yield walk.maps(steps=1)
        pixels = image.flatten(1).T
        for block in order.split(plan.block):
            walk.begin(pixel_versions(block, len(pixels), plan.block), pixels)
            yield walk.maps(len(block))
            walk.advance()


class _Walk:
    """The state of a network while pixels are put back."""

    def __init__(self, comparison: Comparison, plan: Plan, chosen: Tensor, start: Tensor) -> None:
        self._comparison, self._chosen = comparison, chosen
        self._nodes = list(plan.nodes)
        embedding = self._nodes[-1]
        # A prototype of one cell is one more layer; a larger one reads whole embeddings.
        self._by_cell = embedding.whole is None and chosen[0, 0].numel() == 1
        if self._by_cell:
            layer = Rowwise(embedding.count, len(chosen), self._distances_of_rows)
            self._nodes.append(Node((len(self._nodes) - 1,), (len(chosen), *embedding.shape[1:]), layer))
        self._sources = [Source(node.count, node.shape[0]) for node in self._nodes]
        for number, (node, source) in enumerate(zip(self._nodes, self._sources, strict=True)):
            if node.whole is None and (node.stored or number == len(self._nodes) - 1):
                source.store = Store(node.count, node.shape[0], plan.block, start)
        self._start(start.flatten(1).T)

    def _start(self, pixels: Tensor) -> None:
        """Computes every cell for the image before the first step."""
        self._sources[0].fresh = pixels
        for node, source in zip(self._nodes, self._sources, strict=True):
            if node.layer is not None:
                source.fresh = node.layer.rows(None, *(self._sources[number] for number in node.inputs))
            if source.store is not None and source.fresh is not None:
                source.store.cells.copy_(source.fresh)
        for source in self._sources:
            source.fresh = None

    def begin(self, versions: Versions, pixels: Tensor) -> None:
        """Computes what changes in a block."""
        image = self._sources[0]
        image.versions, image.fresh = versions, pixels[versions.cells]
        for node, source in zip(self._nodes, self._sources, strict=True):
            out = None
            if node.layer is not None:
                inputs = [self._sources[number] for number in node.inputs]
                source.versions = node.layer.changed(
                    *(source_node.versions for source_node in inputs if source_node.versions is not None)
                )
                if source.store is not None:
                    out = source.store.room(len(source.versions))
                source.fresh = node.layer.rows(source.versions, *inputs, out=out)
            elif source.store is not None and source.fresh is not None:
                source.store.room(len(versions)).copy_(source.fresh)
            if source.store is not None and source.versions is not None:
                source.store.begin(source.versions)

    def maps(self, steps: int) -> Float[Tensor, "steps protos rows cols"]:
        """The distance maps after each of the first steps of the block."""
        whole: dict[int, Tensor] = {}

        def tensor(number: int) -> Tensor:
            """A node after each step, as a batch."""
            if number not in whole:
                node, store = self._nodes[number], self._sources[number].store
                if node.whole is not None:
                    whole[number] = node.whole(*(tensor(source) for source in node.inputs))
                else:
                    assert store is not None
                    whole[number] = store.at_every_step(steps).unflatten(1, node.shape[1:]).permute(0, 3, 1, 2)
            return whole[number]

        last = tensor(len(self._nodes) - 1)
        return last if self._by_cell else distances_to(self._comparison, last, self._chosen)

    def advance(self) -> None:
        """The end of this block is the beginning of the next one."""
        for source in self._sources:
            if source.store is not None:
                source.store.advance()

    def _distances_of_rows(self, embeddings: Float[Tensor, "cells dim"]) -> Float[Tensor, "cells protos"]:
        """Cells side by side are an embedding of one column."""
        return distances_to(self._comparison, embeddings.T[None, :, :, None], self._chosen)[0, :, :, 0].T
