"""Cut networks against the whole ones they were cut from: values by hooks, fields by the NaN probe."""

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn

import pixpnet.model.layers
from pixpnet import zoo
from pixpnet.fields import Fields, UnknownLayer, receptive_fields
from pixpnet.fields.verify import verify_fields
from pixpnet.model import Backbone, CutError, FieldWarning

# name, the paper's or torchvision's name of the layer, its module path, size of the images
CUTS = [
    ("resnet18", "layer2", "layer2", 32),
    ("vgg11", "maxpool4", "features.15", 32),
    ("densenet121", "denseblock2", "features.denseblock2", 32),
    ("squeezenet1_0", "maxpool2", "features.6", 64),
    ("inception_v3", "Mixed_5d", "Mixed_5d", 75),
    ("swin_t", "features.2", "features.2", 32),
    ("convnext_tiny", "features.2", "features.2", 32),
    ("timm:resnet18", "layer2", "layer2", 32),
]
EACH = pytest.mark.parametrize(("name", "at", "path", "size"), CUTS)
_BUILT: dict[str, nn.Module] = {}
_CUT: dict[str, tuple[Backbone, Fields]] = {}


def whole(name: str) -> nn.Module:
    """The network with quickly made weights of the usual size; built once and never changed."""
    if name not in _BUILT:
        network = zoo.build(name, device="meta").to_empty(device="cpu")
        generator = torch.Generator().manual_seed(0)
        tables = dict(zoo.build(name).named_buffers()) if name == "swin_t" else {}
        for key, tensor in network.state_dict().items():
            if key in tables:
                tensor.copy_(tables[key])
            elif key.endswith("running_var"):
                tensor.uniform_(0.5, 1.5, generator=generator)
            elif tensor.is_floating_point():
                tensor.normal_(0, 1 / max(1, tensor[0].numel()) ** 0.5, generator=generator)
            else:
                tensor.zero_()
        _BUILT[name] = network
    return _BUILT[name]


@contextmanager
def quiet() -> Iterator[None]:
    """Small images are seen whole; here that is on purpose."""
    with warnings.catch_warnings(action="ignore", category=FieldWarning):
        yield


def cut(network: nn.Module, at: str, size: int) -> Backbone:
    with quiet():
        return Backbone(network, at, (size, size))


def cut_once(name: str, at: str, size: int) -> Backbone:
    """A copy of the cut network; tracing takes seconds, so each is cut once."""
    return copy.deepcopy(cut_and_fields(name, at, size)[0])


def cut_and_fields(name: str, at: str, size: int) -> tuple[Backbone, Fields]:
    """The cut network and the fields of the whole one, taken down on the way."""
    if name not in _CUT:
        seen: list[Fields] = []

        def spy(network: nn.Module, shape: tuple[int, ...]) -> Fields:
            seen.append(receptive_fields(network, shape))
            return seen[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pixpnet.model.layers, "receptive_fields", spy)
            backbone = cut(whole(name), at, size)
        # What was traced was the whole network: its output is that of the classifier.
        assert seen[0][""].shape == (1000,)
        _CUT[name] = backbone, seen[0]
    return _CUT[name]


def images(size: int, batch: int = 2, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(1), dtype=dtype)


def activation(network: nn.Module, path: str, batch: Tensor, call: int = -1) -> Tensor:
    seen: list[Tensor] = []
    handle = network.get_submodule(path).register_forward_hook(lambda module, _, output: seen.append(output.clone()))
    with torch.no_grad():
        network(batch)
    handle.remove()
    return seen[call]


@EACH
def test_the_output_is_the_whole_networks_activation_at_the_layer(name: str, at: str, path: str, size: int) -> None:
    network = whole(name)
    backbone = cut_once(name, at, size)
    expected = activation(network, path, images(size))
    if name == "swin_t":
        expected = expected.permute(0, 3, 1, 2)
    with torch.no_grad():
        result = backbone(images(size))
    assert backbone.at == path
    assert backbone.channels == result.shape[1] == expected.shape[1]
    assert expected.std() > 0
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5 * expected.abs().max().item())


