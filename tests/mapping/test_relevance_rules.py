"""Relevance against other computations of it: by hand, by zennit's own hooks, and laws of single rules."""

import pixpnet._torchvision  # noqa: F401  isort: skip  before zennit imports torchvision

from collections.abc import Callable

import pytest
import torch
import torchvision
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from zennit.canonizers import SequentialMergeBatchNorm
from zennit.core import BasicHook, Composite
from zennit.layer import Sum
from zennit.rules import NoMod, ZBox, ZPlus
from zennit.torchvision import ResNetCanonizer

from pixpnet.data import Preprocessing
from pixpnet.mapping.relevance import prp
from pixpnet.mapping.relevance.pixels import PixelBox
from pixpnet.mapping.relevance.propagation import Propagation
from pixpnet.mapping.scene import scene
from pixpnet.members.pixpnet import Architecture
from pixpnet.model import PixPNet
from pixpnet.parts import Cosine, Measure, NormalizedCells, Original, Reformulated, Similarity, SquaredL2
from pixpnet.tracing import Recording, record
from tests.mapping.networks import PREPROCESSING, around, picture, randomize

# Black and white, as the network gets them: for each end a row of colours.
PREPROCESSING_ENDS = torch.tensor(
    [[(end - m) / s for m, s in zip(PREPROCESSING.mean, PREPROCESSING.std, strict=True)] for end in (0, 1)]
)
PLAIN = Preprocessing(shortest_side=None, crop=2, size=2, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))


def small(kernel: tuple[int, int]) -> PixPNet:
    def network() -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 2, kernel, bias=False), nn.ReLU())

    return around(network, "", (1, 2), Architecture(dim=2, prototypes_per_class=1), PLAIN)


def test_two_pixels_through_four_layers_by_hand() -> None:
    """Red pixels 1/2 and 1/4 become two cells 5/4 and 1/4, then 3/2 and 3/4, then 9/2 and 3/4, before the sigmoid."""
    model = small((1, 2))
    with torch.no_grad():
        weight = model.backbone.network[0].weight  # type: ignore[index]
        weight.zero_()
        weight[:, 0, 0] = torch.tensor([[2.0, 1.0], [-1.0, 3.0]])
        model.add_on[0].weight[:, :, 0, 0] = torch.tensor([[1.0, 1.0], [1.0, -2.0]])
        model.add_on[2].weight[:, :, 0, 0] = torch.tensor([[2.0, 2.0], [-1.0, 3.0]])
        model.prototype_layer.prototypes[:, :, 0, 0] = torch.eye(2)
    image = torch.full((3, 1, 2), 0.5)
    image[0, 0] = torch.tensor([0.5, 0.25])
    about = scene(model, image, [0, 1])
    result = prp(about)
    similarities = [float(maps[0, 0]) for maps in about.similarity_maps]

    # First layer, black 0 and white 1. Output 0: 2 (1/2 - 0) = 1 and 1 (1/4 - 0) = 1/4, so 4/5 and 1/5.
    # Output 1: -1 (1/2 - 1) = 1/2 and 3 (1/4 - 0) = 3/4, so 2/5 and 3/5.
    # Prototype 0 asks for the first embedding: 2 * 3/2 and 2 * 3/4, so 2/3 and 1/3. The first of these comes from 5/4
    # and 1/4 (5/6 and 1/6), the second from 5/4 alone: 2/3 * 5/6 + 1/3 = 8/9 and 1/9.
    expected = torch.tensor([8 / 9 * 4 / 5 + 1 / 9 * 2 / 5, 8 / 9 * 1 / 5 + 1 / 9 * 3 / 5])
    torch.testing.assert_close(result.maps[0, 0], similarities[0] * expected)
    # Prototype 1 asks for the second: -1 * 3/2 gets nothing, 3 * 3/4 all, which comes from 5/4 alone.
    torch.testing.assert_close(result.maps[1, 0], similarities[1] * torch.tensor([4 / 5, 1 / 5]))


