"""Audits of an honest run, and of runs that were tampered with one claim at a time."""

import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from pixpnet.box import Box
from pixpnet.data import DataSet, preprocess
from pixpnet.fields import receptive_fields
from pixpnet.metrics.auditing import Audit, audit, localization
from pixpnet.model import Origin, PixPNet
from pixpnet.parts import NoReasons, Sum
from pixpnet.records import from_plain, to_plain
from pixpnet.training import Run, open_run_data
from tests.metrics.auditing_toys import audited, failures
from tests.training.material import draw_pictures


def with_origin(model: PixPNet, number: int, change: Callable[[Origin], Origin]) -> PixPNet:
    assert model.origins is not None
    origins = list(model.origins)
    origins[number] = change(origins[number])
    model.origins = tuple(origins)
    return model


def test_every_claim_about_an_honest_run_holds_and_the_test_split_stays_closed(run: Path, data: DataSet) -> None:
    before = (run / "openings.jsonl").read_text()
    result = audited(run, data)
    assert result.verdict == "holds", failures(result)
    assert result.grounding.checked == result.grounding.prototypes == 6
    assert result.grounding.failed == ()
    assert result.reasoning.size == (2, 2)
    assert result.conduct.validation_images == 9
    rule = "the last epoch whose validation accuracy after replacement is within one standard error of the best so far"
    assert (
        f"of 3, {rule}; 9 validation images, the picture of none of which is in train"
        in result.conduct.findings[0].evidence
    )
    assert len(result.conduct.openings) == 1
    assert (run / "openings.jsonl").read_text() == before


def test_a_prototype_that_was_changed_is_found_and_by_how_much(run: Path, data: DataSet) -> None:
    model = PixPNet.load(run)
    model.prototypes.data[4, 2] += 0.01
    result = audited(run, data, model)
    assert failures(result) == ["every prototype is its patch"]
    assert result.grounding.failed == (4,)
    assert result.grounding.largest_difference == pytest.approx(0.01, abs=1e-5)


def test_a_prototype_that_is_no_number_is_no_patch(run: Path, data: DataSet) -> None:
    # NaN > 1e-4 is false: asked that way round, the worst prototype would be a perfect one.
    model = PixPNet.load(run)
    model.prototypes.data[4, 2] = float("nan")
    result = audited(run, data, model).grounding
    assert (result.verdict, result.failed) == ("fails", (4,))
    assert result.largest_difference is not None
    assert result.largest_difference < 1e-4


def test_a_way_back_to_the_file_that_is_no_number_leads_nowhere(run: Path, data: DataSet) -> None:
    lost = with_origin(PixPNet.load(run), 3, lambda o: replace(o, to_source=(float("nan"), *o.to_source[1:])))
    assert failures(audited(run, data, lost)) == ["every region lies where it says in the image file"]


@pytest.mark.parametrize("tolerance", [float("nan"), -1.0, float("inf")])
def test_a_tolerance_that_lets_everything_or_nothing_pass_is_refused(
    run: Path, data: DataSet, tolerance: float
) -> None:
    with pytest.raises(ValueError, match="tolerance"):
        audit(run, PixPNet.load(run), data, tolerance=tolerance)


def test_rounding_is_no_change(run: Path, data: DataSet) -> None:
    model = PixPNet.load(run)
    model.prototypes.data += 1e-6
    result = audited(run, data, model)
    assert result.verdict == "holds"
    assert result.grounding.largest_difference == pytest.approx(1e-6, rel=0.5)


def test_an_origin_at_another_cell_is_found_though_its_region_is_that_cells_field(run: Path, data: DataSet) -> None:
    model = PixPNet.load(run)

    def moved(origin: Origin) -> Origin:
        row = (origin.row + 2) % 4
        return replace(origin, row=row, boxes=tuple(Box(*box) for box in model.field.boxes(row, origin.col)))

    result = audited(run, data, with_origin(model, 3, moved))
    assert failures(result) == ["every prototype is its patch"]
    assert result.grounding.failed == (3,)


@pytest.mark.parametrize("cell", [(-1, 0), (0, 4), (9, 9)])
def test_a_cell_that_does_not_exist_is_found(run: Path, data: DataSet, cell: tuple[int, int]) -> None:
    model = with_origin(PixPNet.load(run), 0, lambda origin: replace(origin, row=cell[0], col=cell[1]))
    result = audited(run, data, model)
    assert "every region is the exact field of its cell" in failures(result)
    assert "every prototype is its patch" in failures(result)


@pytest.mark.parametrize(
    ("image", "why"),
    [
        ("val/blue/0.png", "validation"),
        ("test/blue/0.png", "neither in train"),
        ("train/red/0.png", "another class"),
        ("nowhere.png", "neither in train"),
    ],
)
def test_an_origin_that_is_no_training_image_of_the_class_is_found(
    run: Path, data: DataSet, image: str, why: str
) -> None:
    assert any(entry.id == image for entry in (*data.train, *data.val)) == image.startswith(("train", "val"))
    result = audited(run, data, with_origin(PixPNet.load(run), 1, lambda origin: replace(origin, image=image)))
    finding = next(item for item in result.grounding.findings if "training image" in item.claim)
    assert finding.verdict == "fails"
    assert why in finding.evidence
    assert result.grounding.failed == (1,)


