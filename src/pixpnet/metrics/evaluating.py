"""Accuracy and certainty of a model on images, in one pass."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pixpnet.metrics.certainty import CertaintyTable, certainty_table, fitted_to
from pixpnet.model import PixPNet
from pixpnet.model.grids import Output
from pixpnet.progress import Progress
from pixpnet.training.evaluation import Evaluation, evaluate
from pixpnet.training.kept_scores import UNKNOWN, SplitScores


@dataclass(frozen=True)
class EvaluatedCertainty:
    """How a model did on images, and how honest it was about it; None where it is not calibrated."""

    evaluation: Evaluation
    certainty: CertaintyTable | None


def evaluate_with_certainty(
    model: PixPNet,
    labels: Sequence[int],
    batches: Iterable[Any],
    split: str,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    own_data: bool = False,
) -> EvaluatedCertainty:
    """Counts right answers, and measures probabilities, prediction sets and false alarms on the way.

    Args:
        model: in eval mode, where it is to compute.
        labels: of all images, in their order.
        batches: un-augmented images with labels.
        split: what the images are, for the record.
        device: where the model is.
        progress: told how many batches are done.
        own_data: whether the split is one of the data set that the model was trained on.
    """
    listening = _Listening(model)
    evaluation = evaluate(listening, model.num_classes, batches, device, progress, decision=model.head)
    if model.calibration is None or not listening.logits:
        return EvaluatedCertainty(evaluation, None)
    logits, largest, truth = torch.cat(listening.logits), torch.cat(listening.largest_scores), torch.tensor(labels)
    # Nobody asks for lists that decide here.
    scores = SplitScores(logits, truth, largest, torch.full_like(truth, UNKNOWN))
    fitted = own_data and fitted_to(model.calibration, split)
    return EvaluatedCertainty(evaluation, certainty_table(scores, model.calibration, split, own_images=fitted))


class _Listening(nn.Module):
    """A model that remembers its logits, and the largest score of each image."""

    def __init__(self, model: PixPNet) -> None:
        super().__init__()
        self.model = model
        self.logits: list[Tensor] = []
        self.largest_scores: list[Tensor] = []

    def forward(self, images: Tensor) -> Output:
        """See `PixPNet`."""
        output: Output = self.model(images)
        self.logits.append(output.logits.detach().float().cpu())
        self.largest_scores.append(output.matches.scores.detach().amax(dim=1).float().cpu())
        return output
