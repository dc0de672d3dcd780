"""Tables of measured runs: the band of their curves, several side by side, and back from their files."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pixpnet.metrics.ordering import Curve
from pixpnet.metrics.suite import (
    MeasureSettings,
    Table,
    compare,
    group_tables,
    measure,
    plain_table,
    read_table,
    spread,
    table_from_plain,
)
from pixpnet.metrics.suite.band import GRID, median_band, on_grid
from pixpnet.model import PixPNet
from pixpnet.training import Run

FEW = MeasureSettings(
    mappings=("field", "random"), samples=3, prototypes=2, split="val", attacks=(), dialects=(), against=()
)


def test_a_curve_that_does_not_rise_has_no_place_in_the_band() -> None:
    flat = Curve(torch.tensor([0.0, 1.0], dtype=torch.float64), torch.tensor([2.0, 2.0], dtype=torch.float64))
    assert on_grid(flat) is None
    assert median_band([], [], seed=0) is None


def test_a_band_counts_every_curve_once_and_draws_whole_samples() -> None:
    # On paper: sample a has three curves of 0, sample b one curve of 1. All a, or one of each: 0; all b: 1, in a
    # quarter of the draws. One by one, the median of four would be 1 in few of them.
    curves = [[0.0] * len(GRID)] * 3 + [[1.0] * len(GRID)]
    band = median_band(curves, ["a", "a", "a", "b"], seed=3, level=0.9)
    assert band is not None and band.low is not None and band.high is not None
    assert (band.median[5], band.low[5], band.high[5]) == (0.0, 0.0, 1.0)
    alone = median_band(curves[:3], ["a", "a", "a"], seed=3)
    assert alone is not None and alone.low is alone.high is None


@pytest.fixture
def tables(run: Path) -> Callable[..., Table]:
    table = measure(run, replace(FEW, samples=1)).table

    def changed(seed: int, epochs: int = 3, **settings: Any) -> Table:
        optimization = replace(table.config.optimization, epochs=epochs)
        return replace(
            table,
            model=f"{seed}",
            config=replace(table.config, seed=seed, num_workers=seed).with_settings(optimization=optimization),
            settings=replace(table.settings, **settings),
        )

    return changed


def test_runs_that_differ_in_the_seed_alone_are_one_group(tables: Callable[..., Table]) -> None:
    groups = group_tables([tables(0), tables(1, epochs=4), tables(2), tables(3, samples=9)])
    assert [group.seeds for group in groups] == [(0, 2), (1,), (3,)]


def test_deviation_is_that_of_a_sample_and_what_is_undefined_is_counted() -> None:
    result = spread([0.2, None, 0.4, 0.6])
    assert result is not None
    assert (result.mean, result.deviation) == (pytest.approx(0.4), pytest.approx(0.2))
    assert (result.values, result.undefined) == (3, 1)
    assert spread([None, None]) is None


def test_a_run_whose_model_was_changed_since_is_not_compared(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not measured"):
        compare([run])
    measure(run, replace(FEW, samples=1))
    assert compare([run])[0].seeds == (0,)
    with pytest.raises(ValueError, match="twice"):
        compare([run, run / "measure"])
    model = PixPNet.load(run)
    model.add_on[0].bias.data[0] += 0.5
    model.save(run / "model.safetensors")
    Run(run).manifest.settle(pictures=True)
    with pytest.raises(ValueError, match="not the one that was measured"):
        compare([run])


def test_a_table_reads_back_and_a_damaged_one_is_refused(run: Path) -> None:
    table = measure(run, replace(FEW, samples=1)).table
    assert read_table(run) == read_table(run / "measure") == table
    plain = plain_table(table)
    plain["mean_field"] = "large"
    (run / "measure" / "table.json").write_text(json.dumps(plain))
    with pytest.raises(ValueError, match="mean_field"):
        read_table(run)


def test_a_table_of_an_earlier_version_reads_back(run: Path) -> None:
    table = measure(run, replace(FEW, samples=1)).table
    plain = plain_table(table)
    assert plain["config"].pop("member") == "pixpnet"
    (run / "measure" / "table.json").write_text(json.dumps(plain))
    assert read_table(run) == table
    assert read_table(run).config.settings == table.config.settings


def test_tables_hold_the_settings_of_the_member(run: Path) -> None:
    table = measure(run, replace(FEW, samples=1)).table
    other = table.config.with_settings(architecture=replace(table.config.settings.architecture, epsilon=0.5))
    assert table_from_plain(plain_table(replace(table, config=other))).config == other != table.config
