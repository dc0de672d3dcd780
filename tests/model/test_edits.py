"""Named edits: fields by hand and by the NaN probe, values by laws of convolutions, and what does not fit is said."""

import warnings
from collections.abc import Sequence
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from pixpnet import zoo
from pixpnet.fields import Fields, receptive_fields
from pixpnet.fields.verify import verify_fields
from pixpnet.model import Backbone, EditError, FieldWarning, apply_edits
from pixpnet.model.edits import EDITS, PointwiseConv2d, in_words, shape_keepers


def fields_of(name: str, edits: Sequence[str] = (), size: int = 224) -> Fields:
    return receptive_fields(apply_edits(zoo.build(name, device="meta"), edits, (3, size, size)), (3, size, size))


def random_weights(network: nn.Module, seed: int = 0) -> nn.Module:
    """Numbers of the usual size, batch statistics included."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in network.state_dict().items():
        if name.endswith("running_var"):
            tensor.uniform_(0.5, 1.5, generator=generator)
        elif tensor.is_floating_point():
            tensor.normal_(0, 1 / max(1, tensor[0].numel()) ** 0.5, generator=generator)
    return network.eval()


def outputs(network: nn.Module, images: Tensor) -> Tensor:
    with torch.no_grad():
        result: Tensor = network(images)
    return result


# Fields, by the arithmetic of kernels and strides: a layer adds (kernel - 1) times the step between its taps in pixels.

VGG16_MAXPOOL4 = 100  # 1 + 2*2*1 + 1 | + 2*2*2 + 2 | + 3*2*4 + 4 | + 3*2*8 + 8
RESNET18_LAYER2 = 99  # 1 + 6 + 2*2 | + 4*2*4 | + 2*4 + 3*2*8


@pytest.mark.parametrize(
    ("name", "at", "edits", "side", "cells"),
    [
        ("vgg16", "maxpool4", ["pointwise:features.21"], VGG16_MAXPOOL4 - 2 * 8, 8),
        ("vgg16", "maxpool4", ["pointwise:features.12", "pointwise:features.21"], VGG16_MAXPOOL4 - 2 * 4 - 2 * 8, 8),
        ("vgg16", "maxpool4", ["pointwise:features"], 1 + 1 + 2 + 4 + 8, 8),  # the pools alone are left
        # Behind the third pool taps lie 4 pixels apart, not 8. It makes 31 of 32 cells, and the next pool 15 of those.
        ("vgg16", "maxpool4", ["unstride:maxpool3"], VGG16_MAXPOOL4 - 3 * 2 * 4 - 4, 15),
        ("resnet18", "layer2", ["drop:layer2.1"], RESNET18_LAYER2 - 2 * 2 * 8, 16),
        ("resnet18", "layer2", ["pointwise:layer2.1", "pointwise:layer1.0.conv1"], RESNET18_LAYER2 - 4 * 8 - 2 * 4, 16),
        ("resnet18", "layer2", ["unstride:layer2.0", "drop:layer2.1"], RESNET18_LAYER2 - 3 * 2 * 4 - 2 * 2 * 4, 32),
    ],
)
def test_the_side_of_a_field_is_what_kernels_and_strides_add_up_to(
    name: str, at: str, edits: list[str], side: int, cells: int
) -> None:
    field = fields_of(name, edits, 128)[at]  # so large that the border does not clip all fields
    assert field.size == (side, side)
    assert field.shape[1:] == (cells, cells)


def test_behind_a_dropped_block_cells_see_what_they_saw_in_front_of_it() -> None:
    whole, edited = fields_of("small-37", [], 64), fields_of("small-37", ["drop:stage3.wider1"], 64)
    for row, col in ((0, 0), (3, 5), (7, 7)):
        assert edited["stage3"].boxes(row, col) == whole["stage3.mix"].boxes(row, col)


@pytest.mark.parametrize(
    ("name", "at", "size", "edits"),
    [
        ("resnet18", "layer2", 40, ["unstride:maxpool", "pointwise:layer1.1.conv1", "drop:layer2.1"]),
        ("vgg11", "maxpool3", 32, ["unstride:maxpool2", "pointwise:features.8"]),
        ("squeezenet1_0", "maxpool2", 48, ["pointwise:conv1", "pointwise:features.4", "unstride:maxpool1"]),
        ("small-37", "", 32, ["pointwise:stage1.wider", "unstride:stage2", "drop:stage3.wider1"]),
    ],
)
def test_the_fields_of_an_edited_network_are_those_that_the_probe_finds(
    name: str, at: str, size: int, edits: list[str]
) -> None:
    network = random_weights(zoo.build(name, device="meta").to_empty(device="cpu"))
    with warnings.catch_warnings(action="ignore", category=FieldWarning):
        backbone = Backbone(network, at, (size, size), edits)
    verification = verify_fields(backbone, (3, size, size), 3, batch=3)
    assert verification.passed, str(verification)


@st.composite
def chains(draw: st.DrawFn) -> nn.Sequential:
    """Convolutions and pools of all kinds, one after the other."""
    layers: list[nn.Module] = []
    for _ in range(draw(st.integers(1, 5))):
        kernel, stride = draw(st.sampled_from([1, 2, 3, 5])), draw(st.integers(1, 2))
        if draw(st.booleans()):
            dilation = draw(st.integers(1, 2))
            layers.append(nn.Conv2d(3, 3, kernel, stride, draw(st.integers(0, 2)), dilation))
        else:
            layers.append(nn.MaxPool2d(kernel, stride, draw(st.integers(0, kernel // 2))))
    return nn.Sequential(*layers).eval()


@settings(max_examples=12)
@given(chains(), st.randoms(use_true_random=False))
def test_a_pointwise_edit_keeps_every_shape_and_enlarges_no_field(network: nn.Sequential, random: Random) -> None:
    fitting = [
        f"pointwise:{path}"
        for path, layer in network.named_children()
        if isinstance(layer, nn.Conv2d) and layer.kernel_size[0] in (3, 5)
    ]
    edits = random.sample(fitting, random.randint(0, len(fitting)))
    before = receptive_fields(network, (3, 47, 41))
    after = receptive_fields(apply_edits(network, edits, (3, 47, 41)), (3, 47, 41))
    assert list(after) == list(before)
    for name, field in after.items():
        assert field.shape == before[name].shape
        for pixel in ((0, 0), (20, 13), (46, 40)):  # seen by no more neurons than before
            assert not (field.sees(*pixel) & ~before[name].sees(*pixel)).any()


# Values


@settings(max_examples=40)
@given(
    kernel=st.tuples(*[st.sampled_from([1, 3, 5, 7])] * 2).filter(lambda sides: max(sides) > 1),
    stride=st.tuples(*[st.integers(1, 3)] * 2),
    padding=st.tuples(*[st.integers(0, 5)] * 2) | st.sampled_from(["same", "valid"]),
    dilation=st.tuples(*[st.integers(1, 2)] * 2),
    groups=st.sampled_from([1, 2, 4]),
    mode=st.sampled_from(["zeros", "reflect", "replicate", "circular"]),
    bias=st.booleans(),
)
def test_a_convolution_with_nothing_but_a_center_tap_becomes_the_same_convolution(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int] | str,
    dilation: tuple[int, int],
    groups: int,
    mode: str,
    bias: bool,
) -> None:
    if padding == "same":
        stride = (1, 1)  # torch has no other
    conv = nn.Conv2d(4, 8, kernel, stride, padding, dilation, groups, bias, mode)
    center = torch.zeros_like(conv.weight)
    center[:, :, kernel[0] // 2, kernel[1] // 2] = torch.randn(conv.weight.shape[:2])
    conv.weight.data = center
    images = torch.randn(2, 4, 23, 19)
    torch.testing.assert_close(outputs(PointwiseConv2d(conv), images), outputs(conv, images))


def test_on_a_constant_image_a_pointwise_convolution_answers_as_before() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 5, 5), nn.ReLU(), nn.Conv2d(5, 6, 3, groups=1), nn.BatchNorm2d(6)).eval()
    edited = apply_edits(network, ["pointwise:0", "pointwise:2"], (3, 20, 20))
    images = torch.rand(2, 3, 1, 1).expand(2, 3, 20, 20)
    torch.testing.assert_close(outputs(edited, images), outputs(network, images))
    noise = torch.rand(2, 3, 20, 20)
    assert not torch.allclose(outputs(edited, noise), outputs(network, noise), atol=1e-3)


def test_a_pointwise_convolution_has_the_sum_of_the_taps_and_the_bias() -> None:
    conv = nn.Conv2d(1, 1, 3)
    conv.weight.data = torch.arange(9.0).reshape(1, 1, 3, 3)
    conv.bias.data = torch.tensor([0.5])
    conv.weight.requires_grad = False
    made = PointwiseConv2d(conv.train())
    assert made.weight.tolist() == [[[[36.0]]]]
    assert made.bias.tolist() == [0.5]
    assert made.training and not made.weight.requires_grad and made.bias.requires_grad


def test_without_a_stride_every_second_cell_answers_as_before() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.ReLU())
    images = torch.randn(2, 3, 16, 16)
    edited = apply_edits(network, ["unstride:0"], (3, 16, 16))
    torch.testing.assert_close(outputs(edited, images)[..., ::2, ::2], outputs(network, images))


def test_a_dropped_block_hands_on_what_it_is_given() -> None:
    network = random_weights(zoo.build("resnet18"))
    edited = apply_edits(network, ["drop:layer1.1"], (3, 32, 32))
    seen: dict[str, Tensor] = {}
    for name in ("layer1.0", "layer1"):
        edited.get_submodule(name).register_forward_hook(lambda m, i, o, name=name: seen.update({name: o}))
    outputs(edited, torch.randn(1, 3, 32, 32))
    assert torch.equal(seen["layer1"], seen["layer1.0"])


def test_no_edits_change_nothing_and_edits_change_a_copy() -> None:
    network = random_weights(zoo.build("small-37"))
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    printed = str(network)
    images = torch.randn(1, 3, 32, 32)
    expected = outputs(network, images)
    same = apply_edits(network, [], (3, 32, 32))
    assert same is not network
    assert torch.equal(outputs(same, images), expected)
    apply_edits(network, ["pointwise:stage1", "unstride:stage2", "drop:stage3.mix"], (3, 32, 32))
    assert str(network) == printed
    assert not any(module._forward_hooks for module in network.modules())
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert torch.equal(outputs(network, images), expected)


def test_edits_draw_no_random_numbers() -> None:
    network = zoo.build("small-21")
    state = torch.random.get_rng_state()
    apply_edits(network, ["pointwise:stage1.wider"], (3, 32, 32))
    assert torch.equal(torch.random.get_rng_state(), state)


class Shared(nn.Module):
    """One convolution under two names, called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 3, 3, padding=1)
        self.second = self.first

    def forward(self, images: Tensor) -> Tensor:
        answer: Tensor = self.second(self.first(images))
        return answer


