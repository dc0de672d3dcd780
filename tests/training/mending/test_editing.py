"""Edits of a real run: previews, edited runs that open like any other, and verdicts that go with them."""

import json
import runpy
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize  # type: ignore[import-untyped]

import pixpnet as px
from pixpnet.box import Box
from pixpnet.cli import main
from pixpnet.members.pixpnet import Architecture
from pixpnet.metrics.review.reviewing import _Answers
from pixpnet.model.file import mendings_in
from pixpnet.model.mending import Mending
from pixpnet.settings import Replacement
from pixpnet.training import train
from pixpnet.training.mending.preview import L2, Editor
from pixpnet.training.mending.scores import prototype_scores
from pixpnet.views.explorer.mending import preview_facts
from tests.training.conftest import Trained
from tests.training.material import small_config


@pytest.fixture(scope="module")
def reviewed(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the run in which scores are kept already."""
    path = Path(shutil.copytree(trained.path, tmp_path_factory.mktemp("reviewed") / "run"))
    px.review_prototypes(path)
    return path


@pytest.fixture
def copied(reviewed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(reviewed, tmp_path / "copy" / "run"))


@pytest.fixture(scope="module")
def weighted(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose head learns a weight for each prototype."""
    config = small_config(pictures)
    config = config.with_settings(
        architecture=Architecture(dim=8, prototypes_per_class=3, head="own_class"),
        replacement=Replacement(start=1, every=1, head_epochs=1),
    )
    path = tmp_path_factory.mktemp("weighted") / "run"
    train(config, path)
    return path


def answers_by_numpy(run: Path, factors: dict[int, float]) -> np.ndarray:
    """Answers of a class sum to validation images, with a factor for each prototype (else 1)."""
    seen = prototype_scores(px.Run(run), "val")
    labels = px.Run(run).model().labels.numpy()
    scores = seen.scores.double().numpy() * np.array([factors.get(number, 1.0) for number in range(len(labels))])
    return np.stack([scores[:, labels == label].sum(axis=1) for label in range(labels.max() + 1)], axis=1).argmax(
        axis=1
    )


def test_scaled_removal_and_dropping_are_what_numpy_says(copied: Path) -> None:
    preview = px.preview_edit(copied, remove=[0, 3])
    seen = prototype_scores(px.Run(copied), "val")
    truth = seen.labels.numpy()
    # Two prototypes a class: 0 and 1 are of the first, 2 and 3 of the second; K / (K - r) = 2.
    expected = {"scaled": {0: 0.0, 1: 2.0, 3: 0.0, 2: 2.0}, "dropped": {0: 0.0, 3: 0.0}}
    before = answers_by_numpy(copied, {})
    assert preview.right == int((before == truth).sum()) and preview.images == len(truth)
    assert [outcome.way for outcome in preview.outcomes] == ["scaled", "dropped"]
    names = px.Run(copied).model().class_names
    for outcome in preview.outcomes:
        after = answers_by_numpy(copied, expected[outcome.way])
        assert outcome.right == int((after == truth).sum())
        changed = [
            (seen.ids[image], names[truth[image]], names[before[image]], names[after[image]])
            for image in np.flatnonzero(before != after)
        ]
        assert [(one.image, one.class_name, one.before, one.after) for one in outcome.changed] == changed


def test_the_scores_that_are_kept_are_those_of_the_model(copied: Path) -> None:
    run = px.Run(copied)
    model, data = run.model(), run.data()
    seen = prototype_scores(run, "val")
    assert seen.ids == tuple(entry.id for entry in data.val)
    explanation = px.explain(model, data.reader(data.val[0]))
    for term in explanation.predicted.terms:
        assert float(seen.scores[0, term.prototype]) == pytest.approx(term.score, rel=1e-4)
        assert tuple(seen.cells[0, term.prototype].tolist()) == term.cell


def test_kept_scores_of_another_model_are_made_again(copied: Path, trained: Trained) -> None:
    stored = copied / "review" / "scores-val.safetensors"
    before, content = prototype_scores(px.Run(copied), "val"), stored.read_bytes()
    stored.write_bytes(content[: len(content) // 2])
    again = prototype_scores(px.Run(copied), "val")
    assert torch.equal(again.scores, before.scores) and again.ids == before.ids
    assert len(stored.read_bytes()) == len(content)
    assert px.read_reviews(copied) is not None
    text = (copied / "review" / "reviews.json").read_text()
    (copied / "review" / "reviews.json").write_text(text.replace(px.Run(copied).fingerprint(), "0" * 32))
    assert px.read_reviews(copied) is None


def test_an_edited_run_loads_explains_audits_reports_and_says_what_was_done(copied: Path) -> None:
    px.give_verdict(copied, px.Verdict(1, "name", "corner"))
    px.give_verdict(copied, px.Verdict(2, "forbid"))
    px.give_verdict(copied, px.Verdict(0, "remove"))
    preview = px.preview_edit(copied, remove=[0])
    edited = px.write_edit(copied, preview)
    assert edited.path == copied.with_name("run+edited")
    model = edited.model()
    original = px.Run(copied).model()
    (mending,) = model.mendings
    assert (mending.removed, mending.way, mending.source) == ((0,), "scaled", "run")
    assert mending.source_model == px.Run(copied).fingerprint()
    assert mendings_in(edited.path) == model.mendings and original.mendings == ()
    assert model.names == {1: "corner"} and model.origins == original.origins
    # Explanations: the removed one is in none, the other one of its class counts twofold, and the sum is the logit.
    data = edited.data()
    entry = next(entry for entry in data.val if entry.label == 0)
    explanation = px.explain(model, data.reader(entry), classes=[0])
    terms = explanation.explained(0).terms
    assert [(term.prototype, term.weight, term.name) for term in terms] == [(1, 2.0, "corner")]
    assert explanation.explained(0).logit == pytest.approx(sum(term.contribution for term in terms), rel=1e-5)
    assert "corner" in str(explanation) or explanation.predicted.label != 0
    assert "corner" in explanation.details() and "1 prototype removed" in explanation.details()
    assert px.Explanation.from_json(explanation.to_json()) == explanation
    proven = px.prove(model, data.reader(entry), explanation, draws=2)
    assert all(term.proof is None or term.proof.passed for shown in proven.classes for term in shown.terms)
    # What was measured is the edited model's own, and what was previewed.
    assert edited.finished
    figures = edited.read_metrics()
    assert round(figures["validation"]["accuracy"] * preview.images) == preview.outcome().right
    assert figures["test"] is None and not edited.openings.exists()
    audited = px.audit(edited.path, model, data, pixels=2)
    assert [part.verdict for part in (audited.grounding, audited.reasoning)] == ["holds", "holds"]
    page = px.report(edited.path, examples=1)
    assert any("without training: 1 prototype removed (0)" in note for note in page.notes)
    assert json.loads((edited.path / "edit.json").read_text())["removed"] == [0]
    # What is forbidden goes on with it; what was removed has been done.
    log = px.VerdictLog(edited.path)
    assert len(log.forbidden()) == 1 and log.removed() == ()
    assert px.review_prototypes(edited.path)[0].reasons == ("it counts for nothing: its weights are 0",)


def test_an_edit_of_an_edited_run_scales_by_what_is_left_and_is_told_too(copied: Path) -> None:
    first = px.write_edit(copied, px.preview_edit(copied, remove=[0]))
    second = px.write_edit(first, px.preview_edit(first, remove=[2]))
    assert second.path.name == "run+edited-2"
    assert [mending.removed for mending in second.model().mendings] == [(0,), (2,)]
    weights = second.model().head.weights().sum(dim=0)
    assert weights[:4].tolist() == [0.0, 2.0, 0.0, 2.0]


def test_what_cannot_be_edited_is_refused_with_a_sentence(copied: Path, unfinished: Path) -> None:
    with pytest.raises(px.NoEdit, match="would have no prototype left"):
        px.preview_edit(copied, remove=[0, 1])
    with pytest.raises(px.NoEdit, match="fixed weight"):
        px.preview_edit(copied, require={0: 0.5})
    with pytest.raises(ValueError, match="there is no prototype 99: they are 0 to 5"):
        px.preview_edit(copied, remove=[99])
    with pytest.raises(ValueError, match="at least one"):
        px.preview_edit(copied)
    with pytest.raises(px.RunError, match="not finished"):
        px.preview_edit(unfinished, remove=[0])
    preview = px.preview_edit(copied, remove=[0])
    with pytest.raises(ValueError, match="cannot be made refitted"):
        px.write_edit(copied, preview, way="refitted")
    with pytest.raises(px.RunError, match="another model now"):
        px.write_edit(copied, replace(preview, model="0" * 32))
    with pytest.raises(px.RunError, match="exists and is not empty"):
        px.write_edit(copied, preview, out=copied.parent)


def test_a_weighted_head_is_refitted_in_closed_form_and_required_weights_are_kept(weighted: Path) -> None:
    editor = Editor(weighted)
    preview = editor.preview(remove=[0])
    assert {outcome.way for outcome in preview.outcomes} == {"refitted", "dropped"}
    refit = preview.refit
    assert refit is not None and refit.gradient < 1e-6
    assert refit.allowed == (refit.estimated_cost <= refit.limit)
    assert refit.true_cost > 0
    required = editor.preview(remove=[0], require={4: 3.0})
    assert [outcome.way for outcome in required.outcomes] == ["refitted"]
    weights = required.outcome("refitted").weights
    assert weights[0] == 0 and weights[4] >= 3.0
    edited = px.write_edit(weighted, required, out=weighted.parent / "edited", way="refitted")
    head = edited.model().head.weights().sum(dim=0).tolist()
    assert head == pytest.approx(list(weights), rel=1e-5)


def test_what_costs_more_than_allowed_comes_last_and_is_written_only_where_it_is_asked_for(
    weighted: Path, tmp_path: Path
) -> None:
    generous = Editor(weighted, cost_limit=1e6).preview(remove=[0])
    assert [outcome.way for outcome in generous.outcomes] == ["refitted", "dropped"]
    assert generous.outcome().way == "refitted"
    strict = Editor(weighted, cost_limit=1e-12)
    refused = strict.preview(remove=[0])
    assert refused.refit is not None and not refused.refit.allowed
    assert [outcome.way for outcome in refused.outcomes] == ["dropped", "refitted"]
    assert refused.outcome().way == "dropped"
    shown = {outcome["way"]: outcome for outcome in preview_facts(refused)["outcomes"]}
    assert shown["dropped"]["recommended"] and not shown["refitted"]["recommended"]
    assert not shown["refitted"]["allowed"]
    only = strict.preview(remove=[0], require={4: 3.0})
    assert only.recommended is None
    with pytest.raises(px.NoEdit, match=r"not allowed: the training loss would rise by .* at most 1e-12 is allowed"):
        px.write_edit(weighted, only, out=tmp_path / "edited")
    assert not (tmp_path / "edited").exists()
    assert px.write_edit(weighted, only, out=tmp_path / "edited", way="refitted").finished


def test_the_command_refuses_what_costs_more_than_allowed_and_tells_refit_and_edit_apart(
    weighted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Editor.__init__, "__defaults__", (*(Editor.__init__.__defaults__ or ())[:-1], 1e-12))
    words = ["edit", str(weighted), "--remove", "0", "--require", "4=3.0", "--out", str(tmp_path / "edited")]
    assert main(words) == 1
    assert "this edit is not allowed" in capsys.readouterr().err
    assert not (tmp_path / "edited").exists()
    assert main([*words, "--preview"]) == 0
    text = capsys.readouterr().out
    # Nothing removed: by a preview that is asked to hold a prototype to a weight that it has anyway.
    preview = Editor(weighted).preview(require={4: 1e-6})
    assert preview.refit is not None
    assert f"refitted, nothing removed: {preview.outcomes[0].right} of {preview.images} right" in text
    assert "NOT allowed" in text
    assert main([*words, "--preview", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["refit"]["refitted_right"] == preview.outcomes[0].right


def lowest_loss(run: Path, without: tuple[int, ...]) -> tuple[float, Callable[[np.ndarray], float]]:
    """The lowest training loss of a head with one weight for each prototype, by scipy, and the loss of any weights."""
    seen, model = prototype_scores(px.Run(run), "train"), px.Run(run).model()
    scores, owner, labels = seen.scores.double().numpy(), model.labels.numpy(), seen.labels.numpy()
    left = np.array([number not in without for number in range(len(owner))])

    def loss(weights: np.ndarray) -> float:
        addends = scores * weights
        logits = np.stack([addends[:, owner == label].sum(axis=1) for label in range(model.num_classes)], axis=1)
        right = logits[np.arange(len(labels)), labels]
        return float((np.logaddexp.reduce(logits, axis=1) - right).mean() + L2 * (weights**2).sum())

    def of_left(some: np.ndarray) -> float:
        weights = np.zeros(len(owner))
        weights[left] = some
        return loss(weights)

    best = minimize(of_left, np.ones(left.sum()), method="BFGS", options={"gtol": 1e-8})
    return float(best.fun), loss


def test_what_an_earlier_edit_removed_is_not_charged_again(weighted: Path, tmp_path: Path) -> None:
    first = Editor(weighted).preview(remove=[0, 1])
    edited = px.write_edit(weighted, first, out=tmp_path / "edited", way="refitted")
    second = Editor(edited).preview(remove=[3])
    lowest, loss = lowest_loss(weighted, (0, 1))
    assert second.refit is not None
    assert second.refit.loss == pytest.approx(lowest, abs=1e-6)
    outcome = second.outcome("refitted")
    assert outcome.weights[0] == outcome.weights[1] == outcome.weights[3] == 0
    assert second.refit.true_cost == pytest.approx(loss(np.array(outcome.weights)) - lowest, abs=1e-6)


def test_a_prototype_that_was_required_after_it_was_removed_stays(weighted: Path) -> None:
    model = px.Run(weighted).model()
    model.mendings = (
        Mending("a", "0", (0,), (), (), "refitted"),
        Mending("b", "1", (), (0,), (0.5,), "refitted"),
    )
    preview = Editor(weighted, model=model).preview(remove=[3])
    for outcome in preview.outcomes:
        assert outcome.weights[0] != 0 and outcome.weights[3] == 0


def test_verdicts_that_an_edit_does_not_carry_out_go_with_the_edited_run(copied: Path) -> None:
    for number in (0, 3):
        px.give_verdict(copied, px.Verdict(number, "remove"))
    px.give_verdict(copied, px.Verdict(4, "require", weight=0.5))
    px.give_verdict(copied, px.Verdict(5, "keep"))
    edited = px.write_edit(copied, px.preview_edit(copied, remove=[0]))
    log = px.VerdictLog(edited.path)
    assert log.removed() == (3,) and log.required() == {4: 0.5}
    assert {number: standing.action for number, standing in log.standing().items()} == {
        3: "remove",
        4: "require",
        5: "keep",
    }


def test_reviews_say_what_is_nearest_and_rank_by_suspicion(copied: Path) -> None:
    reviews = px.review_prototypes(copied)
    suspicions = [reviews[number].suspicion for number in reviews.ranking]
    assert suspicions == sorted(suspicions, reverse=True) and len(reviews) == 6
    nearest = px.nearest_patches(copied, 2, count=3)
    seen = prototype_scores(px.Run(copied), "train")
    best = np.argsort(-seen.scores[:, 2].numpy(), kind="stable")[:3]
    assert [patch.image for patch in nearest.train] == [seen.ids[image] for image in best]
    model = px.Run(copied).model()
    origin = model.origins[2]  # type: ignore[index]
    assert origin.image in [patch.image for patch in nearest.train if np.isclose(patch.score, nearest.train[0].score)]
    assert all(isinstance(box, Box) for patch in (*nearest.train, *nearest.val) for box in patch.region)
    own = next(patch for patch in nearest.train if patch.image == origin.image)
    assert own.region == origin.boxes and px.training_patch(copied, own).boxes == origin.boxes
    with pytest.raises(px.VerdictError, match="no training image"):
        px.training_patch(copied, nearest.val[0])


def test_which_prototype_misled_an_answer_is_worked_out_once_for_all_prototypes(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, seen = px.Run(copied).model(), prototype_scores(px.Run(copied), "val")
    # Wrong answers: images of another class than they are said to be.
    answers = _Answers(model, replace(seen, labels=(seen.labels + 1) % model.num_classes))

    def again(*given: object) -> None:
        raise AssertionError("worked out again")

    monkeypatch.setattr(torch.Tensor, "nan_to_num", again)
    misled = [answers.misled(number) for number in range(model.num_prototypes)]
    assert sum(map(len, misled)) == answers.wrong > 0
    own = model.labels.numpy()
    for number, images in enumerate(misled):
        for image in images:
            scores = seen.scores[seen.ids.index(image.image)].numpy()
            assert number == np.where(own == own[number], scores, -np.inf).argmax()


def test_a_study_that_is_interrupted_while_it_forbids_ends_like_another(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = runpy.run_path(str(Path(__file__).parents[3] / "studies" / "confounder.py"))
    marks = SimpleNamespace(holds=lambda image, region: True)
    whole, cut = (px.Run(Path(shutil.copytree(copied, tmp_path / name))) for name in ("whole", "cut"))
    patches = study["forbid"](whole, [0, 2], marks, 2)
    give, left = px.give_verdict, iter(range(2))

    class Interrupted(Exception):
        pass

    def until_interrupted(*given: Any) -> object:
        if next(left, None) is None:
            raise Interrupted
        return give(*given)

    monkeypatch.setattr(px, "give_verdict", until_interrupted)
    with pytest.raises(Interrupted):
        study["forbid"](cut, [0, 2], marks, 2)
    monkeypatch.setattr(px, "give_verdict", give)
    for _ in range(2):
        assert study["forbid"](cut, [0, 2], marks, 2) == patches
        assert px.VerdictLog(cut.path).standing() == px.VerdictLog(whole.path).standing()


def test_verdicts_review_and_edit_work_from_the_command_line(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(copied)
    assert main(["verdicts", "list", run]) == 0
    assert "no verdicts yet" in capsys.readouterr().out
    assert main(["verdicts", "add", run, "remove", "0", "2"]) == 0
    assert main(["verdicts", "add", run, "name", "1", "--text", "red corner"]) == 0
    assert main(["verdicts", "add", run, "forbid", "3", "--nearest", "2"]) == 0
    out = capsys.readouterr().out
    assert "1: remove prototype 0" in out and out.count("forbid prototype 3") == 3
    assert main(["verdicts", "add", run, "keep", "5", "--expect", "1"]) == 1
    assert "somebody else wrote" in capsys.readouterr().err
    assert main(["verdicts", "undo", run, "2"]) == 0
    assert main(["verdicts", "list", run]) == 0
    out = capsys.readouterr().out
    assert "red corner" in out and "2          remove" not in out
    assert main(["verdicts", "list", run, "--all"]) == 0
    assert main(["review", run, "--top", "2"]) == 0
    assert main(["review", run, "--prototype", "1"]) == 0
    assert "prototype 1 (red corner)" in capsys.readouterr().out
    assert main(["edit", run, "--preview"]) == 0
    assert not copied.with_name("run+edited").exists()
    assert main(["edit", run, "--way", "dropped"]) == 0
    assert "the run: " in capsys.readouterr().out
    assert px.Run(copied.with_name("run+edited")).model().mendings[0].removed == (0,)
    for words, said in (
        (["verdicts", "add", run, "remove", "99"], "no prototype 99"),
        (["verdicts", "add", run, "require", "1"], "least weight"),
        (["verdicts", "add", run, "keep", "1", "--nearest", "3"], "--nearest is"),
        (["edit", run, "--require", "1"], "5=0.5, got '1'"),
        (["verdicts", "list", str(copied / "nothing")], "no model to have verdicts about"),
    ):
        assert main(words) == 1
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1
