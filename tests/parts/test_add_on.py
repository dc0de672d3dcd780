"""The add-on's structure and first weights (Sec. 4, App. K)."""

from math import sqrt

import pytest
import torch
from torch import nn

from pixpnet.fields import receptive_fields
from pixpnet.parts import NormalizedCells, build_add_on

CHANNELS, DIM = 96, 192


def seeded(kind: str, cells: str = "plain") -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build_add_on(CHANNELS, DIM, kind, cells)


def test_it_is_two_1x1_convolutions_a_relu_and_a_sigmoid_without_batch_norm() -> None:
    first, relu, second, sigmoid = seeded("xavier")
    assert [type(relu), type(sigmoid)] == [nn.ReLU, nn.Sigmoid]
    assert first.weight.shape == (DIM, CHANNELS, 1, 1)
    assert second.weight.shape == (DIM, DIM, 1, 1)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in seeded("xavier").modules())
    assert first.bias.eq(0).all()
    assert second.bias.eq(0).all()


@pytest.mark.parametrize(
    ("kind", "second_std"),
    [
        ("xavier", sqrt(2 / (DIM + DIM))),  # gain 1: sqrt(2 / (fan in + fan out))
        ("kaiming", sqrt(2 / DIM)),  # gain sqrt(2), fan out
    ],
)
def test_first_weights_are_normal_with_the_spread_of_their_scheme(kind: str, second_std: float) -> None:
    first, _, second, _ = seeded(kind)
    # Kaiming, fan out, ReLU: sqrt(2 / fan out), and the fan out of the first is DIM, not CHANNELS.
    for weight, expected in ((first.weight, sqrt(2 / DIM)), (second.weight, second_std)):
        assert weight.std().item() == pytest.approx(expected, rel=0.03)  # standard error 0.4 % and 0.5 %
        assert weight.mean().item() == pytest.approx(0, abs=0.03 * expected)
        # Normal, not uniform: 4.55 % lie beyond two standard deviations.
        beyond = (weight.abs() > 2 * expected).float().mean().item()
        assert beyond == pytest.approx(0.0455, abs=0.01)


@pytest.mark.parametrize("channels", [64, 512])
@pytest.mark.parametrize("deviation", [0.02, 0.1])
def test_small_first_weights_put_embeddings_of_normalized_cells_about_the_center(
    channels: int, deviation: float
) -> None:
    torch.manual_seed(0)
    cells = 3 * torch.randn(8, channels, 8, 8) + 1
    with torch.no_grad():
        embeddings = build_add_on(channels, 256, cells="normalized", deviation=deviation)(cells)
    assert embeddings.mean().item() == pytest.approx(0.5, abs=0.1 * deviation)
    # About each channel's own weights: 256 of them, so a few percent.
    assert (embeddings - 0.5).square().mean().sqrt().item() == pytest.approx(deviation, rel=0.1)


def test_it_computes_what_its_parts_say() -> None:
    add_on = seeded("xavier").double()
    first, _, second, _ = add_on
    images = torch.randn(2, CHANNELS, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    hidden = torch.einsum("dc,bchw->bdhw", first.weight[:, :, 0, 0], images).clamp_min(0)
    expected = 1 / (1 + torch.exp(-torch.einsum("ed,bdhw->behw", second.weight[:, :, 0, 0], hidden)))
    torch.testing.assert_close(add_on(images), expected)


@pytest.mark.parametrize("cells", ["plain", "normalized"])
def test_a_cell_of_it_sees_its_own_cell_only(cells: str) -> None:
    field = receptive_fields(seeded("xavier", cells), (CHANNELS, 5, 6))[""]
    assert [field.boxes(row, col) for row in range(5) for col in range(6)] == [
        [(row, col, row + 1, col + 1)] for row in range(5) for col in range(6)
    ]


def test_each_cell_is_normalized_by_itself_as_torch_normalizes_a_row() -> None:
    cells = 7 * torch.randn(2, CHANNELS, 3, 4, generator=torch.Generator().manual_seed(0)) + 3
    rows = cells.permute(0, 2, 3, 1).reshape(-1, CHANNELS)
    expected = nn.functional.layer_norm(rows, (CHANNELS,)).reshape(2, 3, 4, CHANNELS).permute(0, 3, 1, 2)
    torch.testing.assert_close(NormalizedCells()(cells), expected)


def test_normalizing_changes_neither_the_first_weights_nor_their_names() -> None:
    plain, normalized = (seeded("xavier", cells).state_dict() for cells in ("plain", "normalized"))
    assert list(plain) == list(normalized)
    assert all(torch.equal(plain[name], normalized[name]) for name in plain)


def test_the_add_on_reads_normalized_cells() -> None:
    plain, normalized = (seeded("xavier", cells) for cells in ("plain", "normalized"))
    cells = torch.rand(1, CHANNELS, 3, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(normalized(cells), plain(NormalizedCells()(cells)))
    assert not torch.allclose(normalized(cells), plain(cells))


@pytest.mark.parametrize("value", [0.0, 5.0])
def test_a_cell_whose_channels_are_all_alike_is_0_with_a_finite_gradient(value: float) -> None:
    cells = torch.full((1, CHANNELS, 1, 1), value, requires_grad=True)
    result = NormalizedCells()(cells)
    result.square().sum().backward()  # type: ignore[no-untyped-call]
    assert result.abs().max() < 1e-3
    assert cells.grad is not None
    assert cells.grad.isfinite().all()


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_large_cells_in_half_precision_are_rounded_only_when_they_are_normalized(half: torch.dtype) -> None:
    cells = 200 * torch.rand(1, CHANNELS, 2, 2, generator=torch.Generator().manual_seed(0)).to(half)
    assert torch.equal(NormalizedCells()(cells), NormalizedCells()(cells.float()).to(half))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float64])
def test_it_works_in_the_precision_of_its_weights(kind: torch.dtype) -> None:
    add_on = seeded("xavier", "normalized").to(kind)
    cells = torch.rand(1, CHANNELS, 2, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(kind)
    result = add_on(cells)
    assert result.dtype == kind
    torch.testing.assert_close(result.double(), add_on.double()(cells.double()), atol=0.05, rtol=0)
