"""The log of verdicts: added to and never overwritten, by several writers at once, whatever the file holds."""

import json
import multiprocessing
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixpnet import file_lock
from pixpnet.box import Box
from pixpnet.verdicts import (
    OtherModelVerdicts,
    StaleVerdicts,
    Standing,
    TrainingPatch,
    Verdict,
    VerdictError,
    VerdictLine,
    VerdictLog,
    VerdictWarning,
    names_beside,
    read_verdicts,
    standing_of,
)
from tests.verdicts.half_lines import HeldLock

MODEL = "0" * 32
IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)


def patch(image: str = "train/1", x: int = 0) -> TrainingPatch:
    return TrainingPatch(image, "jay", (Box(0, x, 8, x + 8),), (32, 32), IDENTITY, 0, 0, x)


def line(serial: int, verdict: Verdict | None = None, undoes: int | None = None) -> VerdictLine:
    return VerdictLine(serial, "2026-01-01T00:00:00+00:00", MODEL, verdict, undoes)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    return tmp_path


def test_verdicts_are_lines_of_json_and_read_back_as_they_were_given(folder: Path) -> None:
    log = VerdictLog(folder)
    given_verdicts = [
        Verdict(3, "remove"),
        Verdict(5, "name", "rötlicher Bauch"),
        Verdict(7, "require", weight=0.5),
        Verdict(9, "forbid", "the mark", patch=patch()),
    ]
    for number, verdict in enumerate(given_verdicts):
        assert log.append(verdict, expected=number).serial == number + 1
    texts = (folder / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(text)["serial"] for text in texts] == [1, 2, 3, 4]
    assert [read.verdict for read in VerdictLog(folder).lines()] == given_verdicts
    assert VerdictLog(folder).names() == {5: "rötlicher Bauch"}
    assert VerdictLog(folder).removed() == (3,)
    assert VerdictLog(folder).required() == {7: 0.5}
    assert VerdictLog(folder).forbidden() == (patch(),)


def test_undoing_is_a_line_and_takes_back_the_last_that_stands(folder: Path) -> None:
    log = VerdictLog(folder)
    log.append(Verdict(1, "remove"))
    log.append(Verdict(1, "keep"))
    assert log.standing()[1].action == "keep"
    assert log.undo().undoes == 2
    assert log.standing()[1].action == "remove"
    assert log.undo(1).undoes == 1
    assert log.standing() == {}
    assert log.serial == 4
    with pytest.raises(VerdictError, match="no verdict left"):
        log.undo()
    with pytest.raises(VerdictError, match="no verdict 2 to take back"):
        log.undo(2)


def test_a_writer_that_has_not_seen_the_last_line_is_refused_and_nothing_is_written(folder: Path) -> None:
    one, other = VerdictLog(folder), VerdictLog(folder)
    seen = other.serial
    one.append(Verdict(1, "remove"), expected=0)
    with pytest.raises(StaleVerdicts, match="somebody else wrote"):
        other.append(Verdict(1, "keep"), expected=seen)
    assert [read.verdict for read in other.lines()] == [Verdict(1, "remove")]
    with pytest.raises(StaleVerdicts):
        other.undo(1, expected=seen)
    other.append(Verdict(1, "keep"), expected=other.serial)
    assert one.standing()[1].action == "keep"


def _write_many(folder: str, writer: int, count: int) -> None:
    log = VerdictLog(folder)
    for number in range(count):
        log.append(Verdict(1000 * writer + number, "keep"))


def test_threads_and_processes_that_write_at_once_lose_nothing(folder: Path) -> None:
    # Not `fork`: threads of other tests may hold locks at that moment, which nobody would free in the copy.
    context = multiprocessing.get_context("forkserver")
    processes = [context.Process(target=_write_many, args=(str(folder), writer, 15)) for writer in (1, 2)]
    threads = [threading.Thread(target=_write_many, args=(str(folder), writer, 15)) for writer in (3, 4)]
    for worker in (*processes, *threads):
        worker.start()
    for worker in (*processes, *threads):
        worker.join()
    lines = VerdictLog(folder).lines()
    assert [read.serial for read in lines] == list(range(1, 61))
    numbers = [read.verdict.prototype for read in lines if read.verdict is not None]
    assert sorted(numbers) == sorted(1000 * writer + number for writer in (1, 2, 3, 4) for number in range(15))


