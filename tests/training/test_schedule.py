"""The epochs of the paper's and of ProtoPNet's settings, and laws that every plan keeps."""

from dataclasses import replace
from math import cos, exp, pi

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.family import member_named
from pixpnet.members import protopnet
from pixpnet.members.pixpnet import PRESETS, Architecture, PixPNetConfig
from pixpnet.settings import MemberSettings, Optimization, Replacement
from pixpnet.training.actions import Replace
from pixpnet.training.stages import Epoch, Stage, epochs_of, schedule_of

PAPER, PROTOPNET = PRESETS["paper"], protopnet.PRESETS["paper"]
# ProtoPNet as a PixPNet with other parts.
LINEAR = PixPNetConfig(
    Architecture(head="linear"), optimization=PROTOPNET.optimization, replacement=PROTOPNET.replacement
)


def plan(settings: MemberSettings, member: str = "pixpnet") -> tuple[Epoch, ...]:
    return epochs_of(member_named(member).stages(settings))


def replaces(epoch: Epoch) -> bool:
    return epoch.is_last and any(isinstance(action, Replace) for action in epoch.stage.at_end)


def rates_of(settings: MemberSettings, stage: str) -> Stage:
    return next(item for item in member_named("pixpnet").stages(settings) if item.name == stage)


def test_the_papers_plan() -> None:
    epochs = plan(PAPER)
    assert len(epochs) == 20
    assert [epoch.stage.name for epoch in epochs] == ["warm_up"] * 5 + ["joint"] * 15
    assert [number for number, epoch in enumerate(epochs, 1) if replaces(epoch)] == [4, 8, 12, 16, 20]
    assert [epoch.selectable for epoch in epochs] == [replaces(epoch) for epoch in epochs]
    assert [epoch.begins for epoch in epochs] == list(range(20))


def test_the_papers_hyperparameters_are_the_defaults() -> None:
    # FACTS section 2, from Sec. 4 and App. E of the paper.
    optim, made, losses = PixPNetConfig().optimization, PixPNetConfig().architecture, PixPNetConfig().losses
    assert (optim.batch_size, optim.weight_decay, optim.lr_rise) == (64, 1e-3, 5.0)
    assert (optim.lr_backbone, optim.lr_add_on, optim.lr_prototypes) == (1e-4, 3e-3, 3e-3)
    assert (made.dim, made.prototypes_per_class, made.distance, made.head) == (192, 10, "cosine", "class_sum")
    assert (made.similarity, made.epsilon) == ("reformulated", 1e-6)
    assert (losses.cluster_weight, losses.separation_weight) == (0.0, 0.0)
    assert PixPNetConfig(replacement=Replacement(4, 4, "image", "nearest_first"), frame="crop") == PAPER


def test_protopnets_plan_trains_the_head_for_20_epochs_after_each_replacement() -> None:
    epochs = plan(PROTOPNET, "protopnet")
    expected = []
    for ten in range(5):
        expected += [("warm_up" if ten == 0 and number < 5 else "joint", number == 9, False) for number in range(10)]
        expected += [("head", False, True)] * 20
    assert [(epoch.stage.name, replaces(epoch), epoch.selectable) for epoch in epochs] == expected
    # The schedule of rates stands still while the head learns.
    assert [epoch.begins for epoch in epochs if epoch.stage.name != "head"] == list(range(50))
    assert {epoch.stage.begins for epoch in epochs[10:30]} == {10}
    assert {epoch.stage.rate(7.0) for epoch in epochs[10:30]} == {1.0}


def test_pretraining_comes_before_the_schedule_begins_and_ends_with_patches_that_are_no_result() -> None:
    optim = Optimization(epochs=3, pretraining_epochs=2, warm_up_epochs=1)
    epochs = plan(PixPNetConfig(optimization=optim, replacement=Replacement(start=2, every=2)))
    assert [(epoch.stage.name, epoch.stage.begins, replaces(epoch), epoch.selectable) for epoch in epochs] == [
        ("pretraining", 0, False, False),
        ("pretraining", 0, True, False),
        ("warm_up", 0, False, False),
        ("joint", 1, True, True),
        ("joint", 2, True, True),
    ]
    assert [epoch.stage.rate(0.5) for epoch in epochs[:2]] == [1, 1]
    # Beside it, a head that learns gets its epochs after results only.
    headed = PixPNetConfig(
        Architecture(head="linear"), optimization=optim, replacement=Replacement(3, 1, head_epochs=1)
    )
    assert [epoch.stage.name for epoch in plan(headed)] == ["pretraining"] * 2 + ["warm_up", "joint", "joint", "head"]


