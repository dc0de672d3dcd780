"""Names to networks, and the paper's names for layers."""

import pytest
import torch

from pixpnet import UnknownModel, zoo
from pixpnet.model import Backbone
from pixpnet.model.errors import FieldWarning
from pixpnet.smallnet import SmallNet


def test_the_paper_has_21_architectures_and_all_can_be_built() -> None:
    assert len(zoo.PAPER_LAYERS) == 21
    for name in zoo.PAPER_LAYERS:
        assert not zoo.build(name, device="meta").training


def test_a_network_on_the_meta_device_has_no_values() -> None:
    assert all(p.is_meta for p in zoo.build("vgg16", device="meta").parameters())
    # RegNet computes with tensors while it is built, which the meta device cannot do.
    assert all(p.is_meta for p in zoo.build("regnet_y_400mf", device="meta").parameters())


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("squeezenet1_0", {"conv1": "0", "maxpool1": "2", "maxpool2": "6", "maxpool3": "11"}),
        ("squeezenet1_1", {"conv1": "0", "maxpool1": "2", "maxpool2": "5", "maxpool3": "8"}),
        ("vgg16", {"conv1": "1", "maxpool1": "4", "maxpool4": "23", "maxpool5": "30"}),
        ("vgg16_bn", {"conv1": "2", "maxpool1": "6", "maxpool5": "43"}),
        ("densenet121", {"conv0": "conv0", "denseblock2": "denseblock2", "norm5": "norm5"}),
    ],
)
def test_the_papers_names_stand_for_the_layers_it_means(model: str, names: dict[str, str]) -> None:
    result = zoo.paper_names(zoo.build(model, device="meta"))
    assert {name: result[name] for name in names} == {name: f"features.{path}" for name, path in names.items()}


def test_squeezenets_final_convolution_is_in_its_classifier() -> None:
    assert zoo.paper_names(zoo.build("squeezenet1_0", device="meta"))["final_conv"] == "classifier.1"


def test_own_networks_and_those_without_other_names_have_none() -> None:
    assert zoo.paper_names(torch.nn.Conv2d(1, 1, 1)) == {}
    assert zoo.paper_names(zoo.build("resnet18", device="meta")) == {}


@pytest.mark.parametrize("name", ["inception_v3", "googlenet"])
def test_networks_with_auxiliary_classifiers_are_built_without_them_and_rescale_their_input(name: str) -> None:
    network = zoo.build(name, device="meta")
    assert [path for path, _ in network.named_modules() if "aux" in path.lower()] == []
    assert [path for path in network.state_dict() if "aux" in path.lower()] == []
    assert network.aux_logits is False
    assert network.transform_input is True


def test_a_network_cut_behind_its_auxiliary_classifier_can_be_trained() -> None:
    # 75 pixels are the fewest that Inception takes; its last block has one cell then.
    with pytest.warns(FieldWarning):
        backbone = Backbone(zoo.build("inception_v3"), "Mixed_7c", (75, 75))
    backbone.train()
    images = torch.randn(2, 3, 75, 75, generator=torch.Generator().manual_seed(0))
    cells = backbone(images)
    assert cells.shape == (2, 2048, 1, 1)
    cells.sum().backward()
    assert all(parameter.grad is not None for parameter in backbone.parameters())


@pytest.mark.parametrize(
    ("name", "says"), [("resnet17", "resnet18"), ("timm:resnett50", "resnet50"), ("os:nope", "no callable")]
)
def test_unknown_names_get_the_nearest(name: str, says: str) -> None:
    with pytest.raises(UnknownModel, match=says):
        zoo.build(name)


def test_the_small_network_is_built_by_name_and_by_its_field() -> None:
    assert zoo.build("small-61").field == 61
    assert zoo.build("small").field == SmallNet().field
    assert all(p.is_meta for p in zoo.build("small", device="meta").parameters())
    assert not zoo.build("small").training


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("small-5", "'small-21'$"),
        ("small-60", "'small-53' or 'small-61'$"),
        *(
            (f"small-{size}", "a field in pixels, such as 'small-61'")
            for size in ("x", "", "-61", "+61", "061", "6_1", "٦١")
        ),
        ("small-8000000005", "below 10000$"),  # it would have five hundred million layers
        (f"small-{'1' * 5000}", "below 10000$"),  # longer than int() takes
        ("smal", "'small'"),
        ("small61", "'small'"),
    ],
)
def test_names_of_no_small_network_are_refused_with_those_that_there_are(name: str, says: str) -> None:
    with pytest.raises(UnknownModel, match=says):
        zoo.build(name)