def test_of_two_that_expect_the_same_serial_exactly_one_writes(folder: Path) -> None:
    refused = []

    def write(writer: int) -> None:
        try:
            VerdictLog(folder).append(Verdict(writer, "keep"), expected=0)
        except StaleVerdicts:
            refused.append(writer)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 7
    assert VerdictLog(folder).serial == 1


def test_a_log_about_another_model_is_refused_with_a_sentence(folder: Path) -> None:
    VerdictLog(folder).append(Verdict(1, "name", "belly"))
    (folder / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(OtherModelVerdicts, match="another model"):
        VerdictLog(folder).standing()
    with pytest.raises(OtherModelVerdicts):
        VerdictLog(folder).append(Verdict(1, "keep"))
    with pytest.warns(VerdictWarning, match="another model"):
        assert names_beside(folder / "model.safetensors") == {}


def test_names_stand_beside_a_model_until_they_are_taken_away(folder: Path) -> None:
    model = folder / "model.safetensors"
    assert names_beside(model) == {}
    log = VerdictLog(folder)
    log.append(Verdict(4, "name", " red   belly "))
    assert names_beside(model) == {4: "red belly"}
    log.append(Verdict(4, "name", ""))
    assert names_beside(model) == {}


def _valid() -> dict[str, object]:
    return {
        "serial": 1,
        "time": "2026-01-01T00:00:00+00:00",
        "model": MODEL,
        "verdict": {"prototype": 1, "kind": "keep", "text": "", "weight": None, "patch": None},
        "undoes": None,
    }


def _changed(**verdict: object) -> bytes:
    plain = _valid()
    assert isinstance(plain["verdict"], dict)
    plain["verdict"].update(verdict)
    return json.dumps(plain).encode() + b"\n"


BOX = {
    "image": "a",
    "class_name": "jay",
    "boxes": [[0, 0, 4, 4]],
    "size": [32, 32],
    "to_source": list(IDENTITY),
    "grid": 0,
    "row": 0,
    "col": 0,
}


def test_a_reader_that_sees_half_a_line_waits_for_its_writer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "verdicts.jsonl"
    held = HeldLock(path, json.dumps(_valid()).encode() + b"\n")
    monkeypatch.setattr(file_lock, "lock", held.lock)
    assert [read.verdict for read in read_verdicts(path, MODEL)] == [Verdict(1, "keep")]
    assert held.waited == 1
    read_verdicts(path, MODEL)
    assert held.waited == 1  # a whole file is read without the lock


def test_where_there_are_no_locks_half_a_line_is_what_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "verdicts.jsonl"
    path.write_bytes(json.dumps(_valid()).encode()[:-20])
    monkeypatch.setattr(file_lock, "fcntl", None)  # as on Windows
    with pytest.raises(VerdictError, match="damaged in line 1: it is cut off"):
        read_verdicts(path, MODEL)


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(_valid()).encode(),  # cut off: no end of line
        json.dumps(_valid()).encode()[:-20] + b"\n",
        b"\n",
        b"null\n",
        b"[]\n",
        b"[" * 100_000 + b"\n",
        b"\xff\xfe\n",
        json.dumps({**_valid(), "serial": 2}).encode() + b"\n",
        json.dumps({**_valid(), "undoes": 1, "verdict": None}).encode() + b"\n",
        json.dumps({**_valid(), "more": 1}).encode() + b"\n",
        _changed(prototype=-1),
        _changed(prototype=10**9),
        _changed(prototype=1.5),
        _changed(prototype=True),
        _changed(kind="destroy"),
        _changed(kind="require"),
        _changed(kind="require", weight=-1.0),
        _changed(kind="require", weight=1e300),
        _changed(kind="require", weight=0.5).replace(b"0.5", b"NaN"),
        _changed(kind="require", weight=0.5).replace(b"0.5", b"Infinity"),
        _changed(weight=1.0),
        _changed(kind="name", text="a\x1b[2J"),
        _changed(kind="name", text="a\nb"),
        _changed(kind="name", text="x" * 1000),
        _changed(kind="forbid", patch={**BOX, "boxes": [[0, 0, 99, 4]]}),
        _changed(kind="forbid", patch={**BOX, "boxes": [[4, 4, 0, 0]]}),
        _changed(kind="forbid", patch={**BOX, "boxes": []}),
        _changed(kind="forbid", patch={**BOX, "row": -1}),
        _changed(kind="forbid", patch={**BOX, "size": [10**9, 10**9]}),
        _changed(kind="forbid", patch={**BOX, "image": ""}),
        _changed(kind="keep", patch=BOX),
        b"x" * (2**18 + 1) + b"\n",
    ],
)
def test_a_damaged_or_hostile_file_is_one_line_that_says_where(folder: Path, content: bytes) -> None:
    (folder / "verdicts.jsonl").write_bytes(content)
    with pytest.raises(VerdictError, match=r"damaged in line 1: .*(put a copy back|delete that line)") as caught:
        read_verdicts(folder / "verdicts.jsonl", MODEL)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 800
    with pytest.raises(VerdictError):
        VerdictLog(folder, MODEL).append(Verdict(1, "keep"))
    assert (folder / "verdicts.jsonl").read_bytes() == content


