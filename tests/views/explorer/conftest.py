"""One explorer for all tests that only ask."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.views.explorer.client import Served, served


@pytest.fixture(scope="session")
def explorer(run_folder: Path) -> Iterator[Served]:
    """Served on a free port of loopback."""
    with served(run_folder) as opened:
        yield opened
