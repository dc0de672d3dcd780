"""Workers that share a study: every candidate is completed exactly once, whoever dies when."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Thread

import pytest
import sqlalchemy
from optuna.trial import Trial

from pixpnet.goldilocks import Candidate, SearchError
from pixpnet.goldilocks.bench import Outcome
from pixpnet.goldilocks.settings import SearchSettings
from pixpnet.goldilocks.study import Study
from pixpnet.members.pixpnet import PRESETS, Losses
from tests.goldilocks.material import SETTINGS, candidate, history

CUTS = {f"cut {index}": candidate(index, "small-21" if index < 3 else "small-29") for index in (1, 2, 3, 4)}


@pytest.fixture
def study(tmp_path: Path) -> Callable[..., Study]:
    """Opens the study as another worker."""

    def opened(settings: SearchSettings = SETTINGS, cuts: dict[str, Candidate] = CUTS) -> Study:
        return Study(f"sqlite:///{tmp_path / 'study.sqlite3'}", settings, cuts, heartbeat=30)

    return opened


def found(cut: Candidate, accuracy: float | None = 0.5, error: str | None = None) -> Outcome:
    return Outcome(cut, accuracy, 10, error)


def silence(study: Study) -> None:
    """As if every sign of life had been given long ago."""
    with study._storage.engine.begin() as connection:
        connection.execute(sqlalchemy.text("UPDATE trial_user_attributes SET value_json = '0.0' WHERE key = 'alive'"))


def test_two_workers_never_claim_the_same_candidate(study: Callable[..., Study]) -> None:
    one, other = study(), study()
    claimed = [worker.claim(together=False) for worker in (one, other, one, other)]
    assert {cut for cuts in claimed for cut in cuts} == set(CUTS.values())
    assert one.claim(together=False) == other.claim(together=False) == ()


# Workers are processes. Here they are threads, which share what is ignored, and `catch_warnings` is not made for that.
@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_many_workers_that_begin_at_once_claim_each_candidate_once(study: Callable[..., Study]) -> None:
    workers = [study() for _ in range(4)]
    start, claimed = Barrier(4), []

    def work(worker: Study) -> None:
        start.wait()
        while cuts := worker.claim(together=False):
            claimed.extend(cuts)
            assert worker.tell(found(cuts[0]), 1.0)

    threads = [Thread(target=work, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(cut.order for cut in claimed) == [1, 2, 3, 4]
    assert history(workers[0]) == {key: ["COMPLETE"] for key in CUTS}


def test_a_method_that_serves_a_network_at_once_claims_all_its_candidates(study: Callable[..., Study]) -> None:
    one, other = study(), study()
    assert [cut.order for cut in one.claim(together=True)] == [1, 2]
    assert [cut.order for cut in other.claim(together=True)] == [3, 4]


def test_the_two_objectives_are_accuracy_upwards_and_field_downwards(study: Callable[..., Study]) -> None:
    worker = study()
    (cut,) = worker.claim(together=False)
    assert worker.tell(found(cut, 0.75), 2.5)
    (done,) = worker.finished().values()
    assert (done.key, done.accuracy, done.images, done.seconds, done.error) == ("cut 1", 0.75, 10, 2.5, None)
    assert worker._trials.trials[0].values == [0.75, cut.mean_field]
    assert [direction.name for direction in worker._trials.directions] == ["MAXIMIZE", "MINIMIZE"]


def test_a_dead_workers_candidate_is_done_by_another(study: Callable[..., Study]) -> None:
    dead, living = study(), study()
    (lost,) = dead.claim(together=False)
    assert living.claim(together=False) != (lost,)
    silence(living)
    (again,) = study().claim(together=False)
    assert again == lost
    assert history(living)["cut 1"] == ["FAIL", "RUNNING"]


def test_a_worker_that_was_only_asleep_cannot_complete_what_another_has_taken_over(
    study: Callable[..., Study],
) -> None:
    asleep, other = study(), study()
    (cut,) = asleep.claim(together=False)
    silence(asleep)
    assert other.claim(together=False) == (cut,)
    assert not asleep.tell(found(cut, 0.1), 1.0)
    assert other.tell(found(cut, 0.9), 1.0)
    assert other.finished()["cut 1"].accuracy == 0.9
    assert history(other)["cut 1"] == ["FAIL", "COMPLETE"]


@pytest.mark.parametrize("moment", ["enqueue_trial", "ask"])
def test_a_worker_that_dies_while_it_claims_is_missed(
    moment: str, study: Callable[..., Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = study()
    original = getattr(dead._trials, moment)

    def dies(*given: object, **named: object) -> None:
        original(*given, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(dead._trials, moment, dies)
    with pytest.raises(KeyboardInterrupt):
        dead.claim(together=False)
    living = study()
    assert history(living)["cut 1"] == ["WAITING" if moment == "enqueue_trial" else "RUNNING"]
    silence(living)
    assert living.claim(together=False) == (CUTS["cut 1"],)
    assert history(living)["cut 1"] == ["FAIL", "RUNNING"]


def test_what_an_earlier_version_left_waiting_is_open(study: Callable[..., Study]) -> None:
    worker = study()
    for key in ("cut 2", "cut 1"):
        worker._trials.enqueue_trial({}, user_attrs={"candidate": key})
    claimed = [worker.claim(together=False)[0].order for _ in CUTS]
    assert claimed == [1, 2, 3, 4]
    assert history(worker)["cut 1"] == ["FAIL", "RUNNING"]


def test_what_a_stopped_worker_had_is_open_again_at_once(study: Callable[..., Study]) -> None:
    stopped, other = study(), study()
    claimed = stopped.claim(together=True)
    with pytest.raises(KeyboardInterrupt), stopped.alive():
        assert stopped.tell(found(claimed[0]), 1.0)
        raise KeyboardInterrupt
    assert other.claim(together=True) == claimed[1:]


def test_what_a_worker_that_is_stopped_while_it_claims_had_is_open_again_at_once(
    study: Callable[..., Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped, other = study(), study()
    original = stopped._trials.ask
    asked = 0

    def stops() -> Trial:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise KeyboardInterrupt
        return original()

    monkeypatch.setattr(stopped._trials, "ask", stops)
    with pytest.raises(KeyboardInterrupt), stopped.alive():
        stopped.claim(together=True)
    assert [cut.order for cut in other.claim(together=True)] == [1, 2]


def test_a_candidate_that_fails_keeps_its_reason_and_is_not_tried_again_unless_asked(
    study: Callable[..., Study],
) -> None:
    worker = study()
    (cut,) = worker.claim(together=False)
    assert worker.tell(found(cut, None, "the weights do not fit"), 1.0)
    assert worker.finished()["cut 1"].error == "the weights do not fit"
    later = study()
    assert later.claim(together=False) == (CUTS["cut 2"],)
    later.reopen_failed()
    assert "cut 1" not in later.finished()
    assert later.claim(together=False) == (cut,)
    assert later.tell(found(cut, 0.5), 1.0)
    assert later.finished()["cut 1"].accuracy == 0.5


def test_a_retry_that_died_or_was_stopped_is_open_again_without_being_asked_for_once_more(
    study: Callable[..., Study],
) -> None:
    worker = study()
    (cut,) = worker.claim(together=False)
    assert worker.tell(found(cut, None, "out of memory"), 1.0)
    worker.reopen_failed()
    assert study().claim(together=False) == (cut,)
    silence(worker)  # that one died
    stopped, last = study(), study()
    with pytest.raises(KeyboardInterrupt), stopped.alive():
        assert stopped.claim(together=False) == (cut,)
        raise KeyboardInterrupt
    assert "cut 1" not in last.finished()
    assert last.claim(together=False) == (cut,)
    assert last.tell(found(cut, None, "no memory again"), 1.0)
    assert last.finished()["cut 1"].error == "no memory again"
    assert study().claim(together=False) == (CUTS["cut 2"],)


def test_what_could_not_be_told_is_given_back(study: Callable[..., Study], monkeypatch: pytest.MonkeyPatch) -> None:
    worker, other = study(), study()

    def stops(*given: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), worker.alive():
        (cut,) = worker.claim(together=False)
        with monkeypatch.context() as patch:
            patch.setattr(worker._trials, "tell", stops)
            worker.tell(found(cut), 1.0)
    assert other.claim(together=False) == (cut,)


def test_other_settings_are_another_study_and_methods_on_the_same_images_are_compared(
    study: Callable[..., Study],
) -> None:
    probed = replace(SETTINGS, method="probe", epochs=None)
    for settings in (SETTINGS, probed, replace(probed, seed=1), replace(probed, images="others")):
        worker = study(settings)
        assert not worker.finished()
        (cut,) = worker.claim(together=False)
        assert worker.tell(found(cut), 1.0)
    # What another version left there is no hindrance.
    later = study(replace(probed, seed=2))
    later._trials.set_user_attr("settings", '{"later": 1}')
    others = study(SETTINGS).other_methods(SETTINGS)
    assert list(others) == ["probe (batch 8, views 1)"]
    assert list(others["probe (batch 8, views 1)"]) == ["cut 1"]


def test_where_the_images_lie_does_not_make_another_study() -> None:
    assert replace(SETTINGS, data="folder:elsewhere").digest == SETTINGS.digest
    for change in ({"images": "x"}, {"method": "probe"}, {"size": 64}, {"epochs": 2}, {"seed": 1}, {"views": 2}):
        assert replace(SETTINGS, **change).digest != SETTINGS.digest


def test_another_preset_makes_another_study_of_whole_trainings_only(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [replace(SETTINGS, method=method) for method in ("pixpnet", "probe")]
    before = [settings.digest for settings in both]
    presets = {**PRESETS, "laptop": replace(PRESETS["laptop"], losses=Losses(cluster_weight=0.5))}
    monkeypatch.setattr("pixpnet.goldilocks.settings.preset", presets.__getitem__)
    whole, probe = (settings.digest for settings in both)
    assert whole != before[0]
    assert probe == before[1]


def test_studies_of_earlier_versions_go_on() -> None:
    # Their names, as the version before members of a family had files of their own computed them.
    settings = replace(SETTINGS, data="", images="", birds=0, size=96, epochs=None, batch=None, views=None, seed=0)
    assert replace(settings, method="probe").digest == "a163849b77cae23e"
    assert replace(settings, method="pixpnet").digest == "bb208678d3517ead"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "is no address: write sqlite"),
        ("postgresql:/me:secret@127.0.0.1/db", "is no address"),
        ("mysql://me@here/db", "should be sqlite"),
        ("sqlite://", "should be sqlite"),
        ("postgresql://me:secret@127.0.0.1:1/db", "cannot be used"),
    ],
)
def test_a_storage_that_cannot_be_used_is_explained_without_its_password(url: str, message: str) -> None:
    with pytest.raises(SearchError, match=message) as refused:
        Study(url, SETTINGS, CUTS, heartbeat=30)
    assert "secret" not in str(refused.value)


def test_a_damaged_storage_is_explained(tmp_path: Path) -> None:
    (tmp_path / "study.sqlite3").write_bytes(b"no database at all, but long enough to be looked at" * 100)
    with pytest.raises(SearchError, match=r"file is not a database.*has to be deleted"):
        Study(f"sqlite:///{tmp_path / 'study.sqlite3'}", SETTINGS, CUTS, heartbeat=30)


@pytest.mark.parametrize("package", ["optuna", "psycopg"])
def test_a_missing_package_is_named_with_the_way_to_get_it(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from pixpnet.goldilocks import storage

    monkeypatch.setattr(storage, "find_spec", lambda name: None if name == package else object())
    with pytest.raises(SearchError, match=rf"needs {package}: pip install 'pixpnet\[search\]'"):
        Study("postgresql://me@127.0.0.1:1/db", SETTINGS, CUTS, heartbeat=30)
