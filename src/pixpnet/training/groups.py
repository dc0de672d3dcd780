"""Parameters that share a learning rate."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import nn

from pixpnet.model import PixPNet
from pixpnet.settings import Optimization


@dataclass(frozen=True)
class Group:
    """Some parameters, their learning rate and their L2 weight decay; those that do not learn at all are left out.

    `epsilon` is Adam's, which keeps its steps finite.
    """

    parameters: tuple[nn.Parameter, ...]
    rate: float
    weight_decay: float
    epsilon: float = 1e-8


def group(parameters: Iterable[nn.Parameter], rate: float, weight_decay: float) -> Group:
    """The parameters that learn at all, as a group."""
    return Group(tuple(parameter for parameter in parameters if parameter.requires_grad), rate, weight_decay)


def usual_groups(model: PixPNet, optim: Optimization, extras: Mapping[str, nn.Module]) -> dict[str, Group]:
    """Backbone, add-on, prototypes and head; every extra that learns is a group of its own, at the add-on's rate."""
    return {
        "backbone": group(model.backbone.parameters(), optim.lr_backbone, optim.weight_decay),
        "add_on": group(
            (parameter for grid in model.grids for parameter in grid.add_on.parameters()),
            optim.lr_add_on,
            optim.weight_decay,
        ),
        "prototypes": group((grid.comparison.prototypes for grid in model.grids), optim.lr_prototypes, 0.0),
        "head": group(model.head.parameters(), optim.lr_head, optim.weight_decay),
        **{name: group(extra.parameters(), optim.lr_add_on, optim.weight_decay) for name, extra in extras.items()},
    }
