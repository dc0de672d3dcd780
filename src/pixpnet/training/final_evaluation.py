"""The evaluation at the end of a run: the kept model, and the same as it was before its prototypes were replaced.

The two differ in prototypes and head alone, so each image is embedded once for both.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf, isnan
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from pixpnet.model import BehindStem, PixPNet
from pixpnet.model.modes import evaluating
from pixpnet.progress import Progress
from pixpnet.training.confusion import ConfusionTable
from pixpnet.training.doubt_signals import DoubtSignals
from pixpnet.training.evaluation import Evaluation, ReadingCounts, batch_count, evaluation_of
from pixpnet.training.kept_scores import SplitScores


@dataclass(frozen=True)
class Evaluated:
    """How a model did on some images.

    Attributes:
        after: the model itself.
        before: as it was before its prototypes were replaced.
        scores: what the model made of every image, in its order.
    """

    after: Evaluation
    before: Evaluation
    scores: SplitScores


def evaluate_both(
    model: PixPNet,
    before: PixPNet,
    batches: Iterable[Any],
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    entrance: BehindStem | None = None,
) -> Evaluated:
    """Evaluates two models that differ in nothing but prototypes and head, with one pass through the backbone.

    Args:
        model: that is kept.
        before: the same with other prototypes and another head.
        batches: un-augmented images with labels, or what a frozen stem made of them.
        device: where the models are.
        progress: told how many batches are done.
        entrance: `model.behind_stem`, where batches hold what the stem made of images.
    """
    embed = model.embed if entrance is None else entrance.embed
    logits: tuple[list[Tensor], list[Tensor]] = [], []
    labels: list[Tensor] = []
    signals = DoubtSignals(model)
    readings = tuple(ReadingCounts(network.head) for network in (model, before))
    total = batch_count(batches)
    with evaluating(model), evaluating(before):
        for done, batch in enumerate(batches, start=1):
            batch = batch.to(device)
            embeddings = embed(batch.images)
            for held, counted, network in zip(logits, readings, (model, before), strict=True):
                output = network.compare(embeddings)
                counted.update(output.matches.scores, output.logits, batch.labels)
                held.append(output.logits.float().cpu())
                if network is model:
                    signals.add(output)
            labels.append(batch.labels.cpu())
            if progress is not None:
                progress("evaluating", done, total)
    truth = torch.cat(labels)
    after, earlier = (torch.cat(held) for held in logits)
    kept_counts, replaced = readings
    scores = SplitScores(after, truth, *signals.compute())
    return Evaluated(_evaluation(after, truth, kept_counts), _evaluation(earlier, truth, replaced), scores)


def _evaluation(logits: Float[Tensor, "images classes"], labels: Tensor, readings: ReadingCounts) -> Evaluation:
    confusion = ConfusionTable.of_answers(labels, logits.argmax(dim=1), logits.shape[1])
    loss = float(F.cross_entropy(logits, labels))
    evaluation = evaluation_of(confusion, inf if isnan(loss) else loss)
    return replace(evaluation, readings=readings.compute(evaluation.images))
