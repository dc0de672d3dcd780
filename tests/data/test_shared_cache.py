"""The cache that processes share: it holds what was put in, once, within a budget, and leaves nothing behind."""

import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pixpnet.data import DataSet, Entry, Loading, open_data, plain_loader, training_loader
from pixpnet.data.keeping import keeping
from pixpnet.data.shared_cache import PREFIX, SharedCache, stamp_of
from pixpnet.data.shared_store import SharedStore, content_of, sample_from

STAMP = (1, 2, 3)


@pytest.fixture
def jays(jays_and_wrens: Path) -> DataSet:
    return open_data(f"folder:{jays_and_wrens}")


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 2), st.binary(max_size=40)), max_size=30))
def test_it_holds_what_a_dictionary_with_a_budget_would_hold(steps: list[tuple[str, int, bytes]]) -> None:
    cache = SharedCache(budget=200, capacity=64)
    expected: dict[str, tuple[int, bytes]] = {}
    used = 0
    for key, version, content in steps:
        fits = used + len(content) <= 200
        new = expected.get(key, (None, b""))[0] != version
        assert cache.add(key, (version, 0, 0), content) is (fits and new)
        if fits and new:
            expected[key] = (version, content)
            used += len(content)
        for other in "abcdefgh":
            for number in range(3):
                held = expected.get(other)
                wanted = held[1] if held is not None and held[0] == number else None
                assert cache.find(other, (number, 0, 0)) == wanted
    assert cache.used == used
    cache.close()


def test_a_full_table_refuses_and_finds_nothing_wrong() -> None:
    cache = SharedCache(budget=10_000, capacity=8)
    added = [number for number in range(50) if cache.add(str(number), STAMP, str(number).encode())]
    assert len(added) == 8
    for number in range(50):
        assert cache.find(str(number), STAMP) == (str(number).encode() if number in added else None)


