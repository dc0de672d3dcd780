"""A study that several workers share: each candidate is one optuna trial, and is completed exactly once.

How that is kept, whatever dies when:

- Everything that decides who does what happens under one lock of the storage (`exclusively`), and takes moments.
- A candidate is *open* when it has no trial, or its last one failed without a reason. Workers enqueue what is open, so
  twice enqueueing is impossible, and a trial that died makes its candidate open again, also one that was a retry.
- A worker claims trials: it gives its first sign of life, and only then are they running. (The other way round, one
  that dies between the two would never be missed: optuna looks at trials that have given signs.)
- A thread gives signs of life; a trial without them for four intervals is failed by any other worker (`fail_stale`).
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
from pixpnet.goldilocks.settings import Settings
from pixpnet.goldilocks.storage import answering, exclusively, open_storage, quiet
from pixpnet.records import from_plain, to_plain

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial, TrialState

_KEY, _ERROR, _IMAGES, _SECONDS, _SETTINGS = "candidate", "error", "images", "seconds", "settings"


@dataclass(frozen=True)
class Finished:
    """A candidate that needs no more work.

    Attributes:
        key: of the candidate.
        accuracy: on validation; None if it failed.
        images: how many validation images there were.
        seconds: how long it took; a pass that serves several is shared out equally.
        error: why it failed.
    """

    key: str
    accuracy: float | None
    images: int
    seconds: float
    error: str | None


class Study:
    """The trials of one search in a storage.

    Attributes:
        address: of the storage, without its password.
        heartbeat: seconds between signs of life.
    """

    def __init__(self, url: str, settings: Settings, candidates: Mapping[str, Candidate], heartbeat: int) -> None:
        """Opens the study of these settings, or makes it.

        Args:
            url: of the storage.
            settings: other settings are another study of the same storage.
            candidates: that this worker can do, by keys that say the cut and which weights it begins with.
            heartbeat: seconds between signs of life.
        """
        self._storage = open_storage(url, heartbeat)
        self.address = self._storage.engine.url.render_as_string(hide_password=True)
        self.heartbeat = heartbeat
        self._states = _states()
        self._candidates = dict(candidates)
        self._keys = {candidate: key for key, candidate in candidates.items()}
        self._mine: dict[str, int] = {}
        self._name = f"goldilocks-{settings.method}-{settings.digest}"
        with self._deciding():
            self._study = self._made(settings)

    def enqueue(self, retry_failed: bool = False) -> None:
        """Puts every open candidate into the queue; with `retry_failed`, also those that failed with a reason."""
        with self._deciding():
            self._enqueue(retry_failed)

    def claim(self, together: bool) -> tuple[Candidate, ...]:
        """Takes a waiting candidate, or all waiting ones of its network; gives none where nothing waits."""
        with self._deciding():
            self._fail_stale()
            self._enqueue(retry_failed=False)
            waiting = self._waiting()
            keys = [key for key in self._candidates if key in waiting]
            if together:
                keys = [key for key in keys if _network(self._candidates[key]) == _network(self._candidates[keys[0]])]
            else:
                keys = keys[:1]
            for key in keys:
                self._storage.record_heartbeat(waiting[key])
                self._mine[key] = waiting[key]
                self._storage.set_trial_state_values(waiting[key], self._states.RUNNING)
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
        key = self._keys[outcome.candidate]
        trial = self._mine[key]
        with self._deciding():
            if self._storage.get_trial(trial).state != self._states.RUNNING:
                del self._mine[key]
                return False
            self._storage.set_trial_user_attr(trial, _IMAGES, outcome.images)
            self._storage.set_trial_user_attr(trial, _SECONDS, seconds)
            if outcome.accuracy is None:
                self._storage.set_trial_user_attr(trial, _ERROR, outcome.error or "no reason was given")
                self._storage.set_trial_state_values(trial, self._states.FAIL)
            else:
                values = (outcome.accuracy, outcome.candidate.mean_field)
                self._storage.set_trial_state_values(trial, self._states.COMPLETE, values)
            del self._mine[key]  # only now: what could not be told is given back
            return True

    def finished(self) -> dict[str, Finished]:
        """What is known so far of the candidates of this worker, whoever found it."""
        with answering(self.address):
            trials = self._storage.get_all_trials(self._study)
        return {key: found for key, found in _finished(trials).items() if key in self._candidates}

    def other_methods(self, settings: Settings) -> dict[str, dict[str, Finished]]:
        """What other methods found on the same images, by the method and its budget, whatever the candidates."""
        with answering(self.address):
            found = {}
            for other in self._storage.get_all_studies():
                text = other.user_attrs.get(_SETTINGS)
                if text is None or other.study_name == self._name:
                    continue
                try:
                    known = from_plain(Settings, json.loads(text), f"study {other.study_name}")
                except (ValueError, TypeError):
                    continue  # of another version, or of somebody else: not to be compared with
                if known.ground == settings.ground and known.method != settings.method:
                    found[_budget(known)] = _finished(self._storage.get_all_trials(other._study_id))
            return found

    def _give_back(self) -> None:
        with self._deciding():
            for trial in self._mine.values():
                if self._storage.get_trial(trial).state == self._states.RUNNING:
                    self._storage.set_trial_state_values(trial, self._states.FAIL)  # without a reason: open again
        self._mine.clear()

    def close(self) -> None:
        """Gives the connections to the storage back."""
        self._storage.remove_session()
        self._storage.engine.dispose()

    # Only under the lock ------------------------------------------------------------------------------------

    @contextmanager
    def _deciding(self) -> Iterator[None]:
        with answering(self.address), quiet(), exclusively(self._storage):
            yield

    def _made(self, settings: Settings) -> int:
        from optuna.study import StudyDirection

        known = {study.study_name: study._study_id for study in self._storage.get_all_studies()}
        if self._name in known:
            return known[self._name]
        made = self._storage.create_new_study([StudyDirection.MAXIMIZE, StudyDirection.MINIMIZE], self._name)
        self._storage.set_study_user_attr(made, _SETTINGS, json.dumps(to_plain(settings)))
        self._storage.set_study_user_attr(made, "objectives", ["validation accuracy", "mean field"])
        return made

    def _enqueue(self, retry_failed: bool) -> None:
        from optuna.trial import create_trial

        trials = self._storage.get_all_trials(self._study, deepcopy=False)
        closed = {trial.user_attrs[_KEY] for trial in trials if trial.state != self._states.FAIL}
        if not retry_failed:
            closed |= _finished(trials).keys()
        for key in self._candidates:
            if key not in closed:
                about: dict[str, Any] = {_KEY: key, **to_plain(self._candidates[key])}
                waiting = create_trial(state=self._states.WAITING, user_attrs=about)
                self._storage.create_new_trial(self._study, waiting)

    def _fail_stale(self) -> None:
        import optuna

        optuna.storages.fail_stale_trials(optuna.load_study(study_name=self._name, storage=self._storage))

    def _waiting(self) -> dict[str, int]:
        trials = self._storage.get_all_trials(self._study, deepcopy=False, states=(self._states.WAITING,))
        return {trial.user_attrs[_KEY]: trial._trial_id for trial in trials}

    # In a thread of its own ---------------------------------------------------------------------------------

    def _beat(self, stop: threading.Event) -> None:
        import sqlalchemy
        from optuna.exceptions import StorageInternalError

        while not stop.wait(self.heartbeat):
            for trial in tuple(self._mine.values()):
                try:
                    self._storage.record_heartbeat(trial)
                except (sqlalchemy.exc.SQLAlchemyError, StorageInternalError):
                    break  # the storage is busy or away for a while; the next sign may reach it


def _finished(trials: Sequence["FrozenTrial"]) -> dict[str, Finished]:
    """The last word on each candidate, from trials in their order: complete, or failed with a reason."""
    found: dict[str, Finished] = {}
    for trial in trials:
        about = trial.user_attrs
        key = about[_KEY]
        if key in found and found[key].accuracy is not None:
            continue
        if trial.state.name == "COMPLETE":
            found[key] = Finished(key, trial.values[0], about[_IMAGES], about[_SECONDS], None)
        elif trial.state.name == "FAIL" and _ERROR in about:
            found[key] = Finished(key, None, about[_IMAGES], about[_SECONDS], about[_ERROR])
        else:
            found.pop(key, None)  # it is tried once more, or that came to no end
    return found


def _states() -> "type[TrialState]":
    from optuna.trial import TrialState

    return TrialState


def _network(candidate: Candidate) -> tuple[str, ...]:
    return (candidate.backbone, *candidate.edits)


def _budget(settings: Settings) -> str:
    parts = {"epochs": settings.epochs, "batch": settings.batch, "views": settings.views}
    said = ", ".join(f"{name} {value}" for name, value in parts.items() if value is not None)
    return f"{settings.method} ({said})" if said else settings.method
