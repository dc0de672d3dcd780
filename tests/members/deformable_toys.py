"""Small deformable comparisons and networks."""

import math

import numpy as np
import torch
from torch import Tensor

from pixpnet import zoo
from pixpnet.data import Preprocessing
from pixpnet.members.deformable import (
    DeformableArchitecture,
)
from pixpnet.model import Backbone, PixPNet
from pixpnet.parts import Deformable
from tests.parts.numerics import Array


def deformable(model: PixPNet) -> Deformable:
    comparison = model.grids[0].comparison
    assert isinstance(comparison, Deformable)
    return comparison


def moving(prototypes: Tensor, deviation: float = 0.02) -> Deformable:
    comparison = Deformable(prototypes, hidden=8, deviation=deviation).to(prototypes.dtype)
    comparison.moving.fill_(1.0)
    return comparison


def read_at(cells: Array, row: float, col: float) -> Array:
    """The root of the bilinear interpolation of squares of one image, zeros outside, cell by cell."""
    numbers, rows, cols = cells.shape
    total = np.zeros(numbers)
    for y in (math.floor(row), math.floor(row) + 1):
        for x in (math.floor(col), math.floor(col) + 1):
            if 0 <= y < rows and 0 <= x < cols:
                total += (1 - abs(row - y)) * (1 - abs(col - x)) * cells[:, y, x] ** 2
    return np.sqrt(total)


def by_hand(comparison: Deformable, cells: Array) -> tuple[Array, Array]:
    """Activations before the ReLU, and places, as FAMILY writes them, in loops and NumPy."""
    hidden, last = comparison.offset_hidden, comparison.offset_last
    first_weight, first_bias, last_weight, last_bias = (
        each.detach().numpy() for each in (hidden.weight, hidden.bias, last.weight, last.bias)
    )
    prototypes = comparison.prototypes.detach().numpy()
    batch, _, rows, cols = cells.shape
    whole = np.concatenate([cells, np.full((batch, 2, rows, cols), 1e-4)], axis=1)
    unit = whole / np.sqrt((whole**2).sum(axis=1, keepdims=True) + 1e-4)

    def convolved(values: Array, weight: Array, bias: Array) -> Array:
        padded = np.pad(values, ((0, 0), (0, 0), (1, 1), (1, 1)))
        down, across = weight.shape[2:]
        out = np.zeros((batch, len(weight), padded.shape[2] - down + 1, padded.shape[3] - across + 1))
        for y, x in np.ndindex(*out.shape[2:]):
            out[:, :, y, x] = np.einsum("bihw,oihw->bo", padded[:, :, y : y + down, x : x + across], weight) + bias
        return out

    offsets = convolved(np.maximum(convolved(32 * unit, first_weight, first_bias), 0), last_weight, last_bias)
    assert offsets.shape == (batch, 8, rows, cols)
    activations = np.zeros((batch, len(prototypes), rows, cols))
    places = np.zeros((batch, rows, cols, 4, 2))
    for n, y, x in np.ndindex(batch, rows, cols):
        for part, (down, across) in enumerate([(-1, -1), (-1, 1), (1, -1), (1, 1)]):
            place = (y + down + offsets[n, 2 * part, y, x], x + across + offsets[n, 2 * part + 1, y, x])
            places[n, y, x, part] = place
            read = read_at(unit[n], *place) * 64 / 2
            for j, prototype in enumerate(prototypes):
                vector = np.append(prototype[:, part // 2, part % 2], [1e-4, 1e-4])
                vector = vector / (math.sqrt((vector**2).sum() + 1e-4) + 1e-4) / 2
                activations[n, j, y, x] += read @ vector / (64 * 1.01)
    return activations, places


def network(backbone: str, size: int, deviation: float = 2e-5, dim: int | None = None) -> PixPNet:
    torch.manual_seed(0)
    architecture = DeformableArchitecture(upsampling=1, prototypes_per_class=2, deviation=deviation, dim=dim)
    cut = Backbone(zoo.build(backbone), "", (size, size))
    preprocessing = Preprocessing(None, size, size)
    model = PixPNet(cut, architecture, ("jay", "wren"), preprocessing, member="deformable").eval()
    deformable(model).moving.fill_(1.0)
    return model
