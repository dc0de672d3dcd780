"""Deformable ProtoPNet: its numbers, parts that move, interpolation that keeps lengths, the margin, true regions."""

import math
from dataclasses import replace
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
from pixpnet.members.deformable import (
    MEMBER,
    PRESETS,
    DeformableArchitecture,
    DeformableConfig,
    DeformableLosses,
    stages,
)
from pixpnet.model import PixPNet
from pixpnet.model.backbone import WatchedMaps
from pixpnet.parts import Comparison, Deformable, Linear, OneClassEach, Parts, Step
from pixpnet.parts.deformable import (
    offset_penalty,
    orthogonality_of_parts,
    part_orthogonality,
    with_margin,
)
from pixpnet.parts.matches import matches_of
from pixpnet.settings import Optimization, Replacement
from pixpnet.training import train
from pixpnet.training.actions import Replace
from pixpnet.training.features import FeatureBatch
from pixpnet.training.fitting import Fitting
from pixpnet.training.preparing import prepare
from pixpnet.training.run import Run
from pixpnet.training.run_data import open_run_data
from pixpnet.training.stages import Epoch
from pixpnet.training.watching import Nobody
from tests.members.deformable_toys import by_hand, deformable, moving, network
from tests.members.tiny import tiny_config
from tests.members.toys import Trained, trained_run
from tests.parts.numerics import gradient, slope
from tests.training.material import draw_pictures

SETTINGS = DeformableConfig(
    DeformableArchitecture(prototypes_per_class=2, upsampling=1, hidden=16, deviation=0.01, cells="normalized"),
    optimization=Optimization(epochs=8, warm_up_epochs=2, batch_size=8, views=3, lr_backbone=3e-3, lr_prototypes=3e-2),
    replacement=Replacement(start=7, every=1, unique="none", assignment="nearest_first"),
    prototype_epochs=1,
    lr_offsets=1e-3,
)


# After every step of the run below: stage, and how far parts have moved.
MOVED: list[tuple[str, float, Tensor]] = []


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    squares = draw_pictures(tmp_path_factory.mktemp("deformable") / "squares")
    return RunConfig(member="deformable", data=f"folder:{squares}", backbone="small-21", size=32, settings=SETTINGS)


