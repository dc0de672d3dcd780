"""Claims about fields that hold for any network, and what the engine refuses to claim."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pixpnet as px
from pixpnet import zoo
from pixpnet.fields.probe import probe
from pixpnet.fields.rules.registry import RULES
from pixpnet.fields.rules.taps import window_taps
from pixpnet.fields.verify import verify_fields


class Call(nn.Module):
    """A module around a function."""

    def __init__(self, function: object) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> object:
        return self.function(x)


@pytest.mark.parametrize(("model", "layer"), [("resnet18", "layer2"), ("vgg11", "maxpool4"), ("swin_t", "features.1")])
def test_pixels_outside_a_cells_field_never_change_that_cell(model: str, layer: str) -> None:
    torch.manual_seed(0)
    network = zoo.build(model)
    field = px.receptive_fields(network, (3, 96, 96))[layer]
    remaining: list[Tensor] = []
    names = {**dict(network.named_modules())}
    path = {"maxpool4": "features.15"}.get(layer, layer)
    names[path].register_forward_hook(lambda module, args, result: remaining.append(result[0]))
    original, noise = torch.randn(2, 1, 3, 96, 96).unbind(0)
    cells = [n for dim, n in enumerate(field.shape) if dim != field.channel_dim]
    with torch.no_grad():
        network(original)
        for cell in ((0, 0), (cells[0] - 1, 1), (cells[0] // 2, cells[1] // 2)):
            inside = field.mask(*cell)
            network(torch.where(inside, original, noise))
            network(torch.where(inside, noise, original))
            before, outside_changed, inside_changed = (_at(remaining[k], cell, field.channel_dim) for k in (0, -2, -1))
            # The same kernels on the same shapes: bit for bit.
            assert torch.equal(before, outside_changed)
            assert not torch.equal(before, inside_changed)


def _at(result: Tensor, cell: tuple[int, int], channel_dim: int) -> Tensor:
    return result.movedim(channel_dim, 0)[:, cell[0], cell[1]]


@pytest.mark.parametrize("shift", [(0, 1), (1, 0), (-1, 0)])
def test_a_rule_that_is_off_by_one_is_found_by_the_probe(
    shift: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison can fail: a fault put into the taps of convolution and pooling does not go unseen."""
    from pixpnet.fields.rules import convolution

    def wrong(size: int, out: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> object:
        return window_taps(size, out, kernel + shift[1], stride, padding + shift[0], dilation)

    network = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.MaxPool2d(2))
    assert verify_fields(network, (1, 8, 8), 8).passed
    monkeypatch.setattr(convolution, "window_taps", wrong)
    verification = verify_fields(network, (1, 8, 8), 8)
    assert not verification.passed
    assert "disagreements" in str(verification)


def test_batch_norm_reads_nothing_more_in_eval_mode_and_everything_in_training_mode() -> None:
    norm = nn.BatchNorm2d(3)
    assert px.receptive_fields(norm.eval(), (3, 5, 5))[""].mean_fraction == 1 / 25
    assert px.receptive_fields(norm.train(), (3, 5, 5))[""].sees_everything
    assert norm.num_batches_tracked == 0


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "area"])
@pytest.mark.parametrize("factor", [0.4, 1.3, 2.0, 3.0, 7.0])
def test_interpolation_reads_what_single_precision_reads_also_on_ties(mode: str, factor: float) -> None:
    network = nn.Sequential(nn.Conv2d(1, 1, 1), nn.Upsample(scale_factor=factor, mode=mode))
    assert verify_fields(network, (1, 5, 6), 30).passed


def test_an_operation_without_a_rule_raises_and_says_what_to_do() -> None:
    network = nn.Sequential(nn.Conv2d(1, 1, 3), Call(lambda x: F.fractional_max_pool2d(x, 2, output_size=2)))
    with pytest.raises(px.UnsupportedOperation) as raised:
        px.receptive_fields(network, (1, 8, 8))
    message = str(raised.value)
    assert "aten.fractional_max_pool2d.default" in message
    assert "'1'" in message
    assert "@pixpnet.rule(torch.ops.aten.fractional_max_pool2d.default)" in message


