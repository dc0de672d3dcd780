"""SDFA-SA: its numbers, weights that sum to K, the alignment of deep with shallow cells, and what it refuses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from pixpnet import zoo
from pixpnet.data import Preprocessing
from pixpnet.family import member_named
from pixpnet.members.sdfasa import MEMBER, PRESETS, SDFASAArchitecture, SDFASAConfig, SDFASALosses, ready, stages
from pixpnet.model import Backbone, PixPNet
from pixpnet.model.errors import CutError
from pixpnet.parts import OneClassEach, SimplexSum, Step
from pixpnet.parts.alignment import alignment, alignment_loss, fold_ratio
from pixpnet.parts.matches import matches_of
from pixpnet.settings import Optimization
from pixpnet.training import train
from pixpnet.training.actions import Replace, keep_in_shape
from pixpnet.training.preparing import prepare
from pixpnet.training.run import Run
from pixpnet.training.run_data import open_run_data
from pixpnet.training.watching import Nobody
from tests.members.tiny import tiny_config
from tests.parts.numerics import Array, gradient, slope
from tests.training.material import draw_pictures

# Numbers ----------------------------------------------------------------------------------------------------------


def test_the_defaults_are_the_published_numbers() -> None:
    result = SDFASAConfig()
    assert (result.architecture.dim, result.architecture.prototypes_per_class) == (64, 10)
    losses = result.losses
    assert (losses.cluster_weight, losses.separation_weight, losses.orthonormality) == (0.8, 0.08, 1e-4)
    assert (losses.alignment, losses.alignment_margin) == (0.5, 0.1)
    optim = result.optimization
    assert (optim.epochs, optim.warm_up_epochs, optim.batch_size, optim.weight_decay) == (12, 5, 80, 1e-3)
    assert (optim.lr_schedule, optim.lr_step_epochs, optim.lr_step_factor) == ("steps", 3, 0.2)
    assert (optim.lr_backbone, optim.lr_add_on, optim.lr_prototypes, optim.lr_head) == (1e-4, 3e-3, 3e-3, 1e-6)
    assert replace(PRESETS["paper"], frame=None) == result
    assert set(PRESETS) == {"paper", "laptop", "scratch", "frozen", "tail"}


def test_the_alignment_and_the_weights_come_with_the_joint_epochs_and_nothing_is_ever_replaced() -> None:
    warm, joint = stages(SDFASAConfig())
    assert (warm.name, warm.epochs, joint.name, joint.epochs) == ("warm_up", 5, "joint", 7)
    assert {term.name for term in joint.losses} - {term.name for term in warm.losses} == {"alignment"}
    assert joint.learns - warm.learns == {"backbone", "head"}
    assert not any(isinstance(action, Replace) for stage in (warm, joint) for action in stage.at_end)
    assert (warm.selectable, joint.selectable) == ("never", "every epoch")
    assert all(keep_in_shape in stage.each_step for stage in (warm, joint))


def test_weights_decay_in_backbone_and_add_on_only() -> None:
    groups = MEMBER.groups(network("small-21", "", 32), SDFASAConfig(), {})
    assert {name: (group.rate, group.weight_decay) for name, group in groups.items()} == {
        "backbone": (1e-4, 1e-3), "add_on": (3e-3, 1e-3), "prototypes": (3e-3, 0.0), "head": (1e-6, 0.0),
    }  # fmt: skip


def test_the_add_on_is_one_convolution_and_a_sigmoid() -> None:
    (add_on,) = MEMBER.parts(SDFASAArchitecture(), (8,), 2).add_ons
    assert [type(layer) for layer in add_on.children()] == [nn.Conv2d, nn.Sigmoid]


# The decision -----------------------------------------------------------------------------------------------------


def aggregated(weights: Array, scores: Array, owners: list[int], classes: int) -> Array:
    """logit_c = sum over own k of K softmax(w_c)_k a_k, in loops."""
    logits = np.zeros((len(scores), classes))
    for label in range(classes):
        own = [j for j, owner in enumerate(owners) if owner == label]
        exponentials = np.exp([weights[j] for j in own])
        for j, share in zip(own, exponentials / exponentials.sum(), strict=True):
            logits[:, label] += len(own) * share * scores[:, j]
    return logits


@given(st.integers(0, 10_000))
def test_logits_are_those_of_loops_and_weights_of_a_class_sum_to_their_number(seed: int) -> None:
    rng = np.random.default_rng(seed)
    owners = [0, 0, 1, 1, 2, 2, 0, 1, 2]  # as with two grids
    weights, scores = rng.normal(size=9), rng.normal(size=(4, 9))
    decision = SimplexSum(OneClassEach(torch.tensor(owners), 3), start=1.0).double()
    torch.testing.assert_close(decision.weights().sum(dim=1), torch.full((3,), 3.0).double())
    assert torch.equal(decision.weights()[decision.own], torch.ones(9).double())
    decision.weight.data = torch.from_numpy(weights)
    result = decision.weights()
    torch.testing.assert_close(result.sum(dim=1), torch.full((3,), 3.0).double())
    assert bool((result[decision.own] > 0).all())
    assert not result[~decision.own].any()
    np.testing.assert_allclose(
        decision.logits(torch.from_numpy(scores)).detach().numpy(), aggregated(weights, scores, owners, 3)
    )


def test_gradients_of_the_weights_agree_with_finite_differences() -> None:
    torch.manual_seed(0)
    decision = SimplexSum(OneClassEach(torch.tensor([0, 0, 0, 1, 1, 1]), 2), start=1.0).double()
    scores, mix, start = torch.randn(3, 6).double(), torch.randn(3, 2).double(), torch.randn(6).double()

    def loss(weights: Tensor) -> Tensor:
        values = torch.func.functional_call(decision, {"weight": weights}, (matches_like(scores),))
        return (values * mix).sum()

    torch.testing.assert_close(gradient(loss, start), slope(loss, start), rtol=1e-6, atol=1e-9)


def matches_like(scores: Tensor) -> Any:
    from pixpnet.parts import GridMatches

    cells = torch.zeros(scores.shape, dtype=torch.int64)
    return matches_of((GridMatches(scores, -scores, cells, -scores[..., None, None]),))


# The alignment ----------------------------------------------------------------------------------------------------


def aligned(deep: Array, shallow: Array, cells: Any, margin: float) -> float:
    """mean relu(|S_deep - S_shallow| - margin) over the rows of some cells, in loops over cells."""
    batch, _, rows, cols = deep.shape
    down, across = shallow.shape[2] // rows, shallow.shape[3] // cols
    values = []
    for n in range(batch):
        far = [deep[n, :, y, x] for y in range(rows) for x in range(cols)]
        near = [
            shallow[n, :, y * down : (y + 1) * down, x * across : (x + 1) * across].ravel()
            for y in range(rows)
            for x in range(cols)
        ]
        for cell in cells[n]:
            for other in range(rows * cols):
                pair = [
                    float(v[cell] @ v[other] / np.linalg.norm(v[cell]) / np.linalg.norm(v[other])) for v in (far, near)
                ]
                values.append(max(0.0, abs(pair[0] - pair[1]) - margin))
    return float(np.mean(values))


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.1, 0.4]))
def test_the_alignment_is_that_of_loops_over_cells(seed: int, margin: float) -> None:
    rng = np.random.default_rng(seed)
    deep, shallow = rng.normal(size=(2, 5, 2, 3)), rng.normal(size=(2, 4, 4, 9))
    cells = rng.integers(0, 6, size=(2, 3))
    result = alignment_loss(torch.from_numpy(deep), torch.from_numpy(shallow), torch.from_numpy(cells), margin)
    assert float(result) == pytest.approx(aligned(deep, shallow, cells, margin), rel=1e-9, abs=1e-12)


def test_the_deep_map_alone_learns_from_it() -> None:
    torch.manual_seed(1)
    shallow, cells = torch.randn(2, 4, 4, 4).double().requires_grad_(), torch.tensor([[0, 3], [2, 2]])

    def loss(deep: Tensor) -> Tensor:
        return alignment_loss(deep, shallow, cells, 0.05)

    deep = torch.randn(2, 3, 2, 2).double()
    torch.testing.assert_close(gradient(loss, deep), slope(loss, deep), rtol=1e-6, atol=1e-9)
    loss(deep.requires_grad_()).backward()
    assert shallow.grad is None


def test_it_is_read_at_the_cells_of_the_own_class() -> None:
    torch.manual_seed(2)
    model = network("small-21", "", 32).double()
    images, labels = torch.randn(3, 3, 32, 32).double(), torch.tensor([1, 0, 1])
    ready(model, SDFASAConfig())
    maps, watched = model.backbone.maps_and_watched(images)
    embeddings = model.add_on_of(maps)
    matches = model.match(embeddings)
    step = Step(model.head(matches), labels, model.parts, matches, embeddings, maps=maps, watched=watched)
    grid = matches.grids[0]
    cells = [grid.cells[n, 10 * int(label) : 10 * int(label) + 10].tolist() for n, label in enumerate(labels)]
    expected = aligned(maps[0].detach().numpy(), watched.numpy(), cells, 0.1)
    assert alignment(step, margin=0.1).item() == pytest.approx(expected)
    with pytest.raises(ValueError, match="watching_step"):
        alignment(replace(step, watched=None), margin=0.1)


# What is watched --------------------------------------------------------------------------------------------------


def network(backbone: str, at: str, size: int) -> PixPNet:
    torch.manual_seed(0)
    cut = Backbone(zoo.build(backbone), at, (size, size))
    return PixPNet(cut, SDFASAArchitecture(), ("jay", "wren"), Preprocessing().scaled_to(size), member="sdfasa").eval()


@pytest.mark.parametrize("at", ["stage3", "stage2,stage3"])
def test_the_watched_map_is_that_of_the_layer_and_the_others_are_as_without_it(at: str) -> None:
    backbone = Backbone(zoo.build("small-21"), at, (32, 32)).eval()
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        expected, shallow = backbone.maps(images), backbone.network.stage1(images)
        backbone.watch("stage1", (32, 32))
        maps, watched = backbone.maps_and_watched(images)
    assert all(torch.equal(one, other) for one, other in zip(maps, expected, strict=True))
    torch.testing.assert_close(watched, shallow)
    backbone.train()
    assert not backbone.maps_and_watched(images).watched.requires_grad


def test_kept_features_hold_the_watched_map() -> None:
    backbone = Backbone(zoo.build("small-21"), "stage3", (32, 32)).eval()
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        (expected,), shallow = backbone.maps(images), backbone.network.stage1(images)
        for frozen in ("stage2", "stage1"):
            backbone.watch("", (32, 32))
            backbone.freeze(frozen, (32, 32))
            backbone.watch("stage1", (32, 32))
            (maps,), watched = backbone.tail_and_watched(backbone.stem(images))
            torch.testing.assert_close(maps, expected)
            torch.testing.assert_close(watched, shallow)
            torch.testing.assert_close(backbone.tail_maps(backbone.stem(images))[0], expected)


@pytest.mark.parametrize(
    ("backbone", "layer"),
    [("resnet18", "layer1"), ("vgg19", "features.17"), ("densenet121", "features.denseblock1"), ("small", "stage1")],
)
def test_the_shallow_layer_is_the_published_one(backbone: str, layer: str) -> None:
    assert zoo.shallow_layer(zoo.build(backbone, device="meta")) == layer


def test_a_backbone_without_a_known_shallow_layer_says_so() -> None:
    with pytest.raises(zoo.UnknownModel, match=r"--losses.shallow-layer"):
        zoo.shallow_layer(zoo.build("squeezenet1_1", device="meta"))


@pytest.mark.parametrize("layer", ["stage3", "stage2", "nothing"])
def test_a_layer_that_does_not_lie_in_front_of_the_cut_is_refused_before_training(layer: str) -> None:
    config = SDFASAConfig(losses=SDFASALosses(shallow_layer=layer))
    with pytest.raises(CutError, match=r"in front of"):
        ready(network("small-21", "stage2", 32), config)


def test_shallow_cells_that_cannot_be_folded_are_refused_before_training(tmp_path: Path) -> None:
    assert fold_ratio((16, 12), (4, 4)) == (4, 3)
    # 36 pixels: 18 shallow rows, 5 deep ones.
    config = tiny_config("sdfasa", "laptop", draw_pictures(tmp_path / "squares"), size=36)
    with pytest.raises(ValueError, match=r"18 x 18 .* 5 x 5"):
        prepare(config, open_run_data(config), Run(tmp_path / "run"), Nobody())


def test_a_backbone_that_does_not_learn_cannot_be_aligned() -> None:
    frozen = Optimization(frozen="all", warm_up_epochs=0)
    with pytest.raises(ValueError, match=r"--losses.alignment 0"):
        SDFASAConfig(optimization=frozen)
    assert PRESETS["frozen"].losses.alignment == 0
    backbone = Backbone(zoo.build("small-21"), "stage3", (32, 32))
    backbone.freeze("all", (32, 32))
    with pytest.raises(CutError, match="--frozen"):
        backbone.watch("stage1", (32, 32))


# Runs -------------------------------------------------------------------------------------------------------------


def test_a_run_on_kept_features_aligns_and_ends_without_patches(tmp_path: Path) -> None:
    config = tiny_config("sdfasa", "tail", draw_pictures(tmp_path / "squares"))
    assert train(config, tmp_path / "run") is not None
    model = PixPNet.load(tmp_path / "run")
    assert model.origins is None
    assert "alignment" in (tmp_path / "run" / "log.csv").read_text().splitlines()[0]
    torch.testing.assert_close(model.prototypes.flatten(1).norm(dim=1), torch.ones(model.num_prototypes))


def test_the_family_knows_it() -> None:
    assert member_named("sdfasa").title == "SDFA-SA"
