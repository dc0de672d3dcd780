"""The end of a run: the kept model is read back from its file, as anyone else will, and evaluated."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import torch

from pixpnet.config import RunConfig
from pixpnet.data import DataSet, Entry, plain_loader
from pixpnet.model import PixPNet
from pixpnet.model.calibration import Calibration, calibrate, size_correction
from pixpnet.model.file import backbone_in
from pixpnet.model.weights import read_state
from pixpnet.progress import named
from pixpnet.records import ADDED_LATER
from pixpnet.training.answers import AnswerLine, answer_lines
from pixpnet.training.crops import write_crops
from pixpnet.training.evaluation import Evaluation
from pixpnet.training.features import ViewOf, plain_feature_loader
from pixpnet.training.final_evaluation import Evaluated, evaluate_both
from pixpnet.training.fitting import Fitting
from pixpnet.training.folds import FoldScores, cheap_folds, scores_by_folds
from pixpnet.training.kept_scores import SplitScores, write_scores
from pixpnet.training.preparing import freeze
from pixpnet.training.replacement_bound import ReplacementBound, bound_in
from pixpnet.training.run import Run, RunError
from pixpnet.training.workload import FEATURES


@dataclass(frozen=True)
class Metrics:
    """What came out of a run, in `metrics.json`.

    Attributes:
        chosen_epoch: of the model that was kept (`settings.kept_epoch`); other epochs may have been more accurate.
        epochs: how many there were.
        validation: the model that was kept, on the validation images.
        validation_before: the same before its prototypes were replaced; None where they never are.
        test: the model that was kept, on the test images; None if they were not opened.
        test_before: the same before its prototypes were replaced: what replacement cost; None where they never are.
        mean_field: mean share of the image that a cell sees.
        largest_field: largest share of the image that a cell sees.
        prototypes: how many.
        replacement: on how many validation images the last replacement of the model left the answer, and on how many
            provably; None where prototypes are never replaced, and in files of earlier versions.
    """

    chosen_epoch: int
    epochs: int
    validation: Evaluation
    validation_before: Evaluation | None
    test: Evaluation | None
    test_before: Evaluation | None
    mean_field: float
    largest_field: float
    prototypes: int
    replacement: ReplacementBound | None = field(default=None, metadata=ADDED_LATER)


def finish(fitting: Fitting, config: RunConfig, data: DataSet, device: torch.device) -> Metrics:
    """Takes the kept model from its file, as anyone else will, and evaluates that."""
    run, material, watcher = fitting.run, fitting.material, fitting.watcher
    if not any(line.best for line in fitting.lines):
        raise RunError(
            f"training was stopped after {len(fitting.lines)} of {len(fitting.plan)} epochs, before any had ended with "
            "a model that may be kept: let it run longer (a callback stopped it)"
        )
    # Own code was allowed for the name in the configuration, and for no other.
    model = run.model(trust_code=backbone_in(run.path) == config.backbone)
    chosen = [line for line in fitting.lines if line.best][-1]
    if model.origins is not None:
        write_crops(model, data, run.crops, watcher.busy)

    before = before_replacement(run, model)

    def evaluate_on(entries: tuple[Entry, ...], task: str) -> Evaluated:
        telling, features = named(watcher.busy, task), material.features
        if features is None:
            batches = plain_loader(data, entries, model.preprocessing, material.loading)
            return evaluate_both(model.to(device), before.to(device), batches, device, telling)
        freeze(model.backbone, config, model.preprocessing.size)
        fitting.member.ready(model, config.settings)
        about_features = named(watcher.busy, f"{FEATURES}, {task}")
        features.compute([ViewOf(entry) for entry in entries], device, about_features)
        loader = plain_feature_loader(features, entries, material.loading.batch_size)
        return evaluate_both(model.to(device), before.to(device), loader, device, telling, model.behind_stem)

    opening = (
        f"final evaluation of the model of epoch {chosen.epoch}" if config.evaluate_on_test and len(data.test) else ""
    )
    by_folds = None
    if cheap_folds(fitting, config, data):
        by_folds = partial(scores_by_folds, fitting, config, data, device, watcher.busy)
    metrics = evaluated(run, model, data, evaluate_on, opening, chosen.epoch, len(fitting.lines), by_folds)
    return replace(metrics, replacement=bound_in(fitting.lines[: chosen.epoch], len(data.val)))


def before_replacement(run: Run, model: PixPNet) -> PixPNet:
    """A run's model as it was before its prototypes were replaced (and its tree was pruned)."""
    before = copy.deepcopy(model)
    architecture = run.learnt_architecture()
    if model.architecture != architecture:
        before.rebuild(architecture)
    before.load_state_dict(read_state(run.learnt), strict=False)
    return before


def evaluated(
    run: Run,
    model: PixPNet,
    data: DataSet,
    evaluate_on: Callable[[tuple[Entry, ...], str], Evaluated],
    opening: str,
    chosen_epoch: int,
    epochs: int,
    by_folds: Callable[[], FoldScores] | None = None,
) -> Metrics:
    """Evaluates a run's model, calibrates it before the test split is opened, and keeps what it answered.

    Args:
        run: whose answers are kept, and which records that the test split is opened.
        model: of the run.
        data: whose validation images are evaluated, and test images where they are opened.
        evaluate_on: from images, and what is being done, to how the model did on them.
        opening: why the test split is opened; empty where it stays closed.
        chosen_epoch: of the model.
        epochs: how many there were.
        by_folds: scores of training images by models that did not learn from them, where validation images are few and
            that is cheap.
    """
    validation = evaluate_on(data.val, "final evaluation, validation")
    splits = {"val": validation.scores}
    folds = None if by_folds is None else by_folds()
    if folds is not None:
        splits["folds"] = folds.scores
    model.calibration = calibration_of(validation.scores, folds)
    run.keep_calibrated(model)  # only now is the model fixed
    answers: list[AnswerLine] = []
    test = None
    if opening:
        entries = data.test.open(run.recorder(), opening)
        test = evaluate_on(entries, "final evaluation, test")
        splits["test"] = test.scores
        answers += answer_lines("test", entries, test.scores.logits, model.class_names)
    replaced = model.origins is not None
    run.write_answers([*answers, *answer_lines("val", data.val, validation.scores.logits, model.class_names)])
    write_scores(run, splits)
    return Metrics(
        chosen_epoch=chosen_epoch,
        epochs=epochs,
        validation=validation.after,
        validation_before=validation.before if replaced else None,
        test=None if test is None else test.after,
        test_before=test.before if replaced and test is not None else None,
        mean_field=model.mean_field,
        largest_field=max(field.max_fraction for field in model.fields),
        prototypes=model.num_prototypes,
    )


def calibration_of(validation: SplitScores, folds: FoldScores | None) -> Calibration | None:
    """How certain a model may say to be, from the validation images, or from folds of the training images.

    Models of folds learnt from fewer images: the ratio of temperatures on the validation images corrects for that.
    """
    if folds is None:
        return calibrate(validation.logits, validation.largest_scores, validation.labels, "validation")
    correction = size_correction(validation.logits, folds.validation, validation.labels)
    scores = folds.scores
    return calibrate(scores.logits, scores.largest_scores, scores.labels, "folds", correction)
