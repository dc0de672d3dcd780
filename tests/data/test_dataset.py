"""Opening a data set: bad files, leaks, the lock on the test split, mean and std."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pixpnet.data import (
    BadFilesError,
    DataError,
    DataOptions,
    DataWarning,
    Entry,
    LeakError,
    Opening,
    open_data,
    record_in,
)
from pixpnet.data import scan as scan_module
from pixpnet.data.catalog import Reader

SaveNoise = Callable[..., Path]


def test_a_pool_is_split_three_ways_without_overlap(jays_and_wrens: Path) -> None:
    data = open_data(f"folder:{jays_and_wrens}")
    test = data.test.open([].append, "to see whether splits overlap")
    parts = [{entry.id for entry in split} for split in (data.train, data.val, test)]
    assert all({id_.partition("/")[0] for id_ in part} == {"jay", "wren"} for part in parts)
    assert sum(map(len, parts)) == len(set.union(*parts)) == 20
    assert data.class_names == ("jay", "wren")


def test_by_quota_a_pool_gives_exact_shares(jays_and_wrens: Path) -> None:
    data = open_data(f"folder:{jays_and_wrens}", DataOptions(split_rule="quota"))
    assert (len(data.train), len(data.val), len(data.test)) == (14, 2, 4)


def splits_of(root: Path) -> dict[str, str]:
    """The split of each picture, by its pixels."""
    data = open_data(f"folder:{root}")
    test = data.test.open([].append, "to see whether images move")
    splits = {"train": data.train, "val": data.val, "test": test}
    return {digest_of(entry): name for name, entries in splits.items() for entry in entries}


def digest_of(entry: Entry) -> str:
    assert entry.path is not None
    return hashlib.sha256(np.asarray(Image.open(entry.path))).hexdigest()


def test_a_folder_that_grows_and_is_renamed_moves_no_image_to_another_split(
    tmp_path: Path, save_noise: SaveNoise
) -> None:
    for number in range(120):
        save_noise(tmp_path / ("jay", "wren")[number % 2] / f"{number}.png", number, (8, 8))
    before = splits_of(tmp_path)
    for number in range(120, 150):
        save_noise(tmp_path / ("jay", "owl")[number % 2] / f"{number}.png", number, (8, 8))
    for number in range(0, 40, 2):
        (tmp_path / "jay" / f"{number}.png").rename(tmp_path / "jay" / f"renamed {number}.png")
    after = splits_of(tmp_path)
    assert len(after) == 150
    assert {digest: after[digest] for digest in before} == before


def test_copies_in_a_pool_are_all_in_one_split(tmp_path: Path, save_noise: SaveNoise) -> None:
    for number in range(40):
        original = save_noise(tmp_path / "jay" / f"{number}.png", number, (8, 8))
        with Image.open(original) as image:
            image.save(tmp_path / "jay" / f"a copy of {number}.bmp")
    data = open_data(f"folder:{tmp_path}")  # by name, copies would leak into test, which is refused
    test = data.test.open([].append, "to see whether copies are apart")
    parts = [{digest_of(entry) for entry in split} for split in (data.train, data.val, test)]
    assert sum(map(len, parts)) == 40
    assert all(parts)


def test_a_validation_image_that_is_also_in_train_is_left_out_of_validation_and_said(
    tmp_path: Path, save_noise: SaveNoise
) -> None:
    for split, seed in (("train", 0), ("val", 10), ("test", 20)):
        for number in range(3):
            save_noise(tmp_path / split / "jay" / f"{number}.png", seed + number)
    shutil.copy(tmp_path / "train" / "jay" / "1.png", tmp_path / "val" / "jay" / "copy.png")
    with pytest.warns(DataWarning, match=r"1 validation image.*left out.*\n.*val/jay/copy.png.*is train/jay/1.png"):
        data = open_data(f"folder:{tmp_path}")
    assert [entry.id for entry in data.val] == [f"val/jay/{number}.png" for number in range(3)]
    assert len(data.train) == 3


def test_drawn_birds_are_split_by_quota_whatever_rule_is_asked_for() -> None:
    """They have no files that could come and go, and published figures stand on their split."""
    by_pixels, by_quota = (open_data("birds", DataOptions(split_rule=rule)) for rule in ("pixels", "quota"))
    assert by_pixels.val == by_quota.val
    assert len(by_pixels.val) == 240
    assert by_pixels.split_rule == "quota"


def test_bad_files_stop_with_the_whole_list(jays_and_wrens: Path) -> None:
    (jays_and_wrens / "jay" / "empty.jpg").touch()
    (jays_and_wrens / "wren" / "words.jpg").write_text("no picture")
    with pytest.raises(BadFilesError, match=r"2 unusable.*\n.*jay/empty.jpg: empty.*\n.*words.jpg: not an") as caught:
        open_data(f"folder:{jays_and_wrens}")
    assert [problem.where for problem in caught.value.problems] == ["jay/empty.jpg", "wren/words.jpg"]
    assert "on_bad='skip'" in str(caught.value)


def test_bad_files_are_left_out_when_asked_and_never_silently(jays_and_wrens: Path) -> None:
    (jays_and_wrens / "jay" / "empty.jpg").touch()
    with pytest.warns(DataWarning, match=r"going on without 1 unusable.*\n.*jay/empty.jpg"):
        data = open_data(f"folder:{jays_and_wrens}", DataOptions(on_bad="skip"))
    assert [problem.where for problem in data.skipped] == ["jay/empty.jpg"]
    assert "jay/empty.jpg" not in {entry.id for entry in (*data.train, *data.val)}


def test_leaving_bad_files_out_moves_no_other_image_but_at_the_boundary(jays_and_wrens: Path) -> None:
    whole = open_data(f"folder:{jays_and_wrens}")
    (jays_and_wrens / "jay" / "zzz.jpg").touch()
    with pytest.warns(DataWarning):
        assert open_data(f"folder:{jays_and_wrens}", DataOptions(on_bad="skip")).val == whole.val


def test_a_class_whose_images_are_all_bad_stops(jays_and_wrens: Path) -> None:
    (jays_and_wrens / "owl").mkdir()
    (jays_and_wrens / "owl" / "1.jpg").touch()
    with pytest.warns(DataWarning), pytest.raises(DataError, match="no usable training image in owl"):
        open_data(f"folder:{jays_and_wrens}", DataOptions(on_bad="skip"))


def leaking(root: Path, save_noise: SaveNoise) -> Path:
    for split, seed in (("train", 0), ("test", 10)):
        for number in range(4):
            save_noise(root / split / "jay" / f"{number}.png", seed + number)
    # The same pixels under another name and in another format.
    with Image.open(root / "train" / "jay" / "2.png") as image:
        image.save(root / "test" / "jay" / "copy.bmp")
    return root


def test_a_test_image_that_is_also_in_train_is_refused(tmp_path: Path, save_noise: SaveNoise) -> None:
    with pytest.raises(LeakError, match=r"test/jay/copy.bmp \(test\) is train/jay/2.png \(train\)") as caught:
        open_data(f"folder:{leaking(tmp_path, save_noise)}")
    assert len(caught.value.leaks) == 1


def test_a_leak_is_reported_when_asked(tmp_path: Path, save_noise: SaveNoise) -> None:
    root = leaking(tmp_path, save_noise)
    with pytest.warns(DataWarning, match="also in train"):
        data = open_data(f"folder:{root}", DataOptions(on_leak="report"))
    assert [leak.test_id for leak in data.leaks] == ["test/jay/copy.bmp"]


def test_a_leak_into_validation_counts_too(tmp_path: Path, save_noise: SaveNoise) -> None:
    for split, seed in (("train", 0), ("val", 10), ("test", 20)):
        save_noise(tmp_path / split / "jay" / "1.png", seed)
    shutil.copy(tmp_path / "val" / "jay" / "1.png", tmp_path / "test" / "jay" / "2.png")
    with pytest.raises(LeakError):
        open_data(f"folder:{tmp_path}")


def test_the_test_split_is_closed_until_it_is_opened_on_record(jays_and_wrens: Path) -> None:
    """Mistake 5 of earlier software: test images at hand while choosing."""
    data = open_data(f"folder:{jays_and_wrens}")
    openings: list[Opening] = []
    test = data.test.open(openings.append, "final evaluation")
    names = {entry.id for entry in test}
    assert [(one.reason, one.images) for one in openings] == [("final evaluation", len(names))]
    assert not names & {entry.id for entry in (*data.train, *data.val)}
    assert not any(name in repr(data) for name in names)
    with pytest.raises(TypeError):
        iter(data.test)  # type: ignore[call-overload]


def test_a_recorder_that_fails_keeps_the_split_closed(jays_and_wrens: Path) -> None:
    def full_disk(opening: Opening) -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        open_data(f"folder:{jays_and_wrens}").test.open(full_disk, "final evaluation")


def test_openings_are_appended_to_a_file(jays_and_wrens: Path, tmp_path: Path) -> None:
    data = open_data(f"folder:{jays_and_wrens}")
    for reason in ("first", "second"):
        data.test.open(record_in(tmp_path / "openings.jsonl"), reason)
    lines = [json.loads(line) for line in (tmp_path / "openings.jsonl").read_text().splitlines()]
    assert [line["reason"] for line in lines] == ["first", "second"]
    assert lines[0]["fingerprint"] == lines[1]["fingerprint"]
    assert lines[0].keys() == {"time", "data", "reason", "images", "fingerprint"}


def test_opening_without_a_reason_or_without_images_is_refused(tmp_path: Path, save_noise: SaveNoise) -> None:
    for number in range(3):
        save_noise(tmp_path / "train" / "jay" / f"{number}.png", number)
    with pytest.raises(DataError, match="has no test split"):
        open_data(f"folder:{tmp_path}", DataOptions(test_fraction=0)).test.open([].append, "final evaluation")
    pool = open_data(f"folder:{tmp_path / 'train'}")
    with pytest.raises(ValueError, match="needs a reason"):
        pool.test.open([].append, " ")


def test_mean_and_std_are_those_of_the_training_images_each_with_the_same_weight(
    tmp_path: Path, save_noise: SaveNoise
) -> None:
    pixels = []
    for number, size in enumerate([(20, 30), (50, 10), (7, 7)]):
        path = save_noise(tmp_path / "train" / "jay" / f"{number}.png", number, size)
        pixels.append(np.asarray(Image.open(path)).reshape(-1, 3) / 255)
    save_noise(tmp_path / "test" / "jay" / "0.png", 99)  # must not count
    data = open_data(f"folder:{tmp_path}")
    mean = np.mean([one.mean(axis=0) for one in pixels], axis=0)
    square = np.mean([(one**2).mean(axis=0) for one in pixels], axis=0)
    np.testing.assert_allclose(data.preprocessing.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(data.preprocessing.std, np.sqrt(square - mean**2), rtol=1e-10)


def test_one_huge_picture_counts_like_any_other(tmp_path: Path) -> None:
    """Nine black and white ones and a grey one of 600 times their pixels: by pixels the std would be next to 0."""
    for number in range(9):
        pixels = np.zeros((20, 20, 3), dtype=np.uint8)
        pixels[:, 10 - (number == 0) :] = 255
        pixels[0, number] = 9  # no two alike
        (tmp_path / "train" / "jay").mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "train" / "jay" / f"{number}.png")
    Image.new("RGB", (600, 400), (128, 128, 128)).save(tmp_path / "train" / "jay" / "huge.png")
    data = open_data(f"folder:{tmp_path}", DataOptions(test_fraction=0))
    assert all(0.44 < std < 0.5 for std in data.preprocessing.std)


def test_images_of_one_value_have_no_spread_whatever_their_sizes(tmp_path: Path) -> None:
    """So that a data set that cannot be normalised is found."""
    for number, size in enumerate([(7, 9), (20, 30), (11, 13)]):
        (tmp_path / "train" / "jay").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size, (77, 78, 79)).save(tmp_path / "train" / "jay" / f"{number}.png")
    with pytest.raises(ValueError, match=r"std must be positive, got \(0\.0, 0\.0, 0\.0\)"):
        open_data(f"folder:{tmp_path}", DataOptions(test_fraction=0))


def test_files_are_read_once_and_again_when_they_change(jays_and_wrens: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    look = scan_module._look

    def noting(entry: Entry, reader: Reader) -> scan_module.FileFacts:
        looked.append(entry.id)
        return look(entry, reader)

    monkeypatch.setattr(scan_module, "_look", noting)
    first = open_data(f"folder:{jays_and_wrens}")
    assert len(looked) == 20
    assert open_data(f"folder:{jays_and_wrens}").preprocessing == first.preprocessing
    assert len(looked) == 20
    changed = jays_and_wrens / "jay" / "0.png"
    os.utime(changed, ns=(1, 1))
    open_data(f"folder:{jays_and_wrens}")
    assert looked[20:] == ["jay/0.png"]


@pytest.mark.parametrize("content", ["", "{", '{"version": 1}', '{"version": 1, "files": {"jay/0.png": [1]}}', "[]"])
def test_a_damaged_cache_is_made_anew(
    jays_and_wrens: Path, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIXPNET_CACHE", str(tmp_path / "cache"))
    first = open_data(f"folder:{jays_and_wrens}")
    caches = list(scan_module.cache_folder().glob("scan-*.json"))
    assert len(caches) == 1
    caches[0].write_text(content)
    assert open_data(f"folder:{jays_and_wrens}").preprocessing == first.preprocessing


def test_two_files_of_one_size_and_time_that_change_places_are_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIXPNET_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    for name, number in product(("jay", "wren"), range(4)):
        path = tmp_path / "pool" / name / f"{number}.ppm"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(path)
        os.utime(path, (0, 0))

    def digests() -> dict[str, str]:
        listed = open_data(f"folder:{tmp_path / 'pool'}").listed
        return {image.id: image.digest for image in listed.images}

    before = digests()
    one, two = tmp_path / "pool" / "jay" / "0.ppm", tmp_path / "pool" / "wren" / "0.ppm"
    one.rename(tmp_path / "third.ppm")
    two.rename(one)
    (tmp_path / "third.ppm").rename(two)
    swapped = {"jay/0.ppm": before["wren/0.ppm"], "wren/0.ppm": before["jay/0.ppm"]}
    assert digests() == {**before, **swapped}


def test_a_cache_that_cannot_be_written_is_said_and_does_no_harm(
    jays_and_wrens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PIXPNET_CACHE", str(tmp_path / "file" / "below"))
    with pytest.warns(DataWarning, match="PIXPNET_CACHE"):
        data = open_data(f"folder:{jays_and_wrens}")
    assert len(data.train) + len(data.val) + len(data.test) == 20


def test_progress_counts_up_to_all_files(jays_and_wrens: Path) -> None:
    told: list[tuple[int, int]] = []
    open_data(f"folder:{jays_and_wrens}", progress=lambda _, done, total: told.append((done, total)))
    assert told == [(done, 20) for done in range(21)]
