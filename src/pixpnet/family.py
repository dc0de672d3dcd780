"""The family: which members there are, and the record by which the rest of the package knows one.

A member is one file in `pixpnet.members` that ends in ``MEMBER = Member(...)``, and one line in `MEMBERS`. The table
holds the names of modules, not the modules, so that the command line can list the family without importing torch; and
nothing below `members/` imports a member.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pixpnet.settings import MemberSettings

if TYPE_CHECKING:
    from torch import nn

    from pixpnet.model import PixPNet
    from pixpnet.parts import Parts
    from pixpnet.training.groups import Group
    from pixpnet.training.other_runs import OtherModels
    from pixpnet.training.stages import Stage

DEFAULT = "pixpnet"
# Of a wrong name that is repeated in a message.
_LONGEST = 100
MEMBERS: Mapping[str, str] = {
    "pixpnet": "pixpnet.members.pixpnet",
    "protopnet": "pixpnet.members.protopnet",
    "tesnet": "pixpnet.members.tesnet",
    "protopool": "pixpnet.members.protopool",
    "prototree": "pixpnet.members.prototree",
    "npprotopnet": "pixpnet.members.npprotopnet",
    "quasiprotopnet": "pixpnet.members.quasiprotopnet",
    "genprotopnet": "pixpnet.members.genprotopnet",
    "psprotopnet": "pixpnet.members.psprotopnet",
    "semiprotopnet": "pixpnet.members.semiprotopnet",
    "cosineprotopnet": "pixpnet.members.cosineprotopnet",
    "sdfasa": "pixpnet.members.sdfasa",
    "stprotopnet": "pixpnet.members.stprotopnet",
    "deformable": "pixpnet.members.deformable",
    "protopshare": "pixpnet.members.protopshare",
    "proto2proto": "pixpnet.members.proto2proto",
}


class UnknownMember(LookupError):
    """A name that no member, or no preset of a member, has; the message lists those that there are."""


@dataclass(frozen=True)
class Conversion:
    """What a trained network can be turned into without training.

    Attributes:
        summary: one sentence.
        convert: changes a network in place: its architecture says from then on what it is.
    """

    summary: str
    convert: "Callable[[PixPNet], None]"


@dataclass(frozen=True)
class Member:
    """One network of the family: its numbers, what it is made of, and how it is trained.

    Attributes:
        name: on the command line and in files.
        title: as its paper writes it.
        summary: one sentence.
        config: its configuration (`MemberSettings`), whose defaults are its paper's numbers.
        architecture: the part of the configuration that a model file repeats, a frozen dataclass.
        presets: configurations under names: `paper`, and what suits small budgets (`members.budgets`).
        parts: makes add-ons, comparisons, ownership and decision, from (architecture, channels of each grid, number of
            classes).
        groups: parameters that share a learning rate, from (network, configuration, extras); names are its own.
        stages: what is learnt in which epochs, from the configuration.
        extras: modules that help in training and are in no model file, from (network, configuration).
        conversions: what a trained network can be turned into without training, by names.
        ready: gets a new network ready for training, from (network, configuration): says which layer loss terms read,
            say; raises ValueError where the member cannot be trained with this backbone.
        backbones: what some presets choose beside the member's own settings, by their names: backbone, cut, size and
            windows, as fields of `RunConfig`. Presets that are not listed leave them to the run.
        starts_from: members of whose runs it starts (`--start RUN`); none where it starts from a backbone alone.
        may_start_from: members of whose runs it may start instead of a backbone alone.
        taught_by: members of whose runs it learns (`--teacher RUN`).
        begin: puts what it takes from those runs into the new network, from (network, configuration, other models);
            refuses what does not fit.
    """

    name: str
    title: str
    summary: str
    config: type[Any]
    architecture: type[Any]
    presets: Mapping[str, Any]
    parts: "Callable[[Any, tuple[int, ...], int], Parts]"
    groups: "Callable[[PixPNet, Any, Mapping[str, nn.Module]], Mapping[str, Group]]"
    stages: "Callable[[Any], tuple[Stage, ...]]"
    extras: "Callable[[PixPNet, Any], Mapping[str, nn.Module]]"
    conversions: "Mapping[str, Conversion]" = field(default_factory=dict)
    ready: "Callable[[PixPNet, Any], None]" = lambda model, settings: None
    backbones: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    starts_from: tuple[str, ...] = ()
    may_start_from: tuple[str, ...] = ()
    taught_by: tuple[str, ...] = ()
    begin: "Callable[[PixPNet, Any, OtherModels], None] | None" = None

    def preset(self, name: str) -> MemberSettings:
        """A configuration by its name.

        Raises:
            UnknownMember: if the member has no such preset.
        """
        try:
            preset: MemberSettings = self.presets[name]
        except KeyError as error:
            raise UnknownMember(f"{self.name} has no preset {_choice(name, self.presets)}") from error
        return preset


@cache
def member_named(name: str) -> Member:
    """A member of the family.

    Raises:
        UnknownMember: if there is none of that name.

    >>> member_named("pixpnet").title
    'PixPNet'
    """
    try:
        module = MEMBERS[name]
    except KeyError as error:
        raise UnknownMember(f"the family has no member {_choice(name, MEMBERS)}") from error
    member: Member = import_module(module).MEMBER
    return member


def _choice(name: str, known: Iterable[str]) -> str:
    """A wrong name with those that there are, the nearest first.

    >>> _choice("labtop", ["paper", "laptop"])
    "'labtop': did you mean laptop? There are paper, laptop"
    """
    names = list(known)
    near = get_close_matches(name[:_LONGEST], names, n=1, cutoff=0.5)
    return f"{name[:_LONGEST]!r}: {f'did you mean {near[0]}? There are' if near else 'there are'} {', '.join(names)}"
