"""Prototypes, verdicts, edits and the quiz as the page asks for them, on a run of its own."""

import json
import shutil
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pixpnet.metrics.quiz import read_replies
from pixpnet.training import Run
from pixpnet.training.calibrating import calibrate_run
from pixpnet.training.mending.preview import Editor, preview_edit
from pixpnet.training.mending.writing import free_folder
from pixpnet.verdicts import VerdictLog
from pixpnet.views.explorer.retraining import SUFFIX, arguments, retrain
from tests.views.explorer.client import Served, served


@pytest.fixture
def folder(run_folder: Path, tmp_path: Path) -> Path:
    """A copy that may be changed."""
    return Path(shutil.copytree(run_folder, tmp_path / "run"))


@pytest.fixture
def mine(folder: Path) -> Iterator[Served]:
    with served(folder) as opened:
        yield opened


def give(page: Served, expected: int, **verdict: Any) -> Any:
    return page.post("/api/verdicts", {"expected": expected, **verdict}).json


def test_every_prototype_is_listed_and_reviewed_ones_have_reasons_to_look_at_them(mine: Served) -> None:
    before = mine.ask("/api/prototypes").json
    assert not before["reviewed"] and len(before["prototypes"]) == mine.explorer.model.num_prototypes
    assert mine.ended(mine.post("/api/review", {}).json)["state"] == "done"
    after = mine.ask("/api/prototypes").json
    assert after["reviewed"] and all("suspicion" in line for line in after["prototypes"])
    one = mine.ask("/api/prototypes/1").json
    origins = mine.explorer.model.origins
    assert origins is not None
    assert one["origin"]["image"] == origins[1].image
    assert one["origin"]["region"]["hull"] == list(origins[1].hull or ())
    near = mine.ended(mine.post("/api/prototypes/1/nearest", {}).json)["result"]
    # Its own patch is the nearest one in the training images.
    assert near["train"][0]["name"] == origins[1].image
    scores = [float(patch["score"]) for patch in near["train"]]
    assert scores == sorted(scores, reverse=True)


def test_a_picture_of_a_prototype_is_made_and_one_that_is_not_there_is_said(mine: Served) -> None:
    assert mine.ask("/api/prototypes/0/crop").headers["content-type"] == "image/jpeg"
    for wrong in ("9999", "-1", "x", "..%2f..%2fetc", "1e3"):
        for end in ("", "/crop", "/picture"):
            assert mine.ask(f"/api/prototypes/{wrong}{end}").status in (400, 404), wrong


def test_a_verdict_is_written_shown_and_taken_back(mine: Served, folder: Path) -> None:
    given = give(mine, 0, prototype=1, kind="remove")
    assert (given["serial"], given["removed"], given["stale"]) == (1, [1], "")
    named = give(mine, 1, prototype=1, kind="name", text="red belly")
    assert named["standing"]["1"]["name"] == "red belly"
    assert mine.explorer.model.names == {1: "red belly"}
    undone = mine.post("/api/verdicts/undo", {"serial": 1, "expected": 2}).json
    assert undone["removed"] == []
    log = VerdictLog(folder)
    assert log.serial == 3 and log.removed() == () and log.names() == {1: "red belly"}


def test_a_tab_that_has_not_seen_the_last_verdict_overwrites_nothing(mine: Served, folder: Path) -> None:
    assert give(mine, 0, prototype=0, kind="remove")["stale"] == ""
    late = give(mine, 0, prototype=0, kind="keep")
    assert late["stale"] and late["removed"] == [0]  # it is told what holds
    assert VerdictLog(folder).serial == 1


def test_many_tabs_at_once_lose_no_verdict(mine: Served, folder: Path) -> None:
    def insist(prototype: int) -> None:
        serial = mine.ask("/api/verdicts").json["serial"]
        while (answer := give(mine, serial, prototype=prototype, kind="keep"))["stale"]:
            serial = answer["serial"]

    count = mine.explorer.model.num_prototypes
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(insist, [number % count for number in range(24)]))
    assert VerdictLog(folder).serial == 24


@pytest.mark.parametrize(
    "wrong",
    [
        {"prototype": 0, "kind": "adore", "expected": 0},
        {"prototype": "0", "kind": "keep", "expected": 0},
        {"prototype": 10**6, "kind": "keep", "expected": 0},
        {"prototype": True, "kind": "keep", "expected": 0},
        {"prototype": 0, "kind": "name", "text": "x" * 500, "expected": 0},
        {"prototype": 0, "kind": "name", "text": "a\u0000b", "expected": 0},
        {"prototype": 0, "kind": "name", "text": ["a"], "expected": 0},
        {"prototype": 0, "kind": "require", "weight": -1, "expected": 0},
        {"prototype": 0, "kind": "keep"},
        {"prototype": 0, "kind": "keep", "expected": "0"},
        {"prototype": 0, "kind": "keep", "expected": -1},
        {"prototype": 0, "kind": ["keep"], "expected": 0},
    ],
)
def test_a_bad_verdict_is_refused_with_a_sentence_and_nothing_is_written(
    mine: Served, folder: Path, wrong: dict[str, Any]
) -> None:
    reply = mine.post("/api/verdicts", wrong)
    assert reply.status == 400 and reply.json["error"]
    assert not (folder / "verdicts.jsonl").exists()


