"""A scan that is interrupted goes on where it stopped; of several processes one scans."""

import os
import signal
import subprocess
import sys
import unittest.mock
from pathlib import Path

import pytest

from pixpnet.data import open_data
from pixpnet.data import scan as scan_module
from pixpnet.data.catalog import Entry, Reader
from pixpnet.data.folder import folder_catalog
from pixpnet.data.scan import cache_folder, scan
from pixpnet.data.scan_store import FileFacts, _Lines


def listed(data: Path) -> object:
    opened = open_data(f"folder:{data}")
    return opened.listed, opened.preprocessing


def looking(monkeypatch: pytest.MonkeyPatch, stop_at: int | None = None) -> list[str]:
    """Notes which images are looked at; a person interrupts at one of them."""
    looked: list[str] = []
    genuine = scan_module._look

    def noting(entry: Entry, reader: Reader) -> FileFacts:
        looked.append(entry.id)
        if stop_at is not None and len(looked) > stop_at:
            raise KeyboardInterrupt
        return genuine(entry, reader)

    monkeypatch.setattr(scan_module, "_look", noting)
    return looked


def test_an_interrupted_scan_goes_on_and_finds_the_same(
    jays_and_wrens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIXPNET_CACHE", str(tmp_path / "one"))
    expected = listed(jays_and_wrens)
    monkeypatch.setenv("PIXPNET_CACHE", str(tmp_path / "other"))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "cpu_count", lambda: 1)
        looking(patch, stop_at=12)
        listed(jays_and_wrens)
    looked = looking(monkeypatch)
    assert listed(jays_and_wrens) == expected
    assert len(looked) == 20 - 12
    assert not list(cache_folder().glob("*.journal"))
    assert listed(jays_and_wrens) == expected
    assert len(looked) == 20 - 12


@pytest.mark.parametrize("tail", ["", '{"id": "jay/0.png", "sta', "\x00\x00", "[1]\n", '{"version": 99}\n'])
def test_a_journal_that_was_cut_short_counts_as_far_as_it_goes(
    jays_and_wrens: Path, tail: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIXPNET_CACHE", str(tmp_path / "one"))
    expected = listed(jays_and_wrens)
    monkeypatch.setenv("PIXPNET_CACHE", str(tmp_path / "other"))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "cpu_count", lambda: 1)
        looking(patch, stop_at=12)
        listed(jays_and_wrens)
    (journal,) = cache_folder().glob("*.journal")
    with journal.open("a") as file:
        file.write(tail)
    looked = looking(monkeypatch)
    assert listed(jays_and_wrens) == expected
    assert len(looked) == 20 - 12


def test_an_image_that_changed_after_the_interruption_is_looked_at_again(
    jays_and_wrens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIXPNET_CACHE", str(tmp_path / "cache"))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "cpu_count", lambda: 1)
        seen = looking(patch, stop_at=12)
        listed(jays_and_wrens)
    os.utime(jays_and_wrens / seen[0], ns=(1, 1))
    looked = looking(monkeypatch)
    listed(jays_and_wrens)
    assert seen[0] in looked
    assert len(looked) == 20 - 12 + 1


_SLOW_SCAN = """
import hashlib, sys, time
from pixpnet.data import open_data, scan as module, scan_store
genuine = module._look
def slow(entry, reader):
    time.sleep(float(sys.argv[2]))
    print(entry.id, flush=True)
    return genuine(entry, reader)
module._look = slow
module.os.cpu_count = lambda: 1
scan_store._LINES_AT_ONCE = 1
told = []
data = open_data(f"folder:{sys.argv[1]}", progress=lambda task, done, total: told.append((done, total)))
print("told", told[-1], len(told) > 1)
print("opened", hashlib.sha256(repr((data.listed, data.preprocessing)).encode()).hexdigest(), flush=True)
"""


def _started(data: Path, seconds: float, **environment: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", _SLOW_SCAN, str(data), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})


def test_of_all_ranks_one_scans_and_all_open_the_same(
    jays_and_wrens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIXPNET_CACHE", str(tmp_path / "cache"))
    # As torchrun starts them: all at once, each with its number.
    ranks = [
        _started(jays_and_wrens, 0.05, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="3", TORCHELASTIC_RUN_ID="none")
        for rank in range(3)
    ]
    printed = [process.communicate(timeout=120)[0].splitlines() for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0, 0]
    looked = [[line for line in lines if "/" in line] for lines in printed]
    assert sorted(map(len, looked)) == [0, 0, 20]
    assert len({image for images in looked for image in images}) == 20
    # Those that wait tell how far the other one is, and at the end have all images.
    assert {lines[-2] for lines in printed} == {"told (20, 20) True"}
    assert len({lines[-1] for lines in printed}) == 1
    again = looking(monkeypatch)
    scan(folder_catalog(jays_and_wrens))
    assert again == []


def test_after_a_kill_another_process_looks_only_at_what_is_left(
    jays_and_wrens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIXPNET_CACHE", str(tmp_path / "one"))
    expected = scan(folder_catalog(jays_and_wrens))
    monkeypatch.setenv("PIXPNET_CACHE", str(tmp_path / "other"))
    process = _started(jays_and_wrens, 0.3)
    assert process.stdout is not None
    begun = [process.stdout.readline().strip() for _ in range(4)]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    again = looking(monkeypatch)
    assert scan(folder_catalog(jays_and_wrens)) == expected
    # The first two were noted long before the fourth began.
    assert not set(begun[:2]) & set(again)
    assert 20 - 5 <= len(again) <= 20 - 2
    assert not list(cache_folder().glob("*.journal"))


def test_a_journal_is_read_once_while_another_process_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "scan.journal"
    lines = _Lines(path)
    assert lines.count() == 0
    path.write_text('\n{"version": 2}\n{"id": "jay/0.png"}\n{"id": "jay/1')
    assert lines.count() == 1
    with path.open("a") as file:
        file.write('.png"}\n{"id": "wren/0.png"}\n')
    assert lines.count() == 3
    with unittest.mock.patch.object(Path, "open", side_effect=AssertionError("read again")):
        assert lines.count() == 3
    path.unlink()
    assert lines.count() == 3
    path.write_text('{"id": "jay/0.png"}\n')
    assert lines.count() == 1
