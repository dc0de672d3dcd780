"""The requests of the tab Mend: verdicts with undo, what an edit would do, edited runs, and retraining with feedback.

Every writer says which line of the log it has seen last, so that two tabs never overwrite each other: the later one is
told what the other one said, and decides again. An edited run is written, and a training begins, only for the verdicts
that were shown.
"""

import shlex
import threading
from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pixpnet.model.file import MODEL_FILE
from pixpnet.model.mending import WAYS
from pixpnet.parts import NoEdit
from pixpnet.progress import Progress
from pixpnet.training.mending.giving import give_verdict
from pixpnet.training.mending.preview import Editor
from pixpnet.training.mending.record import EditOutcome, EditPreview
from pixpnet.training.mending.writing import write_edit
from pixpnet.verdicts import (
    KINDS,
    OtherModelVerdicts,
    StaleVerdicts,
    Standing,
    Verdict,
    VerdictLine,
    VerdictLog,
    hashes_of,
)
from pixpnet.views.explorer.explorer import Explorer
from pixpnet.views.explorer.images import entry_id
from pixpnet.views.explorer.jobs import ENDED, Result, UnknownJob
from pixpnet.views.explorer.requests import BadRequest, Handling, json_body
from pixpnet.views.explorer.retraining import command, retrain
from pixpnet.views.words import number, percent

_MOST_CHANGED = 200
_PATIENCE = 0.2  # seconds between two looks whether a job was cancelled
Plain = dict[str, Any]


class Bench:
    """The log of verdicts of one explorer's run, and previews of what they ask for."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer
        self._stamp = self._model_stamp()  # before the hash: what changes meanwhile is looked at again
        self._log = VerdictLog(explorer.run.path)
        self._editor: Editor | None = None
        self._warming = threading.Lock()
        self._warm_up_job = ""
        self._lock = threading.Lock()

    @property
    def log(self) -> VerdictLog:
        """The log, about the model as it is now: `pixpnet calibrate` may have written its file again.

        Raises:
            OtherModelVerdicts: if the run has got another model, which is not the one that is served.
        """
        with self._lock:
            stamp = self._model_stamp()
            if stamp != self._stamp:
                current = self._explorer.run.fingerprint()
                if current != self._log.model:
                    if self._log.model not in hashes_of(self._explorer.run.path, current):
                        raise OtherModelVerdicts("the model of this run has changed: start pixpnet serve again")
                    self._log, self._editor = VerdictLog(self._explorer.run.path, current), None
                self._stamp = stamp
            return self._log

    @property
    def editor(self) -> Editor | None:
        """Who previews edits in a moment; None before the images were gone through (`start_warm_up`)."""
        _ = self.log  # forgets the scores of an earlier model
        return self._editor

    def warm_up(self, progress: Progress) -> Editor:
        """Goes through the images that previews need, once; whoever comes meanwhile waits, and may be cancelled."""
        while not self._warming.acquire(timeout=_PATIENCE):
            progress("waiting for the validation images", 0, 0)
        try:
            log = self.log
            with self._lock:
                if self._editor is not None:
                    return self._editor
            # With a model of its own: keeping features freezes the one that it is given.
            editor = Editor(
                self._explorer.run,
                data=self._explorer.images.data(),
                progress=progress,
                trust_code=self._explorer.trust_code,
            )
            editor.warm_up()  # before it is offered to others
            with self._lock:
                if log is self._log:
                    self._editor = editor
            return editor
        finally:
            self._warming.release()

    def start_warm_up(self) -> Plain:
        """The job that does so: the same for everybody, as long as it runs."""
        with self._lock:
            try:
                job = self._explorer.jobs.get(self._warm_up_job)
            except UnknownJob:
                job = None
            if job is None or job["state"] in ENDED:
                job = self._explorer.jobs.start("Going through the validation images once", self._warmed_up)
                self._warm_up_job = job["id"]
            return job

    def _warmed_up(self, progress: Progress) -> Result:
        self.warm_up(progress)
        return Result({})

    def write(self, way: str, removed: tuple[int, ...], required: Mapping[int, float], progress: Progress) -> Result:
        """Makes an edit, as a run of its own."""
        preview = self.warm_up(progress).preview(removed, required)
        known = {outcome.way: outcome.way for outcome in preview.outcomes}
        if way not in known:
            raise NoEdit(f"this edit can be made {' or '.join(known)}")
        run = write_edit(
            self._explorer.run,
            preview,
            way=known[way],
            data=self._explorer.images.data(),
            progress=progress,
            trust_code=self._explorer.trust_code,
        )
        return Result({"run": run.path.name, "command": shlex.join(["pixpnet", "serve", str(run.path)])})

    def _model_stamp(self) -> tuple[int, int, int]:
        """Changes when the model's file does; far cheaper than its hash."""
        try:
            state = (self._explorer.run.path / MODEL_FILE).stat()
        except FileNotFoundError:
            return 0, 0, 0
        return state.st_ino, state.st_size, state.st_mtime_ns

    def refresh_names(self) -> None:
        """Names that people gave are shown from now on, in every answer."""
        self._explorer.rename(self.log.names())


