"""Results of benchmarks on disk, and which changes between two files count: by hand-made figures."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("results")
    monkeypatch.setattr(module, "_measured", [])
    return module


@pytest.fixture
def compare(results: Any) -> Any:
    return importlib.import_module("compare")


@pytest.mark.parametrize(
    ("old", "new", "noise", "better", "ratio", "verdict"),
    [
        (2.0, 1.0, 0.0, "smaller", 2.0, "better"),
        (1.0, 2.0, 0.0, "smaller", 0.5, "worse"),
        (1.0, 2.0, 0.0, "larger", 2.0, "better"),
        (2.0, 1.0, 0.0, "larger", 0.5, "worse"),
        (1.0, 1.02, 0.0, "smaller", 1 / 1.02, ""),  # fewer than three percent
        (1.0, 1.2, 0.05, "smaller", 1 / 1.2, ""),  # three times the root of two times 0.05 squared is 0.21
        (1.0, 1.22, 0.05, "smaller", 1 / 1.22, "worse"),
        (0.0, 0.0, 0.0, "smaller", 1.0, ""),
        (1.0, 0.0, 0.0, "smaller", float("inf"), "better"),
    ],
)
def test_a_change_counts_beyond_noise_and_three_percent(
    results: Any, compare: Any, old: float, new: float, noise: float, better: str, ratio: float, verdict: str
) -> None:
    before, after = (results.Result("training", "step", value, noise, "ratio", better) for value in (old, new))
    change = compare.change_between(before, after)
    assert (change.ratio, change.verdict) == (pytest.approx(ratio), verdict)


def test_figures_that_one_file_lacks_are_named_and_not_compared(results: Any, compare: Any) -> None:
    old = [results.Result("a", "gone", 1.0), results.Result("a", "both", 1.0), results.Result("a", "unit", 1.0)]
    new = [
        results.Result("a", "both", 2.0),
        results.Result("a", "new", 1.0),
        results.Result("a", "unit", 1.0, unit="s"),
    ]
    comparison = compare.compare(old, new)
    assert [change.new.name for change in comparison.changes] == ["both"]
    assert (comparison.gone, comparison.added) == (["a / gone", "a / unit"], ["a / new", "a / unit"])
    text = "\n".join(compare.lines(comparison))
    assert "SLOWER" in text and "only in the old file: a / gone" in text
    assert text.endswith("1 figures in both files, 1 got worse by more than their noise")


def test_a_benchmark_renews_its_own_figures_and_keeps_those_of_others(results: Any, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    results.record("fields", "vgg16", 0.1)
    results.record("training", "step", 1.5, 0.1)
    results.write(path)
    results._measured.clear()
    results.record("training", "step", 9.0)
    results.record("training", "step", 1.25, better="larger", unit="s")
    results.write(path)
    assert results.read(path) == [
        results.Result("fields", "vgg16", 0.1),
        results.Result("training", "step", 1.25, 0.0, "s", "larger"),
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["results.json"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no JSON"),
        ("[]", "holds no results"),
        ('{"schema": 2, "results": []}', "holds no results"),
        ('{"schema": 1, "results": [3]}', "result 1"),
        ('{"schema": 1, "results": [{"benchmark": "a", "name": "b"}]}', "value"),
        ('{"schema": 1, "results": [{"benchmark": "a", "name": "b", "value": "1"}]}', "are numbers"),
        ('{"schema": 1, "results": [{"benchmark": "a", "name": "b", "value": 1, "better": "less"}]}', "better"),
    ],
)
def test_files_that_are_no_results_are_refused(results: Any, tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(content)
    with pytest.raises(results.BadResults, match=message):
        results.read(path)


def test_the_exit_code_says_whether_anything_got_worse(
    results: Any, compare: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("old", 1.0), ("new", 1.5)):
        lines = [{"benchmark": "training", "name": "step", "value": value}]
        (tmp_path / name).write_text(json.dumps({"schema": 1, "results": lines}))
    codes = []
    for files in (("old", "new"), ("new", "old"), ("old", "nowhere")):
        monkeypatch.setattr("sys.argv", ["compare.py", *(str(tmp_path / file) for file in files)])
        codes.append(compare.main())
    assert codes == [1, 0, 2]
    assert "make bench JSON=" in capsys.readouterr().err


def test_noise_is_half_of_the_distance_between_quartiles(results: Any) -> None:
    side_by_side = importlib.import_module("side_by_side")
    assert side_by_side.noise([5.0, 1.0, 3.0, 2.0, 4.0]) == 1.0
    assert side_by_side.noise([7.0]) == 0.0


def test_contestants_are_recorded_under_their_names_but_not_the_first(results: Any) -> None:
    side_by_side = importlib.import_module("side_by_side")
    side_by_side.ratios({"base": lambda: sum(range(9999)), "other": lambda: sum(range(9999))}, 3, "training: step, ")
    assert [(result.benchmark, result.name) for result in results._measured] == [("training", "step, other")]
