"""The folder of a run is loaded as its model file is, if its list of prototypes belongs to that model."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from pixpnet.model import Backbone, ModelFileError, PixPNet
from pixpnet.model.file import prototypes_listing
from tests.model.conftest import small_model

# Two files make no run with a manifest: these are what earlier versions left.
pytestmark = pytest.mark.filterwarnings("ignore::pixpnet.manifest.ManifestWarning")


@pytest.fixture
def run(model: PixPNet, tmp_path: Path) -> Path:
    """The two files of a finished run."""
    model.save(tmp_path / "model.safetensors")
    (tmp_path / "prototypes.json").write_text(prototypes_listing(model), encoding="utf-8")
    return tmp_path


def test_a_run_folder_is_loaded_as_its_file_is(run: Path, model: PixPNet, images: Tensor) -> None:
    loaded = PixPNet.load(run)
    assert loaded.origins == model.origins
    with torch.no_grad():
        assert torch.equal(loaded(images).logits, model(images).logits)


def test_the_list_of_prototypes_says_for_people_what_the_origins_say(run: Path, model: PixPNet) -> None:
    listed = json.loads((run / "prototypes.json").read_text(encoding="utf-8"))
    assert [entry["class"] for entry in listed] == ["wren", "wren", "Grünfink", "Grünfink", "日本", "日本"]
    assert listed[3] == {
        "class": "Grünfink",
        "prototype": 3,
        "label": 1,
        "image": "images/ü 3.jpg",
        "row": 3,
        "col": 2,
        "boxes": [[12, 8, 23, 19]],
        "to_source": [1.25, 0.0, -3.0, 0.0, 1.1, 2.0, 0.0, 0.0, 1.0],
        "distance": pytest.approx(0.3),
        "unique": "image",
    }


def test_a_list_of_prototypes_that_is_missing_damaged_or_anothers_is_refused(run: Path) -> None:
    path = run / "prototypes.json"
    text = path.read_text(encoding="utf-8")
    other = json.loads(text)
    other[2]["row"] += 1
    broken = {
        text[: len(text) // 2]: "is damaged",
        "": "is damaged",
        "[" * 10**5: "is damaged",
        "\ud800": "is damaged",
        "[]": "does not belong",
        "null": "does not belong",
        json.dumps(other): "does not belong",
        json.dumps(json.loads(text)[:-1]): "does not belong",
        text.replace("wren", "robin"): "does not belong",
    }
    for content, says in broken.items():
        path.write_bytes(content.encode("utf-8", "surrogatepass"))
        message = refusal_of_a_run(run)
        assert says in message
        assert "pixpnet train --resume" in message
    path.unlink()
    assert "is missing" in refusal_of_a_run(run)
    PixPNet.load(run / "model.safetensors")  # what the message recommends


def refusal_of_a_run(run: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        PixPNet.load(run)
    assert str(run / "prototypes.json") in str(caught.value)
    return str(caught.value)


def test_a_run_without_origins_lists_no_prototypes(squeezed: Backbone, tmp_path: Path) -> None:
    model = small_model(squeezed)
    model.save(tmp_path / "model.safetensors")
    (tmp_path / "prototypes.json").write_text(prototypes_listing(model))
    assert json.loads(prototypes_listing(model)) == []
    assert PixPNet.load(tmp_path).origins is None
