"""From a configuration and a data set to a network that is ready to be trained."""

import copy
import os
from dataclasses import fields, replace
from pathlib import Path

import torch

from pixpnet import zoo
from pixpnet.config import RunConfig
from pixpnet.data import DataSet, Loading, Preprocessing
from pixpnet.data.keeping import keeping
from pixpnet.data.reader import WithoutMasks
from pixpnet.data.workers import num_workers_for
from pixpnet.family import member_named
from pixpnet.fields.tested import is_tested
from pixpnet.fields.verify import refuse_unless_verified, verify_fields
from pixpnet.messages import first_line
from pixpnet.model import Backbone
from pixpnet.model.build import build_backbone, build_model
from pixpnet.model.modes import evaluating
from pixpnet.model.weights import read_state
from pixpnet.option_names import option_of
from pixpnet.progress import named
from pixpnet.training.features import Features
from pixpnet.training.fitting import Fitting
from pixpnet.training.location import located_weights
from pixpnet.training.material import Material
from pixpnet.training.mending.feedback import open_feedback
from pixpnet.training.other_runs import open_others
from pixpnet.training.run import Run, RunError
from pixpnet.training.teaching import refuse_other_stem
from pixpnet.training.watching import Watcher

_CACHE_BYTES = 2**31
# A picture that is shown whole has no room to move in; the paper's crop, 384 of 510 pixels, has this much.
_ZOOM = 4 / 3
_LEARNING_PRECISIONS = {"32-true": torch.float32, "bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
_VERIFIED_PIXELS = 8  # the four corners, the centre and three random ones


def prepare(config: RunConfig, data: DataSet, run: Run, watcher: Watcher) -> Fitting:
    """The network, the images and the loop of a run, ready to begin.

    Raises:
        RunError: if there are too few images, or what is wanted cannot fit into memory.
    """
    preprocessing = preprocessing_of(config, data)
    optim = config.optimization
    augmentation = data.augmentation if optim.views is None else replace(data.augmentation, factor=optim.views)
    if preprocessing.frame != data.preprocessing.frame and preprocessing.frame != "crop":
        augmentation = replace(augmentation, max_zoom=_ZOOM)
    if not data.val:
        raise RunError(
            f"{data.name} has too few images for a validation split, and the model is chosen on it: add images, or "
            "raise --validation-fraction"
        )
    _refuse_more_than_memory(config, data, preprocessing.size)
    others = open_others(config, run, data.class_names, preprocessing)
    backbone = _backbone(config, preprocessing.size, run) if others.start is None else others.start.backbone
    freeze(backbone, config, preprocessing.size)
    backbone.windows_at_once = config.optimization.windows_at_once
    model = build_model(
        backbone,
        config.backbone,
        config.settings.architecture,
        data.class_names,
        preprocessing,
        config.seed,
        config.member,
    )
    member = member_named(config.member)
    member.ready(model, config.settings)
    if member.begin is not None:
        member.begin(model, config.settings, others)
    with evaluating(model):
        model(torch.zeros(1, 3, preprocessing.size, preprocessing.size))  # says now if prototypes do not fit
    model.check_grids()
    # One cache for training, validation and replacement, and none of the masks, which nobody reads here.
    num_workers = workers_of(config)
    reader = keeping(WithoutMasks(data.reader), _CACHE_BYTES, num_workers)
    loading = Loading(optim.batch_size, num_workers, cache_bytes=0)
    features = None
    if optim.frozen:
        precision = _LEARNING_PRECISIONS[config.trainer.precision]
        features = Features(
            backbone, preprocessing, augmentation, reader, repr(data.reader), learning_precision=precision
        )
    material = Material(replace(data, reader=reader), preprocessing, augmentation, loading, features)
    if others.teacher is not None and features is not None:
        freeze(others.teacher.backbone, config, preprocessing.size)
        refuse_other_stem(others.teacher.backbone, backbone)
    feedback = open_feedback(config, run, model, material)
    return Fitting(model, member, config.settings, material, run, config.seed, watcher, others.teacher, feedback)


def workers_of(config: RunConfig) -> int:
    """How many processes load images in a run on this machine."""
    options = config.trainer
    device = options.device
    if device == "auto":
        device = "gpu" if has_accelerator() else "cpu"
    count = options.num_devices
    devices = int(count) if count.isdecimal() else torch.cuda.device_count()
    return num_workers_for(config.num_workers, device, max(1, devices), reads_images=not config.optimization.frozen)


def has_accelerator() -> bool:
    """Whether there is anything faster than the processor."""
    return torch.cuda.is_available() or torch.backends.mps.is_available()


def _backbone(config: RunConfig, size: int, run: Run) -> Backbone:
    """What the configuration names, or a copy of what was given, with the weights that it had when the run began."""
    windows = config.windows(size)
    if run.backbone is None:
        # Of this run where it goes on; of the one whose configuration this is where that is another.
        config = located_weights(config, run.path)
        if config.read_from is not None:
            config = located_weights(config, Path(config.read_from).parent)
        return build_backbone(config.backbone, config.at, config.weights, size, config.seed, config.edits, windows)
    network = copy.deepcopy(run.backbone).eval()
    if run.first_weights.exists():
        try:
            network.load_state_dict(read_state(run.first_weights))
        except RuntimeError as error:
            raise RunError(
                f"the network that was given does not fit the one that {run.path} began with: {first_line(error)}"
            ) from error
    return Backbone(network, config.at, (size, size), config.edits, windows)


def preprocessing_of(config: RunConfig, data: DataSet) -> Preprocessing:
    """From files to the network, as a run has it: the data set's own sizes and statistics, or what was asked for."""
    frame = config.settings.frame
    preprocessing = data.preprocessing if frame is None else data.preprocessing.framed(frame)
    return preprocessing if config.size is None else preprocessing.scaled_to(config.size)


def freeze(backbone: Backbone, config: RunConfig, size: int) -> None:
    """Keeps what a configuration wants frozen from learning."""
    frozen = config.optimization.frozen
    if frozen == "all_but_last":
        frozen = zoo.stage_before(config.backbone, config.at)
    backbone.freeze(frozen, (size, size))
    for parameter in backbone.frozen_parameters():
        parameter.requires_grad_(False)


def verify_fields_of(fitting: Fitting, config: RunConfig) -> None:
    """Compares the fields of a backbone that the tests do not know, as it is cut and edited, with the NaN probe."""
    if is_tested(config.backbone) and not config.edits:
        return
    model, watcher = fitting.model, fitting.watcher
    size = model.preprocessing.size
    with evaluating(model):
        verification = verify_fields(
            model.backbone,
            (3, size, size),
            _VERIFIED_PIXELS,
            progress=named(watcher.busy, "comparing the fields with the NaN probe"),
        )
    refuse_unless_verified(verification, " ".join(filter(None, (config.backbone, model.backbone.cut))))
    watcher.fields_verified(config.backbone, verification)


def _refuse_more_than_memory(config: RunConfig, data: DataSet, size: int) -> None:
    """Refuses what cannot fit, so that the system does not end the process, or another one, without a word."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    member = member_named(config.member)
    with torch.device("meta"):
        # One grid with one channel: what decides are prototypes and the head.
        parts = member.parts(config.settings.architecture, (1,), len(data.class_names))
    numbers = sum(parameter.numel() for part in (*parts.comparisons, parts.decision) for parameter in part.parameters())
    views = len(data.train) * (config.optimization.views or data.augmentation.factor)
    batch = min(config.optimization.batch_size, views) * 3 * size * size
    needed = {
        # Their gradients, and the two means that Adam keeps.
        "the prototypes": (4 * numbers, _size_options(config)),
        "a batch of images": (batch, "--batch-size or --size"),
    }
    for tensors, (floats, options) in needed.items():
        if 4 * floats > memory:
            raise RunError(
                f"{tensors} would take {4 * floats / 2**30:.0f} GiB, and this machine has {memory / 2**30:.0f}: choose "
                f"a smaller {options}"
            )


def _size_options(config: RunConfig) -> str:
    """The member's own options that decide how much its prototypes take."""
    names = [field.name for field in fields(config.settings.architecture)]
    return " or ".join(
        option_of(f"architecture.{name}") for name in names if name in ("dim", "depth") or name.startswith("prototypes")
    )