def test_a_head_that_does_not_learn_gets_no_epochs_of_its_own() -> None:
    assert {epoch.stage.name for epoch in plan(replace(LINEAR, architecture=Architecture()))} == {"warm_up", "joint"}
    assert len(plan(LINEAR)) == 150
    frozen = replace(LINEAR, architecture=Architecture(head="frozen"))
    assert len(plan(frozen)) == 50


@given(
    epochs=st.integers(1, 30),
    start=st.integers(1, 40),
    every=st.integers(1, 12),
    head_epochs=st.integers(0, 3),
    head=st.sampled_from(["class_sum", "linear", "own_class", "frozen"]),
    data=st.data(),
)
def test_every_plan_ends_with_patches_and_only_patches_may_be_chosen(
    epochs: int, start: int, every: int, head_epochs: int, head: str, data: st.DataObject
) -> None:
    warm_up = data.draw(st.integers(0, epochs))
    if head in ("linear", "own_class") and not head_epochs:
        with pytest.raises(ValueError, match=r"set --replacement\.head-epochs"):
            PixPNetConfig(Architecture(head=head), replacement=Replacement(start, every))  # type: ignore[arg-type]
        return
    settings = PixPNetConfig(
        Architecture(head=head),  # type: ignore[arg-type]
        optimization=Optimization(epochs=epochs, warm_up_epochs=warm_up),
        replacement=Replacement(start, every, head_epochs=head_epochs),
    )
    patches = False
    main = 0
    for epoch in plan(settings):
        if "prototypes" in epoch.stage.learns:
            patches = False
            main += 1
            assert replaces(epoch) == (main == epochs or (main >= start and (main - start) % every == 0))
            assert epoch.stage.name == ("warm_up" if main <= warm_up else "joint")
        patches = patches or replaces(epoch)
        assert patches or not epoch.selectable
    assert main == epochs
    assert patches
    assert plan(settings)[-1].selectable


def test_the_warm_cosine_factor_by_hand() -> None:
    rate = schedule_of(Optimization())  # 20 epochs, rise 5
    assert rate(0) == pytest.approx(1 - exp(-0.2))  # the authors' t + 1
    assert rate(10) == pytest.approx((1 - exp(-11 / 5)) / 2)
    assert rate(5.5) == pytest.approx((1 - exp(-1.3)) * (1 + cos(pi * 5.5 / 20)) / 2)
    assert rate(20) == pytest.approx(0, abs=1e-12)
    assert rates_of(LINEAR, "warm_up").rate(0) == 1  # steps
    assert rates_of(PAPER, "joint").rate(5.5) == rates_of(PAPER, "warm_up").rate(5.5) == rate(5.5)


def test_steps_multiply_every_so_many_epochs_after_the_warm_up() -> None:
    optim = Optimization(epochs=50, warm_up_epochs=5, lr_schedule="steps", lr_step_epochs=5, lr_step_factor=0.1)
    factors = {0: 1, 4.9: 1, 5: 1, 9.99: 1, 10: 0.1, 14.5: 0.1, 15: 0.01, 49: 1e-8}
    for time, expected in factors.items():
        assert schedule_of(optim)(time) == pytest.approx(expected), time
    assert rates_of(LINEAR, "head").rate(30) == 1
    assert schedule_of(Optimization(lr_schedule="constant"))(17) == 1


@pytest.mark.parametrize(
    ("kind", "values", "says"),
    [
        (Optimization, {"epochs": 0}, "epochs"),
        (Optimization, {"epochs": 3, "warm_up_epochs": 4}, "warm_up_epochs"),
        (Optimization, {"views": 0}, "views"),
        (Optimization, {"pretraining_epochs": -1}, "pretraining_epochs"),
        (Replacement, {"every": 0}, "every"),
        (Replacement, {"head_epochs": -1}, "head_epochs"),
        (Architecture, {"prototypes_per_class": 0}, "prototypes_per_class"),
    ],
)
def test_settings_that_cannot_be_are_refused(kind: type, values: dict[str, int], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        kind(**values)
