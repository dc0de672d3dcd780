"""A person's feedback works for every member, without knowing it: what is forbidden never becomes a prototype."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import pixpnet as px
from pixpnet.box import Box
from pixpnet.data import preprocess
from pixpnet.family import MEMBERS
from pixpnet.training import train
from pixpnet.training.mending.locating import cells_of_patch
from pixpnet.training.run_data import open_run_data
from pixpnet.verdicts import TrainingPatch, Verdict, VerdictLog
from tests.members.tiny import run_config
from tests.training.material import draw_pictures

# Trees (prototypes without a class), branches that take turns, and offsets that depend on the image.
SHORT = ("prototree", "stprotopnet", "deformable")


def members() -> list[object]:
    return [name if name in SHORT else pytest.param(name, marks=pytest.mark.slow) for name in MEMBERS]


@pytest.mark.parametrize("member", members())
def test_every_member_learns_from_feedback_and_takes_no_patch_from_where_it_is_forbidden(
    member: str, tmp_path: Path
) -> None:
    data = draw_pictures(tmp_path / "squares")
    config = run_config(member, "scratch", data, tmp_path, evaluate_on_test=False)
    opened = open_run_data(config)
    # The left of every image is forbidden, and the right of one remembered; which model is meant does not matter.
    log = VerdictLog(tmp_path, "0" * 32)
    for entry in opened.train:
        sample = preprocess(opened.reader(entry), replace(opened.preprocessing).scaled_to(32))
        a, b, c, d, e, f, g, h, i = sample.to_source.double().flatten().tolist()
        for kind, left in (("forbid", 0), ("remember", 16)):
            for top in (0, 8, 16):
                if kind == "forbid" or entry is opened.train[-1]:
                    box, name = Box(top, left, top + 16, left + 16), opened.class_names[entry.label]
                    patch = TrainingPatch(entry.id, name, (box,), (32, 32), (a, b, c, d, e, f, g, h, i), 0, 0, 0)
                    log.append(Verdict(0, kind, patch=patch))  # type: ignore[arg-type]
    train(replace(config, feedback=str(log.path)), tmp_path / "new")
    run = px.Run(tmp_path / "new")
    header = (run.path / "log.csv").read_text().splitlines()[0].split(",")
    assert {"forget", "remember"} <= set(header)
    model = run.model()
    matrix = torch.tensor(log.forbidden()[0].to_source, dtype=torch.float64).reshape(3, 3)
    masks = {patch.boxes: cells_of_patch(model, patch, matrix) for patch in log.forbidden()}
    assert any(bool(mask.any()) for cells in masks.values() for mask in cells)
    # Every image has forbidden cells, so each prototype that is a patch could have been taken from one.
    assert model.origins or model.origins is None
    for origin in model.origins or ():
        cols = model.fields[origin.grid].shape[-1]
        assert not any(cells[origin.grid][origin.row * cols + origin.col] for cells in masks.values())
