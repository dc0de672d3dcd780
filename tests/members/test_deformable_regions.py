"""What a patch of a Deformable ProtoPNet sees: regions, proofs, maps and the audit."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from pixpnet.box import Box
from pixpnet.data.sample import NO_ANNOTATION, source_sample
from pixpnet.explanation import explain, prove
from pixpnet.explanation.text import sight_text
from pixpnet.mapping import heatmaps
from pixpnet.mapping.relevance.errors import UnsupportedRelevance
from pixpnet.metrics.auditing.localization import check_localization
from tests.members.deformable_toys import deformable, network


def picture(size: int) -> Any:
    pixels = np.random.default_rng(0).integers(0, 256, (size, size, 3), dtype=np.uint8)
    return source_sample(pixels, -1, "noise", NO_ANNOTATION, masks=None)


def test_the_region_is_the_offset_networks_field_and_that_of_every_cell_that_is_read() -> None:
    model = network("small-21", 160)
    comparison, (field,) = deformable(model), model.fields
    cells = field.inner
    assert cells is not None

    def united(read: set[tuple[int, int]]) -> set[tuple[int, int]]:
        return {
            (y, x)
            for cell in read
            for y0, x0, y1, x1 in cells.boxes(*cell)
            for y in range(y0, y1)
            for x in range(x0, x1)
        }

    def pixels(boxes: tuple[Box, ...]) -> set[tuple[int, int]]:
        found = [(y, x) for y0, x0, y1, x1 in boxes for y in range(y0, y1) for x in range(x0, x1)]
        assert len(found) == len(set(found))  # disjoint
        return set(found)

    around = {(y, x) for y in range(8, 13) for x in range(1, 6)}
    near = ((9.4, 2.3), (9.0, 4.9), (11.9, 2.0), (11.0, 4.99))
    assert pixels(comparison.region((10, 3), field, near)) == united(around)
    far = ((2.5, 2.3), (9.0, 4.9), (11.9, -7.0), (19.2, 17.0))
    read = {(2, 2), (2, 3), (3, 2), (3, 3), (19, 17), (19, 18)}
    assert pixels(comparison.region((10, 3), field, far)) == united(around | read)
    with pytest.raises(ValueError, match="4 parts"):
        comparison.region((10, 3), field, near[:2])


@pytest.mark.parametrize("deviation", [2e-5, 0.02, 0.2])
def test_the_proof_holds_however_far_parts_move(deviation: float) -> None:
    model, sample = network("small-21", 160, deviation), picture(160)
    proven = prove(model, sample, explain(model, sample), draws=3)
    terms = [term for explained in proven.classes for term in explained.terms]
    proofs = [term.proof for term in terms if term.proof is not None]
    assert all(proof.tested and proof.passed for proof in proofs)
    # The paper's own box stands beside it. (In noise it is often nearly the whole image.)
    assert all(proof.upsampling.region != proof.field.region for proof in proofs)
    resting = [model.grids[0].comparison.region(term.cell, model.fields[0]) for term in terms]
    grown = [set(term.region) != set(rest) for term, rest in zip(terms, resting, strict=True)]
    if deviation == 0.2:
        assert any(grown)
        # What parts would see that do not move is not enough.
        rest = tuple(
            replace(term, region=region) for term, region in zip(proven.classes[0].terms, resting, strict=False)
        )
        first = replace(proven.classes[0], terms=rest)
        short = prove(model, sample, replace(proven, classes=(first, *proven.classes[1:])), draws=3)
        assert any(
            not term.proof.passed
            for term, more in zip(short.classes[0].terms, grown, strict=False)
            if term.proof and more
        )


def test_pixels_outside_a_region_get_no_gradient_from_the_similarity_at_its_cell() -> None:
    model = network("small-21", 160, 0.05)
    image = torch.randn(1, 3, 160, 160, requires_grad=True)
    found = model(image).matches.grids[0]
    for cell in ((0, 0), (7, 11), (19, 19)):
        (slopes,) = torch.autograd.grad(found.distance_maps[0, 0, cell[0], cell[1]], image, retain_graph=True)
        region = model.grids[0].comparison.region(cell, model.fields[0], found.places_at(0, cell))
        outside = torch.ones(160, 160, dtype=torch.bool)
        for y0, x0, y1, x1 in region:
            outside[y0:y1, x0:x1] = False
        assert outside.any()
        assert not slopes[0, :, outside].any()
        assert slopes.any()


def test_maps_by_fields_are_painted_on_what_patches_see_of_this_image() -> None:
    model = network("small-21", 96, 0.2)
    image = torch.randn(3, 96, 96)
    maps = heatmaps(model, image, [0, 3], mapping="field")
    regions = heatmaps(model, image, [0, 3], mapping="upsampling").regions
    assert maps.regions != regions
    for painted, region in zip(maps.maps, maps.regions, strict=True):
        inside = torch.zeros(96, 96, dtype=torch.bool)
        for y0, x0, y1, x1 in region:
            inside[y0:y1, x0:x1] = True
        assert bool((painted[inside] > 0).all())


def test_relevance_is_refused_clearly() -> None:
    model = network("small-21", 96)
    with pytest.raises(UnsupportedRelevance, match="offset network"):
        heatmaps(model, torch.randn(3, 96, 96), [0], mapping="prp")


def test_the_audit_says_of_which_patches_it_speaks_and_its_probe_agrees() -> None:
    model = network("small-21", 96)
    found = check_localization(model, None, threshold=0.9, pixels=3)
    assert found.disagreements == 0
    assert "move by less than a cell" in found.findings[0].evidence
    sample = picture(96)
    assert "move by less than a cell" in " ".join(sight_text(explain(model, sample)))
