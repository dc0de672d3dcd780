"""The commands that README, docs and help print, run as they stand in a folder where what they name is at hand.

Only what cannot be had here stands in for something else: random weights for those that are downloaded, pictures of
coloured squares for photographs, a few drawn birds for thousands, shallow transformers for deep ones, and runs of
seconds for runs of minutes. Commands that take minutes even so are marked slow.
"""

import contextlib
import re
import shlex
import shutil
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
import uvicorn
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from pixpnet import zoo
from pixpnet.cli import COMMANDS as COMMANDS_BY_NAME
from pixpnet.cli import Command, main
from pixpnet.config import RunConfig
from pixpnet.data import registry
from pixpnet.data.drawn import birds_catalog
from pixpnet.members.protopnet import ProtoPNetConfig
from pixpnet.members.prototree import ProtoTreeConfig
from pixpnet.metrics.suite import MeasureSettings, measure
from pixpnet.training import train
from pixpnet.training.mending.giving import give_verdict
from pixpnet.verdicts import Verdict
from tests.docs.running import EXECUTED
from tests.docs.stand_ins import draw, stop_when_open
from tests.training.material import small_config

ROOT = Path(__file__).parents[1]
# What a reader replaces by something of their own.
OWN = {
    "RUN": "runs/mine",
    "HARD": "runs/hard-of-mine",
    "MODEL": "small-21",
    "WEIGHTS": "weights",
    "weights/": "weights",
    "DIR": "searches/front",
    "cub:cub12": "folder:photos",
    "cub:PATH": "folder:photos",
    "cub:CUB": "folder:photos",
}
# Files of weights that commands name, and the network that each is for.
FILES = {
    "resnet18.pth": "resnet18",
    "dinov2_vits14_pretrain.pth": "timm:vit_small_patch14_dinov2",
    "swin.safetensors": "timm:swin_tiny_patch4_window7_224",
}
# Nothing to run, or nothing to run it on; why.
NOT_HERE = {
    "pixpnet train": "the name of a command",
    "pixpnet measure": "the name of a command",
    "pixpnet audit": "the name of a command",
    "pixpnet compare": "the name of a command",
    "pixpnet review": "the name of a command",
    "pixpnet verdicts add": "the name of a command",
    "pixpnet goldilocks": "the name of a command",
    "pixpnet explain --prove": "the name of a command",
    "pixpnet explain --qualities": "the name of a command",
    "pixpnet train --seeds 0 1 2": "the beginning of a command",
    "pixpnet train --config RUN/config.yaml": "the beginning of a command",
    "pixpnet data check": "the name of a command",
    "pixpnet edit": "the name of a command",
    "pixpnet serve": "the name of a command",
    "pixpnet convert --to hard": "the name of a command",
    "pixpnet train --data ... --weights ...": "the beginning of a command",
    "pixpnet train ... --device cuda --num-devices 4": "needs several GPUs",
    "pixpnet train --data cub:CUB_200_2011 --backbone vgg16 --at maxpool4 --weights imagenet --preset paper "
    "--num-devices 4 --precision bf16-mixed --out runs/paper": "needs several GPUs",
    "pixpnet goldilocks --data cub:CUB --storage postgresql://me@server/searches --out here": "needs a server",
}
# What makes a command take minutes: training and searching on real networks, and measuring every mapping.
SLOW = re.compile(r"pixpnet (train (?!.*--help|--resume|.*--print-config)|goldilocks |measure |demo|fields timm:)")
TREES = re.compile(r"pixpnet (tree|convert) ")
# Where one command reads what another has written: the file, and the command that writes it.
BEFORE = {
    "searches/mine/train.yaml": "--out searches/mine",
    "searches/cub/train.yaml": "--want 0.15 --out searches/cub",
    "mine.yaml": "--print-config > mine.yaml",
}


def printed() -> Iterator[str]:
    """Every command of pixpnet that a page or a help text prints, in blocks and within sentences, once."""
    seen = set()
    for line in (*_of_pages(), *_of_help(COMMANDS_BY_NAME)):
        command = " ".join(line.split("  #")[0].split(" # ")[0].split())
        if command.startswith("pixpnet ") and command not in seen:
            seen.add(command)
            yield command