def test_an_origin_in_another_training_image_of_the_class_is_found(run: Path, data: DataSet) -> None:
    model = PixPNet.load(run)
    assert model.origins is not None
    other = next(entry.id for entry in data.train if entry.label == 0 and entry.id != model.origins[0].image)
    result = audited(run, data, with_origin(model, 0, lambda origin: replace(origin, image=other)))
    assert failures(result) == ["every prototype is its patch"]


def test_pixels_that_the_cell_does_not_see_may_not_be_claimed_and_all_that_it_sees_must_be(
    run: Path, data: DataSet
) -> None:
    def short(origin: Origin) -> Origin:
        first, *others = origin.boxes
        return replace(origin, boxes=(first._replace(y1=first.y1 - 1), *others))

    result = audited(run, data, with_origin(PixPNet.load(run), 2, short))
    assert failures(result) == ["every region is the exact field of its cell"]
    assert result.grounding.failed == (2,)


def test_a_region_that_lies_elsewhere_in_the_file_is_found(run: Path, data: DataSet) -> None:
    moved = (1.0, 0.0, 5.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    result = audited(run, data, with_origin(PixPNet.load(run), 2, lambda origin: replace(origin, to_source=moved)))
    assert failures(result) == ["every region lies where it says in the image file"]


def test_a_model_without_origins_is_not_grounded(run: Path, data: DataSet) -> None:
    model = PixPNet.load(run)
    model.origins = None
    assert audited(run, data, model).grounding.verdict == "fails"


def test_the_mean_field_is_held_against_the_threshold(run: Path, data: DataSet) -> None:
    model = PixPNet.load(run)
    counted = torch.stack([model.field.mask(row, col).double().mean() for row in range(4) for col in range(4)]).mean()
    result = audited(run, data, model, threshold=float(counted) + 1e-9)
    assert result.localization.findings[0].verdict == "holds"
    assert result.localization.mean_field == pytest.approx(float(counted))
    result = audited(run, data, model, threshold=float(counted) - 1e-6)
    assert result.localization.findings[0].verdict == result.localization.verdict == result.verdict == "fails"
    assert result.grounding.verdict == "holds"


def test_the_mean_region_that_wins_is_held_against_the_threshold_too(run: Path, data: DataSet) -> None:
    model = PixPNet.load(run)
    shares = []
    for entry in data.val:  # image by image, mask by mask
        output = model(preprocess(data.reader(entry), model.preprocessing).image[None])
        own = model.prototypes_of(int(output.logits.argmax()))
        masks = [model.field.mask(*map(int, output.matches.cells[0, number])) for number in own]
        shares.append(float(torch.stack(masks).double().mean()))
    counted = sum(shares) / len(shares)
    assert abs(counted - model.mean_field) > 0.01  # or the two would not be told apart
    result = audited(run, data, model, threshold=counted + 1e-9).localization
    assert (result.winning_region, result.images) == (pytest.approx(counted), 9)
    assert result.findings[1].verdict == "holds"
    result = audited(run, data, model, threshold=counted - 1e-6).localization
    assert result.findings[1].verdict == result.verdict == "fails"
    assert f"mean winning region {100 * counted:.3g} %" in result.findings[1].evidence


def test_a_part_is_small_by_both_means_or_not_at_all(run: Path, data: DataSet, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = {}
    for field, region in itertools.product((0.2, 0.3), (0.2, 0.3)):
        model = PixPNet.load(run)
        share = property(lambda self, field=field: field)
        monkeypatch.setattr(type(model.field), "mean_fraction_union", share)
        monkeypatch.setattr(localization, "_winning_region", lambda *_, region=region: (region, 9))
        result = audit(run, model, data, pixels=1).localization
        verdicts[field, region] = result.verdict
        assert f"mean field {100 * field:.3g} %" in result.findings[0].evidence
        assert f"mean winning region {100 * region:.3g} %" in result.findings[1].evidence
    assert verdicts == {(0.2, 0.2): "holds", (0.2, 0.3): "fails", (0.3, 0.2): "fails", (0.3, 0.3): "fails"}


def test_three_quarters_of_the_image_is_no_part(run: Path, data: DataSet) -> None:
    result = audit(run, PixPNet.load(run), data, pixels=1).localization
    assert (result.threshold, result.verdict) == (0.25, "fails")
    assert 0.25 < result.mean_field < 0.75


@pytest.mark.parametrize("threshold", [0.0, -1.0, 75.0, float("nan")])
def test_a_threshold_is_a_share(run: Path, threshold: float) -> None:
    with pytest.raises(ValueError, match="share"):
        audited(run, None, threshold=threshold)


def test_fields_that_are_not_those_of_the_network_are_found_by_the_probe(run: Path) -> None:
    model = PixPNet.load(run)
    narrow = receptive_fields(nn.Conv2d(3, 8, 3, stride=8, padding=1), (3, 32, 32))[""]
    assert narrow.shape[-2:] == model.field.shape[-2:]
    model._fields[32, 32] = (narrow,)
    result = audit(run, model, None, pixels=6)
    assert result.localization.mean_field < 0.02
    assert "the fields are those of this network" in failures(result)
    assert result.localization.disagreements > 0


def with_weights(model: PixPNet, factor: float, monkeypatch: pytest.MonkeyPatch) -> PixPNet:
    """The model, whose reasons claim other weights than it has."""
    reasons = model.head.reasons

    def others(scores: Tensor, labels: Sequence[int]) -> Sum:
        plain = reasons(scores, labels)
        return Sum(factor * plain.weights, plain.constant)

    monkeypatch.setattr(model.head, "reasons", others)
    return model


def test_logits_that_are_not_the_sum_that_the_head_claims_are_found(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = audited(run, None, with_weights(PixPNet.load(run), 1.001, monkeypatch))
    assert result.reasoning.verdict == "fails"
    assert result.reasoning.largest_error == pytest.approx(0.001, rel=1e-2)


def test_without_the_data_set_what_can_be_checked_is_checked(run: Path) -> None:
    result = audited(run, None)
    assert result.verdict == "not checked"
    assert result.grounding.verdict == result.conduct.verdict == "not checked"
    assert result.localization.verdict == "not checked"  # nobody saw which cells win
    assert [finding.verdict for finding in result.localization.findings] == ["holds", "not checked", "holds"]
    assert result.reasoning.verdict == "holds"
    model = with_origin(PixPNet.load(run), 0, lambda origin: replace(origin, boxes=()))
    assert audited(run, None, model).verdict == "fails"


def test_a_decision_that_refuses_to_give_reasons_fails_and_says_why(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = PixPNet.load(run)

    def refuses(scores: Tensor, labels: Sequence[int]) -> Sum:
        raise NoReasons("a recurrent network reads the scores")

    monkeypatch.setattr(model.head, "reasons", refuses)
    result = audited(run, None, model)
    assert result.reasoning.verdict == result.verdict == "fails"
    assert result.reasoning.largest_error is None
    (finding,) = result.reasoning.findings
    assert "a recurrent network reads the scores" in finding.evidence
    assert from_plain(Audit, to_plain(result)) == result


def test_reasons_that_are_no_number_are_not_true(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = with_weights(PixPNet.load(run), float("nan"), monkeypatch)
    assert audited(run, None, model).reasoning.verdict == "fails"


def test_a_constant_is_one_of_the_reasons(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = PixPNet.load(run)
    reasons = model.head.reasons

    def shifted(scores: Tensor, labels: Sequence[int]) -> Sum:
        plain = reasons(scores, labels)
        return Sum(plain.weights, plain.constant + 3.0)

    monkeypatch.setattr(model.head, "reasons", shifted)
    assert audited(run, None, model).reasoning.verdict == "fails"
    logits = model.head.logits
    monkeypatch.setattr(model.head, "logits", lambda scores: logits(scores) + 3.0)
    assert audited(run, None, model).reasoning.verdict == "holds"


def test_a_run_from_before_there_were_members_audits_as_it_did_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both the run and what its audit said were written by version 5bb0c51."""
    folder = Path(__file__).parent
    draw_pictures(tmp_path / "squares")
    old = Path(shutil.copytree(folder / "run_before_members", tmp_path / "run"))
    for file in old.iterdir():
        os.utime(file)
    monkeypatch.chdir(tmp_path)
    model, config = PixPNet.load(old), Run(old).config
    result = to_plain(audit(old, model, open_run_data(config), threshold=0.75))
    expected = json.loads((folder / "audit_before_members.json").read_text())
    renamed = "every origin is a training image of a class that may give the prototype its patch"
    expected["grounding"]["findings"][1]["claim"] = renamed
    expected["localization"] = expected.pop("localisation")
    for finding in expected["localization"]["findings"]:  # percent signs had no space then
        finding |= {name: re.sub(r"(?<=\d)%", " %", finding[name]) for name in ("claim", "evidence")}
    # What replacement can have changed, and what wins, was not looked at then.
    assert result["conduct"]["metrics"].pop("replacement") is None
    assert result["localization"].pop("winning_region") > 0
    assert result["localization"].pop("images") == 9
    assert "region that wins" in result["localization"]["findings"].pop(1)["claim"]
    for evaluation in ("validation", "validation_before", "test", "test_before"):
        assert result["conduct"]["metrics"][evaluation].pop("readings") is None  # there were no other readings then
    for part in ("localization", "conduct"):
        assert result[part] == expected[part]
    for part, figure in (("grounding", "largest_difference"), ("reasoning", "largest_error")):
        assert result[part].pop(figure) == pytest.approx(expected[part].pop(figure), abs=1e-6)
        for record in (result, expected):
            for finding in record[part]["findings"]:
                finding["evidence"] = re.sub(r"\d(\.\d+)?e-\d+", "little", finding["evidence"])
        assert result[part] == expected[part]