def test_a_preview_says_what_the_library_says_and_the_edited_run_is_written(mine: Served, folder: Path) -> None:
    assert mine.post("/api/edits/preview", {}).json == {"preview": None}
    give(mine, 0, prototype=1, kind="remove")
    shown = mine.post("/api/edits/preview", {}).json
    assert mine.ended(shown["job"])["state"] == "done"
    first = mine.post("/api/edits/preview", {}).json["preview"]  # from memory now, at once
    told = preview_edit(folder, remove=[1])
    assert [outcome["way"] for outcome in first["outcomes"]] == [outcome.way for outcome in told.outcomes]
    assert [outcome["changed_count"] for outcome in first["outcomes"]] == [len(way.changed) for way in told.outcomes]
    way = first["outcomes"][0]["way"]
    assert mine.post("/api/edits", {"way": way}).status == 400  # which verdicts?
    written = mine.ended(mine.post("/api/edits", {"way": way, "expected": 1}).json)
    assert written["state"] == "done", written["error"]
    edited = Run(folder.parent / written["result"]["run"])
    assert edited.path.name == "run+edited" and edited.model().mendings[0].removed == (1,)


def test_an_edit_or_a_training_that_was_not_shown_is_not_made(mine: Served, folder: Path) -> None:
    give(mine, 0, prototype=1, kind="remove")
    give(mine, 1, prototype=1, kind="forbid")
    for path, body in (("/api/edits", {"way": "scaled"}), ("/api/retrainings", {})):
        late = mine.post(path, {**body, "expected": 1}).json
        assert late["stale"] and "id" not in late
        assert (late["serial"], late["removed"], late["forbidden"]) == (2, [1], 1)  # what holds now
    assert mine.ask("/api/jobs").json["jobs"] == []
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == ["run"]


