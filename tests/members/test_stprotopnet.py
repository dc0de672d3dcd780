"""ST-ProtoPNet: its numbers, branches that take turns, pairs of prototypes, replacement by angle or by projection."""

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from pixpnet.config import RunConfig
from pixpnet.family import member_named
from pixpnet.members.stprotopnet import (
    MEMBER,
    PRESETS,
    STProtoPNetArchitecture,
    STProtoPNetConfig,
    stages,
)
from pixpnet.model import PixPNet
from pixpnet.parts import AddedHeads, LossTerm, OneClassEach, Step, branch_of, loss_of
from pixpnet.parts.losses import cluster, separation
from pixpnet.parts.matches import matches_of
from pixpnet.parts.support import closeness, closest_pairs, discrimination, farthest_pairs
from pixpnet.settings import Optimization, Replacement
from pixpnet.training import replace_prototypes, train
from pixpnet.training.actions import keep_in_shape
from pixpnet.training.fitting import Fitting
from tests.members.toys import Trained, pixel_model, trained_run
from tests.parts.numerics import Array, gradient, slope
from tests.training.material import batches_of, draw_pictures, entries_of

SETTINGS = STProtoPNetConfig(
    STProtoPNetArchitecture(dim=8, prototypes_per_class=2, upsampling=1, cells="normalized"),
    optimization=Optimization(
        epochs=6, warm_up_epochs=1, batch_size=8, views=2, lr_backbone=3e-3, lr_add_on=1e-2, lr_prototypes=1e-2
    ),
    replacement=Replacement(start=3, every=3, unique="none", assignment="nearest_first", head_epochs=2),
)
# The state after every step of the run below: stage, number of the step in its epoch, tensors by name.
STATES: list[tuple[str, int, dict[str, Tensor]]] = []


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    squares = draw_pictures(tmp_path_factory.mktemp("st") / "squares")
    return RunConfig(member="stprotopnet", data=f"folder:{squares}", backbone="small-21", size=32, settings=SETTINGS)


