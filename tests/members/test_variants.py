"""NP-, Quasi-, Gen-, Ps-, Semi- and Cosine ProtoPNet: formulas against NumPy, numbers, bad input, true fields."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from pixpnet.config import RunConfig
from pixpnet.data import Preprocessing
from pixpnet.explanation import explain, prove
from pixpnet.family import member_named
from pixpnet.members.cosineprotopnet import CosineProtoPNetArchitecture, CosineProtoPNetConfig
from pixpnet.members.genprotopnet import GenProtoPNetArchitecture, GenProtoPNetConfig
from pixpnet.members.npprotopnet import NPProtoPNetArchitecture, NPProtoPNetConfig
from pixpnet.members.psprotopnet import PsProtoPNetArchitecture, PsProtoPNetConfig
from pixpnet.members.quasiprotopnet import QuasiProtoPNetArchitecture, QuasiProtoPNetConfig
from pixpnet.members.semiprotopnet import SemiProtoPNetArchitecture, SemiProtoPNetConfig
from pixpnet.metrics.auditing import audit
from pixpnet.model import Backbone, PixPNet
from pixpnet.settings import Replacement
from pixpnet.training import open_run_data, replace_prototypes, train
from pixpnet.training.actions import Replace
from tests.members.numpy_networks import (
    Array,
    Case,
    cosine_maps,
    cross_entropy,
    log_similarity,
    smallest,
    squared_maps,
)
from tests.members.tiny import tiny_config
from tests.members.toys import pixel_model
from tests.training.material import batches_of, draw_pictures, entries_of

# Name, architecture, configuration, weight of the own class and of others, first of all.
SQUARED: list[tuple[str, Any, Any, float, float]] = [
    ("npprotopnet", NPProtoPNetArchitecture(dim=3, prototypes_per_class=2), NPProtoPNetConfig(), 1.0, -1.0),
    ("quasiprotopnet", QuasiProtoPNetArchitecture(dim=3, prototypes_per_class=2), QuasiProtoPNetConfig(), 1.0, 0.0),
    ("genprotopnet", GenProtoPNetArchitecture(dim=3, prototypes_per_class=2), GenProtoPNetConfig(), 1.0, -0.5),
    ("psprotopnet", PsProtoPNetArchitecture(dim=3, prototypes_per_class=2), PsProtoPNetConfig(), 1.0, -1.0),
    ("semiprotopnet", SemiProtoPNetArchitecture(dim=3, prototypes_per_class=2), SemiProtoPNetConfig(), 1.0, -0.5),
]
NAMES = [case[0] for case in SQUARED]


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw_pictures(tmp_path_factory.mktemp("variants") / "squares")


# Formulas -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("name", "architecture", "config", "own", "other"), SQUARED, ids=NAMES)
def test_the_loss_and_its_gradients_are_those_of_the_formulas(
    name: str, architecture: Any, config: Any, own: float, other: float, seed: int
) -> None:
    case = Case(member_named(name), architecture, config, classes=3, cells=(3, 4), seed=seed)
    weights = np.array([[own if c in classes else other for classes in case.owners] for c in range(3)])
    off_class = 1e-4 * sum(abs(other) for _ in range(3 * 6 - 6)) if name == "genprotopnet" else 0.0

    def loss(cells: Array, prototypes: Array) -> float:
        nearest = squared_maps(cells, prototypes).min(axis=(2, 3))
        cluster = smallest(nearest, case.labels, case.owners, own=True)
        separation = smallest(nearest, case.labels, case.owners, own=False)
        logits = log_similarity(nearest) @ weights.T
        return cross_entropy(logits, case.labels) + 0.8 * cluster - 0.08 * separation + off_class

    case.agrees(loss)


@pytest.mark.parametrize("seed", range(2))
def test_cosine_protopnets_loss_and_gradients_are_those_of_the_formulas(seed: int) -> None:
    architecture = CosineProtoPNetArchitecture(dim=3, prototypes_per_class=2)
    case = Case(member_named("cosineprotopnet"), architecture, CosineProtoPNetConfig(), 3, (3, 2), seed)
    # Learnt prototypes may point anywhere, so that some scores are cut off at 0.
    case.put(np.random.default_rng(seed).normal(size=case.prototypes.shape))
    weights = np.array([[1.0 if c in classes else -0.5 for classes in case.owners] for c in range(3)])

    def loss(cells: Array, prototypes: Array) -> float:
        scores = np.maximum(0, cosine_maps(cells, prototypes)).max(axis=(2, 3)) / 1.01
        own = -smallest(-scores, case.labels, case.owners, own=True)
        wrong = -smallest(-scores, case.labels, case.owners, own=False)
        return cross_entropy(scores @ weights.T, case.labels) - 0.8 * own + 0.08 * wrong + 1e-4 * 0.5 * 12

    case.agrees(loss)


@pytest.mark.parametrize("name", NAMES)
def test_cluster_does_not_saturate_at_the_largest_distance_of_sigmoid_features(name: str) -> None:
    _, architecture, config, _, _ = SQUARED[NAMES.index(name)]
    case = Case(member_named(name), architecture, config, classes=3, cells=(3, 4), seed=0)
    case.put(case.prototypes + 40.0)  # farther than B = D h w from every patch
    rows, cols = case.comparison.kernel
    cells = torch.from_numpy(case.cells).requires_grad_()
    step = case.step(cells)
    assert step.distances.min() > 3 * rows * cols
    cluster = next(term for term in case.losses if term.name == "cluster")
    (pull,) = torch.autograd.grad(cluster.function(step), cells)
    assert pull.abs().sum() > 1


class Largest(TorchDispatchMode):
    """Remembers the most numbers that any tensor had."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        for result in results if isinstance(results, (tuple, list)) else (results,):
            if isinstance(result, torch.Tensor):
                self.numbers = max(self.numbers, result.numel())
        return results


