"""How pretraining reads the maps of the backbone: the mean of the largest values of each channel."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from pixpnet.settings import Optimization
from pixpnet.training import steps, train
from pixpnet.training.steps import largest_mean
from tests.training.material import small_config


@pytest.mark.parametrize("cells", [1, 2, 5, 12, 40])
def test_the_mean_of_the_largest_values_is_that_of_a_sorted_list(cells: int) -> None:
    maps = torch.randn(2, 3, 4, 3, generator=torch.Generator().manual_seed(cells))
    expected = np.sort(maps.numpy().reshape(2, 3, 12))[..., ::-1][..., :cells].mean(axis=-1)
    np.testing.assert_allclose(largest_mean(maps, cells).numpy(), expected, rtol=1e-6)


def test_pretraining_reads_as_many_cells_as_the_configuration_says(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def recorded(maps: Tensor, cells: int) -> Tensor:
        asked.append(cells)
        return largest_mean(maps, cells)

    monkeypatch.setattr(steps, "largest_mean", recorded)
    optim = Optimization(epochs=1, pretraining_epochs=1, pretraining_cells=3, warm_up_epochs=0, batch_size=8, views=1)
    train(small_config(pictures, optimization=optim), tmp_path / "run")
    # 3 classes of 8 images, and no step of another stage.
    assert asked == [3, 3, 3]


def test_a_value_of_several_cells_teaches_each_of_them() -> None:
    maps = torch.tensor([[[[4.0, 3.0], [2.0, 1.0]]]], requires_grad=True)
    largest_mean(maps, 2).sum().backward()
    assert maps.grad is not None
    assert maps.grad.tolist() == [[[[0.5, 0.5], [0.0, 0.0]]]]