def _add_many(cache: SharedCache, first: int) -> None:
    for number in range(first, first + 300):
        cache.add(str(number), STAMP, str(number).encode() * 50)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_share_it_and_each_content_is_there_once(method: str) -> None:
    cache = SharedCache(budget=2**20)
    context = multiprocessing.get_context(method)
    # All of them overlap.
    workers = [context.Process(target=_add_many, args=(cache, first)) for first in (0, 0, 150, 300)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    for number in range(600):
        assert cache.find(str(number), STAMP) == str(number).encode() * 50
    assert cache.used == sum(len(str(number)) * 50 for number in range(600))


def _die_while_writing(cache: SharedCache) -> None:
    genuine = os.pwrite

    def dying(file: int, content: bytes, at: int) -> int:
        if len(content) > 1000:
            genuine(file, content[:500], at)
            os.kill(os.getpid(), signal.SIGKILL)
        return genuine(file, content, at)

    os.pwrite = dying
    cache.add("jay", STAMP, b"x" * 5000)


def test_a_process_killed_in_the_middle_leaves_nothing_that_is_read() -> None:
    cache = SharedCache(budget=2**20)
    worker = multiprocessing.get_context("fork").Process(target=_die_while_writing, args=(cache,))
    worker.start()
    worker.join()
    assert worker.exitcode == -signal.SIGKILL
    assert cache.find("jay", STAMP) is None
    assert cache.add("wren", STAMP, b"whole")
    assert cache.find("wren", STAMP) == b"whole"


def _make_and_die(folder: str) -> None:
    cache = SharedCache(budget=2**20, folder=Path(folder))
    cache.add("jay", STAMP, b"x")
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_file_goes_with_its_owner_and_what_a_kill_leaves_is_swept(tmp_path: Path) -> None:
    cache = SharedCache(budget=1000, folder=tmp_path)
    pickle.loads(pickle.dumps(cache)).close()  # a worker's
    assert cache.add("jay", STAMP, b"x")
    del cache
    assert not list(tmp_path.glob(f"{PREFIX}*"))
    owner = multiprocessing.get_context("fork").Process(target=_make_and_die, args=(str(tmp_path),))
    owner.start()
    owner.join()
    assert len(list(tmp_path.glob(f"{PREFIX}*"))) == 1
    living = SharedCache(budget=1000, folder=tmp_path)
    another = SharedCache(budget=1000, folder=tmp_path)
    assert len(list(tmp_path.glob(f"{PREFIX}*"))) == 2
    assert living.add("jay", STAMP, b"x")
    assert another.find("jay", STAMP) is None


def test_a_sample_is_read_back_with_all_that_it_holds(jays: DataSet) -> None:
    birds = open_data("birds")
    for data in (jays, birds):
        for entry in data.train[:3]:
            sample = data.reader(entry)
            back = sample_from(content_of(sample), entry)
            for name in ("image", "to_source", "keypoints", "visible", "masks", "bounding_box"):
                one, other = getattr(sample, name), getattr(back, name)
                assert type(one) is type(other)
                assert one is None or (torch.equal(one, other) and one.dtype == other.dtype)
            assert back.image.stride() == sample.image.stride()
            assert (back.label, back.id, back.source_size) == (sample.label, sample.id, sample.source_size)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_image_that_changes_on_disk_is_read_anew(jays: DataSet, workers: int) -> None:
    reader = keeping(jays.reader, 2**20, workers)
    entry = jays.train[0]
    assert entry.path is not None
    before = reader(entry)
    assert torch.equal(reader(entry).image, before.image)
    other = np.full((*before.size, 3), 7, dtype=np.uint8)
    Image.fromarray(other).save(entry.path)
    assert (reader(entry).image == 7).all()
    assert (reader(entry).image == 7).all()
    entry.path.unlink()
    with pytest.raises(Exception, match="cannot be read"):
        reader(entry)


@pytest.mark.parametrize("budget", [30_000, 2**24])
def test_batches_are_bit_for_bit_the_same_whoever_reads_and_whatever_is_kept(jays: DataSet, budget: int) -> None:
    augmentation = replace(jays.augmentation, factor=2)
    preprocessing = jays.preprocessing.scaled_to(24)

    def images(num_workers: int, cache_bytes: int) -> list[torch.Tensor]:
        loading = Loading(8, num_workers, cache_bytes)
        loader = training_loader(jays, preprocessing, augmentation, loading, seed=3)
        seen = []
        for epoch in range(3):
            loader.sampler.set_epoch(epoch)  # type: ignore[union-attr]
            seen += [batch.images for batch in loader]
        return seen + [batch.images for batch in plain_loader(jays, jays.train, preprocessing, loading)]

    expected = images(0, 0)
    for num_workers, cache_bytes in ((0, budget), (1, budget), (2, budget), (2, 0)):
        found = images(num_workers, cache_bytes)
        assert len(found) == len(expected)
        assert all(map(torch.equal, found, expected))


def test_all_workers_together_decode_an_image_once(jays: DataSet, tmp_path: Path) -> None:
    noted = tmp_path / "decoded"
    reader = keeping(_Noting(jays.reader, noted), 2**24, 2)
    assert isinstance(reader.store, SharedStore)
    # The second time an image is wanted, both workers are past the batch in which it came first: a loader hands out a
    # few batches in advance, and there are more in one pass.
    loader = plain_loader(replace(jays, reader=reader), jays.train * 4, jays.preprocessing, Loading(1, 2, 0))
    assert len(jays.train) > 2 * 2 * 2
    for _ in range(2):
        assert sum(len(batch.ids) for batch in loader) == 4 * len(jays.train)
    lines = noted.read_text().splitlines()
    assert sorted(line.split()[0] for line in lines) == sorted(entry.id for entry in jays.train)
    assert len({line.split()[1] for line in lines}) == 2  # both of them decoded some, and neither is this process
    assert str(os.getpid()) not in {line.split()[1] for line in lines}
    expected = sum(len(content_of(jays.reader(entry))) for entry in jays.train)
    assert reader.store.cache.used == expected


class _Noting:
    """Writes down each image that is decoded, and by which process."""

    def __init__(self, reader: Callable[[Entry], object], file: Path) -> None:
        self.reader, self.file = reader, file

    def __call__(self, entry: Entry) -> object:
        with self.file.open("a") as file:
            file.write(f"{entry.id} {os.getpid()}\n")
        return self.reader(entry)


def test_a_file_that_is_not_there_has_no_stamp(tmp_path: Path) -> None:
    assert stamp_of(tmp_path / "none.jpg") is None
