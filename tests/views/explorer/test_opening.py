"""Opening and closing an explorer, and the command that does."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import uvicorn

from pixpnet.cli import main
from pixpnet.views.explorer.explorer import Explorer
from pixpnet.views.explorer.serving import LOOPBACK, listen


def test_closing_ends_the_opening_of_a_data_set(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    explorer = Explorer(run_folder)
    asked: list[int] = []

    def endless(progress: object, moved_to: object) -> None:
        while True:
            asked.append(1)
            progress("looking", len(asked), 0)  # type: ignore[operator]

    monkeypatch.setattr(type(explorer.run), "data", lambda run, progress, moved_to: endless(progress, moved_to))
    explorer.start()
    explorer.close()
    assert explorer.images.opened
    assert "closed" in explorer.images.why_not


def test_a_port_that_is_taken_is_said_and_by_default_another_is_taken() -> None:
    with listen(None) as first, listen(None) as second:
        ports = [taken.getsockname()[1] for taken in (first, second)]
        assert len(set(ports)) == 2
        with pytest.raises(OSError, match=f"port {ports[0]} cannot be used.*--port 0"):
            listen(ports[0])


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_that_is_none_is_refused(port: str, run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(run_folder), f"--port={port}"]) == 1
    assert "from 0 to 65535" in capsys.readouterr().err


def test_no_other_host_is_offered(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["serve", str(run_folder), "--host", "0.0.0.0"])
    assert end.value.code == 2
    assert LOOPBACK == "127.0.0.1"


def test_what_is_no_run_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(tmp_path / "none")]) == 1
    assert main(["serve", str(tmp_path)]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    assert all(line.startswith("error: ") for line in errors)


def test_the_address_is_printed_and_every_start_has_its_own_token(
    run_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end_at_once(server: uvicorn.Server) -> None: ...

    monkeypatch.setattr(uvicorn.Server, "main_loop", end_at_once)
    for _ in range(2):
        assert main(["serve", str(run_folder), "--port", "0"]) == 0
    addresses = [line.strip() for line in capsys.readouterr().out.splitlines() if "http://" in line]
    assert len({address.partition("token=")[2] for address in addresses}) == 2
    assert all(len(address.partition("token=")[2]) >= 32 for address in addresses)


def test_ctrl_c_ends_the_server_quietly(run_folder: Path) -> None:
    words = [sys.executable, "-m", "pixpnet", "serve", str(run_folder), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        while "Ctrl-C" not in (line := server.stdout.readline()):
            assert line, server.communicate()
        server.send_signal(signal.SIGINT)
        _, errors = server.communicate()
    assert (server.returncode, errors) == (0, "")
