"""The small network has the field it was asked for, wherever it is measured."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from pixpnet import receptive_fields
from pixpnet.fields.verify import verify_fields
from pixpnet.smallnet import SmallNet, nearest_fields

REACHABLE = (21, 29, 37, 45, 53, 61, 69, 77)  # by hand: 5, 9, 13 (+ 8), + 8, + 16 ...
reachable = st.sampled_from(REACHABLE)


@given(field=reachable, width=st.integers(1, 40))
@settings(max_examples=20)
def test_the_field_of_the_output_is_the_square_that_was_asked_for(field: int, width: int) -> None:
    net = SmallNet(field, width).to("meta").eval()
    result = receptive_fields(net, (3, 96, 96))[""]
    assert result.size == (field, field)
    assert result.is_solid
    assert result.stride == (8, 8)
    assert result.shape == (net.out_channels, 12, 12) == (4 * width, 12, 12)
    assert net.field == field


@given(field=reachable)
def test_the_mean_field_is_that_of_a_square_clipped_at_the_border(field: int) -> None:
    # An odd kernel with padding on both sides keeps the centre of the first cell on pixel 0; a step is 8 pixels.
    reach = field // 2
    side = sum(min(8 * k + reach, 95) - max(8 * k - reach, 0) + 1 for k in range(12)) / 12
    result = receptive_fields(SmallNet(field, 2).eval(), (3, 96, 96))[""]
    assert result.mean_fraction_union == pytest.approx((side / 96) ** 2)
    assert result.mean_fraction == result.mean_fraction_union


@given(field=reachable)
@settings(max_examples=len(REACHABLE))
def test_the_probe_finds_the_same_field_in_the_real_network(field: int) -> None:
    verification = verify_fields(SmallNet(field, 2).eval(), (3, 96, 96), pixels=4, seed=field)
    assert verification.passed, verification


@given(field=reachable, cell=st.tuples(st.integers(0, 11), st.integers(0, 11)), seed=st.integers(0, 2**16))
@settings(max_examples=12)
def test_pixels_outside_a_cells_field_never_change_that_cell(field: int, cell: tuple[int, int], seed: int) -> None:
    net = SmallNet(field, 2).eval()
    seen = receptive_fields(net, (3, 96, 96))[""].mask(*cell)
    image, other = torch.rand(2, 1, 3, 96, 96, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        before, after = net(image), net(torch.where(seen, image, other))
    assert torch.equal(before[..., cell[0], cell[1]], after[..., cell[0], cell[1]])
    assert seen.all() or not torch.equal(before, after)


@given(field=st.integers(-10, 500))
def test_a_field_is_reachable_or_refused_with_the_nearest_ones(field: int) -> None:
    near = nearest_fields(field)
    assert all(size >= 21 and (size - 21) % 8 == 0 for size in near)
    if field >= 21:
        assert near[0] <= field <= near[-1] <= near[0] + 8
    if (field,) == near:
        assert SmallNet(field, 1).field == field
    else:
        with pytest.raises(ValueError, match=f"take {near[0]}"):
            SmallNet(field)


def test_a_network_without_channels_is_refused() -> None:
    with pytest.raises(ValueError, match=r"at least 1 channel.*0"):
        SmallNet(width=0)


def test_larger_fields_only_add_layers_to_the_paths_of_smaller_ones() -> None:
    paths = {field: {path for path, _ in SmallNet(field, 1).named_modules()} for field in REACHABLE}
    assert {"stage1.halve.conv", "stage2.halve.norm", "stage3.halve.relu"} <= paths[21]
    assert paths[29] - paths[21] == {f"stage2.wider{rest}" for rest in ("", ".conv", ".norm", ".relu")}
    assert paths[37] - paths[21] == {f"stage3.wider1{rest}" for rest in ("", ".conv", ".norm", ".relu")}


def test_there_is_no_classifier_and_the_output_is_the_last_relus() -> None:
    net = SmallNet(37, 4)
    assert not [module for module in net.modules() if isinstance(module, nn.Linear)]
    assert (net(torch.rand(2, 3, 96, 96)) >= 0).all()