def test_an_embedding_that_is_only_pulled_down_is_shared_by_what_pulls() -> None:
    model = small((1, 1))
    with torch.no_grad():
        model.backbone.network[0].weight[:, :, 0, 0] = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])  # type: ignore[index]
        model.add_on[0].weight[:, :, 0, 0] = torch.eye(2)
        model.add_on[2].weight[:, :, 0, 0] = torch.tensor([[-1.0, -3.0], [-1.0, -3.0]])
        model.prototype_layer.prototypes[:, :, 0, 0] = torch.eye(2)
    image = torch.tensor([[[0.5, 0.0]], [[0.5, 0.0]], [[0.0, 0.0]]])
    about = scene(model, image, [0])
    row, col = about.cells[0]
    assert prp(about).maps[0, row, col] == pytest.approx(about.similarity_maps[0][row, col].item(), rel=1e-5)


def pixels_of(tape: Recording, relevance: Tensor) -> Tensor:
    """The relevance of the image, from that of what was recorded."""
    return Propagation(tape, PixelBox(tape, PREPROCESSING))(relevance)


def _stabilized(sums: Tensor) -> Tensor:
    return sums.clamp_min(1e-20)


def _zennit(network: nn.Module, canonizers: list[object]) -> Callable[[Tensor, Tensor], Tensor]:
    """The same rules by zennit's own hooks and canonizers, which know VGG and ResNet."""
    black, white = (
        torch.tensor([(value - m) / s for m, s in zip(PREPROCESSING.mean, PREPROCESSING.std, strict=True)])
        .double()
        .reshape(1, 3, 1, 1)
        for value in (0, 1)
    )
    first = next(module for module in network.modules() if isinstance(module, nn.Conv2d))

    def rule(context: object, name: str, module: nn.Module) -> BasicHook | None:
        if module is first:
            return ZBox(black, white, stabilizer=_stabilized, zero_params=["bias"])
        if isinstance(module, nn.Conv2d):
            return ZPlus(stabilizer=_stabilized, zero_params=["bias"])
        if isinstance(module, Sum):
            return BasicHook(
                input_modifiers=[lambda values: values.clamp(min=0)],
                param_modifiers=[NoMod(param_keys=[])],
                gradient_mapper=lambda relevance, outputs: [relevance / _stabilized(outputs[0])],
                reducer=lambda inputs, gradients: inputs[0] * gradients[0],
            )
        return None

    def attribute(image: Tensor, relevance: Tensor) -> Tensor:
        image = image.clone().requires_grad_()
        with Composite(module_map=rule, canonizers=canonizers).context(network) as hooked:
            (result,) = torch.autograd.grad(hooked(image), image, relevance)
        return result

    return attribute


def _cut(name: str) -> nn.Module:
    if name.startswith("vgg"):
        return getattr(torchvision.models, name)(weights=None).features[:13]  # type: ignore[no-any-return]
    network = getattr(torchvision.models, name)(weights=None)
    network.layer3 = network.layer4 = network.avgpool = network.fc = nn.Identity()
    return nn.Sequential(network, nn.Unflatten(1, (-1, 12, 10)))


@pytest.mark.parametrize("name", ["vgg11", "vgg11_bn", "resnet18", "resnet50"])
def test_on_vgg_and_resnet_zennits_own_hooks_give_the_same(name: str) -> None:
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        network = _cut(name).eval()
        randomize(network, biased=True)
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eps = 0.0  # zennit adds it a second time when it merges
        network = network.double()
    image = picture()[None].double()
    tape = record(network, image)
    # Relevance is where activation is, as behind any rule of this kind.
    weights = torch.rand(tape.result.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    relevance = tape.result * weights
    ours = pixels_of(tape, relevance[None])[0]
    canonizers = [ResNetCanonizer()] if name.startswith("resnet") else [SequentialMergeBatchNorm()]
    theirs = _zennit(network, canonizers)(image, relevance)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-12 * float(relevance.sum()))