def routes(explorer: Explorer, bench: Bench) -> list[Route]:
    """What the tab may ask for."""
    handling = Handling(explorer)

    async def verdicts(request: Request) -> Response:
        return await handling.json(lambda: _state(bench, explorer))

    async def give(request: Request) -> Response:
        wanted = await json_body(request, explorer)
        verdict, expected = _verdict(wanted, explorer.model.num_prototypes), _serial(wanted, "expected")

        def given() -> object:
            _ = bench.log  # refuses another model before anything is written
            return give_verdict(explorer.run, verdict, expected)

        return await _written(bench, explorer, handling, given)

    async def undo(request: Request) -> Response:
        wanted = await json_body(request, explorer)
        serial, expected = wanted.get("serial"), _serial(wanted, "expected")
        if serial is not None:
            serial = _serial(wanted, "serial")
        return await _written(bench, explorer, handling, lambda: bench.log.undo(serial, expected))

    async def preview(request: Request) -> Response:
        def previewed() -> Plain:
            log, editor = bench.log, bench.editor
            removed, required = log.removed(), log.required()
            if not removed and not required:
                return {"preview": None}
            if editor is None:
                return {"job": bench.start_warm_up()}
            return {"preview": preview_facts(editor.preview(removed, required))}

        return await handling.json(previewed)

    async def write(request: Request) -> Response:
        wanted = await json_body(request, explorer)
        way, expected = str(wanted.get("way", "")), _serial(wanted, "expected")
        if way not in WAYS:
            raise BadRequest(f"an edit is made {', '.join(WAYS)}")

        def started() -> Plain:
            log = bench.log
            removed, required = log.removed(), log.required()
            # Last: lines are only ever added, so what was read before belongs to this serial.
            if log.serial != expected:
                return {**_state(bench, explorer), "stale": _moved(log.serial, expected)}
            return explorer.jobs.start(
                "Writing the edited run", lambda progress: bench.write(way, removed, required, progress)
            )

        return await handling.json(started)

    async def start_retraining(request: Request) -> Response:
        expected = _serial(await json_body(request, explorer), "expected")
        folder = explorer.run.path.resolve()

        def started() -> Plain:
            log = bench.log
            if log.serial != expected:
                return {**_state(bench, explorer), "stale": _moved(log.serial, expected)}
            if not log.forbidden() and not log.remembered():
                raise BadRequest("no patch is forbidden or to be remembered, so there is nothing to learn from")
            return explorer.jobs.start("Training again with feedback", trained)

        def trained(progress: Progress) -> Result:
            if bench.log.serial != expected:
                raise StaleVerdicts("somebody gave a verdict while this waited: look again, then train")
            return retrain(folder, progress, extra_arguments(explorer))

        return await handling.json(started)

    return [
        Route("/api/verdicts", verdicts),
        Route("/api/verdicts", give, methods=["POST"]),
        Route("/api/verdicts/undo", undo, methods=["POST"]),
        Route("/api/edits/preview", preview, methods=["POST"]),
        Route("/api/edits", write, methods=["POST"]),
        Route("/api/retrainings", start_retraining, methods=["POST"]),
    ]


async def _written(bench: Bench, explorer: Explorer, handling: Handling, write: Callable[[], object]) -> Response:
    def written() -> Plain:
        try:
            write()
        except StaleVerdicts as error:
            return {**_state(bench, explorer), "stale": str(error)}
        bench.refresh_names()
        return {**_state(bench, explorer), "stale": ""}

    return await handling.json(written)


def _moved(serial: int, expected: int) -> str:
    return f"the log has {serial} lines, and {expected} were seen"