@pytest.mark.parametrize(
    "look",
    [lambda x: x if x.mean() > 0 else -x, lambda x: x * x.sum().item(), lambda x: x[:, :, : int(x[0, 0, 0, 0])]],
)
def test_control_flow_that_depends_on_the_image_is_refused(look: object) -> None:
    with pytest.raises(px.UnsupportedOperation, match="differs from image to image"):
        px.receptive_fields(Call(look), (1, 4, 4))


def test_control_flow_that_depends_on_constants_is_followed() -> None:
    def constant(x: Tensor) -> Tensor:
        steps = torch.arange(3)
        return x.roll(int(steps[2]), 3) if steps.sum() > 2 else x

    assert px.receptive_fields(Call(constant), (1, 4, 4))[""].boxes(0, 0) == [(0, 2, 1, 3)]


@pytest.mark.parametrize(
    "pick",
    [
        lambda x: x[:, :, [3, 1]],
        lambda x: x[:, :, (3, 1)],
        lambda x: x[:, :, np.array([3, 1])],
        lambda x: x[:, :, torch.tensor([3, 1], device=x.device)],
        lambda x: x[:, :, x.new_tensor([3, 1], dtype=torch.long)],
        lambda x: x[:, :, torch.as_tensor([3, 1], device=x.device)],
        lambda x: x[:, :, torch.arange(3, 0, -2, device=x.device)],
        lambda x: x[:, :, [False, True, False, True]].flip(2),
        lambda x: torch.index_select(x, 2, torch.tensor([3, 1], device=x.device)),
        lambda x: x.index_put((torch.tensor(0), torch.tensor(0), torch.tensor([0, 1])), x[0, 0, [3, 1]])[:, :, :2],
    ],
)
def test_indices_written_as_literals_keep_their_values(pick: object) -> None:
    field = px.receptive_fields(Call(pick), (1, 4, 4))[""]
    assert field.boxes(0, 2) == [(3, 2, 4, 3)]
    assert field.boxes(1, 2) == [(1, 2, 2, 3)]


def test_a_by_product_without_a_field_cannot_be_used_unnoticed() -> None:
    def peek(x: Tensor) -> Tensor:
        normed, mean, _ = torch.ops.aten.native_layer_norm(x, x.shape[2:], None, None, 1e-5)
        return normed + mean

    with pytest.raises(px.UnsupportedOperation, match="by-product"):
        px.receptive_fields(Call(peek), (1, 4, 4))


def test_a_person_can_teach_a_rule_in_a_few_lines() -> None:
    with torch.library._scoped_library("pixpnet_test", "DEF") as library:
        library.define("above(Tensor x) -> Tensor")
        library.impl("above", lambda x: x.roll(1, 2) + 1, "CompositeExplicitAutograd")
        network = Call(lambda x: torch.ops.pixpnet_test.above(x))
        with pytest.raises(px.UnsupportedOperation, match=r"pixpnet_test\.above"):
            px.receptive_fields(network, (1, 4, 4))

        @px.rule(torch.ops.pixpnet_test.above.default)
        def above(call: px.Call) -> px.Sources:
            sources = call.sources("x")
            return sources.take(2, torch.arange(sources.shape[2]).roll(1).numpy()[:, None])

        try:
            assert px.receptive_fields(network, (1, 4, 4))[""].boxes(0, 0) == [(3, 0, 4, 1)]
        finally:
            for operation in above.operations:
                del RULES[operation]


