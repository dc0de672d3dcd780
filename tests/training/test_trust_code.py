"""Resuming a run imports code that the run names only where that is allowed, and never what its files name."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from pixpnet.cli import main
from pixpnet.manifest import Manifest, ManifestError
from pixpnet.model import ModelFileError
from pixpnet.settings import Optimization
from pixpnet.training import RunError, open_run_data, resume
from pixpnet.training.run import Run
from tests.training.material import small_config

OWN_CODE = """
from pathlib import Path
from torch import nn

Path(__file__).with_suffix(".imported").touch()

def build():
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU())
"""


@pytest.fixture
def trust_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with two modules that leave a file beside them when they are imported."""
    folder = tmp_path / "code"
    folder.mkdir()
    names = ("backbone_of_ones_own", "backbone_of_another")
    for name in names:
        (folder / f"{name}.py").write_text(OWN_CODE)
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in names:
        sys.modules.pop(name, None)


def imported(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.imported")}


def test_resuming_imports_code_that_a_run_names_only_if_that_is_allowed_and_no_other(
    pictures: Path, trust_code: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    optim = Optimization(epochs=1, warm_up_epochs=0, batch_size=8, views=1)
    config = small_config(pictures, backbone="backbone_of_ones_own:build", weights="none", optimization=optim)
    run = Run.create(tmp_path / "run", config, open_run_data(config).listed)
    with pytest.raises(RunError, match=r"config\.yaml names code.*backbone_of_ones_own:build.*trust_code=True"):
        resume(run.path)
    assert main(["train", "--resume", str(run.path)]) == 1
    assert "--trust-code" in capsys.readouterr().err
    assert imported(trust_code) == set()
    assert main(["train", "--resume", str(run.path), "--trust-code"]) == 0
    assert imported(trust_code) == {"backbone_of_ones_own"}

    # The model file beside it names other code: that was not allowed.
    (run.path / "metrics.json").unlink()
    model = run.path / "model.safetensors"
    rename_backbone(model, "backbone_of_another:build")
    with pytest.raises(ManifestError, match=r"model\.safetensors does not belong"):
        resume(run.path, trust_code=True)
    Manifest(run.path).settle(pictures=False)  # as if it did
    with pytest.raises(ModelFileError, match=r"backbone_of_another:build.*if you trust the file"):
        resume(run.path, trust_code=True)
    assert imported(trust_code) == {"backbone_of_ones_own"}
    assert not run.finished
    rename_backbone(model, "backbone_of_ones_own:build")
    Manifest(run.path).settle(pictures=False)
    assert resume(run.path, trust_code=True) is not None

    # So it is with verdicts on patches that the network has to be asked for.
    words = ["verdicts", "add", str(run.path), "forbid", "0", "--nearest", "1"]
    assert main(words) == 1
    assert main([*words, "--trust-code"]) == 0
    assert "forbid prototype 0" in capsys.readouterr().out


def test_a_model_file_with_code_in_a_run_without_is_not_called(unfinished: Path, trust_code: Path) -> None:
    rename_backbone(unfinished / "model.safetensors", "backbone_of_another:build")
    Manifest(unfinished).settle(pictures=False)
    for allowed in (False, True):
        with pytest.raises(ModelFileError, match="backbone_of_another:build"):
            resume(unfinished, trust_code=allowed)
    assert imported(trust_code) == set()


def rename_backbone(file: Path, name: str) -> None:
    """Writes another backbone on the card of a model file."""
    with safe_open(file, framework="pt") as opened:
        card = json.loads(opened.metadata()["pixpnet"])
    save_file(load_file(file), file, metadata={"pixpnet": json.dumps({**card, "backbone": name})})
