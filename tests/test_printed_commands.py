"""The commands that README and docs print, run as they stand in a folder where what they name is at hand.

Only what cannot be had here stands in for something else: a small file for ImageNet's weights, pictures of coloured
squares for photographs, and runs of seconds for runs of minutes. Commands that take minutes even so are marked slow.
"""

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from pixpnet import zoo
from pixpnet.cli import main
from pixpnet.members.prototree import ProtoTreeConfig
from pixpnet.metrics.suite import MeasureSettings, measure
from pixpnet.training import train
from tests.training.material import small_config

ROOT = Path(__file__).parents[1]
# What a reader replaces by something of their own.
OWN = {
    "RUN": "runs/mine",
    "HARD": "runs/hard-of-mine",
    "MODEL": "small-21",
    "WEIGHTS": "weights",
    "DIR": "searches/front",
    "cub:cub12": "folder:photos",
    "cub:PATH": "folder:photos",
    "imagenet": "weights",
    "resnet18.pth": "weights/resnet18.pth",
}
# Nothing to run, or nothing to run it on; why.
NOT_HERE = {
    "pixpnet serve": "announced, and not there yet",
    "pixpnet train": "the name of a command",
    "pixpnet measure": "the name of a command",
    "pixpnet audit": "the name of a command",
    "pixpnet data check": "the name of a command",
    "pixpnet convert --to hard": "the name of a command",
    "pixpnet train ... --device cuda --num-devices 4": "needs several GPUs",
}
# What makes a command take minutes: training and searching on real networks, and measuring every mapping.
SLOW = re.compile(r"pixpnet (train (?!.*--help|--resume)|goldilocks |measure |fields timm:)")
TREES = re.compile(r"pixpnet (tree|convert) ")


def printed() -> Iterator[str]:
    """Every command of pixpnet that a page prints, in blocks and within sentences, once."""
    seen = set()
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = page.read_text()
        blocks = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
        lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
        lines += re.findall(r"`(pixpnet [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
        for line in lines:
            command = " ".join(line.split("  #")[0].split(" # ")[0].split())
            if command.startswith("pixpnet ") and command not in seen:
                seen.add(command)
                yield command


COMMANDS = [command for command in printed() if command not in NOT_HERE]


def draw(folder: Path, count: int, seed: int) -> None:
    """Pictures of two classes, no two alike."""
    random = np.random.default_rng(seed)
    for name, color in (("jay", (40, 60, 200)), ("wren", (150, 90, 40))):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = random.integers(90, 130, (40, 48, 3), dtype=np.uint8)
            y, x = random.integers(2, 20, 2)
            pixels[y : y + 16, x : x + 16] = color
            Image.fromarray(pixels).save(folder / name / f"{number}.png")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's folder after the steps before: photos, finished runs, a stopped one, a network of their own."""
    home = tmp_path_factory.mktemp("reader")
    draw(home / "photos", 14, seed=0)
    shutil.copytree(home / "photos", home / "path" / "to" / "images")
    shutil.copytree(home / "photos", home / "elsewhere")
    for name in ("jay.jpg", "new.jpg", "bird.png"):
        Image.open(home / "photos" / "jay" / "0.png").save(home / name)
    (home / "my").mkdir()
    (home / "my" / "module.py").write_text(
        "from torch import nn\ndef build():\n    return nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU())\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        config = replace(small_config(Path("photos")), validation_fraction=0.2)
        for seed in (0, 1):
            train(replace(config, seed=seed), Path("runs") / f"seed-{seed}")
            few = MeasureSettings(mappings=("field",), samples=1, prototypes=1, split="val")
            measure(Path("runs") / f"seed-{seed}", few)
        shutil.copytree("runs/seed-0", "runs/mine", ignore=shutil.ignore_patterns("measure"))
        for name in ("photos", "dinov2"):  # a run of the preset, and of a network whose weights are not here
            shutil.copytree("runs/mine", f"runs/{name}")
        shutil.copytree("runs/mine", "runs/stopped")
        Path("runs/stopped/metrics.json").unlink()
        tree = ProtoTreeConfig()
        train(
            replace(
                config,
                member="prototree",
                settings=replace(
                    tree,
                    architecture=replace(tree.architecture, depth=2, dim=8),
                    optimization=replace(config.optimization, epochs=3),
                ),
            ),
            Path("runs/tree"),
        )
    return home


@pytest.fixture
def folder(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder, and the working directory."""
    shutil.copytree(shop, tmp_path / "reader")
    monkeypatch.chdir(tmp_path / "reader")
    monkeypatch.syspath_prepend(str(tmp_path / "reader"))
    return tmp_path / "reader"


def made_here(command: str) -> list[str]:
    """The words of a command, with what stands in for what cannot be had."""
    own = {**OWN, "RUN": "runs/tree"} if TREES.match(command) else OWN
    words = [own.get(word, word) for word in shlex.split(command)[1:]]
    if "--resume" in words:
        return ["train", "--resume", "runs/stopped"]
    if "--weights" in words and "--backbone" in words and words[words.index("--weights") + 1] == "weights":
        words[words.index("--weights") + 1] = f"weights/{words[words.index('--backbone') + 1]}.pth"
    return words


def run(command: str, folder: Path) -> None:
    words = made_here(command)
    if "weights" in " ".join(words):
        (folder / "weights").mkdir()
        for name in ("vgg16", "resnet18", "squeezenet1_0"):
            if name in words:
                torch.save(zoo.build(name).state_dict(), folder / "weights" / f"{name}.pth")
    out = words[words.index("--out") + 1] if "--out" in words else None
    if out is not None and words[0] == "train":
        shutil.rmtree(folder / out, ignore_errors=True)
    code = _code(words)
    # An audit answers by its code: 1 is a claim that does not hold, which the README says.
    assert code == 0 or (words[0] == "audit" and code in (1, 3)), (command, code)
    assert out is None or (folder / out).exists()


def _code(words: list[str]) -> int:
    try:
        return main(words)
    except SystemExit as end:  # --help and --print-completion
        return int(end.code or 0)


def test_the_pages_print_commands() -> None:
    assert len(COMMANDS) > 30
    assert set(NOT_HERE) <= set(printed())


@pytest.mark.parametrize("command", [command for command in COMMANDS if not SLOW.match(command)])
def test_a_printed_command_runs_as_it_stands(command: str, folder: Path) -> None:
    run(command, folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [command for command in COMMANDS if SLOW.match(command) and "searches/mine/train.yaml" not in command]
)
def test_a_printed_command_that_takes_longer_runs_as_it_stands(command: str, folder: Path) -> None:
    run(command, folder)


@pytest.mark.slow
def test_the_cut_that_a_search_recommends_is_trained_as_printed(folder: Path) -> None:
    (search,) = [command for command in COMMANDS if command.endswith("--out searches/mine")]
    (training,) = [command for command in COMMANDS if "searches/mine/train.yaml" in command]
    run(search, folder)
    run(training, folder)
