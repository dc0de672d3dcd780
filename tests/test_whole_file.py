"""Files that are there whole or not at all."""

import os
from pathlib import Path

import pytest

from pixpnet.whole_file import written_whole


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("old", [None, b"old"])
def test_what_goes_wrong_while_writing_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, error: type[BaseException], old: bytes | None
) -> None:
    path = tmp_path / "file"
    if old is not None:
        path.write_bytes(old)
    with pytest.raises(error), written_whole(path) as temporary:
        temporary.write_bytes(b"half of it")
        raise error
    assert [result.name for result in tmp_path.iterdir()] == ([] if old is None else ["file"])
    assert old is None or path.read_bytes() == old


def test_until_it_is_whole_the_old_file_is_what_others_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with written_whole(path) as temporary:
        temporary.write_bytes(b"new")
        assert path.read_bytes() == b"old"
        assert temporary.parent == path.parent  # else it could not take its place in one step
    assert path.read_bytes() == b"new"
    assert [result.name for result in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"), written_whole(tmp_path / "nowhere" / "file"):
        pass


def test_a_folder_in_the_way_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(IsADirectoryError), written_whole(tmp_path / "file") as temporary:
        temporary.write_bytes(b"new")
    assert [result.name for result in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(("mask", "bits"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664), (0o000, 0o666)])
def test_a_files_permissions_are_those_that_the_umask_leaves(tmp_path: Path, mask: int, bits: int) -> None:
    before = os.umask(mask)
    try:
        with written_whole(tmp_path / "file") as temporary:
            temporary.write_bytes(b"new")
        left = os.umask(mask)
    finally:
        os.umask(before)
    assert left == mask
    assert (tmp_path / "file").stat().st_mode & 0o777 == bits