@pytest.mark.parametrize("edit", ["pointwise:first", "pointwise:second", "drop:second"])
def test_a_module_with_two_names_is_changed_under_both(edit: str) -> None:
    edited = apply_edits(Shared(), [edit], (3, 9, 9))
    assert edited.first is edited.second
    assert receptive_fields(edited, (3, 9, 9))[""].size == (1, 1)


# What does not fit


class Own(nn.Module):
    """Kinds of layers that edits refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.even = nn.Conv2d(3, 4, 2)
        self.up = nn.ConvTranspose2d(4, 4, 3)
        self.lazy = type("OwnConv", (nn.Conv2d,), {})(4, 4, 3)
        self.pair = _Pair()

    def forward(self, images: Tensor) -> Tensor:
        answer: Tensor = self.pair(self.lazy(self.up(self.even(images))), images)
        return answer


class _Pair(nn.Module):
    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return first


@pytest.mark.parametrize(
    ("network", "edit", "message"),
    [
        ("resnet18", "shrink:layer3", "'shrink:layer3' is no edit: .*the kinds are pointwise, unstride, drop"),
        ("resnet18", "layer3.0.conv2", "is no edit: it should be KIND:PATH"),
        ("resnet18", "pointwise:", "names no module"),
        ("resnet18", "drop:", "names no module"),
        ("resnet18", "drop", "is no edit"),
        ("resnet18", "pointwise:layer3.0.conv7", "names no module of the network; the nearest are 'layer3.0.conv"),
        ("vgg16", "unstride:maxpool7", "the nearest are .*'maxpool[1-5]'"),
        ("resnet18", "pointwise:layer3.0.downsample.0", r"\(Conv2d of 1 x 1\) is no .*larger than 1 x 1"),
        ("resnet18", "pointwise:fc", r"fc \(Linear\) is no two-dimensional convolution"),
        ("resnet18", "unstride:layer1", "layer1 .*no convolution, maximum or average pool with a stride above 1"),
        ("resnet18", "drop:layer3.0", "layer3.0 .*another of the same shape"),
        ("resnet18", "drop:maxpool", "another of the same shape"),
        ("resnet18", "unstride:layer3.0.conv1", "does not run on 3 x 64 x 64 .*edit the whole block"),
        ("own", "pointwise:even", r"Conv2d of 2 x 2\) has a window without a centre"),
        ("own", "pointwise:lazy", r"OwnConv of 3 x 3\) has .*code of its own"),
        ("own", "pointwise:up", r"ConvTranspose2d\) is no two-dimensional convolution"),
        ("own", "drop:pair", r"_Pair\) does not make of one tensor"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused_with_its_name_and_the_reason(
    network: str, edit: str, message: str
) -> None:
    whole = Own() if network == "own" else zoo.build(network, device="meta")
    with pytest.raises(EditError, match=message) as caught:
        apply_edits(whole, [edit], (3, 64, 64))
    assert edit in str(caught.value)


def test_an_edit_that_was_made_does_not_fit_again() -> None:
    with pytest.raises(EditError, match="larger than 1 x 1"):
        apply_edits(zoo.build("vgg11", device="meta"), ["pointwise:features.3"] * 2, (3, 64, 64))
    with pytest.raises(EditError, match="names no module"):
        apply_edits(zoo.build("small-37", device="meta"), ["drop:stage3.mix", "pointwise:stage3.mix.conv"], (3, 32, 32))


def test_layers_too_large_for_memory_are_refused_before_they_are_made() -> None:
    network = nn.Sequential(nn.Conv2d(3, 512, 4, stride=4))
    with pytest.raises(EditError, match="512 x 797 x 797 numbers"):
        apply_edits(network, ["unstride:0"], (3, 800, 800))


def test_an_edit_behind_the_cut_is_refused() -> None:
    network = zoo.build("small-37", device="meta")
    for edit in ("pointwise:stage3.halve.conv", "drop:stage3.mix", "unstride:stage3"):
        with pytest.raises(EditError, match=f"'{edit}' changes nothing in front of the cut at 'stage2'"):
            Backbone(network, "stage2", (32, 32), [edit])


def test_hooks_are_removed_even_after_an_exception() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(5, 4, 3))  # channels that do not fit
    with pytest.raises(RuntimeError):
        shape_keepers(network, (3, 9, 9))
    assert not any(module._forward_hooks for module in network.modules())


def test_edits_are_said_in_words() -> None:
    assert in_words([]) == ""
    assert in_words(["drop:a", "drop:b", "drop:c", "unstride:d"]) == "a, b and c dropped, strides removed in d"
    assert in_words([f"drop:{name}" for name in "abcde"]) == "5 modules from a to e dropped"
    assert all("{}" in kind.words for kind in EDITS.values())
