"""What learns in which stage of a run: pretraining of the backbone, and epochs of the head alone."""

import csv
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from pixpnet.config import RunConfig
from pixpnet.data import open_data, preprocess
from pixpnet.members.pixpnet import Architecture, Losses
from pixpnet.model import PixPNet
from pixpnet.settings import Optimization, Replacement
from pixpnet.training import steps, train
from pixpnet.training.fitting import Fitting
from tests.training.material import in_child, small_config
from tests.training.sameness import same

State = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Watched:
    """A run that was carried out, with the weights at the start of each epoch and when its last step was taken."""

    path: Path
    config: RunConfig
    stages: list[str]
    before: list[State]
    after: list[State]
    hidden: list[int]

    @property
    def log(self) -> list[dict[str, str]]:
        with (self.path / "log.csv").open() as file:
            return list(csv.DictReader(file))

    def learnt_in(self, number: int) -> set[str]:
        """The parts of the network that steps of an epoch changed."""
        before, after = self.before[number], self.after[number]
        return {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}


def watched(config: RunConfig, path: Path) -> Watched:
    run = Watched(path, config, [], [], [], [])
    start, end, leave_one_out = Fitting.on_train_epoch_start, Fitting.on_train_epoch_end, steps.leave_one_out

    def state(self: Fitting) -> State:
        return {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}

    def starting(self: Fitting) -> None:
        start(self)
        run.stages.append(self.epoch.stage.name)
        run.before.append(state(self))
        run.hidden.append(0)

    def ending(self: Fitting) -> None:
        run.after.append(state(self))
        end(self)

    def hiding(step: Any, from_it: torch.Tensor) -> Any:
        run.hidden[-1] += int(from_it.sum())
        return leave_one_out(step, from_it)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fitting, "on_train_epoch_start", starting)
        patch.setattr(Fitting, "on_train_epoch_end", ending)
        patch.setattr(steps, "leave_one_out", hiding)
        assert train(config, path) is not None
    return run


# Pretraining ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pretrained(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Two epochs of pretraining, one of warm-up and one of everything; look, do not touch."""
    optim = Optimization(epochs=2, pretraining_epochs=2, warm_up_epochs=1, batch_size=8, views=1)
    config = small_config(pictures, optimization=optim, losses=Losses(cluster_weight=0.8, leave_one_out=True))
    yield watched(config, tmp_path_factory.mktemp("pretrained") / "run")


def test_pretraining_teaches_the_backbone_alone(pretrained: Watched) -> None:
    assert pretrained.stages == ["pretraining", "pretraining", "warm_up", "joint"]
    assert [pretrained.learnt_in(number) for number in range(4)] == [
        {"backbone"},
        {"backbone"},
        {"add_on", "prototype_layer"},
        {"backbone", "add_on", "prototype_layer"},
    ]
    # At the end of the last one, and of no other, prototypes become patches.
    prototypes = "prototype_layer.prototypes"
    changed = [
        not torch.equal(end[prototypes], start[prototypes])
        for end, start in zip(pretrained.after, pretrained.before[1:], strict=False)
    ]
    assert changed == [False, True, True]


def test_pretraining_has_no_validation_figures_and_no_result(pretrained: Watched) -> None:
    lines = pretrained.log
    assert [line["stage"] for line in lines] == pretrained.stages
    figures = ("val_accuracy", "val_loss", "val_accuracy_after", "val_loss_after")
    assert [[bool(line[name]) for name in figures] for line in lines] == [[False] * 4] * 2 + [[True] * 4] * 2
    assert [line["best"] for line in lines[:2]] == ["False", "False"]
    assert [bool(line["replaced_distance"]) for line in lines] == [False, True, True, True]
    assert all(float(line["cross_entropy"]) == float(line["loss"]) > 0 for line in lines[:2])


def test_each_prototypes_own_image_is_left_out_once_in_every_epoch_after_a_replacement(pretrained: Watched) -> None:
    # 6 prototypes, and every image is shown once in an epoch.
    assert pretrained.hidden == [0, 0, 6, 6]


@pytest.mark.parametrize("kill", ["in the middle of an epoch", "in the middle of the third epoch"])
def test_a_run_that_is_killed_in_or_after_pretraining_resumes_to_the_same_end(
    pretrained: Watched, kill: str, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    assert in_child("train", config=pretrained.config, out=str(out), kill=kill) == -signal.SIGKILL
    done = torch.load(out / "checkpoints" / "last.ckpt", weights_only=True)["epoch"] + 1
    assert done == (1 if kill == "in the middle of an epoch" else 2)
    assert not (out / "model.safetensors").exists()
    assert in_child("resume", out=str(out)) == 0
    same(pretrained.path, out)


# A head that learns ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def headed(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Two epochs with replacement, each with two of the head after it; look, do not touch."""
    config = small_config(
        pictures,
        architecture=Architecture(dim=8, prototypes_per_class=2, head="linear"),
        optimization=Optimization(epochs=2, warm_up_epochs=0, batch_size=8, views=1, lr_head=0.05),
        replacement=Replacement(start=1, every=1, head_epochs=2),
    )
    yield watched(config, tmp_path_factory.mktemp("headed") / "run")


def test_the_head_learns_in_epochs_of_its_own_and_nothing_else_changes_in_them(headed: Watched) -> None:
    assert headed.stages == ["joint", "head", "head", "joint", "head", "head"]
    everything_else = {"backbone", "add_on", "prototype_layer"}
    assert [headed.learnt_in(number) for number in range(6)] == [everything_else, {"head"}, {"head"}] * 2
    # Nor does anything change between the last step of one epoch and the first of the next but what is replaced.
    for number, (end, start) in enumerate(zip(headed.after, headed.before[1:], strict=False)):
        changed = {name for name in end if not torch.equal(end[name], start[name])}
        assert changed == ({"prototype_layer.prototypes"} if headed.stages[number] == "joint" else set())


def test_a_run_that_is_killed_while_the_head_learns_resumes_to_the_same_end(headed: Watched, tmp_path: Path) -> None:
    out = tmp_path / "run"
    kill = "in the middle of the third epoch"
    assert in_child("train", config=headed.config, out=str(out), kill=kill) == -signal.SIGKILL
    assert PixPNet.load(out).origins is not None
    assert in_child("resume", out=str(out)) == 0
    same(headed.path, out)


def test_the_model_of_a_head_epoch_has_that_head_and_prototypes_that_are_patches(headed: Watched) -> None:
    (*_, best) = [line for line in headed.log if line["best"] == "True"]
    assert best["stage"] == "head"
    model, data = PixPNet.load(headed.path), open_data(headed.config.data)
    remaining = headed.after[int(best["epoch"]) - 1]
    assert {name for name, value in model.state_dict().items() if not torch.equal(value, remaining[name])} == set()
    assert not torch.equal(model.head.weight.data, headed.before[0]["head.weight"])
    entries = {entry.id: entry for entry in data.train}
    assert model.origins is not None
    for origin in model.origins:
        image = preprocess(data.reader(entries[origin.image]), model.preprocessing).image
        with torch.no_grad():
            maps = model(image.as_subclass(torch.Tensor)[None]).matches.distance_maps
        assert float(maps[0, origin.prototype, origin.row, origin.col]) < 1e-6
        assert entries[origin.image].label == origin.label
