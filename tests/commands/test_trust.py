"""Certainty on the command line: sets of classes, evaluation, doubt against other data, and the report's section."""

import csv
import io
import json
import shutil
from dataclasses import fields, replace
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.torch import save_file

from pixpnet.cli import main
from pixpnet.metrics import doubt_of_run
from pixpnet.metrics.certainty import FITTED_TO_THESE
from pixpnet.metrics.doubt_of_run import read_doubt
from pixpnet.model import PixPNet
from pixpnet.training import Run
from pixpnet.training.kept_scores import SplitScores, read_scores, write_scores
from tests.training.conftest import Trained


@pytest.fixture
def sure(trained: Trained, tmp_path: Path) -> Path:
    """A copy of a run whose model doubts everything, and whose sets need 19 images, which it has."""
    run = Path(shutil.copytree(trained.path, tmp_path / "run"))
    limited(run, 1e6, None)
    return run


def limited(run: Path, least_logit: float, least_score: float | None) -> None:
    """Gives a run's model other limits of doubt."""
    model = PixPNet.load(run)
    assert model.calibration is not None
    model.calibration = replace(
        model.calibration, images=19, nonconformity=(0.5,) * 19, least_logit=least_logit, least_score=least_score
    )
    Run(run).keep_calibrated(model)


