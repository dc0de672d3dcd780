"""Jobs: progress, results, failures, cancelling, and bounds."""

import threading

import pytest

from pixpnet.progress import Progress
from pixpnet.views.explorer.jobs import ENDED, MOST_WAITING, Jobs, Result, TooManyJobs, UnknownJob


class Gate:
    """Work that stands still until it is let go."""

    def __init__(self) -> None:
        self.begun, self.free = threading.Event(), threading.Event()

    def __call__(self, progress: Progress) -> Result:
        progress("standing", 1, 4)
        self.begun.set()
        self.free.wait()
        progress("going", 2, 4)
        return Result({"answer": 42}, (b"png",))


def ended(jobs: Jobs, job_id: str) -> dict[str, object]:
    while jobs.get(job_id)["state"] not in ENDED:
        threading.Event().wait(0.005)
    return jobs.get(job_id)


def test_a_job_says_how_far_it_is_how_long_it_takes_and_what_it_found() -> None:
    now = [0.0]
    jobs, gate = Jobs(clock=lambda: now[0]), Gate()
    job = jobs.start("standing still", gate)
    gate.begun.wait()
    now[0] = 10.0
    known = jobs.get(job["id"])
    assert (known["state"], known["task"], known["done"], known["total"]) == ("running", "standing", 1, 4)
    assert known["seconds_left"] == 30.0  # three quarters are left, and one took ten seconds
    gate.free.set()
    assert ended(jobs, job["id"])["result"] == {"answer": 42}
    assert jobs.picture(job["id"], 0) == b"png"
    with pytest.raises(UnknownJob):
        jobs.picture(job["id"], 1)
    jobs.close()


def test_a_cancelled_job_ends_at_its_next_step_and_one_that_waits_never_begins() -> None:
    jobs, gate, never = Jobs(), Gate(), Gate()
    running, waiting = jobs.start("first", gate), jobs.start("second", never)
    gate.begun.wait()
    assert jobs.cancel(waiting["id"])["state"] == "cancelled"
    jobs.cancel(running["id"])
    gate.free.set()
    known = ended(jobs, running["id"])
    assert (known["state"], known["result"]) == ("cancelled", None)
    jobs.close()
    assert not never.begun.is_set()


def test_two_heavy_jobs_never_run_at_a_time_and_a_light_one_waits_for_neither() -> None:
    inside, light_ended = threading.Event(), threading.Event()
    overlaps: list[bool] = []

    def first(progress: Progress) -> Result:
        inside.set()
        light_ended.wait()
        inside.clear()
        return Result({})

    def second(progress: Progress) -> Result:
        overlaps.append(inside.is_set())
        return Result({})

    def light(progress: Progress) -> Result:
        light_ended.set()
        return Result({})

    jobs = Jobs()
    begun = [jobs.start("first", first)]
    inside.wait()
    begun += [jobs.start("second", second), jobs.start("light", light, heavy=False)]
    assert [ended(jobs, job["id"])["state"] for job in begun] == ["done"] * 3
    assert overlaps == [False]
    jobs.close()


def test_what_was_done_is_done_though_it_was_cancelled_after_its_last_step() -> None:
    begun, free = threading.Event(), threading.Event()

    def work(progress: Progress) -> Result:
        progress("writing", 1, 1)
        begun.set()
        free.wait()
        return Result({"run": "run+edited"})

    jobs = Jobs()
    job = jobs.start("writing", work)
    begun.wait()
    jobs.cancel(job["id"])
    free.set()
    known = ended(jobs, job["id"])
    assert (known["state"], known["result"]) == ("done", {"run": "run+edited"})
    jobs.close()


def test_a_failure_is_one_line_and_the_next_job_runs() -> None:
    def fails(progress: Progress) -> Result:
        raise ValueError("no such thing\nand a long trace")

    jobs = Jobs()
    failed, after = jobs.start("fails", fails), jobs.start("works", lambda progress: Result({"done": True}))
    assert ended(jobs, failed["id"])["error"] == "no such thing"
    assert ended(jobs, after["id"])["result"] == {"done": True}
    jobs.close()


def test_only_so_many_wait_and_old_ones_are_forgotten() -> None:
    jobs, gate = Jobs(), Gate()
    first = jobs.start("first", gate)
    gate.begun.wait()
    waiting = [jobs.start("waiting", lambda progress: Result({})) for _ in range(MOST_WAITING)]
    with pytest.raises(TooManyJobs, match="cancel"):
        jobs.start("one too many", gate)
    gate.free.set()
    ended(jobs, waiting[-1]["id"])
    for _ in range(40):
        last = jobs.start("more", lambda progress: Result({}))
        ended(jobs, last["id"])
    with pytest.raises(UnknownJob):
        jobs.get(first["id"])
    assert len(jobs.listed()) <= 33
    jobs.close()
