"""Laws of relevance on whole networks: it is conserved, it stays in the field, and the model is left as it was."""

import pixpnet._torchvision  # noqa: F401  isort: skip  before zennit imports torchvision

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from zennit.attribution import Gradient
from zennit.composites import EpsilonPlus

from pixpnet.mapping.relevance import UnsupportedRelevance, prp, rules
from pixpnet.mapping.scene import scene
from pixpnet.members.pixpnet import Architecture
from pixpnet.model import PixPNet
from tests.mapping.networks import (
    BEYOND,
    FAMILIES,
    PREPROCESSING,
    SIZE,
    around,
    build,
    explained,
    family,
    kept,
    picture,
)
from tests.tracing.networks import Noticing

EVERY = [*FAMILIES, *BEYOND]


@pytest.mark.parametrize("name", EVERY)
def test_without_biases_all_of_the_similarity_arrives_at_the_pixels(name: str) -> None:
    about, result = explained(name, biased=False)
    torch.testing.assert_close(kept(about, result), torch.ones(3, dtype=torch.float64), rtol=1e-4, atol=0)


@pytest.mark.parametrize("name", FAMILIES)
def test_biases_take_a_little_and_never_add(name: str) -> None:
    about, result = explained(name, biased=True)
    assert (kept(about, result) <= 1 + 1e-4).all()
    # Only where every input of a cell is dead, so that a bias alone speaks.
    assert (kept(about, result) >= 0.9).all()


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("name", EVERY)
def test_relevance_is_exactly_zero_outside_the_field_of_the_best_cell(name: str, biased: bool) -> None:
    about, result = explained(name, biased)
    field = about.model.field_at(SIZE)
    for heatmap, region, cell in zip(result.maps, result.regions, about.cells, strict=True):
        mask = field.mask(*cell)
        assert (heatmap[~mask] == 0).all()
        assert (heatmap[mask] > 0).any()
        covered = torch.zeros_like(mask)
        for box in region:
            covered[box.y0 : box.y1, box.x0 : box.x1] = True
        assert torch.equal(covered, mask)


def test_most_families_have_something_outside_the_field_to_be_zero() -> None:
    seen = {name: explained(name, biased=False)[0].model.field_at(SIZE).mean_fraction_union for name in FAMILIES}
    assert sum(fraction < 0.9 for fraction in seen.values()) == len(FAMILIES), seen


@pytest.mark.parametrize("name", EVERY)
def test_relevance_is_finite_and_never_negative(name: str) -> None:
    _, result = explained(name, biased=True)
    assert torch.isfinite(result.maps).all()
    assert (result.maps >= 0).all()


@pytest.mark.parametrize("distance", ["cosine", "squared_l2"])
@pytest.mark.parametrize("similarity", ["reformulated", "original"])
@pytest.mark.parametrize("kernel", [(1, 1), (2, 3)])
@pytest.mark.parametrize("cells", ["plain", "normalized"])
def test_every_distance_similarity_prototype_size_and_add_on_conserves(
    distance: str, similarity: str, kernel: tuple[int, int], cells: str
) -> None:
    rows, cols = kernel
    options = {"distance": distance, "similarity": similarity, "prototype_rows": rows, "prototype_cols": cols}
    options |= {"cells": cells}
    model = build("small-21", "", biased=False, **options)
    about = scene(model, picture(), [0, 2])
    result = prp(about)
    torch.testing.assert_close(kept(about, result), torch.ones(2, dtype=torch.float64), rtol=1e-4, atol=0)
    for heatmap, cell in zip(result.maps, about.cells, strict=True):
        assert (heatmap[~model.field_at(SIZE).mask(*cell)] == 0).all()


def test_the_naive_way_gains_relevance_at_every_residual_addition_and_ours_does_not() -> None:
    model = build("resnet18", "layer2", biased=False)
    network = nn.Sequential(model.backbone, model.add_on)
    about = scene(model, picture(), [0])
    row, col = about.cells[0]

    def only_the_best_cell(embeddings: Tensor) -> Tensor:
        result = torch.zeros_like(embeddings)
        result[..., row, col] = embeddings[..., row, col]
        return result

    # zennit's hooks on modules do not see `out += identity`: both summands get all of the relevance.
    with Gradient(model=network, composite=EpsilonPlus()) as attributor:
        embeddings, naive = attributor(about.image[None], only_the_best_cell)
    assert naive.sum() > 2 * embeddings[..., row, col].sum()
    assert kept(about, prp(about)).item() == pytest.approx(1, rel=1e-4)


def test_each_prototype_has_the_map_it_would_have_alone() -> None:
    model = build("vgg11_bn", "maxpool3", biased=True, prototypes_per_class=6)
    together = prp(scene(model, picture(), list(range(11)))).maps  # some of them at one cell
    for number in (0, 5, 10):
        alone = prp(scene(model, picture(), [number])).maps[0]
        torch.testing.assert_close(together[number], alone, rtol=1e-4, atol=1e-7)


def test_no_prototypes_no_maps() -> None:
    model = build("small-21", "", biased=True)
    result = prp(scene(model, picture(), []))
    assert result.maps.shape == (0, *SIZE)
    assert result.regions == ()


@pytest.mark.parametrize("value", [0.0, 1.0, 0.5])
def test_a_picture_of_one_color_conserves_too(value: float) -> None:
    model = build("vgg11_bn", "maxpool3", biased=False)
    mean, std = (torch.tensor(values).reshape(3, 1, 1) for values in (PREPROCESSING.mean, PREPROCESSING.std))
    about = scene(model, ((value - mean) / std).expand(3, *SIZE), [0, 1])
    assert kept(about, prp(about)).tolist() == pytest.approx([1, 1], rel=1e-3)


