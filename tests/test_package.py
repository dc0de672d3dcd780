"""The public names, and torchvision beside a CPU-only torch."""

import subprocess
import sys
from pathlib import Path

import pytest

import pixpnet


def test_every_public_name_can_be_had_and_a_wrong_one_is_explained() -> None:
    for name in pixpnet.__all__:
        assert getattr(pixpnet, name) is not None
    assert set(pixpnet.__all__) <= set(dir(pixpnet))
    with pytest.raises(AttributeError, match="it offers"):
        pixpnet.receptive_feelds  # noqa: B018


def test_metrics_are_to_be_had_without_what_trains() -> None:
    code = (
        "import sys, pixpnet, pixpnet.metrics as metrics; pixpnet.Consistency, pixpnet.relevance_ordering;"
        "print('pytorch_lightning' in sys.modules, metrics.prototype_health is pixpnet.prototype_health)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True"], done.stderr


def test_torchvision_can_be_imported_after_us_in_a_fresh_process() -> None:
    code = "import pixpnet._torchvision, torchvision; print(torchvision.models.resnet18.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "resnet18", done.stderr


def test_any_other_error_of_torchvision_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    from pixpnet import _torchvision

    def broken(name: str) -> None:
        raise RuntimeError("something else")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(RuntimeError, match="something else"):
        _torchvision.ensure()


def test_the_tree_holds_no_absolute_paths_and_no_addresses() -> None:
    root = Path(__file__).parents[1]
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in listed.stdout.splitlines():
        path = root / name
        if path.suffix in {".py", ".md", ".toml", ".txt", ".cfg"} and path.is_file() and path != Path(__file__):
            text = path.read_text()
            for banned in ("/home" + "/", "/work" + "/", "/root" + "/", "pypi" + ".org"):
                assert banned not in text, f"{name} holds {banned}"
