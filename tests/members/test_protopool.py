"""ProtoPool: its numbers, its stages, replacement over all holders, and a small run."""

import math
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from pixpnet.config import RunConfig, config_from_plain, plain_config
from pixpnet.family import member_named
from pixpnet.members.protopool import (
    PRESETS,
    Annealing,
    FinalReplacement,
    ProtoPoolArchitecture,
    ProtoPoolConfig,
    ProtoPoolLosses,
    groups,
    stages,
)
from pixpnet.model import PixPNet
from pixpnet.parts import SlotDecision
from pixpnet.settings import Optimization, Replacement
from pixpnet.training import replace_prototypes, resume, train
from pixpnet.training.actions import Replace
from pixpnet.training.fitting import Fitting
from pixpnet.training.watching import Nobody
from tests.members.toys import Trained, pixel_model, trained_run
from tests.training.material import batches_of, draw_pictures, entries_of, in_child
from tests.training.sameness import same

NEAREST = Replacement(unique="none", assignment="nearest_first")
SETTINGS = ProtoPoolConfig(
    ProtoPoolArchitecture(dim=8, prototypes=12, slots=3, cells="normalized"),
    annealing=Annealing(epochs=4),
    optimization=Optimization(
        epochs=10,
        warm_up_epochs=2,
        batch_size=8,
        views=2,
        lr_backbone=3e-3,
        lr_add_on=1e-2,
        lr_prototypes=1e-2,
        lr_head=1e-2,
    ),
    replacement=FinalReplacement(head_epochs=4),
)


class State(NamedTuple):
    """Of the decision, after a step of learning."""

    epoch: int
    stage: str
    scale: float
    slots: Tensor
    weight: Tensor


STATES: list[State] = []


def slots_of(model: PixPNet) -> SlotDecision:
    assert isinstance(model.head, SlotDecision)
    return model.head


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    squares = draw_pictures(tmp_path_factory.mktemp("protopool") / "squares")
    return RunConfig(member="protopool", data=f"folder:{squares}", backbone="small-21", size=32, settings=SETTINGS)


