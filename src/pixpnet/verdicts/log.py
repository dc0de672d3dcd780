"""The log of verdicts of a run: `verdicts.jsonl`, one JSON object a line, to which lines are added and nothing else.

Each line has a serial and the hash of the model that it is about. Writers take turns under a lock of the system; one
that has not seen the last line is refused (`StaleVerdicts`) and has to look again, so that two pages, or a page and a
command, never overwrite each other. Readers take it only where they see half a line. A log that was written about
another model is refused: its numbers would mean other prototypes.
"""

import json
import os
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path

from pixpnet.file_lock import lock, read_lines
from pixpnet.manifest import digest_of
from pixpnet.records import from_plain, to_plain
from pixpnet.verdicts.record import (
    OtherModelVerdicts,
    StaleVerdicts,
    Standing,
    TrainingPatch,
    Verdict,
    VerdictError,
    VerdictLine,
    VerdictWarning,
    standing_of,
)
from pixpnet.whole_file import refuse_irregular

VERDICTS_FILE = "verdicts.jsonl"
MODEL_FILE = "model.safetensors"
# Written by `pixpnet calibrate`: the hash of the model before and after.
_RECALIBRATIONS = "recalibrations.jsonl"
# Ten thousand verdicts about patches that see a few hundred boxes each.
_LARGEST = 2**26
_LONGEST_LINE = 2**18
# `expected` of those who want to write whatever was written before.
ANY = -1