@pytest.fixture(scope="module")
def trained(config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    def after_step(fitting: Fitting) -> None:
        comparison = deformable(fitting.model)
        with torch.no_grad():
            places = comparison(torch.rand(1, 96, 4, 4)).places
            resting = Deformable(torch.rand(1, 3, 2, 2))(torch.rand(1, 3, 4, 4)).places
        assert places is not None
        assert resting is not None
        weight = comparison.offset_hidden.weight.detach().clone()
        MOVED.append((fitting.epoch.stage.name, float((places - resting).abs().max()), weight))

    return trained_run(config, tmp_path_factory.mktemp("runs") / "deformable", after_step)


def test_the_defaults_are_the_published_numbers() -> None:
    found = DeformableConfig()
    architecture, losses, optim = found.architecture, found.losses, found.optimization
    assert (architecture.prototypes_per_class, architecture.upsampling, architecture.hidden) == (6, 2, 128)
    assert (architecture.own_weight, architecture.other_weight, architecture.deviation) == (1.0, -0.5, 2e-5)
    assert (losses.cluster_weight, losses.separation_weight, losses.margin) == (0.8, 0.08, 0.1)
    assert (losses.orthogonality, losses.offset_penalty, losses.orthogonality_groups) == (0.1, 0.8, "class")
    assert (optim.epochs, optim.warm_up_epochs, found.prototype_epochs) == (31, 10, 5)
    assert (optim.lr_schedule, optim.lr_step_epochs, optim.lr_step_factor) == ("steps", 5, 0.2)
    assert (optim.lr_backbone, optim.lr_prototypes, found.lr_offsets) == (1e-4, 3e-3, 1e-4)
    assert replace(PRESETS["paper"], frame=None) == found
    assert set(PRESETS) == {"paper", "laptop", "scratch", "frozen", "tail"}


def test_prototypes_learn_alone_then_with_the_backbone_then_with_offsets() -> None:
    found = stages(DeformableConfig())
    assert [(stage.name, stage.epochs, stage.begins) for stage in found] == [
        ("warm_up", 5, 0), ("with_backbone", 5, 5), ("joint", 10, 10), ("joint", 10, 20), ("joint", 1, 30),
    ]  # fmt: skip
    assert [any(isinstance(action, Replace) for action in stage.at_end) for stage in found] == [
        False, False, True, True, True,
    ]  # fmt: skip
    assert [sorted(stage.learns - {"add_on", "prototypes"}) for stage in found[:3]] == [
        [], ["backbone"], ["backbone", "offsets"],
    ]  # fmt: skip
    assert {term.name for term in found[2].losses} - {term.name for term in found[1].losses} == {
        "orthogonality", "offset_penalty",
    }  # fmt: skip
    assert [round(found[2].rate(time), 6) for time in (10, 14.9, 15, 20)] == [1, 1, 0.2, 0.04]


def test_the_head_is_fixed_and_there_is_no_add_on_to_learn() -> None:
    model = network("small-21", 32)
    groups = MEMBER.groups(model, DeformableConfig(), {})
    assert not groups["head"].parameters
    assert not groups["add_on"].parameters
    assert (len(groups["offsets"].parameters), groups["offsets"].weight_decay) == (4, 0.0)
    assert groups["prototypes"].parameters == (model.prototypes,)


def test_where_the_backbone_does_not_learn_a_convolution_of_single_cells_may() -> None:
    model = network("small-21", 32, dim=5)
    assert len(MEMBER.groups(model, DeformableConfig(), {})["add_on"].parameters) == 2
    assert model.prototypes.shape[1:] == (5, 2, 2)
    with torch.inference_mode():
        (embeddings,) = model.embed(torch.randn(2, 3, 32, 32))
    assert embeddings.shape[1] == 5
    # Norm-preserving interpolation has no place for negative numbers.
    assert embeddings.min() >= 0 and embeddings.max() > 0
    for name in ("frozen", "tail"):
        assert PRESETS[name].architecture.dim is not None
    assert all(PRESETS[name].architecture.dim is None for name in ("paper", "laptop", "scratch"))
    with pytest.raises(ValueError, match="dim is at least 1, got 0"):
        DeformableArchitecture(dim=0)


@pytest.mark.parametrize("margin", [0.05, 0.1, 0.4])
def test_a_margin_costs_less_the_more_alike_everything_is(margin: float) -> None:
    # Why presets for backbones that do not learn have none: all cells alike is its cheapest way out.
    cosines = torch.linspace(0.6, 0.99, 40).double()[None]
    harder = with_margin(cosines / 1.01, 1 - cosines, torch.zeros(1, 40, dtype=torch.bool), margin)
    added = harder - cosines / 1.01
    assert (added > 0).all() and (added.diff() < 0).all()


@given(st.floats(-0.95, 0.985), st.booleans(), st.sampled_from([0.0, 0.1, 0.4]))
def test_the_margin_is_an_angle_for_other_classes_only(activation: float, own: bool, margin: float) -> None:
    distances = torch.tensor([[1 - 1.01 * activation]], dtype=torch.float64)
    scores = torch.tensor([[max(0.0, activation)]], dtype=torch.float64)
    found = with_margin(scores, distances, torch.tensor([[own]]), margin).item()
    nearer = math.cos(max(0.0, math.acos(activation) - margin))
    assert found == pytest.approx(max(0.0, activation) if own else max(0.0, nearer), abs=1e-9)


def test_the_margin_commutes_with_the_maximum_over_cells() -> None:
    maps = torch.rand(2, 3, 4, 4).double() * 1.5
    own = torch.zeros(2, 3, dtype=torch.bool)
    cells = (1 - maps.flatten(2)) / 1.01
    expected = torch.cos((torch.arccos(cells) - 0.1).clamp_min(0)).clamp_min(0).amax(dim=2)
    found = with_margin(torch.zeros(2, 3).double(), maps.flatten(2).amin(dim=2), own, 0.1)
    torch.testing.assert_close(found, expected)


def test_the_margin_is_there_in_training_only_and_accuracy_is_counted_without_it(
    config: RunConfig, tmp_path: Path
) -> None:
    fitting = prepare(config, open_run_data(config), Run(tmp_path / "run"), Nobody())
    stage = stages(SETTINGS)[0]
    images, labels = torch.randn(4, 3, 32, 32), torch.tensor([0, 1, 2, 0])
    fitting.model.eval()
    batch = FeatureBatch(images, labels, ("a", "b", "c", "d"), torch.eye(3).expand(4, 3, 3))
    with torch.no_grad():
        step, answer = stage.step(_Learner(fitting.model), batch), fitting.model(images)
    assert step.answers is not None
    torch.testing.assert_close(step.answers, answer.logits)
    assert (step.logits - answer.logits).abs().max() > 1e-3
    own = fitting.model.ownership.mask()[labels]
    torch.testing.assert_close(step.required_matches.scores[own], answer.matches.scores[own])
    assert bool((step.required_matches.scores[~own] > answer.matches.scores[~own]).all())


class _Learner:
    """As much of a training loop as a step asks for."""

    taken_from: tuple[str, ...] = ()
    step_number = current_epoch = 0
    steps_per_epoch = 1
    device = torch.device("cpu")

    def __init__(self, model: PixPNet) -> None:
        self.model = model
        self.epoch = Epoch(stages(SETTINGS)[0], 0)
        self.helpers: dict[str, nn.Module] = {}

    def learns(self, *modules: nn.Module) -> bool:
        return False

    def backbone_maps(self, images: Tensor) -> tuple[Tensor, ...]:
        return self.model.backbone.maps(images)

    def maps_and_watched(self, images: Tensor) -> WatchedMaps:
        raise NotImplementedError

    def taught(self, images: Tensor) -> Any:
        raise NotImplementedError

    def training_distances(self) -> Any:
        raise NotImplementedError

    def replace_prototypes(self, settings: Replacement) -> dict[str, float]:
        raise NotImplementedError


def step_of(comparison: Comparison, cells: Tensor, classes: int) -> Step:
    labels = torch.arange(classes).repeat_interleave(len(comparison.prototypes) // classes)
    ownership = OneClassEach(labels, classes)
    parts = Parts((), (comparison,), ownership, Linear(ownership, 1.0, -0.5, learns=False))
    return Step(
        torch.zeros(len(cells), classes), torch.zeros(len(cells)).long(), parts, matches_of((comparison(cells),))
    )


def test_the_offset_penalty_is_the_root_of_the_mean_square_and_has_a_gradient() -> None:
    torch.manual_seed(7)
    comparison, cells = moving(torch.rand(2, 3, 2, 2).double()), torch.rand(2, 3, 4, 4).double()
    _, places = by_hand(comparison, cells.numpy())
    resting = Deformable(torch.rand(1, 3, 2, 2).double()).double()(cells).places
    assert resting is not None
    expected = math.sqrt(((places - resting.detach().numpy()) ** 2).mean())
    step = step_of(comparison, cells, 2)
    assert offset_penalty(step).item() == pytest.approx(expected)

    def penalty(weight: Tensor) -> Tensor:
        found = torch.func.functional_call(comparison, {"offset_last.weight": weight}, (cells,))
        return offset_penalty(replace(step, matches=matches_of((found,))))

    weight = comparison.offset_last.weight.detach()
    found = gradient(penalty, weight)
    assert found.abs().max() > 1e-3
    torch.testing.assert_close(found, slope(penalty, weight), rtol=1e-4, atol=1e-7)


def test_orthogonality_is_by_class_and_the_published_grouping_is_another() -> None:
    rng = np.random.default_rng(8)
    prototypes = rng.normal(size=(6, 5, 2, 2))  # three classes of two
    comparison = Deformable(torch.from_numpy(prototypes)).double()
    step = step_of(comparison, torch.rand(1, 5, 4, 4).double(), 3)

    def expected(groups: list[list[int]]) -> float:
        total = 0.0
        for group in groups:
            vectors = [prototypes[j, :, y, x] for j in group for y in (0, 1) for x in (0, 1)]
            unit = np.stack([vector / np.linalg.norm(vector) for vector in vectors])
            total += ((unit @ unit.T - np.eye(len(unit))) ** 2).sum()
        return math.sqrt(total)

    by_class, published = expected([[0, 1], [2, 3], [4, 5]]), expected([[0, 1, 2], [3, 4, 5]])
    assert part_orthogonality(step).item() == pytest.approx(by_class)
    assert part_orthogonality(step, as_published=True).item() == pytest.approx(published)
    assert by_class != pytest.approx(published)
    groups = torch.randn(2, 3, 4).double()
    torch.testing.assert_close(gradient(orthogonality_of_parts, groups), slope(orthogonality_of_parts, groups))
    terms = {term.name: term for term in stages(DeformableConfig(losses=DeformableLosses()))[-1].losses}
    assert terms["orthogonality"].function(step).item() == pytest.approx(by_class)


def test_a_grid_that_is_too_small_is_refused_before_training(tmp_path: Path) -> None:
    config = tiny_config("deformable", "laptop", draw_pictures(tmp_path / "squares"), size=16)
    with pytest.raises(ValueError, match=r"2 x 2 cells"):
        prepare(config, open_run_data(config), Run(tmp_path / "run"), Nobody())


def test_a_small_run_learns_and_parts_move_in_the_joint_stage_only(trained: Trained) -> None:
    assert trained.metrics.validation.accuracy > 0.7
    assert {stage for stage, _, _ in MOVED} == {"warm_up", "with_backbone", "joint"}
    assert all((moved > 0) == (stage == "joint") for stage, moved, _ in MOVED)
    still = [weight for stage, _, weight in MOVED if stage != "joint"]
    assert all(torch.equal(weight, still[0]) for weight in still)
    assert not torch.equal(MOVED[-1][2], still[0])


def test_origins_know_where_parts_were_read_and_replaced_prototypes_are_what_was_compared(trained: Trained) -> None:
    model = PixPNet.load(trained.path)
    assert model.origins is not None
    assert all(len(origin.places) == 4 for origin in model.origins)
    assert deformable(model).moving.item() == 1.0


def test_an_origin_that_names_other_places_is_found_out(trained: Trained) -> None:
    from pixpnet.metrics.auditing.grounding import check_grounding

    model = PixPNet.load(trained.path)
    assert model.origins is not None
    data = open_run_data(trained.config)
    assert check_grounding(model, data).verdict == "holds"
    first = model.origins[0]
    moved = tuple((row + 0.1, col) for row, col in first.places)
    model.origins = (replace(first, places=moved), *model.origins[1:])
    assert 0 in check_grounding(model, data).failed


def test_it_learns_on_kept_features_too(config: RunConfig, tmp_path: Path) -> None:
    optim = replace(SETTINGS.optimization, frozen="all", warm_up_epochs=0)
    settings = replace(SETTINGS, optimization=optim, prototype_epochs=0)
    assert train(replace(config, settings=settings), tmp_path / "run") is not None


def test_the_family_knows_it() -> None:
    assert member_named("deformable").title == "Deformable ProtoPNet"
