"""The suite: the same as its parts, whether it was stopped or not; and runs side by side."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pixpnet import zoo
from pixpnet.commands.measured_text import table_text
from pixpnet.data import Preprocessing
from pixpnet.data.loader import PlainSamples
from pixpnet.mapping import MAPPINGS
from pixpnet.mapping.relevance.errors import UnsupportedRelevance
from pixpnet.members.pixpnet import Architecture
from pixpnet.metrics.bootstrap import Estimate
from pixpnet.metrics.health import prototype_health
from pixpnet.metrics.ordering import STATED_ERROR, relevance_ordering
from pixpnet.metrics.part_scores import PartScores
from pixpnet.metrics.suite import (
    ClassDraw,
    MeasureSettings,
    measure,
    read_table,
)
from pixpnet.metrics.suite import measuring as suite
from pixpnet.metrics.suite.placing import MeasuredPlaces
from pixpnet.metrics.suite.result_store import ResultStore
from pixpnet.model import Backbone, PixPNet
from pixpnet.training import Run, open_data_of, open_run_data
from pixpnet.windows import Windows
from tests.training.conftest import Trained
from tests.views.test_curve_figure import HEALTH, PLACES, SIZES

FEW = MeasureSettings(
    mappings=("field", "random"), samples=3, prototypes=2, split="val", attacks=(), dialects=(), against=()
)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The samples for which something was computed, one for each mapping."""
    made: list[str] = []
    order_sample = suite.order_sample

    def counted(curves: Any, sample: Any, *others: Any) -> Any:
        made.append(sample.id)
        return order_sample(curves, sample, *others)

    monkeypatch.setattr(suite, "order_sample", counted)
    return made


