"""A run folder that a search finds is gone on with, and its figures taken, only if it is the run that is wanted."""

import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pixpnet.config import read_config
from pixpnet.goldilocks import find_cuts
from pixpnet.training import Run, open_run_data, train
from tests.goldilocks.material import options

CODE = """
from pathlib import Path
from torch import nn

Path(__file__).with_suffix(".imported").touch()

def build():
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU())
"""


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that appears when planted code is imported."""
    (tmp_path / "planted_code.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "planted_code.imported"
    sys.modules.pop("planted_code", None)


@pytest.mark.parametrize("finished", [False, True])
def test_a_planted_run_is_neither_called_nor_reported_as_the_candidates(
    pictures: Path, tmp_path: Path, planted: Path, finished: bool
) -> None:
    search_options = options(pictures, method="pixpnet", backbones=("small-21",), layers=("stage2",))
    search = tmp_path / "search"
    find_cuts(search_options, search)
    (folder,) = (search / "runs").iterdir()
    wanted = read_config(folder / "config.yaml")
    shutil.rmtree(folder)
    (search / "study.sqlite3").unlink()
    if finished:
        train(replace(wanted, at="stage3", read_from=None), folder)
    else:
        planted_config = replace(wanted, backbone="planted_code:build", at="", weights="none")
        Run.create(folder, planted_config, open_run_data(wanted).listed)
    result = find_cuts(search_options, search)
    assert result.evaluated[0].accuracy is None
    assert "holds another run than this search wants" in str(result.evaluated[0].error)
    assert ("at is 'stage3' there" if finished else "planted_code:build") in str(result.evaluated[0].error)
    assert not planted.exists()
    shutil.rmtree(folder)
    assert find_cuts(replace(search_options, retry_failed=True), search).evaluated[0].accuracy is not None