@pytest.fixture(scope="module")
def trained(config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    def after_step(fitting: Fitting) -> None:
        state = {name: tensor.clone() for name, tensor in fitting.model.state_dict().items()}
        STATES.append((fitting.epoch.stage.name, fitting.step_number, state))

    return trained_run(config, tmp_path_factory.mktemp("runs") / "st", after_step)


# Numbers ----------------------------------------------------------------------------------------------------------


def test_the_defaults_are_the_published_numbers() -> None:
    result = STProtoPNetConfig()
    architecture, losses, optim = result.architecture, result.losses, result.optimization
    assert (architecture.dim, architecture.prototypes_per_class, architecture.upsampling) == (64, 5, 2)
    assert (architecture.own_weight, architecture.other_weight, architecture.branches) == (1.0, -0.5, "both")
    assert (losses.cluster_weight, losses.separation_trivial, losses.separation_support) == (0.8, 0.08, 0.48)
    assert (losses.orthonormality, losses.discrimination, losses.closeness) == (1e-3, 1.0, 1.0)
    assert losses.off_class_l1 == 1e-4
    assert (optim.epochs, optim.warm_up_epochs, optim.weight_decay) == (120, 10, 1e-4)
    assert (optim.lr_schedule, optim.lr_step_epochs, optim.lr_step_factor) == ("steps", 20, 0.2)
    assert (optim.lr_backbone, optim.lr_add_on, optim.lr_prototypes, optim.lr_head) == (1e-4, 3e-3, 3e-3, 1e-4)
    assert (result.replacement.start, result.replacement.every, result.replacement.head_epochs) == (100, 10, 10)
    assert replace(PRESETS["paper"], frame=None) == result
    assert PRESETS["support"].architecture.branch_names == ("support",)


def test_the_stages_are_the_published_ones_and_a_last_replacement() -> None:
    assert [(stage.name, stage.epochs) for stage in stages(STProtoPNetConfig())] == [
        ("warm_up", 10), ("joint", 90), ("head", 10), ("joint", 10), ("head", 10), ("joint", 10), ("head", 10),
    ]  # fmt: skip


def test_rates_on_crops_fall_four_times_and_stay() -> None:
    crops = PRESETS["crops"]
    assert (crops.optimization.epochs, crops.optimization.weight_decay, crops.replacement.start) == (30, 5e-4, 20)
    rate = next(stage for stage in stages(crops) if stage.name == "joint").rate
    assert [round(rate(epoch), 6) for epoch in (5, 6, 7, 9, 11, 13, 15, 29)] == [
        1, 1, 0.2, 0.04, 0.008, 0.0016, 0.0016, 0.0016,
    ]  # fmt: skip


def test_terms_belong_to_the_branches_that_there_are() -> None:
    both, alone = (
        {term.name: (term.weight, term.branch) for term in stages(PRESETS[name])[1].losses}
        for name in ("paper", "support")
    )
    assert both["separation_trivial"] == (0.08, "trivial")
    assert both["separation_support"] == (0.48, "support")
    assert (both["discrimination"], both["closeness"]) == ((1.0, "trivial"), (1.0, "support"))
    assert set(both) - set(alone) == {"separation_trivial", "discrimination"}


@pytest.mark.parametrize(
    ("images", "upsampling", "kinds"),
    [
        ("full", 2, [nn.Upsample, nn.Conv2d, nn.Identity, nn.Conv2d, nn.Identity]),
        ("full", 1, [nn.Conv2d, nn.Identity, nn.Conv2d, nn.Identity]),
        ("crops", 2, [nn.Conv2d, nn.Tanh, nn.Conv2d, nn.Tanh]),
    ],
)
def test_add_ons_are_the_published_ones(images: Any, upsampling: int, kinds: list[type]) -> None:
    made = MEMBER.parts(STProtoPNetArchitecture(images=images, upsampling=upsampling), (8,), 2)
    assert [[type(layer) for layer in add_on.children()] for add_on in made.add_ons] == [kinds, kinds]
    assert made.cuts == (0, 0)
    assert made.branches == ("trivial", "support")


# Pairs of prototypes ----------------------------------------------------------------------------------------------


def pairs(bases: Array, choose: Any) -> float:
    """The mean over ordered pairs of different classes of the chosen scalar product, in loops."""
    result = []
    for a, one in enumerate(bases):
        for b, other in enumerate(bases):
            if a != b:
                result.append(choose(float(p @ q) for p in one for q in other))
    return float(np.mean(result))


@given(st.integers(0, 10_000), st.integers(2, 4), st.integers(1, 3))
def test_pairs_are_those_of_loops_over_classes(seed: int, classes: int, protos: int) -> None:
    bases = np.random.default_rng(seed).normal(size=(classes, protos, 4))
    assert closest_pairs(torch.from_numpy(bases)).item() == pytest.approx(pairs(bases, max))
    assert farthest_pairs(torch.from_numpy(bases)).item() == pytest.approx(pairs(bases, min))


def test_gradients_of_pairs_agree_with_finite_differences() -> None:
    torch.manual_seed(0)
    bases = torch.randn(3, 2, 4).double()
    for loss in (closest_pairs, farthest_pairs):
        torch.testing.assert_close(gradient(loss, bases), slope(loss, bases), rtol=1e-6, atol=1e-9)


# Branches ---------------------------------------------------------------------------------------------------------


def step_of(architecture: STProtoPNetArchitecture, cells: Tensor, labels: list[int], branch: str) -> Step:
    """A step of one branch whose embeddings are given."""
    torch.manual_seed(3)
    made = branch_of(MEMBER.parts(architecture, (cells.shape[1],), 2), branch)
    for comparison in made.comparisons:
        comparison.double()
    matches = matches_of(tuple(comparison(cells) for comparison in made.comparisons))
    logits = made.decision.double()(matches)
    return Step(logits, torch.tensor(labels), made, matches, (cells,), branch=branch)


def by_hand(cells: Array, prototypes: Array, images: str) -> tuple[Array, Array]:
    """Scores, and what losses pull on, for each image and prototype, in loops over cells."""
    batch, _, rows, cols = cells.shape
    scores = np.full((batch, len(prototypes)), -np.inf)
    pulled = np.zeros((batch, len(prototypes)))
    for n, j, y, x in np.ndindex(batch, len(prototypes), rows, cols):
        cell, prototype = cells[n, :, y, x], prototypes[j]
        projection = float(cell @ prototype) / math.sqrt(prototype @ prototype)
        cosine = projection / math.sqrt(cell @ cell)
        scores[n, j] = max(scores[n, j], max(0.0, cosine) if images == "full" else projection)
        pulled[n, j] = max(pulled[n, j], cosine)
    return scores, pulled


@pytest.mark.parametrize("images", ["full", "crops"])
@given(seed=st.integers(0, 10_000))
def test_scores_and_losses_of_a_branch_are_those_of_loops(images: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells, labels = rng.normal(size=(3, 4, 2, 3)), [0, 1, 1]
    architecture = STProtoPNetArchitecture(dim=4, prototypes_per_class=2, images=images)
    step = step_of(architecture, torch.from_numpy(cells), labels, "support")
    prototypes = step.parts.comparisons[0].prototypes.detach().flatten(1).numpy()
    scores, pulled = by_hand(cells, prototypes, images)
    np.testing.assert_allclose(step.required_matches.scores.detach().numpy(), scores, atol=1e-12)
    own = np.repeat(np.array([[True, False], [False, True], [False, True]]), 2, axis=1)
    assert cluster(step).item() == pytest.approx(-np.where(own, pulled, -np.inf).max(axis=1).mean())
    assert separation(step).item() == pytest.approx(np.where(own, -np.inf, pulled).max(axis=1).mean())
    weights = np.where(np.repeat(np.eye(2), 2, axis=1) > 0, 1.0, -0.5)
    np.testing.assert_allclose(step.logits.detach().numpy(), scores @ weights.T, atol=1e-6)
    bases = prototypes.reshape(2, 2, 4).astype(np.float64)
    assert discrimination(step).item() == pytest.approx(pairs(bases, max))
    assert closeness(step).item() == pytest.approx(-pairs(bases, min))


@pytest.mark.parametrize("images", ["full", "crops"])
def test_gradients_of_a_branch_agree_with_finite_differences(images: Any) -> None:
    torch.manual_seed(1)
    architecture = STProtoPNetArchitecture(dim=3, prototypes_per_class=2, images=images)

    def loss(cells: Tensor) -> Tensor:
        step = step_of(architecture, cells, [0, 1], "trivial")
        return cluster(step) + 0.3 * separation(step) + step.logits.square().sum()

    cells = torch.randn(2, 3, 2, 2).double()
    torch.testing.assert_close(gradient(loss, cells), slope(loss, cells), rtol=1e-5, atol=1e-8)


def test_logits_of_heads_are_added_and_reasons_name_all_prototypes() -> None:
    ownership = OneClassEach(torch.tensor([0, 1, 0, 1]), 2)
    decision = AddedHeads(ownership, [2, 2], 1.0, -0.5)
    decision.head(1).weight.data = torch.tensor([[2.0, 0.25], [-1.0, 3.0]])
    scores = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    # 1 - 1 + 6 + 1 and -0.5 + 2 - 3 + 12.
    assert decision.logits(scores).tolist() == [[7.0, 10.5]]
    reasons = decision.reasons(scores[0], [0, 1])
    assert reasons.logits(scores[0]).tolist() == [7.0, 10.5]
    assert decision.off_class().tolist() == [-0.5, -0.5, 0.25, -1.0]
    assert decision.size() == (4, 8)


def test_a_term_of_another_branch_is_left_out() -> None:
    cells = torch.rand(2, 3, 2, 2).double()
    step = step_of(STProtoPNetArchitecture(dim=3, prototypes_per_class=1), cells, [0, 1], "trivial")
    terms = [LossTerm("own", 2.0, cluster, "trivial"), LossTerm("other", 5.0, separation, "support")]
    result = loss_of(step, terms)
    assert set(result.terms) == {"own"}
    assert result.total.item() == pytest.approx(2 * cluster(step).item())


# Replacement ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("images", "winner"), [("full", (0, 1)), ("crops", (1, 0))])
def test_full_images_give_the_patch_of_the_smallest_angle_and_crops_that_of_the_largest_projection(
    images: Any, winner: tuple[int, int]
) -> None:
    architecture = STProtoPNetArchitecture(dim=3, prototypes_per_class=1, images=images, upsampling=1)
    model = pixel_model("stprotopnet", architecture, classes=2, size=2)
    model.embed = lambda images: (images, images)  # type: ignore[method-assign]
    for grid in model.grids:
        grid.comparison.prototypes.data = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]).reshape(2, 3, 1, 1)
    pixels = torch.full((2, 3, 2, 2), 0.01)
    pixels[0, :, 0, 1] = torch.tensor([0.5, 0.0, 0.0])  # along the prototype, but short
    pixels[0, :, 1, 0] = torch.tensor([0.9, 0.9, 0.0])  # at 45 degrees, and long
    labels, ids = [0, 1], ["a", "b"]
    origins = replace_prototypes(
        model, batches_of(pixels, labels, ids, 1), entries_of(labels, ids), STProtoPNetConfig().replacement
    )
    assert [(origin.row, origin.col, origin.grid) for origin in origins if origin.label == 0] == [
        (*winner, 0), (*winner, 1),
    ]  # fmt: skip
    lengths = torch.cat([grid.comparison.prototypes.flatten(1).norm(dim=1) for grid in model.grids])
    torch.testing.assert_close(lengths, torch.ones(4))


