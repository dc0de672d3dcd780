"""`pixpnet audit`, `measure` and `compare` as a person meets them."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pixpnet.cli import main
from pixpnet.commands.measured_text import health_lines, row_cells, table_text
from pixpnet.commands.places_text import places_lines
from pixpnet.metrics import AnswerPlaces, Distinctiveness, Purity, PurityFigures
from pixpnet.metrics.bootstrap import DefinedMean, Estimate
from pixpnet.metrics.health import (
    Background,
    ClassCoverage,
    Coverage,
    Deciding,
    Duplicates,
    PrototypeHealth,
    ReplacementCost,
    Twins,
)
from pixpnet.metrics.origin_places import PrototypePlaces
from pixpnet.metrics.suite import ClassDraw, MappingRow, PartFigures, Places, plain_table, read_table, table_from_plain
from pixpnet.metrics.suite import measuring as suite
from pixpnet.model import PixPNet
from pixpnet.model.file import prototypes_listing
from pixpnet.training import Run
from tests.training.conftest import Trained

DRAW = ClassDraw(classes=3, images=36, fewest=11, median=12.0, few=0)
FEW = ("--mappings", "field", "random", "--samples", "2", "--prototypes", "1", "--split", "val", "--device", "cpu")


@pytest.fixture
def run(trained: Trained, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained.path, tmp_path / "run"))


def tamper(run: Path) -> None:
    model = PixPNet.load(run)
    model.prototypes.data[0, 0] += 0.1
    model.save(run / "model.safetensors")
    (run / "prototypes.json").write_text(prototypes_listing(model))
    Run(run).manifest.settle(pictures=True)  # as if the run had left it so


def audit(run: Path, *words: str) -> int:
    # The cells of this small network see 29 % of its small images.
    threshold = () if "--threshold" in words else ("--threshold", "0.6")
    return main(["audit", str(run), "--pixels", "2", "--device", "cpu", *threshold, *words])


def test_an_honest_run_has_its_row_and_exit_code_0(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(run) == 0
    output = capsys.readouterr()
    head, row = output.out.splitlines()[:2]
    assert head.split()[:4] == ["BBox", "D1", "D2", "D3"]
    # Not cropped to boxes, which is no failure and does not look like one.
    assert row.split()[:5] == ["no", "✓", "✓", "✓", "small-21"]
    assert "✗" not in output.out.replace("✗ does not hold", "")
    assert output.err == ""


def test_a_claim_that_fails_is_exit_code_3(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(run, "--threshold", "0.01") == 3
    out = capsys.readouterr().out
    assert out.splitlines()[1].split()[:4] == ["no", "✓", "✗", "✓"]
    assert "✗ a cell sees at most 1 % of the image on average" in out
    assert "✗ the region that wins covers at most 1 % of the image on average" in out
    tamper(run)
    assert audit(run) == 3
    assert "1 of 6 fail: prototype 0 differs by 0.1" in capsys.readouterr().out


def test_a_data_set_that_is_not_at_hand_is_exit_code_4(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (run / "config.yaml").read_text()
    Run(run).write("config.yaml", text.replace("folder:", "folder:/nowhere"))
    assert audit(run, "--json") == 4
    output = capsys.readouterr()
    record = json.loads(output.out)
    assert record["verdict"] == "not checked"
    assert record["verdicts"]["localization"] == "not checked"  # which cells win is seen on images
    assert (record["row"]["D1"], record["row"]["D2"], record["row"]["D3"]) == ("?", "?", "✓")
    assert "not at hand" in output.err


def test_a_column_without_a_line_in_the_legend_is_a_riddle(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    audit(run)
    head, _, *rest = capsys.readouterr().out.splitlines()
    legend = "\n".join(rest[: rest.index("D1  prototypes are image patches: holds")])
    for column in re.split(r"\s{2,}", head):
        assert column.removesuffix(" +").removesuffix(" ±") in legend, column
    assert main(["measure", str(run), *FEW]) == 0
    lines = capsys.readouterr().out.splitlines()
    explained = [line.split()[0] for line in lines[lines.index("", 3) :] if line and not line.startswith(" ")]
    for column in lines[2].split():
        assert column in explained, column


def test_what_is_no_run_is_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(tmp_path) == 1
    assert "a finished run?" in capsys.readouterr().err


def test_measure_prints_a_table_draws_curves_and_compare_reads_them(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["measure", str(run), *FEW]) == 0
    output = capsys.readouterr()
    lines = output.out.splitlines()
    assert lines[0].startswith("small-21 on ")
    assert lines[2].split() == ["mapping", "S_con", "S_sta", "AUSC", "%2R", "undefined"]
    assert lines[3].split()[:3] == ["field", "–", "–"]
    assert "nan" not in output.out.lower()
    with Image.open(run / "measure" / "curves.png") as picture:
        assert picture.size == (1999, 1125)
    assert main(["measure", str(run), *FEW, "--json"]) == 0
    assert table_from_plain(json.loads(capsys.readouterr().out)) == read_table(run)
    assert main(["compare", str(run)]) == 0
    family, measured = capsys.readouterr().out.split("run       seeds")
    assert family.splitlines()[1].split()[:2] == ["PixPNet", "no"]
    assert measured.splitlines()[1].split()[:2] == ["small-21", "0"]
    assert measured.splitlines()[2].split()[0] == "random"
    assert len(Run(run).read_openings()) == 1


def test_ctrl_c_keeps_what_is_there_and_says_how_to_go_on(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    order_sample, left = suite.order_sample, [1, 2]

    def stopped(*words: Any) -> Any:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return order_sample(*words)

    out = tmp_path / "kept here"
    with monkeypatch.context() as patch:
        patch.setattr(suite, "order_sample", stopped)
        assert main(["measure", str(run), *FEW, "--out", str(out)]) == 130
    output = capsys.readouterr()
    assert output.out == ""
    (results,) = out.glob("results-*.jsonl")
    assert len(results.read_text().splitlines()) == 1 + 2
    assert f"pixpnet measure {run}" in output.err
    assert f"--out '{out}'" in output.err
    assert main(["measure", str(run), *FEW, "--out", str(out)]) == 0
    assert len(results.read_text().splitlines()) == 1 + 4 + 3 + 8 + 1  # health, places, sizes; attacked images; doubt


def test_runs_of_several_seeds_are_one_row_with_their_deviation(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["measure", str(run), *FEW]) == 0
    table = read_table(run)
    folders = []
    for seed, accuracy in ((0, 0.5), (1, 0.7)):
        folders.append(tmp_path / f"seed{seed}")
        folders[-1].mkdir()
        changed = replace(
            table,
            model=str(seed),
            config=replace(table.config, seed=seed),
            accuracy=replace(table.accuracy, share=accuracy),
        )
        (folders[-1] / "table.json").write_text(json.dumps(plain_table(changed)))
    capsys.readouterr()
    assert main(["compare", *map(str, folders)]) == 0
    # By hand: the mean of 50 and 70 is 60, the deviation of a sample sqrt(200) = 14.1.
    output = capsys.readouterr()
    assert "60.0 ± 14.1" in output.out
    assert output.err == ""
    other = replace(table, model="2", settings=replace(table.settings, seed=5))
    (tmp_path / "table.json").write_text(json.dumps(plain_table(other)))
    assert main(["compare", "--json", str(folders[0]), str(tmp_path)]) == 0
    output = capsys.readouterr()
    assert [group["seeds"] for group in json.loads(output.out)["measured"]] == [[0], [0]]
    assert "not measured in the same way" in output.err


def test_what_is_undefined_is_a_dash_and_a_count() -> None:
    parts = PartFigures(None, None, Estimate(0.5, None, None, 1, 1), None, 4)
    row = MappingRow("field", parts, None, None, None, None, 9, 9, None, "stepped", ())
    assert row_cells(row) == ("field", "–", "50.0", "–", "–", "9 of 9 curves, 4 prototypes without parts")


def test_an_audit_shows_consistency_of_this_very_model_only(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["measure", str(run), *FEW]) == 0
    table = read_table(run)
    row = replace(table.rows[0], window=PartFigures(Estimate(0.625, None, None, 1, 1), None, None, None, 0))
    changed = replace(table, rows=(row, *table.rows[1:]), part_draw=DRAW)
    (run / "measure" / "table.json").write_text(json.dumps(plain_table(changed)))
    capsys.readouterr()
    assert audit(run, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["row"]["S_con"] == "62.5"
    # 72 x 32 / 224 = 10; figures of a handful of validation images must not pass for those of Table 1.
    assert record["parts_measured_on"] == (
        "val, 36 images of 3 classes (11 or more of each, median 12), window of 10 x 10 pixels"
    )
    tamper(run)
    assert audit(run, "--json") == 3
    assert json.loads(capsys.readouterr().out)["row"]["S_con"] == "–"


def test_an_audit_stands_without_a_table_that_cannot_be_read(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "measure").mkdir()
    (run / "measure" / "table.json").write_text("{}")
    assert audit(run, "--json") == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["row"]["S_con"] == "–"
    assert "measure the run again" in output.err


def figures(mean: float) -> PartFigures:
    spread = Estimate(mean, mean - 0.05, mean + 0.05, 6, 3)
    return PartFigures(spread, replace(spread, mean=mean + 0.01), replace(spread, mean=mean + 0.02), None, 0)


def test_soft_scores_both_regions_the_threshold_and_the_stated_error_are_shown(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["measure", str(run), *FEW]) == 0
    assert "health of 6 prototypes" in capsys.readouterr().out
    table = read_table(run)
    row = replace(table.rows[0], window=figures(0.5), claimed=figures(0.7), median_area=0.9)
    output = table_text(replace(table, rows=(replace(row, area=Estimate(1.8, 0.9, 4.0, 8, 3)),), part_draw=DRAW))
    lines = output.splitlines()
    head = next(index for index, line in enumerate(lines) if "soft S_con" in line)
    assert lines[head + 1].split()[:7] == ["field", "window", "10", "50.0", "(45.0", "to", "55.0)"]
    assert "51.0 (45.0 to 55.0)" in lines[head + 1]
    assert lines[head + 2].split()[:3] == ["exact", "field", "70.0"]
    assert "at least 80 % of the images that show it" in output
    assert "S_con, S_sta: 36 images of 3 classes (11 or more of each, median 12), in a window of 10 x 10" in output
    assert "Warning" not in output
    assert "Noise 0.2." in output
    assert "off the exact ones by up to 0.243 (AUSC) and 4.2 points (%2R)" in output
    assert "the median AUSC is 0.90" in output


def test_classes_with_few_images_are_warned_of(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["measure", str(run), *FEW]) == 0
    capsys.readouterr()
    table = read_table(run)
    row = replace(table.rows[0], window=figures(0.9), claimed=figures(0.8))
    output = table_text(replace(table, rows=(row,), part_draw=ClassDraw(3, 24, 1, 11.0, 1)))
    assert "24 images of 3 classes (1 or more of each, median 11)" in output
    assert "Warning: 1 of 3 classes have fewer than ten images, the smallest 1." in output
    alone = table_text(replace(table, rows=(row,), part_draw=ClassDraw(1, 12, 12, 12.0, 0)))
    assert "S_con, S_sta: 12 images of 1 class, in a window" in alone


def test_parts_and_places_are_said_with_their_controls() -> None:
    def share(mean: float, undefined: int = 0) -> DefinedMean:
        return DefinedMean(Estimate(mean, mean - 0.05, mean + 0.05, 20, 4), undefined)

    def pure(mean: float, count: int) -> PurityFigures:
        return PurityFigures(share(mean).estimate, 0.125, share(0.5).estimate, count, 2)

    places = Places(
        AnswerPlaces(share(3.25), 10.0, share(0.2), share(0.3), share(0.4, 7), share(0.1), "boxes", 36),
        Distinctiveness(share(0.6), share(0.8), 31, 5, 36),
        Purity(pure(0.45, 6), pure(0.55, 9), pure(0.15, 1), pure(0.25, 2), 18, 2, 0, 10, 324, 14),
        PrototypePlaces(share(0.9), share(0.35), share(0.7, 3), share(0.22), 48 / 7, "boxes"),
    )
    lines = places_lines(places, "val")
    output = {line.split("  ")[0]: line for line in lines}
    assert "45.0 (40.0 to 50.0)  15.0 (10.0 to 20.0)" in output["purity, 14 x 14 box"]
    assert output["purity, 14 x 14 box"].endswith(
        "deviation 12.5, 6 of 16 prototypes above one half (random place: 1), 2 undefined, 2 without weight left out"
    )
    assert "55.0 (50.0 to 60.0)  25.0 (20.0 to 30.0)" in output["purity, exact field"]
    assert "90.0 (85.0 to 95.0)  35.0 (30.0 to 40.0)" in output["patch middle on the object's box"]
    assert output["patch middle near a part"].endswith("within 6.9 pixels, 3 undefined")
    assert "60.0 (55.0 to 65.0)" in output["distinctiveness, 31 x 31 box"]
    assert "80.0 (75.0 to 85.0)" in output["distinctiveness, exact fields"]
    assert "3.2 (3.2 to 3.3)" in output["distinct cells of an answer"]
    assert output["distinct cells of an answer"].endswith("of 10 prototypes")
    assert output["object's box covered by them"].endswith("7 undefined")
    assert any("the 10 of 324 training images" in line for line in lines)
    assert any("36 val images" in line for line in lines)


def test_without_parts_and_boxes_the_other_places_are_still_said(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["measure", str(run), *FEW]) == 0
    output = {line.split("  ")[0]: line for line in capsys.readouterr().out.splitlines()}
    for name in ("purity", "patch middle near a part"):
        assert output[name].endswith("not measured: the data set has no parts")
    for name in ("patch middle on the object's box", "object's box covered by them"):
        assert output[name].endswith("not measured: the data set has no bounding boxes")
    assert output["distinct cells of an answer"].split()[5][0].isdigit()
    assert output["image covered by its regions"].split()[5][0].isdigit()


def test_health_is_said_with_intervals_and_what_is_undefined_is_counted() -> None:
    def share(mean: float) -> Estimate:
        return Estimate(mean, mean - 0.05, mean + 0.05, 20, 4)

    health = PrototypeHealth(
        count=20,
        background=Background(share(0.1), None, 3, "keypoints", 0.1, (4, 5)),
        duplicates=Duplicates(
            Twins(share(0.2), share(0.3), share(0.4)), Twins(None, Estimate(0.0, 0.0, 0.0, 20, 4), share(0.5)), 0.01, 0
        ),
        deciding=Deciding(share(0.6), (0,) * 20, 36, "val"),
        coverage=Coverage(share(0.75), 1, (ClassCoverage(0, (0, 1), (0, 1)), ClassCoverage(1, (0, 1), (1,)))),
        replacement=ReplacementCost(share(0.25), None),
    )
    lines = health_lines(health)
    output = {line.split("  ")[0]: line for line in lines}
    assert "10.0 (5.0 to 15.0)" in output["on background"]
    assert output["on background"].endswith("hold no part, 3 undefined")
    assert "20.0 (15.0 to 25.0)" in output["twin in its class, same image"]
    # All classes alike: drawing them again can only give the same, which is no certainty.
    assert "0.0 (alike)" in output["twin in another class, same pixels"]
    assert "60.0 (55.0 to 65.0)" in output["never decides"]
    assert output["parts covered, mean of classes"].endswith("1 classes undefined")
    assert "25.0 (20.0 to 30.0)" in output["accuracy lost at replacement, val"]
    assert "Fewest parts: class 1 covers 1 of 2." in lines
    assert not any("test" in line for line in lines)
