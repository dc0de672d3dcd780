"""One explorer for all tests that only ask."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.views.explorer.client import Served, served

expect.set_options(timeout=30_000)  # machines are busy


@pytest.fixture(scope="session")
def explorer(run_folder: Path) -> Iterator[Served]:
    """Served on a free port of loopback."""
    with served(run_folder) as opened:
        yield opened
