"""The data set of a run: opened for a new one by its configuration, and for an old one by the list that it kept."""

import warnings
from dataclasses import replace

from pixpnet.config import RunConfig
from pixpnet.data import DataOptions, DataSet, DataWarning, DrawnBirds, open_data
from pixpnet.data.listed import ImageList
from pixpnet.data.registry import same_place
from pixpnet.data.scan import Progress
from pixpnet.training.run import IMAGES_FILE, Run, RunError


def open_run_data(config: RunConfig, progress: Progress | None = None) -> DataSet:
    """The data set of a new run, split as its configuration says; see `open_data_of` for a run that has begun."""
    return _open(config, progress, None)


def open_data_of(run: Run, progress: Progress | None = None, data: str | None = None) -> DataSet:
    """The data set that a run was trained on, or another one to judge its model by.

    Its images are in the splits that they were in when the run began, whatever came, went or was renamed since. Of
    another data set, pictures are left out that the run learnt from or was chosen by. What is different is a
    `DataWarning`.

    Args:
        run: whose images; its folder keeps the list of them.
        progress: told how many of how many files have been looked at.
        data: another data set; by default the run's own.

    Raises:
        DataError: if the data set cannot be opened.
        RunError: if the run's list is damaged.
    """
    config, listed = run.config, run.read_images()
    if data is not None and not same_place(data, config.data):
        opened = _open(replace(config, data=data), progress, None)
        if listed is not None:
            return _without_learnt(opened, listed, run)
        if config.data != "birds":
            warnings.warn(
                f"{run.path} has no list of its images ({IMAGES_FILE}), as runs of earlier versions: whether pictures "
                f"of {opened.name} are among those that it learnt from is not checked",
                DataWarning,
                stacklevel=2,
            )
        return opened
    opened = _own(run, config, listed, progress)
    _warn_of_changes(opened, run)
    return opened


def open_data_to_resume(run: Run, progress: Progress | None = None) -> DataSet:
    """The data set that a run learns from, exactly as it was when the run began.

    Raises:
        RunError: if an image that it learns from or is chosen by is gone or altered, or there are other classes.
    """
    listed = run.read_images()
    data = _own(run, run.config, listed, progress)
    changes = data.changes
    if listed is not None and (changes.missing or changes.altered or listed.class_names != set(data.class_names)):
        classes = listed.class_names ^ set(data.class_names)
        raise RunError(
            f"{data.name} has changed since {run.path} began ({len(changes.missing)} images missing, "
            f"{len(changes.altered)} with other pixels, other classes: {', '.join(sorted(classes)) or 'none'}): put it "
            "back as it was to go on, or begin a new run"
        )
    _warn_of_changes(data, run)
    return data


def _own(run: Run, config: RunConfig, listed: ImageList | None, progress: Progress | None) -> DataSet:
    if listed is None and config.data != "birds":
        warnings.warn(
            f"{run.path} has no list of its images ({IMAGES_FILE}), as runs of earlier versions: they are split by the "
            f"rule it was made with ({config.split_rule}). If files came or went since, test images may be among those "
            "that it learnt from",
            DataWarning,
            stacklevel=3,
        )
    return _open(config, progress, listed)


def _warn_of_changes(data: DataSet, run: Run) -> None:
    if data.changes.sentences:
        warnings.warn(
            f"{data.name} has changed since {run.path} began:\n" + "\n".join(data.changes.sentences),
            DataWarning,
            stacklevel=3,
        )


def _open(config: RunConfig, progress: Progress | None, listed: ImageList | None) -> DataSet:
    options = DataOptions(
        seed=config.seed,
        validation_fraction=config.validation_fraction,
        split_rule=config.split_rule,
        on_bad=config.on_bad,
        crop_to_box=config.crop_to_box,
        birds=DrawnBirds(train=config.birds),
    )
    return open_data(config.data, options, progress, listed)


def _without_learnt(data: DataSet, listed: ImageList, run: Run) -> DataSet:
    learnt = listed.learnt
    all_known = f"{data.name}: {run.path} learnt from all of its test images, or was chosen by them: give others"
    kept = replace(
        data,
        train=tuple(entry for entry in data.train if entry.digest not in learnt),
        val=tuple(entry for entry in data.val if entry.digest not in learnt),
        test=data.test.without(learnt, all_known),
    )
    before, after = (len(each.train) + len(each.val) + len(each.test) for each in (data, kept))
    if after < before:
        warnings.warn(
            f"{data.name}: left out {before - after} of {before} images, because {run.path} learnt from the same "
            f"pictures or was chosen by them ({len(data.test) - len(kept.test)} of them in the test split)",
            DataWarning,
            stacklevel=3,
        )
    return kept
