"""The public names, and torchvision beside a CPU-only torch."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
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


@pytest.mark.parametrize(
    "imports",
    [
        "import pixpnet, torchvision",
        "import pixpnet, pytorch_lightning, torchvision",
        "import pixpnet, torchmetrics, torchvision, pixpnet.data, pytorch_lightning",
    ],
)
def test_whoever_imports_torchvision_after_us_gets_it_whole(imports: str) -> None:
    code = f"{imports}; print(torchvision.models.resnet18.__name__, type(torchvision.__loader__).__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["resnet18", "SourceFileLoader"], done.stderr


@pytest.mark.parametrize("imports", ["import pytorch_lightning, torchvision, pixpnet", "import torch, torchvision"])
def test_whoever_imports_torchvision_before_us_gets_it_whole_too(imports: str, tmp_path: Path) -> None:
    # What an installation of the package as it is now would say, whatever is installed.
    root = Path(__file__).parents[1]
    named = tomllib.loads((root / "pyproject.toml").read_text())["project"]["entry-points"]["torch.backends"]
    installed = tmp_path / "pixpnet-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: pixpnet\nVersion: 0\n")
    lines = [f"{name} = {target}" for name, target in named.items()]
    (installed / "entry_points.txt").write_text("\n".join(["[torch.backends]", *lines]))
    code = f"{imports}; print(torchvision.models.resnet18.__name__)"
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{root / 'src'}"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.split() == ["resnet18"], done.stderr
    light = "import sys, torch; print([name for name in sys.modules if name.startswith('pixpnet')])"
    done = subprocess.run([sys.executable, "-c", light], capture_output=True, text=True, env=environment)
    # Nothing of ours is imported but the watching.
    assert set(ast.literal_eval(done.stdout)) <= {"pixpnet", "pixpnet._torchvision", "pixpnet.extras"}, done.stderr


def test_any_other_error_of_torchvision_is_not_hidden(tmp_path: Path) -> None:
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('something else')")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import pixpnet, torchvision"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip().endswith("RuntimeError: something else")


def test_only_the_missing_operators_are_declared_and_the_code_is_run_once_more(tmp_path: Path) -> None:
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text("import torch, torchvision.part\nfirst = torch.ops.torchvision.nms.default")
    (package / "part.py").write_text(
        "print('run')\nimport torch\ntry:\n    torch.ops.torchvision.nms\nexcept AttributeError as error:\n"
        "    raise RuntimeError('operator torchvision::nms does not exist') from error"
    )
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import pixpnet, torchvision; print(torchvision.first)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["run", "run", "torchvision.nms.default"], done.stderr


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


# What a user types, and what a checker should take it for.
SCRIPT = {
    "px.create_model('pixpnet', backbone='resnet18', at='layer3', num_classes=12)": "PixPNet",
    "px.PixPNet.load('runs/mine')": "PixPNet",
    "px.Predictor('runs/mine').predict('jay.jpg').class_name": "str",
    "px.Predictor('runs/mine').predict(['jay.jpg'])": "list[PredictedClass]",
    "px.Predictor('runs/mine').explain(['jay.jpg', Path('wren.jpg')])": "list[Explanation]",
    "px.receptive_fields('vgg16', (3, 224, 224))['maxpool4'].mean_fraction": "float",
    "px.explain(px.PixPNet.load('runs/mine'), b'bytes').predicted.terms[0].region": "tuple[Box, ...]",
    "px.train(px.RunConfig.of('pixpnet', 'laptop'), 'out', dataset=images, backbone=network)": "Metrics | None",
    "px.Run('runs/mine', dataset=images).data().class_names": "tuple[str, ...]",
    "px.heatmaps(px.PixPNet.load('runs/mine'), image, [0]).maps": "Tensor",
    "px.verify_fields(network, (3, 32, 32)).layers": "int",
    "px.compare(['runs/seed-0', 'runs/seed-1'])": "tuple[RunGroup, ...]",
    "px.Preprocessing()(Image.new('RGB', (9, 9)))": "Tensor",
    "px.__version__": "str",
}


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's file, with one name that is spelt wrong."""
    path = tmp_path_factory.mktemp("user") / "script.py"
    head = (
        "from pathlib import Path\nfrom PIL import Image\nimport torch\nfrom torch import nn\n"
        "from torch.utils.data import TensorDataset\nimport pixpnet as px\n"
        "network = nn.Sequential(nn.Conv2d(3, 4, 3))\nimage = torch.zeros(1, 3, 32, 32)\n"
        "images = TensorDataset(image, torch.zeros(1))\n"
    )
    path.write_text(head + "".join(f"reveal_type({line})\n" for line in SCRIPT) + "px.recptive_fields\n")
    return path


def test_mypy_sees_the_types_of_a_users_script(script: Path) -> None:
    # With the configuration, and so the cache, of `make check`: the package was looked at there.
    command = [sys.executable, "-m", "mypy", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    revealed = [
        line.split("Revealed type is ")[1].strip('"') for line in done.stdout.splitlines() if "Revealed" in line
    ]
    assert [_short(kind) for kind in revealed] == list(SCRIPT.values()), done.stdout
    assert '"recptive_fields"' in done.stdout
    assert done.stdout.count("error:") == 1, done.stdout


def test_pyright_sees_the_same_types(script: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("pyright runs on Node.js, which is not here (and would have to be downloaded)")
    pyright = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", str(script)]
    # Where the package is, also where it is not installed but on the path.
    home = str(Path(pixpnet.__file__).parents[1])
    done = subprocess.run(
        pyright, capture_output=True, text=True, cwd=script.parent, env={**os.environ, "PYTHONPATH": home}
    )
    if not done.stdout.startswith("{"):
        pytest.skip(f"pyright does not start here: {(done.stderr or done.stdout).strip()[-200:]}")
    told = json.loads(done.stdout)["generalDiagnostics"]
    revealed = [entry["message"].rsplit(' is "', 1)[1][:-1] for entry in told if entry["severity"] == "information"]
    assert revealed == list(SCRIPT.values())
    (error,) = [entry["message"] for entry in told if entry["severity"] == "error"]
    assert '"recptive_fields" is not a known attribute' in error


def _short(kind: str) -> str:
    """A type as mypy names it, without modules."""
    kind = re.sub(r"tuple\[int, int, int, int, fallback=pixpnet\.box\.Box\]", "Box", kind)
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", kind)