def test_a_huge_file_and_a_pipe_are_not_read(folder: Path) -> None:
    path = folder / "verdicts.jsonl"
    with path.open("wb") as file:
        file.truncate(2**26 + 1)
    with pytest.raises(VerdictError, match="at most"):
        read_verdicts(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(VerdictError, match="pipe"):
        read_verdicts(path)


def test_no_verdicts_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(VerdictError, match="no model to have verdicts about"):
        VerdictLog(tmp_path)


def test_forbidding_without_a_patch_is_refused(folder: Path) -> None:
    with pytest.raises(VerdictError, match="none is named"):
        VerdictLog(folder).append(Verdict(1, "forbid"))


def test_keep_takes_back_what_was_forbidden_and_remembering_what_was_forbidden_of_that_patch() -> None:
    forbidden = line(1, Verdict(1, "forbid", patch=patch()))
    assert standing_of([forbidden])[1].forbidden == (patch(),)
    assert standing_of([forbidden, line(2, Verdict(1, "keep"))])[1].forbidden == ()
    both = standing_of([forbidden, line(2, Verdict(1, "remember", patch=patch()))])[1]
    assert (both.forbidden, both.remembered) == ((), (patch(),))
    other = standing_of([forbidden, line(2, Verdict(1, "remember", patch=patch(x=8)))])[1]
    assert (other.forbidden, other.remembered) == ((patch(),), (patch(x=8),))


ACTIONS = st.sampled_from(["keep", "remove", "require", "name", "forbid", "remember"])


@given(st.lists(st.tuples(st.integers(0, 2), ACTIONS), max_size=12), st.integers(0, 12))
def test_after_undoing_one_line_what_holds_is_what_held_without_it(said: list[tuple[int, str]], undone: int) -> None:
    lines = []
    for serial, (prototype, kind) in enumerate(said, start=1):
        lines.append(
            line(
                serial,
                Verdict(
                    prototype,
                    kind,  # type: ignore[arg-type]
                    text="x" if kind == "name" else "",
                    weight=0.5 if kind == "require" else None,
                    patch=patch() if kind in ("forbid", "remember") else None,
                ),
            )
        )
    if not 1 <= undone <= len(lines):
        return
    taken_back = standing_of([*lines, line(len(lines) + 1, undoes=undone)])
    assert taken_back == standing_of([given_line for given_line in lines if given_line.serial != undone])
    assert all(isinstance(held, Standing) for held in taken_back.values())


def test_verdicts_stay_with_a_model_that_was_calibrated_since_and_with_no_other(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"before")
    first = VerdictLog(tmp_path)
    first.append(Verdict(3, "remove"))
    (tmp_path / "model.safetensors").write_bytes(b"after")
    with pytest.raises(OtherModelVerdicts):
        VerdictLog(tmp_path).lines()
    line = {"before": first.model, "after": VerdictLog(tmp_path).model}
    (tmp_path / "recalibrations.jsonl").write_text(json.dumps(line) + "\n")
    # A calibration that was interrupted before it replaced the model leaves a line that leads nowhere.
    with (tmp_path / "recalibrations.jsonl").open("a") as file:
        file.write(json.dumps({"before": line["after"], "after": "0" * 32}) + "\n")
    again = VerdictLog(tmp_path)
    again.append(Verdict(5, "keep"), expected=1)
    assert again.removed() == (3,) and again.serial == 2
    (tmp_path / "model.safetensors").write_bytes(b"another")
    with pytest.raises(OtherModelVerdicts):
        VerdictLog(tmp_path).lines()
