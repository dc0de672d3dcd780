"""What a person asks of fields: cells, boxes, masks, names, calls, and answers for bad questions."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import pixpnet as px
from pixpnet.fields import Field


class Call(nn.Module):
    """A module around a function."""

    def __init__(self, function: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> object:
        return self.function(x)


def output(function: Callable[[Tensor], object], *shape: int) -> Field:
    return px.receptive_fields(Call(function), shape)[""]


def test_a_field_has_holes_where_a_stride_skips_pixels() -> None:
    # 1x1 with stride 2, then 3x3: nine pixels, not the hull's twenty-five.
    network = nn.Sequential(nn.Conv2d(1, 1, 1, stride=2), nn.Conv2d(1, 1, 3))
    field = px.receptive_fields(network, (1, 9, 9))[""]
    assert field.boxes(0, 0) == [(y, x, y + 1, x + 1) for y in (0, 2, 4) for x in (0, 2, 4)]
    assert field.hull(0, 0) == (0, 0, 5, 5)
    assert field.mask(0, 0).sum() == 9
    assert not field.is_solid
    assert field.mean_fraction == 9 / 81


def test_a_cell_that_sees_only_padding_has_the_empty_field() -> None:
    field = px.receptive_fields(nn.Conv2d(1, 1, 1, padding=1), (1, 2, 2))[""]
    assert field.boxes(0, 0) == []
    assert field.hull(0, 0) is None
    assert not field.mask(0, 0).any()
    assert field.boxes(1, 1) == [(0, 0, 1, 1)]
    assert field.mean_fraction == 4 / 16 / 4
    assert not field.is_solid


def test_concatenation_gives_channels_different_fields_and_the_means_differ() -> None:
    conv = nn.Conv2d(1, 3, 3, padding=1)
    field = output(lambda x: torch.cat([x, conv(x)], 1), 1, 5, 5)
    assert field.boxes(2, 2, channel=0) == [(2, 2, 3, 3)]
    assert field.boxes(2, 2, channel=3) == field.boxes(2, 2) == [(1, 1, 4, 4)]
    seen = (2 + 3 + 3 + 3 + 2) ** 2 / 25  # rows times columns that a padded 3x3 reaches, averaged by hand
    assert field.mean_fraction_union == pytest.approx(seen / 25)
    assert field.mean_fraction == pytest.approx((1 + 3 * seen) / 4 / 25)


def test_crossed_stripes_are_counted_once_where_they_meet() -> None:
    # A row and a column of five pixels share one: nine in all, as a plus of five boxes or fewer.
    field = output(lambda x: x.sum(2, keepdim=True) + x.sum(3, keepdim=True), 1, 5, 5)
    assert field.mean_fraction == 9 / 25
    boxes = field.boxes(1, 3)
    assert boxes == [(0, 3, 1, 4), (1, 0, 2, 5), (2, 3, 5, 4)]
    assert not field.is_solid


def test_boxes_are_disjoint_and_make_up_the_mask() -> None:
    for name, size in (("swin_t", 64), ("inception_v3", 96)):
        fields = px.receptive_fields(name, (3, size, size))
        for field in list(fields.values())[::9]:
            cell = [n // 2 for dim, n in enumerate(field.shape) if dim != field.channel_dim]
            drawn = torch.zeros(size, size, dtype=torch.int64)
            for y0, x0, y1, x1 in field.boxes(*cell):
                drawn[y0:y1, x0:x1] += 1
            assert drawn.max() <= 1
            assert torch.equal(drawn.bool(), field.mask(*cell))


def test_the_means_and_solidity_are_those_of_the_masks() -> None:
    network = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=2, dilation=2), nn.MaxPool2d(2, ceil_mode=True), nn.Conv2d(4, 4, (1, 3), groups=2)
    )
    for field in px.receptive_fields(network, (2, 7, 9)).values():
        channels, rows, cols = field.shape
        cells = [(r, c) for r in range(rows) for c in range(cols)]
        counts = [field.mask(r, c).sum().item() for r, c in cells]
        single = [field.mask(r, c, channel=k).sum().item() for r, c in cells for k in range(channels)]
        assert field.mean_fraction_union == pytest.approx(sum(counts) / len(counts) / 63)
        assert field.mean_fraction == pytest.approx(sum(single) / len(single) / 63)
        assert field.max_fraction == max(counts) / 63
        assert field.is_solid == all(len(field.boxes(r, c)) == 1 for r, c in cells)


def test_a_window_of_cells_sees_the_union_of_its_cells() -> None:
    field = px.receptive_fields("resnet18", (3, 64, 96))["layer2"]
    window = field.window(2, 3)
    assert window.shape == (128, 7, 10)
    united = torch.zeros(64, 96, dtype=torch.bool)
    for row in (4, 5):
        for col in (6, 7, 8):
            united |= field.mask(row, col)
    assert torch.equal(window.mask(4, 6), united)
    assert torch.equal(field[:, 4:6, 6:9].mask, united)
    assert field.window(1, 1).mean_fraction == field.mean_fraction
    with pytest.raises(ValueError, match="does not fit"):
        field.window(9, 1)


def test_indexing_gives_single_neurons_and_unions() -> None:
    field = px.receptive_fields(nn.Conv2d(1, 2, 3, padding=1), (1, 6, 6))[""]
    assert field[1, 0, 0].boxes == [(0, 0, 2, 2)]
    assert field[-1, -1, -1].boxes == [(4, 4, 6, 6)]
    assert field[0].area == 36
    assert (3, 3) in field[0, 3, 3]
    assert (0, 3) not in field[0, 3, 3]
    with pytest.raises(IndexError, match="outside axis 1 of size 6"):
        field.boxes(0, 6)
    with pytest.raises(IndexError, match="expected 2"):
        field.boxes(0)


def test_the_pixels_that_a_neuron_sees_and_the_neurons_that_see_a_pixel_are_one_relation() -> None:
    field = px.receptive_fields("squeezenet1_1", (3, 40, 56))["maxpool2"]
    for pixel in ((0, 0), (17, 41), (39, 55)):
        seen = field.sees(*pixel)
        for row in range(field.shape[1]):
            for col in range(field.shape[2]):
                assert seen[:, row, col].any() == field.mask(row, col)[pixel]


def test_layers_without_rows_and_columns_are_reached_by_their_own_indices() -> None:
    fields = px.receptive_fields("vit_b_16", (3, 224, 224))
    tokens = fields["encoder.dropout"]
    assert tokens.shape == (197, 768)
    assert tokens.boxes(0) == []  # the class token has seen nothing yet
    assert tokens.boxes(15) == [(16, 0, 32, 16)]
    assert fields["encoder.layers.encoder_layer_0"].sees_everything
    flat = output(lambda x: x.flatten(1), 2, 3, 4)
    assert flat.shape == (24,)
    assert flat.boxes(channel=17) == [(1, 1, 2, 2)]
    assert flat.boxes() == [(0, 0, 3, 4)]


def test_channels_last_layers_know_which_axis_holds_the_channels() -> None:
    field = output(lambda x: F.conv2d(x, torch.ones(5, 3, 3, 3)).permute(0, 2, 3, 1), 3, 8, 9)
    assert field.shape == (6, 7, 5)
    assert field.channel_dim == 2
    assert field.boxes(5, 6) == [(5, 6, 8, 9)]


def test_an_input_may_have_one_or_three_axes() -> None:
    line = px.receptive_fields(nn.Conv1d(2, 3, 3, stride=2), (2, 9))[""]
    assert line.shape == (3, 4)
    assert line.boxes(1) == [(2, 5)]
    volume = px.receptive_fields(nn.Conv3d(1, 1, (1, 2, 3), dilation=(1, 2, 1)), (1, 4, 5, 6))[""]
    assert volume.boxes(3, 0, 1) == [(3, 0, 1, 4, 1, 4), (3, 2, 1, 4, 3, 4)]
    assert volume.mean_fraction == 6 / 120
    assert volume.hull(0, 0, 0) == (0, 0, 0, 1, 3, 3)


def test_a_module_called_several_times_has_a_field_for_each_call() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 1, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            return self.conv(self.conv(x))

    fields = px.receptive_fields(Twice(), (1, 9, 9))
    assert list(fields) == ["conv#1", "conv", ""]
    assert fields["conv#1"].size == (3, 3)
    assert fields["conv#2"].size == fields["conv"].size == (5, 5)


def test_a_module_that_returns_several_tensors_has_a_field_for_each() -> None:
    fields = px.receptive_fields(Call(lambda x: (x, {"pooled": x.mean((2, 3))}, None)), (1, 4, 4))
    assert list(fields) == ["[0]", "[1][pooled]"]
    assert fields["[0]"].mean_fraction == 1 / 16
    assert fields["[1][pooled]"].sees_everything
    with pytest.raises(px.UnknownLayer, match=r"returns 2 tensors; choose one of '\[0\]', '\[1\]\[pooled\]'"):
        fields[""]


def test_a_module_registered_twice_is_found_under_both_names() -> None:
    conv = nn.Conv2d(1, 1, 3)
    fields = px.receptive_fields(nn.Sequential(conv, nn.Identity(), conv), (1, 9, 9))
    assert fields["0#1"].size == (3, 3)
    assert fields["0"].size == fields["2"].size == (5, 5)


def test_unknown_layers_get_an_error_with_the_nearest_names() -> None:
    fields = px.receptive_fields("vgg16", (3, 64, 64))
    with pytest.raises(px.UnknownLayer, match="'maxpool4'"):
        fields["maxpol4"]
    assert "maxpool4" in fields
    assert "maxpool9" not in fields


@pytest.mark.parametrize("shape", [(3,), (3, 0, 4), (3, 4, 4, 4, 4)])
def test_a_nonsensical_input_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="should be channels followed by the size"):
        px.receptive_fields("vgg11", shape)


def test_the_table_lists_the_layers_in_order_with_their_figures() -> None:
    table = px.receptive_fields("vgg16", (3, 224, 224)).table()
    row = next(row for row in table if row.paper_name == "maxpool4")
    assert (row.layer, row.shape, row.stride, row.size, row.is_solid) == (
        "features.23", (512, 14, 14), (16.0, 16.0), (100, 100), True,
    )  # fmt: skip
    text = str(table)
    assert text.splitlines()[0].split()[:2] == ["layer", "output"]
    assert "features.23 (maxpool4)" in text
    assert "15.7 %" in text


def test_sizes_and_strides_are_those_of_the_textbook() -> None:
    # Araujo et al. 2019: r <- r + (k - 1) * jump, jump <- jump * stride, far from the border.
    layers = [(7, 2), (3, 2), (3, 1), (5, 2)]
    size, jump = 1, 1
    network = nn.Sequential(*(nn.Conv2d(1, 1, k, s, k // 2) for k, s in layers))
    fields = px.receptive_fields(network, (1, 160, 160))
    for position, (kernel, stride) in enumerate(layers):
        size, jump = size + (kernel - 1) * jump, jump * stride
        assert fields[str(position)].size == (size, size)
        assert fields[str(position)].stride == (jump, jump)


def test_the_stride_is_right_where_nearly_every_field_is_clipped() -> None:
    fields = px.receptive_fields("resnet18", (3, 224, 224))
    assert [fields[f"layer{k}"].stride for k in (1, 2, 3)] == [(4, 4), (8, 8), (16, 16)]
    # Of the seven cells in a row of layer4, no two neighbours end inside the image on the same side.
    assert fields["layer4"].stride == (None, None)
    assert fields["avgpool"].stride == (None, None)


@settings(max_examples=60)
@given(st.data())
def test_areas_of_overlapping_products_agree_with_counting(data: st.DataObject) -> None:
    """Inclusion and exclusion, the sweep over lines, and the union of masks give the same areas."""
    from pixpnet.fields import area

    count = data.draw(st.integers(1, 9))

    def parts(x: Tensor) -> Tensor:
        total = torch.zeros(x.shape)
        for _ in range(count):
            top, left = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 4))
            high, wide = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
            patch = x[..., top : top + high, left : left + wide].sum((1, 2, 3), keepdim=True)
            channel = data.draw(st.integers(0, 2))
            total[:, channel : channel + data.draw(st.integers(1, 3))] += patch
        return total

    field = output(parts, 3, 6, 6)
    masks = [field.mask(0, 0, channel=k) for k in range(3)]
    assert field.mean_fraction == pytest.approx(sum(m.sum().item() for m in masks) / 3 / 36)
    assert field.mean_fraction_union == pytest.approx(field.mask(2, 2).sum().item() / 36)
    terms = list(field._cells.terms)
    if terms:
        expected = int(field.mask(0, 0).sum())
        assert {int(n) for n in area._include_exclude(terms, None).ravel()} == {expected}
        assert {int(n) for n in area._sweep(terms, (6, 6)).ravel()} == {expected}


def test_the_share_of_cells_that_see_everything() -> None:
    # Windows of 5 centred on 5 columns and 1 row: only the middle one holds all five columns.
    field = output(lambda x: F.max_pool2d(x, (1, 5), stride=1, padding=(0, 2)), 1, 1, 5)
    assert field.fraction_that_sees_everything == 1 / 5
    assert output(lambda x: x + x.mean(), 1, 3, 4).fraction_that_sees_everything == 1.0
    assert output(lambda x: F.pad(x, (1, 1)) * 0.5, 1, 2, 2).fraction_that_sees_everything == 0.0


def test_boxes_that_a_caller_changes_are_his_own() -> None:
    field = output(lambda x: F.max_pool2d(x, 2), 1, 4, 4)
    boxes = field.boxes(0, 1)
    boxes.clear()
    assert field.boxes(0, 1) == [(0, 2, 2, 4)]
    assert field.boxes(0, 1) is not field.boxes(0, 1)
