"""ProtoTree: its numbers, its stages, leaves that learn step by step, pruning, replacement, and trees as models."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pixpnet.cli import main
from pixpnet.config import RunConfig
from pixpnet.data import preprocess
from pixpnet.explanation import Explanation, explain, prove
from pixpnet.mapping import MAPPINGS
from pixpnet.members.pixpnet import Architecture
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
from pixpnet.metrics.auditing import audit
from pixpnet.metrics.auditing.reasoning import check_reasoning
from pixpnet.metrics.ordering import relevance_ordering
from pixpnet.metrics.suite import MeasureSettings, measure
from pixpnet.model import Backbone, PixPNet
from pixpnet.parts import BinaryTree, TreeDecision
from pixpnet.records import BadRecord
from pixpnet.settings import Optimization
from pixpnet.training import open_run_data, replace_prototypes, resume, train
from pixpnet.training.actions import Replace
from pixpnet.training.converting import convert
from pixpnet.training.fitting import Fitting
from pixpnet.training.run import RunError
from pixpnet.views.page import tree_page
from pixpnet.views.tree_figure import NoTree, tree_figure
from tests.members.toys import Trained, pixel_model, trained_run
from tests.training.material import batches_of, draw_pictures, end_of, entries_of, in_child, start_child
from tests.training.sameness import same

SETTINGS = ProtoTreeConfig(
    ProtoTreeArchitecture(dim=8, depth=4, cells="normalized"),
    optimization=Optimization(
        epochs=5, warm_up_epochs=1, batch_size=8, views=2, lr_backbone=3e-3, lr_add_on=1e-2, lr_prototypes=1e-2
    ),
    pruning=Pruning(None),
    replacement=TreeReplacement(start=3, every=1, unique="patch"),
)
# What leaves knew when the epoch began and after every step of the run below, with the images of the step.
STEPS: list[dict[str, Any]] = []


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    squares = draw_pictures(tmp_path_factory.mktemp("prototree") / "squares")
    return RunConfig(member="prototree", data=f"folder:{squares}", backbone="small-21", size=32, settings=SETTINGS)


@pytest.fixture(scope="module")
def trained(config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    original = TreeDecision.observe

    def observe(self: TreeDecision, step: Any) -> None:
        STEPS.append(
            {
                "scores": step.required_matches.scores.detach().double().numpy().copy(),
                "labels": step.labels.numpy().copy(),
                "before": self.knowledge.double().numpy().copy(),
            }
        )
        original(self, step)

    def after_step(fitting: Fitting) -> None:
        STEPS[-1] |= {"after": tree_of(fitting.model).knowledge.double().numpy().copy(), "epoch": fitting.current_epoch}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TreeDecision, "observe", observe)
        return trained_run(config, tmp_path_factory.mktemp("runs") / "prototree", after_step)


def tree_of(model: PixPNet) -> TreeDecision:
    assert isinstance(model.head, TreeDecision)
    return model.head


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


def test_every_step_of_a_run_updates_the_leaves_as_published(trained: Trained) -> None:
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


def test_a_small_run_learns(trained: Trained) -> None:
    assert trained.metrics.validation.accuracy >= 0.6
    readings = trained.metrics.validation.readings
    assert readings is not None and set(readings) == {"sample_max", "greedy"}
    with torch.no_grad():
        output = trained.model(trained.images())
    answers = trained.model.head.readings(output.matches.scores)["greedy"]
    same = (answers == output.logits.argmax(dim=1)).double().mean()
    assert readings["greedy"].agreement == pytest.approx(float(same))


# Pruning and replacement ----------------------------------------------------------------------------------------


def test_pruning_makes_the_network_smaller_and_keeps_what_is_asked(trained: Trained) -> None:
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


def test_the_kept_model_is_pruned_and_its_origins_name_classes_below_their_nodes(trained: Trained) -> None:
    model = trained.model
    assert model.num_prototypes == tree_of(model).tree().num_nodes == trained.metrics.prototypes < 15
    assert len(model.origins or ()) == model.num_prototypes
    for patch, prototype in zip(trained.patches(), model.prototypes.flatten(1), strict=True):
        torch.testing.assert_close(patch, prototype, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kill", ["after the last checkpoint", "before the figures are written"])
def test_a_run_that_was_killed_after_pruning_ends_the_same(
    trained: Trained, config: RunConfig, tmp_path: Path, kill: str
) -> None:
    out = tmp_path / "run"
    # The child's kill counts epochs of a run of three.
    short = config.with_settings(optimization=replace(SETTINGS.optimization, epochs=3))
    whole = tmp_path / "whole"
    metrics = train(short, whole)
    assert metrics is not None and metrics.prototypes < 15  # else nothing was rebuilt
    assert in_child("train", config=short, out=str(out), kill=kill) < 0
    assert resume(out) is not None
    same(whole, out)


# Explanations and trees as models -------------------------------------------------------------------------------


def an_image(trained: Trained) -> Any:
    data = open_run_data(trained.config)
    return data.reader(data.val[0])


def test_an_explanation_is_the_path_to_the_leaf_that_gives_most(trained: Trained) -> None:
    model, image = trained.model, an_image(trained)
    explanation = explain(model, image)
    with torch.no_grad():
        scores = model(explanation_image(explanation, model)).matches.scores[0].double()
    for explained in explanation.classes:
        path = explained.path
        assert path is not None and path.soft
        assert [term.prototype for term in explained.terms] == [
            turn.node for turn in tree_of(model).tree().path_to(path.leaf)
        ]
        for term, result, probability in zip(explained.terms, path.present, path.probabilities, strict=True):
            there = math.exp(float(scores[term.prototype]))
            assert probability == pytest.approx(there if result else 1 - there, rel=1e-3, abs=1e-5)
        assert path.weight == pytest.approx(math.prod(path.probabilities), rel=1e-6)
        assert math.fsum(term.contribution for term in explained.terms) + explained.rest == pytest.approx(
            explained.logit
        )
        assert explained.share == pytest.approx(math.exp(explained.logit), rel=1e-4)
    assert {answer.rule for answer in explanation.other_answers} == {"sample_max", "greedy"}
    assert Explanation.from_json(explanation.to_json()) == explanation


def test_paths_of_earlier_versions_are_read(trained: Trained) -> None:
    explanation = explain(trained.model, an_image(trained))
    plain = json.loads(explanation.to_json())
    for explained in plain["classes"]:
        explained["path"]["found"] = explained["path"].pop("present")
    assert Explanation.from_json(json.dumps(plain)) == explanation
    plain["classes"][0]["path"]["present"] = plain["classes"][0]["path"]["found"]
    with pytest.raises(BadRecord, match="expected the fields"):
        Explanation.from_json(json.dumps(plain))


def explanation_image(explanation: Explanation, model: PixPNet) -> Tensor:
    height, width = explanation.size
    pixels = torch.frombuffer(bytearray(explanation.pixels), dtype=torch.uint8).reshape(height, width, 3)
    mean, std = (
        torch.tensor(numbers)[:, None, None] for numbers in (model.preprocessing.mean, model.preprocessing.std)
    )
    return ((pixels.permute(2, 0, 1) / 255 - mean) / std)[None]


def test_words_say_what_is_shown_and_what_is_not(trained: Trained) -> None:
    image = an_image(trained)
    proven = prove(trained.model, image, explain(trained.model, image), draws=3)
    text = proven.details()
    path = proven.predicted.path
    assert path is not None
    assert f"Leaf {path.leaf} gives {proven.predicted.class_name}" in text
    assert "which are not shown" in " ".join(text.split())
    assert "greedy" in text
    assert ("not found" in text) or all(path.present)
    assert "which are not shown" in proven._repr_html_()


def test_the_audit_finds_a_simple_tree(trained: Trained) -> None:
    result = audit(trained.path, trained.model, open_run_data(trained.config), pixels=1).reasoning
    assert result.verdict == "holds"
    tree = tree_of(trained.model).tree()
    assert f"{tree.depth} levels deep, of {tree.num_nodes} nodes" in result.findings[0].evidence
    assert result.size == (2 * tree.depth, 2 * tree.num_nodes)


def test_a_hard_tree_is_a_model_of_its_own(trained: Trained, tmp_path: Path) -> None:
    out = tmp_path / "hard"
    metrics = convert(trained.path, "hard", out)
    hard = PixPNet.load(out)
    assert hard.architecture.inference == "greedy"
    images = trained.images()
    with torch.no_grad():
        soft, answers = trained.model(images), hard(images).logits.argmax(dim=1)
    assert torch.equal(answers, trained.model.head.readings(soft.matches.scores)["greedy"])
    readings = trained.metrics.validation.readings
    assert readings is not None
    assert metrics.validation.accuracy == pytest.approx(readings["greedy"].accuracy)
    image = an_image(trained)
    proven = prove(hard, image, explain(hard, image), draws=2)
    assert proven.predicted.path is not None and proven.predicted.path.weight == 1.0
    assert "the only leaf that counts" in proven.details()
    result = audit(out, hard, open_run_data(trained.config), pixels=1)
    assert (result.grounding.verdict, result.reasoning.verdict, result.conduct.verdict) == ("holds", "holds", "holds")


def test_what_cannot_be_converted_is_said(trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RunError, match="hard"):
        convert(trained.path, "soft", tmp_path / "x")
    assert main(["convert", str(trained.path), "--to", "hard", "--out", str(trained.path)]) == 1
    assert "is a run already" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["tree.html", "tree.png", "tree.svg", "tree.pdf"])
def test_the_whole_tree_is_drawn(trained: Trained, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    picture = next(Path(trained.config.data.removeprefix("folder:")).rglob("*.png"))
    assert main(["tree", str(trained.path), str(picture), "--out", str(out)]) == 0
    assert out.stat().st_size > 1000
    if name.endswith("html"):
        page = out.read_text()
        assert page.count('class="leaf"') == tree_of(trained.model).tree().num_leaves
        assert all(f"Prototype {node} " in page for node in range(trained.model.num_prototypes))


def test_a_model_without_a_tree_says_so() -> None:
    model = pixel_model("pixpnet", Architecture(dim=3, prototypes_per_class=1), 2, 8)
    with pytest.raises(NoTree, match="does not decide by a tree"):
        tree_figure(model)


def test_a_class_behind_no_prototype_that_is_found_is_measured_by_nothing(trained: Trained) -> None:
    model = PixPNet.load(trained.path)
    decision = tree_of(model)
    decision.knowledge.copy_(torch.tensor([0.0, 9.0, 0.0]).expand_as(decision.knowledge))
    decision.knowledge[decision.tree().greedy_leaf([0.0] * decision.tree().num_nodes)] = torch.tensor([9.0, 0.0, 0.0])
    assert not model.prototypes_of(0).numel()
    assert model.prototypes_of(1).numel()
    data = open_run_data(trained.config)
    samples = [preprocess(data.reader(entry), model.preprocessing) for entry in data.val if entry.label == 0]
    for mapping in MAPPINGS.values():
        result = relevance_ordering(model, samples, mapping, prototypes_per_sample=1)
        assert (result.pairs, result.area, result.recovery) == ((), None, None)


def test_measured_figures_say_that_prototypes_have_no_class(trained: Trained, tmp_path: Path) -> None:
    few = MeasureSettings(mappings=("field", "upsampling"), samples=1, prototypes=1, split="val")
    table = measure(trained.path, few, out=tmp_path / "measured").table
    assert all(any("not defined for them" in note for note in row.notes) for row in table.rows)


def test_leaves_do_not_learn_before_an_epoch_begins() -> None:
    decision = TreeDecision(2, BinaryTree.complete(1))
    with pytest.raises(ValueError, match="begin_epoch"):
        decision.learn(torch.zeros(2, 2), 3)


@pytest.mark.parametrize("inference", ["soft", "sample_max", "greedy"])
def test_the_audit_holds_for_leaves_that_are_certain(trained: Trained, inference: Any) -> None:
    """They give others e^-5000, which no number holds."""
    model = PixPNet.load(trained.path)
    decision = tree_of(model)
    decision.inference = inference
    decision.knowledge.zero_()
    decision.knowledge[:, 0] = 5000.0
    result = check_reasoning(model)
    assert result.verdict == "holds", result.findings


def test_an_interrupted_conversion_leaves_nothing(trained: Trained, tmp_path: Path, monkeypatch: Any) -> None:
    def stopped(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pixpnet.training.converting._judged", stopped)
    with pytest.raises(KeyboardInterrupt):
        convert(trained.path, "hard", tmp_path / "hard")
    assert not list(tmp_path.iterdir())


def test_the_report_of_a_conversion_says_what_it_is(trained: Trained, tmp_path: Path) -> None:
    convert(trained.path, "hard", tmp_path / "hard")
    out = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "hard"), "--examples", "1", "--out", str(out)]) == 0
    assert "turned into a hard tree" in out.read_text()


def test_the_page_marks_the_path_of_a_picture(trained: Trained) -> None:
    explanation = explain(trained.model, an_image(trained))
    page = tree_page(trained.model, [explanation])
    path = explanation.predicted.path
    assert path is not None
    assert page.count("on the path of") == len(path.present) + 1


# Records from files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        ("probabilities", 0.5, "weight"),
        ("weight", 0.5, "weight"),
        ("leaf", -1, "leaf"),
        ("leaf_class", "ostrich", "ostrich"),
        ("leaf_probability", 0.123, "leaf"),
        ("soft", False, "weight"),
        ("weight", 2.0, "probability"),
    ],
)
def test_a_record_whose_path_was_tampered_with_is_refused(trained: Trained, where: str, value: Any, words: str) -> None:
    plain = json.loads(explain(trained.model, an_image(trained)).to_json())
    path = plain["classes"][0]["path"]
    path[where] = [value] * len(path[where]) if where == "probabilities" else value
    with pytest.raises(BadRecord, match=words):
        Explanation.from_json(json.dumps(plain))


def test_a_record_with_a_path_for_one_class_only_is_refused(trained: Trained) -> None:
    plain = json.loads(explain(trained.model, an_image(trained)).to_json())
    plain["classes"][0]["path"] = None
    with pytest.raises(BadRecord, match="soft one"):
        Explanation.from_json(json.dumps(plain))


def test_paths_are_not_contrasted_term_by_term(trained: Trained) -> None:
    explanation = explain(trained.model, an_image(trained))
    with pytest.raises(ValueError, match="where they part"):
        explanation.why_not(explanation.classes[1].label)


def test_a_chain_of_nodes_is_no_tree_to_read() -> None:
    chain = BinaryTree(tuple((~node, node + 1 if node < 19 else ~20) for node in range(20)))
    decision = TreeDecision(2, chain)
    with pytest.raises(RuntimeError, match="levels deep"):
        TreeDecision(2, BinaryTree.filled(20)).load_state_dict(decision.state_dict())
