"""The share of a run that is done: everything counts, it never falls, and all of it is done at the end only."""

from pathlib import Path

import pytest

from pixpnet.settings import Optimization
from pixpnet.training import LogLine, Nobody, train
from pixpnet.training.workload import RunProgress, Workload
from tests.training.material import small_config


class Noted(Nobody):
    """Follows a run."""

    def __init__(self) -> None:
        self.progress = RunProgress()
        self.work: Workload | None = None
        self.shares: list[float] = []
        self.tasks: dict[str, list[int]] = {}

    def planned(self, work: Workload) -> None:
        self.work = work
        self.progress.planned(work)

    def begins(self, epochs: int, done: int, steps: int) -> None:
        self.progress.begins(done)

    def stepped(self, epoch: int, loss: float, accuracy: float) -> None:
        self.progress.stepped()
        self.shares.append(self.progress.share)

    def busy(self, task: str, done: int, total: int) -> None:
        self.tasks.setdefault(task, []).append(total)
        self.progress.busy(task, done, total)
        self.shares.append(self.progress.share)

    def epoch_ended(self, line: LogLine) -> None:
        self.progress.epoch_ended(line.epoch)
        self.shares.append(self.progress.share)


def test_a_run_is_done_when_its_last_image_was_judged(pictures: Path, tmp_path: Path) -> None:
    watcher = Noted()
    train(small_config(pictures), tmp_path / "run", watcher)
    assert watcher.work is not None
    # Three epochs of 24 images in batches of 8; 9 to choose by (before and after a replacement, and once more for what
    # it can have changed), 12 to be evaluated by; 6 prototypes.
    last = watcher.work.epochs[-1]
    assert last == 3 * 3 + 3 * 2 + 3
    assert watcher.work.ending == 2 + 2 + 0.1 * 6
    assert watcher.shares == sorted(watcher.shares)
    assert watcher.shares[-1] > 0.999
    steps_alone = watcher.shares[-1 - sum(map(len, list(watcher.tasks.values())[-3:]))]
    assert steps_alone < 0.95
    assert {"replacement", "validation", "pictures of prototypes", "final evaluation, test"} <= set(watcher.tasks)


def test_features_of_the_test_images_are_most_of_what_comes_behind_the_last_epoch(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIXPNET_CACHE", str(tmp_path / "cache"))
    watcher = Noted()
    optimization = Optimization(epochs=3, warm_up_epochs=1, batch_size=8, views=1, frozen="all")
    train(small_config(pictures, optimization=optimization), tmp_path / "run", watcher)
    assert watcher.work is not None
    # Three forward passes of a batch for the features of each of 12 images.
    assert watcher.work.ending == 2 + 2 + 0.1 * 6 + 3.0 * 12
    assert watcher.shares == sorted(watcher.shares)
    assert watcher.shares[-1] > 0.999
    before = watcher.shares[-1 - sum(map(len, list(watcher.tasks.values())[-5:]))]
    assert before < 0.75
    assert "features, final evaluation, test" in watcher.tasks
