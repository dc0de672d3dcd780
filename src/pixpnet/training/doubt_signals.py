"""Signs of doubt that a forward pass gives nearly for nothing: the largest score, and how many scores decide."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pixpnet.model import PixPNet
from pixpnet.model.grids import Output
from pixpnet.model.ranked import least_scores
from pixpnet.parts import NoBounds
from pixpnet.parts.ranking import RankedScores
from pixpnet.training.kept_scores import UNKNOWN

# Of a list that decides, a search is made for each image: some tens of milliseconds where a head has many weights.
_MOST_SEARCHES = 2000


class DoubtSignals:
    """Collects the signs of images batch by batch; a list that decides is sought for the first 2000 images."""

    def __init__(self, model: PixPNet) -> None:
        self._model = model
        self._least = least_scores(model)
        self._largest: list[Tensor] = []
        self._lengths: list[int] = []
        self.refusal = ""

    def add(self, output: Output) -> None:
        """Takes note of a batch."""
        scores = output.matches.scores.detach()
        self._largest.append(scores.amax(dim=1).float().cpu())
        for row, label in zip(scores, output.logits.argmax(dim=1).tolist(), strict=True):
            self._lengths.append(UNKNOWN if len(self._lengths) >= _MOST_SEARCHES else self._length(row, label))

    def _length(self, scores: Float[Tensor, " protos"], label: int) -> int:
        if self.refusal:
            return UNKNOWN
        try:
            length = self._model.head.deciding_length(label, RankedScores.of(scores, self._least))
        except NoBounds as reason:
            self.refusal = str(reason)
            length = None
        return UNKNOWN if length is None else length

    def compute(self) -> tuple[Float[Tensor, " images"], Int64[Tensor, " images"]]:
        """The largest score of each image, and how many of its scores decide (`UNKNOWN` where that is not known)."""
        return torch.cat(self._largest or [torch.zeros(0)]), torch.tensor(self._lengths, dtype=torch.int64)
