"""What somebody who watches a training run is told. Nothing here prints; the command line draws bars from it."""

from typing import Protocol, runtime_checkable

from pixpnet.fields.probe import Verification
from pixpnet.training.log import LogLine
from pixpnet.training.workload import Workload


@runtime_checkable
class Watcher(Protocol):
    """Told what happens, as it happens, in the process of rank 0."""

    def fields_verified(self, backbone: str, verification: Verification) -> None:
        """The fields of a backbone that is not among the tested ones were compared with the real network."""

    def planned(self, work: Workload) -> None:
        """How much there is to do in the whole run; comes before it begins."""

    def begins(self, epochs: int, done: int, steps: int) -> None:
        """Training begins, or goes on after some epochs; an epoch has so many steps."""

    def stepped(self, epoch: int, loss: float, accuracy: float) -> None:
        """A step was taken; loss and accuracy are means over the epoch so far."""

    def busy(self, task: str, done: int, total: int) -> None:
        """Something else takes a while: so many of so many batches are done."""

    def epoch_ended(self, line: LogLine) -> None:
        """An epoch came to its end, with everything that belongs to it."""


class Nobody:
    """A watcher that does nothing."""

    def fields_verified(self, backbone: str, verification: Verification) -> None:
        """See `Watcher`."""

    def planned(self, work: Workload) -> None:
        """See `Watcher`."""

    def begins(self, epochs: int, done: int, steps: int) -> None:
        """See `Watcher`."""

    def stepped(self, epoch: int, loss: float, accuracy: float) -> None:
        """See `Watcher`."""

    def busy(self, task: str, done: int, total: int) -> None:
        """See `Watcher`."""

    def epoch_ended(self, line: LogLine) -> None:
        """See `Watcher`."""
