"""TesNet: its numbers, its stages, replacement by projection, and a small run."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pixpnet.config import RunConfig
from pixpnet.family import member_named
from pixpnet.members.tesnet import MEMBER, PRESETS, TesNetArchitecture, TesNetConfig, stages
from pixpnet.model import PixPNet
from pixpnet.settings import Optimization, Replacement
from pixpnet.training import replace_prototypes, resume, train
from pixpnet.training.actions import Replace, keep_in_shape
from pixpnet.training.fitting import Fitting
from pixpnet.training.watching import Nobody
from tests.members.toys import Trained, pixel_model, trained_run
from tests.training.material import batches_of, draw_pictures, entries_of
from tests.training.sameness import same

SETTINGS = TesNetConfig(
    TesNetArchitecture(dim=8, prototypes_per_class=2, cells="normalized"),
    optimization=Optimization(
        epochs=6, warm_up_epochs=1, batch_size=8, views=2, lr_backbone=3e-3, lr_add_on=1e-2, lr_prototypes=1e-2
    ),
    replacement=Replacement(start=3, every=3, unique="none", assignment="nearest_first", head_epochs=1),
)


# Of prototypes after every step of the run below, and in which stage.
LENGTHS: list[tuple[str, torch.Tensor]] = []


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    squares = draw_pictures(tmp_path_factory.mktemp("tesnet") / "squares")
    return RunConfig(member="tesnet", data=f"folder:{squares}", backbone="small-21", size=32, settings=SETTINGS)


@pytest.fixture(scope="module")
def trained(config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    def after_step(fitting: Fitting) -> None:
        LENGTHS.append((fitting.epoch.stage.name, fitting.model.prototypes.detach().flatten(1).norm(dim=1)))

    return trained_run(config, tmp_path_factory.mktemp("runs") / "tesnet", after_step)


# Numbers ----------------------------------------------------------------------------------------------------------


def test_the_defaults_are_the_published_numbers() -> None:
    result = TesNetConfig()
    assert (result.architecture.dim, result.architecture.prototypes_per_class) == (64, 10)
    assert (result.architecture.own_weight, result.architecture.other_weight) == (1.0, -0.5)
    losses = result.losses
    assert (losses.cluster_weight, losses.separation_weight, losses.off_class_l1) == (0.8, 0.08, 1e-4)
    assert (losses.orthonormality, losses.subspace_separation) == (1e-4, 1e-7)
    optim = result.optimization
    assert (optim.epochs, optim.warm_up_epochs, optim.lr_schedule, optim.lr_step_epochs) == (20, 5, "steps", 5)
    assert (optim.lr_backbone, optim.lr_add_on, optim.lr_prototypes, optim.lr_head) == (1e-4, 3e-3, 3e-3, 1e-4)
    assert (result.replacement.start, result.replacement.head_epochs) == (10, 20)
    assert replace(PRESETS["paper"], frame=None) == result
    assert set(PRESETS) == {"paper", "laptop", "scratch", "frozen", "tail"}


def test_naming_the_member_imports_no_torch() -> None:
    code = (
        "import sys; from pixpnet.family import member_named; member_named('tesnet'); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_head_without_epochs_of_its_own_is_refused() -> None:
    with pytest.raises(ValueError, match="head-epochs"):
        replace(TesNetConfig(), replacement=Replacement())


def test_stages_are_warm_up_joint_replacement_head_and_again() -> None:
    result = stages(TesNetConfig())
    assert [(stage.name, stage.epochs) for stage in result] == [
        ("warm_up", 5), ("joint", 5), ("head", 20), ("joint", 10), ("head", 20),
    ]  # fmt: skip
    assert [any(isinstance(action, Replace) for action in stage.at_end) for stage in result] == [
        False, True, False, True, False,
    ]  # fmt: skip
    assert [keep_in_shape in stage.each_step for stage in result] == [True, True, False, True, False]
    assert {term.name: term.weight for term in result[1].losses} == {
        "cross_entropy": 1.0,
        "cluster": 0.8,
        "separation": 0.08,
        "off_class_l1": 1e-4,
        "orthonormality": 1e-4,
        "subspace_separation": 1e-7,
    }


def test_weights_decay_in_backbone_and_add_on_only() -> None:
    model = pixel_model("tesnet", TesNetArchitecture(dim=3), classes=2, size=4)
    result = MEMBER.groups(model, TesNetConfig(), {})
    assert {name: group.weight_decay for name, group in result.items()} == {
        "backbone": 1e-3, "add_on": 1e-3, "prototypes": 0.0, "head": 0.0,
    }  # fmt: skip


# Replacement --------------------------------------------------------------------------------------------------------


def test_a_prototype_becomes_the_patch_with_the_largest_projection_and_not_with_the_smallest_angle() -> None:
    model = pixel_model("tesnet", TesNetArchitecture(dim=3, prototypes_per_class=1), classes=2, size=2)
    model.prototypes.data = torch.tensor([[5.0, 0.0, 0.0], [0.0, 2.0, 0.0]]).reshape(2, 3, 1, 1)
    images = torch.zeros(2, 3, 2, 2)
    images[0, :, 0, 1] = torch.tensor([0.5, 0.0, 0.0])  # along the prototype, but short
    images[0, :, 1, 0] = torch.tensor([0.9, 0.9, 0.0])  # at 45 degrees, and long
    images[1, :, 1, 1] = torch.tensor([1.0, 0.3, 0.0])
    labels, ids = [0, 1], ["a", "b"]
    replacement = TesNetConfig().replacement
    origins = replace_prototypes(model, batches_of(images, labels, ids, 1), entries_of(labels, ids), replacement)
    assert [(origin.image, origin.row, origin.col) for origin in origins] == [("a", 1, 0), ("b", 1, 1)]
    # The patch itself takes the place, at its own length.
    torch.testing.assert_close(model.prototypes.data[0].flatten(), torch.tensor([0.9, 0.9, 0.0]), rtol=0, atol=0)
    assert [origin.distance for origin in origins] == pytest.approx([-0.9, -0.3])


@pytest.mark.parametrize("seed", range(5))
def test_replacement_agrees_with_a_search_through_all_cells_of_the_class(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = pixel_model("tesnet", TesNetArchitecture(dim=3, prototypes_per_class=2), classes=2, size=3)
    prototypes = rng.normal(size=(4, 3)).astype(np.float32)
    model.prototypes.data = torch.from_numpy(prototypes)[:, :, None, None].clone()
    images, labels = rng.random((6, 3, 3, 3)).astype(np.float32), [0, 1, 0, 1, 1, 0]
    ids = [f"{n}" for n in range(6)]
    origins = replace_prototypes(
        model, batches_of(torch.from_numpy(images), labels, ids, 2), entries_of(labels, ids), TesNetConfig().replacement
    )
    for j, origin in enumerate(origins):
        best = max(
            (float(images[n, :, y, x] @ prototypes[j]), -n, -y, -x)
            for n in range(6)
            if labels[n] == j // 2
            for y in range(3)
            for x in range(3)
        )
        assert (origin.image, origin.row, origin.col) == (ids[-best[1]], -best[2], -best[3])


# A run --------------------------------------------------------------------------------------------------------------


def test_a_small_run_learns_and_its_prototypes_are_patches(trained: Trained) -> None:
    assert trained.metrics.validation.accuracy > 0.7
    assert trained.model.origins is not None
    for prototype, patch, origin in zip(
        trained.model.prototypes.flatten(1), trained.patches(), trained.model.origins, strict=True
    ):
        torch.testing.assert_close(prototype, patch, rtol=1e-4, atol=1e-5)
        assert origin.label == int(trained.model.labels[origin.prototype])


def test_a_saved_model_gives_the_same_logits_again_and_again(trained: Trained, tmp_path: Path) -> None:
    path, images = tmp_path / "model.safetensors", trained.images()
    trained.model.save(path)
    with torch.no_grad():
        first, second, third = trained.model(images), PixPNet.load(path)(images), trained.model(images)
    assert torch.equal(first.logits, second.logits)
    assert torch.equal(first.logits, third.logits)
    weights = trained.model.head.reasons(first.matches.scores[0], [0, 1, 2]).weights
    torch.testing.assert_close(weights @ first.matches.scores[0], first.logits[0], rtol=1e-5, atol=1e-5)


def test_prototypes_have_length_1_after_every_step_in_which_they_learn(trained: Trained) -> None:
    learning = [length for stage, length in LENGTHS if stage != "head"]
    assert len(learning) == 6 * 6
    torch.testing.assert_close(torch.stack(learning), torch.ones(36, 6))
    # In the head's epochs they are the patches themselves.
    assert any((length - 1).abs().max() > 0.01 for stage, length in LENGTHS if stage == "head")


def test_an_interrupted_run_ends_bit_for_bit_like_one_that_was_not(trained: Trained, tmp_path: Path) -> None:
    class Stopping(Nobody):
        """Stops behind a replacement, where patches wait to be scaled."""

        def epoch_ended(self, line: Any) -> None:
            if line.epoch == 4:
                raise KeyboardInterrupt

    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(trained.config, out, Stopping())
    assert resume(out) is not None
    same(trained.path, out)


def test_the_family_knows_it() -> None:
    assert member_named("tesnet").title == "TesNet"
