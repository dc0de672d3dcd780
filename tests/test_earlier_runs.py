"""Run folders that an earlier version left are loaded, checked, evaluated, explained and trained again as ever."""

import json
import shutil
from pathlib import Path

import pytest
import torch
import yaml

from pixpnet.cli import main
from pixpnet.config import RunConfig, read_config
from pixpnet.explanation import explain, prove
from pixpnet.manifest import Manifest
from pixpnet.members.pixpnet import PixPNetConfig
from pixpnet.model import PixPNet
from pixpnet.training import Run, open_run_data
from tests.training.material import draw_pictures

EARLIER = Path(__file__).parent / "fixtures" / "earlier-run"
RUNS = sorted(path.name for path in EARLIER.iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds their data."""
    return draw_pictures(tmp_path_factory.mktemp("earlier") / "squares").parent


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest, squares: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a run, where its data are found."""
    monkeypatch.chdir(squares)
    return Path(shutil.copytree(EARLIER / request.param, tmp_path / request.param))


def test_its_configuration_is_read_as_that_of_a_pixpnet(run: Path) -> None:
    config = read_config(run / "config.yaml")
    assert config.member == "pixpnet"
    assert isinstance(config.settings, PixPNetConfig)
    written = yaml.safe_load((run / "config.yaml").read_text())
    assert config.settings.architecture.head == written["architecture"]["head"]
    assert config.settings.frame == written["frame"]
    assert (config.data, config.window) == ("folder:squares", written["window"])


def test_its_files_belong_together_and_its_model_answers(run: Path) -> None:
    Run(run).check()
    model = PixPNet.load(run)
    assert model.member == "pixpnet"
    assert model.class_names == ("blue", "green", "red")
    assert model.origins is not None
    assert {origin.grid for origin in model.origins} == {0}
    assert len(model.origins) == model.num_prototypes
    with torch.no_grad():
        assert model(torch.zeros(1, 3, 32, 32)).logits.shape == (1, 3)
    # A file of another run is still told apart.
    other = next(path for path in EARLIER.iterdir() if path.is_dir() and path.name != run.name)
    shutil.copy(other / "prototypes.json", run / "prototypes.json")
    with pytest.raises(ValueError, match=r"prototypes\.json does not belong"):
        Manifest(run).check()


def test_evaluate_finds_what_it_found_when_it_was_trained(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = json.loads((run / "metrics.json").read_text())
    for split, result in (("test", metrics["test"]), ("val", metrics["validation"])):
        assert main(["evaluate", str(run), "--split", split, "--json"]) == 0
        record = json.loads(capsys.readouterr().out)
        for key in ("accuracy", "confusion", "images", "class_accuracy", "interval"):
            assert record[key] == result[key], key
        assert record["loss"] == pytest.approx(result["loss"], rel=1e-5)


def test_its_answers_are_explained_and_proven(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = PixPNet.load(run)
    data = open_run_data(read_config(run / "config.yaml"))
    sample = data.reader(data.val[0])
    proven = prove(model, sample, explain(model, sample), draws=3)
    terms = [term for explained in proven.classes for term in explained.terms]
    assert terms
    assert all(term.proof is not None and term.proof.passed for term in terms)
    assert main(["explain", str(run), "squares/test/red/0.png"]) == 0
    assert "because" in capsys.readouterr().out or terms


def test_train_takes_its_configuration(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "again"
    short = ["--epochs", "1", "--warm-up-epochs", "0"]
    assert main(["train", "--config", str(run / "config.yaml"), *short, "--out", str(out)]) == 0
    before, again = read_config(run / "config.yaml"), read_config(out / "config.yaml")
    assert again.optimization.epochs == 1
    assert again.with_settings(optimization=before.optimization) == before
    assert yaml.safe_load((out / "config.yaml").read_text())["member"] == "pixpnet"
    assert isinstance(again, RunConfig)
