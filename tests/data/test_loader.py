"""Batches are the same whatever the number of workers, and after any interruption."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.data import (
    Augmentation,
    Batch,
    DataOptions,
    DataSet,
    DrawnBirds,
    EpochSampler,
    Loading,
    collate,
    open_data,
    plain_loader,
    preprocess,
    training_loader,
)
from pixpnet.data.keeping import KeepingReader, MemoryStore

AUGMENTATION = Augmentation(factor=3)


@pytest.fixture
def jays(jays_and_wrens: Path) -> DataSet:
    return open_data(f"folder:{jays_and_wrens}")


def epochs(data: DataSet, loading: Loading, which: range, seed: int = 5) -> list[Batch]:
    """All batches of some epochs, as a training run sees them."""
    loader = training_loader(data, data.preprocessing.scaled_to(32), AUGMENTATION, loading, seed)
    batches: list[Batch] = []
    for epoch in which:
        loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
        batches += loader
    return batches


def assert_equal(some: list[Batch], others: list[Batch]) -> None:
    assert [batch.ids for batch in some] == [batch.ids for batch in others]
    for one, other in zip(some, others, strict=True):
        assert torch.equal(one.images, other.images)
        assert torch.equal(one.labels, other.labels)
        assert torch.equal(one.to_source, other.to_source)


def test_workers_and_cache_change_nothing(jays: DataSet) -> None:
    alone = epochs(jays, Loading(batch_size=8, cache_bytes=0), range(2))
    assert_equal(epochs(jays, Loading(batch_size=8, num_workers=2), range(2)), alone)
    assert_equal(epochs(jays, Loading(batch_size=8, cache_bytes=20_000), range(2)), alone)


def test_a_resumed_run_sees_what_the_uninterrupted_one_saw(jays: DataSet) -> None:
    whole = epochs(jays, Loading(batch_size=8), range(4))
    torch.rand(17)
    resumed = epochs(jays, Loading(batch_size=8), range(2, 4))
    assert_equal(resumed, whole[len(whole) // 2 :])


def test_epochs_and_seeds_differ(jays: DataSet) -> None:
    first, second, other = (
        torch.cat([batch.images for batch in epochs(jays, Loading(), which, seed)])
        for which, seed in ((range(1), 5), (range(1, 2), 5), (range(1), 6))
    )
    assert not torch.equal(first, second)
    assert not torch.equal(first, other)


def test_an_epoch_shows_each_training_image_as_often_as_the_factor_says(jays: DataSet) -> None:
    ids = [name for batch in epochs(jays, Loading(batch_size=8), range(1)) for name in batch.ids]
    assert len(ids) == 3 * len(jays.train)
    assert sorted(ids) == sorted(3 * [entry.id for entry in jays.train])


def test_the_views_of_an_image_differ(jays: DataSet) -> None:
    batches = epochs(jays, Loading(batch_size=100), range(1))
    views = [image for image, name in zip(batches[0].images, batches[0].ids, strict=True) if name == jays.train[0].id]
    assert len(views) == 3
    assert not any(torch.equal(views[one], views[other]) for one, other in ((0, 1), (0, 2), (1, 2)))


def test_loading_leaves_the_global_generator_alone(jays: DataSet) -> None:
    before = torch.get_rng_state()
    epochs(jays, Loading(batch_size=8, num_workers=1), range(1))
    list(plain_loader(jays, jays.val, jays.preprocessing, Loading()))
    assert torch.equal(torch.get_rng_state(), before)


def test_validation_images_are_not_augmented(jays: DataSet) -> None:
    """Mistake 4 of earlier software."""
    for _ in range(2):
        (batch,) = plain_loader(jays, jays.val, jays.preprocessing, Loading())
        expected = [preprocess(jays.reader(entry), jays.preprocessing).image for entry in jays.val]
        assert batch.ids == tuple(entry.id for entry in jays.val)
        assert torch.equal(batch.images, torch.stack(list(expected)))


@given(st.integers(1, 40), st.integers(1, 5), st.integers(0, 3))
def test_ranks_share_an_epoch_out_evenly(length: int, world_size: int, epoch: int) -> None:
    shares = []
    for rank in range(world_size):
        sampler = EpochSampler(length, 0, rank, world_size)
        sampler.set_epoch(epoch)
        shares.append([key.view for key in sampler])
        assert len(shares[-1]) == len(sampler) == -(-length // world_size)
    seen = [view for share in shares for view in share]
    assert set(seen) == set(range(length))
    assert len(seen) - length < world_size


def test_every_epoch_has_an_order_of_its_own() -> None:
    sampler = EpochSampler(50, seed=0)
    orders = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        orders.append(tuple(key.view for key in sampler))
    assert len(set(orders)) == 3
    assert tuple(key.view for key in EpochSampler(50, seed=1)) not in orders


def test_a_rank_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="rank 2 is not one of 2"):
        EpochSampler(10, 0, rank=2, world_size=2)


def test_the_cache_stays_within_its_budget_and_returns_the_same(jays: DataSet) -> None:
    size = 40 * 50 * 3
    cached = KeepingReader(jays.reader, MemoryStore(budget=3 * size + 100))
    for _ in range(2):
        for entry in jays.train:
            assert torch.equal(cached(entry).image, jays.reader(entry).image)
    assert cached.store.used == 3 * size  # type: ignore[attr-defined]
    assert cached(jays.train[0]) is cached(jays.train[0])
    assert cached(jays.train[9]) is not cached(jays.train[9])


def test_batches_carry_masks_boxes_and_points_of_drawn_birds() -> None:
    data = open_data("birds", DataOptions(birds=DrawnBirds(train=24, test=0, size=48)))
    (batch,) = plain_loader(data, data.train, data.preprocessing, Loading(batch_size=24))
    assert batch.masks is not None and batch.boxes is not None
    assert batch.masks.shape == (12, len(data.part_names), 48, 48)
    assert batch.boxes.shape == (12, 4)
    assert batch.keypoints.shape == (12, len(data.point_parts), 2)
    assert len(batch) == 12


def test_a_batch_moves_to_another_device_whole() -> None:
    data = open_data("birds", DataOptions(birds=DrawnBirds(train=24, test=0, size=48)))
    (batch,) = plain_loader(data, data.train, data.preprocessing, Loading(batch_size=24))
    moved = batch.to("meta")
    assert moved.images.device.type == moved.labels.device.type == moved.visible.device.type == "meta"
    assert moved.masks is not None and moved.masks.device.type == "meta"
    assert moved.to_source.device.type == "cpu"


def test_samples_with_and_without_boxes_do_not_mix(jays: DataSet) -> None:
    birds = open_data("birds", DataOptions(birds=DrawnBirds(train=24, test=0, size=224)))
    bird = preprocess(birds.reader(birds.train[0]), birds.preprocessing)
    jay = preprocess(jays.reader(jays.train[0]), jays.preprocessing)
    with pytest.raises(ValueError, match="1 of 2 samples have masks"):
        collate([bird, jay])