def extra_arguments(explorer: Explorer) -> tuple[str, ...]:
    """What the explorer was started with that a training must be told too."""
    data = () if explorer.moved_to is None else ("--data", explorer.moved_to)
    return (*data, *(("--trust-code",) if explorer.trust_code else ()))


def _verdict(wanted: Plain, prototypes: int) -> Verdict:
    prototype, kind, text, weight = (wanted.get(name) for name in ("prototype", "kind", "text", "weight"))
    if type(prototype) is not int or not 0 <= prototype < prototypes:
        raise BadRequest(f"a prototype is named by its number, 0 to {prototypes - 1}")
    if kind not in KINDS:
        raise BadRequest(f"a verdict is one of {', '.join(KINDS)}")
    if not isinstance(text or "", str) or not (weight is None or type(weight) in (int, float)):
        raise BadRequest("a verdict has a text, and a weight that is a number")
    return Verdict(prototype, kind, text or "", None if weight is None else float(weight))


def _serial(wanted: Plain, name: str) -> int:
    serial = wanted.get(name)
    if type(serial) is not int or serial < 0:
        raise BadRequest(f"{name} is the number of a line of the log that was seen")
    return serial


def standing_facts(standing: Standing | None) -> Plain:
    """What holds of a prototype, for the page."""
    if standing is None:
        return {"name": "", "action": None, "weight": None, "forbidden": 0, "remembered": 0}
    return {
        "name": standing.name,
        "action": standing.action,
        "weight": standing.weight,
        "forbidden": len(standing.forbidden),
        "remembered": len(standing.remembered),
    }


def _state(bench: Bench, explorer: Explorer) -> Plain:
    """All verdicts, newest first, and what holds."""
    lines = bench.log.lines()
    undone = {line.undoes for line in lines if line.undoes is not None}
    return {
        "serial": len(lines),
        "lines": [_line(line, line.serial in undone) for line in reversed(lines)],
        "standing": {str(key): standing_facts(standing) for key, standing in bench.log.standing().items()},
        "removed": list(bench.log.removed()),
        "required": list(bench.log.required()),
        "forbidden": len(bench.log.forbidden()),
        "remembered": len(bench.log.remembered()),
        "file": bench.log.path.name,
        "retrain": command(explorer.run.path.resolve(), extra_arguments(explorer)),
    }


def _line(line: VerdictLine, undone: bool) -> Plain:
    facts: Plain = {"serial": line.serial, "time": line.time, "undoes": line.undoes, "undone": undone}
    if line.verdict is None:
        return {**facts, "prototype": None, "kind": None, "text": "", "weight": None}
    verdict = line.verdict
    return {
        **facts,
        "prototype": verdict.prototype,
        "kind": verdict.kind,
        "text": verdict.text,
        "weight": verdict.weight,
    }


def preview_facts(preview: EditPreview) -> Plain:
    """What an edit would do, for the page."""
    return {
        "removed": list(preview.removed),
        "required": list(preview.required),
        "images": preview.images,
        "before": percent(preview.accuracy),
        "outcomes": [_outcome(preview, outcome) for outcome in preview.outcomes],
        "refit": None
        if preview.refit is None
        else {
            "estimated": number(preview.refit.estimated_cost),
            "true": number(preview.refit.true_cost),
            "limit": number(preview.refit.limit),
            "allowed": preview.refit.allowed,
            "nothing_removed": f"{preview.refit.refitted_right} of {preview.images}",
        },
        "refusals": list(preview.refusals),
    }


def _outcome(preview: EditPreview, outcome: EditOutcome) -> Plain:
    points = 100 * (outcome.accuracy - preview.accuracy)
    return {
        "way": outcome.way,
        "words": WAYS[outcome.way],
        "recommended": outcome is preview.recommended,
        "allowed": preview.allows(outcome.way),
        "accuracy": percent(outcome.accuracy),
        "points": f"{points:+.1f}".replace("-", "−"),
        "mended": sum(changed.mended for changed in outcome.changed),
        "broken": sum(changed.broken for changed in outcome.changed),
        "changed_count": len(outcome.changed),
        "changed": [
            {
                "id": entry_id("val", changed.image),
                "name": changed.image,
                "truth": changed.class_name,
                "before": changed.before,
                "after": changed.after,
                "mended": changed.mended,
                "broken": changed.broken,
            }
            for changed in outcome.changed[:_MOST_CHANGED]
        ],
    }