def test_noise_beyond_black_and_white_conserves_too() -> None:
    model = build("resnet18", "layer1", biased=False)
    about = scene(model, 5 * torch.randn(3, *SIZE, generator=torch.Generator().manual_seed(1)), [0, 1])
    result = prp(about)
    assert (result.maps >= 0).all()
    assert kept(about, result).tolist() == pytest.approx([1, 1], rel=1e-3)


def test_a_dead_network_gives_zeros_and_not_nan() -> None:
    model = build("vgg11", "maxpool2", biased=False)
    with torch.no_grad():
        for parameter in model.backbone.parameters():
            parameter.zero_()
    result = prp(scene(model, picture(), [0]))
    assert (result.maps == 0).all()


class Watched:
    """What must not change in a model: parameters, buffers, modes, hooks, modules and answers."""

    def __init__(self, model: PixPNet) -> None:
        self.model, self.before = model, self._look(model)

    @staticmethod
    def _look(model: PixPNet) -> dict[str, object]:
        with torch.no_grad():
            logits = model(picture()[None]).logits
        hooks = {
            name: [len(module.__dict__[kind]) for kind in module.__dict__ if kind.endswith("_hooks")]
            for name, module in model.named_modules()
        }
        tensors = {name: (id(tensor), tensor._version) for name, tensor in model.state_dict(keep_vars=True).items()}
        return {
            "logits": logits.tolist(),
            "hooks": hooks,
            "tensors": tensors,
            "values": {name: tensor.clone() for name, tensor in model.state_dict().items()},
            "requires_grad": {name: tensor.requires_grad for name, tensor in model.named_parameters()},
            "modules": {name: (id(module), module.training) for name, module in model.named_modules()},
            "forwards": [name for name, module in model.named_modules() if "forward" in module.__dict__],
        }

    def check(self) -> None:
        after = self._look(self.model)
        values, before = after.pop("values"), self.before.pop("values")
        assert all(torch.equal(values[name], before[name]) for name in before)  # type: ignore[index, attr-defined]
        assert after == self.before


@pytest.mark.parametrize("name", FAMILIES)
def test_the_model_is_bit_for_bit_what_it_was(name: str) -> None:
    model = family(name)
    watched = Watched(model)
    image = picture()
    prp(scene(model, image, [0]))
    watched.check()
    assert torch.equal(image, picture())


@pytest.mark.parametrize("broken", ["convolution", "add", "relu"])
def test_the_model_is_what_it_was_after_an_exception_too(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("on purpose")

    model = build("resnet18", "layer2", biased=True)
    watched = Watched(model)
    monkeypatch.setitem(rules.RULES, getattr(torch.ops.aten, broken), fail)
    with pytest.raises(RuntimeError, match="on purpose"):
        prp(scene(model, picture(), [0]))
    watched.check()


class Own(nn.Module):
    """A network of a person's own with a step of choice in the middle."""

    def __init__(self, step: object) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.step = step

    def forward(self, images: Tensor) -> Tensor:
        return F.relu(self.second(self.step(F.relu(self.first(images)))))  # type: ignore[operator]


def own(step: object) -> PixPNet:
    return around(lambda: Own(step), "", (16, 16), Architecture(dim=8))


def test_an_operation_without_a_rule_is_refused_by_name_and_leaves_no_trace() -> None:
    model = own(nn.GroupNorm(2, 8))
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(UnsupportedRelevance, match=r"native_group_norm.*cut the backbone before it"):
        prp(scene(model, torch.randn(3, 16, 16), [0]))
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.add_on.modules())


def test_a_product_of_two_maps_is_refused() -> None:
    with pytest.raises(UnsupportedRelevance, match="product of two maps"):
        prp(scene(own(lambda cells: cells * cells.flip(-1)), torch.randn(3, 16, 16), [0]))


def _half_in_place(cells: Tensor) -> Tensor:
    cells[:, :4].mul_(2)
    return cells


def test_writing_through_a_view_is_refused() -> None:
    with pytest.raises(UnsupportedRelevance, match="view"):
        prp(scene(own(_half_in_place), torch.randn(3, 16, 16), [0]))


def test_a_network_whose_code_looks_at_values_is_refused() -> None:
    model = own(nn.Identity())
    model.add_on = Noticing().eval()  # a backbone would refuse it
    with pytest.raises(UnsupportedRelevance, match="another image"):
        prp(scene(model, torch.randn(3, 16, 16), [0]))


def _in_place_without_using_the_result(cells: Tensor) -> Tensor:
    before = cells * 1
    cells.mul_(0.5)
    cells.add_(before)
    return cells


def test_an_in_place_operation_whose_result_is_not_used_counts() -> None:
    image = torch.randn(3, 16, 16, generator=torch.Generator().manual_seed(0))
    in_place = prp(scene(own(_in_place_without_using_the_result), image, [0])).maps
    written_out = prp(scene(own(lambda cells: 0.5 * cells + 1 * cells), image, [0])).maps
    assert torch.equal(in_place, written_out)
    assert in_place.sum() > 0


def test_a_model_in_training_mode_is_refused() -> None:
    model = build("small-21", "", biased=True)
    about = scene(model, picture(), [0])
    model.train()
    with pytest.raises(ValueError, match="training mode"):
        prp(about)