def test_whoever_asks_while_images_are_gone_through_is_given_the_same_job(
    mine: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, warm_up = threading.Event(), Editor.warm_up
    monkeypatch.setattr(Editor, "warm_up", lambda editor: (free.wait(), warm_up(editor)))
    give(mine, 0, prototype=1, kind="remove")
    try:
        first = mine.post("/api/edits/preview", {}).json["job"]
        give(mine, 1, prototype=2, kind="remove")
        assert mine.post("/api/edits/preview", {}).json["job"]["id"] == first["id"]
        # One that needs the same waits for it, and may be cancelled meanwhile.
        writing = mine.post("/api/edits", {"way": "scaled", "expected": 2}).json
        mine.post(f"/api/jobs/{writing['id']}/cancel", {})
        assert mine.ended(writing)["state"] == "cancelled"
    finally:
        free.set()
    assert mine.ended(first)["state"] == "done"
    assert mine.post("/api/edits/preview", {}).json["preview"]["removed"] == [1, 2]


@pytest.mark.parametrize("given_before", [0, 1])
def test_verdicts_go_on_when_the_model_is_calibrated_beside_the_page(
    mine: Served, folder: Path, given_before: int
) -> None:
    if given_before:
        assert give(mine, 0, prototype=1, kind="remove")["serial"] == 1
        mine.ended(mine.post("/api/edits/preview", {}).json["job"])
    before = Run(folder).fingerprint()
    calibrate_run(folder)
    assert Run(folder).fingerprint() != before
    given = give(mine, given_before, prototype=2, kind="remove")
    serial = given_before + 1
    assert (given["serial"], given["stale"]) == (serial, "")
    assert mine.ask("/api/verdicts").json["serial"] == mine.ask("/api/prototypes").json["serial"] == serial
    job = mine.ended(mine.post("/api/edits/preview", {}).json["job"])
    assert job["state"] == "done", job["error"]
    way = mine.post("/api/edits/preview", {}).json["preview"]["outcomes"][0]["way"]
    written = mine.ended(mine.post("/api/edits", {"way": way, "expected": serial}).json)
    assert written["state"] == "done", written["error"]


def test_when_the_run_has_got_another_model_nothing_is_written_and_that_is_said(mine: Served, folder: Path) -> None:
    file = folder / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    reply = mine.post("/api/verdicts", {"prototype": 0, "kind": "keep", "expected": 0})
    assert (reply.status, reply.json["error"]) == (
        400,
        "the model of this run has changed: start pixpnet serve again",
    )
    assert not (folder / "verdicts.jsonl").exists()
    assert mine.ask("/api/prototypes").status == 400


def test_what_is_not_there_and_a_disk_that_fails_are_sentences_and_bugs_are_not(
    mine: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine.explorer.model.origins = None
    crop = mine.ask("/api/prototypes/0/crop")
    assert (crop.status, "no patch" in crop.json["error"]) == (404, True)

    def fails(error: Exception) -> Any:
        def give_verdict(*given: object) -> None:
            raise error

        monkeypatch.setattr("pixpnet.views.explorer.mending.give_verdict", give_verdict)
        return mine.post("/api/verdicts", {"prototype": 0, "kind": "keep", "expected": 0})

    full = fails(OSError(28, "No space left on device", "/secret/verdicts.jsonl"))
    assert full.status == 507
    assert "No space left on device" in full.json["error"] and "secret" not in full.json["error"]
    assert fails(OSError("/secret is gone")).json["error"].count("secret") == 0
    bug = fails(KeyError("number"))
    assert (bug.status, "the terminal" in bug.json["error"]) == (500, True)
    assert mine.ask("/api/run").status == 200


def test_retraining_needs_a_patch_and_follows_a_process_to_its_end(mine: Served, folder: Path, tmp_path: Path) -> None:
    assert mine.post("/api/retrainings", {"expected": 0}).status == 400
    seen: list[tuple[str, int, int]] = []
    # A stand-in that says how far it is, as training does, and leaves a run.
    script = tmp_path / "train.py"
    script.write_text(
        "import shutil, sys\n"
        "print(' 40 % of the run, 0:00:01 so far')\n"
        f"shutil.copytree({str(folder)!r}, sys.argv[sys.argv.index('--out') + 1])\n"
    )
    result = retrain(folder, lambda *step: seen.append(step), called=(sys.executable, str(script)))
    assert ("training with feedback", 40, 100) in seen
    assert result.values["run"] == "run+feedback" and "validation accuracy" in result.values["words"]
    assert free_folder(folder, SUFFIX).name == "run+feedback-2"
    assert arguments(folder, Path("out"))[:2] == ["train", "--config"]


@pytest.mark.parametrize("printed", ["print(' 1 % of the run', flush=True)", ""])
def test_a_cancelled_retraining_ends_its_process_also_when_it_prints_nothing(
    folder: Path, tmp_path: Path, printed: str
) -> None:
    script = tmp_path / "train.py"
    mark = tmp_path / "mark"
    script.write_text(f"import time, pathlib, sys\n{printed}\ntime.sleep(60)\npathlib.Path({str(mark)!r}).touch()\n")
    steps: list[int] = []

    class Cancelled(Exception):
        pass

    def progress(task: str, done: int, total: int) -> None:
        steps.append(done)
        if done or (not printed and len(steps) == 2):
            raise Cancelled

    with pytest.raises(Cancelled):
        retrain(folder, progress, called=(sys.executable, str(script)))
    assert not mark.exists()


def test_a_quiz_tells_nothing_before_the_reply_and_keeps_what_was_replied(mine: Served, folder: Path) -> None:
    drawn = mine.ended(mine.post("/api/quiz", {"agreement": 6, "distinction": 2, "seed": 3}).json)
    assert drawn["state"] == "done", drawn["error"]
    quiz = drawn["result"]["quiz"]
    model = mine.explorer.model
    for task in ("agreement", "distinction"):
        for index in range(drawn["result"][task]):
            base = f"/api/quiz/{quiz}/{task}/{index}"
            question = mine.ask(base)
            text = question.body.decode()
            assert not any(json.dumps(name) in text for name in model.class_names)
            assert not any(word in text for word in ("right", "wrong", "control", "truth", "prototype", 'image"'))
            for side in ("this", "that"):
                assert mine.ask(f"{base}/0/{side}").headers["content-type"] == "image/png"
            assert mine.ask(f"{base}/image").status == 200
            value = 4 if task == "agreement" else 0
            assert mine.post(base, {"person": "ann", "value": value}).json == {"kept": True}
            for wrong in ({"person": "ann", "value": 99}, {"person": 1, "value": 1}, {"value": "1"}, {"value": True}):
                assert mine.post(base, wrong).status == 400
    replies = read_replies(folder / "quiz.jsonl", {Run(folder).fingerprint()})
    assert len(replies) == drawn["result"]["agreement"] + drawn["result"]["distinction"]
    result = mine.ask("/api/quiz/result").json
    assert result["replies"] == len(replies) and result["people"] == 1
    table = mine.ask("/api/quiz/replies.csv")
    assert table.headers["content-type"].startswith("text/csv") and len(table.body.splitlines()) == len(replies) + 1
    for lost in (f"/api/quiz/{quiz}/agreement/99", f"/api/quiz/{quiz}/other/0", "/api/quiz/none/agreement/0"):
        assert mine.ask(lost).status == 404
