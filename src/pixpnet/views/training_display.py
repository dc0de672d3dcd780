"""What a person sees while a network is trained: a bar with the time left, and a line for each epoch."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from pixpnet.fields.probe import Verification
from pixpnet.settings import kept_epoch
from pixpnet.training import LogLine, Watcher
from pixpnet.training.replacement_bound import PROVEN, STAYED
from pixpnet.training.workload import RunProgress, Workload
from pixpnet.views.console import plain_console, visible_output
from pixpnet.views.progress import NowAndThen, clock
from pixpnet.wording import percent

# Epochs with and without replacement differ, so the time left is reckoned over minutes, not seconds.
_SPEED_OVER = 600.0


@contextmanager
def display() -> Iterator[Watcher]:
    """Bars on a terminal, plain lines elsewhere."""
    console = plain_console()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with (
        Progress(
            *columns,
            console=console,
            transient=True,
            disable=not console.is_terminal,
            speed_estimate_period=_SPEED_OVER,
        ) as bars,
        visible_output(),
    ):
        yield _Bars(bars, console, None if console.is_terminal else NowAndThen())


class _Bars:
    """One bar for the whole run, from its first step to its final evaluation, and one for what is being done in it."""

    def __init__(self, bars: Progress, console: Console, lines: NowAndThen | None) -> None:
        self.bars = bars
        self.console = console
        self.lines = lines
        self.whole: TaskID | None = None
        self.other: TaskID | None = None
        self.epochs = 0
        self.replaces: bool | None = None
        self.progress = RunProgress()
        self.began = 0.0, 0.0
        self._patches = False

    def fields_verified(self, backbone: str, verification: Verification) -> None:
        """See `Watcher`."""
        self._say(
            f"{backbone} is not among the tested networks: its receptive fields were compared with the NaN probe at "
            f"{verification.pixels} pixels, and all {verification.layers} layers agree"
        )

    def planned(self, work: Workload) -> None:
        """See `Watcher`."""
        self.replaces = work.replaces
        self.progress.planned(work)

    def begins(self, epochs: int, done: int, steps: int) -> None:
        """See `Watcher`."""
        self.epochs = epochs
        self._say(f"kept: {kept_epoch(self.replaces)}")
        if done:
            self._say(f"going on after epoch {done} of {epochs}")
        self.progress.begins(done)
        self.began = time.monotonic(), self.progress.share
        self.whole = self.bars.add_task("training", total=1.0, note="")
        self.bars.update(self.whole, completed=self.progress.share)

    def stepped(self, epoch: int, loss: float, accuracy: float) -> None:
        """See `Watcher`."""
        self.progress.stepped()
        self._moved(f"epoch {epoch + 1} of {self.epochs}", f"loss {loss:.3f}  accuracy {percent(accuracy)}")

    def busy(self, task: str, done: int, total: int) -> None:
        """See `Watcher`."""
        if self.other is None:
            self.other = self.bars.add_task(task, total=None, note="")
        self.bars.update(self.other, description=task, completed=done, total=total or None, visible=done < total)
        if done >= total:
            self.bars.remove_task(self.other)
            self.other = None
        if self.whole is None:
            if self.lines is not None and self.lines.due():
                self._say(f"{task}: {done} of {total}")
            return
        self.progress.busy(task, done, total)
        self._moved(task, f"{done} of {total}")

    def _moved(self, task: str, note: str) -> None:
        """Shows how far the whole run is: on its bar, or now and then in a line where there is no terminal."""
        if self.whole is None:
            return
        share = self.progress.share
        self.bars.update(self.whole, completed=share, description=task, note=note)
        if self.lines is not None and self.lines.due():
            since, before = self.began
            gone = time.monotonic() - since
            left = "" if share <= before else f", about {clock(gone * (1 - share) / (share - before))} left"
            self._say(f"{round(100 * share):3d} % of the run, {clock(gone)} so far{left}: {task}, {note}")

    def epoch_ended(self, line: LogLine) -> None:
        """See `Watcher`."""
        self.progress.epoch_ended(line.epoch)
        self._moved(f"epoch {line.epoch} of {self.epochs}", "")
        words = [
            f"epoch {line.epoch:3d}/{self.epochs}",
            f"{line.stage:7s}",
            f"loss {line.loss:7.3f}",
            f"train {percent(line.train_accuracy):>7s}",
        ]
        if line.val_accuracy is not None:
            words.append(f"validation {percent(line.val_accuracy):>7s}")
        self._patches = self._patches or line.replaced_distance is not None
        if line.replaced_distance is not None and line.val_accuracy_after is not None:
            words.append(f"after replacement {percent(line.val_accuracy_after):>7s}{_stayed(line)}")
        elif line.val_accuracy_after is not None and self._patches:
            words.append("prototypes are patches")
        if line.best:
            words.append("kept")
        self._say("  ".join(words))

    def _say(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


def _stayed(line: LogLine) -> str:
    """How many answers replacement left as they were, and how many of those provably."""
    if STAYED not in line.figures:
        return ""
    proven = line.figures.get(PROVEN)
    surely = "no bound" if proven is None else f"{percent(proven)} provably"
    return f" ({percent(line.figures[STAYED])} the same answer, {surely})"
