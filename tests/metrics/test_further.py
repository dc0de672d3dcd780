"""The suite's further measures: the same as each alone, resumed image by image, sorted by Co-12, read back."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pixpnet.commands.co12_text import co12_lines
from pixpnet.data import DataError, DataSet
from pixpnet.data.loader import PlainSamples
from pixpnet.metrics import misalignment
from pixpnet.metrics.doubt_of_run import doubt_of_run
from pixpnet.metrics.ordering import drawn_samples
from pixpnet.metrics.suite import MeasureSettings, Table, measure, read_table, table_from_plain
from pixpnet.metrics.suite import further as module
from pixpnet.metrics.suite.co12 import co12
from pixpnet.model import PixPNet
from pixpnet.progress import Progress
from pixpnet.training import Run, open_run_data
from tests.training.conftest import Trained

FEW = MeasureSettings(mappings=("field",), samples=1, prototypes=1, split="val", attack_samples=3)
PROPERTIES = (
    "correctness completeness consistency continuity contrastivity covariate\xa0complexity compactness composition "
    "confidence context coherence controllability"
)


@pytest.fixture(scope="module")
def measured(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Table]:
    """A copy of a run, and what was measured of it."""
    run = Path(shutil.copytree(trained.path, tmp_path_factory.mktemp("further") / "run"))
    return run, measure(run, FEW).table


def test_misalignment_in_the_table_is_what_the_function_says_about_the_same_images(
    measured: tuple[Path, Table], trained: Trained
) -> None:
    run, table = measured
    assert table.further is not None
    model, data = PixPNet.load(run), open_run_data(trained.config)
    chosen = [data.val[index] for index in drawn_samples(len(data.val), 3, 0)]
    samples = list(PlainSamples(chosen, data.reader, model.preprocessing))
    kinds = [(one.attack, one.protected) for one in table.further.misalignment]
    assert kinds == [("noise", "box"), ("noise", "field"), ("pgd", "box"), ("pgd", "field")]
    for one in table.further.misalignment:
        assert one == misalignment(model, samples, one.attack, one.protected)
        assert one.images == 3
        if one.protected == "field":
            assert one.moved == 0


def test_attacks_that_were_stopped_go_on_with_the_images_that_are_missing(
    measured: tuple[Path, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, whole = measured
    asked: list[tuple[str, int]] = []
    attack_images = module.attack_images

    def counted(model: Any, samples: Any, attack: str, *others: Any) -> Any:
        asked.append((attack, len(list(samples))))
        return attack_images(model, samples, attack, *others)

    monkeypatch.setattr(module, "attack_images", counted)
    assert measure(run, FEW).table == whole
    assert asked == []
    (results,) = (run / "measure").glob("results-*.jsonl")
    lines = results.read_text().splitlines(keepends=True)
    removed = [line for line in lines if '"misalignment", "pgd", "box"' in line]
    assert len(removed) == 3
    try:
        results.write_text("".join([line for line in lines if line not in removed[1:]]))
        again = measure(run, FEW).table
    finally:
        results.write_text("".join(lines))  # other tests look at them too
    assert asked == [("pgd", 2)]
    assert again.further is not None and whole.further is not None
    for one, other in zip(again.further.misalignment, whole.further.misalignment, strict=True):
        assert one.pac.estimate is not None and other.pac.estimate is not None
        assert one.pac.estimate.mean == pytest.approx(other.pac.estimate.mean, rel=1e-4)


def test_all_twelve_properties_stand_in_their_order_and_those_without_figures_say_what_is_missing(
    measured: tuple[Path, Table],
) -> None:
    properties = co12(measured[1])
    assert [entry.name.replace(" ", "\xa0") for entry in properties] == PROPERTIES.split(" ")
    assert [entry.name for entry in properties if entry.missing] == ["consistency", "context", "controllability"]
    assert not any(entry.figures for entry in properties if entry.missing)
    lines = co12_lines(measured[1])
    positions = [next(i for i, line in enumerate(lines) if line.startswith(f"{entry.name}: ")) for entry in properties]
    assert positions == sorted(positions)
    text = "\n".join(lines)
    assert "PAC, pgd outside the exact field" in text and "AUROC, largest logit, against noise" in text
    # Every abbreviation of the list has its line in the legend.
    legend = text[text.index("S_con, S_sta  ") :]
    assert all(word in legend for word in ("PAC", "PLC", "PRC", "AC ", "AUROC", "local size", "evalprotopnet", "pgd"))


def test_a_table_is_read_back_and_one_of_an_earlier_version_too(measured: tuple[Path, Table]) -> None:
    run, table = measured
    assert read_table(run) == table
    plain = json.loads((run / "measure" / "table.json").read_text())
    del plain["further"]
    for name in ("attacks", "protected", "attacked", "attack_samples", "dialects", "against"):
        del plain["settings"][name]
    earlier = table_from_plain(plain)
    assert earlier.further is None and earlier.settings.attacks == () and earlier.settings.against == ()
    assert co12_lines(earlier) == []
    assert len(co12(earlier)) == 12


def test_data_without_parts_says_so(measured: tuple[Path, Table]) -> None:
    table = measured[1]
    assert table.further is not None
    assert table.further.dialects == ()
    note, fitted = table.further.notes
    assert "no annotated parts" in note and f"Not measured: {note}." in co12_lines(table)
    assert "fitted to the validation images" in fitted and table.further.calibration_error is None


def test_validation_figures_are_of_validation_images_alone(
    measured: tuple[Path, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, table = measured
    assert table.further is not None
    assert [doubt.known_split for doubt in table.further.doubts] == ["validation"]
    asked: list[str | None] = []

    def data(folder: Run, progress: Progress | None = None, moved_to: str | None = None) -> DataSet:
        asked.append(moved_to)
        return open_run_data(folder.config)

    monkeypatch.setattr(Run, "data", data)
    (result,) = doubt_of_run(run, ("noise",), images=2, split="val", moved_to="folder:elsewhere")
    assert (result.known_split, asked) == ("validation", ["folder:elsewhere"])
    (result,) = doubt_of_run(run, ("noise",), images=2)
    assert (result.known_split, len(asked)) == ("test", 1)


def test_data_to_doubt_that_are_not_there_are_missed_before_anything_is_measured(trained: Trained) -> None:
    settings = replace(FEW, against=("folder:nowhere",))
    with pytest.raises(DataError, match="nowhere"):
        measure(trained.path, settings, progress=lambda task, done, total: pytest.fail(f"{task} was begun"))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"attacks": ("fgsm",)}, "no attack is called 'fgsm': choose one of noise, pgd"),
        ({"protected": ("circle",)}, "no protected region is called 'circle'"),
        ({"dialects": ("latin",)}, "no dialect is called 'latin'"),
        ({"attacked": "clas"}, "no choice of prototypes is called 'clas'"),
        ({"attacks": ("pgd", "pgd")}, "name each once, not pgd pgd"),
    ],
)
def test_names_that_nothing_has_are_refused(wrong: dict[str, Any], words: str) -> None:
    settings = replace(FEW)
    for name, value in wrong.items():  # past the check of types, which only tests have
        object.__setattr__(settings, name, value)
    with pytest.raises(ValueError, match=words):
        settings.__post_init__()


def test_more_attacked_images_reuse_those_that_are_there(
    measured: tuple[Path, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    attack_images = module.attack_images

    def counted(model: Any, samples: Any, *others: Any) -> Any:
        asked.append(len(list(samples)))
        return attack_images(model, samples, *others)

    monkeypatch.setattr(module, "attack_images", counted)
    more = measure(measured[0], replace(FEW, attack_samples=4, attacks=("noise",), protected=("field",)))
    assert asked == [1]
    assert more.table.further is not None and more.table.further.misalignment[0].images == 4
