"""What works with few packages, and what is said where one is missing."""

from pathlib import Path

import pytest

from pixpnet import file_lock
from pixpnet.extras import EXTRAS, MissingExtra, missing_extra, require
from pixpnet.model.creating import create_model
from tests.blocked import CLI, declared, run_without

# What a package of an extra brings along, and is imported by us.
BROUGHT = {"lightning_fabric": "pytorch_lightning"}
OPTIONAL = {package for packages in EXTRAS.values() for package in packages}


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    create_model("pixpnet", backbone="small-21", class_names=("jay", "wren"), size=32).save(path)
    return path


def test_the_table_of_extras_is_that_of_the_package() -> None:
    for extra, packages in EXTRAS.items():
        assert {BROUGHT.get(package, package) for package in packages} == declared(extra), extra
    assert not OPTIONAL & declared()


def test_fields_need_torch_and_numpy_alone() -> None:
    others = (declared() | OPTIONAL | {"beartype"}) - {"torch", "numpy"}
    assert {"jaxtyping", "yaml", "torchvision", "cv2", "PIL", "rich"} <= others
    code = (
        "import torch\nfrom pixpnet.fields import receptive_fields\n"
        "model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, stride=2), torch.nn.ReLU())\n"
        "fields = receptive_fields(model, (3, 9, 9), verify=4)\n"
        "print(fields['0'].boxes(1, 1), len(fields.table()), receptive_fields('small-21', (3, 32, 32))[''].size)\n"
        "print(sorted(BLOCKED & set(sys.modules)))"
    )
    done = run_without(others, code)
    assert done.stdout.splitlines() == ["[Box(y0=2, x0=2, y1=5, x1=5)] 3 (21, 21)", "[]"], done.stderr


def test_the_core_predicts_explains_and_proves_without_any_extra(model_file: Path, tmp_path: Path) -> None:
    from PIL import Image

    picture = tmp_path / "jay.png"
    Image.new("RGB", (40, 40), (90, 120, 200)).save(picture)
    code = (
        "import pixpnet as px\nfrom pixpnet.cli import main\npredictor = px.Predictor(sys.argv[1])\n"
        "explanation = predictor.explain(sys.argv[2], proven=True)\n"
        "assert px.Explanation.from_json(explanation.to_json()) == explanation\n"
        "assert explanation._repr_html_().count('<svg') >= 1\n"
        "assert main(['predict', *sys.argv[1:]]) == 0\nassert main(['explain', *sys.argv[1:], '--prove']) == 0\n"
        "assert main(['members']) == 0\nassert main(['fields', 'resnet18', '--at', 'layer1']) == 0\n"
        "print('done', sorted(BLOCKED & set(sys.modules)))"
    )
    # torch brings jinja2, and may import it.
    done = run_without(OPTIONAL - {"jinja2"}, code, str(model_file), str(picture))
    assert done.stdout.splitlines()[-1:] == ["done []"], done.stderr


@pytest.mark.parametrize(
    ("missing", "words", "message"),
    [
        ("pytorch_lightning", "train --data birds --out RUN", "pixpnet train needs pytorch_lightning"),
        ("matplotlib", "demo --out RUN", "pixpnet demo needs matplotlib"),
        ("matplotlib", "explain MODEL jay.png --out jay.html", "--out jay.html needs matplotlib"),
        ("matplotlib", "fields small-21 --size 32 --at '' --out x.png", "pixpnet fields needs matplotlib"),
        ("timm", "fields timm:resnet18", "'timm:resnet18' needs timm"),
    ],
)
def test_a_command_says_in_one_line_which_extra_it_needs(
    missing: str, words: str, message: str, model_file: Path, tmp_path: Path
) -> None:
    replaced = words.replace("MODEL", str(model_file)).replace("RUN", str(tmp_path / "run")).split()
    done = run_without({missing}, CLI, *("" if word == "''" else word for word in replaced))
    extra = next(extra for extra, packages in EXTRAS.items() if missing in packages)
    assert done.stderr == f"error: {message}, which is not installed: pip install 'pixpnet[{extra}]'\n"
    assert done.returncode == 1
    assert not (tmp_path / "run").exists()


def test_a_public_name_says_which_extra_it_needs() -> None:
    code = (
        "import pixpnet as px\n"
        "for name in ('train', 'Run', 'Consistency', 'audit', 'find_cuts', 'report'):\n"
        "    try:\n        getattr(px, name)\n"
        "    except ModuleNotFoundError as error:\n        print(error)"
    )
    done = run_without({"torchmetrics", "pytorch_lightning", "matplotlib"}, code)
    assert done.stdout.splitlines() == [
        f"pixpnet.{name} needs torchmetrics, which is not installed: pip install 'pixpnet[train]'"
        for name in ("train", "Run", "Consistency", "audit", "find_cuts", "report")
    ], done.stderr


def test_other_modules_that_are_missing_are_not_ours_to_explain() -> None:
    error = ModuleNotFoundError("No module named 'mine'", name="mine")
    assert missing_extra(error, "pixpnet train") is None
    with pytest.raises(MissingExtra, match=r"a search needs no_such_package.*pixpnet\[odd\]"):
        try:
            EXTRAS["odd"] = ("no_such_package",)  # type: ignore[index]
            require("a search", "odd")
        finally:
            del EXTRAS["odd"]  # type: ignore[attr-defined]


def test_locks_are_refused_where_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_lock, "fcntl", None)
    with (tmp_path / "lock").open("w") as file, pytest.raises(file_lock.NoFileLocks, match="WSL"):
        file_lock.try_lock(file)


def test_a_lock_keeps_others_out_until_its_file_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as first, path.open("w") as second:
        file_lock.lock(first)
        assert not file_lock.try_lock(second)
        file_lock.unlock(first)
        assert file_lock.try_lock(second)
    with path.open("w") as third:
        assert file_lock.try_lock(third)
