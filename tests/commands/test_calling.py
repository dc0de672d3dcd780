"""Commands that are printed can be typed as they stand, also where nobody activated an environment."""

import html
import os
import re
import shlex
import subprocess
import sys
import webbrowser
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
import uvicorn
from PIL import Image

from pixpnet.cli import main
from pixpnet.commands import demo
from pixpnet.commands.calling import command
from pixpnet.config import RunConfig
from pixpnet.members.pixpnet import Architecture, PixPNetConfig
from pixpnet.settings import Optimization, Replacement


def script(folder: Path) -> Path:
    """What an installer makes."""
    folder.mkdir(parents=True)
    path = folder / "pixpnet"
    path.write_text(f"#!{sys.executable}\nimport sys\nfrom pixpnet.cli import main\nsys.exit(main())\n")
    path.chmod(0o755)
    return path


def fresh_shell(line: str, path: str = os.defpath) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": path, "HOME": os.environ.get("HOME", "/"), "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True, check=False)


def test_a_script_that_is_not_on_the_path_is_named_by_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called = script(tmp_path / ".venv" / "bin")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(called)])
    monkeypatch.setenv("PATH", os.defpath)
    assert command("predict", Path("a b")) == ".venv/bin/pixpnet predict 'a b'"
    assert fresh_shell(command("--version")).returncode == 0
    # Another one that is on the path is another program.
    other = script(tmp_path / "other")
    monkeypatch.setenv("PATH", f"{other.parent}:{os.defpath}")
    assert command("members") == ".venv/bin/pixpnet members"
    monkeypatch.setenv("PATH", f"{called.parent}:{os.defpath}")
    assert command("members") == "pixpnet members"


def test_without_a_script_the_interpreter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["-c"])
    line = command("members")
    assert line.endswith(" -m pixpnet members")
    assert fresh_shell(line).returncode == 0


def test_what_the_demo_prints_at_its_end_runs_as_it_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = PixPNetConfig(
        Architecture(dim=8, prototypes_per_class=2),
        optimization=Optimization(epochs=1, warm_up_epochs=0, batch_size=32, views=1),
        replacement=Replacement(start=1, every=1),
    )
    small = RunConfig(data="birds", backbone="small-21", size=32, birds=240, settings=settings)
    monkeypatch.setattr(demo, "demo_config", lambda seed: replace(small, seed=seed))
    monkeypatch.setattr(demo, "_show_fields", lambda out: True)
    monkeypatch.setattr(demo, "_draw_birds", lambda out: None)
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--out", "my demo"]) == 0
    output = capsys.readouterr().out
    result = output[output.index("5. What was found") :]
    assert "of 600 birds that it never saw" in result
    assert "claims by the exact field held" in result
    lines = [line.strip() for line in result.splitlines() if " -m pixpnet " in line]
    assert [shlex.split(line)[3] for line in lines] == ["predict", "explain", "audit", "serve"]
    birds = sorted((tmp_path / "my demo" / "new-birds").iterdir())
    assert len(birds) == 12
    with Image.open(birds[0]) as picture:
        assert picture.size == (96, 96)

    async def end_at_once(server: uvicorn.Server) -> None: ...

    monkeypatch.setattr(uvicorn.Server, "main_loop", end_at_once)  # it would run for ever
    opened: list[str] = []

    def look(address: str) -> None:  # the page that leads to the address, which is gone at the end
        opened.append(Path(url2pathname(urlsplit(address).path)).read_text())

    monkeypatch.setattr(webbrowser, "open", look)
    with ThreadPoolExecutor(1) as alone:  # a browser of another test keeps an event loop in this thread
        codes = [alone.submit(main, shlex.split(line)[3:]).result() for line in lines]
    assert codes[:2] == [0, 0]
    assert codes[3] == 0
    (address,) = re.findall(r"http://127\.0\.0\.1:\S+?token=\S+", capsys.readouterr().out)
    assert len(opened) == 1
    assert address in html.unescape(opened[0])
    assert codes[2] in (0, 3)  # what the audit finds of so short a training
    assert (tmp_path / "my demo" / "explanation.png").exists()
    assert "Traceback" not in capsys.readouterr().err


def test_new_birds_are_in_no_split(tmp_path: Path) -> None:
    from pixpnet.data import open_data, read_sample
    from pixpnet.data.scan import facts_of

    data = open_data("birds")
    test = data.test.open([].append, "to compare")
    paths = demo._draw_new_birds(tmp_path / "new")
    digests = {facts_of(read_sample(path)).digest for path in paths}
    assert len(digests) == 12
    same_species = [entry for entry in (*data.train, *data.val, *test) if entry.label == 0]
    assert digests.isdisjoint(facts_of(data.reader(entry)).digest for entry in same_species)