LITTLE_EVIDENCE = "no class gets as much evidence"
NO_MATCH = "no part matches a prototype as well"


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
    assert capsys.readouterr().out.splitlines()[1].endswith(",yes,yes,logit")
    assert main(["predict", str(sure), picture, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["doubt"]["raised"] is True
    assert main(["explain", str(sure), picture]) == 0
    assert capsys.readouterr().out.startswith("This looks like nothing that the model knows")


@pytest.mark.parametrize(
    ("limits", "rare"),
    # Every score is above 0, and so above the last limit; one that nobody measured is not.
    [((1e6, -1e6), ["logit"]), ((-1e6, 1e6), ["score"]), ((1e6, 1e6), ["logit", "score"]), ((-1e6, 1e-9), [])],
)
def test_the_warning_says_which_sign_is_rare(
    sure: Path,
    pictures: Path,
    limits: tuple[float, float],
    rare: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    limited(sure, *limits)
    picture = str(pictures / "test" / "red" / "0.png")

    def printed(*arguments: str) -> str:
        assert main([arguments[0], str(sure), *arguments[1:]]) == 0
        return " ".join(capsys.readouterr().out.split())

    for text in (printed("predict", picture), printed("explain", picture), printed("explain", picture, "--all")):
        assert (LITTLE_EVIDENCE in text, NO_MATCH in text) == ("logit" in rare, "score" in rare)
        assert ("as in 95 % of validation images" in text) == bool(rare) == ("is not to be trusted" in text)
    (line,) = list(csv.DictReader(io.StringIO(printed_table(sure, picture, capsys))))
    assert (line["doubt"], line["rare"]) == ("yes" if rare else "no", ";".join(rare))
    (record,) = json.loads(printed("predict", picture, "--json"))
    assert record["doubt"]["rare"] == rare and record["doubt"]["raised"] == bool(rare)
    assert (record["doubt"]["least_logit"], record["doubt"]["least_score"]) == limits
    (result,) = json.loads(printed("doubt", "noise", "--images", "5", "--json"))
    assert result["warned"] == float(bool(rare)) and (result["limit"], result["score_limit"]) == limits
    assert len(result["known_scores"]) == 12 and len(result["other_scores"]) == 5
    assert "largest score below" in printed("doubt", "noise", "--images", "5")
    # Of validation images, too, whose scores are measured on the way, and not read.
    table = json.loads(printed("evaluate", "--split", "val", "--json"))["certainty"]
    assert table["warned"] == float(bool(rare))
    assert main(["report", str(sure), "--examples", "1", "--out", str(tmp_path / "report.html")]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "or no part matches a prototype well enough (largest score below" in page
    assert (NO_MATCH in page, LITTLE_EVIDENCE in page) == ("score" in rare, "logit" in rare)


def printed_table(run: Path, picture: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["predict", str(run), picture, "--csv"]) == 0
    return capsys.readouterr().out


def test_a_file_of_an_earlier_version_has_one_limit_opens_and_warns_by_it(
    sure: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with safe_open(sure / "model.safetensors", framework="pt") as opened:
        card = json.loads(opened.metadata()["pixpnet"])
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    card["calibration"].pop("least_score", None)
    save_file(tensors, tmp_path / "old.safetensors", {"pixpnet": json.dumps(card)})
    picture = str(pictures / "test" / "red" / "0.png")
    assert main(["predict", str(tmp_path / "old.safetensors"), picture]) == 0
    assert LITTLE_EVIDENCE in capsys.readouterr().out
    model = PixPNet.load(tmp_path / "old.safetensors")
    assert model.calibration is not None and model.calibration.least_score is None
    model.save(tmp_path / "again.safetensors")
    assert PixPNet.load(tmp_path / "again.safetensors").calibration == model.calibration


def test_results_of_an_earlier_version_are_still_drawn(sure: Path, tmp_path: Path) -> None:
    assert main(["doubt", str(sure), "noise", "--images", "5"]) == 0
    path = sure / "doubt" / "doubt.json"
    plain = json.loads(path.read_text())
    later = {"score_limit", "known_scores", "other_scores", "warned_interval"}
    path.write_text(json.dumps([{key: value for key, value in one.items() if key not in later} for one in plain]))
    assert main(["report", str(sure), "--examples", "0", "--out", str(tmp_path / "report.html")]) == 0
    assert "limits below which the model warns" in (tmp_path / "report.html").read_text()


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
    assert len(read_doubt(sure)) == 1
    limited(sure, 1e3, None)  # a calibration has limits of its own, so what was warned of by others is not shown
    assert read_doubt(sure) == ()


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
    said = capsys.readouterr().out
    assert "probabilities are off by" in said and "an honest model shows" in said
    assert table["own_images"] and FITTED_TO_THESE in said  # nine validation images, and no folds


def kept(run: Path, splits: dict[str, slice]) -> None:
    """Leaves scores of some images of some splits alone."""
    scores = read_scores(Run(run))
    parts = {
        name: SplitScores(*(getattr(scores[name], part.name)[chosen] for part in fields(SplitScores)))
        for name, chosen in splits.items()
    }
    write_scores(Run(run), parts)


def test_one_test_image_is_enough_for_a_report_and_says_nothing_of_an_interval(sure: Path, tmp_path: Path) -> None:
    kept(sure, {"val": slice(None), "test": slice(1)})
    assert main(["report", str(sure), "--examples", "0", "--out", str(tmp_path / "report.html")]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "On 1 test images, stated probabilities are off by" in page and "% (an honest model shows" in page
    assert "calibrated on these very images" not in page


def test_the_report_says_that_figures_are_of_the_images_of_the_calibration(sure: Path, tmp_path: Path) -> None:
    kept(sure, {"val": slice(None)})
    assert main(["report", str(sure), "--examples", "0", "--out", str(tmp_path / "report.html")]) == 0
    assert FITTED_TO_THESE in (tmp_path / "report.html").read_text()


def test_each_result_of_doubt_is_kept_at_once_and_unknown_data_are_named_first(
    sure: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doubt", str(sure), "noise", "folder:nowhere", "--images", "5"]) == 1
    assert "nowhere" in capsys.readouterr().err and read_doubt(sure) == ()

    def stopped(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(doubt_of_run, "_drawn", stopped)
    assert main(["doubt", str(sure), "noise", f"folder:{pictures}", "--images", "5"]) == 130
    (result,) = read_doubt(sure)
    assert result.against == "noise" and result.warned == 1.0
    assert result.warned_interval is not None and 0.4 < result.warned_interval.low < 1 == result.warned_interval.high
