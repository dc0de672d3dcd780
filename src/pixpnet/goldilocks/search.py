"""The search: fields of all cuts first, then the cuts inside the zone, together with any other workers."""

import json
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch

from pixpnet.data import DataSet
from pixpnet.data.workers import num_workers_for
from pixpnet.goldilocks.bench import Bench, Outcome
from pixpnet.goldilocks.candidates import Candidate, Survey, inside, names_of, survey, with_designs
from pixpnet.goldilocks.errors import SearchError
from pixpnet.goldilocks.front import agreement
from pixpnet.goldilocks.methods import METHODS
from pixpnet.goldilocks.options import SearchOptions
from pixpnet.goldilocks.result import (
    FIELDS_CSV,
    FIELDS_JSON,
    SearchResult,
    evaluated_cuts,
    recommendation,
    write_result,
)
from pixpnet.goldilocks.settings import SearchSettings, data_config, fingerprint
from pixpnet.goldilocks.study import FinishedTrial, Study
from pixpnet.goldilocks.weights import identities, weights_for
from pixpnet.goldilocks.windowed import windows_in_words, with_windows, with_windows_for
from pixpnet.model import FieldWarning
from pixpnet.training import open_run_data
from pixpnet.whole_file import written_whole

STORAGE_FILE, SEARCH_FILE = "study.sqlite3", "search.json"
_PARTS = 1000  # of a candidate, on a progress bar
_LONGEST_WAIT = 5.0  # seconds between two looks at what other workers do
# What a candidate may fail with, and the others be none the worse for. A full disk or a storage that is gone is not.
_CANDIDATES_OWN = (ArithmeticError, ConnectionError, LookupError, RuntimeError, ValueError)


@runtime_checkable
class SearchWatcher(Protocol):
    """Told what happens, as it happens."""

    def busy(self, task: str, done: int, total: int) -> None:
        """Something takes a while: so much of so much is done."""

    def evaluated(self, candidate: Candidate, finished: FinishedTrial, done: int, total: int) -> None:
        """This worker finished a candidate; so many of so many are done by all workers."""


class Unwatched:
    """A watcher that does nothing."""

    def busy(self, task: str, done: int, total: int) -> None:
        """See `SearchWatcher`."""

    def evaluated(self, candidate: Candidate, finished: FinishedTrial, done: int, total: int) -> None:
        """See `SearchWatcher`."""


def find_cuts(options: SearchOptions, out: Path, watcher: SearchWatcher | None = None) -> SearchResult:
    """Looks for the cut whose cells see little and which decides well: the Pareto front of field and accuracy.

    May be stopped at any moment and goes on when it is called again; several processes may share the work. Candidates
    are evaluated on the validation split; the test split stays closed.

    Args:
        options: what to look for, and how.
        out: folder for the results; one that an earlier call on the same images has made is gone on with.
        watcher: told what happens.

    Returns:
        all candidates with their figures, the front and a recommendation, as `front.json` has them.

    Raises:
        SearchError: if the folder belongs to another search, the storage cannot be used, no cut lies in the zone, or
            a backbone has no weights.
        UnknownModel, UnknownLayer, DataError: if there is no such thing.
    """
    worker = _Worker(options, out, watcher or Unwatched())
    try:
        with warnings.catch_warnings(action="ignore", category=FieldWarning):  # fields are what this is all about
            worker.work()
    except KeyboardInterrupt:
        write_result(worker.result(), out, options.num_workers)
        raise
    else:
        result = worker.result()
        write_result(result, out, options.num_workers)
        return result
    finally:
        worker.close()


def take_folder(out: Path, settings: SearchSettings) -> None:
    """Makes the folder of a search, or makes sure that it is one on the same images.

    Raises:
        SearchError: if it is not.
    """
    path = out / SEARCH_FILE
    about = {"ground": settings.ground, "data": settings.data, "size": settings.size, "seed": settings.seed}
    if out.exists() and not out.is_dir():
        raise SearchError(f"{out} is a file: choose a folder with --out")
    out.mkdir(parents=True, exist_ok=True)
    others = [entry.name for entry in out.iterdir() if not entry.name.startswith(".")]
    others = [name for name in others if name not in (FIELDS_JSON, FIELDS_CSV, SEARCH_FILE)]
    # Only now: another worker may have begun while we looked, and writes this before anything else.
    if path.exists():
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
            same = known["ground"] == about["ground"]
        except (ValueError, KeyError, TypeError) as error:
            raise SearchError(f"{path} is damaged ({error}): choose another --out") from error
        if not same:
            raise SearchError(
                f"{out} holds another search, on {known.get('data')} at {known.get('size')} pixels with seed "
                f"{known.get('seed')}, or its images have changed since: choose another --out"
            )
        return
    if others:
        raise SearchError(f"{out} is not empty and no search ({others[0]} is in it): choose another --out")
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class _Prepared:
    """What is known before anything is trained."""

    data: DataSet
    settings: SearchSettings
    survey: Survey
    chosen: dict[str, Candidate]
    weights: dict[str, str | None]


