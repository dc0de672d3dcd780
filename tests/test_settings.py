"""Numbers that cannot be are refused where they are written down."""

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from pixpnet.config import RunConfig
from pixpnet.family import MEMBERS, member_named
from pixpnet.members.pixpnet import Architecture
from pixpnet.settings import MemberSettings, Optimization, Replacement


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        *((Architecture, name, 0) for name in ("dim", "prototypes_per_class", "prototype_rows", "prototype_cols")),
        (Architecture, "dim", -1),
        (Architecture, "epsilon", 0.0),
        (Architecture, "epsilon", -1e-6),
        (Architecture, "epsilon", float("nan")),
        *(
            (Optimization, name, 0)
            for name in ("epochs", "batch_size", "lr_rise", "lr_step_epochs", "lr_step_factor", "views")
        ),
        (Optimization, "pretraining_epochs", -1),
        (Optimization, "warm_up_epochs", -1),
        (Optimization, "warm_up_epochs", 21),
        (Replacement, "start", 0),
        (Replacement, "every", 0),
        (Replacement, "head_epochs", -1),
    ],
)
def test_a_number_that_cannot_be_is_refused_by_name(kind: Any, name: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"^{name} is .*got {value}\b"):
        kind(**{name: value} if name != "epochs" else {name: value, "warm_up_epochs": 0})


@pytest.mark.parametrize("name", MEMBERS)
def test_the_settings_of_every_member_are_frozen_records_with_what_all_members_have(name: str) -> None:
    member = member_named(name)
    for preset in (member.config(), *member.presets.values()):
        assert isinstance(preset, member.config)
        assert isinstance(preset, MemberSettings)
        assert isinstance(preset.architecture, member.architecture)
        with pytest.raises(FrozenInstanceError):
            preset.optimization = Optimization()
    assert "paper" in member.presets
    assert RunConfig(member=name).settings == member.config()


def test_a_name_that_nobody_has_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(LookupError, match=r"^the family has no member 'protopnt': did you mean protopnet\? There are "):
        member_named("protopnt")
    with pytest.raises(LookupError, match=r"^the family has no member 'xyz': there are pixpnet, protopnet"):
        member_named("xyz")
    with pytest.raises(LookupError, match=r"^pixpnet has no preset 'labtop': did you mean laptop\? There are paper, "):
        member_named("pixpnet").preset("labtop")


def test_every_member_says_in_one_sentence_what_it_is() -> None:
    for name in MEMBERS:
        member = member_named(name)
        assert member.name == name
        assert member.title
        assert member.summary
        assert not member.summary.endswith(".")
