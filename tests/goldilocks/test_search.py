"""Searches from the first field to the files, interrupted in every way."""

import csv
import errno
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pixpnet.config import read_config
from pixpnet.data.locked import LockedSplit
from pixpnet.fields import receptive_fields
from pixpnet.goldilocks import Candidate, FinishedTrial, Method, SearchError, find_cuts, methods, read_result
from pixpnet.goldilocks.bench import Bench, Outcome, plain_learning
from pixpnet.goldilocks.search import Unwatched, take_folder
from pixpnet.goldilocks.settings import with_budget
from pixpnet.goldilocks.weights import identity, weights_for
from pixpnet.goldilocks.whole import run_name
from pixpnet.members.pixpnet import PRESETS
from tests.goldilocks.material import PATIENCE, SETTINGS, candidate, options, start_worker, wait_for


class Noted(Unwatched):
    def __init__(self) -> None:
        self.names: list[str] = []
        self.progress: list[tuple[int, int]] = []

    def busy(self, task: str, done: int, total: int) -> None:
        if task == "search":
            self.progress.append((done, total))

    def evaluated(self, candidate: Candidate, result: FinishedTrial, done: int, total: int) -> None:
        self.names.append(candidate.name)


@pytest.fixture(autouse=True)
def _test_split_stays_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("the test split was opened")

    monkeypatch.setattr(LockedSplit, "open", refuse)


def by_field(candidates: Sequence[Candidate], bench: Bench) -> Iterator[Outcome]:
    """A method that learns nothing."""
    for cut in candidates:
        yield Outcome(cut, 0.5 + cut.mean_field / 4, 9)


def use(monkeypatch: pytest.MonkeyPatch, method: object, together: bool = False) -> None:
    monkeypatch.setitem(methods.METHODS, "finetune", Method(method, together))  # type: ignore[arg-type]


def test_a_probe_judges_all_layers_of_a_network_in_one_pass_and_finds_the_colored_squares(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []
    original = Bench.backbone
    monkeypatch.setattr(Bench, "backbone", lambda bench, cut: built.append(cut.name) or original(bench, cut))
    noted = Noted()
    result = find_cuts(options(pictures), tmp_path / "out", noted)
    assert built == ["small-21 @ stage3", "small-29 @ stage3"]  # one pass each, cut at the deepest
    assert len(result.evaluated) == 6 and Counter(noted.names) == Counter(cut.name for cut in result.evaluated)
    assert all(cut.images == 9 and cut.accuracy is not None for cut in result.evaluated)
    # Colours are in the averages of the first random filters already; three classes, so chance is 1/3.
    assert max(cut.accuracy or 0 for cut in result.evaluated) >= 7 / 9
    dones = [done for done, _ in noted.progress]
    assert dones == sorted(dones) and noted.progress[-1][1] == 6000
    assert read_result(tmp_path / "out") == result
    header, *lines = (tmp_path / "out" / "front.csv").read_text().splitlines()
    assert header.startswith("name,backbone,at,edits,weights,mean_field") and len(lines) == 6


def test_a_second_call_does_nothing_twice_and_a_wider_zone_only_what_is_new(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, by_field)
    narrow = options(pictures, method="finetune", zone=(0.01, 0.2))
    first, again, wider = Noted(), Noted(), Noted()
    before = find_cuts(narrow, tmp_path, first)
    assert find_cuts(narrow, tmp_path, again) == before
    after = find_cuts(replace(narrow, zone=(0.01, 0.6)), tmp_path, wider)
    assert first.names and not again.names and wider.names
    assert not set(first.names) & set(wider.names)
    assert {cut.name for cut in after.evaluated} == {*first.names, *wider.names}
    assert {cut.name for cut in before.outside} == set(wider.names)


def test_finetune_and_probe_in_one_folder_are_compared(pictures: Path, tmp_path: Path) -> None:
    few = options(pictures, backbones=("small-21",), layers=("stage1", "stage2"))
    find_cuts(few, tmp_path)
    result = find_cuts(replace(few, method="finetune", epochs=2), tmp_path)
    assert all(cut.accuracy is not None for cut in result.evaluated)
    (both,) = result.agreements
    assert (both.method, both.other, both.cuts) == ("finetune", "probe (batch 8, views 1)", 2)


def test_the_real_thing_leaves_a_run_whose_validation_accuracy_it_reports(pictures: Path, tmp_path: Path) -> None:
    search_options = options(pictures, method="pixpnet", backbones=("small-21",), layers=("stage2",))
    result = find_cuts(search_options, tmp_path)
    (run,) = (tmp_path / "runs").iterdir()
    metrics = json.loads((run / "metrics.json").read_text())
    assert result.evaluated[0].accuracy == metrics["validation"]["accuracy"]
    assert metrics["test"] is None and not (run / "openings.jsonl").exists()
    # If the worker had died between the run's end and telling, the run is not trained again.
    (tmp_path / "study.sqlite3").unlink()
    assert find_cuts(search_options, tmp_path).evaluated[0].accuracy == metrics["validation"]["accuracy"]


def test_runs_of_other_weights_edits_or_settings_lie_elsewhere_and_a_long_list_of_edits_has_a_name(
    tmp_path: Path,
) -> None:
    for name in ("a.pth", "b.pth"):
        (tmp_path / name).write_text(name)
    cut, first, second = candidate(1), str(tmp_path / "a.pth"), str(tmp_path / "b.pth")
    edited = replace(cut, edits=tuple(f"pointwise:block{index}.convolution" for index in range(40)))
    names = [
        run_name(cut, None, SETTINGS),
        run_name(cut, first, SETTINGS),
        run_name(cut, second, SETTINGS),
        run_name(edited, first, SETTINGS),
        run_name(replace(edited, edits=edited.edits[:-1]), first, SETTINGS),
        run_name(cut, first, replace(SETTINGS, epochs=2)),
    ]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) < 128 and "/" not in "".join(names)
    (tmp_path / "b.pth").write_text("a.pth")  # the same weights in another place
    assert run_name(cut, second, SETTINGS) == names[1]


