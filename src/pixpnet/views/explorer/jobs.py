"""Work that takes longer than a person waits: in the background, with progress, and it can be cancelled.

There are two lines of one thread each. What goes through many images or trains is *heavy*, and waits for the heavy job
before it, so that two never share the machine; a proof takes seconds, and does not wait for a retraining. A bounded
number of jobs waits, and the results of the last ones are remembered.
"""

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

from pixpnet.messages import first_line, on_one_line
from pixpnet.progress import Progress

State = Literal["waiting", "running", "done", "failed", "cancelled"]
ENDED: frozenset[State] = frozenset({"done", "failed", "cancelled"})
MOST_WAITING = 16
_REMEMBERED = 32


class TooManyJobs(RuntimeError):
    """As many jobs wait as may; the message says what to do."""


class UnknownJob(LookupError):
    """There is no such job, or it is forgotten."""


class _Cancelled(Exception):
    """Raised inside the work of a job that was cancelled, when it next says how far it is."""


@dataclass(frozen=True)
class Result:
    """What a job found: plain values for the page, and pictures (PNG) that it may ask for by their numbers."""

    values: Mapping[str, Any]
    pictures: tuple[bytes, ...] = ()


Work = Callable[[Progress], Result]


@dataclass
class Job:
    """One job; fields are written under the lock of its board.

    Attributes:
        id: by which the page knows it.
        title: what it does, for people.
        state: where it is.
        task: what is being done now.
        done: how much of it.
        total: of how much.
        error: why it failed; empty where it did not.
        result: what it found; None before.
        cancelled: whether somebody wants it to end.
    """

    id: str
    title: str
    state: State = "waiting"
    task: str = ""
    done: int = 0
    total: int = 0
    error: str = ""
    result: Result | None = None
    cancelled: bool = False
    started: float = field(default=0.0, repr=False)

    def plain(self, now: float) -> dict[str, Any]:
        """What the page is told; seconds left are an estimate from the share that is done."""
        left = None
        if self.state == "running" and 0 < self.done < self.total:
            left = (now - self.started) * (self.total - self.done) / self.done
        return {
            "id": self.id,
            "title": self.title,
            "state": self.state,
            "task": self.task,
            "done": self.done,
            "total": self.total,
            "seconds_left": None if left is None else round(left, 1),
            "error": self.error,
            "result": None if self.result is None else dict(self.result.values),
        }


class Jobs:
    """The jobs of one explorer: one heavy job at a time, and one light one beside it.

    Args:
        clock: seconds that only rise.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._heavy = ThreadPoolExecutor(1, thread_name_prefix="pixpnet-job")
        self._light = ThreadPoolExecutor(1, thread_name_prefix="pixpnet-light-job")
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._clock = clock

    def start(self, title: str, work: Work, heavy: bool = True) -> dict[str, Any]:
        """Puts work in line, and gives the job as `plain` values.

        Args:
            title: what it does, for people.
            work: is given a progress callback, which it must call every now and then: there it ends when the job is
                cancelled.
            heavy: whether it may take minutes; False for what takes seconds.

        Raises:
            TooManyJobs: if too many wait already.
        """
        job = Job(secrets.token_hex(8), title)
        with self._lock:
            waiting = sum(other.state == "waiting" for other in self._jobs.values())
            if waiting >= MOST_WAITING:
                raise TooManyJobs(f"{waiting} jobs are waiting already: wait for one to end, or cancel some")
            self._jobs[job.id] = job
            self._forget_old()
            plain = job.plain(self._clock())
        (self._heavy if heavy else self._light).submit(self._run, job, work)
        return plain

    def get(self, job_id: str) -> dict[str, Any]:
        """A job as plain values.

        Raises:
            UnknownJob: if there is none.
        """
        with self._lock:
            return self._known(job_id).plain(self._clock())

    def listed(self) -> list[dict[str, Any]]:
        """All jobs that are remembered, the oldest first, without their results."""
        with self._lock:
            now = self._clock()
            return [{**job.plain(now), "result": None} for job in self._jobs.values()]

    def picture(self, job_id: str, number: int) -> bytes:
        """A picture that a job made.

        Raises:
            UnknownJob: if there is no such job or picture.
        """
        with self._lock:
            result = self._known(job_id).result
        if result is None or not 0 <= number < len(result.pictures):
            raise UnknownJob("there is no such picture")
        return result.pictures[number]

    def cancel(self, job_id: str) -> dict[str, Any]:
        """Ends a job at its next step, if there is one; one that waits ends at once, one that has ended stays as it is.

        Raises:
            UnknownJob: if there is none.
        """
        with self._lock:
            job = self._known(job_id)
            job.cancelled = True
            if job.state == "waiting":
                job.state = "cancelled"
            return job.plain(self._clock())

    def close(self) -> None:
        """Cancels everything and waits for what runs."""
        with self._lock:
            for job in self._jobs.values():
                job.cancelled = True
        for line in (self._heavy, self._light):
            line.shutdown(wait=True, cancel_futures=True)

    def _known(self, job_id: str) -> Job:
        if job_id not in self._jobs:
            raise UnknownJob("this job is not known any more: start it again")
        return self._jobs[job_id]

    def _forget_old(self) -> None:
        ended = [job_id for job_id, job in self._jobs.items() if job.state in ENDED]
        for job_id in ended[: max(0, len(self._jobs) - _REMEMBERED)]:
            del self._jobs[job_id]

    def _run(self, job: Job, work: Work) -> None:
        with self._lock:
            if job.cancelled:
                job.state = "cancelled"
                return
            job.state, job.started = "running", self._clock()

        def progress(task: str, done: int, total: int) -> None:
            with self._lock:
                if job.cancelled:
                    raise _Cancelled
                job.task, job.done, job.total = task, done, total

        try:
            result = work(progress)
        except _Cancelled:
            self._end(job, "cancelled")
        except (ValueError, LookupError, OSError, RuntimeError, MemoryError) as error:
            self._end(job, "failed", error=on_one_line(first_line(error)) or type(error).__name__)
        except BaseException:
            self._end(job, "failed", error="something went wrong inside: the terminal says more")
            raise
        else:
            self._end(job, "done", result)  # also when it was cancelled after its last step: what it did is there

    def _end(self, job: Job, state: State, result: Result | None = None, error: str = "") -> None:
        with self._lock:
            job.state, job.result, job.error = state, result if state == "done" else None, error
