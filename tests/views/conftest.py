"""A real browser, where there is one, and a run whose report can be made."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from pixpnet.config import RunConfig
from pixpnet.training import train
from tests.training.material import draw_pictures, small_config

_QUIET = (
    *("--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
)


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Chromium, the one on PATH."""
    result = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if result is None:
        pytest.skip("needs Chromium on PATH (`make browser` installs Debian's), which is not here")
    return result


@pytest.fixture(scope="session")
def browser(chromium_path: str) -> Iterator[Browser]:
    """A real browser."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=chromium_path, args=list(_QUIET))
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a data set of coloured squares, one of whose classes has a hostile name."""
    return draw_pictures(tmp_path_factory.mktemp("squares") / "squares", ("blue", "<b>green&amp;", "red"))


@pytest.fixture(scope="session")
def config(pictures: Path) -> RunConfig:
    """Of the run."""
    return small_config(pictures)


@pytest.fixture(scope="session")
def run_folder(config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; look, do not touch."""
    path = tmp_path_factory.mktemp("runs") / "run"
    assert train(config, path) is not None
    return path