@pytest.mark.parametrize("name", [*NAMES, "cosineprotopnet"])
def test_no_step_makes_a_tensor_of_images_by_prototypes_by_cells_by_dimensions(name: str) -> None:
    settings: Any = member_named(name).preset("paper")
    architecture = replace(settings.architecture, dim=32, prototypes_per_class=10)
    case = Case(member_named(name), architecture, settings, classes=4, cells=(8, 8), seed=0)
    with Largest() as largest:
        case.loss_and_gradients()
    images, protos, _, _ = case.step(torch.from_numpy(case.cells)).required_matches.grids[0].distance_maps.shape
    # Maps of distances, and embeddings, are the largest.
    assert largest.numbers <= 2 * max(images * protos * 64, case.cells.size)
    assert largest.numbers < images * protos * 64 * 32 / 10


# Numbers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*NAMES, "cosineprotopnet"])
def test_numbers_that_papers_do_not_give_are_protopnets(name: str) -> None:
    settings: Any = member_named(name).preset("paper")
    published: Any = member_named("protopnet").preset("paper")
    assert settings.optimization == published.optimization
    assert settings.architecture.dim == 128
    assert settings.architecture.prototypes_per_class == 10
    assert set(member_named(name).presets) == {"paper", "laptop", "scratch", "frozen", "tail"}


@pytest.mark.parametrize("name", ["npprotopnet", "quasiprotopnet", "psprotopnet", "semiprotopnet"])
def test_heads_that_never_learn_have_no_stage_no_parameters_that_learn_and_no_l1(name: str) -> None:
    member = member_named(name)
    result = member.stages(member.preset("paper"))
    assert {stage.name for stage in result} == {"warm_up", "joint"}
    assert {term.name for stage in result for term in stage.losses} == {"cross_entropy", "cluster", "separation"}
    decision = member.parts(member.preset("paper").architecture, (4,), 3).decision
    assert not any(parameter.requires_grad for parameter in decision.parameters())


@pytest.mark.parametrize("name", ["npprotopnet", "quasiprotopnet", "psprotopnet"])
def test_epochs_of_a_head_that_never_learns_are_refused(name: str) -> None:
    settings: Any = member_named(name).preset("paper")
    with pytest.raises(ValueError, match="head never learns"):
        replace(settings, replacement=Replacement(head_epochs=3))


def test_only_semi_protopnet_never_replaces_and_may_be_kept_after_every_joint_epoch() -> None:
    for name in [*NAMES, "cosineprotopnet"]:
        for preset in member_named(name).presets.values():
            result = member_named(name).stages(preset)
            replaces = any(isinstance(action, Replace) for stage in result for action in stage.at_end)
            assert replaces == (name != "semiprotopnet")
    stages = member_named("semiprotopnet").stages(SemiProtoPNetConfig())
    assert [(stage.name, stage.epochs, stage.selectable) for stage in stages] == [
        ("warm_up", 5, "never"), ("joint", 45, "every epoch"),
    ]  # fmt: skip


# Where learning begins ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*NAMES, "protopnet", "proto2proto", "protopshare"])
def test_squared_distances_begin_at_about_1_on_photographs_and_at_dozens_as_published(name: str) -> None:
    member = member_named(name)
    torch.manual_seed(0)
    cells = torch.randn(2, 256, 6, 6)
    for preset, settings in member.presets.items():
        parts = member.parts(settings.architecture, (256,), 4)
        with torch.no_grad():
            distances = parts.comparisons[0].distance_maps(parts.add_ons[0](cells))
        if preset in ("laptop", "frozen", "tail"):
            assert 0.5 < distances.mean() < 2
        else:
            assert distances.mean() > 10


