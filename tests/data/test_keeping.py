"""Images are kept at the size that is needed of them, and what is kept changes nothing."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pixpnet.data import DataSet, Entry, Loading, Sample, open_data, plain_loader, training_loader
from pixpnet.data.keeping import KeepingReader, MemoryStore, for_augmented_views, for_plain_views, keeping
from pixpnet.data.shared_store import SharedStore, content_of


@pytest.fixture
def jays(jays_and_wrens: Path) -> DataSet:
    """Files of 40 x 50 pixels, of which networks of 7 pixels need little: the shortest side is 16."""
    return open_data(f"folder:{jays_and_wrens}")


class Counting:
    """Counts how often an entry was read."""

    def __init__(self, data: DataSet) -> None:
        self.reader = data.reader
        self.read: list[str] = []

    def __call__(self, entry: Entry) -> Sample:
        self.read.append(entry.id)
        return self.reader(entry)


def test_of_a_large_file_the_square_and_the_working_image_are_kept(jays: DataSet) -> None:
    small = jays.preprocessing.scaled_to(7)
    counting, store = Counting(jays), MemoryStore(2**20)
    reader = KeepingReader(counting, store)
    plain, augmented = for_plain_views(reader, small), for_augmented_views(reader, small, jays.augmentation)
    entry = jays.train[0]
    for _ in range(3):
        assert plain(entry).size == (7, 7)
        assert augmented(entry).size == (20, 25)  # 40 / 16 = 2.5
    assert counting.read == 2 * [entry.id]
    assert store.used == 3 * (7 * 7 + 20 * 25)


def test_of_a_file_that_is_needed_whole_its_image_is_kept_once_for_everybody(jays: DataSet) -> None:
    large = jays.preprocessing.scaled_to(24)
    counting, store = Counting(jays), MemoryStore(2**20)
    reader = KeepingReader(counting, store)
    entry = jays.train[0]
    for _ in range(3):
        assert for_augmented_views(reader, large, jays.augmentation)(entry).size == (40, 50)
        assert for_plain_views(reader, large)(entry).size == (24, 24)
        assert reader(entry).size == (40, 50)
    assert counting.read == [entry.id]
    assert store.used == 3 * 40 * 50


def test_networks_of_two_sizes_do_not_get_each_others_images(jays: DataSet) -> None:
    reader = keeping(jays.reader, 2**20, 0)
    entry = jays.train[0]
    for size in (5, 7, 5):
        assert for_plain_views(reader, jays.preprocessing.scaled_to(size))(entry).size == (size, size)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_of_large_files_are_the_same_whatever_is_kept(jays: DataSet, num_workers: int) -> None:
    small, augmentation = jays.preprocessing.scaled_to(7), replace(jays.augmentation, factor=3)

    def images(cache_bytes: int) -> list[torch.Tensor]:
        loading = Loading(8, num_workers, cache_bytes)
        loader = training_loader(jays, small, augmentation, loading, seed=1)
        seen = []
        for epoch in range(2):
            loader.sampler.set_epoch(epoch)  # type: ignore[union-attr]
            seen += [batch.images for batch in loader]
        plain = plain_loader(jays, jays.train, small, loading)
        return seen + [batch.images for _ in range(2) for batch in plain]

    expected, kept, partly = images(0), images(2**20), images(10_000)
    assert len(kept) == len(partly) == len(expected)
    assert all(map(torch.equal, kept, expected)) and all(map(torch.equal, partly, expected))


def test_the_shared_file_holds_the_small_images_and_a_changed_file_is_read_anew(jays: DataSet) -> None:
    small = jays.preprocessing.scaled_to(7)
    counting = Counting(jays)
    reader = keeping(counting, 2**20, num_workers=2)
    plain, entry = for_plain_views(reader, small), jays.train[0]
    first = plain(entry)
    assert torch.equal(plain(entry).image, first.image) and torch.equal(plain(entry).to_source, first.to_source)
    assert counting.read == [entry.id]
    assert isinstance(reader.store, SharedStore) and reader.store.cache.used == len(content_of(first))
    assert entry.path is not None
    entry.path.write_bytes(jays.train[1].path.read_bytes())  # type: ignore[union-attr]
    assert not torch.equal(plain(entry).image, first.image)
