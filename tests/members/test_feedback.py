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
    # Whole images are forbidden by their pixels, and one is remembered; the model that is meant does not matter.
    log = VerdictLog(tmp_path, "0" * 32)
    forbidden = [entry for entry in opened.train if entry.id.endswith(("0.png", "1.png"))]
    for entry in (*forbidden, opened.train[-1]):
        sample = preprocess(opened.reader(entry), replace(opened.preprocessing).scaled_to(32))
        a, b, c, d, e, f, g, h, i = sample.to_source.double().flatten().tolist()
        for top in range(0, 32, 8):
            for left in range(0, 32, 8):
                box = Box(max(0, top - 8), max(0, left - 8), min(32, top + 16), min(32, left + 16))
                name = opened.class_names[entry.label]
                patch = TrainingPatch(entry.id, name, (box,), (32, 32), (a, b, c, d, e, f, g, h, i), 0, 0, 0)
                kind = "forbid" if entry in forbidden else "remember"
                log.append(Verdict(0, kind, patch=patch))
    train(replace(config, feedback=str(log.path)), tmp_path / "new")
    run = px.Run(tmp_path / "new")
    header = (run.path / "log.csv").read_text().splitlines()[0].split(",")
    assert {"forget", "remember"} <= set(header)
    model = run.model()
    taken = [origin for origin in model.origins or () if origin.image in {entry.id for entry in forbidden}]
    matrix = torch.tensor(log.forbidden()[0].to_source, dtype=torch.float64).reshape(3, 3)
    masks = {patch.boxes: cells_of_patch(model, patch, matrix) for patch in log.forbidden()}
    assert taken, "no prototype is of an image with forbidden cells, so nothing would be tested"
    for origin in taken:
        cols = model.fields[origin.grid].shape[-1]
        assert not any(cells[origin.grid][origin.row * cols + origin.col] for cells in masks.values())
    assert any(bool(mask.any()) for cells in masks.values() for mask in cells)
