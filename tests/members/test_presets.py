"""Presets against the paper's table of hyperparameters and against the published ProtoPNet."""

import re
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

from pixpnet.config import RunConfig, config_from_plain, plain_config
from pixpnet.data import Augmentation
from pixpnet.family import MEMBERS, member_named
from pixpnet.members import protopnet
from pixpnet.members.pixpnet import PRESETS, Losses
from pixpnet.members.recipes import RECIPES
from pixpnet.parts import Linear, Original, SquaredL2

# Table "hparams" of App. E, row by row: the name there, the value there, where it is here, the value here.
PAPER: list[tuple[str, str, str, object]] = [
    (r"$\lossClsCoef$", "0", "losses.cluster_weight", 0.0),
    (r"$\lossSepCoef$", "0", "losses.separation_weight", 0.0),
    (r"$\distancef$", "Cosine Distance", "architecture.distance", "cosine"),
    (r"$\varepsilon$", "$10^{-6}$", "architecture.epsilon", 1e-6),
    ("$P$", r"$C \times 10$", "architecture.prototypes_per_class", 10),
    ("$D$", "192", "architecture.dim", 192),
    ("$H_{p}$", "1", "architecture.prototype_rows", 1),
    ("$W_{p}$", "1", "architecture.prototype_cols", 1),
    (r"Learning Rate ($\backbone$ parameters)", "0.0001", "optimization.lr_backbone", 0.0001),
    (r"Learning Rate ($\addonf$ parameters)", "0.003", "optimization.lr_add_on", 0.003),
    (r"Learning Rate ($\prototypes$)", "0.003", "optimization.lr_prototypes", 0.003),
    ("Warm-Up Epochs", "5", "optimization.warm_up_epochs", 5),
    ("Learning Rate Scheduler (Warm-Up)", "Exponential", "optimization.lr_schedule", "warm_cosine"),
    ("Learning Rate Scheduler", "Cosine", "optimization.lr_schedule", "warm_cosine"),
    (r"Weight Decay (All Parameters Except $\prototypes$)", "0.001", "optimization.weight_decay", 0.001),
    ("Batch Size", "64", "optimization.batch_size", 64),
    ("Epochs", "20", "optimization.epochs", 20),
    ("Prototype Replacement", "Every 4 Epochs", "replacement.every", 4),
]
# Rows that are not part of a preset: the data set's number of views, the run's split, the backbone's weights, and the
# only optimiser that there is.
ELSEWHERE = {
    "Augmentation Factor": "16",
    "Validation Set Proportion": "0.1",
    "Pre-training": "ImageNet",
    "Optimizer": "Adam",
}


def at(preset: Any, path: str) -> Any:
    part, name = path.split(".")
    return getattr(getattr(preset, part), name)


@pytest.mark.parametrize(("name", "printed", "path", "value"), PAPER)
def test_the_paper_preset_has_the_papers_hyperparameters(name: str, printed: str, path: str, value: object) -> None:
    assert at(PRESETS["paper"], path) == value


def test_the_rows_above_are_all_rows_of_the_papers_table(shared: Path) -> None:
    text = (shared / "paper" / "pixpnet.tex").read_text(encoding="utf-8")
    table = text[: text.index(r"\label{tab:hparams}")].rsplit(r"\midrule", 1)[1].split(r"\bottomrule")[0]
    rows = {name.strip(): value.strip() for name, value in re.findall(r"^(.*?)&(.*?)\\\\$", table, re.MULTILINE)}
    assert rows == {name: printed for name, printed, _, _ in PAPER} | ELSEWHERE


def test_what_the_papers_table_leaves_to_other_records() -> None:
    assert RunConfig().validation_fraction == 0.1
    # The preset leaves the number of views to the data set's augmentation.
    assert PRESETS["paper"].optimization.views is None
    assert Augmentation().factor == 16


def test_what_the_text_of_the_paper_says_beside_its_table() -> None:
    preset = PRESETS["paper"]
    assert preset.architecture.similarity == "reformulated"  # App. G
    assert preset.architecture.head == "class_sum"  # Sec. 4
    assert preset.architecture.add_on == "xavier"  # App. K
    assert preset.architecture.cells == "plain"
    assert preset.losses.off_class_l1 == 0
    assert preset.replacement.start == 4
    assert preset.replacement.unique == "image"  # duplicates are removed
    assert preset.replacement.assignment == "nearest_first"  # and the next nearest patch is taken
    assert preset.optimization.pretraining_epochs == 0
    assert not preset.losses.leave_one_out
    assert not preset.optimization.frozen_statistics


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("architecture.epsilon", 1e-4),
        ("architecture.own_weight", 1.0),
        ("architecture.other_weight", -0.5),
        ("architecture.dim", 128),
        ("architecture.cells", "plain"),
        ("architecture.prototypes_per_class", 10),
        ("architecture.prototype_rows", 1),
        ("architecture.prototype_cols", 1),
        ("losses.cluster_weight", 0.8),
        ("losses.separation_weight", 0.08),
        ("losses.off_class_l1", 1e-4),
        ("optimization.batch_size", 80),
        ("optimization.lr_backbone", 1e-4),
        ("optimization.lr_add_on", 3e-3),
        ("optimization.lr_prototypes", 3e-3),
        ("optimization.lr_head", 1e-4),
        ("optimization.lr_schedule", "steps"),
        ("optimization.lr_step_factor", 0.1),
        ("optimization.lr_step_epochs", 5),
        ("optimization.warm_up_epochs", 5),
        ("replacement.start", 10),
        ("replacement.every", 10),
        ("replacement.head_epochs", 20),
        ("replacement.unique", "none"),
    ],
)
def test_protopnets_paper_preset_has_the_published_coefficients(path: str, value: object) -> None:
    assert at(protopnet.PRESETS["paper"], path) == value


def test_protopnet_is_made_of_the_published_parts() -> None:
    parts = protopnet.MEMBER.parts(protopnet.PRESETS["paper"].architecture, (8,), 3)
    (comparison,) = parts.comparisons
    assert isinstance(comparison.measure, SquaredL2)
    assert comparison.similarity == Original(1e-4)
    assert isinstance(parts.decision, Linear)
    assert parts.decision.learns


@pytest.mark.parametrize("name", ["laptop", "scratch", "frozen", "tail"])
@pytest.mark.parametrize("member", ["pixpnet", "protopnet"])
def test_presets_for_small_budgets_normalize_cells(name: str, member: str) -> None:
    assert member_named(member).presets[name].architecture.cells == "normalized"


@pytest.mark.parametrize("name", MEMBERS)
def test_the_defaults_of_every_member_are_its_papers(name: str) -> None:
    member = member_named(name)
    # The frame suits the data set unless somebody asks for the paper's.
    assert RunConfig.of(name, "paper").with_settings(frame=None) == RunConfig(member=name)
    assert member.presets["paper"].frame == "crop"


def test_recipes_of_earlier_versions_have_words_of_today() -> None:
    for words in RECIPES.values():
        options = dict(zip(words[::2], words[1::2], strict=True))
        assert set(options) <= {"--member", "--preset"}
        assert member_named(options.get("--member", "pixpnet")).preset(options["--preset"])


def test_presets_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        PRESETS["paper"].architecture.dim = 3  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        PRESETS["paper"].losses = Losses()  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "preset"), [(name, preset) for name in MEMBERS for preset in member_named(name).presets]
)
def test_every_preset_survives_being_written_and_read(name: str, preset: str) -> None:
    config = RunConfig.of(name, preset)
    assert config_from_plain(plain_config(config)) == config
    assert member_named(name).stages(config_from_plain(plain_config(config)).settings)