@pytest.mark.parametrize("name", [*NAMES, "protopnet", "proto2proto", "protopshare"])
def test_on_photographs_losses_weigh_an_eighth_and_single_cells_of_kept_features_lose_channels(name: str) -> None:
    presets: Any = member_named(name).presets
    published = presets["paper"].losses
    for preset, settings in presets.items():
        share = 8 if preset in ("laptop", "frozen", "tail") else 1
        assert settings.losses == replace(
            published,
            cluster_weight=published.cluster_weight / share,
            separation_weight=published.separation_weight / share,
        )
        single = name in ("protopnet", "npprotopnet", "proto2proto", "protopshare")
        assert settings.architecture.channel_dropout == (0.5 if single and preset in ("frozen", "tail") else 0)


# Windows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [(1, 1), (1, 3), (3, 1)])
def test_ps_protopnet_has_windows_of_several_rows_and_columns(kernel: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="at least two rows and two columns"):
        PsProtoPNetArchitecture(prototype_rows=kernel[0], prototype_cols=kernel[1])


@pytest.mark.parametrize("name", ["quasiprotopnet", "genprotopnet", "psprotopnet", "semiprotopnet"])
def test_windows_larger_than_the_grid_are_refused_before_anything_is_written(
    name: str, squares: Path, tmp_path: Path
) -> None:
    config = tiny_config(name, "laptop", squares)
    settings: Any = config.settings
    wide = replace(settings, architecture=replace(settings.architecture, prototype_cols=99))
    with pytest.raises(ValueError, match=r"prototypes of \d x 99 cells do not fit"):
        train(replace(config, settings=wide), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_window_takes_the_place_of_a_prototype_whole() -> None:
    architecture = GenProtoPNetArchitecture(dim=3, prototypes_per_class=1)
    model = pixel_model("genprotopnet", architecture, classes=2, size=4)
    rng = np.random.default_rng(0)
    images, labels, ids = rng.random((4, 3, 4, 4)).astype(np.float32), [0, 1, 0, 1], ["a", "b", "c", "d"]
    before = model.prototypes.detach().numpy().astype(np.float64)
    replacement = GenProtoPNetConfig().replacement
    batches = batches_of(torch.from_numpy(images), labels, ids, 3)
    origins = replace_prototypes(model, batches, entries_of(labels, ids), replacement)
    distances = squared_maps(images.astype(np.float64), before)
    for j, origin in enumerate(origins):
        n, y, x = min(
            ((n, y, x) for n, y, x in np.ndindex(4, 3, 2) if labels[n] == j),
            key=lambda at: distances[at[0], j, at[1], at[2]],
        )
        assert (origin.image, origin.row, origin.col) == (ids[n], y, x)
        np.testing.assert_array_equal(model.prototypes[j].detach().numpy(), images[n, :, y : y + 2, x : x + 3])


def test_the_region_of_a_window_is_the_union_of_the_fields_of_its_cells() -> None:
    architecture = GenProtoPNetArchitecture(dim=3, prototypes_per_class=1)
    names = ["one", "two"]
    backbone = Backbone(nn.Conv2d(3, 4, 3, stride=2), "", (13, 13))
    model = PixPNet(backbone, architecture, names, Preprocessing().scaled_to(13), member="genprotopnet").eval()
    # 6 x 6 cells of 3 x 3 pixels, two apart: two rows see 5 pixels, three columns 7.
    assert model.field.shape[-2:] == (5, 4)
    assert model.field.boxes(1, 2) == [(2, 4, 7, 11)]


# What nobody can look at ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def semi(squares: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunConfig, Path]:
    config = tiny_config("semiprotopnet", "laptop", squares)
    out = tmp_path_factory.mktemp("semi") / "run"
    assert train(config, out) is not None
    return config, out


def test_semi_protopnet_fails_the_first_desideratum_and_says_so_everywhere(
    semi: tuple[RunConfig, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from pixpnet.cli import main
    from pixpnet.commands.train import summary
    from pixpnet.records import from_plain
    from pixpnet.training import Metrics, Run

    config, out = semi
    data, model = open_run_data(config), PixPNet.load(out)
    assert model.origins is None
    assert audit(out, model, data, pixels=1).grounding.verdict == "fails"
    sample = data.reader(data.val[0])
    proven = prove(model, sample, explain(model, sample), draws=2)
    # What was seen is proven all the same; and the box that upsampling would draw is tested beside it.
    assert all(term.proof is not None and term.proof.passed for term in proven.predicted.terms)
    assert any(term.proof is not None and term.proof.upsampling is not None for term in proven.predicted.terms)
    assert "no training patch" in str(proven)
    metrics = from_plain(Metrics, Run(out).read_metrics(), "metrics")
    assert metrics.validation_before is None
    text = summary(metrics, out)
    assert "no patches of training images" in text
    assert "replacement" not in text
    assert main(["report", str(out), "--examples", "1", "--out", str(tmp_path / "report.html")]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "never replaced by patches" in page
    assert "after replacement" not in page
    assert not (out / "prototypes").exists()