def _of_pages() -> Iterator[str]:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = page.read_text()
        if page not in EXECUTED:  # those are run from top to bottom, by tests/docs
            for block in re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL):
                yield from block.replace("\\\n", " ").splitlines()
        yield from re.findall(r"`(pixpnet [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def _of_help(commands: Mapping[str, Command | Mapping[str, Command]]) -> Iterator[str]:
    for command in commands.values():
        if isinstance(command, Command):
            whole = re.sub(r"\s*\\\n\s+", " ", command.examples)
            for line in re.findall(r"^ *(pixpnet [a-z-].*)$", whole, flags=re.MULTILINE):
                yield re.split(r"\s{2,}", line)[0]  # what follows two spaces is said about it
        else:
            yield from _of_help(command)


COMMANDS = [command for command in printed() if command not in NOT_HERE]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's folder after the steps before: photos, finished runs, a stopped one, a network of their own."""
    home = tmp_path_factory.mktemp("reader")
    draw(home / "photos", 14, seed=0)
    draw(home / "other", 4, seed=1)
    shutil.copytree(home / "photos", home / "path" / "to" / "images")
    shutil.copytree(home / "photos", home / "elsewhere")
    for name in ("jay.jpg", "new.jpg", "bird.png", "wren.png", "wren.jpg"):
        Image.open(home / "photos" / "jay" / "0.png").save(home / name)
    (home / "my").mkdir()
    (home / "my" / "module.py").write_text(
        "from torch import nn\ndef build():\n    return nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU())\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        config = replace(small_config(Path("photos")), validation_fraction=0.2)
        for seed in (0, 1, 2):
            train(replace(config, seed=seed), Path("runs") / f"seed-{seed}")
            few = MeasureSettings(mappings=("field",), samples=1, prototypes=1, split="val")
            measure(Path("runs") / f"seed-{seed}", few)
        shutil.copytree("runs/seed-0", "runs/mine", ignore=shutil.ignore_patterns("measure"))
        for name in ("photos", "dinov2", "pixpnet", "gpu", "old"):  # as steps before would have left them
            shutil.copytree("runs/mine", f"runs/{name}")
        shutil.copytree("runs/mine", "demo/run")
        shutil.copytree("photos/jay", "demo/new-birds")
        Path("demo/new-birds/0.png").rename("demo/new-birds/alder-finch.png")
        shutil.copytree("runs/seed-1", "runs/tesnet")
        for seed in (0, 1, 2):
            shutil.copytree(f"runs/seed-{seed}", f"runs/seed{seed}")
        shutil.copytree("runs/mine", "stopped/mine")
        Path("stopped/mine/metrics.json").unlink()
        _train_judged(config)
        weighted = ProtoPNetConfig()
        train(
            replace(
                config,
                member="protopnet",
                settings=replace(
                    weighted,
                    architecture=replace(weighted.architecture, dim=8, prototypes_per_class=3),
                    optimization=config.optimization,
                    replacement=replace(config.settings.replacement, head_epochs=1),
                ),
            ),
            Path("runs/weighted"),
        )
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


def _train_judged(config: RunConfig) -> None:
    """A run with prototypes up to number 14, of which somebody has said something."""
    more = replace(config.settings.architecture, prototypes_per_class=5)
    train(replace(config, settings=replace(config.settings, architecture=more)), Path("runs/birds"))
    for prototype, kind in ((1, "keep"), (12, "keep"), (5, "forbid"), (3, "remove")):
        give_verdict("runs/birds", Verdict(prototype, kind))


@pytest.fixture
def folder(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder, and the working directory."""
    shutil.copytree(shop, tmp_path / "reader")
    monkeypatch.chdir(tmp_path / "reader")
    monkeypatch.syspath_prepend(str(tmp_path / "reader"))
    monkeypatch.setattr(zoo, "download", zoo.build)
    monkeypatch.setattr(timm, "create_model", shallow(timm.create_model))
    monkeypatch.setattr(uvicorn.Server, "run", stop_when_open)
    monkeypatch.setattr(webbrowser, "open", lambda address: True)
    monkeypatch.setattr(registry, "birds_catalog", lambda birds: birds_catalog(replace(birds, train=96, test=24)))
    return tmp_path / "reader"


def shallow(create: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """timm's own constructor, with one block where a transformer has many."""

    def built(name: str, **options: Any) -> nn.Module:
        depth = {"vit": {"depth": 1}, "swin": {"depths": (1, 1, 1, 1)}}.get(name.partition("_")[0], {})
        return create(name, **options, **depth)

    return built


def words_of(command: str) -> list[str]:
    """The words of a command as a shell gives them, with what stands in for what cannot be had."""
    own = {**OWN, "RUN": "runs/tree"} if TREES.match(command) else OWN
    words = [own.get(word, word) for word in shlex.split(command)[1:]]
    if "--resume" in words:
        return ["train", "--resume", "stopped/mine"]
    return [
        match
        for word in words
        for match in (map(str, sorted(Path().glob(word))) if _expanded(word, command) else [word])
    ]


def _expanded(word: str, command: str) -> bool:
    """Whether a shell makes names of files of it: it holds a star, and stands in no quotes."""
    return "*" in word and not any(f"{quote}{word}{quote}" in command for quote in "\"'")


def run(command: str, folder: Path) -> None:
    """Runs a command, after the one whose file it reads."""
    for file, ending in BEFORE.items():
        if f" {file}" in command.replace("> ", ">"):
            (earlier,) = [other for other in COMMANDS if other.endswith(ending)]
            run(earlier, folder)
    if ".jpg" in command and "*" in command:  # a folder of new pictures, not of classes
        shutil.copy("jay.jpg", "photos")
    if "runs/*" in command:  # runs that differ
        for copy in set(Path("runs").iterdir()) - {Path("runs") / name for name in ("seed-0", "seed-1", "tree")}:
            shutil.rmtree(copy)
    words = words_of(command)
    (folder / "weights").mkdir(exist_ok=True)
    for file, network in FILES.items():
        if file in words:
            state = zoo.build(network).state_dict()
            (save_file if file.endswith("safetensors") else torch.save)(state, folder / file)
    if "weights" in words:
        for name in {"vgg16", "resnet18", "squeezenet1_0"} & set(words):
            torch.save(zoo.build(name).state_dict(), folder / "weights" / f"{name}.pth")
    out = words[words.index("--out") + 1] if "--out" in words else None
    if out is not None and words[0] == "train":
        shutil.rmtree(folder / out, ignore_errors=True)
    with contextlib.ExitStack() as stack:
        if ">" in words:
            words, (out,) = words[: words.index(">")], words[words.index(">") + 1 :]
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(Path(out).open("w"))))
        code = _code(words)
    # An audit answers by its code: 3 is a claim that does not hold, 4 one that could not be tested.
    assert code == 0 or (words[0] == "audit" and code in (3, 4)), (command, code)
    assert out is None or (folder / out).exists()


def _code(words: list[str]) -> int:
    try:
        return main(words)
    except SystemExit as end:  # --help, --print-config and --print-completion
        return int(end.code or 0)


def test_pages_and_help_print_commands() -> None:
    assert len(COMMANDS) > 60
    assert set(NOT_HERE) <= set(printed())


@pytest.mark.parametrize("command", [command for command in COMMANDS if not SLOW.match(command)])
def test_a_printed_command_runs_as_it_stands(command: str, folder: Path) -> None:
    run(command, folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [command for command in COMMANDS if SLOW.match(command)], ids=lambda command: command
)
def test_a_printed_command_that_takes_longer_runs_as_it_stands(command: str, folder: Path) -> None:
    if re.search(" --(data|config) ", command):  # few enough for the largest networks
        for photos in (Path("photos"), Path("path/to/images")):
            shutil.rmtree(photos)
            for seed, (split, count) in enumerate({"train": 3, "val": 2, "test": 1}.items()):
                draw(photos / split, count, seed)
    run(command, folder)
