"""Averaged features at several layers of one network, from one pass through it."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from pixpnet.fields.names import LayerName, parse_layer
from pixpnet.goldilocks.candidates import Candidate
from pixpnet.goldilocks.pooled import pool
from pixpnet.model import Backbone
from pixpnet.zoo import paper_names


class TappedBackbone(nn.Module):
    """A backbone that is cut at the last of several layers, and read at all of them on the way there.

    Attributes:
        backbone: cut at the last candidate's layer.
        candidates: of one network, in the order in which their layers are finished.
    """

    def __init__(self, backbone: Backbone, candidates: Sequence[Candidate]) -> None:
        """Puts a hook on every layer but the last.

        Args:
            backbone: cut at the layer of the last candidate.
            candidates: sorted by `order`, no two of one order.
        """
        super().__init__()
        self.backbone = backbone
        self.candidates = tuple(candidates)
        self._pooled: dict[int, Tensor] = {}
        self._calls: dict[int, int] = {}
        aliases = paper_names(backbone.network)
        for index, candidate in enumerate(self.candidates[:-1]):
            layer = parse_layer(aliases.get(candidate.at, candidate.at))
            backbone.network.get_submodule(layer.path).register_forward_hook(partial(self._read, index, layer))

    def forward(self, images: Float[Tensor, "batch 3 height width"]) -> tuple[Float[Tensor, "batch _channels"], ...]:
        """The mean over cells at each candidate's layer, in their order."""
        self._pooled, self._calls = {}, {}
        last = pool(self.backbone(images))
        pooled, self._pooled = self._pooled, {}
        return (*(pooled[index] for index in range(len(self.candidates) - 1)), last)

    def _read(self, index: int, layer: LayerName, module: nn.Module, inputs: Any, output: Any) -> None:
        """Takes what a layer gave, of the call that is wanted (0 is the last, so later ones overwrite earlier ones).

        The mean is taken at once: the next layer may write into the same memory (ReLU in place).
        """
        self._calls[index] = self._calls.get(index, 0) + 1
        if layer.call not in (0, self._calls[index]):
            return
        if layer.part:
            output = output[layer.part if isinstance(output, Mapping) else int(layer.part)]
        cells: Tensor = output.permute(0, 3, 1, 2) if self.candidates[index].channels_last else output
        self._pooled[index] = pool(cells)
