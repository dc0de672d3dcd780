"""The public names, and torchvision beside a CPU-only torch."""

import ast
import subprocess
import sys
from importlib.metadata import version
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


def test_type_checkers_are_told_the_same_names_as_the_interpreter() -> None:
    tree = ast.parse(Path(pixpnet.__file__).read_text())
    told = {
        alias.asname: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert told == pixpnet._HOMES  # type: ignore[attr-defined]


def test_the_version_is_that_of_the_package() -> None:
    assert pixpnet.__version__ == version("pixpnet")


def test_a_users_script_is_typed_without_any(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from pathlib import Path\n"
        "import pixpnet as px\n"
        "model = px.create_model('pixpnet', backbone='resnet18', at='layer3', num_classes=12)\n"
        "predictor = px.Predictor(model)\n"
        "one = predictor.predict('jay.jpg')\n"
        "many = predictor.explain(['jay.jpg', Path('wren.jpg')])\n"
        "reveal_type(model)\nreveal_type(one.class_name)\nreveal_type(many)\n"
        "reveal_type(px.receptive_fields('vgg16', (3, 224, 224))['maxpool4'].mean_fraction)\n"
        "reveal_type(px.explain(model, 'jay.jpg').predicted.terms[0].region)\n"
        "reveal_type(px.__version__)\n"
        "px.recptive_fields\n"
    )
    # With the configuration, and so the cache, of `make check`: the package was looked at there.
    command = [sys.executable, "-m", "mypy", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    revealed = [
        line.split("Revealed type is ")[1].strip('"') for line in done.stdout.splitlines() if "Revealed" in line
    ]
    assert revealed == [
        "pixpnet.model.network.PixPNet",
        "str",
        "list[pixpnet.explanation.record.Explanation]",
        "float",
        "tuple[tuple[int, int, int, int, fallback=pixpnet.box.Box], ...]",
        "str",
    ], done.stdout
    assert '"recptive_fields"' in done.stdout
    assert done.stdout.count("error:") == 1, done.stdout
