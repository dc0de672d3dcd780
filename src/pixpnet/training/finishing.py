"""The end of a run: the kept model is read back from its file, as anyone else will, and evaluated."""

import copy
from dataclasses import dataclass
from functools import partial

import torch

from pixpnet.config import RunConfig
from pixpnet.data import DataSet, Entry, plain_loader
from pixpnet.model import PixPNet
from pixpnet.model.file import backbone_in
from pixpnet.model.weights import read_state
from pixpnet.training.crops import write_crops
from pixpnet.training.features import ViewOf, plain_feature_loader
from pixpnet.training.fitting import Fitting
from pixpnet.training.judging import Judgement, judge
from pixpnet.training.preparing import freeze


@dataclass(frozen=True)
class Metrics:
    """What came out of a run, in `metrics.json`.

    Attributes:
        chosen_epoch: of the model that was kept (`settings.KEPT_EPOCH`); other epochs may have been more accurate.
        epochs: how many there were.
        validation: the model that was kept, on the validation images.
        validation_before: the same before its prototypes were replaced.
        test: the model that was kept, on the test images; None if they were not opened.
        test_before: the same before its prototypes were replaced: what replacement cost.
        mean_field: mean share of the image that a cell sees.
        largest_field: largest share of the image that a cell sees.
        prototypes: how many.
    """

    chosen_epoch: int
    epochs: int
    validation: Judgement
    validation_before: Judgement
    test: Judgement | None
    test_before: Judgement | None
    mean_field: float
    largest_field: float
    prototypes: int


def finish(fitting: Fitting, config: RunConfig, data: DataSet, device: torch.device) -> Metrics:
    """Takes the kept model from its file, as anyone else will, and judges that."""
    run, material, watcher = fitting.run, fitting.material, fitting.watcher
    # Own code was allowed for the name in the configuration, and for no other.
    model = PixPNet.load(run.path, own_code=backbone_in(run.path) == config.backbone)
    chosen = [line for line in fitting.lines if line.best][-1]
    write_crops(model, data, run.crops, partial(watcher.busy, "pictures of prototypes"))

    before = copy.deepcopy(model)
    before.load_state_dict(read_state(run.learnt), strict=False)

    features = material.features

    def judged(which: PixPNet, entries: tuple[Entry, ...], task: str) -> Judgement:
        telling = partial(watcher.busy, task)
        if features is None:
            batches = plain_loader(data, entries, model.preprocessing, material.loading)
            return judge(which.to(device), model.num_classes, batches, device, telling)
        freeze(which.backbone, config, model.preprocessing.size)
        features.compute([ViewOf(entry) for entry in entries], device, telling)
        kept = plain_feature_loader(features, entries, material.loading.batch_size)
        return judge(which.to(device).behind_stem, model.num_classes, kept, device, telling)

    test = test_before = None
    if config.judge_on_test and len(data.test):
        entries = data.test.open(run.recorder(), f"final evaluation of the model of epoch {chosen.epoch}")
        test = judged(model, entries, "test")
        test_before = judged(before, entries, "test, as it was before replacement")
    return Metrics(
        chosen_epoch=chosen.epoch,
        epochs=len(fitting.lines),
        validation=judged(model, data.val, "validation"),
        validation_before=judged(before, data.val, "validation, as it was before replacement"),
        test=test,
        test_before=test_before,
        mean_field=model.mean_field,
        largest_field=max(field.max_fraction for field in model.fields),
        prototypes=model.num_prototypes,
    )
