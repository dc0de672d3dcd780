"""Field design: proposals against fields and parameters counted by hand, and against the backbones that they name."""

import warnings
from dataclasses import replace

import pytest
import torch

from pixpnet import zoo
from pixpnet.fields import UnknownLayer, receptive_fields
from pixpnet.goldilocks import survey, with_designs
from pixpnet.goldilocks.designing import Design, DesignWarning, propose
from pixpnet.model import Backbone, FieldWarning, apply_edits

CHAIN = "tests.goldilocks.design_networks:chain"
PIXELWISE = "tests.goldilocks.design_networks:pixelwise"
EVEN_BEHIND = "tests.goldilocks.design_networks:even_window_behind"
REORDERED = "tests.goldilocks.design_networks:Reordered"
SIZE = 40
TOTAL = 112 + 3 * 148


def mean_field(at: str, *edits: str) -> float:
    """Of the chain."""
    return receptive_fields(apply_edits(zoo.build(CHAIN), edits, (3, SIZE, SIZE)), (3, SIZE, SIZE))[
        at
    ].mean_fraction_union


def test_the_field_of_one_convolution_less_is_reached_by_making_that_one_pointwise() -> None:
    target = mean_field("4", "pointwise:4")
    best = propose(CHAIN, target, SIZE, ["4"])[0]
    assert best.edits == ("pointwise:4",)
    assert best.mean_field == target
    assert best.cells == (20, 20)
    assert best.parameters == TOTAL - 4 * 4 * 9
    assert best.share_pretrained == best.parameters / TOTAL
    assert best.hits and best.miss == 0


def test_an_unmodified_cut_that_sees_the_same_comes_first() -> None:
    target = mean_field("3")
    best = propose(CHAIN, target, SIZE)[0]
    assert (best.at, best.edits, best.share_pretrained, best.parameters) == ("3", (), 1.0, TOTAL - 148)


def test_a_removed_stride_changes_the_weights_whose_neighbors_it_brings_nearer() -> None:
    # Behind it taps lie 1 pixel apart: 6 + 2 = 8 pixels a side, between 6 and 10.
    result = propose(CHAIN, mean_field("3", "unstride:2"), SIZE, ["3"])[0]
    assert result.edits == ("unstride:2",)
    assert result.cells == (39, 39)
    assert result.parameters == TOTAL - 148 - 4 * 4 * 9
    assert result.share_pretrained == result.parameters / (TOTAL - 148)


def test_no_depth_comes_nearer_than_the_nearest_that_is_proposed() -> None:
    for target in (0.01, 0.03, 0.05, 0.08):
        nearest = min(design.miss for design in propose(CHAIN, target, SIZE, ["4"], count=50))
        for first in range(5):
            edits = [f"pointwise:{path}" for path in ("0", "1", "3", "4")[first:]]
            assert nearest <= abs(mean_field("4", *edits) - target) or nearest <= 0.05 * target


@pytest.fixture(scope="module")
def designs() -> tuple[Design, ...]:
    return propose("small-61", 0.12, 64, count=12)


def test_each_design_is_the_backbone_that_it_names(designs: tuple[Design, ...]) -> None:
    network = zoo.build("small-61")
    state = network.state_dict()
    for design in designs[:6]:
        with warnings.catch_warnings(action="ignore", category=FieldWarning):
            backbone = Backbone(network, design.at, (64, 64), design.edits)
            unedited = Backbone(network, design.at, (64, 64))
        field = receptive_fields(backbone, (3, 64, 64))[""]
        assert design.mean_field == field.mean_fraction_union
        assert design.cells == field.shape[1:]
        if not any(edit.startswith("unstride") for edit in design.edits):
            same = sum(p.numel() for name, p in backbone.network.named_parameters() if p.shape == state[name].shape)
            assert design.parameters == same
            assert design.share_pretrained == same / sum(p.numel() for p in unedited.network.parameters())


def test_designs_are_ranked_and_none_is_beaten_by_another(designs: tuple[Design, ...]) -> None:
    hits = [design for design in designs if design.hits]
    assert hits and list(designs[: len(hits)]) == hits
    assert [design.share_pretrained for design in hits] == sorted(
        (design.share_pretrained for design in hits), reverse=True
    )
    others = [design.miss for design in designs[len(hits) :]]
    assert others == sorted(others)
    for one in designs:
        for other in designs:
            nearer = other.hits or (not one.hits and other.miss <= one.miss)
            less = (
                other.share_pretrained >= one.share_pretrained
                and len(other.edits) <= len(one.edits)
                and other.parameters >= one.parameters
            )
            assert one is other or not (nearer and less)


def test_a_cut_in_front_of_a_block_beats_dropping_the_block() -> None:
    target = receptive_fields("small-61", (3, 64, 64))["stage3.wider1"].mean_fraction_union
    designs = propose("small-61", target, 64, ["stage3.wider1", "stage3"], count=50)
    assert (designs[0].at, designs[0].edits, designs[0].miss) == ("stage3.wider1", (), 0)
    assert not any(design.edits == ("drop:stage3.wider2",) for design in designs)


def test_no_edit_reaches_what_lies_behind_the_last_cut() -> None:
    # Seen through one pixel, so both convolutions in front of the cut are 1 x 1; the third cannot be made so.
    best = propose(EVEN_BEHIND, 1 / 16**2, 16, ["0.1"])[0]
    assert best.edits == ("pointwise:0.0", "pointwise:0.1")
    assert best.miss == 0


def test_a_network_whose_tables_need_their_values_has_modified_cuts_too() -> None:
    result = with_designs(survey([REORDERED], 16), 0.05)
    modified = [cut for cut in result.candidates if cut.edits]
    assert modified and [cut.mean_field for cut in modified] == [design.mean_field for design in result.designs]


def test_the_same_question_has_the_same_answer() -> None:
    torch.manual_seed(1)
    first = propose(CHAIN, 0.05, SIZE)
    torch.manual_seed(2)
    assert propose(CHAIN, 0.05, SIZE) == first


def test_a_network_that_no_edit_fits_says_so_and_its_cuts_are_proposed() -> None:
    with pytest.warns(DesignWarning, match="no edit fits .*only its unmodified cuts"):
        designs = propose(PIXELWISE, 0.1, 8)
    assert [design.edits for design in designs] == [()]


@pytest.mark.parametrize(("target", "count"), [(0.0, 5), (-0.1, 5), (1.5, 5), (float("nan"), 5), (0.1, 0)])
def test_a_target_that_cannot_be_is_refused(target: float, count: int) -> None:
    with pytest.raises(ValueError, match=r"share of the image|at least 1 design"):
        propose(CHAIN, target, SIZE, count=count)


def test_a_layer_that_cannot_be_is_refused() -> None:
    with pytest.raises(UnknownLayer, match="no layer '9'"):
        propose(CHAIN, 0.1, SIZE, ["9"])
    with pytest.raises(ValueError, match="no rows and columns"):
        propose("vgg11", 0.1, 64, ["classifier"])


def test_a_design_is_a_sentence() -> None:
    design = Design("vgg16", "maxpool4", ("pointwise:features.21",), 0.12, 0.11598, (14, 14), 0.69, 5)
    assert str(design) == (
        "vgg16 at maxpool4, convolutions made 1x1 in features.21: 14 x 14 cells see 11.6 % (target 12 %), "
        "69 % of weights as pretrained"
    )
    assert "maxpool4, unmodified: " in str(replace(design, edits=()))
