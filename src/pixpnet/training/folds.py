"""Scores of training images by models that did not learn from them: cross-validation inside train, from kept features.

A small validation split says little about certainty. Where the whole backbone is frozen its features are kept, and a
model is trained in seconds: so one is trained for each fold of the training images, with the same settings and seed,
chosen by the same validation images, and asked about the fold that it has not seen. No test image takes part.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from jaxtyping import Float
from torch import Tensor

from pixpnet.config import RunConfig
from pixpnet.data import DataSet, Entry, folds
from pixpnet.model.file import backbone_in
from pixpnet.model.modes import evaluating
from pixpnet.progress import Progress
from pixpnet.training.doubt_signals import DoubtSignals
from pixpnet.training.features import plain_feature_loader
from pixpnet.training.fitting import Fitting
from pixpnet.training.kept_scores import SplitScores
from pixpnet.training.preparing import freeze, prepare
from pixpnet.training.run import Run
from pixpnet.training.trainer import fit, make_trainer
from pixpnet.training.watching import Nobody
from pixpnet.training.workload import CALIBRATION

FEWEST = 100
"""Images; fewer in the validation split say too little about certainty, and fewer to train on say no more."""
FOLDS = 5


@dataclass(frozen=True)
class FoldScores:
    """What models of folds made of images that they did not learn from.

    Attributes:
        scores: of every training image, by the model of its fold.
        validation: logits of the validation images, by the model of each fold.
    """

    scores: SplitScores
    validation: tuple[Float[Tensor, "images classes"], ...]


def cheap_folds(fitting: Fitting, config: RunConfig, data: DataSet, world_size: int | None = None) -> bool:
    """Whether scores by folds are worth their time: few images for validation, more for training, features kept.

    Every class must be left in every fold's training images, one process must do it all, and the run builds on no other
    run, which may have learnt from these very images, and on no feedback, whose patches a fold may lack. The
    configuration may refuse it (`calibrate_by_folds`).
    """
    if config.start or config.teacher or config.feedback or not config.calibrate_by_folds:
        return False
    frozen = not any(parameter.requires_grad for parameter in fitting.model.backbone.parameters())
    enough = len(data.val) < FEWEST <= len(data.train)
    if not (enough and frozen and fitting.material.features is not None):
        return False
    # Outside of a training there is no trainer to ask.
    if (fitting.trainer.world_size if world_size is None else world_size) > 1:
        return False
    classes = {entry.label for entry in data.train}
    return all({entry.label for entry in part.remaining} == classes for part in folds(data.train, FOLDS, fitting.seed))


def scores_by_folds(
    fitting: Fitting, config: RunConfig, data: DataSet, device: torch.device, busy: Progress
) -> FoldScores:
    """What models of the same settings make of training images that they did not learn from, and of validation images.

    Args:
        fitting: of the run, for its features and what it was given.
        config: of the run.
        data: of the run.
        device: where to compute.
        busy: told what is being done, how much of it, of how much.
    """
    results: list[SplitScores] = []
    validation: list[Tensor] = []
    for number, part in enumerate(folds(data.train, FOLDS, config.seed), start=1):
        told = _Steps(f"{CALIBRATION}, fold {number} of {FOLDS}", busy)
        with TemporaryDirectory(prefix="pixpnet-fold-") as temporary:
            both = _scores(fitting, config, replace(data, train=part.remaining), part.taken, temporary, told, device)
            results.append(both.scores)
            validation += both.validation
    together = SplitScores(
        *(torch.cat([getattr(scores, name) for scores in results]) for name in SplitScores.__annotations__)
    )
    return FoldScores(together, tuple(validation))


def _scores(
    fitting: Fitting,
    config: RunConfig,
    data: DataSet,
    entries: tuple[Entry, ...],
    folder: str,
    told: "_Steps",
    device: torch.device,
) -> FoldScores:
    """Trains on a data set and asks about other images, and about those that the model was chosen by."""
    run = Run(Path(folder) / "run", fitting.run.backbone, fitting.run.dataset)
    inner = prepare(config, data, run, told)
    trainer = make_trainer(config.trainer, run.path, inner, (), ())
    Run.create(run.path, config, data.listed, run.backbone)
    fit(trainer, inner)
    model = run.model(trust_code=backbone_in(run.path) == config.backbone).to(device)
    features = inner.material.features
    assert features is not None  # or it would not be cheap
    freeze(model.backbone, config, model.preprocessing.size)
    fitting.member.ready(model, config.settings)
    signals, logits, labels = DoubtSignals(model), list[Tensor](), list[Tensor]()
    with evaluating(model), torch.no_grad():
        for batch in plain_feature_loader(features, entries, inner.material.loading.batch_size):
            output = model.behind_stem(batch.to(device).images)
            signals.add(output)
            logits.append(output.logits.float().cpu())
            labels.append(batch.labels)
        chosen_by = [
            model.behind_stem(batch.to(device).images).logits.float().cpu()
            for batch in plain_feature_loader(features, data.val, inner.material.loading.batch_size)
        ]
    scores = SplitScores(torch.cat(logits), torch.cat(labels), *signals.compute())
    return FoldScores(scores, (torch.cat(chosen_by),) if chosen_by else ())


class _Steps(Nobody):
    """Passes on how many steps of a fold's training are done."""

    def __init__(self, task: str, busy: Progress) -> None:
        self._task, self._busy = task, busy
        self._done, self._total = 0, 0

    def begins(self, epochs: int, done: int, steps: int) -> None:
        """See `Watcher`."""
        self._total = epochs * steps

    def stepped(self, epoch: int, loss: float, accuracy: float) -> None:
        """See `Watcher`."""
        self._done += 1
        self._busy(self._task, self._done, self._total)
