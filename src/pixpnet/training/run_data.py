"""The data set of a run: opened for a new one by its configuration, and for an old one by the list that it kept.

It is looked for where it was when the run began, from whatever folder a command is called (`location.py`).
"""

import warnings
from dataclasses import replace
from pathlib import Path

from pixpnet.config import RunConfig, is_given
from pixpnet.data import (
    DataError,
    DataOptions,
    DataSet,
    DataWarning,
    DrawnBirds,
    OwnImages,
    open_data,
    open_datasets,
)
from pixpnet.data.birds import BirdOptions
from pixpnet.data.listed import ImageList
from pixpnet.data.registry import parse_spec, same_place
from pixpnet.progress import Progress
from pixpnet.training.location import last_seen, located
from pixpnet.training.run import IMAGES_FILE, Run, RunError


def open_run_data(config: RunConfig, progress: Progress | None = None, dataset: OwnImages | None = None) -> DataSet:
    """The data set of a new run, split as its configuration says; see `open_data_of` for a run that has begun.

    Args:
        config: of the run.
        progress: told how many of how many files have been looked at.
        dataset: the images, where they are objects of the caller's.
    """
    if config.read_from is not None and not parse_spec(config.data).path.is_dir():
        config = located(config, Path(config.read_from).parent)  # the configuration of another run
    return _open(config, progress, None, dataset)


def open_data_of(
    run: Run, progress: Progress | None = None, data: str | None = None, moved_to: str | None = None
) -> DataSet:
    """The data set that a run was trained on, or another one to evaluate its model on.

    Its images are in the splits that they were in when the run began, whatever came, went or was renamed since. Of
    another data set, pictures are left out that the run learnt from or was chosen by. What is different is a
    `DataWarning`.

    Args:
        run: whose images; its folder keeps the list of them.
        progress: told how many of how many files have been looked at.
        data: another data set; by default the run's own.
        moved_to: where the run's own data set is now, if neither its configuration nor the run knows.

    Raises:
        DataError: if the data set cannot be opened, or what is said to be the run's own has none of its images.
        RunError: if the run's list is damaged.
    """
    config, listed = located(run.config, run.path), run.read_images()
    if moved_to is not None:
        config = replace(config, data=moved_to)
    if data is not None and not same_place(data, config.data):
        opened = _open(replace(config, data=data), progress, None, None)
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


def refuse_other_classes(class_names: tuple[str, ...], data: DataSet) -> None:
    """Refuses a data set that has not the classes of a model, in their order.

    Args:
        class_names: of the model.
        data: that it is to be used with.

    Raises:
        RunError: with the classes that differ.
    """
    if data.class_names == class_names:
        return
    unknown = [name for name in data.class_names if name not in class_names]
    missing = [name for name in class_names if name not in data.class_names]
    raise RunError(
        f"{data.name} has other classes than the model"
        + (f"; the model does not know {', '.join(unknown[:5])}" if unknown else "")
        + (f"; there is no {', '.join(missing[:5])}" if missing else "")
        + ("" if unknown or missing else ": the same, in another order")
    )


def open_data_to_resume(run: Run, progress: Progress | None = None) -> DataSet:
    """The data set that a run learns from, exactly as it was when the run began.

    Raises:
        RunError: if an image that it learns from or is chosen by is gone or altered, or there are other classes.
    """
    listed = run.read_images()
    data = _own(run, located(run.config, run.path), listed, progress)
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
    try:
        return _open(config, progress, listed, run.dataset)
    except (DataError, OSError) as error:
        seen = last_seen(run.config, run.path)
        if seen and not parse_spec(config.data).path.is_dir():
            raise DataError(
                f"the images of {run.path} are gone: they were in {seen} when it began. If they were moved, say where "
                f"to: --data {parse_spec(config.data).kind}:PATH"
            ) from error
        raise


def _warn_of_changes(data: DataSet, run: Run) -> None:
    if data.changes.sentences:
        warnings.warn(
            f"{data.name} has changed since {run.path} began:\n" + "\n".join(data.changes.sentences),
            DataWarning,
            stacklevel=3,
        )


def _open(config: RunConfig, progress: Progress | None, listed: ImageList | None, dataset: OwnImages | None) -> DataSet:
    options = DataOptions(
        seed=config.seed,
        validation_fraction=config.validation_fraction,
        split_rule=config.split_rule,
        on_bad=config.on_bad,
        crop_to_box=config.crop_to_box,
        birds=DrawnBirds(train=config.birds, options=BirdOptions(confounder=config.confounder)),
    )
    if dataset is not None and is_given(config.data):
        return open_datasets(dataset, options, progress, listed)
    return open_data(config.data, options, progress, listed)


def _without_learnt(data: DataSet, listed: ImageList, run: Run) -> DataSet:
    learnt = listed.learnt
    all_known = f"{data.name}: {run.path} learnt from all of its test images, or was chosen by them: give others"
    unseen = replace(
        data,
        train=tuple(entry for entry in data.train if entry.digest not in learnt),
        val=tuple(entry for entry in data.val if entry.digest not in learnt),
        test=data.test.without(learnt, all_known),
    )
    before, after = (len(splits.train) + len(splits.val) + len(splits.test) for splits in (data, unseen))
    if after < before:
        warnings.warn(
            f"{data.name}: left out {before - after} of {before} images, because {run.path} learnt from the same "
            f"pictures or was chosen by them ({len(data.test) - len(unseen.test)} of them in the test split)",
            DataWarning,
            stacklevel=3,
        )
    return unseen
