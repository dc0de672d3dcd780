"""A scan that is interrupted goes on where it stopped; of several processes one scans."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pixpnet.data import open_data
from pixpnet.data import scan as scan_module
from pixpnet.data.catalog import Entry, Reader
from pixpnet.data.folder import folder_catalog
from pixpnet.data.scan import cache_folder, scan
from pixpnet.data.scan_store import FileFacts


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
import sys, time
from pathlib import Path
from pixpnet.data import scan as module
from pixpnet.data.folder import folder_catalog
genuine = module._look
def slow(entry, reader):
    time.sleep(float(sys.argv[2]))
    print(entry.id, flush=True)
    return genuine(entry, reader)
module._look = slow
module.os.cpu_count = lambda: 1
module.scan(folder_catalog(Path(sys.argv[1])))
"""


def _started(data: Path, seconds: float) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", _SLOW_SCAN, str(data), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_of_two_processes_one_scans_and_both_find_the_same(
    jays_and_wrens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIXPNET_CACHE", str(tmp_path / "cache"))
    processes = [_started(jays_and_wrens, 0.05) for _ in range(2)]
    said = [process.communicate(timeout=120)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted(map(len, said)) == [0, 20]
    looked = looking(monkeypatch)
    scan(folder_catalog(jays_and_wrens))
    assert looked == []


def test_after_a_kill_another_process_goes_on_with_what_there_is(
    jays_and_wrens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIXPNET_CACHE", str(tmp_path / "one"))
    expected = scan(folder_catalog(jays_and_wrens))
    monkeypatch.setenv("PIXPNET_CACHE", str(tmp_path / "other"))
    monkeypatch.setattr("pixpnet.data.scan_store._LINES_AT_ONCE", 1)
    process = _started(jays_and_wrens, 0.3)
    assert process.stdout is not None
    for _ in range(3):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert scan(folder_catalog(jays_and_wrens)) == expected
    assert not list(cache_folder().glob("*.journal"))
