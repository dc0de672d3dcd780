"""The recipes against the paper's table of hyperparameters and against the published ProtoPNet."""

import re
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest

from pixpnet.config import RunConfig
from pixpnet.data import Augmentation
from pixpnet.recipe import RECIPES, Architecture, Losses, Optimisation, Recipe, Replacement

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
    (r"Learning Rate ($\backbone$ parameters)", "0.0001", "optimisation.backbone_rate", 0.0001),
    (r"Learning Rate ($\addonf$ parameters)", "0.003", "optimisation.add_on_rate", 0.003),
    (r"Learning Rate ($\prototypes$)", "0.003", "optimisation.prototype_rate", 0.003),
    ("Warm-Up Epochs", "5", "optimisation.warm_up_epochs", 5),
    ("Learning Rate Scheduler (Warm-Up)", "Exponential", "optimisation.schedule", "warm_cosine"),
    ("Learning Rate Scheduler", "Cosine", "optimisation.schedule", "warm_cosine"),
    (r"Weight Decay (All Parameters Except $\prototypes$)", "0.001", "optimisation.weight_decay", 0.001),
    ("Batch Size", "64", "optimisation.batch_size", 64),
    ("Epochs", "20", "optimisation.epochs", 20),
    ("Prototype Replacement", "Every 4 Epochs", "replacement.every", 4),
]
# Rows that are not part of a recipe: the data set's number of views, the run's split, the backbone's weights, and the
# only optimiser that there is.
ELSEWHERE = {
    "Augmentation Factor": "16",
    "Validation Set Proportion": "0.1",
    "Pre-training": "ImageNet",
    "Optimizer": "Adam",
}


def at(recipe: Recipe, path: str) -> Any:
    part, name = path.split(".")
    return getattr(getattr(recipe, part), name)


@pytest.mark.parametrize(("name", "printed", "path", "value"), PAPER)
def test_the_pixpnet_recipe_has_the_papers_hyperparameters(name: str, printed: str, path: str, value: object) -> None:
    assert at(RECIPES["pixpnet"], path) == value


def test_the_rows_above_are_all_rows_of_the_papers_table(shared: Path) -> None:
    text = (shared / "paper" / "pixpnet.tex").read_text(encoding="utf-8")
    table = text[: text.index(r"\label{tab:hparams}")].rsplit(r"\midrule", 1)[1].split(r"\bottomrule")[0]
    rows = {name.strip(): value.strip() for name, value in re.findall(r"^(.*?)&(.*?)\\\\$", table, re.MULTILINE)}
    assert rows == {name: printed for name, printed, _, _ in PAPER} | ELSEWHERE


def test_what_the_papers_table_leaves_to_other_records() -> None:
    assert RunConfig().validation_fraction == 0.1
    # The recipe leaves the number of views to the data set's augmentation.
    assert RECIPES["pixpnet"].optimisation.views is None
    assert Augmentation().factor == 16


def test_what_the_text_of_the_paper_says_beside_its_table() -> None:
    recipe = RECIPES["pixpnet"]
    assert recipe.architecture.similarity == "reformulated"  # App. G
    assert recipe.architecture.head == "class_sum"  # Sec. 4
    assert recipe.architecture.add_on == "xavier"  # App. K
    assert recipe.architecture.cells == "plain"
    assert recipe.losses.off_class_l1 == 0
    assert recipe.replacement.start == 4
    assert recipe.replacement.unique == "image"  # duplicates are removed
    assert recipe.replacement.assignment == "nearest_first"  # and the next nearest patch is taken
    assert recipe.optimisation.pretraining_epochs == 0
    assert not recipe.losses.leave_one_out
    assert not recipe.optimisation.frozen_statistics


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("architecture.distance", "squared_l2"),
        ("architecture.similarity", "original"),
        ("architecture.epsilon", 1e-4),
        ("architecture.head", "linear"),
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
        ("optimisation.batch_size", 80),
        ("optimisation.backbone_rate", 1e-4),
        ("optimisation.add_on_rate", 3e-3),
        ("optimisation.prototype_rate", 3e-3),
        ("optimisation.head_rate", 1e-4),
        ("optimisation.schedule", "steps"),
        ("optimisation.step_factor", 0.1),
        ("optimisation.step_epochs", 5),
        ("optimisation.warm_up_epochs", 5),
        ("replacement.start", 10),
        ("replacement.every", 10),
        ("replacement.head_epochs", 20),
        ("replacement.unique", "none"),
    ],
)
def test_the_protopnet_recipe_has_the_published_coefficients(path: str, value: object) -> None:
    assert at(RECIPES["protopnet"], path) == value


@pytest.mark.parametrize("name", ["laptop", "scratch"])
def test_the_recipes_for_small_budgets_normalise_cells(name: str) -> None:
    assert RECIPES[name].architecture.cells == "normalised"


def test_the_defaults_of_every_record_are_the_papers() -> None:
    # But for the assignment of patches, whose better way is the default.
    assert replace(Recipe(), replacement=replace(Replacement(), assignment="nearest_first")) == RECIPES["pixpnet"]
    assert RunConfig().recipe == RECIPES["pixpnet"]


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        *((Architecture, name, 0) for name in ("dim", "prototypes_per_class", "prototype_rows", "prototype_cols")),
        (Architecture, "dim", -1),
        (Architecture, "epsilon", 0.0),
        (Architecture, "epsilon", -1e-6),
        (Architecture, "epsilon", float("nan")),
        *((Optimisation, name, 0) for name in ("epochs", "batch_size", "rise", "step_epochs", "step_factor", "views")),
        (Optimisation, "pretraining_epochs", -1),
        (Optimisation, "warm_up_epochs", -1),
        (Optimisation, "warm_up_epochs", 21),
        (Replacement, "start", 0),
        (Replacement, "every", 0),
        (Replacement, "head_epochs", -1),
    ],
)
def test_a_number_that_cannot_be_is_refused_by_name(kind: Any, name: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"^{name} is .*got {value}\b"):
        kind(**{name: value} if name != "epochs" else {name: value, "warm_up_epochs": 0})


def test_recipes_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        RECIPES["pixpnet"].architecture.dim = 3  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        RECIPES["pixpnet"].losses = Losses()  # type: ignore[misc]