# A run ------------------------------------------------------------------------------------------------------------


def test_a_small_run_learns_and_its_prototypes_are_unit_patches(trained: Trained) -> None:
    assert trained.metrics.validation.accuracy > 0.7
    for patch, origin in zip(trained.patches(), trained.model.origins or (), strict=True):
        grid = trained.model.grid_of(origin.prototype)
        prototype = grid.comparison.prototypes[origin.prototype - grid.first].flatten()
        torch.testing.assert_close(prototype, patch / patch.norm(), rtol=1e-4, atol=1e-5)


def test_even_batches_change_the_trivial_branch_and_odd_ones_the_support_branch(trained: Trained) -> None:
    del trained
    grids = [
        ("add_on.", "prototype_layer.", "head.heads.0."),
        ("add_on_2.", "prototype_layer_2.", "head.heads.1."),
    ]
    seen = set()
    for (_, _, before), (stage, number, after) in pairwise(STATES):
        if not number:  # replacement, or the first of an epoch
            continue
        # Scaling to length 1 again rounds.
        changed = {name for name in after if not torch.allclose(before[name], after[name], rtol=0, atol=1e-6)}
        turn, other = grids[number % 2], grids[1 - number % 2]
        assert any(name.startswith(turn) for name in changed)
        assert not any(name.startswith(other) for name in changed)
        seen.add((stage, number % 2))
    assert seen >= {("joint", 0), ("joint", 1), ("head", 0), ("head", 1)}


