"""Objects of the caller's that a run is made with: a network, images, callbacks and loggers.

A run folder runs no code and holds none, so it keeps their names alone (``given:MyNet``), the first weights of a
network, and the hashes of the images. Whoever goes on with the run, or opens its model, gives the objects again.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from pixpnet.config import GIVEN, RunConfig, is_given
from pixpnet.data import OwnImages
from pixpnet.data.given import loader_numbers, splits_of
from pixpnet.training.run import RunError
from pixpnet.training.trainer import Callbacks, Loggers


@dataclass(frozen=True)
class Given:
    """What a run is made with that no file can hold: objects of the caller's. To go on with it, they are given again.

    Attributes:
        backbone: a network, of which a copy is trained; the configuration names none then.
        dataset: images to learn from; the configuration names none then.
        callbacks: of Lightning.
        loggers: of Lightning, beside the run's own.
    """

    backbone: nn.Module | None = None
    dataset: OwnImages | None = None
    callbacks: Callbacks = ()
    loggers: Loggers = ()


NOTHING = Given()


def naming(config: RunConfig, given: Given) -> RunConfig:
    """The configuration with the names of what was given, and with the batch size and workers of a loader.

    Raises:
        RunError: if the configuration names another backbone, weights or data set.
    """
    usual = RunConfig()
    if given.backbone is not None:
        if config.backbone != usual.backbone and not is_given(config.backbone):
            raise RunError(
                f"a network was given, and the configuration names another one, {config.backbone!r}: leave one out"
            )
        if config.weights is not None:
            raise RunError(
                f"the network that was given has its weights, and the configuration names others, {config.weights!r}: "
                "leave them out (weights=None)"
            )
        config = replace(config, backbone=f"{GIVEN}{type(given.backbone).__name__}")
    if given.dataset is not None:
        if config.data != usual.data and not is_given(config.data):
            raise RunError(
                f"images were given, and the configuration names others, {config.data!r}: leave one of them out"
            )
        config = replace(config, data=f"{GIVEN}{splits_of(given.dataset).name}")
        if (numbers := loader_numbers(given.dataset)) is not None:
            optimization = replace(config.optimization, batch_size=numbers.batch_size)
            config = replace(config, num_workers=numbers.num_workers).with_settings(optimization=optimization)
    return config


def refuse_other_objects(config: RunConfig, given: Given, out: Path) -> None:
    """A run goes on with what it began with: objects where there were objects, and names where there were names.

    Raises:
        RunError: with what to give.
    """
    for word, name, supplied in (
        ("backbone", config.backbone, given.backbone),
        ("dataset", config.data, given.dataset),
    ):
        if is_given(name) and supplied is None:
            raise RunError(
                f"{out} was made with an object, {name!r}, which no file can hold: give it again, "
                f"pixpnet.resume({str(out)!r}, {word}=...)"
            )
        if not is_given(name) and supplied is not None:
            raise RunError(f"{out} was made with {name!r}, and goes on with that: give no other {word}")
