"""`pixpnet report` on a finished run."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import pixpnet as px
from pixpnet.cli import main
from pixpnet.config import RunConfig, config_text
from pixpnet.data import preprocess
from pixpnet.explanation import explain
from pixpnet.model import PixPNet
from pixpnet.model.file import prototypes_listing
from pixpnet.training import Run, train
from pixpnet.training.confusion import ConfusionTable
from pixpnet.training.evaluation import evaluation_of
from pixpnet.views import page
from pixpnet.views.report import hardest_classes
from pixpnet.views.reporting import explained
from tests.explanation.toys import as_sample, photo, real
from tests.views.test_pages import Tags, assert_self_contained


@pytest.fixture
def run(run_folder: Path, tmp_path: Path) -> Path:
    """A copy of the run, to which openings may be added."""
    return Path(shutil.copytree(run_folder, tmp_path / "run"))


def openings(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "openings.jsonl").read_text().splitlines()]


def test_the_report_is_one_file_that_needs_no_other(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run), "--examples", "2"]) == 0
    output = capsys.readouterr().out
    page = (run / "report.html").read_text()
    assert (run / "report.html").resolve().as_uri() in output
    assert_self_contained(page)
    assert not [path for path in run.iterdir() if path.name.endswith(".part")]


def test_the_report_shows_what_the_run_found(run: Path) -> None:
    assert main(["report", str(run), "--examples", "1"]) == 0
    text = Tags((run / "report.html").read_text()).text
    metrics = json.loads((run / "metrics.json").read_text())
    accuracy = metrics["test"]["accuracy"]
    assert (f"{100 * accuracy:.3g}\xa0%" if accuracy < 1 else "100\xa0%") in text
    assert "The test split was opened once" in text
    assert "<b>green&amp;" in text
    for line in (run / "config.yaml").read_text().splitlines():
        assert line in text
    for origin in json.loads((run / "prototypes.json").read_text()):
        assert origin["image"] in text
    assert [sum(row) for row in metrics["test"]["confusion"]] == [4, 4, 4]
    assert "Of the 12 test images" in text
    assert (
        f"Kept: epoch {metrics['chosen_epoch']} of {metrics['epochs']}, the last epoch whose validation accuracy after "
        "replacement is within one standard error of the best so far."
    ) in text


def test_validation_images_are_shown_without_opening_the_test_split(run: Path) -> None:
    before = openings(run)
    assert main(["report", str(run), "--examples", "1"]) == 0
    assert openings(run) == before


def test_test_images_are_shown_on_record(run: Path) -> None:
    before = openings(run)
    assert main(["report", str(run), "--examples", "1", "--split", "test"]) == 0
    after = openings(run)
    assert len(after) == len(before) + 1
    assert "report" in str(after[-1]["reason"])
    assert "opened 2 times" in Tags((run / "report.html").read_text()).text


def test_pictures_that_are_given_are_explained_instead(run: Path, pictures: Path, tmp_path: Path) -> None:
    picture = tmp_path / "a <i>strange & name.png"
    shutil.copy(pictures / "test" / "red" / "0.png", picture)
    out = tmp_path / "new" / "page.html"
    assert main(["report", str(run), "--images", str(picture), "--out", str(out)]) == 0
    text = Tags(out.read_text()).text
    assert "Images asked about" in text
    assert str(picture) in text
    assert "Right answers" not in text


def test_without_its_data_set_a_report_still_has_the_rest(
    run: Path, config: RunConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    Run(run).write("config.yaml", config_text(replace(config, data="folder:/nowhere/at all")))
    assert main(["report", str(run)]) == 0
    assert "not at hand" in capsys.readouterr().err
    text = Tags((run / "report.html").read_text()).text
    assert "not at hand" in text
    assert "Prototypes" in text and "Confusion" in text


def test_a_run_that_is_not_finished_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "metrics.json").unlink()
    assert main(["report", str(run)]) == 1
    assert "--resume" in capsys.readouterr().err
    assert not (run / "report.html").exists()


def test_a_picture_that_cannot_be_read_is_said(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.png").write_bytes(b"no picture")
    assert main(["report", str(run), "--images", str(tmp_path / "broken.png")]) == 1
    assert "broken.png" in capsys.readouterr().err


def test_a_run_that_was_never_judged_on_test_says_so(config: RunConfig, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(replace(config, evaluate_on_test=False), run)
    assert main(["report", str(run), "--examples", "0"]) == 0
    text = Tags((run / "report.html").read_text()).text
    assert "The test split was never opened" in text
    assert "accuracy on validation images" in text


def test_beside_a_wrong_answer_stands_the_right_one_and_not_the_runner_up() -> None:
    model = real()
    sample = preprocess(as_sample(photo()), model.preprocessing)
    logits = dict(zip(model.class_names, explain(model, sample).logits, strict=True))
    first, second, last = sorted(logits, key=lambda name: -logits[name])
    for truth, beside in ((last, last), (first, second), (None, second)):
        (example,) = explained(model, [(sample, truth)], seed=0, progress=lambda task, done, total: None)
        assert [class_explanation.class_name for class_explanation in example.explanation.classes] == [first, beside]


def test_prototypes_that_are_no_patches_are_not_called_parts_of_training_images(run: Path) -> None:
    model = PixPNet.load(run)
    model.origins = None
    model.save(run / "model.safetensors")
    (run / "prototypes.json").write_text(prototypes_listing(model))
    Run(run).manifest.settle(pictures=True)
    assert main(["report", str(run), "--examples", "1"]) == 0
    text = Tags((run / "report.html").read_text()).text
    assert "Each is a part of a training image" not in text
    assert text.count("are not patches of training images") == 1


def test_a_file_is_no_run_folder(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run / "model.safetensors"), "--out", str(run / "x.html")]) == 1
    assert "no folder of a run" in capsys.readouterr().err


def test_a_report_is_a_library_call_that_prints_and_opens_nothing(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = openings(run)
    asked: list[str] = []
    page = px.report(run, examples=1, progress=lambda task, done, total: asked.append(task))
    assert capsys.readouterr() == ("", "")
    assert openings(run) == before
    assert not (run / "report.html").exists()
    assert_self_contained(page.html)
    assert page.notes == ()
    assert "explaining and proving" in asked
    assert page.write(run / "new" / "page.html") == len((run / "new" / "page.html").read_bytes())


def test_the_confusion_and_the_mistakes_are_those_of_the_test_split(run: Path) -> None:
    result = Run(run)
    lines = result.read_answers()
    assert lines is not None
    names = sorted({line.truth for line in lines})
    right = [replace(line, best=(line.truth, names[0]), scores=(2.0, 1.0)) for line in lines]
    number = next(index for index, line in enumerate(right) if (line.split, line.truth) == ("test", names[1]))
    wrong = replace(right[number], best=(names[2], names[1]), scores=(4.25, 1.5))
    result.write_answers([*right[:number], wrong, *right[number + 1 :]])
    result.manifest.settle(pictures=True)
    text = Tags(px.report(run, examples=0).html).text
    assert "Of the 12 test images, 91.7\xa0%" in text  # 11 of 12
    assert "All 1 wrong answers" in text
    mistakes = text[text.index("Mistakes, image by image") :]
    assert wrong.file in mistakes
    assert f"{names[2]} 4.25, {names[1]} 1.50" in mistakes


def test_the_report_of_a_run_without_answers_has_the_figures_that_it_kept(run: Path) -> None:
    (run / "answers.csv").unlink()
    Run(run).manifest.settle(pictures=True)
    text = Tags(px.report(run, examples=0).html).text
    assert "Of the 12 test images" in text
    assert "Mistakes, image by image" not in text


def test_of_many_classes_the_report_shows_those_that_it_knows_least_and_folds_the_rest(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = Run(run)
    lines = result.read_answers()
    assert lines is not None
    names = sorted({line.truth for line in lines})
    # The second class is always wrong, the others always right.
    result.write_answers(
        [replace(line, best=(names[2] if line.truth == names[1] else line.truth,), scores=(1.0,)) for line in lines]
    )
    result.manifest.settle(pictures=True)
    monkeypatch.setattr(page, "_FEW_CLASSES", 2)
    monkeypatch.setattr(page, "_HARDEST", 1)
    text = Tags(px.report(run, examples=0).html).text
    shown, folded = text[text.index("Accuracy of each class") :].split("All 3 classes")
    assert "The 1 class that it knows least" in shown
    assert names[1] in shown and "0\xa0%" in shown and names[0] not in shown and names[2] not in shown
    assert all(name in folded for name in names)


def test_the_hardest_classes_come_lowest_first_and_those_without_images_not_at_all() -> None:
    evaluation = evaluation_of(ConfusionTable.of_rows([[1, 1, 0, 0], [0, 2, 0, 0], [0, 0, 0, 0], [3, 0, 0, 1]]), 1.0)
    assert hardest_classes(evaluation, 9) == (3, 0, 1)
    assert hardest_classes(evaluation, 2) == (3, 0)
