"""A ProtoTree as a person meets it: paths in text, pages and files, audits, conversions, drawings."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pixpnet.cli import main
from pixpnet.data import preprocess
from pixpnet.explanation import Explanation, explain, prove
from pixpnet.mapping import MAPPINGS
from pixpnet.members.pixpnet import Architecture
from pixpnet.metrics.auditing import audit
from pixpnet.metrics.auditing.reasoning import check_reasoning
from pixpnet.metrics.ordering import relevance_ordering
from pixpnet.metrics.suite import MeasureSettings, measure
from pixpnet.model import PixPNet
from pixpnet.parts import BinaryTree, TreeDecision
from pixpnet.records import BadRecord
from pixpnet.training import open_run_data
from pixpnet.training.converting import convert
from pixpnet.training.run import RunError
from pixpnet.views.page import tree_page
from pixpnet.views.tree_figure import NoTree, tree_figure
from tests.members.toys import Trained, pixel_model
from tests.members.tree_material import tree_of

# Explanations and trees as models -------------------------------------------------------------------------------


def an_image(tree_run: Trained) -> Any:
    data = open_run_data(tree_run.config)
    return data.reader(data.val[0])


def test_an_explanation_is_the_path_to_the_leaf_that_gives_most(tree_run: Trained) -> None:
    model, image = tree_run.model, an_image(tree_run)
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


def test_paths_of_earlier_versions_are_read(tree_run: Trained) -> None:
    explanation = explain(tree_run.model, an_image(tree_run))
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


def test_words_say_what_is_shown_and_what_is_not(tree_run: Trained) -> None:
    image = an_image(tree_run)
    proven = prove(tree_run.model, image, explain(tree_run.model, image), draws=3)
    text = proven.details()
    path = proven.predicted.path
    assert path is not None
    assert f"Leaf {path.leaf} gives {proven.predicted.class_name}" in text
    assert "which are not shown" in " ".join(text.split())
    assert "greedy" in text
    assert ("not found" in text) or all(path.present)
    assert "which are not shown" in proven._repr_html_()


def test_the_audit_finds_a_simple_tree(tree_run: Trained) -> None:
    result = audit(tree_run.path, tree_run.model, open_run_data(tree_run.config), pixels=1).reasoning
    assert result.verdict == "holds"
    tree = tree_of(tree_run.model).tree()
    assert f"{tree.depth} levels deep, of {tree.num_nodes} nodes" in result.findings[0].evidence
    assert result.size == (2 * tree.depth, 2 * tree.num_nodes)


def test_a_hard_tree_is_a_model_of_its_own(tree_run: Trained, tmp_path: Path) -> None:
    out = tmp_path / "hard"
    metrics = convert(tree_run.path, "hard", out)
    hard = PixPNet.load(out)
    assert hard.architecture.inference == "greedy"
    images = tree_run.images()
    with torch.no_grad():
        soft, answers = tree_run.model(images), hard(images).logits.argmax(dim=1)
    assert torch.equal(answers, tree_run.model.head.readings(soft.matches.scores)["greedy"])
    readings = tree_run.metrics.validation.readings
    assert readings is not None
    assert metrics.validation.accuracy == pytest.approx(readings["greedy"].accuracy)
    image = an_image(tree_run)
    proven = prove(hard, image, explain(hard, image), draws=2)
    assert proven.predicted.path is not None and proven.predicted.path.weight == 1.0
    assert "the only leaf that counts" in proven.details()
    result = audit(out, hard, open_run_data(tree_run.config), pixels=1)
    assert (result.grounding.verdict, result.reasoning.verdict, result.conduct.verdict) == ("holds", "holds", "holds")


def test_what_cannot_be_converted_is_said(
    tree_run: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RunError, match="hard"):
        convert(tree_run.path, "soft", tmp_path / "x")
    assert main(["convert", str(tree_run.path), "--to", "hard", "--out", str(tree_run.path)]) == 1
    assert "is a run already" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["tree.html", "tree.png", "tree.svg", "tree.pdf"])
def test_the_whole_tree_is_drawn(tree_run: Trained, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    picture = next(Path(tree_run.config.data.removeprefix("folder:")).rglob("*.png"))
    assert main(["tree", str(tree_run.path), str(picture), "--out", str(out)]) == 0
    assert out.stat().st_size > 1000
    if name.endswith("html"):
        page = out.read_text()
        assert page.count('class="leaf"') == tree_of(tree_run.model).tree().num_leaves
        assert all(f"Prototype {node} " in page for node in range(tree_run.model.num_prototypes))


def test_a_model_without_a_tree_says_so() -> None:
    model = pixel_model("pixpnet", Architecture(dim=3, prototypes_per_class=1), 2, 8)
    with pytest.raises(NoTree, match="does not decide by a tree"):
        tree_figure(model)


def test_a_class_behind_no_prototype_that_is_found_is_measured_by_nothing(tree_run: Trained) -> None:
    model = PixPNet.load(tree_run.path)
    decision = tree_of(model)
    decision.knowledge.copy_(torch.tensor([0.0, 9.0, 0.0]).expand_as(decision.knowledge))
    decision.knowledge[decision.tree().greedy_leaf([0.0] * decision.tree().num_nodes)] = torch.tensor([9.0, 0.0, 0.0])
    assert not model.prototypes_of(0).numel()
    assert model.prototypes_of(1).numel()
    data = open_run_data(tree_run.config)
    samples = [preprocess(data.reader(entry), model.preprocessing) for entry in data.val if entry.label == 0]
    for mapping in MAPPINGS.values():
        result = relevance_ordering(model, samples, mapping, prototypes_per_sample=1)
        assert (result.pairs, result.area, result.recovery) == ((), None, None)


def test_measured_figures_say_that_prototypes_have_no_class(tree_run: Trained, tmp_path: Path) -> None:
    few = MeasureSettings(mappings=("field", "upsampling"), samples=1, prototypes=1, split="val")
    table = measure(tree_run.path, few, out=tmp_path / "measured").table
    assert all(any("not defined for them" in note for note in row.notes) for row in table.rows)


def test_leaves_do_not_learn_before_an_epoch_begins() -> None:
    decision = TreeDecision(2, BinaryTree.complete(1))
    with pytest.raises(ValueError, match="begin_epoch"):
        decision.learn(torch.zeros(2, 2), 3)


@pytest.mark.parametrize("inference", ["soft", "sample_max", "greedy"])
def test_the_audit_holds_for_leaves_that_are_certain(tree_run: Trained, inference: Any) -> None:
    """They give others e^-5000, which no number holds."""
    model = PixPNet.load(tree_run.path)
    decision = tree_of(model)
    decision.inference = inference
    decision.knowledge.zero_()
    decision.knowledge[:, 0] = 5000.0
    result = check_reasoning(model)
    assert result.verdict == "holds", result.findings


def test_an_interrupted_conversion_leaves_nothing(tree_run: Trained, tmp_path: Path, monkeypatch: Any) -> None:
    def stopped(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pixpnet.training.derived._evaluate_on", stopped)
    with pytest.raises(KeyboardInterrupt):
        convert(tree_run.path, "hard", tmp_path / "hard")
    assert not list(tmp_path.iterdir())


def test_the_report_of_a_conversion_says_what_it_is(tree_run: Trained, tmp_path: Path) -> None:
    convert(tree_run.path, "hard", tmp_path / "hard")
    out = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "hard"), "--examples", "1", "--out", str(out)]) == 0
    assert "turned into a hard tree" in out.read_text()


def test_the_page_marks_the_path_of_a_picture(tree_run: Trained) -> None:
    explanation = explain(tree_run.model, an_image(tree_run))
    page = tree_page(tree_run.model, [explanation])
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
def test_a_record_whose_path_was_tampered_with_is_refused(
    tree_run: Trained, where: str, value: Any, words: str
) -> None:
    plain = json.loads(explain(tree_run.model, an_image(tree_run)).to_json())
    path = plain["classes"][0]["path"]
    path[where] = [value] * len(path[where]) if where == "probabilities" else value
    with pytest.raises(BadRecord, match=words):
        Explanation.from_json(json.dumps(plain))


def test_a_record_with_a_path_for_one_class_only_is_refused(tree_run: Trained) -> None:
    plain = json.loads(explain(tree_run.model, an_image(tree_run)).to_json())
    plain["classes"][0]["path"] = None
    with pytest.raises(BadRecord, match="soft one"):
        Explanation.from_json(json.dumps(plain))


def test_paths_are_not_contrasted_term_by_term(tree_run: Trained) -> None:
    explanation = explain(tree_run.model, an_image(tree_run))
    with pytest.raises(ValueError, match="where they part"):
        explanation.why_not(explanation.classes[1].label)


def test_a_chain_of_nodes_is_no_tree_to_read() -> None:
    chain = BinaryTree(tuple((~node, node + 1 if node < 19 else ~20) for node in range(20)))
    decision = TreeDecision(2, chain)
    with pytest.raises(RuntimeError, match="levels deep"):
        TreeDecision(2, BinaryTree.filled(20)).load_state_dict(decision.state_dict())