@st.composite
def _layers(draw: st.DrawFn) -> nn.Module:
    groups = draw(st.sampled_from([1, 3]))
    kernel, stride, dilation = (draw(st.tuples(*[st.integers(1, top)] * 2)) for top in (3, 3, 2))
    padding = draw(st.tuples(st.integers(0, 2), st.integers(0, 2)))
    kinds = ("convolution", "average", "maximum", "adaptive", "mean", "norm", "cells", "interpolate")
    kind = draw(st.sampled_from(kinds))
    if kind == "convolution":
        return nn.Conv2d(3, 6, kernel, stride, padding, dilation, groups, bias=draw(st.booleans()))
    if kind == "average":
        window = (3, 3)
        return nn.AvgPool2d(
            window, stride, (1, 0), ceil_mode=draw(st.booleans()), count_include_pad=draw(st.booleans())
        )
    if kind == "maximum":
        return nn.MaxPool2d(3, stride, (1, 0), dilation, ceil_mode=draw(st.booleans()))
    if kind == "adaptive":
        return nn.AdaptiveAvgPool2d(draw(st.tuples(st.integers(1, 9), st.integers(1, 9))))
    if kind == "norm":
        return nn.BatchNorm2d(3)
    if kind == "cells":
        return NormalizedCells()
    if kind == "interpolate":
        return nn.Upsample(scale_factor=2, mode=draw(st.sampled_from(["nearest", "bilinear"])))
    return nn.AdaptiveAvgPool2d(1)