class VerdictLog:
    """The verdicts about the prototypes of one model.

    Attributes:
        path: of the file; it need not be there yet.
        model: hash of the model.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "model.safetensors").write_bytes(b"weights")
    ...     log = VerdictLog(folder)
    ...     _ = log.append(Verdict(3, "remove"), expected=log.serial)
    ...     _ = log.append(Verdict(5, "name", "red belly"), expected=1)
    ...     log.serial, log.removed(), log.names()
    (2, (3,), {5: 'red belly'})
    """

    def __init__(self, run: Path | str, model: str | None = None) -> None:
        """Opens the log of a run; nothing is written before the first verdict.

        Args:
            run: the run's folder.
            model: hash of its model; worked out from the model file by default.

        Raises:
            VerdictError: if there is no model to have verdicts about.
        """
        folder = Path(run)
        self.path = folder / VERDICTS_FILE
        if model is None:
            try:
                model = digest_of(folder / MODEL_FILE)
            except OSError as error:
                raise VerdictError(f"{folder} has no model to have verdicts about ({error}): train it first") from error
        self.model = model
        self._lock = threading.Lock()
        self._read: tuple[tuple[int, int], tuple[VerdictLine, ...]] = ((0, 0), ())

    @property
    def serial(self) -> int:
        """The serial of the last line; 0 where there is none."""
        return len(self.lines())

    def lines(self) -> tuple[VerdictLine, ...]:
        """Every line, oldest first; read again only when the file has changed.

        Raises:
            VerdictError: if the file is damaged or too large.
            OtherModelVerdicts: if it is about another model.
        """
        with self._lock:
            try:
                state = self.path.stat()
            except FileNotFoundError:
                return ()
            # Lines are only ever added, so a file of another content has another size; the time tells other accidents.
            stamp = state.st_size, state.st_mtime_ns
            if stamp != self._read[0]:
                self._read = stamp, read_verdicts(self.path, self.model)
            return self._read[1]

    def append(self, verdict: Verdict, expected: int = ANY) -> VerdictLine:
        """Adds a verdict.

        Args:
            verdict: what is said. One that forbids or remembers names its patch (`give_verdict` fills it in).
            expected: the serial that the writer has seen last; by default whatever is there.

        Raises:
            StaleVerdicts: if somebody else has written since.
            VerdictError: if the file is damaged, or the verdict lacks its patch.
        """
        if verdict.kind in ("forbid", "remember") and verdict.patch is None:
            raise VerdictError(f"{verdict.kind!r} is about a patch, and none is named: see pixpnet.give_verdict")
        return self._add(verdict, None, expected)

    def undo(self, serial: int | None = None, expected: int = ANY) -> VerdictLine:
        """Takes a verdict back, by a line of its own.

        Args:
            serial: which line; by default the last one that still stands.
            expected: see `append`.

        Raises:
            StaleVerdicts: if somebody else has written since.
            VerdictError: if there is no such verdict, or it was taken back before.
        """
        lines = self.lines()
        standing = [line.serial for line in standing_lines(lines)]
        if serial is None:
            if not standing:
                raise VerdictError("there is no verdict left to take back")
            serial = standing[-1]
        if serial not in standing:
            raise VerdictError(f"there is no verdict {serial} to take back: {_listed(standing)}")
        return self._add(None, serial, len(lines) if expected == ANY else expected)

    def standing(self) -> dict[int, Standing]:
        """What holds now, for each prototype of which anything is said."""
        return standing_of(self.lines())

    def names(self) -> dict[int, str]:
        """What people call prototypes."""
        return {number: current.name for number, current in self.standing().items() if current.name}

    def removed(self) -> tuple[int, ...]:
        """Prototypes that are to be removed."""
        return tuple(number for number, current in self.standing().items() if current.action == "remove")

    def required(self) -> dict[int, float]:
        """The least weights of prototypes that are required."""
        return {number: current.weight for number, current in self.standing().items() if current.weight is not None}

    def forbidden(self) -> tuple[TrainingPatch, ...]:
        """Patches that no prototype may be, each once."""
        return _once(patch for current in self.standing().values() for patch in current.forbidden)

    def remembered(self) -> tuple[TrainingPatch, ...]:
        """Patches that prototypes should be like, each once."""
        return _once(patch for current in self.standing().values() for patch in current.remembered)

    def _add(self, verdict: Verdict | None, undoes: int | None, expected: int) -> VerdictLine:
        with _opened_alone(self.path) as file:
            # The lock is ours: who asked for it once more would wait for ever.
            before = _checked(self.path, self.path.read_bytes(), self.model)
            if expected not in (ANY, len(before)):
                raise StaleVerdicts(
                    f"{self.path.name} has {len(before)} lines, and {expected} were seen: somebody else wrote in "
                    "between. Nothing was written: look at it again, then decide"
                )
            now = datetime.now(UTC).isoformat(timespec="seconds")
            # One hash in a file, also where the model was calibrated since.
            line = VerdictLine(len(before) + 1, now, before[0].model if before else self.model, verdict, undoes)
            _write(file, json.dumps(to_plain(line), ensure_ascii=False, allow_nan=False).encode() + b"\n")
            return line


def read_verdicts(path: Path, model: str | None = None) -> tuple[VerdictLine, ...]:
    """The lines of a log, oldest first, checked; none where there is no such file.

    Args:
        path: of the file.
        model: hash of the model that it must be about; None for any, but only one.

    Raises:
        VerdictError: if the file is damaged or too large; with the line.
        OtherModelVerdicts: if it is about another model.
    """
    try:
        refuse_irregular(path)
        size = path.stat().st_size
        if size > _LARGEST:
            raise VerdictError(f"{path} has {size} bytes, and at most {_LARGEST} are read: is it a log of verdicts?")
        content = read_lines(path)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise VerdictError(f"{path} cannot be read: {error}") from error
    return _checked(path, content, model)


