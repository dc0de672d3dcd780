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
from torch.utils._python_dispatch import TorchDispatchMode

from pixpnet import zoo
from pixpnet.box import Box
from pixpnet.config import RunConfig
from pixpnet.data import Preprocessing
from pixpnet.data.sample import NO_ANNOTATION, source_sample
from pixpnet.explanation import explain, prove
from pixpnet.explanation.text import sight_text
from pixpnet.family import member_named
from pixpnet.mapping import heatmaps
from pixpnet.mapping.relevance.errors import UnsupportedRelevance
from pixpnet.members.deformable import (
    MEMBER,
    PRESETS,
    DeformableArchitecture,
    DeformableConfig,
    DeformableLosses,
    stages,
)
from pixpnet.metrics.auditing.localization import check_localization
from pixpnet.model import Backbone, PixPNet
from pixpnet.model.backbone import WatchedMaps
from pixpnet.parts import Comparison, Deformable, Linear, OneClassEach, Parts, Step
from pixpnet.parts.deformable import (
    interpolated,
    offset_penalty,
    orthogonality_of_parts,
    part_orthogonality,
    unit_cells,
    unit_parts,
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
from tests.members.tiny import tiny_config
from tests.members.toys import Trained, trained_run
from tests.parts.numerics import Array, gradient, slope
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


def deformable(model: PixPNet) -> Deformable:
    comparison = model.grids[0].comparison
    assert isinstance(comparison, Deformable)
    return comparison


def moving(prototypes: Tensor, deviation: float = 0.02) -> Deformable:
    comparison = Deformable(prototypes, hidden=8, deviation=deviation).to(prototypes.dtype)
    comparison.moving.fill_(1.0)
    return comparison


# Numbers ----------------------------------------------------------------------------------------------------------


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


# Interpolation ----------------------------------------------------------------------------------------------------


def read_at(cells: Array, row: float, col: float) -> Array:
    """The root of the bilinear interpolation of squares of one image, zeros outside, cell by cell."""
    numbers, rows, cols = cells.shape
    total = np.zeros(numbers)
    for y in (math.floor(row), math.floor(row) + 1):
        for x in (math.floor(col), math.floor(col) + 1):
            if 0 <= y < rows and 0 <= x < cols:
                total += (1 - abs(row - y)) * (1 - abs(col - x)) * cells[:, y, x] ** 2
    return np.sqrt(total)


@given(st.integers(0, 10_000), st.floats(-4, 8), st.floats(-4, 8))
def test_interpolation_is_that_of_loops_over_cells(seed: int, row: float, col: float) -> None:
    cells = np.random.default_rng(seed).random((1, 3, 4, 5))
    found = interpolated(torch.from_numpy(cells), torch.tensor([[[row, col]]], dtype=torch.float64))
    np.testing.assert_allclose(found[0, 0].numpy(), read_at(cells[0], row, col), atol=1e-12)


@given(st.integers(0, 10_000), st.floats(0, 3), st.floats(0, 4))
def test_a_field_of_unit_length_has_unit_length_anywhere_inside(seed: int, row: float, col: float) -> None:
    cells = torch.from_numpy(np.random.default_rng(seed).random((1, 6, 4, 5)))
    unit = nn.functional.normalize(cells, dim=1)
    read = interpolated(unit, torch.tensor([[[row, col]]], dtype=torch.float64))
    assert read.norm().item() == pytest.approx(1.0, abs=1e-12)
    plain = nn.functional.grid_sample(
        unit, torch.tensor([[[[2 * col / 4 - 1, 2 * row / 3 - 1]]]], dtype=torch.float64), align_corners=True
    )
    assert plain.norm().item() <= 1 + 1e-9  # which plain interpolation loses


def test_gradients_of_interpolation_agree_with_finite_differences() -> None:
    torch.manual_seed(0)
    cells, weights = torch.rand(2, 3, 3, 4).double() + 0.1, torch.randn(2, 5, 3).double()
    places = torch.rand(2, 5, 2).double() * 4 - 0.9

    def of_cells(values: Tensor) -> Tensor:
        return (interpolated(values, places) * weights).sum()

    def of_places(values: Tensor) -> Tensor:
        return (interpolated(cells, values) * weights).sum()

    torch.testing.assert_close(gradient(of_cells, cells), slope(of_cells, cells), rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(gradient(of_places, places), slope(of_places, places), rtol=1e-5, atol=1e-7)


def test_gradients_are_finite_where_cells_are_0_and_parts_stand_still() -> None:
    cells = torch.relu(torch.randn(1, 4, 4, 4)).requires_grad_()
    comparison = moving(torch.rand(2, 4, 2, 2), deviation=0.0)
    comparison(cells).scores.sum().backward()
    assert cells.grad is not None
    assert cells.grad.isfinite().all()
    for parameter in comparison.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()


# The comparison ---------------------------------------------------------------------------------------------------


def by_hand(comparison: Deformable, cells: Array) -> tuple[Array, Array]:
    """Activations before the ReLU, and places, as FAMILY writes them, in loops and NumPy."""
    hidden, last = comparison.offset_hidden, comparison.offset_last
    first_weight, first_bias, last_weight, last_bias = (
        each.detach().numpy() for each in (hidden.weight, hidden.bias, last.weight, last.bias)
    )
    prototypes = comparison.prototypes.detach().numpy()
    batch, _, rows, cols = cells.shape
    whole = np.concatenate([cells, np.full((batch, 2, rows, cols), 1e-4)], axis=1)
    unit = whole / np.sqrt((whole**2).sum(axis=1, keepdims=True) + 1e-4)

    def convolved(values: Array, weight: Array, bias: Array) -> Array:
        padded = np.pad(values, ((0, 0), (0, 0), (1, 1), (1, 1)))
        down, across = weight.shape[2:]
        out = np.zeros((batch, len(weight), padded.shape[2] - down + 1, padded.shape[3] - across + 1))
        for y, x in np.ndindex(*out.shape[2:]):
            out[:, :, y, x] = np.einsum("bihw,oihw->bo", padded[:, :, y : y + down, x : x + across], weight) + bias
        return out

    offsets = convolved(np.maximum(convolved(32 * unit, first_weight, first_bias), 0), last_weight, last_bias)
    assert offsets.shape == (batch, 8, rows, cols)
    activations = np.zeros((batch, len(prototypes), rows, cols))
    places = np.zeros((batch, rows, cols, 4, 2))
    for n, y, x in np.ndindex(batch, rows, cols):
        for part, (down, across) in enumerate([(-1, -1), (-1, 1), (1, -1), (1, 1)]):
            place = (y + down + offsets[n, 2 * part, y, x], x + across + offsets[n, 2 * part + 1, y, x])
            places[n, y, x, part] = place
            read = read_at(unit[n], *place) * 64 / 2
            for j, prototype in enumerate(prototypes):
                vector = np.append(prototype[:, part // 2, part % 2], [1e-4, 1e-4])
                vector = vector / (math.sqrt((vector**2).sum() + 1e-4) + 1e-4) / 2
                activations[n, j, y, x] += read @ vector / (64 * 1.01)
    return activations, places


@pytest.mark.parametrize("seed", range(4))
def test_activations_are_those_of_loops_in_double_precision(seed: int) -> None:
    torch.manual_seed(seed)
    comparison = moving(torch.rand(4, 3, 2, 2).double())
    cells = torch.rand(2, 3, 4, 5).double()
    found = comparison(cells)
    activations, places = by_hand(comparison, cells.numpy())
    assert found.places is not None
    np.testing.assert_allclose(found.places.detach().numpy(), places, atol=1e-10)
    assert np.abs(places - np.round(places)).max() > 0.05
    np.testing.assert_allclose((1 - found.distance_maps.detach().numpy()) / 1.01, activations, atol=1e-10)
    np.testing.assert_allclose(found.scores.detach().numpy(), np.maximum(activations, 0).max(axis=(2, 3)), atol=1e-10)


def test_gradients_of_scores_agree_with_finite_differences() -> None:
    torch.manual_seed(5)
    comparison = moving(torch.rand(2, 3, 2, 2).double())
    weights = torch.randn(1, 2).double()

    def of_cells(cells: Tensor) -> Tensor:
        return (comparison(cells).scores * weights).sum()

    def of_prototypes(prototypes: Tensor) -> Tensor:
        return (torch.func.functional_call(comparison, {"prototypes": prototypes}, (cells,)).scores * weights).sum()

    def of_offsets(weight: Tensor) -> Tensor:
        return (torch.func.functional_call(comparison, {"offset_last.weight": weight}, (cells,)).scores * weights).sum()

    cells = torch.rand(1, 3, 4, 4).double() + 0.1
    for function, at in (
        (of_cells, cells),
        (of_prototypes, comparison.prototypes.detach()),
        (of_offsets, comparison.offset_last.weight.detach()),
    ):
        torch.testing.assert_close(gradient(function, at), slope(function, at), rtol=1e-4, atol=1e-7)


def test_cells_and_parts_have_length_1_and_two_small_channels() -> None:
    cells, parts = unit_cells(5 + torch.rand(1, 3, 2, 2)), unit_parts(5 + torch.rand(2, 3, 2, 2))
    assert (cells.shape[1], parts.shape) == (5, (2, 4, 5))
    torch.testing.assert_close(cells.norm(dim=1), torch.ones(1, 2, 2), rtol=0, atol=1e-5)
    torch.testing.assert_close(parts.norm(dim=2), torch.ones(2, 4), rtol=0, atol=1e-4)


def test_parts_stand_still_until_they_may_move() -> None:
    comparison = Deformable(torch.rand(1, 3, 2, 2), deviation=1.0)
    cells = torch.rand(1, 3, 4, 4)
    assert comparison(cells).places_at(0, (0, 0)) == ((-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0))
    comparison.moving.fill_(1.0)
    assert comparison(cells).places_at(0, (0, 0)) != ((-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0))


def test_a_prototype_that_is_a_patch_scores_as_much_as_any_can() -> None:
    torch.manual_seed(6)
    comparison, cells = moving(torch.rand(2, 3, 2, 2), 1e-3), 5 + torch.rand(3, 3, 5, 5)
    patches = comparison.patches(cells, torch.tensor([2, 0]), torch.tensor([12, 17]))
    assert patches.places.shape == (2, 4, 2)
    comparison.prototypes.data = patches.vectors.detach()
    maps = comparison.similarity(comparison(cells).distance_maps)
    assert [maps[2, 0, 2, 2].item(), maps[0, 1, 3, 2].item()] == pytest.approx([1 / 1.01] * 2, abs=3e-4)
    assert comparison.bounds() == pytest.approx((0.0, 1 / 1.01))


@given(st.integers(0, 10_000), st.floats(1e-3, 1.0))
def test_scores_after_prototypes_moved_lie_within_their_bounds(seed: int, far: float) -> None:
    torch.manual_seed(seed)
    comparison, cells = moving(torch.rand(3, 4, 2, 2)), torch.rand(2, 4, 4, 4)
    target = comparison.prototypes.detach() + far * torch.randn(3, 4, 2, 2)
    low, high = comparison.scores_after(comparison(cells).distances, target)
    comparison.prototypes.data = target
    scores = comparison(cells).scores.detach().double()
    assert bool(((low - 1e-6 <= scores) & (scores <= high + 1e-6)).all())


class Largest(TorchDispatchMode):
    """Remembers the largest tensor that any operation made."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for each in result if isinstance(result, tuple) else (result,):
            if isinstance(each, Tensor):
                self.numbers = max(self.numbers, each.numel())
        return result


def test_no_tensor_of_prototypes_and_cells_and_channels_is_made() -> None:
    comparison = moving(torch.rand(300, 16, 2, 2))
    with Largest() as largest:
        comparison(torch.rand(2, 16, 8, 8)).scores.sum().backward()
    assert largest.numbers <= 2 * 300 * 64  # maps; four parts of 18 numbers at each cell are fewer


# Margin and losses ------------------------------------------------------------------------------------------------


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


# What a patch sees ------------------------------------------------------------------------------------------------


def network(backbone: str, size: int, deviation: float = 2e-5) -> PixPNet:
    torch.manual_seed(0)
    architecture = DeformableArchitecture(upsampling=1, prototypes_per_class=2, deviation=deviation)
    cut = Backbone(zoo.build(backbone), "", (size, size))
    preprocessing = Preprocessing(None, size, size)
    model = PixPNet(cut, architecture, ("jay", "wren"), preprocessing, member="deformable").eval()
    deformable(model).moving.fill_(1.0)
    return model


def picture(size: int) -> Any:
    pixels = np.random.default_rng(0).integers(0, 256, (size, size, 3), dtype=np.uint8)
    return source_sample(pixels, -1, "noise", NO_ANNOTATION, masks=None)


def test_the_region_is_the_offset_networks_field_and_that_of_every_cell_that_is_read() -> None:
    model = network("small-21", 160)
    comparison, (field,) = deformable(model), model.fields
    cells = field.inner
    assert cells is not None

    def united(read: set[tuple[int, int]]) -> set[tuple[int, int]]:
        return {
            (y, x)
            for cell in read
            for y0, x0, y1, x1 in cells.boxes(*cell)
            for y in range(y0, y1)
            for x in range(x0, x1)
        }

    def pixels(boxes: tuple[Box, ...]) -> set[tuple[int, int]]:
        found = [(y, x) for y0, x0, y1, x1 in boxes for y in range(y0, y1) for x in range(x0, x1)]
        assert len(found) == len(set(found))  # disjoint
        return set(found)

    around = {(y, x) for y in range(8, 13) for x in range(1, 6)}
    near = ((9.4, 2.3), (9.0, 4.9), (11.9, 2.0), (11.0, 4.99))
    assert pixels(comparison.region((10, 3), field, near)) == united(around)
    far = ((2.5, 2.3), (9.0, 4.9), (11.9, -7.0), (19.2, 17.0))
    read = {(2, 2), (2, 3), (3, 2), (3, 3), (19, 17), (19, 18)}
    assert pixels(comparison.region((10, 3), field, far)) == united(around | read)
    with pytest.raises(ValueError, match="4 parts"):
        comparison.region((10, 3), field, near[:2])


@pytest.mark.parametrize("deviation", [2e-5, 0.02, 0.2])
def test_the_proof_holds_however_far_parts_move(deviation: float) -> None:
    model, sample = network("small-21", 160, deviation), picture(160)
    proven = prove(model, sample, explain(model, sample), draws=3)
    terms = [term for explained in proven.classes for term in explained.terms]
    proofs = [term.proof for term in terms if term.proof is not None]
    assert all(proof.tested and proof.passed for proof in proofs)
    # The paper's own box stands beside it. (In noise it is often nearly the whole image.)
    assert all(proof.upsampling.region != proof.field.region for proof in proofs)
    resting = [model.grids[0].comparison.region(term.cell, model.fields[0]) for term in terms]
    grown = [set(term.region) != set(rest) for term, rest in zip(terms, resting, strict=True)]
    if deviation == 0.2:
        assert any(grown)
        # What parts would see that do not move is not enough.
        rest = tuple(
            replace(term, region=region) for term, region in zip(proven.classes[0].terms, resting, strict=False)
        )
        first = replace(proven.classes[0], terms=rest)
        short = prove(model, sample, replace(proven, classes=(first, *proven.classes[1:])), draws=3)
        assert any(
            not term.proof.passed
            for term, more in zip(short.classes[0].terms, grown, strict=False)
            if term.proof and more
        )


def test_pixels_outside_a_region_get_no_gradient_from_the_similarity_at_its_cell() -> None:
    model = network("small-21", 160, 0.05)
    image = torch.randn(1, 3, 160, 160, requires_grad=True)
    found = model(image).matches.grids[0]
    for cell in ((0, 0), (7, 11), (19, 19)):
        (slopes,) = torch.autograd.grad(found.distance_maps[0, 0, cell[0], cell[1]], image, retain_graph=True)
        region = model.grids[0].comparison.region(cell, model.fields[0], found.places_at(0, cell))
        outside = torch.ones(160, 160, dtype=torch.bool)
        for y0, x0, y1, x1 in region:
            outside[y0:y1, x0:x1] = False
        assert outside.any()
        assert not slopes[0, :, outside].any()
        assert slopes.any()


def test_maps_by_fields_are_painted_on_what_patches_see_of_this_image() -> None:
    model = network("small-21", 96, 0.2)
    image = torch.randn(3, 96, 96)
    maps = heatmaps(model, image, [0, 3], mapping="field")
    regions = heatmaps(model, image, [0, 3], mapping="upsampling").regions
    assert maps.regions != regions
    for painted, region in zip(maps.maps, maps.regions, strict=True):
        inside = torch.zeros(96, 96, dtype=torch.bool)
        for y0, x0, y1, x1 in region:
            inside[y0:y1, x0:x1] = True
        assert bool((painted[inside] > 0).all())


def test_relevance_is_refused_clearly() -> None:
    model = network("small-21", 96)
    with pytest.raises(UnsupportedRelevance, match="offset network"):
        heatmaps(model, torch.randn(3, 96, 96), [0], mapping="prp")


def test_the_audit_says_of_which_patches_it_speaks_and_its_probe_agrees() -> None:
    model = network("small-21", 96)
    found = check_localization(model, None, threshold=0.9, pixels=3)
    assert found.disagreements == 0
    assert "move by less than a cell" in found.findings[0].evidence
    sample = picture(96)
    assert "move by less than a cell" in " ".join(sight_text(explain(model, sample)))


# Refusals and runs ------------------------------------------------------------------------------------------------


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