@given(layer=_layers(), seed=st.integers(0, 1000), signed=st.booleans(), protos=st.integers(1, 3))
def test_every_layer_gives_back_what_it_gets(layer: nn.Module, seed: int, signed: bool, protos: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand(1, 3, 9, 7, generator=generator) + 1e-3 - (0.5 if signed else 0)
    # What is no longer the image itself has the rule of inner layers.
    tape = record(lambda images: layer.eval()(nn.functional.hardtanh(images, -9, 9)), values)
    relevance = torch.rand(protos, *tape.result.shape, generator=generator)
    result = pixels_of(tape, relevance)
    assert (result >= 0).all()
    # A window that lies in the padding saw nothing but the bias.
    bias = layer.bias if isinstance(layer, nn.Conv2d) else None
    saw_something = tape.result != (0 if bias is None else bias[:, None, None])
    expected = (relevance * saw_something).sum(dim=(1, 2, 3, 4))
    torch.testing.assert_close(result.sum(dim=(1, 2, 3, 4)), expected, rtol=1e-4, atol=1e-5)


@given(layer=_layers(), seed=st.integers(0, 1000), signed=st.booleans(), first=st.booleans(), data=st.data())
def test_a_rectangle_and_the_rest_add_up_to_the_whole(
    layer: nn.Module, seed: int, signed: bool, first: bool, data: st.DataObject
) -> None:
    """Relevance is linear. A rectangle goes back through its own windows alone, the whole through all of them."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand(1, 3, 9, 7, generator=generator, dtype=torch.float64) + 1e-3 - (0.5 if signed else 0)
    layer = layer.double().eval()
    tape = record(lambda images: layer(images if first else nn.functional.hardtanh(images, -9, 9)), values)
    whole = torch.rand(2, *tape.result.shape, generator=generator, dtype=torch.float64)
    if whole.ndim != 5:
        return
    rows, cols = (sorted(data.draw(st.integers(0, end)) for _ in range(2)) for end in whole.shape[-2:])
    part = torch.zeros_like(whole)
    part[..., slice(*rows), slice(*cols)] = whole[..., slice(*rows), slice(*cols)]
    result = pixels_of(tape, part) + pixels_of(tape, whole - part)
    torch.testing.assert_close(result, pixels_of(tape, whole), rtol=1e-9, atol=1e-12)


@given(
    values=st.lists(st.tuples(*[st.floats(-2, 2, width=32)] * 2), min_size=1, max_size=8),
    measure=st.sampled_from([Cosine(), SquaredL2()]),
    similarity=st.builds(
        lambda kind, epsilon: kind(epsilon),
        st.sampled_from([Reformulated, Original]),
        st.sampled_from([1e-6, 1e-4, 1.0]),
    ),
)
def test_shares_are_not_negative_and_sum_to_one(
    values: list[tuple[float, float]], measure: Measure, similarity: Similarity
) -> None:
    patches, prototypes = (torch.tensor(side).reshape(1, -1, 1, 1) for side in zip(*values, strict=True))
    shares = measure.shares(patches, prototypes, similarity)
    assert (shares >= 0).all()
    assert shares.sum().item() == pytest.approx(1, abs=1e-5)


def test_a_channel_that_is_nearer_has_a_larger_share_of_a_squared_distance() -> None:
    patches = torch.tensor([0.5, 0.4, 0.1]).reshape(1, 3, 1, 1)
    shares = SquaredL2().shares(patches, torch.full_like(patches, 0.5), Reformulated(1e-6)).flatten()
    assert shares[0] > shares[1] > shares[2] > 0


def test_a_sum_with_a_tensor_of_fewer_axes_gathers_what_came_to_its_copies() -> None:
    values = torch.rand(1, 3, 4, 5) + 0.1
    tape = record(lambda images: images.abs() + images.abs()[0, :, :1, :1], values)
    relevance = torch.rand(2, *tape.result.shape)
    result = pixels_of(tape, relevance)
    torch.testing.assert_close(result.sum(dim=(1, 2, 3, 4)), relevance.sum(dim=(1, 2, 3, 4)))


def test_normalized_cells_keep_relevance_in_the_cell_by_hand() -> None:
    """Channels 3, 1 and 2 have the mean 2: of the three differences one is above 0, one below, one is 0."""
    tape = record(lambda images: NormalizedCells()(images.abs()), torch.tensor([3.0, 1.0, 2.0]).reshape(1, 3, 1, 1))
    result = [pixels_of(tape, relevance.reshape(1, 1, 3, 1, 1)).flatten() for relevance in torch.eye(3)]
    # x - mean: 3 > 0 and -2 < 0, so x alone has a positive part, and has it all; so have 1 and 2.
    for number, relevance in enumerate(result):
        torch.testing.assert_close(relevance, torch.eye(3)[number])
    # A channel that is 0 gives nothing; what it gets belongs to those that made the mean: 3/4 and 1/4.
    tape = record(lambda images: NormalizedCells()(images.abs()), torch.tensor([3.0, 1.0, 0.0]).reshape(1, 3, 1, 1))
    only_last = torch.tensor([0.0, 0.0, 1.0]).reshape(1, 1, 3, 1, 1)
    shared = pixels_of(tape, only_last).flatten()
    torch.testing.assert_close(shared, torch.tensor([0.75, 0.25, 0.0]))


@pytest.mark.parametrize("reduce", [lambda x: x.mean(dim=1, keepdim=True), lambda x: x.mean(dim=(1, 2, 3))])
def test_a_negative_mean_is_shared_by_what_made_it_negative(reduce: Callable[[Tensor], Tensor]) -> None:
    tape = record(lambda images: reduce(images.clone()), torch.tensor([1.0, -5.0, -1.0]).reshape(1, 3, 1, 1))
    result = pixels_of(tape, torch.ones(1, *tape.result.shape))
    torch.testing.assert_close(result.flatten(), torch.tensor([0.0, 5 / 6, 1 / 6]))


@pytest.mark.parametrize(
    "mix",
    [
        lambda images: images[:, :1] - images[:, 1:2],
        lambda images: torch.add(images[:, :1], images[:, 1:2], alpha=-1),
        lambda images: images[:, :1] * images[:, 1:2].mean(dim=(2, 3), keepdim=True),
        lambda images: images - images.mean(dim=1, keepdim=True),
        lambda images: images * images.mean(dim=1, keepdim=True),
        lambda images: 2 * (images - images),
    ],
)
def test_a_first_layer_that_reads_mixed_colors_gives_back_what_it_gets(mix: Callable[[Tensor], Tensor]) -> None:
    image = picture()[None]
    layer = nn.Conv2d(mix(image).shape[1], 4, 3, bias=False)
    tape = record(lambda images: layer(mix(images)).relu(), image)
    relevance = torch.rand(2, *tape.result.shape) * tape.result
    result = pixels_of(tape, relevance)
    assert (result >= 0).all()
    torch.testing.assert_close(result.sum(dim=(1, 2, 3, 4)), relevance.sum(dim=(1, 2, 3, 4)), rtol=1e-4, atol=1e-6)


def test_the_bounds_of_mixed_colors_hold_every_value_that_they_can_have() -> None:
    images = PREPROCESSING_ENDS[torch.randint(2, (200, 3, 1, 1)), torch.arange(3)[None, :, None, None]]
    tape = record(lambda images: torch.sub(2 * images[:, :1], images[:, 1:2], alpha=3), images[:1])
    bounds = PixelBox(tape, PREPROCESSING).bounds(tape.program.result)
    assert bounds is not None
    values = 2 * images[:, :1] - 3 * images[:, 1:2]
    torch.testing.assert_close(bounds.low.flatten(), values.amin().reshape(1))
    torch.testing.assert_close(bounds.high.flatten(), values.amax().reshape(1))