@EACH
def test_its_field_is_the_whole_networks_at_the_layer_and_passes_the_nan_probe(
    name: str, at: str, path: str, size: int
) -> None:
    backbone, fields_of_the_whole = cut_and_fields(name, at, size)
    original = fields_of_the_whole[at]
    fields = receptive_fields(backbone, (3, size, size))
    channels_first = [2, 0, 1] if name == "swin_t" else [0, 1, 2]
    pixels = [(0, 0), (size // 2, size // 2 - 1), (size - 1, 5)]
    for pixel in pixels:
        assert torch.equal(fields[""].sees(*pixel), original.sees(*pixel).permute(channels_first))
    assert fields[""].channel_dim == 0
    checked = verify_fields(backbone, (3, size, size), pixels, fields=fields)
    assert checked.layers >= 1
    assert checked.passed, checked


@EACH
def test_every_parameter_that_is_left_learns_in_training_mode(name: str, at: str, path: str, size: int) -> None:
    backbone = cut_once(name, at, size).train()
    backbone(images(size)).square().sum().backward()
    idle = [name for name, parameter in backbone.named_parameters() if parameter.grad is None]
    assert not idle
    assert len(list(backbone.parameters())) >= 2


@EACH
def test_parameters_keep_their_names_and_values(name: str, at: str, path: str, size: int) -> None:
    backbone, known = cut_once(name, at, size), whole(name).state_dict()
    state = backbone.network.state_dict()
    assert state
    assert set(state) < set(known)
    assert all(torch.equal(tensor, known[key]) for key, tensor in state.items())
    assert set(backbone.state_dict()) == {f"network.{key}" for key in state}


def test_what_is_left_of_resnet18_at_layer2_by_name() -> None:
    remaining = {"conv1.weight", "bn1.weight", "bn1.bias"}
    for block in ("layer1.0", "layer1.1", "layer2.0", "layer2.1"):
        remaining |= {f"{block}.conv{k}.weight" for k in (1, 2)}
        remaining |= {f"{block}.bn{k}.{kind}" for k in (1, 2) for kind in ("weight", "bias")}
    remaining |= {"layer2.0.downsample.0.weight", "layer2.0.downsample.1.weight", "layer2.0.downsample.1.bias"}
    assert {name for name, _ in cut_once("resnet18", "layer2", 32).network.named_parameters()} == remaining


def test_what_is_left_of_vgg16_at_maxpool4_by_name() -> None:
    convolutions = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21)
    remaining = {f"features.{layer}.{kind}" for layer in convolutions for kind in ("weight", "bias")}
    network = zoo.build("vgg16", device="meta")
    assert {name for name, _ in cut(network, "maxpool4", 64).network.named_parameters()} == remaining


@pytest.mark.parametrize(("name", "at", "size"), [("resnet18", "layer2", 64), ("squeezenet1_0", "maxpool2", 64)])
def test_the_network_that_was_cut_stays_as_it_was(name: str, at: str, size: int) -> None:
    network = copy.deepcopy(whole(name)).train()
    network.get_submodule("" if name == "resnet18" else "features.3").eval()
    state = {key: tensor.clone() for key, tensor in network.state_dict().items()}
    modes = [module.training for module in network.modules()]
    backbone = cut(network, at, size)
    backbone.train()
    with torch.no_grad():
        next(iter(backbone.parameters())).zero_()
    backbone(images(size))
    assert list(network.state_dict()) == list(state)
    assert all(torch.equal(tensor, state[key]) for key, tensor in network.state_dict().items())
    assert [module.training for module in network.modules()] == modes
    hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in network.modules()]
    assert sum(hooks) == 0
    assert network(images(size)).shape == (2, 1000)


def test_a_copy_of_a_backbone_is_a_backbone_of_its_own() -> None:
    backbone = cut(whole("resnet18"), "layer1", 64)
    twin = copy.deepcopy(backbone)
    with torch.no_grad():
        for parameter in backbone.parameters():
            parameter.zero_()
        assert not backbone(images(64)).any()
        assert twin(images(64)).any()


