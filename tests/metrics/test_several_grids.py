"""Two cuts of one backbone: every measurement asks each prototype's own grid."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torchvision import tv_tensors

from pixpnet.box import Box
from pixpnet.data import DataSet, Sample
from pixpnet.fields import receptive_fields
from pixpnet.mapping import MAPPINGS, heatmaps
from pixpnet.metrics import (
    answer_places,
    consistency_and_stability,
    prototype_distinctiveness,
    prototype_health,
    prototype_purity,
    relevance_ordering,
)
from pixpnet.metrics.answering import answers
from pixpnet.metrics.auditing import Audit, audit
from pixpnet.metrics.consistency import Consistency
from pixpnet.metrics.health.duplicates import near_rows
from pixpnet.metrics.ordering import Spacing
from pixpnet.metrics.ordering.full import full_distance_maps
from pixpnet.metrics.ordering.incremental import incremental_distance_maps
from pixpnet.metrics.ordering.plan import plan
from pixpnet.metrics.regions import Cell, CellRegions
from pixpnet.metrics.suite import MeasureSettings, measure
from pixpnet.model import PixPNet
from pixpnet.training import open_run_data, train
from tests.mapping.material import two_grids
from tests.metrics.toys import painted
from tests.training.material import small_config

SIZE = 13
PARTS = (0, 1, 2)


def samples(count: int = 4, size: int = SIZE) -> list[Sample]:
    generator = torch.Generator().manual_seed(1)
    return [
        Sample(
            image=tv_tensors.Image(torch.randn(3, size, size, generator=generator)),
            label=number % 2,
            id=f"picture {number}",
            source_size=(size, size),
            to_source=torch.eye(3, dtype=torch.float64),
            keypoints=tv_tensors.KeyPoints(size * torch.rand(3, 2, generator=generator), canvas_size=(size, size)),
            visible=torch.ones(3, dtype=torch.bool),
        )
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def model() -> PixPNet:
    return two_grids(SIZE)


# Relevance ordering -------------------------------------------------------------------------------------------


def maps_of(model: PixPNet, images: Tensor, prototype: int) -> Tensor:
    with torch.no_grad():
        return model.similarity_maps(model(images).matches, [prototype])[0]


@pytest.mark.parametrize("prototype", [1, 4])
def test_whole_maps_are_those_of_the_network_after_every_step(prototype: int) -> None:
    model = two_grids(SIZE).double()
    grid, chosen = model.grid_of(prototype), torch.tensor([prototype])
    start, image = torch.randn(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    order = torch.randperm(SIZE * SIZE, generator=torch.Generator().manual_seed(0))[:40]
    prepared = replace(plan(model, (SIZE, SIZE), grid.number), block=7)
    result = torch.cat(list(incremental_distance_maps(model, prepared, start, image, order, chosen)))[:, 0]
    expected = maps_of(model, painted(start, image, order.tolist()), prototype)
    torch.testing.assert_close(grid.comparison.similarity(result), expected, rtol=1e-9, atol=0)


def test_what_lies_behind_the_cut_of_a_grid_is_not_computed_for_it(model: PixPNet) -> None:
    near, far = (plan(model, (SIZE, SIZE), grid) for grid in (0, 1))
    assert near.nodes[-1].shape == (5, 7, 7)
    assert far.nodes[-1].shape == (5, 3, 3)
    assert all(node.shape[1:] != (3, 3) for node in near.nodes)


def test_prototypes_of_several_grids_have_no_maps_in_common(model: PixPNet) -> None:
    image = torch.zeros(3, SIZE, SIZE)
    order, steps = torch.arange(SIZE * SIZE), torch.tensor([0])
    with pytest.raises(ValueError, match="several grids"):
        next(full_distance_maps(model, image, image, order, torch.tensor([0, 5]), steps))


@pytest.mark.parametrize("mapping", ["field", "upsampling", "prp", "random"])
def test_exact_and_stepped_curves_agree_where_every_step_is_a_point(model: PixPNet, mapping: str) -> None:
    exact, stepped = (
        relevance_ordering(
            model,
            samples(2),
            MAPPINGS[mapping],
            method=method,
            prototypes_per_sample=None,
            spacing=Spacing(points=2000, finer=0, times=0),
        )
        for method in ("exact", "stepped")
    )
    assert (exact.method, stepped.method) == ("exact", "stepped")
    assert sorted(pair.prototype for pair in exact.pairs) == [0, 1, 2, 3, 4, 5]
    for one, other in zip(exact.pairs, stepped.pairs, strict=True):
        assert len(one.curve.fractions) == SIZE * SIZE + 1
        assert one.curve.similarities.tolist() == pytest.approx(other.curve.similarities.tolist(), rel=1e-5)


def test_a_curve_ends_at_the_similarity_of_the_image(model: PixPNet) -> None:
    pool = samples(2)
    result = relevance_ordering(model, pool, MAPPINGS["field"], prototypes_per_sample=None)
    by_id = {sample.id: sample.image.as_subclass(Tensor) for sample in pool}
    for pair in result.pairs:
        expected = maps_of(model, by_id[pair.sample][None], pair.prototype).amax()
        assert pair.curve.similarities[-1].item() == pytest.approx(expected.item(), rel=1e-5)


# Parts and places ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mapping", ["field", "upsampling"])
def test_consistency_is_that_of_what_the_mapping_claims(model: PixPNet, mapping: str) -> None:
    pool = samples(6)
    result = consistency_and_stability(model, pool, PARTS, mapping, "claimed")
    metric = Consistency(6, PARTS)
    for sample in pool:
        prototypes = model.prototypes_of(sample.label).tolist()
        regions = heatmaps(model, sample.image.as_subclass(Tensor), prototypes, mapping).regions
        metric.update(prototypes, regions, sample.keypoints, sample.visible)
    assert [prototype.frequency for prototype in result.prototypes] == [
        best and best.frequency for best in metric.compute().best
    ]
    assert [prototype.label for prototype in result.prototypes] == [0, 0, 1, 1, 0, 1]
    assert (result.undefined, result.not_drawn) == (0, 0)


def test_answers_name_the_cells_of_each_grid(model: PixPNet) -> None:
    (answer,) = answers(model, samples(1))
    cells = answer.cells_of(torch.arange(6))
    assert [cell.grid for cell in cells] == [0, 0, 0, 0, 1, 1]
    regions = CellRegions(model, (SIZE, SIZE))
    expected = heatmaps(model, samples(1)[0].image.as_subclass(Tensor), range(6)).regions
    assert tuple(map(regions.region, cells)) == expected


def test_the_same_row_and_column_of_two_grids_are_two_places(model: PixPNet) -> None:
    regions = CellRegions(model, (SIZE, SIZE))
    near, far = Cell(0, 1, 1), Cell(1, 1, 1)
    assert near != far
    inside, around = (model.fields[grid].mask(1, 1) for grid in (0, 1))
    expected = int((inside & around).sum()) / int((inside | around).sum())
    assert regions.mean_iou([near, far]) == regions.mean_iou([far, near]) == expected < 1


def test_places_and_purity_by_masks(model: PixPNet) -> None:
    pool = samples(4)
    with torch.no_grad():
        output = model(torch.stack([sample.image.as_subclass(Tensor) for sample in pool]))
    covered = []
    for number, predicted in enumerate(output.logits.argmax(dim=1).tolist()):
        own = model.prototypes_of(predicted).tolist()
        seen = [
            model.fields[model.grid_of(prototype).number].mask(*output.matches.cells[number, prototype].tolist())
            for prototype in own
        ]
        covered.append(torch.stack(seen).any(dim=0).double().mean().item())
    result = answer_places(model, pool).image_covered.estimate
    assert result is not None
    assert result.mean == pytest.approx(sum(covered) / 4)
    assert prototype_distinctiveness(model, pool).field.undefined == 0
    assert prototype_purity(model, pool, PARTS, images=2).prototypes == 6


def test_vectors_of_different_grids_are_no_duplicates(model: PixPNet) -> None:
    model = two_grids(SIZE)
    with torch.no_grad():
        for grid in model.grids:
            grid.comparison.prototypes[:] = 0.5
    near = torch.cat([rows for _, rows in near_rows(model)])
    assert near[:4, :4].all() and near[4:, 4:].all()
    assert not near[:4, 4:].any() and not near[4:, :4].any()


# A run --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = small_config(pictures, at="stage1,stage3")
    path = tmp_path_factory.mktemp("grids") / "run"
    train(config, path)
    return path


@pytest.fixture(scope="module")
def data(run: Path, pictures: Path) -> DataSet:
    return open_run_data(small_config(pictures, at="stage1,stage3"))


def audited(run: Path, data: DataSet | None, model: PixPNet | None = None) -> Audit:
    return audit(run, model or PixPNet.load(run), data, threshold=0.75, pixels=3)


def failures(result: Audit) -> list[str]:
    parts = (result.grounding, result.localization, result.reasoning, result.conduct)
    return [finding.claim for part in parts for finding in part.findings if finding.verdict == "fails"]


def test_an_honest_run_passes_the_audit(run: Path, data: DataSet) -> None:
    result = audited(run, data)
    assert result.verdict == "holds", failures(result)
    assert result.grounding.checked == 6
    model = PixPNet.load(run)
    near, far = model.fields
    # One of the two prototypes of a class looks at each grid.
    assert result.localization.mean_field == pytest.approx((near.mean_fraction_union + far.mean_fraction_union) / 2)
    assert result.localization.largest_field == max(near.max_fraction, far.max_fraction)
    assert "of 16 x 16 cells" in result.localization.findings[0].evidence
    assert "of 4 x 4 cells" in result.localization.findings[0].evidence


@pytest.mark.parametrize("grid", [0, 1])
def test_a_prototype_that_was_changed_is_found_in_its_grid(run: Path, data: DataSet, grid: int) -> None:
    model = PixPNet.load(run)
    model.grids[grid].comparison.prototypes.data[1, 2] += 0.01
    result = audited(run, data, model)
    assert failures(result) == ["every prototype is its patch"]
    assert result.grounding.failed == (model.grids[grid].first + 1,)


def test_an_origin_in_another_grid_is_found(run: Path, data: DataSet) -> None:
    model = PixPNet.load(run)
    assert model.origins is not None
    wrong = replace(model.origins[5], grid=0, row=0, col=0)
    wrong = replace(wrong, boxes=tuple(Box(*box) for box in model.fields[0].boxes(0, 0)))
    model.origins = (*model.origins[:5], wrong)
    result = audited(run, data, model)
    assert "every region is the exact field of its cell" in failures(result)
    assert result.grounding.failed == (5,)


@pytest.mark.parametrize("grid", [0, 1])
def test_a_wrong_field_of_either_grid_is_found_by_the_probe(run: Path, grid: int) -> None:
    model = PixPNet.load(run)
    stride = (2, 8)[grid]
    narrow = receptive_fields(nn.Conv2d(3, 8, 1, stride=stride), (3, 32, 32))[""]
    fields = list(model.fields)
    assert narrow.shape[-2:] == fields[grid].shape[-2:]
    fields[grid] = narrow
    model._fields[32, 32] = tuple(fields)
    assert "the fields are those of this network" in failures(audit(run, model, None, pixels=6))


def test_health_and_the_whole_suite(run: Path, data: DataSet, tmp_path: Path) -> None:
    model = PixPNet.load(run)
    health = prototype_health(model, data)
    assert health.count == 6
    assert health.deciding.never is not None
    settings = MeasureSettings(samples=2, prototypes=None, split="val")
    table = measure(run, settings, out=tmp_path / "measured").table
    assert table.prototypes == 6
    assert table.mean_field == model.mean_field
    assert table.health.count == 6
    assert [row.pairs for row in table.rows] == [4, 4, 4, 4]
    assert all(row.area is not None for row in table.rows)
