"""Actions: what is done beside the steps of the optimizer."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch.distributed as dist
from torch import Tensor

from pixpnet.settings import Replacement
from pixpnet.training.learner import Learner

NOTHING_TO_LOG: Mapping[str, float] = {}


@dataclass(frozen=True)
class Replace:
    """Prototypes become training patches."""

    settings: Replacement

    def __call__(self, learner: Learner) -> Mapping[str, float]:
        """See `Action`."""
        return learner.replace_prototypes(self.settings)


def keep_in_shape(learner: Learner) -> Mapping[str, float]:
    """After a step, what every comparison demands of its prototypes: unit length, for one."""
    for grid in learner.model.grids:
        grid.comparison.after_step()
    return NOTHING_TO_LOG


def summed_over_processes(numbers: Tensor) -> Tensor:
    """What all processes of a run have together."""
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        dist.all_reduce(numbers)
    return numbers
