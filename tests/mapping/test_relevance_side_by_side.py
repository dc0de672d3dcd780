"""Ways back that are there for speed alone give what the plain ones give."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from pixpnet.mapping.relevance import propagation, prp
from pixpnet.mapping.relevance.blocks import blocks_of
from pixpnet.mapping.scene import scene
from tests.mapping.networks import build, picture

SIDES = st.integers(1, 5)


@given(kernel=st.tuples(SIDES, SIDES), stride=st.tuples(SIDES, SIDES), size=st.tuples(SIDES, SIDES))
def test_blocks_are_the_transposed_convolution(
    kernel: tuple[int, int], stride: tuple[int, int], size: tuple[int, int]
) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.rand(4, 3, *kernel, generator=generator, dtype=torch.float64)
    outputs = torch.rand(2, 4, *size, generator=generator, dtype=torch.float64)
    blocks = blocks_of(weight, list(stride), [1, 1], 1)
    if blocks is None:
        assert stride == (1, 1)
        return
    expected = F.conv_transpose2d(outputs, weight, stride=stride)
    rows, cols = expected.shape[2:]
    pixels = blocks(outputs)
    torch.testing.assert_close(pixels[..., :rows, :cols], expected)
    assert (pixels[..., rows:, :] == 0).all()
    assert (pixels[..., cols:] == 0).all()


@pytest.mark.parametrize("much", [0.0, 2.0])
def test_side_by_side_or_alone_sums_of_all_or_of_little_give_the_same(
    much: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = scene(build("resnet18", "layer2", biased=True), picture(), [0, 1, 2, 3])
    together = prp(about).maps
    monkeypatch.setattr(propagation, "ELEMENTS_AT_ONCE", 1)
    monkeypatch.setattr(propagation, "_MUCH", much)
    torch.testing.assert_close(prp(about).maps, together, rtol=1e-4, atol=1e-7)
