"""The optimizer of a run, also after an action gave the network other prototypes or another head."""

from collections.abc import Mapping

import pytorch_lightning as pl
import torch
from pytorch_lightning.strategies import DDPStrategy, Strategy

from pixpnet.training.groups import Group


def adam(groups: Mapping[str, Group]) -> torch.optim.Adam:
    """Adam with a group for each part that has a learning rate of its own."""
    given = [
        {
            "name": name,
            "params": list(group.parameters),
            "lr": group.rate,
            "full_rate": group.rate,
            "weight_decay": group.weight_decay,
            "eps": group.epsilon,
        }
        for name, group in groups.items()
        if group.parameters
    ]
    return torch.optim.Adam(given)


def follow_changes(strategy: Strategy, module: pl.LightningModule, groups: Mapping[str, Group]) -> None:
    """Where the parameters that learn are no longer those that the optimizer knows, makes another one.

    What it remembers of parameters that are still there it keeps; of new ones it knows nothing. Without this, steps
    after a merge would go on changing parameters that the network no longer has.

    Args:
        strategy: that holds the optimizer.
        module: that is trained.
        groups: the parameters that learn now.
    """
    (old,) = strategy.optimizers
    known = {id(parameter) for group in old.param_groups for parameter in group["params"]}
    wanted = {id(parameter) for group in groups.values() for parameter in group.parameters}
    if known == wanted:
        return
    new = adam(groups)
    for group in new.param_groups:
        for parameter in group["params"]:
            if parameter in old.state:
                new.state[parameter] = old.state[parameter]
    strategy.optimizers = [new]
    if isinstance(strategy, DDPStrategy):
        # It averages the gradients of those parameters over processes that it was told of at the start.
        strategy.model = module
        strategy.configure_ddp()
