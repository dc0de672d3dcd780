"""What a person sees while a network is trained: a bar with the time left, and a line for each epoch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from pixpnet.commands.console import plain_console, visible_output
from pixpnet.fields.probe import Verification
from pixpnet.settings import KEPT_EPOCH
from pixpnet.training import LogLine, Watcher

# Epochs with and without replacement differ, so the time left is reckoned over minutes, not seconds.
_SPEED_OVER = 600.0


@dataclass(frozen=True)
class Display:
    """The ends that the training is given.

    Attributes:
        watcher: told what the training does.
        opening: told how many images have been looked at before it starts.
    """

    watcher: Watcher
    opening: Callable[[int, int], None]


@contextmanager
def display() -> Iterator[Display]:
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
        watcher = _Bars(bars, console)
        yield Display(watcher, lambda done, total: watcher.busy("looking at the images", done, total))


class _Bars:
    """One bar for the whole run, one for what else takes a while."""

    def __init__(self, bars: Progress, console: Console) -> None:
        self.bars = bars
        self.console = console
        self.whole: TaskID | None = None
        self.other: TaskID | None = None
        self.epochs = 0
        self.done = 0
        self.steps = 1

    def fields_verified(self, backbone: str, verification: Verification) -> None:
        """See `Watcher`."""
        self._say(
            f"{backbone} is not among the tested networks: its receptive fields were compared with the NaN probe at "
            f"{verification.pixels} pixels, and all {verification.layers} layers agree"
        )

    def begins(self, epochs: int, done: int, steps: int) -> None:
        """See `Watcher`."""
        self.epochs, self.steps = epochs, max(1, steps)
        self._say(f"kept: {KEPT_EPOCH}")
        if done:
            self._say(f"going on after epoch {done} of {epochs}")
        self.done = done * self.steps
        self.whole = self.bars.add_task("training", total=epochs * self.steps, completed=self.done, note="")

    def stepped(self, epoch: int, loss: float, accuracy: float) -> None:
        """See `Watcher`."""
        if self.whole is not None:
            self.done += 1
            note = f"loss {loss:.3f}  accuracy {accuracy:.1%}"
            words = f"epoch {epoch + 1} of {self.epochs}"
            self.bars.update(self.whole, completed=self.done, description=words, note=note)

    def busy(self, task: str, done: int, total: int) -> None:
        """See `Watcher`."""
        if self.other is None:
            self.other = self.bars.add_task(task, total=None, note="")
        self.bars.update(self.other, description=task, completed=done, total=total or None, visible=done < total)
        if done >= total:
            self.bars.remove_task(self.other)
            self.other = None

    def epoch_ended(self, line: LogLine) -> None:
        """See `Watcher`."""
        words = [
            f"epoch {line.epoch:3d}/{self.epochs}",
            f"{line.stage:7s}",
            f"loss {line.loss:7.3f}",
            f"train {line.train_accuracy:6.1%}",
        ]
        if line.val_accuracy is not None:
            words.append(f"validation {line.val_accuracy:6.1%}")
        if line.replaced_distance is not None and line.val_accuracy_after is not None:
            words.append(f"after replacement {line.val_accuracy_after:6.1%}")
        elif line.val_accuracy_after is not None:
            words.append("prototypes are patches")
        if line.best:
            words.append("kept")
        self._say("  ".join(words))

    def _say(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
