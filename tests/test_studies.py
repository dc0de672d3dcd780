"""What studies make for themselves, at a small size: a study of an hour must not fail at its end."""

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

from pixpnet.model.build import build_backbone

STUDIES = Path(__file__).parent.parent / "studies"


@pytest.fixture
def family() -> ModuleType:
    spec = importlib.util.spec_from_file_location("family_study", STUDIES / "family.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_plain_backbone_of_the_family_is_kept_as_weights_for_all_members(
    family: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(family, "BACKBONE_BIRDS", 24)
    monkeypatch.setattr(family, "BACKBONE_LEARNING", replace(family.BACKBONE_LEARNING, epochs=1))
    path = family.plain_backbone("small-21", "", 32, tmp_path)
    learnt, random = (build_backbone("small-21", "", weights, 32, 0).network for weights in (str(path), None))
    assert not torch.equal(learnt.stage1.halve.conv.weight, random.stage1.halve.conv.weight)
    before = path.read_bytes()
    assert family.plain_backbone("small-21", "", 32, tmp_path) == path  # is there already
    assert path.read_bytes() == before
