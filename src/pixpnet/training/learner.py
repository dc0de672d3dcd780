"""What steps and actions of a stage may use of the training loop, whatever runs it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from pixpnet.model import PixPNet
from pixpnet.model.backbone import WatchedMaps
from pixpnet.settings import Replacement
from pixpnet.training.distances import TrainingDistances
from pixpnet.training.stages import Epoch
from pixpnet.training.teaching import Taught


@runtime_checkable
class Learner(Protocol):
    """A network that is being trained.

    Attributes:
        model: the network.
        taken_from: the image that each prototype was taken from at the last replacement; empty before the first.
        step_number: of the running step in its epoch, from 0.
    """

    # Modules hold modules where Python 3.12 and newer do not look when they check an instance of a protocol.
    if TYPE_CHECKING:
        model: PixPNet
    taken_from: tuple[str, ...]
    step_number: int

    @property
    def current_epoch(self) -> int:
        """Number of the epoch in the whole run, from 0."""

    @property
    def epoch(self) -> Epoch:
        """The epoch of the plan that is running."""

    @property
    def device(self) -> torch.device:
        """Where the network is."""

    @property
    def helpers(self) -> Mapping[str, nn.Module]:
        """The member's extras (`Member.extras`)."""

    @property
    def steps_per_epoch(self) -> int:
        """How many steps of the optimizer an epoch has."""

    def learns(self, *modules: nn.Module) -> bool:
        """Whether any parameter of these modules learns in the running stage."""

    def backbone_maps(self, images: Tensor) -> tuple[Tensor, ...]:
        """What the backbone makes of a batch, for each grid: of images, or of features that are kept instead."""

    def maps_and_watched(self, images: Tensor) -> WatchedMaps:
        """The same, and the map of the layer that is watched (`Backbone.watch`)."""

    def taught(self, images: Tensor) -> Taught:
        """What the teacher of the run makes of a batch of images, or of features that are kept instead.

        Raises:
            ValueError: if the run has no teacher.
        """

    def training_distances(self) -> TrainingDistances:
        """How near each training image, as it is, comes to each prototype."""

    def replace_prototypes(self, settings: Replacement) -> Mapping[str, float]:
        """Prototypes become training patches; says how far they moved."""
