"""What is said about an epoch: which one is kept, and by what rule."""

import re
from dataclasses import replace

import pytest

from pixpnet.training import LogLine
from pixpnet.training.workload import Workload
from pixpnet.views import progress
from pixpnet.views.training_display import display

RULE = (
    "the last epoch whose validation accuracy (after replacement, where there is one) is within one standard error of "
    "the best so far"
)


def epoch(number: int, accuracy: float, best: bool) -> LogLine:
    return LogLine(
        epoch=number,
        stage="joint",
        loss=1.0,
        terms={"cross_entropy": 1.0, "cluster": 0.1, "separation": -0.1},
        train_accuracy=0.9,
        val_accuracy=accuracy,
        val_loss=0.5,
        figures={"replaced_distance": 0.01},
        val_accuracy_after=accuracy,
        val_loss_after=0.5,
        best=best,
        seconds=1.0,
    )


def test_a_kept_epoch_is_not_called_the_best_and_the_rule_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    with display() as watcher:
        watcher.begins(9, 0, 4)
        watcher.epoch_ended(epoch(6, 0.975, best=True))
        watcher.epoch_ended(epoch(7, 0.8, best=False))
        watcher.epoch_ended(epoch(9, 0.95, best=True))
    output = capsys.readouterr().err
    first, *epochs = output.splitlines()
    assert first == f"kept: {RULE}"
    assert output.count(RULE) == 1
    assert [line.endswith("kept") for line in epochs] == [True, False, True]
    assert not any("best" in line for line in epochs)


@pytest.mark.parametrize(("replaces", "words"), [(True, "accuracy after replacement is"), (False, "accuracy is")])
def test_replacement_is_spoken_of_where_there_is_one(
    replaces: bool, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with display() as watcher:
        watcher.planned(Workload((1.0,), 0.0, replaces))
        watcher.begins(1, 0, 4)
        if not replaces:
            watcher.epoch_ended(replace(epoch(1, 0.9, best=True), figures={}))
    first, *epochs = capsys.readouterr().err.splitlines()
    assert first == f"kept: the last epoch whose validation {words} within one standard error of the best so far"
    assert not any("replacement" in line or "patches" in line for line in epochs)


def seconds(text: str) -> int:
    hours, minutes, rest = map(int, text.split(":"))
    return 3600 * hours + 60 * minutes + rest


def test_the_whole_run_is_shown_and_not_its_steps_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    # Two epochs of 10 steps, with 20 batches of validation and replacement each, and 50 batches at the end.
    with display() as watcher:
        watcher.planned(Workload((50.0, 50.0), 50.0))
        watcher.begins(2, 0, 10)
        for number in (1, 2):
            for _ in range(10):
                now[0] += 3.0
                watcher.stepped(number - 1, 1.0, 0.5)
            for done in range(1, 21):
                now[0] += 1.0
                watcher.busy("replacement", done, 20)
            watcher.epoch_ended(epoch(number, 0.9, best=True))
        for done in range(1, 51):
            now[0] += 1.0
            watcher.busy("final evaluation, test", done, 50)
    lines = [line for line in capsys.readouterr().err.splitlines() if "of the run" in line]
    # Each costs what it was planned to, so what is said is right: 150 seconds in all.
    output = [re.match(r" *(\d+) % of the run, (\S+) so far, about (\S+) left: (.*)", line) for line in lines]
    assert len(output) == 4
    for match in output:
        assert match is not None
        gone, left = map(seconds, match.groups()[1:3])
        assert gone + left == 150
        assert abs(int(match[1]) - gone / 1.5) < 1
    assert output[1] is not None and output[1][4].startswith("epoch 2")
    assert output[3] is not None and output[3][4].startswith("final evaluation, test")
