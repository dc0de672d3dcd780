"""Pictures are drawn and a network is trained once for all tests."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from pixpnet.config import RunConfig
from pixpnet.training import Metrics, train
from tests.training.material import draw_pictures, small_config


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a data set of coloured squares."""
    return draw_pictures(tmp_path_factory.mktemp("squares") / "squares")


@dataclass(frozen=True)
class Trained:
    """A run that was carried out."""

    path: Path
    config: RunConfig
    metrics: Metrics


@pytest.fixture(scope="session")
def trained(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A finished run; look, do not touch."""
    config = small_config(pictures)
    path = tmp_path_factory.mktemp("runs") / "run"
    metrics = train(config, path)
    assert metrics is not None
    return Trained(path, config, metrics)


@pytest.fixture
def unfinished(trained: Trained, tmp_path: Path) -> Path:
    """A copy of the run to which only the figures are missing."""
    out = tmp_path / "run"
    shutil.copytree(trained.path, out)
    (out / "metrics.json").unlink()
    return out


@pytest.fixture
def run(trained: Trained, tmp_path: Path) -> Path:
    """A copy of the run to change, and to add openings to; it keeps the times of its files."""
    return Path(shutil.copytree(trained.path, tmp_path / "run"))
