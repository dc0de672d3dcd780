"""Training again with what people said, as a job: a process of its own, which the page follows and may end.

Training takes the whole machine and may be killed, so it is no thread of the server; what it prints says how far it is.
A run that was cancelled stays where it was, and goes on with ``pixpnet train --resume``.
"""

import queue
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from pixpnet.messages import on_one_line
from pixpnet.progress import Progress
from pixpnet.training import Run, RunError
from pixpnet.training.mending.writing import free_folder
from pixpnet.verdicts import VERDICTS_FILE
from pixpnet.views.explorer.jobs import Result
from pixpnet.views.words import percent

SUFFIX = "+feedback"
_SHARE = re.compile(r"\s*(\d{1,3}) % of the run")
_TASK = "training with feedback"
_PATIENCE = 0.2  # seconds between two looks whether it was cancelled


def arguments(run: Path, out: Path, extra: Sequence[str] = ()) -> list[str]:
    """What `pixpnet` is called with."""
    feedback = ["--feedback", f"{run / VERDICTS_FILE}"]
    if Run(run).config.feedback:  # of the run itself, which was another one
        feedback += ["--feedback-hash", ""]
    return ["train", "--config", f"{run / 'config.yaml'}", *feedback, *extra, "--out", f"{out}"]


def command(run: Path, extra: Sequence[str] = ()) -> str:
    """The same for a terminal."""
    return shlex.join(["pixpnet", *arguments(run, free_folder(run, SUFFIX), extra)])


def retrain(
    run: Path, progress: Progress, extra: Sequence[str] = (), called: Sequence[str] = (sys.executable, "-m", "pixpnet")
) -> Result:
    """Trains again with the verdicts beside a run.

    Args:
        run: its folder, absolute.
        progress: told which share is done; what it raises ends the training.
        extra: further options of `pixpnet train`.
        called: the program.

    Raises:
        RunError: if training fails; with its last line.
    """
    out = free_folder(run, SUFFIX)
    process = subprocess.Popen(  # noqa: S603  our own program, with paths of our own
        [*called, *arguments(run, out, extra)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    # A training may print nothing for minutes, and must be cancelled meanwhile, so a thread of its own reads.
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
    reader.start()
    last, done = "", 0
    try:
        while reader.is_alive() or process.poll() is None or not lines.empty():
            progress(_TASK, done, 100)
            try:
                line = lines.get(timeout=_PATIENCE)
            except queue.Empty:
                continue
            last = line.strip() or last
            share = _SHARE.match(line)
            if share is not None:
                done = int(share[1])
                progress(_TASK, done, 100)
        if process.returncode != 0:
            raise RunError(f"training failed: {on_one_line(last)}")
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
        reader.join(_PATIENCE)
        if not reader.is_alive():  # a process that it began may live on, and holds the other end
            process.stdout.close()
    validation = Run(out).read_metrics()["validation"]["accuracy"]
    return Result(
        {
            "run": out.name,
            "words": f"validation accuracy {percent(validation)}",
            "command": shlex.join(["pixpnet", "serve", str(out)]),
        }
    )


def _read(printed: Iterable[str], lines: queue.SimpleQueue[str]) -> None:
    for line in printed:
        lines.put(line)
