"""The probe as a second pair of eyes: which pixels it looks at, and what a disagreement says."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

import pixpnet as px
from pixpnet.fields.probe import Disagreement, Verification
from pixpnet.fields.tested import is_tested
from pixpnet.fields.verify import refuse_unless_verified, spread_pixels, verify_fields


class LooksAtItsClass(nn.Module):
    """Asks for the device in the one way that no Python code can answer for a tensor without data."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 1 if isinstance(x, (torch.FloatTensor, torch.DoubleTensor)) else x.flip(3)


class CallsAnother(nn.Module):
    """Takes another branch with another module."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Identity(), nn.Flatten()

    def forward(self, x: Tensor) -> Tensor:
        return self.left(x) if isinstance(x, (torch.FloatTensor, torch.DoubleTensor)) else self.right(x)


def network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 1), LooksAtItsClass())


def test_a_disagreement_names_the_layer_the_pixel_and_both_counts() -> None:
    assert px.receptive_fields(network(), (1, 3, 4))["0"].size == (1, 1)  # unnoticed without the probe
    with pytest.raises(px.FieldMismatch) as raised:
        px.receptive_fields(network(), (1, 3, 4), verify=1)
    message = str(raised.value)
    # Pixel (0, 0) stays where it is in both channels; by the fields it moves to (0, 3) in both channels.
    assert "Sequential" in message
    assert "layer '1', pixel (0, 0): 2 neurons see it by the computed fields, 2 by the NaN probe, 4 differ" in message
    assert isinstance(raised.value, px.UnsupportedOperation)


def test_fields_that_agree_are_returned_as_they_are() -> None:
    convolutions = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Conv2d(2, 1, 3))
    fields = px.receptive_fields(convolutions, (1, 9, 9), verify=81)
    assert fields["1"].size == (5, 5)
    assert px.receptive_fields("small-21", (3, 32, 32), verify=2)[""].size == (21, 21)


def test_a_negative_number_of_pixels_is_refused() -> None:
    with pytest.raises(ValueError, match="verify=-1"):
        px.receptive_fields(network(), (1, 3, 4), verify=-1)


def test_a_module_that_only_one_of_the_two_ran_is_a_disagreement() -> None:
    verification = verify_fields(CallsAnother(), (1, 3, 4), [(0, 0)])
    assert {disagreement.layer.partition("#")[0] for disagreement in verification.disagreements} >= {"left", "right"}


def test_the_corners_and_the_center_come_first_and_no_pixel_twice() -> None:
    pixels = spread_pixels((7, 10), 8, seed=3)
    assert pixels[:5] == [(0, 0), (3, 5), (0, 9), (6, 0), (6, 9)]
    assert len(set(pixels)) == 8
    assert pixels == spread_pixels((7, 10), 8, seed=3)
    assert sorted(spread_pixels((2, 3), 99, seed=0)) == [(y, x) for y in range(2) for x in range(3)]
    assert spread_pixels((1, 1), 8, seed=0) == [(0, 0)]
    assert len(spread_pixels((3, 3, 3), 9, seed=0)) == 9


def test_a_verification_counts_the_layers_that_differ() -> None:
    wrong = tuple(Disagreement(layer, (0, pixel), 1, 2, 3) for layer in ("a", "b") for pixel in range(2))
    with pytest.raises(px.FieldMismatch, match="of mine are not what the NaN probe saw in 2 of 5 layers at 8 pixels"):
        refuse_unless_verified(Verification(8, 5, 100, wrong), "mine")


@pytest.fixture
def scripted() -> Iterator[nn.Module]:
    with pytest.warns(DeprecationWarning):
        compiled = torch.jit.script(nn.Sequential(nn.Conv2d(1, 1, 3), nn.ReLU()))
    yield compiled


def test_a_compiled_model_and_one_with_a_compiled_part_are_verified(scripted: nn.Module) -> None:
    assert px.receptive_fields(scripted, (1, 6, 6), verify=9)[""].size == (3, 3)
    assert px.receptive_fields(nn.Sequential(nn.Identity(), scripted), (1, 6, 6), verify=9)[""].size == (3, 3)


def test_the_tested_networks_are_the_papers_the_small_ones_and_a_list_of_timms() -> None:
    assert all(map(is_tested, ("resnet50", "inception_v3", "small", "small-21", "timm:swin_tiny_patch4_window7_224")))
    assert not any(map(is_tested, ("swin_t", "smaller", "timm:resnet50", "mine:build", "small:build", "timm:small")))