@pytest.fixture(scope="module")
def trained(config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    def after_step(fitting: Fitting) -> None:
        decision = slots_of(fitting.model)
        slots, weight = decision.slots.detach().clone(), decision.weight.detach().clone()
        STATES.append(State(fitting.current_epoch, fitting.epoch.stage.name, decision.scale, slots, weight))

    return trained_run(config, tmp_path_factory.mktemp("runs") / "protopool", after_step)


# Numbers ----------------------------------------------------------------------------------------------------------


def test_the_defaults_are_the_published_numbers() -> None:
    result = ProtoPoolConfig()
    architecture, losses, optim = result.architecture, result.losses, result.optimization
    assert (architecture.prototypes, architecture.dim, architecture.slots) == (202, 256, 10)
    assert (architecture.temperature, architecture.epsilon) == (0.5, 1e-4)
    assert (architecture.own_weight, architecture.other_weight) == (1.0, 0.0)
    assert (losses.cluster_weight, losses.separation_weight, losses.off_class_l1) == (0.8, 0.08, 1e-4)
    assert (losses.orthogonality, losses.mixup) == (1.0, 0.5)
    assert result.annealing == Annealing(epochs=30, scale=1000.0, head_scale=10_000.0)
    assert (optim.warm_up_epochs, optim.lr_schedule, optim.lr_step_epochs, optim.lr_step_factor) == (
        10,
        "steps",
        5,
        0.1,
    )
    assert (optim.lr_backbone, optim.lr_add_on, optim.lr_prototypes, optim.lr_head) == (1e-4, 3e-3, 3e-3, 1e-4)
    assert result.replacement.head_epochs == 25
    assert replace(PRESETS["paper"], frame=None) == result
    assert set(PRESETS) == {"paper", "laptop", "scratch", "frozen", "tail"}


def test_naming_the_member_imports_no_torch() -> None:
    code = "import sys; import pixpnet.members.protopool; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("classes", "prototypes"), [(2, 20), (3, 20), (5, 20), (10, 40), (200, 800)])
def test_a_pool_that_suits_the_classes_has_four_prototypes_for_every_ten_slots(classes: int, prototypes: int) -> None:
    assert ProtoPoolArchitecture(prototypes=None).pool_size(classes) == prototypes


def test_a_pool_without_prototypes_for_others_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves none beside"):
        ProtoPoolArchitecture(prototypes=10, slots=10)


def test_there_is_one_replacement_at_the_end_whatever_the_epochs() -> None:
    settings = replace(ProtoPoolConfig(), optimization=replace(ProtoPoolConfig().optimization, epochs=47))
    for result, joint in ((stages(ProtoPoolConfig()), 20), (stages(settings), 37)):
        assert [(stage.name, stage.epochs) for stage in result] == [("warm_up", 10), ("joint", joint), ("head", 25)]
        assert [any(isinstance(action, Replace) for action in stage.at_end) for stage in result] == [False, True, False]


def test_rehearsed_replacements_come_after_the_last_epochs_and_the_head_learns_behind_the_last_one_only() -> None:
    settings = replace(ProtoPoolConfig(), replacement=FinalReplacement(rehearsals=2))
    plan = stages(settings)
    assert [(stage.name, stage.epochs) for stage in plan] == [
        ("warm_up", 10), ("joint", 18), ("joint", 1), ("joint", 1), ("head", 25),
    ]  # fmt: skip
    assert [any(isinstance(action, Replace) for action in stage.at_end) for stage in plan] == [
        False, True, True, True, False,
    ]  # fmt: skip
    # Prototypes that learn on after a rehearsal are no patches, and no result.
    assert [stage.selectable for stage in plan] == [*["never"] * 4, "every epoch"]
    assert [stage.begins for stage in plan] == [0, 10, 28, 29, 30]


def test_more_rehearsals_than_epochs_are_one_after_each_epoch() -> None:
    optim = replace(ProtoPoolConfig().optimization, epochs=3, warm_up_epochs=0)
    plan = stages(replace(ProtoPoolConfig(), optimization=optim, replacement=FinalReplacement(rehearsals=99)))
    assert [(stage.name, stage.epochs) for stage in plan] == [*[("joint", 1)] * 3, ("head", 25)]


def test_slots_learn_with_prototypes_and_the_head_learns_alone_by_less() -> None:
    warm, joint, head = stages(ProtoPoolConfig())
    assert warm.learns == {"add_on", "prototypes", "slots"}
    assert joint.learns == {"backbone", "add_on", "prototypes", "slots"}
    assert head.learns == {"head"}
    assert {term.name: term.weight for term in joint.losses} == {
        "cross_entropy": 1.0, "cluster": 0.8, "separation": 0.08, "off_class_l1": 1e-4, "orthogonality": 1.0,
    }  # fmt: skip
    assert [term.name for term in head.losses] == ["cross_entropy", "off_class_l1"]
    # x 0.95 every five epochs, from the head's first one on.
    times = [head.begins + epoch for epoch in (0.0, 4.9, 5.0, 24.9)]
    assert [head.rate(time) for time in times] == pytest.approx([1.0, 1.0, 0.95, 0.95**4])


def test_rates_and_weight_decay_are_the_published_ones() -> None:
    model = pixel_model("protopool", ProtoPoolArchitecture(dim=3), classes=2, size=4)
    result = groups(model, ProtoPoolConfig(), {})
    assert {name: (group.rate, group.weight_decay) for name, group in result.items()} == {
        "backbone": (1e-4, 1e-3),
        "add_on": (3e-3, 1e-3),
        "prototypes": (3e-3, 0.0),
        "slots": (3e-3, 0.0),
        "head": (1e-4, 1e-3),
    }
    listed = [id(parameter) for group in result.values() for parameter in group.parameters]
    assert len(listed) == len(set(listed)) == len(list(model.parameters()))


def test_the_add_on_is_one_convolution_and_a_sigmoid() -> None:
    model = pixel_model("protopool", ProtoPoolArchitecture(dim=3), classes=2, size=4)
    assert [type(layer).__name__ for layer in model.grids[0].add_on.children()] == ["Conv2d", "Sigmoid"]


@pytest.mark.parametrize("channels", [64, 512])
def test_a_centered_start_puts_embeddings_and_prototypes_at_the_same_distance_from_the_center(channels: int) -> None:
    torch.manual_seed(0)
    parts = member_named("protopool").parts(replace(PRESETS["laptop"].architecture, dim=256), (channels,), 12)
    cells = 5 + 3 * torch.randn(8, channels, 7, 7)  # the add-on normalises them
    embeddings = parts.add_ons[0](cells).detach().numpy()
    prototypes = parts.comparisons[0].prototypes.detach().numpy()
    for numbers in (embeddings, prototypes):
        assert numbers.mean() == pytest.approx(0.5, abs=0.01)
        assert numbers.std() == pytest.approx(0.1, abs=0.01)


def test_focal_scores_of_images_differ_more_from_a_centered_start() -> None:
    cells = torch.randn(8, 128, 7, 7)

    def spread(start: Any) -> float:
        """The standard deviation over images of the focal score, in NumPy."""
        torch.manual_seed(0)
        architecture = ProtoPoolArchitecture(cells="normalized", start=start)
        parts = member_named("protopool").parts(architecture, (128,), 12)
        embeddings = parts.add_ons[0](cells).detach().double().numpy()
        prototypes = parts.comparisons[0].prototypes.detach().double().numpy()[None, :, :, 0, 0]
        distances = ((embeddings.reshape(8, 1, 256, 49) - prototypes[..., None]) ** 2).sum(axis=2)
        near, mean = (np.log((d + 1) / (d + 1e-4)) for d in (distances.min(axis=2), distances.mean(axis=2)))
        return float((near - mean).std(axis=0).mean())

    assert spread("centered") > 5 * spread("spread")


def test_settings_of_earlier_versions_are_read_without_what_was_added_since() -> None:
    values = plain_config(RunConfig(member="protopool"))
    assert values["architecture"].pop("start") == "spread"
    assert values["replacement"].pop("rehearsals") == 0
    assert config_from_plain(values).settings == ProtoPoolConfig()


# Replacement --------------------------------------------------------------------------------------------------------


def held_by(model: PixPNet, holds: list[list[int]]) -> None:
    """Puts prototypes into slots."""
    slots = torch.zeros_like(slots_of(model).slots)
    for label, prototypes in enumerate(holds):
        for slot, prototype in enumerate(prototypes):
            slots[label, prototype, slot] = 1.0
    slots_of(model).slots.data = slots


@pytest.mark.parametrize("seed", range(5))
def test_a_prototype_takes_the_nearest_patch_of_all_its_holders_and_of_anybody_where_it_has_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = pixel_model("protopool", ProtoPoolArchitecture(dim=3, prototypes=5, slots=2), classes=3, size=3)
    held_by(model, [[0, 1], [1, 2], [1, 1]])
    owners = {0: {0}, 1: {0, 1, 2}, 2: {1}, 3: {0, 1, 2}, 4: {0, 1, 2}}  # nobody holds 3 and 4
    assert model.labels.tolist() == [0, 0, 1, -1, -1]
    prototypes = rng.random((5, 3)).astype(np.float32)
    model.prototypes.data = torch.from_numpy(prototypes)[:, :, None, None].clone()
    images, labels = rng.random((9, 3, 3, 3)).astype(np.float32), [0, 1, 2, 2, 1, 0, 0, 1, 2]
    ids = [f"{n}" for n in range(9)]
    origins = replace_prototypes(
        model, batches_of(torch.from_numpy(images), labels, ids, 2), entries_of(labels, ids), NEAREST
    )
    for j, origin in enumerate(origins):
        distance, n, y, x = min(
            (float(((images[n, :, y, x] - prototypes[j]) ** 2).sum()), n, y, x)
            for n in range(9)
            if labels[n] in owners[j]
            for y in range(3)
            for x in range(3)
        )
        assert (origin.image, origin.row, origin.col, origin.label) == (ids[n], y, x, labels[n])
        assert origin.distance == pytest.approx(distance, abs=1e-5)
        assert np.array_equal(model.prototypes.data[j].flatten().numpy(), images[n, :, y, x])
        assert model.prototypes.data[j].any()  # published: zeros where nobody holds it


@pytest.mark.parametrize("assignment", ["nearest_first", "smallest_total"])
def test_no_two_prototypes_of_the_pool_share_an_image_where_that_is_asked_for(assignment: Any) -> None:
    torch.manual_seed(0)
    model = pixel_model("protopool", ProtoPoolArchitecture(dim=3, prototypes=4, slots=2), classes=2, size=2)
    held_by(model, [[0, 1], [1, 2]])
    images, labels, ids = torch.rand(8, 3, 2, 2), [0, 1] * 4, [f"{n}" for n in range(8)]
    rule = Replacement(unique="image", assignment=assignment)
    origins = replace_prototypes(model, batches_of(images, labels, ids, 3), entries_of(labels, ids), rule)
    assert len({origin.image for origin in origins}) == 4
    assert {origin.unique for origin in origins} == {"image"}


# A run --------------------------------------------------------------------------------------------------------------


def test_a_small_run_learns_and_its_prototypes_are_patches(trained: Trained) -> None:
    assert trained.metrics.validation.accuracy > 0.5
    assert trained.model.origins is not None
    sources = trained.model.ownership.sources()
    for prototype, patch, origin in zip(
        trained.model.prototypes.flatten(1), trained.patches(), trained.model.origins, strict=True
    ):
        torch.testing.assert_close(prototype, patch, rtol=1e-4, atol=1e-5)
        assert sources[origin.label, origin.prototype]


def test_a_saved_model_gives_the_same_logits_again_and_again(trained: Trained, tmp_path: Path) -> None:
    path, images = tmp_path / "model.safetensors", trained.images()
    trained.model.save(path)
    with torch.no_grad():
        first, second = trained.model(images), PixPNet.load(path)(images)
        torch.manual_seed(123)
        third = trained.model(images)
    assert torch.equal(first.logits, second.logits)
    assert torch.equal(first.logits, third.logits)
    weights = trained.model.head.reasons(first.matches.scores[0], [0, 1, 2]).weights
    torch.testing.assert_close(weights @ first.matches.scores[0], first.logits[0], rtol=1e-5, atol=1e-5)


def test_slots_get_sharper_every_epoch_and_only_the_head_learns_at_the_end(trained: Trained) -> None:
    scales = {state.epoch: state.scale for state in STATES}
    roots = [1000 * math.sqrt(epoch / 4) for epoch in (1, 2, 3)]
    assert list(scales.values()) == pytest.approx([*roots, *[1000.0] * 7, *[10_000.0] * 4])
    for state, later in pairwise(STATES):
        assert torch.equal(state.slots, later.slots) == (later.stage == "head")
        assert torch.equal(state.weight, later.weight) == (later.stage != "head")


def test_an_interrupted_run_ends_bit_for_bit_like_one_that_was_not(trained: Trained, tmp_path: Path) -> None:
    class Stopping(Nobody):
        """Stops in the middle of the annealing, and again among the epochs of the head."""

        def epoch_ended(self, line: Any) -> None:
            if line.epoch in (2, 12):
                raise KeyboardInterrupt

    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(trained.config, out, Stopping())
    with pytest.raises(KeyboardInterrupt):
        resume(out, Stopping())
    assert resume(out) is not None
    same(trained.path, out)


def test_it_learns_without_mixup_and_on_kept_features_too(config: RunConfig, tmp_path: Path) -> None:
    few = replace(SETTINGS.optimization, epochs=2, warm_up_epochs=0)
    short = config.with_settings(optimization=few, replacement=FinalReplacement(head_epochs=1))
    plain = short.with_settings(losses=ProtoPoolLosses(mixup=0.0))
    remaining = short.with_settings(optimization=replace(few, frozen="all"))
    for name, changed in (("plain", plain), ("kept", remaining)):
        assert in_child("train", config=changed, out=str(tmp_path / name)) == 0
        assert PixPNet.load(tmp_path / name).origins is not None