class Caching(nn.Module):
    """Keeps things from its forward pass, as position tables and attention maps are kept."""

    def __init__(self, fail: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.norm = nn.BatchNorm2d(2)
        self.register_buffer("count", torch.zeros(()))
        self.cache: dict[str, Tensor] = {}
        self.seen: list[tuple[int, ...]] = []
        self.last: Tensor | None = None
        self.fail = fail

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.conv(x))
        self.count += 1
        self.cache["grid"] = torch.arange(3, device=x.device)
        self.seen.append(tuple(x.shape))
        self.last = x
        if self.fail:
            raise RuntimeError("on purpose")
        return x


@pytest.mark.parametrize("fail", [False, True])
def test_the_model_is_left_exactly_as_it_was_also_after_an_exception(fail: bool) -> None:
    model = Caching(fail).train()
    hooked: list[object] = []
    model.conv.register_forward_hook(lambda module, args, result: hooked.append(result.device.type))
    state = copy.deepcopy(model.state_dict())
    parameters = {name: (id(p), p.data_ptr(), p.requires_grad) for name, p in model.named_parameters()}
    hooks = {name: list(m._forward_hooks) + list(m._forward_pre_hooks) for name, m in model.named_modules()}
    if fail:
        with pytest.raises(RuntimeError, match="on purpose") as raised:
            px.receptive_fields(model, (1, 6, 6))
        assert any("while the receptive fields of Caching were computed" in note for note in raised.value.__notes__)
    else:
        px.receptive_fields(model, (1, 6, 6))
    assert model.training
    assert (model.cache, model.seen, model.last) == ({}, [], None)
    assert parameters == {name: (id(p), p.data_ptr(), p.requires_grad) for name, p in model.named_parameters()}
    assert hooks == {name: list(m._forward_hooks) + list(m._forward_pre_hooks) for name, m in model.named_modules()}
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in state.items())
    assert hooked == ["cpu"]  # what a tensor without data answers in the name of the model


def test_no_parameter_is_ever_read() -> None:
    class Untouchable(Tensor):
        @classmethod
        def __torch_dispatch__(
            cls, func: object, types: object, args: tuple = (), kwargs: dict | None = None
        ) -> object:
            raise AssertionError(f"a parameter was used for real by {func}")

    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.LazyLinear(3))
    model(torch.randn(2, 1, 6, 6))
    model.eval()
    fields = px.receptive_fields(model, (1, 6, 6))
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None:
                # The values are not a number: whoever computes with them is found out by what comes out.
                module._parameters[name] = nn.Parameter(torch.full_like(parameter, torch.nan))
    again = px.receptive_fields(model, (1, 6, 6))
    assert {k: f.mean_fraction for k, f in fields.items()} == {k: f.mean_fraction for k, f in again.items()}


def test_lazy_parameters_are_asked_to_be_given_a_shape_first() -> None:
    with pytest.raises(ValueError, match="run it once on a real batch"):
        px.receptive_fields(nn.LazyConv2d(2, 3), (1, 6, 6))


def test_compiled_scripts_and_weight_norm_and_plain_tensor_attributes_are_followed() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.ones(3, 1, 1)  # a tensor that is neither parameter nor buffer
            self.convs = [nn.Conv2d(3, 3, 3)]  # a module that is not registered
            self.normed = nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 2, 3))

        def forward(self, x: Tensor) -> Tensor:
            return self.normed(self.convs[0](x * self.scale))

    assert px.receptive_fields(Plain(), (3, 9, 9))[""].size == (5, 5)


def test_the_probe_refuses_a_network_in_which_nan_cannot_be_traced() -> None:
    with pytest.raises(ValueError, match="gives NaN"):
        next(probe(Call(lambda x: x / 0 * 0), (1, 2, 2), [(0, 0)]))
    with pytest.raises(ValueError, match="meta device"):
        next(probe(zoo.build("resnet18", device="meta"), (3, 32, 32), [(0, 0)]))
    with pytest.raises(ValueError, match="keep the batch first"):
        list(probe(Call(lambda x: x.flatten(0, 1)), (3, 2, 2), [(0, 0), (0, 1)], batch=2))
