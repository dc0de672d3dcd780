"""A study that several workers share: each candidate is one optuna trial, and is completed exactly once.

How that is kept, whatever dies when:

- Everything that decides who does what happens under one lock of the storage (`exclusively`), and takes moments.
- A candidate is *open* when it has no trial, or its last one failed without a reason. A worker claims what is open: the
  trial is made, with its first sign of life, and runs when the lock is freed.
- A thread gives signs of life; a trial without them for four intervals is failed by any other worker. So is one that
  was made but never ran, whose worker died under the lock.
- A worker that was only asleep finds its trial failed when it wants to tell, and what it found is dropped.
- One that is stopped by a person, or by an error that is none of the candidate's, gives its trials back at once.

A probe's pass serves all candidates of a network, so those are claimed together. If its worker dies, those that were
told are kept, and the rest is claimed together by another.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pixpnet.goldilocks.bench import Outcome
from pixpnet.goldilocks.candidates import Candidate
from pixpnet.goldilocks.settings import SearchSettings
from pixpnet.goldilocks.storage import answering, open_storage, quiet
from pixpnet.records import from_plain, to_plain

if TYPE_CHECKING:
    from optuna import Study as Trials
    from optuna.trial import FrozenTrial, Trial

_KEY, _ERROR, _IMAGES, _SECONDS, _SETTINGS = "candidate", "error", "images", "seconds", "settings"
_PROBE = "probe"  # not in trials of earlier versions
_ALIVE = "alive"  # when the worker of a trial gave its last sign of life
_SILENCE = 4  # a worker is taken for dead after so many signs that did not come


@dataclass(frozen=True)
class FinishedTrial:
    """A candidate that needs no more work.

    Attributes:
        key: of the candidate.
        accuracy: on validation; None if it failed.
        images: how many validation images there were.
        seconds: how long it took; a pass that serves several is shared out equally.
        error: why it failed.
        probe: accuracy of a linear classifier on the same features, where the method has one beside.
    """

    key: str
    accuracy: float | None
    images: int
    seconds: float
    error: str | None
    probe: float | None = None


class Study:
    """The trials of one search in a storage.

    Attributes:
        address: of the storage, without its password.
        heartbeat: seconds between signs of life.
    """

    def __init__(self, url: str, settings: SearchSettings, candidates: Mapping[str, Candidate], heartbeat: int) -> None:
        """Opens the study of these settings, or makes it.

        Args:
            url: of the storage.
            settings: other settings are another study of the same storage.
            candidates: that this worker can do, by keys that say the cut and which weights it begins with.
            heartbeat: seconds between signs of life.
        """
        self._storage = open_storage(url)
        self.address = self._storage.address
        self.heartbeat = heartbeat
        self._candidates = dict(candidates)
        self._keys = {candidate: key for key, candidate in candidates.items()}
        self._mine: dict[str, Trial] = {}
        self._name = f"goldilocks-{settings.method}-{settings.digest}"
        with self._deciding():
            self._trials = self._opened(settings)

    def reopen_failed(self) -> None:
        """Makes candidates that failed with a reason open again."""
        from optuna.trial import TrialState, create_trial

        with self._deciding():
            for key, finished in self._finished().items():
                if finished.error is not None:
                    # The last word on it is then a failure without a reason.
                    self._trials.add_trial(create_trial(state=TrialState.FAIL, user_attrs={_KEY: key}))

    def claim(self, together: bool) -> tuple[Candidate, ...]:
        """Takes an open candidate, or all open ones of its network; gives none where nothing is open."""
        with self._deciding():
            self._fail_what_is_nobodys()
            closed = self._finished().keys() | self._running().keys()
            keys = [key for key in self._candidates if key not in closed]
            if together:
                keys = [key for key in keys if _network(self._candidates[key]) == _network(self._candidates[keys[0]])]
            else:
                keys = keys[:1]
            for key in keys:
                about: dict[str, Any] = {_KEY: key, _ALIVE: self._storage.now(), **to_plain(self._candidates[key])}
                self._trials.enqueue_trial({}, user_attrs=about)
                self._mine[key] = self._trials.ask()
            return tuple(self._candidates[key] for key in keys)

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Gives signs of life for what is claimed inside it; when it is left, gives back what has no outcome."""
        stop = threading.Event()
        thread = threading.Thread(target=self._beat, args=(stop,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            if self._mine:
                self._give_back()

    def tell(self, outcome: Outcome, seconds: float) -> bool:
        """Writes down what was found; False if this worker was taken for dead, and another has the candidate now."""
        from optuna.trial import TrialState

        key = self._keys[outcome.candidate]
        trial = self._mine[key]
        with self._deciding():
            if not self._runs(trial):
                del self._mine[key]
                return False
            trial.set_user_attr(_IMAGES, outcome.images)
            trial.set_user_attr(_SECONDS, seconds)
            if outcome.probe is not None:
                trial.set_user_attr(_PROBE, outcome.probe)
            if outcome.accuracy is None:
                trial.set_user_attr(_ERROR, outcome.error or "no reason was given")
                self._trials.tell(trial, state=TrialState.FAIL)
            else:
                self._trials.tell(trial, (outcome.accuracy, outcome.candidate.mean_field))
            del self._mine[key]  # only now: what could not be told is given back
            return True

    def finished(self) -> dict[str, FinishedTrial]:
        """What is known so far of the candidates of this worker, whoever found it."""
        with answering(self.address):
            return self._finished()

    def other_methods(self, settings: SearchSettings) -> dict[str, dict[str, FinishedTrial]]:
        """What other methods found on the same images, by the method and its budget, whatever the candidates."""
        import optuna

        with answering(self.address), quiet():
            methods = {}
            for other in optuna.get_all_study_summaries(self._storage.trials, include_best_trial=False):
                text = other.user_attrs.get(_SETTINGS)
                if text is None or other.study_name == self._name:
                    continue
                try:
                    known = from_plain(SearchSettings, json.loads(text), f"study {other.study_name}")
                except (ValueError, TypeError):
                    continue  # of another version, or of somebody else: not to be compared with
                if known.ground == settings.ground and known.method != settings.method:
                    trials = optuna.load_study(study_name=other.study_name, storage=self._storage.trials)
                    methods[_budget(known)] = _finished(trials.get_trials(deepcopy=False))
            return methods

    def close(self) -> None:
        """Gives the connections to the storage back."""
        self._storage.close()

    def _finished(self) -> dict[str, FinishedTrial]:
        outcomes = _finished(self._trials.get_trials(deepcopy=False))
        return {key: finished for key, finished in outcomes.items() if key in self._candidates}

    # Only under the lock ------------------------------------------------------------------------------------

    @contextmanager
    def _deciding(self) -> Iterator[None]:
        with answering(self.address), quiet(), self._storage.exclusively():
            yield

    def _opened(self, settings: SearchSettings) -> "Trials":
        import optuna

        trials = optuna.create_study(
            storage=self._storage.trials,
            study_name=self._name,
            directions=["maximize", "minimize"],
            sampler=optuna.samplers.RandomSampler(seed=0),  # there is nothing to draw
            load_if_exists=True,
        )
        if _SETTINGS not in trials.user_attrs:
            trials.set_user_attr(_SETTINGS, json.dumps(to_plain(settings)))
            trials.set_user_attr("objectives", ["validation accuracy", "mean field"])
        return trials

    def _running(self) -> "dict[str, FrozenTrial]":
        from optuna.trial import TrialState

        trials = self._trials.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        return {trial.user_attrs[_KEY]: trial for trial in trials}

    def _runs(self, trial: "Trial") -> bool:
        return any(running.number == trial.number for running in self._running().values())

    def _fail_what_is_nobodys(self) -> None:
        """Ends trials whose worker is dead, without a reason, so that their candidates are open."""
        from optuna.trial import TrialState

        oldest = self._storage.now() - _SILENCE * self.heartbeat
        for trial in self._running().values():
            if trial.user_attrs.get(_ALIVE, 0.0) < oldest:
                self._trials.tell(trial.number, state=TrialState.FAIL)
        # Nobody else is under the lock, so nobody will ask for these.
        while self._trials.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
            self._trials.tell(self._trials.ask(), state=TrialState.FAIL)

    def _give_back(self) -> None:
        from optuna.trial import TrialState

        with self._deciding():
            for trial in self._mine.values():
                if self._runs(trial):
                    self._trials.tell(trial, state=TrialState.FAIL)  # without a reason: open again
        self._mine.clear()

    # In a thread of its own ---------------------------------------------------------------------------------

    def _beat(self, stop: threading.Event) -> None:
        import sqlalchemy
        from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError

        while not stop.wait(self.heartbeat):
            for trial in tuple(self._mine.values()):
                try:
                    trial.set_user_attr(_ALIVE, self._storage.now())
                except UpdateFinishedTrialError:
                    continue  # told meanwhile, or taken for dead
                except (sqlalchemy.exc.SQLAlchemyError, StorageInternalError):
                    break  # the storage is busy or away for a while; the next sign may reach it


def _finished(trials: Sequence["FrozenTrial"]) -> dict[str, FinishedTrial]:
    """The last word on each candidate, from trials in their order: complete, or failed with a reason."""
    finished: dict[str, FinishedTrial] = {}
    for trial in trials:
        about = trial.user_attrs
        key = about[_KEY]
        if key in finished and finished[key].accuracy is not None:
            continue
        if trial.state.name == "COMPLETE":
            finished[key] = FinishedTrial(
                key, trial.values[0], about[_IMAGES], about[_SECONDS], None, about.get(_PROBE)
            )
        elif trial.state.name == "FAIL" and _ERROR in about:
            finished[key] = FinishedTrial(key, None, about[_IMAGES], about[_SECONDS], about[_ERROR])
        else:
            finished.pop(key, None)  # it is tried once more, or that came to no end
    return finished


def _network(candidate: Candidate) -> tuple[str, ...]:
    return (candidate.backbone, *candidate.edits, *([] if candidate.windows is None else [str(candidate.windows)]))


def _budget(settings: SearchSettings) -> str:
    parts = {"epochs": settings.epochs, "batch": settings.batch, "views": settings.views}
    text = ", ".join(f"{name} {value}" for name, value in parts.items() if value is not None)
    return f"{settings.method} ({text})" if text else settings.method
