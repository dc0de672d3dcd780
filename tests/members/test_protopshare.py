"""ProtoPShare: what it starts from, rounds of merging after which the head learns, and shared prototypes."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pixpnet.config import RunConfig, read_config
from pixpnet.members.protopshare import Merge, Merging, ProtoPShareArchitecture, ProtoPShareConfig, stages
from pixpnet.model import PixPNet
from pixpnet.parts import ClassSets
from pixpnet.training import Run, open_run_data, resume, train
from pixpnet.training.actions import Replace
from pixpnet.training.fitting import Fitting
from pixpnet.training.preparing import prepare
from pixpnet.training.watching import Nobody
from tests.members.tiny import run_config
from tests.members.toys import Trained, trained_run
from tests.training.material import draw_pictures
from tests.training.sameness import same

# Epoch, prototypes and head after every step of the run below.
HEADS: list[tuple[int, str, torch.Tensor]] = []


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    folder = tmp_path_factory.mktemp("protopshare")
    made = run_config("protopshare", "laptop", draw_pictures(folder / "squares"), folder)
    settings: Any = made.settings
    optim = replace(settings.optimization, epochs=4, lr_head=1e-2)
    return replace(made, settings=replace(settings, optimization=optim, merging=Merging(share=0.3)))


@pytest.fixture(scope="module")
def trained(config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    def after_step(fitting: Fitting) -> None:
        weights: torch.Tensor = fitting.model.head.weights()  # type: ignore[operator]
        HEADS.append((fitting.current_epoch, fitting.epoch.stage.name, weights.detach().clone()))

    return trained_run(config, tmp_path_factory.mktemp("runs") / "run", after_step)


def test_the_defaults_are_the_published_numbers() -> None:
    settings = ProtoPShareConfig()
    assert (settings.architecture.own_weight, settings.architecture.other_weight) == (1.0, 0.0)
    assert (settings.optimization.epochs, settings.optimization.batch_size) == (50, 60)
    assert (settings.replacement.start, settings.replacement.every, settings.replacement.head_epochs) == (10, 5, 25)
    assert settings.merging == Merging(share=0.1, alike="answers")
    found = stages(settings)
    assert [(stage.name, stage.epochs) for stage in found[:4]] == [
        ("joint", 10),
        ("head", 25),
        ("joint", 5),
        ("head", 25),
    ]
    for stage in found:
        assert [type(action) for action in stage.at_end] == ([Replace, Merge] if stage.name == "joint" else [])


def test_it_takes_over_everything_but_the_head_unless_told_to(config: RunConfig, tmp_path: Path) -> None:
    start, data = PixPNet.load(config.start), open_run_data(config)
    begun = prepare(config, data, Run(tmp_path / "run"), Nobody()).model.state_dict()
    for name, tensor in start.state_dict().items():
        assert torch.equal(begun[name], tensor) == (name != "head.weight"), name
    assert set(begun["head.weight"].flatten().tolist()) == {0.0, 1.0}
    settings: Any = config.settings
    with_head = replace(config, settings=replace(settings, head="start"))
    begun = prepare(with_head, data, Run(tmp_path / "run"), Nobody()).model.state_dict()
    assert torch.equal(begun["head.weight"], start.state_dict()["head.weight"])


def test_the_head_changes_after_every_merge(trained: Trained) -> None:
    counts = [weights.shape[1] for _, _, weights in HEADS]
    assert counts == sorted(counts, reverse=True)
    rounds = sorted({(epoch, weights.shape[1]) for epoch, stage, weights in HEADS if stage == "head"})
    assert len(rounds) == 2
    assert 12 > rounds[0][1] > rounds[1][1]
    for epoch, _ in rounds:
        steps = [weights for at, _, weights in HEADS if at == epoch]
        assert not torch.equal(steps[0], steps[-1])


def test_the_model_that_is_kept_shares_prototypes_that_are_patches_of_any_of_their_classes(trained: Trained) -> None:
    model = trained.model
    ownership = model.ownership
    assert isinstance(ownership, ClassSets)
    assert any(len(ownership.owners(j)) > 1 for j in range(model.num_prototypes))
    assert model.num_prototypes == trained.metrics.prototypes < 12
    assert model.origins is not None
    for prototype, patch, origin in zip(model.prototypes.flatten(1), trained.patches(), model.origins, strict=True):
        torch.testing.assert_close(prototype, patch, rtol=1e-4, atol=1e-5)
        assert origin.label in ownership.owners(origin.prototype)
    # Accuracy before replacement is that of the network before its last merge.
    assert trained.metrics.validation_before is not None


def test_an_interrupted_run_ends_the_same_although_the_run_that_it_started_from_is_gone(
    trained: Trained, tmp_path: Path
) -> None:
    class Stopping(Nobody):
        def __init__(self, epoch: int) -> None:
            self.epoch = epoch

        def epoch_ended(self, line: Any) -> None:
            if line.epoch == self.epoch:
                raise KeyboardInterrupt

    # A copy under another name would be another configuration.
    start, aside = Path(trained.config.start), tmp_path / "aside"
    for epoch in (1, 3):
        out = tmp_path / f"run{epoch}"
        with pytest.raises(KeyboardInterrupt):
            train(trained.config, out, Stopping(epoch))
        shutil.move(start, aside)
        try:
            assert resume(out) is not None
        finally:
            shutil.move(aside, start)
        same(trained.path, out)


def test_the_configuration_says_which_model_it_started_from(trained: Trained) -> None:
    from pixpnet.manifest import digest_of

    config = read_config(trained.path / "config.yaml")
    assert config.start_model == digest_of(Path(trained.config.start) / "model.safetensors")
    assert config == trained.config


def test_merging_by_vectors_looks_at_no_image(trained: Trained) -> None:
    class Learning:
        taken_from = ()

        def __init__(self, model: PixPNet) -> None:
            self.model = model

    model = PixPNet.load(trained.config.start)
    owned = ProtoPShareArchitecture(dim=model.architecture.dim, prototypes_per_class=4, cells=model.architecture.cells)
    share = PixPNet(model.backbone, owned, model.class_names, model.preprocessing, model.backbone_name, "protopshare")
    vectors = torch.rand(share.prototypes.shape) + 5 * torch.arange(12)[:, None, None, None]
    vectors[7] = vectors[2] + 1e-3
    share.prototypes.data = vectors.clone()
    learner: Any = Learning(share)
    assert Merge(Merging(share=1 / 12, alike="vectors"))(learner) == {"prototypes": 11.0}
    assert share.ownership.owners(2) == (0, 1)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, float("nan")])
def test_impossible_shares_are_refused(share: float) -> None:
    with pytest.raises(ValueError, match=r"merging\.share"):
        Merging(share=share)


# A whole script, because Lightning starts it once more for the second process.
TWO_PROCESSES = """
import sys
import pixpnet._torchvision
import torch
import torch.distributed as dist
from pixpnet.cli import main
from pixpnet.training.fitting import Fitting