def _checked(path: Path, content: bytes, model: str | None) -> tuple[VerdictLine, ...]:
    if content and not content.endswith(b"\n"):
        raise _damaged(path, content.count(b"\n") + 1, "it is cut off")
    lines: list[VerdictLine] = []
    undone: set[int] = set()
    known = None if model is None else hashes_of(path.parent, model)
    for number, text in enumerate(content.split(b"\n")[:-1], start=1):
        line = _line(path, number, text)
        if known is None:
            known = frozenset({line.model})
        if line.model not in known or line.model != (lines[0].model if lines else line.model):
            raise OtherModelVerdicts(
                f"{path} is about the prototypes of another model (line {number}: {line.model}, and this is {model}): "
                "numbers would mean other prototypes. Move it away, or put the model back that it is about"
            )
        if line.undoes is not None:
            if not 0 < line.undoes < number or lines[line.undoes - 1].verdict is None or line.undoes in undone:
                raise _damaged(path, number, f"it takes back line {line.undoes}, which is no verdict that stands")
            undone.add(line.undoes)
        lines.append(line)
    return tuple(lines)


def hashes_of(run: Path, model: str) -> frozenset[str]:
    """The hash of a run's model, and those that it had before it was calibrated again, which moves no prototype.

    Lines that do not lead to the model are of calibrations that were interrupted before they replaced it.
    """
    known, current = {model}, model
    try:
        lines = (run / _RECALIBRATIONS).read_bytes().split(b"\n")
        changes = [(str(line["before"]), str(line["after"])) for line in map(json.loads, filter(bytes.strip, lines))]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return frozenset(known)  # none, or damaged, which the audit says
    for before, after in reversed(changes):
        if after == current:
            current = before
            known.add(current)
    return frozenset(known)


def names_beside(model_file: Path) -> Mapping[int, str]:
    """What people call the prototypes of a model, from the log beside its file; none where there is no log.

    Warns:
        VerdictWarning: if the log cannot be used. A model answers without names, too.
    """
    folder = model_file.parent
    if not (folder / VERDICTS_FILE).exists():
        return {}
    try:
        return VerdictLog(folder, digest_of(model_file)).names()
    except VerdictError as error:
        warnings.warn(f"names of prototypes are not shown: {error}", VerdictWarning, stacklevel=2)
        return {}


def standing_lines(lines: tuple[VerdictLine, ...]) -> list[VerdictLine]:
    """The verdicts that were not taken back."""
    undone = {line.undoes for line in lines if line.undoes is not None}
    return [line for line in lines if line.verdict is not None and line.serial not in undone]


def _line(path: Path, number: int, text: bytes) -> VerdictLine:
    if len(text) > _LONGEST_LINE:
        raise _damaged(path, number, f"it has {len(text)} bytes, at most {_LONGEST_LINE} are read")
    try:
        line = from_plain(VerdictLine, json.loads(text), "verdict")
    except (ValueError, RecursionError) as error:
        raise _damaged(path, number, str(error)) from error
    if line.serial != number:
        raise _damaged(path, number, f"its serial is {line.serial}")
    return line


def _damaged(path: Path, number: int, reason: str) -> VerdictError:
    return VerdictError(f"{path} is damaged in line {number}: {reason[:300]}: put a copy back, or delete that line")


@contextmanager
def _opened_alone(path: Path) -> Iterator[FileIO]:
    """The file, to add to, while nobody else does; the system frees it however the process ends."""
    if path.exists():
        refuse_irregular(path)
    with path.open("ab", buffering=0) as file:
        lock(file.fileno())
        yield file


def _write(file: FileIO, line: bytes) -> None:
    """One line, whole or not at all, on the disk."""
    if len(line) > _LONGEST_LINE:
        raise VerdictError(
            f"this verdict has {len(line)} bytes, and at most {_LONGEST_LINE} are read: its patch has holes"
        )
    size = os.fstat(file.fileno()).st_size
    try:
        if file.write(line) != len(line):
            raise OSError("the disk is full")
        os.fsync(file.fileno())
    except OSError:
        os.ftruncate(file.fileno(), size)
        raise


def _once(patches: Iterator[TrainingPatch]) -> tuple[TrainingPatch, ...]:
    return tuple({patch.key: patch for patch in patches}.values())


def _listed(serials: list[int]) -> str:
    if not serials:
        return "none is left"
    return f"there are {', '.join(map(str, serials[-10:]))}{' and earlier ones' if len(serials) > 10 else ''}"
