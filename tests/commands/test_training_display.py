"""What is said about an epoch: which one is kept, and by what rule."""

import pytest

from pixpnet.commands.training_display import display
from pixpnet.training import LogLine

RULE = "the last epoch whose validation accuracy after replacement is within one standard error of the best so far"


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
    with display() as shown:
        shown.watcher.begins(9, 0, 4)
        shown.watcher.epoch_ended(epoch(6, 0.975, best=True))
        shown.watcher.epoch_ended(epoch(7, 0.8, best=False))
        shown.watcher.epoch_ended(epoch(9, 0.95, best=True))
    said = capsys.readouterr().err
    first, *epochs = said.splitlines()
    assert first == f"kept: {RULE}"
    assert said.count(RULE) == 1
    assert [line.endswith("kept") for line in epochs] == [True, False, True]
    assert not any("best" in line for line in epochs)
