"""Prototype replacement against a search over every patch of every image, and its laws."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pixpnet.data import Batch
from pixpnet.model import Origin, PixPNet
from pixpnet.settings import Replacement
from pixpnet.training import replace_prototypes, replacement
from pixpnet.training.assignment import nearest_first, smallest_total
from tests.training.material import batches_of, entries_of, identity_model, small_model
from tests.training.replacing import IDS, LABELS, noise, replaced

KINDS = list(product(["image", "patch", "none"], ["smallest_total", "nearest_first"]))


# A search over everything -------------------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class Patch:
    """A patch and how far it is; sorted by distance, then image, then cell."""

    distance: float
    image: str
    row: int
    col: int


def every_patch(model: PixPNet, images: Tensor, distance: str) -> list[list[Patch]]:
    """For each prototype all patches of its class with their distance, in float64, one at a time."""
    model.eval()
    prototypes = model.prototypes.detach().double().numpy()
    rows, cols = prototypes.shape[-2:]
    result: list[list[Patch]] = [[] for _ in prototypes]
    for image, label, id_ in zip(images, LABELS, IDS, strict=False):
        with torch.no_grad():
            cells = model.embed(image[None])[0][0].double().numpy()
        for row, col in product(range(cells.shape[1] - rows + 1), range(cells.shape[2] - cols + 1)):
            patch = cells[:, row : row + rows, col : col + cols].ravel()
            for number, prototype in enumerate(prototypes.reshape(len(prototypes), -1)):
                if number // model.architecture.prototypes_per_class == label:
                    if distance == "cosine":
                        far = 1 - patch @ prototype / np.linalg.norm(patch) / np.linalg.norm(prototype)
                    else:
                        far = float(((patch - prototype) ** 2).sum())
                    result[number].append(Patch(float(far), id_, row, col))
    return result


def shares(one: Patch | Origin, two: Patch | Origin, unique: str) -> bool:
    if unique == "none":
        return False
    if unique == "image":
        return one.image == two.image
    return (one.image, one.row, one.col) == (two.image, two.row, two.col)


def best_choice(patches: list[list[Patch]], unique: str) -> list[Patch]:
    """The smallest total over all ways to give each prototype of a class something of its own."""
    keys = sorted({(patch.image, patch.row, patch.col) if unique == "patch" else patch.image for patch in patches[0]})
    costs = []
    for line in patches:
        nearest: dict[Any, Patch] = {}
        for patch in sorted(line, reverse=True):
            nearest[(patch.image, patch.row, patch.col) if unique == "patch" else patch.image] = patch
        costs.append(nearest)
    ways = ([cost[key] for cost, key in zip(costs, way, strict=True)] for way in permutations(keys, len(patches)))
    return min(ways, key=lambda way: sum(patch.distance for patch in way))


def greedy_choice(patches: list[list[Patch]], unique: str) -> list[Patch]:
    """The nearest pair of prototype and patch first, then the next that shares nothing with those before."""
    pairs = sorted((patch.distance, number, patch) for number, line in enumerate(patches) for patch in line)
    chosen: dict[int, Patch] = {}
    for _, number, patch in pairs:
        if number not in chosen and not any(shares(patch, other, unique) for other in chosen.values()):
            chosen[number] = patch
    return [chosen[number] for number in range(len(patches))]


def place(patch: Patch | Origin) -> tuple[str, int, int]:
    return patch.image, patch.row, patch.col


@pytest.mark.parametrize(("unique", "assignment"), KINDS)
@pytest.mark.parametrize(
    "made",
    [
        {"distance": "cosine"},
        {"distance": "squared_l2"},
        {"distance": "cosine", "prototype_rows": 2, "prototype_cols": 3},
        {"distance": "squared_l2", "prototype_rows": 3, "prototype_cols": 1},
    ],
    ids=["cosine", "squared_l2", "cosine 2x3", "squared_l2 3x1"],
)
def test_prototypes_become_what_a_search_over_all_patches_finds(
    unique: str, assignment: str, made: dict[str, Any]
) -> None:
    # Few cells, so that the ways to assign patches can all be gone through.
    model = small_model(size=9 if unique == "patch" else 13, prototypes_per_class=2 if unique == "patch" else 3, **made)
    size = model.preprocessing.size
    # Prototypes beside one another want the same patches.
    model.prototypes.data = model.prototypes.data[:1] + 0.01 * model.prototypes.data
    images = noise(10, size)
    patches = every_patch(model, images, made["distance"])
    origins = replaced(model, images, unique=unique, assignment=assignment)
    count = model.architecture.prototypes_per_class
    for label in range(2):
        own = slice(label * count, label * count + count)
        if unique == "none":
            expected = [min(line) for line in patches[own]]
        else:
            expected = (best_choice if assignment == "smallest_total" else greedy_choice)(patches[own], unique)
        assert [place(origin) for origin in origins[own]] == [place(patch) for patch in expected]
        distances = [origin.distance for origin in origins[own]]
        assert distances == pytest.approx([patch.distance for patch in expected], abs=1e-5)
        assert {origin.unique for origin in origins[own]} == {unique}


def test_the_constraint_changed_something_in_that_search() -> None:
    # Without this the searches above could agree because nothing was ever shared.
    taken = {}
    for unique, assignment in KINDS:
        model = small_model()
        model.prototypes.data = model.prototypes.data[:1] + 0.01 * model.prototypes.data
        taken[unique, assignment] = [
            place(origin) for origin in replaced(model, noise(10, 13), unique=unique, assignment=assignment)
        ]
    assert len({tuple(places) for places in taken.values()}) >= 3


# Exact distances, with ties -----------------------------------------------------------------------------------


@cache
def _two_by_two() -> PixPNet:
    return identity_model(2, 2, 2, prototypes_per_class=2)


whole_images = st.lists(st.integers(0, 1), min_size=6 * 3 * 4, max_size=6 * 3 * 4)


@settings(max_examples=100)
@given(
    pixels=whole_images,
    prototypes=st.lists(st.integers(0, 1), min_size=12, max_size=12),
    order=st.permutations(range(6)),
    size=st.sampled_from([1, 3, 6]),
    kind=st.sampled_from(KINDS),
)
def test_ties_and_all_neither_order_nor_batches_change_the_choice(
    pixels: list[int], prototypes: list[int], order: list[int], size: int, kind: tuple[str, str]
) -> None:
    unique, assignment = kind
    images = torch.tensor(pixels, dtype=torch.float32).reshape(6, 3, 2, 2)
    model = _two_by_two()
    model.prototypes.data = torch.tensor(prototypes, dtype=torch.float32).reshape(4, 3, 1, 1)
    assert replaced(model, images, 6, unique=unique, assignment=assignment) == model.origins
    at_once, straight = model.origins, model.prototypes.detach().clone()
    model.prototypes.data = torch.tensor(prototypes, dtype=torch.float32).reshape(4, 3, 1, 1)
    patches = every_patch(model, images, "squared_l2")
    origins = replaced(model, images, size, order, unique=unique, assignment=assignment)
    assert origins == at_once
    assert torch.equal(model.prototypes, straight)
    for label in range(2):
        own, result = patches[2 * label : 2 * label + 2], origins[2 * label : 2 * label + 2]
        assert not shares(result[0], result[1], unique)
        if unique == "none":
            # Ties go to the earlier image by its id, then to the earlier cell.
            assert [place(origin) for origin in result] == [place(min(line)) for line in own]
        elif assignment == "nearest_first":
            assert [place(origin) for origin in result] == [place(patch) for patch in greedy_choice(own, unique)]
        else:
            total = sum(patch.distance for patch in best_choice(own, unique))
            assert sum(origin.distance for origin in result) == total
        for origin, prototype in zip(result, model.prototypes[2 * label :], strict=False):
            image = images[IDS.index(origin.image)]
            assert torch.equal(image[:, origin.row, origin.col], prototype[:, 0, 0])


def test_a_batch_size_does_not_change_the_choice_of_a_real_network() -> None:
    images = noise(12, 13)
    result = []
    for size, order in [(1, range(12)), (3, [5, 3, 11, 0, 9, 1, 10, 2, 8, 4, 7, 6]), (12, range(11, -1, -1))]:
        model = small_model()
        result.append([place(origin) for origin in replaced(model, images, size, list(order))])
    assert result[0] == result[1] == result[2]


@dataclass(frozen=True)
class Table:
    """Distances of prototypes to things, and of each prototype its nearest few, as the pass over the data keeps."""

    whole: np.ndarray
    distances: np.ndarray
    items: np.ndarray


@st.composite
def tables(draw: st.DrawFn) -> Table:
    protos = draw(st.integers(1, 4))
    things = draw(st.integers(protos, 6))
    values = st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]) if draw(st.booleans()) else st.floats(0, 4, width=16)
    whole = np.array(draw(st.lists(values, min_size=protos * things, max_size=protos * things)))
    whole = whole.reshape(protos, things)
    items = np.argsort(whole, axis=1, kind="stable")[:, :protos]
    return Table(whole, np.take_along_axis(whole, items, axis=1), items)


@settings(max_examples=200)
@given(tables())
def test_the_smallest_total_is_the_smallest_over_all_permutations(table: Table) -> None:
    protos, things = table.whole.shape
    chosen = smallest_total(table.distances, table.items)
    taken = table.items[np.arange(protos), chosen]
    assert len(set(taken.tolist())) == protos
    best = min(sum(table.whole[p, t] for p, t in enumerate(way)) for way in permutations(range(things), protos))
    assert table.distances[np.arange(protos), chosen].sum() == pytest.approx(best, abs=1e-12)


@settings(max_examples=200)
@given(tables())
def test_nearest_first_is_what_its_name_says(table: Table) -> None:
    protos, things = table.whole.shape
    expected: dict[int, int] = {}
    while len(expected) < protos:
        free = [
            (table.whole[p, t], p, t)
            for p, t in product(range(protos), range(things))
            if p not in expected and t not in expected.values()
        ]
        _, proto, thing = min(free)
        expected[proto] = thing
    chosen = nearest_first(table.distances, table.items)
    assert table.items[np.arange(protos), chosen].tolist() == [expected[p] for p in range(protos)]


# Classes with little to offer ---------------------------------------------------------------------------------


def test_a_class_with_fewer_images_than_prototypes_gets_different_patches() -> None:
    model = small_model(prototypes_per_class=5)
    model.prototypes.data[:] = model.prototypes.data[:1]  # all want the same patch
    images, labels, ids = noise(8, 13), [0, 0, 1, 1, 1, 1, 1, 1], IDS[:8]
    origins = replace_prototypes(model, batches_of(images, labels, ids, 3), entries_of(labels, ids), Replacement())
    few, many = origins[:5], origins[5:]
    assert {origin.unique for origin in few} == {"patch"}
    assert len({place(origin) for origin in few}) == 5
    assert len({origin.image for origin in few}) == 2
    assert {origin.unique for origin in many} == {"image"}
    assert len({origin.image for origin in many}) == 5


def test_a_class_with_fewer_patches_than_prototypes_gets_the_nearest_and_no_zeros() -> None:
    model = identity_model(2, 2, 2, prototypes_per_class=8)
    model.prototypes.data[:] = torch.arange(48).reshape(16, 3, 1, 1) / 8
    labels, ids = [0, 1, 1], ["b", "a", "c"]
    images = torch.arange(36, dtype=torch.float32).reshape(3, 3, 2, 2) + 1
    before = model.prototypes.detach().clone()
    origins = replace_prototypes(model, batches_of(images, labels, ids, 2), entries_of(labels, ids), Replacement())
    assert {origin.unique for origin in origins[:8]} == {"none"}
    assert {origin.unique for origin in origins[8:]} == {"patch"}
    assert {origin.image for origin in origins[:8]} == {"b"}
    patches = images[0].flatten(1).T
    for number in range(8):
        nearest = ((patches - before[number].flatten()) ** 2).sum(dim=1).argmin()
        assert torch.equal(model.prototypes[number].flatten(), patches[nearest])
    assert len({place(origin) for origin in origins[8:]}) == 8
    assert (model.prototypes.flatten(1) > 0).all()


def test_a_class_without_images_is_an_error_that_names_it() -> None:
    model = small_model(classes=3)
    before = model.prototypes.detach().clone()
    with pytest.raises(ValueError, match="class 2"):
        replaced(model, noise(8, 13))
    assert torch.equal(model.prototypes, before)
    assert model.origins is None


# What it does to a model --------------------------------------------------------------------------------------


def modes_of(model: PixPNet) -> list[bool]:
    return [module.training for module in model.modules()]


def mixed_modes(model: PixPNet) -> list[bool]:
    model.train()
    model.backbone.eval()
    model.add_on[0].eval()
    return modes_of(model)


def test_only_prototypes_and_origins_change() -> None:
    model = small_model(head="linear")
    modes = mixed_modes(model)
    before = {name: value.clone() for name, value in [*model.named_parameters(), *model.named_buffers()]}
    gradients = [parameter.requires_grad for parameter in model.parameters()]
    origins = replaced(model, noise(12, 13))
    assert modes_of(model) == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == gradients
    after = dict([*model.named_parameters(), *model.named_buffers()])
    assert [name for name in before if not torch.equal(before[name], after[name])] == ["prototype_layer.prototypes"]
    assert model.origins == origins


def test_an_error_midway_leaves_modes_and_prototypes_as_they_were() -> None:
    model = small_model()
    modes = mixed_modes(model)
    before = model.prototypes.detach().clone()

    def batches() -> Iterator[Batch]:
        yield from batches_of(noise(12, 13), LABELS, IDS, 4)[:2]
        raise OSError("the disk went away")

    with pytest.raises(OSError, match="went away"):
        replace_prototypes(model, batches(), entries_of(LABELS, IDS), Replacement())
    assert modes_of(model) == modes
    assert torch.equal(model.prototypes, before)
    assert torch.is_grad_enabled()


def test_what_is_kept_does_not_grow_with_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    remaining: list[int] = []
    choose = replacement.choose

    def measured(result: Any, *rest: Any) -> Any:
        tensors = [getattr(result, name) for name in ("distances", "images", "cells", "to_source", "vectors")]
        remaining.append(sum(tensor.untyped_storage().nbytes() for tensor in tensors))
        return choose(result, *rest)

    monkeypatch.setattr(replacement, "choose", measured)
    for count in (6, 60):
        labels, ids = [k % 2 for k in range(count)], [f"{k:03d}" for k in range(count)]
        images = noise(count, 13)
        replace_prototypes(small_model(), batches_of(images, labels, ids, 7), entries_of(labels, ids), Replacement())
    # 6 prototypes with 3 candidates each: a float, two whole numbers, 9 doubles and 5 floats.
    assert remaining == [6 * 3 * (4 + 8 + 8 + 72 + 20)] * 2


def test_progress_counts_batches() -> None:
    told: list[tuple[int, int]] = []
    batches = batches_of(noise(12, 13), LABELS, IDS, 5)
    replace_prototypes(
        small_model(),
        batches,
        entries_of(LABELS, IDS),
        Replacement(),
        progress=lambda _, done, total: told.append((done, total)),
    )
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_the_smallest_total_holds_for_measures_that_are_negative() -> None:
    distances = np.array([[-8.0, 0.0], [-8.0, 0.0], [-8.0, 0.0]])
    items = np.array([[7, 8], [7, 8], [8, 9]])
    # The third must leave patch 8 to one of the others, who have nothing else.
    assert sorted(smallest_total(distances, items).tolist()) == [0, 1, 1]
    assert smallest_total(distances, items)[2] == 1
