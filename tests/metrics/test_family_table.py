"""The paper's Table 1 for trained runs: rows against the runs' own files, hand-made rows against the printed tables."""

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from pixpnet.cli import main
from pixpnet.commands.family_text import cells_of, csv_table, latex_table, text_table
from pixpnet.metrics import family_table as module
from pixpnet.metrics.auditing import audit
from pixpnet.metrics.family_table import FamilyRow, RunFacts, facts_of, family_table
from pixpnet.training import Run
from pixpnet.views.family_figures import accuracy_figure, venn_figure
from tests.training.conftest import Trained


@pytest.fixture
def trained_run(trained: Trained, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained.path, tmp_path / "run"))


FACTS = RunFacts(
    "tesnet", "resnet18 @ layer3", False, "holds", "fails", "holds", 20, 240, 120, 0.517, 0.62, 0.8, 351, "holds"
)


def row_of(*accuracies: float | None, **changes: object) -> FamilyRow:
    facts = tuple(replace(FACTS, accuracy=accuracy, **changes) for accuracy in accuracies)  # type: ignore[arg-type]
    runs = tuple(f"runs/{number}" for number in range(len(facts)))
    unknown = (None,) * len(facts)
    return FamilyRow(runs, tuple(range(len(facts))), "cub:cub12", facts, (0.5, *unknown[1:]), unknown)


def test_facts_are_those_of_the_audit_and_of_the_runs_own_evaluation(trained_run: Path) -> None:
    run = Run(trained_run)
    facts = facts_of(run)
    result = audit(trained_run, run.model(), run.data())
    assert (facts.patches, facts.parts, facts.reasoning) == (
        result.grounding.verdict,
        result.localization.verdict,
        result.reasoning.verdict,
    )
    metrics = json.loads((trained_run / "metrics.json").read_text())
    assert facts.accuracy == metrics["test"]["accuracy"]
    assert facts.prototypes == metrics["prototypes"]
    assert facts.mean_field == pytest.approx(metrics["mean_field"])


def test_an_audit_is_made_once_and_again_for_another_model(trained_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (trained_run / "audit.json").unlink(missing_ok=True)
    first = facts_of(Run(trained_run))

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("audited again")

    monkeypatch.setattr(module, "audit", refused)
    assert facts_of(Run(trained_run)) == first
    with pytest.raises(AssertionError, match="audited again"):
        facts_of(Run(trained_run), threshold=0.5)
    kept = json.loads((trained_run / "audit.json").read_text())
    (trained_run / "audit.json").write_text(json.dumps({**kept, "model": "of another run"}))
    with pytest.raises(AssertionError, match="audited again"):
        facts_of(Run(trained_run))
    (trained_run / "audit.json").write_text("{")
    with pytest.raises(AssertionError, match="audited again"):
        facts_of(Run(trained_run))
    (trained_run / "audit.json").unlink()


def test_one_that_fails_decides_for_all_seeds_and_accuracies_spread_by_hand() -> None:
    row = row_of(0.7, 0.8, 0.9)
    assert row.desiderata == ("holds", "fails", "holds")
    accuracy = row.accuracy
    assert accuracy is not None
    assert (accuracy.mean, accuracy.deviation) == (pytest.approx(0.8), pytest.approx(0.1))
    mixed = replace(row, facts=(FACTS, replace(FACTS, patches="not checked"), replace(FACTS, reasoning="fails")))
    assert mixed.desiderata == ("not checked", "fails", "fails")


def test_cells_by_hand() -> None:
    cells = cells_of(row_of(0.7, 0.8, 0.9))
    assert cells == (
        "TesNet",
        "no",
        "✓",
        "✗",
        "✓",
        "resnet18 @ layer3",
        "20",
        "240",
        "120",
        "51.7",
        "62.0",
        "80.0 ± 10.0",
        "50.0 (undefined in 2)",
        "–",
        "✓",
        "0, 1, 2",
    )
    assert cells_of(row_of(None))[11] == "–"


def test_the_same_cells_are_in_text_csv_and_latex() -> None:
    rows = [row_of(0.7, 0.8), row_of(0.5, backbone="my_net & co")]
    read = list(csv.reader(io.StringIO(csv_table(rows))))
    assert tuple(read[2]) == cells_of(rows[1])
    for cell in cells_of(rows[0]):
        assert cell in text_table(rows)
    latex = latex_table(rows)
    assert r"my\_net \& co" in latex
    assert r"75.0 $\pm$ 7.1" in latex
    assert r"$\checkmark$ & $\times$ & $\checkmark$" in latex
    assert len({line.count("&") - line.count(r"\&") for line in latex.splitlines() if "&" in line}) == 1


def test_figures_name_every_member_and_lose_no_letters() -> None:
    rows = [row_of(0.7, 0.8, 0.9), row_of(0.5, member="pixpnet", parts="holds", mean_field=0.077)]
    texts = [text.get_text() for text in accuracy_figure(rows).axes[0].texts]
    assert any(text.startswith("TesNet: 80.0 ± 10.0 %") for text in texts)
    assert any(text.startswith("PixPNet: 50.0 %") for text in texts)
    venn = {text.get_text(): text.get_position() for text in venn_figure(rows).axes[0].texts}
    assert {"TesNet", "PixPNet"} <= set(venn)
    assert venn["TesNet"] != venn["PixPNet"]
    with pytest.raises(ValueError, match="pixpnet evaluate"):
        accuracy_figure([row_of(None)])


def test_the_command_prints_and_draws_the_table(
    trained_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / "family.png", tmp_path / "venn.png"]
    words = ["compare", str(trained_run), "--out", str(files[0]), "--venn", str(files[1])]
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("PixPNet")
    for file in files:
        with Image.open(file) as picture:
            assert picture.size == (1999, 1125)
    for form in ("csv", "latex", "json"):
        assert main(["compare", str(trained_run), "--format", form]) == 0
        output = capsys.readouterr().out
        assert "PixPNet" in output
    (record,) = json.loads(output)["family"]
    assert record["seeds"] == [0]


def test_wrong_calls_are_told_what_to_do(trained_run: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="a list of runs"):
        family_table(str(trained_run))
    with pytest.raises(ValueError, match="named twice"):
        family_table([trained_run, trained_run])
    assert main(["compare", str(tmp_path), "--format", "latex"]) == 1
