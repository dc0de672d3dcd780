"""A run with an edited backbone: what its configuration says is what is trained, saved and loaded."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pixpnet.config import read_config
from pixpnet.model import EditError, PixPNet
from pixpnet.model.build import build_backbone
from pixpnet.training import train
from tests.training.material import draw_pictures, small_config

EDITS = ("unstride:stage3.halve", "pointwise:stage1.wider")


def test_a_run_with_edits_trains_saves_and_loads_the_edited_backbone(tmp_path: Path) -> None:
    config = small_config(draw_pictures(tmp_path / "pictures"), edits=EDITS)
    config = replace(config, evaluate_on_test=False)
    config = config.with_settings(optimization=replace(config.optimization, epochs=1, warm_up_epochs=0))
    metrics = train(config, tmp_path / "run")
    assert read_config(tmp_path / "run" / "config.yaml").edits == EDITS
    model = PixPNet.load(tmp_path / "run")
    assert model.backbone.edits == EDITS
    # 5 pixels, none for the pointwise block, 2 more at a step of 2 and of 4; the last stride is gone.
    assert model.field.size == (5 + 2 * 2 + 2 * 4,) * 2
    assert model.field.shape[1:] == (8, 8)
    assert metrics is not None
    assert metrics.mean_field == model.field.mean_fraction_union
    images = torch.randn(2, 3, 32, 32)
    model.save(tmp_path / "again.safetensors")
    with torch.no_grad():
        assert torch.equal(PixPNet.load(tmp_path / "again.safetensors")(images).logits, model(images).logits)
    # Every origin shows what the edited cells see, at most 17 x 17 pixels.
    assert model.origins is not None
    assert all(box.y1 - box.y0 <= 17 and box.x1 - box.x0 <= 17 for origin in model.origins for box in origin.boxes)


def test_edits_that_do_not_fit_are_said_before_anything_is_written(tmp_path: Path) -> None:
    config = small_config(draw_pictures(tmp_path / "pictures"), edits=("drop:stage2.halve",))
    with pytest.raises(EditError, match=r"'drop:stage2\.halve' does not fit"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_same_seed_gives_the_unedited_parts_the_same_first_weights() -> None:
    plain = build_backbone("small-21", "", None, 32, 7).state_dict()
    edited = build_backbone("small-21", "", None, 32, 7, EDITS).state_dict()
    for name, tensor in edited.items():
        expected = plain[name].sum((2, 3), keepdim=True) if name == "network.stage1.wider.conv.weight" else plain[name]
        torch.testing.assert_close(tensor, expected)
