"""ProtoTree: its numbers, its stages, leaves that learn step by step, pruning, replacement, and trees as models."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pixpnet.config import RunConfig
from pixpnet.members.prototree import (
    PRESETS,
    ProtoTreeArchitecture,
    ProtoTreeConfig,
    Prune,
    Pruning,
    TreeReplacement,
    groups,
    keep,
    stages,
)
from pixpnet.model import Backbone, PixPNet
from pixpnet.parts import BinaryTree
from pixpnet.training import replace_prototypes, resume, train
from pixpnet.training.actions import Replace
from tests.members.toys import Trained, pixel_model
from tests.members.tree_material import SETTINGS, STEPS, tree_of
from tests.training.material import batches_of, end_of, entries_of, in_child, start_child
from tests.training.sameness import same

# Numbers ----------------------------------------------------------------------------------------------------------


def test_the_defaults_are_the_published_numbers() -> None:
    result = ProtoTreeConfig()
    assert (result.architecture.dim, result.architecture.depth, result.pruning.threshold) == (256, 9, 0.01)
    optim = result.optimization
    assert (optim.epochs, optim.warm_up_epochs, optim.batch_size, optim.weight_decay) == (100, 30, 64, 0.0)
    assert (optim.lr_backbone, optim.lr_add_on, optim.lr_prototypes) == (1e-5, 1e-3, 1e-3)
    assert (result.last_block, result.last_block_rate) == ("layer4.2", 1e-3)
    assert result.replacement.unique == "none"
    assert replace(PRESETS["paper"], frame=None) == result


def test_rates_halve_after_sixty_epochs_and_every_ten_from_there() -> None:
    """Published: from epochs 61, 71, 81 and 91, counted from 1."""
    rate = stages(ProtoTreeConfig())[-1].rate
    assert [rate(epoch - 1) for epoch in (1, 60, 61, 70, 71, 91, 100)] == [1, 1, 0.5, 0.5, 0.25, 0.0625, 0.0625]


def test_pruning_and_one_replacement_come_at_the_end() -> None:
    result = stages(ProtoTreeConfig())
    assert [(stage.name, stage.epochs) for stage in result] == [("warm_up", 30), ("joint", 70)]
    assert [type(action) for action in result[-1].at_end] == [Prune, Replace]
    assert not result[0].at_end
    assert [stage.selectable for stage in result] == ["never", "end"]


@pytest.mark.filterwarnings("ignore:a cell at")
def test_the_last_block_of_a_resnet50_has_a_rate_of_its_own_and_learns_from_the_start() -> None:
    from pixpnet import zoo

    def made(name: str, layer: str) -> PixPNet:
        with torch.device("meta"):
            backbone = zoo.build(name)
        backbone = backbone.to_empty(device="cpu")
        return PixPNet(
            Backbone(backbone, layer, (64, 64)),
            ProtoTreeArchitecture(depth=1, dim=2),
            ("jay", "wren"),
            pixel_model("prototree", ProtoTreeArchitecture(depth=1), 2, 64).preprocessing,
            member="prototree",
        )

    config = ProtoTreeConfig()
    with_block, without = (
        groups(made(*which), config, {}) for which in (("resnet50", "layer4"), ("resnet18", "layer4"))
    )
    assert len(with_block["last_block"].parameters) == 9  # three convolutions, three norms of two numbers
    assert with_block["last_block"].rate == 1e-3
    assert not without["last_block"].parameters
    assert {group.epsilon for group in with_block.values()} == {1e-7}
    assert "last_block" in stages(config)[0].learns
    assert "backbone" not in stages(config)[0].learns


@pytest.mark.parametrize("changes", [{"depth": 0}, {"depth": 13}, {"dim": 0}, {"nodes": ()}, {"nodes": (0,)}])
def test_impossible_trees_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"depth|dim|node"):
        ProtoTreeArchitecture(**changes)


def test_a_tree_is_not_trained_as_a_hard_one() -> None:
    with pytest.raises(ValueError, match="--to hard"):
        replace(ProtoTreeConfig(), architecture=ProtoTreeArchitecture(inference="greedy"))


# Learning ---------------------------------------------------------------------------------------------------------


def heap_weights(distances: Any) -> Any:
    nodes = len(distances)
    weights = np.zeros(nodes + 1)

    def go(node: int, arrives: float) -> None:
        if node >= nodes:
            weights[node - nodes] = arrives
            return
        go(2 * node + 1, arrives * (1 - math.exp(-distances[node])))
        go(2 * node + 2, arrives * math.exp(-distances[node]))

    go(0, 1.0)
    return weights


def test_every_step_of_a_run_updates_the_leaves_as_published(tree_run: Trained) -> None:
    epochs: dict[int, list[dict[str, Any]]] = {}
    for step in STEPS:
        epochs.setdefault(step["epoch"], []).append(step)
    assert len(epochs) == 5
    for steps in epochs.values():
        at_start = steps[0]["before"]
        for step in steps:
            theta = step["before"]
            raised = np.exp(theta - theta.max(axis=1, keepdims=True))
            known = raised / raised.sum(axis=1, keepdims=True)
            added = np.zeros_like(theta)
            for scores, label in zip(step["scores"], step["labels"].tolist(), strict=True):
                weights = heap_weights(-scores)
                added[:, label] += weights * known[:, label] / (weights @ known)[label]
            expected = np.maximum(theta - at_start / len(steps), 0) + added
            np.testing.assert_allclose(step["after"], expected, rtol=1e-3, atol=1e-4)


def test_leaves_learn_the_same_from_two_processes_as_from_one(tmp_path: Path) -> None:
    outs = [tmp_path / name for name in ("alone", "first", "second")]
    assert in_child("learn_leaves", store="", rank=0, world_size=1, out=str(outs[0])) == 0
    pair = [
        start_child("learn_leaves", store=str(tmp_path / "store"), rank=rank, world_size=2, out=str(outs[1 + rank]))
        for rank in range(2)
    ]
    assert [end_of(process) for process in pair] == [0, 0]
    alone, first, second = (torch.load(out, weights_only=True) for out in outs)
    assert torch.equal(first, second)
    torch.testing.assert_close(first, alone, rtol=1e-6, atol=1e-6)


def test_a_small_run_learns(tree_run: Trained) -> None:
    assert tree_run.metrics.validation.accuracy >= 0.6
    readings = tree_run.metrics.validation.readings
    assert readings is not None and set(readings) == {"sample_max", "greedy"}
    with torch.no_grad():
        output = tree_run.model(tree_run.images())
    answers = tree_run.model.head.readings(output.matches.scores)["greedy"]
    same = (answers == output.logits.argmax(dim=1)).double().mean()
    assert readings["greedy"].agreement == pytest.approx(float(same))


# Pruning and replacement ----------------------------------------------------------------------------------------


def test_pruning_makes_the_network_smaller_and_keeps_what_is_asked(tree_run: Trained) -> None:
    model = pixel_model("prototree", ProtoTreeArchitecture(dim=3, depth=3), 4, 8).eval()
    decision = tree_of(model)
    with torch.no_grad():
        model.prototypes.uniform_(0, 1)
        decision.knowledge.copy_(torch.rand(8, 4) + 20 * torch.eye(4).repeat(2, 1))
        decision.knowledge[[2, 3]] = 0.0  # know nothing
        images = torch.rand(5, 3, 8, 8)
        scores = model(images).matches.scores
    pruned = decision.tree().pruned((decision.leaves().amax(dim=1) <= Pruning(None).least(4)).tolist())
    assert pruned.leaves == (0, 1, 4, 5, 6, 7)
    keep(model, pruned)
    assert model.num_prototypes == 5
    assert model.architecture.nodes == (5,)
    with torch.no_grad():
        left = model(images)
    torch.testing.assert_close(left.matches.scores, scores[:, list(pruned.nodes)])
    assert tree_of(model).tree() == pruned.tree


def test_a_grid_never_loses_all_its_prototypes() -> None:
    backbone = Backbone(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.Conv2d(4, 4, 1)), "0,1", (8, 8))
    preprocessing = pixel_model("prototree", ProtoTreeArchitecture(depth=1), 2, 8).preprocessing
    model = PixPNet(backbone, ProtoTreeArchitecture(dim=3, depth=2), ("jay", "wren"), preprocessing, member="prototree")
    assert [len(grid.prototypes) for grid in model.grids] == [2, 1]
    keep(model, BinaryTree.complete(2).pruned([False, False, True, False]))  # node 2 is all that the second grid has
    assert model.num_prototypes == 3
    keep(model, BinaryTree.complete(2).pruned([True, False, False, False]))  # node 1 is one of two of the first
    assert [len(grid.prototypes) for grid in model.grids] == [1, 1]


def test_a_node_takes_the_nearest_patch_of_the_classes_below_it() -> None:
    model = pixel_model("prototree", ProtoTreeArchitecture(dim=3, depth=2), 4, 8)
    tree_of(model).knowledge.copy_(9 * torch.eye(4))
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 9, (8, 3, 8, 8), generator=generator).float()
    labels, ids = [0, 1, 2, 3] * 2, [f"{number}.png" for number in range(8)]
    before = model.prototypes.detach().flatten(1).clone()
    replace_prototypes(
        model, batches_of(images, labels, ids, 3), entries_of(labels, ids), TreeReplacement().as_replacement()
    )
    allowed = [{0, 1, 2, 3}, {0, 1}, {2, 3}]
    assert model.origins is not None
    for node, origin in enumerate(model.origins):
        own = [number for number, label in enumerate(labels) if label in allowed[node]]
        patches = images[own].permute(0, 2, 3, 1).reshape(-1, 3)
        distances = (patches - before[node]).square().sum(dim=1).sqrt()
        assert origin.distance == pytest.approx(float(distances.min()), rel=1e-4)
        assert origin.label in allowed[node]


def test_the_kept_model_is_pruned_and_its_origins_name_classes_below_their_nodes(tree_run: Trained) -> None:
    model = tree_run.model
    assert model.num_prototypes == tree_of(model).tree().num_nodes == tree_run.metrics.prototypes < 15
    assert len(model.origins or ()) == model.num_prototypes
    for patch, prototype in zip(tree_run.patches(), model.prototypes.flatten(1), strict=True):
        torch.testing.assert_close(patch, prototype, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kill", ["after the last checkpoint", "before the figures are written"])
def test_a_run_that_was_killed_after_pruning_ends_the_same(
    tree_run: Trained, tree_config: RunConfig, tmp_path: Path, kill: str
) -> None:
    out = tmp_path / "run"
    # The child's kill counts epochs of a run of three.
    short = tree_config.with_settings(optimization=replace(SETTINGS.optimization, epochs=3))
    whole = tmp_path / "whole"
    metrics = train(short, whole)
    assert metrics is not None and metrics.prototypes < 15  # else nothing was rebuilt
    assert in_child("train", config=short, out=str(out), kill=kill) < 0
    assert resume(out) is not None
    same(whole, out)