def test_learnt_prototypes_have_length_1_after_every_step(trained: Trained) -> None:
    del trained
    for _, _, state in STATES[2:]:
        for name in ("prototype_layer.prototypes", "prototype_layer_2.prototypes"):
            torch.testing.assert_close(state[name].flatten(1).norm(dim=1), torch.ones(6))


def test_an_epoch_of_one_batch_is_refused_before_anything_is_learnt(config: RunConfig, tmp_path: Path) -> None:
    optim = replace(SETTINGS.optimization, batch_size=1000, views=1)
    with pytest.raises(ValueError, match="--batch-size"):
        train(replace(config, settings=replace(SETTINGS, optimization=optim)), tmp_path / "run")


def test_support_alone_is_a_network_of_one_branch(config: RunConfig, tmp_path: Path) -> None:
    settings = replace(SETTINGS, architecture=replace(SETTINGS.architecture, branches="support", images="crops"))
    assert train(replace(config, settings=settings), tmp_path / "run") is not None
    model = PixPNet.load(tmp_path / "run")
    assert [grid.branch for grid in model.grids] == ["support"]
    assert "discrimination" not in (tmp_path / "run" / "log.csv").read_text().splitlines()[0]


def test_learnt_stages_keep_prototypes_in_shape() -> None:
    assert [keep_in_shape in stage.each_step for stage in stages(SETTINGS)] == [True, True, False, True, False]


def test_the_family_knows_it() -> None:
    assert member_named("stprotopnet").title == "ST-ProtoPNet"