def test_whatever_happens_inside_the_next_call_is_right() -> None:
    backbone = cut(Repeated(), "relu#2", 16)
    expected = backbone(images(16))
    with pytest.raises(RuntimeError, match="type"):
        backbone(images(16, dtype=torch.float64))
    assert torch.equal(backbone(images(16)), expected)


class Repeated(nn.Module):
    """One ReLU, called three times and registered under two names."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.first, self.second, self.third = (nn.Conv2d(n, 4, 3, padding=1) for n in (3, 4, 4))
        for parameter in self.parameters():
            parameter.data.normal_(0, 0.3, generator=generator)
        self.relu = nn.ReLU()
        self.twin = self.relu
        self.eval()

    def forward(self, batch: Tensor) -> Tensor:
        return self.relu(self.third(self.relu(self.second(self.relu(self.first(batch)))))).mean(dim=(2, 3))


@pytest.mark.parametrize(
    ("at", "call", "sees", "remaining"),
    [("relu#1", 0, 3, 1), ("relu#2", 1, 5, 2), ("relu#3", 2, 7, 3), ("relu", 2, 7, 3), ("twin", 2, 7, 3)],
)
def test_a_layer_that_is_called_several_times_is_cut_at_the_call_that_was_named(
    at: str, call: int, sees: int, remaining: int
) -> None:
    network = Repeated()
    backbone = cut(network, at, 16)
    with torch.no_grad():
        torch.testing.assert_close(backbone(images(16)), activation(network, "relu", images(16), call))
        torch.testing.assert_close(backbone(images(16)), activation(network, "relu", images(16), call))  # again
    assert receptive_fields(backbone, (3, 16, 16))[""].size == (sees, sees)
    assert len(list(backbone.parameters())) == 2 * remaining
    assert backbone.at == at


def test_a_named_call_of_a_torchvision_layer() -> None:
    network = whole("resnet18")
    backbone = cut(network, "layer1.0.relu#1", 64)
    expected = activation(network, "layer1.0.relu", images(64), 0)
    torch.testing.assert_close(backbone(images(64)), expected, rtol=1e-4, atol=1e-5)
    assert {name for name, _ in backbone.network.layer1[0].named_parameters()} == {
        *("conv1.weight", "bn1.weight", "bn1.bias")
    }


class Parts(nn.Module):
    """Returns two tensors under names, and two in a row."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 5, 3)

    def forward(self, batch: Tensor) -> dict[str, Tensor]:
        first = self.first(batch)
        return {"early": first, "late": self.second(first)}


@pytest.mark.parametrize(("at", "channels", "sees"), [("0[early]", 4, 3), ("0[late]", 5, 5)])
def test_one_of_several_results_can_be_chosen(at: str, channels: int, sees: int) -> None:
    class Last(nn.Module):
        def forward(self, parts: dict[str, Tensor]) -> Tensor:
            return parts["late"].mean(dim=(2, 3))

    backbone = cut(nn.Sequential(Parts(), Last()).eval(), at, 16)
    assert backbone(images(16)).shape == (2, channels, 17 - sees, 17 - sees)
    assert receptive_fields(backbone, (3, 16, 16))[""].size == (sees, sees)
    assert backbone.at == at


def test_a_whole_network_with_rows_and_columns_needs_no_cut() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU()).eval()
    backbone = cut(network, "", 16)
    assert (backbone.at, backbone.channels) == ("", 4)
    torch.testing.assert_close(backbone(images(16)), network(images(16)))


def test_what_a_module_lends_without_being_called_is_kept() -> None:
    class Statistics(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.full((3, 1, 1), 2.0))
            self.scale = nn.Parameter(torch.full((3, 1, 1), 3.0))
            self.unread = nn.Parameter(torch.ones(7))

    class Shift(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.full((3, 1, 1), 5.0))

    class Lent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.statistics, self.shift = Statistics(), Shift()
            self.cut, self.behind = nn.Identity(), nn.Conv2d(3, 2, 1)

        def forward(self, batch: Tensor) -> Tensor:
            scaled = (batch - self.statistics.mean) * self.statistics.scale + self.shift.mean
            return self.behind(self.cut(scaled))

    backbone = cut(Lent(), "cut", 8)
    torch.testing.assert_close(backbone(images(8)), (images(8) - 2) * 3 + 5)
    assert set(backbone.network.state_dict()) == {"statistics.mean", "statistics.scale", "shift.mean"}