def stop_after(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    order_sample, done = suite.order_sample, iter(range(count))

    def stopping(*words: Any) -> Any:
        if next(done, None) is None:
            raise KeyboardInterrupt
        return order_sample(*words)

    monkeypatch.setattr(suite, "order_sample", stopping)


def test_the_table_says_what_the_ordering_test_says_about_the_same_draws(run: Path, trained: Trained) -> None:
    table = measure(run, FEW).table
    model, data = PixPNet.load(run), open_run_data(trained.config)
    samples = PlainSamples(data.val, data.reader, model.preprocessing)
    for row in table.rows:
        direct = relevance_ordering(model, samples, MAPPINGS[row.mapping], sample_count=3, prototypes_per_sample=2)
        assert (row.area, row.recovery, row.undefined) == (direct.area, direct.recovery, direct.undefined)
        assert row.pairs == len(direct.pairs) == 6
        assert row.curve is not None
        assert row.curve.median[-1] == pytest.approx(1)
        assert row.curve.median[0] == 0
    assert table.accuracy.share == trained.metrics.validation.accuracy
    assert table.mean_field == trained.metrics.mean_field
    assert table.samples == 3


@pytest.mark.parametrize("done", [0, 1, 3, 5])
def test_stopped_and_gone_on_is_the_same_as_not_stopped(run: Path, tmp_path: Path, calls: list[str], done: int) -> None:
    whole = measure(run, FEW, out=tmp_path / "whole").table
    assert len(calls) == 6
    with pytest.MonkeyPatch.context() as patch:
        stop_after(done, patch)
        with pytest.raises(KeyboardInterrupt):
            measure(run, FEW)
    assert not (run / "measure" / "table.json").exists()
    calls.clear()
    assert measure(run, FEW).table == whole
    assert len(calls) == 6 - done
    calls.clear()
    assert measure(run, FEW).table == read_table(run) == whole
    assert calls == []


def test_a_line_that_was_cut_off_is_measured_again(run: Path, calls: list[str]) -> None:
    measured = measure(run, FEW)
    text = measured.results.read_text()
    # In the middle of the last curve; health, which comes behind it, is gone as well.
    measured.results.write_text(text[: text.rfind('{"key": ["ordering"') + 20])
    calls.clear()
    assert measure(run, FEW).table == measured.table
    assert len(calls) == 1
    assert measured.results.read_text() == text


def test_more_samples_and_mappings_reuse_what_is_there(run: Path, calls: list[str]) -> None:
    first = measure(run, FEW)
    calls.clear()
    more = measure(run, replace(FEW, samples=4, mappings=("field", "random", "upsampling")))
    assert more.results == first.results
    assert len(calls) == 4 + 2  # upsampling for all four, the two others for the new one
    assert [row.pairs for row in more.table.rows] == [8, 8, 8]


@pytest.mark.parametrize("change", [{"seed": 1}, {"prototypes": 1}])
def test_another_way_of_measuring_is_kept_apart(run: Path, change: dict[str, Any]) -> None:
    small = replace(FEW, samples=1, mappings=("random",))
    assert measure(run, small).results != measure(run, replace(small, **change)).results


def test_another_model_is_kept_apart(run: Path, calls: list[str]) -> None:
    first = measure(run, FEW)
    model = PixPNet.load(run)
    model.add_on[0].bias.data[0] += 0.5
    model.save(run / "model.safetensors")
    Run(run).manifest.settle(pictures=True)
    calls.clear()
    second = measure(run, FEW)
    assert first.results != second.results
    assert first.table.model != second.table.model
    assert len(calls) == 6


def test_two_processes_do_not_write_to_one_file(tmp_path: Path) -> None:
    with (
        ResultStore(tmp_path, {"a": 1}),
        pytest.raises(ValueError, match="another process"),
        ResultStore(tmp_path, {"a": 1}),
    ):
        pass
    with ResultStore(tmp_path, {"a": 2}), ResultStore(tmp_path, {"a": 1}):
        pass


def test_damaged_results_are_refused(run: Path) -> None:
    measured = measure(run, FEW)
    first, second, *others = measured.results.read_bytes().splitlines()
    result = json.loads(second)
    pair = result["value"]["pairs"][0]
    hostile = {
        "not a result": b"{}",
        "not a list": b'{"key": 3, "value": 1}',
        "not text": b"\xff\xfe",
        "too deep": b"[" * 100_000,
        "no number": json.dumps(
            {**result, "value": {**result["value"], "pairs": [{**pair, "area": float("nan")}]}}
        ).encode(),
        "short curve": json.dumps({**result, "value": {**result["value"], "pairs": [{**pair, "curve": [0]}]}}).encode(),
    }
    for name, line in hostile.items():
        measured.results.write_bytes(b"\n".join([first, line, *others]) + b"\n")
        with pytest.raises(ValueError, match=r"is damaged.*delete it"):
            measure(run, FEW)
        assert measured.results.read_bytes().splitlines()[1] == line, name
    measured.results.write_bytes(b"\n".join([second, *others]) + b"\n")
    with pytest.raises(ValueError, match=r"first line.*delete it"):
        measure(run, FEW)


def test_health_is_measured_on_validation_images_and_kept(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(FEW, samples=1, mappings=("random",), split="test")
    table = measure(run, settings).table
    model, data = PixPNet.load(run), open_run_data(Run(run).config)
    assert table.health == prototype_health(model, data, run=Run(run))
    assert (table.health.deciding.split, table.health.deciding.images) == ("val", 9)
    monkeypatch.setattr(suite, "prototype_health", None)  # not asked for again
    assert measure(run, settings).table == table


def test_places_are_measured_on_the_split_and_kept(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(FEW, samples=1, mappings=("random",), split="test")
    table = measure(run, settings).table
    assert (table.places.answers.images, table.places.distinctiveness.images) == (12, 12)
    assert table.places.answers.distinct_cells.estimate is not None
    # This data set knows neither parts nor objects.
    assert table.places.purity is table.places.prototypes is None
    assert table.places.answers.object_known_by == "nothing"
    monkeypatch.setattr(PixPNet, "embed", None)  # no further forward pass
    assert measure(run, settings).table == table


def test_what_stepped_curves_may_be_off_by_is_said_of_stepped_curves_alone(run: Path) -> None:
    settings = replace(FEW, samples=1, prototypes=1, mappings=("random",))
    assert measure(run, settings).table.stated_error == STATED_ERROR
    assert measure(run, replace(settings, method="exact")).table.stated_error is None


def test_test_images_are_opened_on_record_and_validation_images_are_not(run: Path) -> None:
    measure(run, FEW)
    assert len(Run(run).read_openings()) == 1
    table = measure(run, replace(FEW, split="test")).table
    _, opening = Run(run).read_openings()
    assert opening.reason == "pixpnet measure: field, random on 3 samples"
    assert opening.model == table.model
    assert table.accuracy.images == 12


def test_a_run_that_is_not_finished_is_refused(run: Path) -> None:
    (run / "metrics.json").unlink()
    with pytest.raises(ValueError, match="not finished"):
        measure(run)
    assert len(Run(run).read_openings()) == 1


def test_accuracy_on_test_is_judged_where_training_did_not(run: Path, trained: Trained) -> None:
    metrics = json.loads((run / "metrics.json").read_text())
    metrics["test"] = None
    Run(run).write("metrics.json", json.dumps(metrics))
    assert trained.metrics.test is not None
    for _ in range(2):
        table = measure(run, replace(FEW, split="test", samples=1)).table
        assert table.accuracy.share == trained.metrics.test.accuracy


def test_without_parts_there_is_no_consistency_and_the_reason_is_said(run: Path) -> None:
    for row in measure(run, FEW).table.rows:
        assert row.window is row.claimed is None
        assert "no annotated parts" in row.notes[0]


def test_a_mapping_that_cannot_be_made_leaves_the_others_measured(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(scene: object) -> None:
        raise UnsupportedRelevance("no rule for aten.foo")

    monkeypatch.setattr(suite, "MAPPINGS", {**MAPPINGS, "prp": refuses})
    field, prp = measure(run, replace(FEW, mappings=("field", "prp"))).table.rows
    assert field.pairs == 6
    assert (prp.pairs, prp.area, prp.recovery, prp.curve) == (0, None, None, None)
    assert "no rule for aten.foo" in prp.notes[0]


def test_parts_are_scored_on_the_drawn_images_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int, int]] = []

    often = Estimate(0.5, 0.25, 0.75, 6, 3)

    def scored(
        model: Any, samples: Any, parts: Any, mapping: str, regions: Any, **options: Any
    ) -> tuple[PartScores, ...]:
        asked.append((mapping, len(samples), options["window_side"]))
        window = PartScores(
            consistency=often,
            soft_consistency=replace(often, mean=0.6),
            stability=None,
            soft_stability=None,
            undefined=2,
            prototypes=(),
            class_images=(3, 0, 0),
            mapping=mapping,
            region=regions[0],
            window_side=10,
            threshold=0.8,
            noise=0.2,
            clipped=False,
            seed=0,
        )
        assert regions == ("window", "claimed")
        return window, replace(window, consistency=replace(often, mean=0.7))

    def with_parts(*words: Any) -> Any:
        return replace(open_data_of(*words[:2]), point_parts=(0, 1), part_names=("beak", "tail"))

    monkeypatch.setattr(suite, "scores_by_region", scored)
    monkeypatch.setattr(suite, "prototype_health", lambda *_, **__: HEALTH)
    monkeypatch.setattr(suite, "measure_places", lambda *_: MeasuredPlaces(PLACES, SIZES))
    monkeypatch.setattr(Run, "data", with_parts)
    options = replace(FEW, samples=1, part_samples=5, mappings=("field", "prp"))
    for _ in range(2):
        table = measure(run, options).table
        field, prp = table.rows
        assert field.window is not None and field.claimed is not None
        assert field.window.consistency == often
        assert field.window.soft_consistency is not None and field.window.soft_consistency.mean == 0.6
        assert field.claimed.consistency is not None and field.claimed.consistency.mean == 0.7
        assert (field.window.stability, field.window.undefined) == (None, 2)
        assert prp.window is prp.claimed is None
        assert "no region of its own" in prp.notes[0]
        # Three classes of three validation images each: with 5 images wanted, one whole class.
        assert table.part_draw == ClassDraw(classes=1, images=3, fewest=3, median=3.0, few=1)
    assert asked == [("field", 3, 10)]  # 72 x 32 / 224
    table = measure(run, replace(options, part_samples=None)).table
    assert asked[1:] == [("field", 9, 10)]
    assert table.part_draw == ClassDraw(classes=3, images=9, fewest=3, median=3.0, few=3)


def test_parts_alone_need_no_ordering_health_or_places(
    run: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("not asked for")

    monkeypatch.setattr(suite, "prototype_health", refused)
    monkeypatch.setattr(suite, "measure_places", refused)
    table = measure(run, MeasureSettings(mappings=("field",), split="val", parts_only=True)).table
    assert calls == []
    assert (table.samples, table.health, table.places, table.stated_error) == (0, None, None, None)
    assert read_table(run) == table
    assert "were not measured" in table_text(table) and "AUSC, %2R: 0" not in table_text(table)
    with pytest.raises(ValueError, match="no samples for it, got 3"):
        MeasureSettings(samples=3, parts_only=True)


def test_fewer_samples_are_drawn_by_default_where_passes_are_long(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def network(windows: Windows | None) -> PixPNet:
        backbone = Backbone(zoo.build("small-21"), "", (64, 64), (), windows)
        return PixPNet(backbone, Architecture(dim=4), ("jay", "wren"), Preprocessing().scaled_to(64))

    assert [suite.default_samples(network(windows)) for windows in (None, Windows(24, 12))] == [50, 10]
    monkeypatch.setattr(suite, "default_samples", lambda model: 2)
    monkeypatch.setattr(suite, "prototype_health", lambda *_, **__: HEALTH)
    monkeypatch.setattr(suite, "measure_places", lambda *_: MeasuredPlaces(PLACES, SIZES))
    table = measure(run, replace(FEW, samples=None, mappings=("random",), prototypes=1)).table
    assert (table.samples, table.settings.samples) == (2, 2)


@pytest.mark.parametrize(
    "change", [{"mappings": ("feeld",)}, {"mappings": ()}, {"mappings": ("field", "field")}, {"samples": 0}]
)
def test_impossible_settings_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"mapping|at least"):
        MeasureSettings(**change)