original = Fitting.on_train_batch_end

def ended(self, *args):
    original(self, *args)
    weights = self.model.head.weights().detach().clone()
    both = [torch.empty_like(weights) for _ in range(dist.get_world_size())]
    dist.all_gather(both, weights)
    if dist.get_rank() == 0:
        print("head", self.epoch.stage.name, weights.shape[1], torch.equal(*both), float(weights.sum()))

Fitting.on_train_batch_end = ended
sys.exit(main(sys.argv[1:]))
"""


def test_two_processes_have_the_same_head_after_a_merge_and_it_learns(trained: Trained, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(TWO_PROCESSES)
    words = ["train", "--config", str(trained.path / "config.yaml"), "--out", str(tmp_path / "run")]
    words += ["--device", "cpu", "--num-devices", "2", "--epochs", "2", "--evaluate-on-test", "false"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(
        [sys.executable, str(script), *words], capture_output=True, text=True, env=environment, timeout=400
    )
    assert done.returncode == 0, done.stderr
    heads = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("head ")]
    assert heads
    assert {line[2] for line in heads} == {"True"}
    merged = [line for line in heads if line[0] == "head"]
    assert {int(line[1]) for line in merged} == {PixPNet.load(tmp_path / "run").num_prototypes}
    assert int(merged[0][1]) < 12
    assert len({line[3] for line in merged}) > 1
