"""Certainty on the command line: sets of classes, evaluation, doubt against other data, and the report's section."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pixpnet.cli import main
from pixpnet.model import PixPNet
from pixpnet.training import Run
from tests.training.conftest import Trained


@pytest.fixture
def sure(trained: Trained, tmp_path: Path) -> Path:
    """A copy of a run whose model doubts everything, and whose sets need 19 images, which it has."""
    run = Path(shutil.copytree(trained.path, tmp_path / "run"))
    model = PixPNet.load(run)
    assert model.calibration is not None
    model.calibration = replace(model.calibration, images=19, nonconformity=(0.5,) * 19, least_logit=1e6)
    Run(run).keep_calibrated(model)
    return run


def test_too_few_images_give_all_classes_and_say_so(
    trained: Trained, pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = str(pictures / "test" / "red" / "0.png")
    assert main(["predict", str(trained.path), picture, "--coverage", "0.95", "--json"]) == 0
    out, err = capsys.readouterr()
    assert sorted(json.loads(out)[0]["classes"]) == ["blue", "green", "red"]
    assert "calibrated on 9 images, and sets that cover 0.95 need 19" in err
    assert main(["predict", str(trained.path), picture, "--coverage", "95"]) == 1
    assert "between 0 and 1" in capsys.readouterr().err


def test_doubt_is_said_in_words_tables_and_json(sure: Path, pictures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = str(pictures / "test" / "red" / "0.png")
    assert main(["predict", str(sure), picture, "--coverage", "0.95"]) == 0
    out = capsys.readouterr().out
    assert "looks like nothing that the model knows" in out and "may be: " in out
    assert main(["predict", str(sure), picture, "--csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith(",yes,yes")
    assert main(["predict", str(sure), picture, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["doubt"]["raised"] is True
    assert main(["explain", str(sure), picture]) == 0
    assert capsys.readouterr().out.startswith("This looks like nothing that the model knows")


def test_doubt_against_noise_is_measured_and_in_the_report(
    sure: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    openings = (sure / "openings.jsonl").read_text()
    assert main(["doubt", str(sure), "noise", "--images", "5", "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert result["known_split"] == "test" and len(result["known_logits"]) == 12 and len(result["other_logits"]) == 5
    assert result["signs"][0]["sign"] == "largest logit" and result["warned"] == 1.0
    assert (sure / "doubt" / "doubt.png").stat().st_size > 1000
    assert main(["report", str(sure), "--examples", "0", "--out", str(tmp_path / "report.html")]) == 0
    page = (tmp_path / "report.html").read_text()
    assert 'id="trust"' in page and "noise" in page and page.count("data:image/svg+xml;base64,") == 3
    assert (sure / "openings.jsonl").read_text() == openings  # nothing was opened for it


def test_misalignment_is_in_the_report_once_this_very_model_was_measured(
    sure: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def page() -> str:
        assert main(["report", str(sure), "--examples", "0", "--out", str(tmp_path / "report.html")]) == 0
        return (tmp_path / "report.html").read_text()

    assert "(misalignment) was not measured: <code>pixpnet measure" in page()
    few = (
        "--mappings",
        "random",
        "--samples",
        "2",
        "--prototypes",
        "1",
        "--split",
        "val",
        "--against",
        "--device",
        "cpu",
    )
    assert main(["measure", str(sure), *few, "--attacks", "pgd"]) == 0
    text = page()
    assert "On 2 validation images" in text and "that cell moved in <b>0 of 2</b>" in text
    assert "box that other papers draw" in text and "(misalignment) was not measured" not in text
    model = PixPNet.load(sure)
    model.add_on[0].bias.data[0] += 0.5
    Run(sure).keep_calibrated(model)
    assert "(misalignment) was not measured" in page()  # another model


def test_evaluate_says_how_honest_the_model_is(trained: Trained, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(trained.path), "--split", "val", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)["certainty"]
    assert table["sets"]["too_few"] and table["after"]["error"]["count"] == 9
    assert main(["evaluate", str(trained.path), "--split", "val"]) == 0
    assert "probabilities are off by" in capsys.readouterr().out