def test_a_candidate_that_fails_says_why_and_does_not_stop_the_others(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(candidates: Sequence[Candidate], bench: Bench) -> Iterator[Outcome]:
        if candidates[0].at == "stage2":
            raise RuntimeError("out of memory")
        yield from by_field(candidates, bench)

    use(monkeypatch, fails)
    search_options = options(pictures, method="finetune")
    result = find_cuts(search_options, tmp_path)
    assert [cut.error for cut in result.evaluated if cut.at == "stage2"] == ["RuntimeError: out of memory"] * 2
    assert all(cut.accuracy is not None for cut in result.evaluated if cut.at != "stage2")
    use(monkeypatch, by_field)
    assert any(cut.error for cut in find_cuts(search_options, tmp_path).evaluated)
    assert not any(cut.error for cut in find_cuts(replace(search_options, retry_failed=True), tmp_path).evaluated)


@pytest.mark.parametrize("method", ["probe", "finetune"])
def test_weights_that_are_no_numbers_or_do_not_fit_fail_with_their_reason(
    method: str, pictures: Path, tmp_path: Path
) -> None:
    from pixpnet import zoo

    state = {name: tensor for name, tensor in zoo.build("small-21").state_dict().items() if tensor.is_floating_point()}
    torch.save({name: torch.full_like(tensor, float("nan")) for name, tensor in state.items()}, tmp_path / "nan.pth")
    torch.save({"other": torch.zeros(1)}, tmp_path / "other.pth")
    given = (f"small-21={tmp_path / 'nan.pth'}", f"small-29={tmp_path / 'other.pth'}")
    result = find_cuts(options(pictures, method=method, layers=("stage1",), weights=given), tmp_path / "out")
    reasons = {cut.backbone: cut.error or "" for cut in result.evaluated}
    assert "damaged" in reasons["small-21"]
    assert "does not fit this backbone" in reasons["small-29"]
    assert result.recommended is None and not (tmp_path / "out" / "train.yaml").exists()


def test_a_full_disk_stops_the_search_and_what_was_found_is_kept(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(candidates: Sequence[Candidate], bench: Bench) -> Iterator[Outcome]:
        if candidates[0].at == "stage3":
            raise OSError(errno.ENOSPC, "No space left on device")
        yield from by_field(candidates, bench)

    search_options = options(pictures, method="finetune", backbones=("small-21",))
    use(monkeypatch, full)
    with pytest.raises(OSError, match="No space left"):
        find_cuts(search_options, tmp_path)
    use(monkeypatch, by_field)
    noted = Noted()
    assert len(find_cuts(search_options, tmp_path, noted).evaluated) == 3
    assert noted.names == ["small-21 @ stage3"]


def test_a_worker_that_is_killed_loses_only_what_it_was_at(pictures: Path, tmp_path: Path) -> None:
    search_options = options(pictures, method="finetune")
    given = {"options": search_options, "out": str(tmp_path / "out"), "journal": str(tmp_path / "journal")}
    mark, never = tmp_path / "in", tmp_path / "never"
    victim = start_worker("work", hang_at=3, mark=str(mark), go=str(never), **given)
    wait_for(mark)
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    victim.join(PATIENCE)
    next_one = start_worker("work", hang_at=0, mark=str(mark), go=str(never), **given)
    next_one.join(PATIENCE)
    assert next_one.exitcode == 0
    result = read_result(tmp_path / "out")
    assert len(result.evaluated) == 6 and not result.waiting
    assert Counter((tmp_path / "journal").read_text().splitlines()) == Counter(cut.name for cut in result.evaluated)


def test_a_folder_of_another_search_or_of_something_else_is_refused(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, by_field)
    search_options = options(pictures, method="finetune", backbones=("small-21",))
    find_cuts(search_options, tmp_path / "out")
    with pytest.raises(SearchError, match=r"another search, on folder:.* at 32 pixels with seed 0.*choose another"):
        find_cuts(replace(search_options, size=24), tmp_path / "out")
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(SearchError, match="not empty and no search"):
        find_cuts(search_options, tmp_path)
    with pytest.raises(SearchError, match="is a file"):
        find_cuts(search_options, tmp_path / "thesis.tex")
    with pytest.raises(SearchError, match="no method 'guess'; there are probe, frozen, finetune, pixpnet"):
        find_cuts(replace(search_options, method="guess"), tmp_path / "new")


def test_a_worker_that_begins_at_the_same_moment_as_another_takes_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Path.iterdir

    def while_another_begins(path: Path) -> Iterator[Path]:
        monkeypatch.setattr(Path, "iterdir", look)
        take_folder(tmp_path, SETTINGS)
        (tmp_path / "study.sqlite3").touch()
        return look(path)

    monkeypatch.setattr(Path, "iterdir", while_another_begins)
    take_folder(tmp_path, SETTINGS)
    with pytest.raises(SearchError, match="another search"):
        take_folder(tmp_path, replace(SETTINGS, seed=1))


def test_weights_are_found_by_name_in_folders_and_missing_ones_are_named(tmp_path: Path) -> None:
    for name in ("vgg16_bn.pth", "vgg16_features.pth", "resnet18-f37072fd.pth", "vgg11.safetensors", "small-37.pth"):
        (tmp_path / name).write_bytes(name.encode())
    names = ("vgg16", "resnet18", "vgg11", "small-21", "small", "vgg16_bn")
    result = weights_for(names, [str(tmp_path)])
    stems = {name: None if file is None else Path(file).name for name, file in result.items()}
    assert stems == {
        "vgg16": "vgg16_features.pth", "resnet18": "resnet18-f37072fd.pth", "vgg11": "vgg11.safetensors",
        "small-21": None, "small": None, "vgg16_bn": "vgg16_bn.pth",
    }  # fmt: skip
    with pytest.raises(SearchError, match=r"no weights for resnet34, vgg13: give --weights resnet34=FILE"):
        weights_for(("resnet34", "vgg13"), [str(tmp_path)])
    assert weights_for(("resnet34", "vgg11"), ["none", str(tmp_path)])["resnet34"] == "none"
    with pytest.raises(SearchError, match="there is no such file"):
        weights_for(("vgg16",), [f"vgg16={tmp_path / 'nowhere.pth'}"])
    with pytest.raises(SearchError, match="is no folder"):
        weights_for(("vgg16",), ["imagenett"])
    with pytest.raises(SearchError, match="of which no cut"):
        weights_for(("vgg16",), [f"vgg19={tmp_path / 'vgg11.safetensors'}"])
    assert identity(None) == identity("none") == "none"
    other = tmp_path / "copy.pth"
    other.write_bytes(b"vgg16_bn.pth")
    assert identity(str(other)) == identity(str(tmp_path / "vgg16_bn.pth")) != identity(result["vgg16"])


def test_the_paper_and_its_budget_decide_how_a_classifier_learns() -> None:
    optim = with_budget(PRESETS["paper"].optimization, replace(SETTINGS, epochs=10, batch=32, views=None))
    assert (optim.epochs, optim.batch_size, optim.warm_up_epochs, optim.views) == (10, 32, 5, None)
    assert (optim.lr_backbone, optim.lr_add_on, optim.weight_decay, optim.lr_schedule) == (
        1e-4,
        3e-3,
        1e-3,
        "warm_cosine",
    )
    assert plain_learning(optim, random=False) == optim
    scratch = plain_learning(optim, random=True)
    assert (scratch.warm_up_epochs, scratch.lr_backbone) == (0, PRESETS["scratch"].optimization.lr_backbone)


def test_the_recommended_cut_has_a_configuration(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, by_field)
    result = find_cuts(options(pictures, method="finetune", want=0.13), tmp_path)
    config = read_config(tmp_path / "train.yaml")
    assert f"{config.backbone} @ {config.at}" == result.recommended
    assert (config.size, config.seed, config.weights, config.evaluate_on_test) == (32, 0, None, True)
    assert config.settings == PRESETS["scratch"]


def test_a_target_field_adds_modified_cuts_whose_edits_reach_the_configuration(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Candidate] = []

    def judge_by_building(candidates: Sequence[Candidate], bench: Bench) -> Iterator[Outcome]:
        for cut in candidates:
            field = receptive_fields(bench.backbone(cut), (3, 32, 32))[""]
            assert field.mean_fraction_union == pytest.approx(cut.mean_field, abs=1e-12)
            built.append(cut)
            yield Outcome(cut, 0.9 if cut.edits else 0.1, 9)

    use(monkeypatch, judge_by_building)
    search_options = options(pictures, method="finetune", backbones=("small-37",), target_field=0.2)
    result = find_cuts(search_options, tmp_path)
    modified = [cut for cut in built if cut.edits]
    windowed = [cut for cut in built if cut.windows is not None]
    assert modified and windowed and len(result.designs) == len(modified) + len(windowed)
    assert "on windows of" in result.designs[0] and "on windows of" not in result.designs[-1]
    assert min(abs(cut.mean_field - 0.2) for cut in modified) < min(
        abs(cut.mean_field - 0.2) for cut in built if not cut.edits and cut.windows is None
    )
    config = read_config(tmp_path / "train.yaml")
    assert (config.at, config.edits) in [(cut.at, cut.edits) for cut in modified]
    assert result.want == 0.2
    with (tmp_path / "front.csv").open() as file:
        lines = {line["name"]: line for line in csv.DictReader(file)}
    for cut in modified:
        assert lines[cut.name]["edits"] == " + ".join(cut.edits)
        assert lines[cut.name]["shape"] == " x ".join(map(str, cut.shape))


def test_a_target_outside_the_zone_is_refused(pictures: Path) -> None:
    with pytest.raises(ValueError, match=r"0\.7 lies outside the zone 0\.01 0\.6"):
        options(pictures, target_field=0.7)
