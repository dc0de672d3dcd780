"""Proto2Proto: transfer losses against NumPy, its stages, and a student that comes nearer to its teacher."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pixpnet.cli import main
from pixpnet.config import RunConfig
from pixpnet.members.proto2proto import Proto2ProtoArchitecture, Proto2ProtoConfig, Proto2ProtoLosses, parts, stages
from pixpnet.model import PixPNet
from pixpnet.parts.losses import loss_of
from pixpnet.parts.matches import matches_of
from pixpnet.parts.transfer import FeatureTransfer, TaughtStep, prototype_loss
from pixpnet.training import Run, open_run_data, resume, train
from pixpnet.training.preparing import prepare
from pixpnet.training.watching import Nobody
from tests.members.numpy_networks import Array, cross_entropy, log_similarity, slope, smallest, squared_maps
from tests.members.tiny import run_config, tiny_config
from tests.training.material import draw_pictures
from tests.training.sameness import same

OWNERS = [(0,), (0,), (1,), (1,)]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    folder = tmp_path_factory.mktemp("proto2proto")
    return run_config("proto2proto", "laptop", draw_pictures(folder / "squares"), folder)


# Formulas -----------------------------------------------------------------------------------------------------------


def centered(maps: Array, rows: int, cols: int) -> Array:
    large = np.zeros((*maps.shape[:2], rows, cols))
    top, left = (rows - maps.shape[2]) // 2, (cols - maps.shape[3]) // 2
    large[:, :, top : top + maps.shape[2], left : left + maps.shape[3]] = maps
    return large


def transfer(ours: Array, theirs: Array, maps: Array, threshold: float) -> float:
    """Cell by cell: those that are the nearest of some prototype, nearer than the threshold."""
    rows, cols = max(ours.shape[2], theirs.shape[2]), max(ours.shape[3], theirs.shape[3])
    mask = np.zeros((len(maps), 1, *maps.shape[2:]))
    for n, j in np.ndindex(*maps.shape[:2]):
        y, x = np.unravel_index(maps[n, j].argmin(), maps.shape[2:])
        if maps[n, j, y, x] < threshold:
            mask[n, 0, y, x] = 1
    differences = (centered(theirs, rows, cols) - centered(ours, rows, cols)) ** 2 * centered(mask, rows, cols)
    return float(differences.sum() / (2 * mask.sum() + 1))


class Pair:
    """A student and a teacher on random cells, in double precision."""

    def __init__(
        self, seed: int, their_cells: tuple[int, int] = (3, 2), threshold: float = 0.25, of: str = "student"
    ) -> None:
        rng = np.random.default_rng(seed)
        torch.manual_seed(seed)
        architecture = Proto2ProtoArchitecture(dim=3, prototypes_per_class=2)
        self.parts = parts(architecture, (4,), 2)
        self.comparison = self.parts.comparisons[0].double()
        self.parts.decision.double()
        self.theirs = parts(architecture, (4,), 2).comparisons[0].double()
        self.labels = [0, 1, 1]
        self.cells: Array = rng.random((3, 3, 3, 2))
        self.their_cells: Array = rng.random((3, 3, *their_cells))
        self.prototypes: Array = self.comparison.prototypes.detach().numpy().copy()
        losses = Proto2ProtoLosses(threshold=threshold, cells_of=of)  # type: ignore[arg-type]
        found = stages(replace(Proto2ProtoConfig(), losses=losses))
        self.warm = next(stage for stage in found if stage.name == "warm_up").losses
        self.joint = next(stage for stage in found if stage.name == "joint").losses

    def step(self, cells: torch.Tensor) -> TaughtStep:
        matches = matches_of((self.comparison(cells),))
        theirs = torch.from_numpy(self.their_cells)
        return TaughtStep(
            self.parts.decision(matches), torch.tensor(self.labels), self.parts, matches, (cells,),
            teacher_embeddings=(theirs,),
            teacher_matches=matches_of((self.theirs(theirs),)),
            teacher_prototypes=(self.theirs.prototypes.detach(),),
        )  # fmt: skip

    @property
    def their_prototypes(self) -> Array:
        return self.theirs.prototypes.detach().numpy()


def prototype_distance(ours: Array, theirs: Array) -> float:
    return float(np.mean([np.sqrt(((a - b + 1e-6) ** 2).sum()) for a, b in zip(ours, theirs, strict=True)]))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("of", ["student", "teacher"])
def test_the_loss_and_its_gradients_are_those_of_the_formulas(seed: int, of: str) -> None:
    pair = Pair(seed, of=of)
    weights = np.array([[1.0, 1.0, -0.5, -0.5], [-0.5, -0.5, 1.0, 1.0]])

    def loss(cells: Array, prototypes: Array) -> float:
        maps = squared_maps(cells, prototypes)
        nearest = maps.min(axis=(2, 3))
        deciding = maps if of == "student" else squared_maps(pair.their_cells, pair.their_prototypes)
        return (
            cross_entropy(log_similarity(nearest) @ weights.T, pair.labels)
            + 1.0 * smallest(nearest, pair.labels, OWNERS, own=True)
            - 0.08 * smallest(nearest, pair.labels, OWNERS, own=False)
            + 1e-4 * 4 * 0.5
            + 10 * transfer(cells, pair.their_cells, deciding, 0.25)
            + 10 * prototype_distance(prototypes, pair.their_prototypes)
        )

    cells = torch.from_numpy(pair.cells).requires_grad_()
    total = loss_of(pair.step(cells), pair.joint).total
    by_cells, by_prototypes = torch.autograd.grad(total, (cells, pair.comparison.prototypes))
    assert float(total.detach()) == pytest.approx(loss(pair.cells, pair.prototypes), rel=1e-10)
    np.testing.assert_allclose(by_cells.numpy(), slope(lambda at: loss(at, pair.prototypes), pair.cells), 1e-5, 1e-6)
    np.testing.assert_allclose(
        by_prototypes.numpy(), slope(lambda at: loss(pair.cells, at), pair.prototypes), 1e-5, 1e-6
    )


@pytest.mark.parametrize("their_cells", [(5, 4), (1, 1), (2, 4)])
def test_maps_of_different_sizes_are_centred_in_zeros(their_cells: tuple[int, int]) -> None:
    pair = Pair(0, their_cells)
    found = FeatureTransfer(0.25, "student")(pair.step(torch.from_numpy(pair.cells))).detach()
    maps = squared_maps(pair.cells, pair.prototypes)
    assert float(found) == pytest.approx(transfer(pair.cells, pair.their_cells, maps, 0.25), rel=1e-10)


def test_without_any_near_cell_there_is_nothing_to_transfer() -> None:
    pair = Pair(0, threshold=1e-9)
    assert float(FeatureTransfer(1e-9, "student")(pair.step(torch.from_numpy(pair.cells))).detach()) == 0


def test_the_norm_of_prototypes_is_over_all_numbers_of_each_and_not_over_the_last_axis() -> None:
    # What newer versions of PairwiseDistance would give for prototypes of 1 x 1 cells is a mean of absolute values.
    ours, theirs = torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.zeros(2, 2)
    assert float(prototype_loss(ours, theirs)) == pytest.approx(2.5, rel=1e-5)


# Stages -------------------------------------------------------------------------------------------------------------


def test_the_defaults_are_the_published_numbers() -> None:
    settings = Proto2ProtoConfig()
    assert settings.architecture.dim == 256
    losses = settings.losses
    assert (losses.cluster_weight, losses.separation_weight, losses.off_class_l1) == (1.0, 0.08, 1e-4)
    assert (losses.feature_weight, losses.prototype_weight, losses.threshold) == (10.0, 10.0, 100.0)
    optim = settings.optimization
    assert (optim.lr_backbone, optim.lr_add_on, optim.lr_prototypes, optim.lr_head) == (2e-4, 3e-3, 3e-3, 1e-4)
    found = stages(settings)
    assert [(stage.name, stage.epochs) for stage in found] == [
        ("warm_up", 6), ("joint", 6), ("head", 10), ("joint", 10), ("head", 10), ("joint", 10), ("head", 10),
    ]  # fmt: skip
    assert [term.name for term in found[0].losses] == ["feature_transfer", "prototype_transfer"]
    assert found[1].learns == {"backbone", "add_on", "prototypes", "head"}
    assert {term.name: term.weight for term in found[2].losses} == {term.name: term.weight for term in found[1].losses}
    # Epochs are counted from 1: the 20th is the first with lower rates, the 24th the second.
    rates = [found[1].rate(epoch - 1) for epoch in (19, 20, 23, 24)]
    assert rates == pytest.approx([1.0, 0.1, 0.1, 0.01])


def test_nothing_to_transfer_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to learn from a teacher"):
        Proto2ProtoLosses(feature_weight=0.0, prototype_weight=0.0)


# Runs ---------------------------------------------------------------------------------------------------------------


def test_the_students_head_begins_as_the_teachers(config: RunConfig, tmp_path: Path) -> None:
    begun = prepare(config, open_run_data(config), Run(tmp_path / "run"), Nobody()).model
    teacher = PixPNet.load(config.teacher)
    assert torch.equal(begun.head.state_dict()["weight"], teacher.head.state_dict()["weight"])
    assert not torch.equal(begun.prototypes, teacher.prototypes)


def test_a_student_comes_nearer_to_its_teacher_and_ends_the_same_when_the_teacher_is_gone(
    config: RunConfig, tmp_path: Path
) -> None:
    settings: Any = config.settings
    optim = replace(settings.optimization, epochs=3, warm_up_epochs=2, lr_prototypes=3e-2, views=2)
    longer = replace(config, settings=replace(settings, optimization=optim))
    teacher, data = PixPNet.load(config.teacher), open_run_data(config)
    before = prepare(longer, data, Run(tmp_path / "run"), Nobody()).model
    far = float(prototype_loss(before.prototypes.flatten(1), teacher.prototypes.flatten(1)).detach())
    whole, broken = tmp_path / "run", tmp_path / "broken"
    assert train(longer, whole) is not None
    lines = (whole / "log.csv").read_text().splitlines()
    columns = lines[0].split(",")
    distances = [float(line.split(",")[columns.index("prototype_transfer")]) for line in lines[1:3]]
    assert far > distances[0] > distances[1]
    assert not torch.any(torch.tensor([tensor.isnan().any() for tensor in PixPNet.load(whole).state_dict().values()]))

    class Stopping(Nobody):
        def epoch_ended(self, line: Any) -> None:
            if line.epoch == 1:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(longer, broken, Stopping())
    shutil.move(config.teacher, tmp_path / "aside")
    try:
        assert resume(broken) is not None
    finally:
        shutil.move(tmp_path / "aside", config.teacher)
    same(whole, broken)


def test_on_kept_features_the_teacher_needs_the_same_frozen_layers(config: RunConfig, tmp_path: Path) -> None:
    squares = Path(config.data.removeprefix("folder:"))
    # This teacher's backbone has learnt.
    student = tiny_config("proto2proto", "frozen", squares, teacher=config.teacher)
    with pytest.raises(ValueError, match="the teacher's layers are not the same"):
        train(student, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert train(run_config("proto2proto", "frozen", squares, tmp_path), tmp_path / "frozen") is not None


def test_the_teacher_is_in_no_file_of_the_student_but_its_own(config: RunConfig, tmp_path: Path) -> None:
    assert train(config, tmp_path / "run") is not None
    state = torch.load(tmp_path / "run" / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
    assert not [name for name in state if "teacher" in name]
    kept = tmp_path / "run" / "checkpoints" / "teacher.safetensors"
    assert kept.read_bytes() == (Path(config.teacher) / "model.safetensors").read_bytes()


def test_evaluation_says_what_the_student_has_of_its_teacher(
    config: RunConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(config, tmp_path / "run") is not None
    words = ["evaluate", str(tmp_path / "run"), "--split", "val", "--teacher", config.teacher]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "(AAP)" in text
    assert "(AJS)" in text
    assert "(PMS)" in text
    assert main([*words, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)["transfer"]
    assert 0 <= record["overlap"]["mean"] <= 1
    assert 0 <= record["matching"] <= 1
