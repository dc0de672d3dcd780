"""Runs that are made with objects: a network, a dataset, a loader, callbacks and loggers."""

import csv
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from PIL import Image
from pytorch_lightning.callbacks import EarlyStopping
from pytorch_lightning.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, WeightedRandomSampler

import pixpnet as px
from pixpnet.config import RunConfig
from pixpnet.data import DataError, DatasetSplits, open_datasets
from pixpnet.data.given import splits_of
from pixpnet.model import ModelFileError
from pixpnet.training import Nobody, Run, RunError, resume, train
from pixpnet.training.given import Given
from pixpnet.views.training import train as watched_train
from tests.training.material import small_config
from tests.training.sameness import same

COLOURS = ((40, 40, 200), (40, 200, 40), (200, 40, 40))


class Squares(Dataset[tuple[Image.Image, int]]):
    """Coloured squares on noise, as PIL images that differ in size."""

    classes = ("blue", "green", "red")

    def __init__(self, count: int = 45, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.pictures = []
        for number in range(count):
            pixels = rng.integers(90, 130, (32, 32 + number % 3, 3), dtype=np.uint8)
            y, x = rng.integers(2, 18, 2)
            pixels[y : y + 12, x : x + 12] = COLOURS[number % 3]
            self.pictures.append(Image.fromarray(pixels))

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        return self.pictures[index], index % 3


class Net(nn.Module):
    """A network that is in no library."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, 12, 3, stride=2, padding=1)
        self.head = nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.second(torch.relu(self.norm(self.first(x))))
        return self.head(x.relu().mean((2, 3)))


def net(seed: int = 0) -> Net:
    torch.manual_seed(seed)
    return Net()


def config() -> RunConfig:
    made = small_config(Path("nowhere"))
    return replace(made, data="birds", backbone="small", at="second")


class Stopping(Nobody):
    """Ends the process's work after the second epoch, as a crash would."""

    def epoch_ended(self, line: Any) -> None:
        if line.epoch == 2:
            raise KeyboardInterrupt


class Told(pl.Callback):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self.figures: dict[str, float] = {}

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.epochs.append(trainer.current_epoch)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.figures = {name: float(value) for name, value in trainer.callback_metrics.items()}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on a network, a loader, a callback and a logger; look, do not touch."""
    out = tmp_path_factory.mktemp("given") / "run"
    given = net()
    before = {name: tensor.clone() for name, tensor in given.state_dict().items()}
    told, logger = Told(), CSVLogger(out.parent, name="log", version="one")
    loader = DataLoader(Squares(), batch_size=6, shuffle=True)
    assert train(config(), out, given=Given(given, loader, [told], [logger])) is not None
    assert given.training and all(torch.equal(before[name], value) for name, value in given.state_dict().items())
    assert told.epochs == [0, 1, 2]
    with (out / "log.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    assert told.figures["val_accuracy"] == pytest.approx(float(last["val_accuracy"]))
    with (out.parent / "log" / "one" / "metrics.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 3
    return out


def test_a_run_names_what_was_given_and_takes_the_numbers_of_the_loader(run: Path) -> None:
    remaining = Run(run).config
    assert (remaining.backbone, remaining.data, remaining.weights) == ("given:Net", "given:Squares", None)
    assert remaining.optimization.batch_size == 6
    listed = Run(run).read_images()
    assert listed is not None and len(listed.images) == 45
    assert listed.class_names == {"blue", "green", "red"}


def test_a_killed_run_goes_on_bit_for_bit_when_its_objects_are_given_again(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(config(), out, Stopping(), given=Given(net(), DataLoader(Squares(), batch_size=6)))
    with pytest.raises(RunError, match=r"give it again.*backbone="):
        resume(out, given=Given(dataset=Squares()))
    with pytest.raises(RunError, match=r"give it again.*dataset="):
        resume(out, given=Given(net()))
    with pytest.raises(RunError, match="has changed since"):
        resume(out, given=Given(net(), Squares(seed=1)))
    with pytest.raises(RunError, match="does not fit"):
        resume(out, given=Given(nn.Conv2d(3, 8, 3), Squares()))
    # Other weights than those that it began with: the run has kept these.
    assert resume(out, given=Given(net(seed=7), Squares())) is not None
    same(run, out)


def test_a_model_on_a_given_network_is_read_back_with_that_network_and_refused_without(run: Path) -> None:
    with pytest.raises(ModelFileError, match=r"handed over as an object.*PixPNet.load\(path, backbone=network\)"):
        px.PixPNet.load(run)
    with pytest.raises(ModelFileError, match="do not fit"):
        px.PixPNet.load(run, backbone=Net(channels=9))
    other, again = (px.PixPNet.load(run, backbone=net(seed)) for seed in (3, 4))
    image = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(other(image).logits, again(image).logits)
    assert px.Predictor(run, backbone=net(5)).predict(Squares()[0][0]).class_name in Squares.classes


def test_a_run_with_its_objects_opens_and_reports(run: Path) -> None:
    opened = px.Run(str(run), backbone=net(), dataset=Squares())
    data = opened.data()
    assert len(data.train) + len(data.val) + len(data.test) == 45 and not data.changes.sentences
    page = px.report(opened, examples=1)
    assert page.missing is None and "Squares" in page.html
    with pytest.raises(DataError, match="give it again"):
        px.Run(run).data()


def test_training_on_a_dataset_equals_training_on_a_folder_of_the_same_pictures(tmp_path: Path) -> None:
    """The same pixels in the same order, by files and by objects: the same weights to the last bit."""
    squares = Squares()
    for index in range(len(squares)):
        picture, label = squares[index]
        path = tmp_path / "photos" / Squares.classes[label] / f"{index:06d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.save(path)
    by_folder = replace(config(), data=f"folder:{tmp_path / 'photos'}", backbone="small-21", at="")
    files = sorted((tmp_path / "photos").rglob("*.png"))
    order = [(Image.open(path).convert("RGB"), Squares.classes.index(path.parent.name)) for path in files]
    train(by_folder, tmp_path / "folder")
    train(replace(by_folder, data="birds"), tmp_path / "object", given=Given(dataset=DatasetSplits(order, name="x")))
    one, two = (px.PixPNet.load(tmp_path / name).state_dict() for name in ("folder", "object"))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_callback_may_stop_a_run_which_is_then_judged_by_what_it_kept(tmp_path: Path) -> None:
    early = EarlyStopping("val_accuracy", mode="max", patience=0, min_delta=2.0)  # nothing is ever good enough
    out = tmp_path / "run"
    metrics = train(config(), out, given=Given(net(), Squares(), [early]))
    assert metrics is not None and metrics.epochs == 2
    never = EarlyStopping("loss", patience=0, min_delta=1e9)
    late = config().with_settings(replacement=replace(config().settings.replacement, start=9, every=9))  # type: ignore[attr-defined]
    with pytest.raises(RunError, match="stopped after 2 of 3 epochs"):
        train(late, tmp_path / "none", given=Given(net(), Squares(), [never]))


class Random(Squares):
    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        picture, label = super().__getitem__(index)
        return picture.rotate(float(np.random.default_rng().uniform(-40, 40))), label


class Alone(Squares):
    def __getitem__(self, index: int) -> Any:
        return self.pictures[index]


class Stream(IterableDataset[tuple[Image.Image, int]]):
    def __iter__(self) -> Any:
        return iter(())


def pairs(change: Any) -> list[Any]:
    return [change(*Squares()[index]) for index in range(9)]


@pytest.mark.parametrize(
    ("images", "error", "words"),
    [
        (Random(), DataError, "another picture each time.*random transforms"),
        (Stream(), TypeError, "IterableDataset has no items"),
        (DataLoader(Squares(), sampler=WeightedRandomSampler([1.0] * 45, 45)), DataError, "WeightedRandomSampler"),
        (DataLoader(Squares(), batch_size=None), DataError, "batch_size=None"),
        (DataLoader(Squares(), collate_fn=lambda items: items), DataError, "collate function"),
        (Alone(), TypeError, r"item 0 of Alone \(train\) is not \(image, label\)"),
        (pairs(lambda image, label: (image, "red")), TypeError, "a label is a whole number from 0, got 'red'"),
        (pairs(lambda image, label: (image, -1)), TypeError, "got -1"),
        (pairs(lambda image, label: (torch.rand(3, 8, 8), label)), TypeError, "without ToTensor and Normalize"),
        (DatasetSplits(Squares(), class_names=("a", "b")), DataError, "2 class names, and a label 2"),
        (
            DatasetSplits(pairs(lambda image, label: (image, 3 * label))),
            DataError,
            "no usable training image in class 1",
        ),
        (DatasetSplits(Squares(), test=Squares()), px.DataError, "also in train"),
    ],
)
def test_images_that_cannot_be_learnt_from_are_refused_with_what_to_do(
    images: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        open_datasets(images)


def test_splits_of_ones_own_stay_as_they_are() -> None:
    data = open_datasets(DatasetSplits(Squares(30), val=Squares(9, seed=1), test=Squares(6, seed=2), name="mine"))
    assert (data.name, len(data.train), len(data.val), len(data.test)) == ("mine", 30, 9, 6)
    # The mean by NumPy, over what may be learnt from, each picture with the same weight.
    seen = [np.asarray(picture).mean(axis=(0, 1)) / 255 for picture in (*Squares(30).pictures, *Squares(9, 1).pictures)]
    assert list(data.preprocessing.mean) == pytest.approx(np.mean(seen, axis=0).tolist(), abs=1e-6)
    assert open_datasets(pairs(lambda image, label: (image, label))).class_names == ("class 0", "class 1", "class 2")
    assert splits_of(DataLoader(Squares())).name == "Squares"


def test_a_configuration_and_objects_may_not_contradict_each_other(tmp_path: Path) -> None:
    wrong: Sequence[tuple[RunConfig, Given, str]] = [
        (replace(config(), backbone="resnet18"), Given(net()), "names another one, 'resnet18'"),
        (replace(config(), weights="none"), Given(net()), "leave them out"),
        (replace(config(), data="folder:x"), Given(dataset=Squares()), "names others, 'folder:x'"),
    ]
    for configuration, given, words in wrong:
        with pytest.raises(RunError, match=words):
            train(configuration, tmp_path / "run", given=given)
    assert not (tmp_path / "run").exists()


def test_progress_is_shown_on_stderr_and_can_be_switched_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = replace(config(), backbone="small-21", at="")
    watched_train(short, str(tmp_path / "shown"), dataset=Squares())
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("epoch   ") == 3
    watched_train(tmp_path / "shown" / "config.yaml", tmp_path / "silent", dataset=Squares(), show_progress=False)
    assert capsys.readouterr() == ("", "")


def test_wrong_arguments_of_the_library_get_one_clear_sentence() -> None:
    """In a process of its own: here, types are checked at every call."""
    code = """
import pixpnet as px
model = px.create_model(backbone="small-21", num_classes=2, size=32)
config = px.RunConfig()
for wrong in (
    lambda: px.train(123, "out"),
    lambda: px.train(config, 7),
    lambda: px.train(config, "out", dataset=object()),
    lambda: px.train(config, "out", backbone="resnet18"),
    lambda: px.train(config, "out", callbacks=[print]),
    lambda: px.train(config, "out", loggers=True),
    lambda: px.resume(None),
    lambda: px.explain(model, object()),
    lambda: px.explain(7, "jay.jpg"),
    lambda: px.explain_batch(model, "jay.jpg"),
    lambda: px.Predictor(model).predict([__import__("numpy").zeros((9, 9, 3), "uint8"), 5]),
    lambda: px.Predictor(model).predict(__import__("torch").zeros(2, 3, 9, 9, dtype=__import__("torch").uint8)),
    lambda: px.prove(model, 3, None),
    lambda: px.report(5),
    lambda: px.measure(5),
    lambda: px.compare("runs"),
    lambda: px.receptive_fields(3, (3, 8, 8)),
    lambda: px.Run(3),
):
    try:
        wrong()
    except TypeError as error:
        print(str(error).replace("\\n", "|"))
    except Exception as error:
        print("NOT", type(error), error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    output = done.stdout.splitlines()
    expected = (
        "RunConfig",
        "out is the folder of a run",
        "Dataset of (image, label)",
        "RunConfig(backbone=...)",
        "number 1 of 1 is no pytorch_lightning.Callback",
        "loggers is a list",
        "out is the folder of a run",
        "a picture is a path",
        "a PixPNet",
        "list of pictures",
        "picture 2: a picture is",
        "list(",
        "a picture is a path",
        "a run is the path of its folder",
        "a run is the path of its folder",
        "a list of runs",
        "a torch.nn.Module",
        "a run is the path of its folder",
    )
    assert len(output) == len(expected), done.stderr + done.stdout
    for line, words in zip(output, expected, strict=True):
        assert words in line and "NOT" not in line, line