def test_a_module_behind_the_cut_says_so_when_training_calls_it() -> None:
    class Shy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.main, self.extra = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1)
            self.end = nn.Identity()

        def forward(self, batch: Tensor) -> Tensor:
            cells = self.main(batch)
            return self.end(self.extra(cells) if self.training else cells)

    with pytest.raises(RuntimeError, match="behind the cut"):
        cut(Shy(), "end", 8).train()(images(8))


def test_a_network_of_double_precision_can_be_cut() -> None:
    backbone = cut(Repeated().double(), "relu#1", 16)
    assert backbone(images(16, dtype=torch.float64)).dtype == torch.float64


def test_an_unknown_layer_is_named_with_its_neighbors() -> None:
    with pytest.raises(UnknownLayer, match=r"no layer 'layer22' was run; the nearest are .*'layer2'"):
        Backbone(whole("resnet18"), "layer22", (64, 64))
    with pytest.raises(UnknownLayer):
        Backbone(Repeated(), "relu#4", (16, 16))


@pytest.mark.parametrize("at", ["fc", ""])
def test_a_layer_without_rows_and_columns_is_refused_with_better_ones(at: str) -> None:
    with pytest.raises(CutError, match=r"has the shape \(1000,\).*channels, rows and columns.*'layer2'"):
        Backbone(whole("resnet18"), at, (224, 224))


def test_a_cut_that_sees_almost_everything_warns_and_names_better_ones() -> None:
    # FACTS 1: resnet18 at layer2 sees 15.4 % of 224 x 224 pixels; layer4 sees nearly all.
    with pytest.warns(FieldWarning, match=r"'layer4' sees \d+.* of the image on average.*'layer2' \(15\.\d"):
        Backbone(whole("resnet18"), "layer4", (224, 224))


def test_a_cut_that_sees_parts_does_not_warn() -> None:
    with warnings.catch_warnings(record=True, action="always") as caught:
        Backbone(whole("resnet18"), "layer2", (224, 224))
    assert not caught


def test_it_prints_where_it_was_cut() -> None:
    assert "cut at 'layer1', 64 channels" in repr(cut(whole("resnet18"), "layer1", 64))


def tiny_transformer() -> nn.Module:
    from torchvision.models import VisionTransformer

    torch.manual_seed(0)
    return VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=12, mlp_dim=16, num_classes=5
    ).eval()


def test_the_tokens_of_a_transformer_are_cells_in_the_places_of_their_patches() -> None:
    network = tiny_transformer()
    with pytest.warns(FieldWarning, match="sees 100 %"):
        backbone = Backbone(network, "encoder.layers.encoder_layer_0", (32, 32))
    images = torch.randn(2, 3, 32, 32)
    result: list[Tensor] = []
    network.encoder.layers.encoder_layer_0.register_forward_hook(lambda *given: result.append(given[-1]))
    with torch.no_grad():
        cells = backbone(images)
        network(images)
    assert cells.shape == (2, 12, 4, 4)
    # Behind the class token, row by row.
    torch.testing.assert_close(cells.flatten(2).transpose(1, 2), result[0][:, 1:])
    # Attention makes every token see everything, and the field says so.
    assert receptive_fields(backbone, (3, 32, 32))[""].mean_fraction_union == 1


def test_the_patches_of_a_transformer_before_attention_see_their_own_pixels() -> None:
    backbone = Backbone(tiny_transformer(), "encoder.layers.encoder_layer_0.ln_1", (32, 32))
    field = receptive_fields(backbone, (3, 32, 32))[""]
    assert field.hull(1, 2) == (8, 16, 16, 24)


def test_channels_that_were_flattened_are_not_taken_for_tokens() -> None:
    network = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.Flatten(2))
    with pytest.raises(CutError, match="tokens of a transformer"):
        Backbone(network, "1", (8, 8))
