"""Training as a library call: the bars of the command line, and clear words about wrong arguments."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from torch import nn

from pixpnet.config import RunConfig, read_config
from pixpnet.data import OwnImages
from pixpnet.data.given import splits_of
from pixpnet.training import resume as resume_run
from pixpnet.training import train as train_run
from pixpnet.training.finishing import Metrics
from pixpnet.training.given import Given
from pixpnet.training.trainer import Callbacks, Loggers, callbacks_in, loggers_in
from pixpnet.training.watching import Watcher
from pixpnet.views.training_display import display

Config: TypeAlias = RunConfig | str | Path


def train(
    config: Config,
    out: str | Path,
    *,
    dataset: OwnImages | None = None,
    backbone: nn.Module | None = None,
    callbacks: Callbacks = (),
    loggers: Loggers = (),
    show_progress: bool = True,
    watcher: Watcher | None = None,
    trust_code: bool = False,
) -> Metrics | None:
    """Trains a network and evaluates it, with everything on record in a run folder.

    Args:
        config: what to do; or a file of it, such as the `config.yaml` of another run.
        out: a new folder for the run.
        dataset: images of your own instead of `config.data`: a map-style dataset of (image, label), a `DataLoader` of
            one, or `DatasetSplits`. Items must stay what they are: augmentation, splits and order are the run's own and
            follow from its seed. Of a loader, the dataset, the batch size and the number of workers count.
        backbone: a network of your own instead of `config.backbone`, with its weights; a copy is trained. The run keeps
            its weights but not its code: give it again to `resume`, `Run`, `Predictor` and `PixPNet.load`.
        callbacks: of Lightning. Those that monitor find the columns of `log.csv` (`val_accuracy`, ...); others find
            them from the next epoch on in `trainer.callback_metrics`. Epochs of pretraining have no validation, so say
            `EarlyStopping("val_loss", strict=False)`; a run that is stopped is evaluated with the best epoch so far.
        loggers: of Lightning, beside the TensorBoard files of the run.
        show_progress: bars on a terminal, lines elsewhere, on stderr; False for silence.
        watcher: told what happens, instead of that.
        trust_code: a backbone that a file names and that is code (``module.path:callable``) may be imported and called.

    Returns:
        the figures of the model that was kept; None in processes of other ranks than 0.

    Raises:
        TypeError: if an argument is of another kind; the message says which.
        RunError: if the folder is in use, or the configuration and what was given contradict each other.
        DataError, UnknownModel, WeightsError, CutError: if it cannot be carried out.
        TrainingDiverged: if the loss becomes NaN or infinite.
    """
    config = _config(config)
    given = _given(dataset, backbone, callbacks, loggers)
    with _shown(show_progress, watcher) as shown:
        return train_run(config, _folder(out), shown, trust_code, given)


def resume(
    out: str | Path,
    *,
    dataset: OwnImages | None = None,
    backbone: nn.Module | None = None,
    callbacks: Callbacks = (),
    loggers: Loggers = (),
    show_progress: bool = True,
    watcher: Watcher | None = None,
    trust_code: bool = False,
) -> Metrics | None:
    """Goes on with a run that was interrupted, from the end of its last whole epoch.

    On the CPU, with as many threads as before, it ends with bit for bit the model that the uninterrupted run would have
    made. Objects that the run was made with are given again: a network with any weights (the run kept those that it
    began with), images that are the same by their pixels. Callbacks take up their state where they are given again in
    the same order.

    Args:
        out: the folder of the run.
        dataset: see `train`.
        backbone: see `train`.
        callbacks: see `train`.
        loggers: see `train`.
        show_progress: see `train`.
        watcher: see `train`.
        trust_code: the backbone may be code that the run names. Only say so for runs that you trust.

    Raises:
        TypeError: if an argument is of another kind; the message says which.
        RunError: if the run is finished or damaged, or an object is missing that it was made with.
        ManifestError: if a file in the folder is not the run's.
    """
    given = _given(dataset, backbone, callbacks, loggers)
    with _shown(show_progress, watcher) as shown:
        return resume_run(_folder(out), shown, trust_code, given)


@contextmanager
def _shown(wanted: bool, watcher: Watcher | None) -> Iterator[Watcher | None]:
    """Who is told what happens: the caller's watcher, the display, or nobody."""
    if watcher is not None or not wanted:
        yield watcher
        return
    with display() as shown:
        yield shown


def _config(config: object) -> RunConfig:
    if isinstance(config, RunConfig):
        return config
    if isinstance(config, (str, Path)):
        return read_config(Path(config))
    raise TypeError(
        "the first argument of train is a RunConfig (RunConfig.of('pixpnet', 'laptop', data='folder:photos')) or the "
        f"file of one, got {type(config).__name__}"
    )


def _folder(out: object) -> Path:
    if isinstance(out, (str, Path)):
        return Path(out)
    raise TypeError(f"out is the folder of a run, a path, got {type(out).__name__}")


def _given(dataset: object, backbone: object, callbacks: object, loggers: object) -> Given:
    if backbone is not None and not isinstance(backbone, nn.Module):
        hint = ": name it in the configuration, RunConfig(backbone=...)" if isinstance(backbone, str) else ""
        raise TypeError(f"backbone is a torch.nn.Module, got {type(backbone).__name__}{hint}")
    if dataset is not None:
        splits_of(dataset)  # type: ignore[arg-type]  # says what is wrong with it
    return Given(backbone, dataset, callbacks_in(callbacks), loggers_in(loggers))  # type: ignore[arg-type]
