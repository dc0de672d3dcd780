"""One pass gives what as many cut networks would give."""

import pytest
import torch

from pixpnet import zoo
from pixpnet.goldilocks import survey
from pixpnet.goldilocks.pooled import PooledLinear, pool
from pixpnet.goldilocks.taps import TappedBackbone
from pixpnet.model import Backbone

SHARED = "tests.goldilocks.material:shared_relu"


@pytest.mark.filterwarnings("ignore::pixpnet.model.FieldWarning")
@pytest.mark.parametrize(
    ("name", "layers"),
    [
        # A container that ends with its last child.
        ("squeezenet1_0", ("conv1", "maxpool*", "features")),
        # Features that the next layer overwrites in place, a module that is called twice, channels last.
        (SHARED, ("first", "relu#1", "relu", "third", "norm", "last")),
    ],
)
def test_taps_read_what_a_network_cut_there_gives(name: str, layers: tuple[str, ...]) -> None:
    torch.manual_seed(0)
    network = zoo.build(name)
    result = sorted(survey([name], 32, layers).candidates, key=lambda cut: cut.order)
    assert len(result) >= 5
    images = torch.randn(3, 3, 32, 32)
    tapped = TappedBackbone(Backbone(network, result[-1].at, (32, 32)), result).eval()
    with torch.no_grad():
        for cut, features in zip(result, tapped(images), strict=True):
            alone = Backbone(network, cut.at, (32, 32))
            assert features.shape == (3, cut.shape[0])
            torch.testing.assert_close(features, pool(alone(images)))


def test_a_pooled_classifier_is_the_mean_of_cells_and_a_linear_layer() -> None:
    model = PooledLinear(Backbone(zoo.build("small-21"), "stage2", (32, 32)), classes=3)
    images = torch.randn(2, 3, 32, 32)
    cells = model.backbone(images)
    expected = cells.flatten(2).sum(dim=2) / (8 * 8) @ model.head.weight.T + model.head.bias
    torch.testing.assert_close(model(images).logits, expected)


def test_a_frozen_backbone_gets_no_gradients() -> None:
    model = PooledLinear(Backbone(zoo.build("small-21"), "stage2", (32, 32)), classes=3)
    model(torch.randn(2, 3, 32, 32), frozen=True).logits.sum().backward()
    assert all(parameter.grad is None for parameter in model.backbone.parameters())
    assert model.head.weight.grad is not None
