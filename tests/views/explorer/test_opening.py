"""Opening and closing an explorer, and the command that does."""

import html
import signal
import stat
import subprocess
import sys
import webbrowser
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
import uvicorn

from pixpnet.cli import main
from pixpnet.training import Run
from pixpnet.views.explorer.explorer import Explorer
from pixpnet.views.explorer.images import entry_id
from pixpnet.views.explorer.serving import LOOPBACK, listen
from tests.views.explorer.client import served


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
    # In a thread of its own: a browser that another test has open keeps this one's event loop running.
    with ThreadPoolExecutor(1) as aside:
        for _ in range(2):
            assert aside.submit(main, ["serve", str(run_folder), "--port", "0"]).result() == 0
    addresses = [line.strip() for line in capsys.readouterr().out.splitlines() if "http://" in line]
    assert len({address.partition("token=")[2] for address in addresses}) == 2
    assert all(len(address.partition("token=")[2]) >= 32 for address in addresses)


def test_the_token_is_on_no_command_line_of_a_browser(
    run_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end_at_once(server: uvicorn.Server) -> None: ...

    opened: list[tuple[str, str, int, int]] = []

    def browse(url: str) -> bool:
        file = Path(url2pathname(urlsplit(url).path))
        modes = (stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent))
        opened.append((url, html.unescape(file.read_text()), *modes))
        return True

    monkeypatch.setattr(uvicorn.Server, "main_loop", end_at_once)
    monkeypatch.setattr(webbrowser, "open", browse)
    # In a thread of its own: a browser that another test has open keeps this one's event loop running.
    with ThreadPoolExecutor(1) as aside:
        assert aside.submit(main, ["serve", str(run_folder), "--port", "0", "--open"]).result() == 0
    ((url, content, file_mode, folder_mode),) = opened
    (address,) = (line.strip() for line in capsys.readouterr().out.splitlines() if "http://" in line)
    assert address in content
    assert address.partition("token=")[2] not in url
    assert (file_mode, folder_mode) == (0o600, 0o700)
    assert not Path(url2pathname(urlsplit(url).path)).parent.exists()


def test_a_link_to_an_image_waits_until_the_data_set_is_open(run_folder: Path) -> None:
    image = entry_id("val", Run(run_folder).data().val[0].id)
    with served(run_folder, open_data=False) as page, ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(page.ask, f"/api/images/{image}/thumbnail") for _ in range(8)]
        assert page.ask("/api/run").status == 200  # nobody else waits
        assert not page.explorer.images.opened
        page.explorer.images.open_data()
        assert [reply.result().status for reply in waiting] == [200] * 8


def test_ctrl_c_ends_the_server_quietly(run_folder: Path) -> None:
    words = [sys.executable, "-m", "pixpnet", "serve", str(run_folder), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        while "Ctrl-C" not in (line := server.stdout.readline()):
            assert line, server.communicate()
        server.send_signal(signal.SIGINT)
        _, errors = server.communicate()
    assert (server.returncode, errors) == (0, "")