class _Worker:
    """One process that works on a search."""

    def __init__(self, options: SearchOptions, out: Path, watcher: SearchWatcher) -> None:
        if options.chosen_method not in METHODS:
            raise SearchError(f"there is no method {options.method!r}; there are {', '.join(METHODS)}")
        self._options, self._out, self._watcher = options, out, watcher
        self._prepared = _prepare(options, watcher)
        self._settings = self._prepared.settings
        take_folder(out, self._settings)
        storage = options.storage or f"sqlite:///{out / STORAGE_FILE}"
        self._study = Study(storage, self._settings, self._prepared.chosen, options.heartbeat)

    def close(self) -> None:
        """Leaves the storage to others."""
        self._study.close()

    def work(self) -> None:
        """Claims and evaluates candidates until none is left, also none that another worker has."""
        method = METHODS[self._options.chosen_method]
        if self._options.retry_failed:
            self._study.reopen_failed()
        total = len(self._prepared.chosen)
        while (done := len(self._study.finished())) < total:
            self._watcher.busy("search", _PARTS * done, _PARTS * total)
            with self._study.alive():
                claimed = self._study.claim(method.together)
                if claimed:
                    self._evaluate(claimed, done, total)
            if not claimed:
                self._watcher.busy("waiting for other workers", done, total)
                time.sleep(min(_LONGEST_WAIT, self._options.heartbeat))

    def _evaluate(self, claimed: Sequence[Candidate], done: int, total: int) -> None:
        shared, lap = 0.0, time.monotonic()
        bench = self._bench(len(claimed), done, total)
        for number, outcome in enumerate(_outcomes(claimed, bench), start=1):
            now = time.monotonic()
            seconds, lap = now - lap, now
            if number == 1:  # the first outcome waits for what serves all of them
                shared, seconds = seconds / len(claimed), 0.0
            if self._study.tell(outcome, shared + seconds):
                finished = FinishedTrial(
                    outcome.candidate.name,
                    outcome.accuracy,
                    outcome.images,
                    shared + seconds,
                    outcome.error,
                    outcome.probe,
                )
                self._watcher.evaluated(outcome.candidate, finished, done + number, total)

    def _bench(self, claimed: int, done: int, total: int) -> Bench:
        def share_done(share: float) -> None:
            self._watcher.busy("search", int(_PARTS * (done + share * claimed)), _PARTS * total)

        return Bench(
            settings=self._settings,
            data=self._prepared.data,
            weights=self._prepared.weights,
            device=torch.device(self._options.device),
            num_workers=num_workers_for(self._options.num_workers, torch.device(self._options.device).type),
            folder=self._out,
            share_done=share_done,
        )

    def result(self) -> SearchResult:
        """The result of all trials that are finished so far."""
        prepared, options = self._prepared, self._options
        finished = self._study.finished()
        evaluated = evaluated_cuts([(prepared.chosen[key], cuts) for key, cuts in finished.items()], prepared.weights)
        best, advice = recommendation(evaluated, options.wanted)
        accuracies = _accuracies(finished)
        compared = [
            agreement(options.chosen_method, accuracies, other, _accuracies(cuts))
            for other, cuts in sorted(self._study.other_methods(prepared.settings).items())
        ]
        chosen = set(prepared.chosen.values())
        return SearchResult(
            settings=prepared.settings,
            zone=options.zone,
            want=options.wanted,
            evaluated=evaluated,
            waiting=tuple(cut.name for key, cut in prepared.chosen.items() if key not in finished),
            outside=tuple(cut for cut in prepared.survey.candidates if cut not in chosen),
            left_out=prepared.survey.left_out,
            designs=designs_in_words(prepared.survey, options.target_field),
            recommended=None if best is None else best.name,
            advice=advice,
            agreements=tuple(pair for pair in compared if pair is not None),
        )


def _outcomes(claimed: Sequence[Candidate], bench: Bench) -> Iterator[Outcome]:
    """An outcome for each candidate; what the method raises is that of those which have none yet."""
    left = list(claimed)
    try:
        for outcome in METHODS[bench.settings.method].evaluate(claimed, bench):
            left.remove(outcome.candidate)
            yield outcome
    except _CANDIDATES_OWN as error:
        for candidate in left:
            yield Outcome(candidate, None, error=f"{type(error).__name__}: {error}")


def _prepare(options: SearchOptions, watcher: SearchWatcher) -> _Prepared:
    data = open_run_data(
        data_config(options.data, options.seed, options.birds),
        watcher.busy,
    )
    if not data.val:
        raise SearchError(f"{data.name} has too few images for a validation split, and cuts are chosen on it: add some")
    settings = SearchSettings(
        data=options.data,
        images=fingerprint(data),
        birds=options.birds,
        method=options.chosen_method,
        size=options.size or data.preprocessing.size,
        epochs=None if options.chosen_method == "probe" else options.epochs,
        batch=options.batch,
        views=options.views,
        seed=options.seed,
    )
    surveyed = look_for_cuts(options, settings.size, watcher)
    chosen = inside(surveyed.candidates, options.zone)
    backbones = tuple(dict.fromkeys(cut.backbone for cut in chosen))
    weights = weights_for(backbones, options.weights)
    known = identities(weights)
    return _Prepared(data, settings, surveyed, {f"{cut.name} [{known[cut.backbone]}]": cut for cut in chosen}, weights)


def look_for_cuts(options: SearchOptions, size: int, watcher: SearchWatcher) -> Survey:
    """All cuts that come into question with their exact fields: layers, then windows, then modified networks."""
    names, layers, start = names_of(options.backbones), options.layers, options.window_from
    surveyed = survey(options.backbones, size, layers, watcher.busy)
    if options.windows:
        surveyed = with_windows(surveyed, names, options.windows, layers, start, watcher.busy)
    if options.target_field is not None:
        surveyed = with_windows_for(surveyed, names, options.target_field, layers, start, watcher.busy)
        surveyed = with_designs(surveyed, options.target_field, watcher.busy)
    return surveyed


def designs_in_words(surveyed: Survey, target: float | None) -> tuple[str, ...]:
    """What was chosen for windows, and then what modified cuts change."""
    windows = [windows_in_words(cut, target) for cut in surveyed.candidates if cut.windows is not None]
    return (*windows, *map(str, surveyed.designs))


def _accuracies(finished: dict[str, FinishedTrial]) -> dict[str, float]:
    return {key: cut.accuracy for key, cut in finished.items() if cut.accuracy is not None}
