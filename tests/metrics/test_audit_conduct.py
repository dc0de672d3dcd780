"""The audit of how a run was trained: openings of the test split, validation images, damaged records."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from pixpnet.data import DataSet, LockedSplit
from pixpnet.model import PixPNet
from pixpnet.training import Run, RunError
from tests.metrics.auditing_toys import audited, failures


def add_opening(run: Path, **changes: object) -> None:
    lines = (run / "openings.jsonl").read_text().splitlines()
    line = {key: value for key, value in {**json.loads(lines[0]), **changes}.items() if value is not None}
    (run / "openings.jsonl").write_text("\n".join([*lines, json.dumps(line)]) + "\n")


def test_a_test_split_that_was_opened_for_another_model_was_opened_too_early(run: Path, data: DataSet) -> None:
    add_opening(run, model="0" * 32, reason="a look in between")
    result = audited(run, data)
    assert failures(result) == ["the test split stayed closed until the model was fixed"]
    assert result.conduct.early == 1
    assert "a look in between" in result.conduct.findings[-1].evidence


def test_a_model_that_was_changed_after_the_opening_is_found(run: Path, data: DataSet) -> None:
    model = PixPNet.load(run)
    model.add_on[0].bias.data[0] += 1e-7
    model.save(run / "model.safetensors")
    Run(run).manifest.settle(pictures=True)
    assert "the test split stayed closed until the model was fixed" in failures(audited(run, data))


@pytest.mark.parametrize(("time", "early"), [("2001-02-03T04:05:06+00:00", 1), ("2100-01-01T00:00:00+00:00", 0)])
def test_openings_without_a_fingerprint_are_judged_by_time(run: Path, data: DataSet, time: str, early: int) -> None:
    os.utime(run / "model.safetensors", (1.7e9, 1.7e9))  # in 2023
    add_opening(run, model=None, time=time)
    result = audited(run, data)
    assert result.conduct.early == early
    assert result.conduct.verdict == ("fails" if early else "holds")


def test_an_unfinished_run_whose_test_split_was_opened_fails(run: Path, data: DataSet) -> None:
    (run / "metrics.json").unlink()
    assert failures(audited(run, data)) == ["the test split stayed closed until the model was fixed"]
    (run / "openings.jsonl").unlink()
    result = audited(run, data)
    assert result.verdict == "not checked"
    assert result.conduct.metrics is None


@pytest.mark.parametrize("images", [0, 8])
def test_validation_images_that_are_not_those_of_the_data_set_are_found(run: Path, data: DataSet, images: int) -> None:
    metrics = json.loads((run / "metrics.json").read_text())
    metrics["validation"]["images"] = images
    data = data if images else replace(data, val=())
    Run(run).write("metrics.json", json.dumps(metrics))
    assert failures(audited(run, data)) == ["the model was chosen on a validation split of its own"]


def test_validation_images_that_were_also_learnt_from_are_found(run: Path, data: DataSet) -> None:
    both = replace(data, train=(*data.train, data.val[0]))
    assert "the model was chosen on a validation split of its own" in failures(audited(run, both))


def test_a_validation_image_that_is_a_copy_of_a_training_image_is_found_whatever_its_name(
    run: Path, data: DataSet
) -> None:
    copy = replace(data.val[0], digest=data.train[0].digest)
    result = audited(run, replace(data, val=(copy, *data.val[1:])))
    (finding,) = (one for one in result.conduct.findings if one.verdict == "fails")
    assert "the pictures of 1 of them are also in train" in finding.evidence
    assert copy.id in finding.evidence


@pytest.mark.parametrize("split", ["val", "test"])
def test_a_prototype_whose_picture_is_also_held_out_is_found(run: Path, data: DataSet, split: str) -> None:
    model = PixPNet.load(run)
    assert model.origins is not None
    source = next(entry for entry in data.train if entry.id == model.origins[0].image)
    copy = replace(data.val[0], id="another name", digest=source.digest)
    held_out = {"val": (copy, *data.val[1:])} if split == "val" else {"test": LockedSplit("squares", (copy,))}
    result = audited(run, replace(data, **held_out), model)
    assert 0 in result.grounding.failed
    claims = {finding.claim: finding for finding in result.grounding.findings}
    assert (
        "a copy of"
        in claims["every origin is a training image of a class that may give the prototype its patch"].evidence
    )


def test_damaged_records_are_errors_and_not_verdicts(run: Path) -> None:
    (run / "openings.jsonl").write_text("{}\n")
    with pytest.raises(RunError, match=r"openings\.jsonl is damaged"):
        audited(run, None)


def test_a_model_in_training_mode_is_refused(run: Path) -> None:
    with pytest.raises(ValueError, match="eval"):
        audited(run, None, PixPNet.load(run).train())


def test_an_opening_carries_the_fingerprint_of_the_model(run: Path) -> None:
    (opening,) = Run(run).read_openings()
    assert opening.model == Run(run).fingerprint() != "none"
    (run / "model.safetensors").unlink()
    assert Run(run).fingerprint() == "none"
