"""A trained run for audits and suites, made once."""

import pytest

from pixpnet.data import DataSet
from pixpnet.training import open_run_data
from tests.training.conftest import Trained, pictures, run, trained

__all__ = ["data", "pictures", "run", "trained"]


@pytest.fixture(scope="module")
def data(trained: Trained) -> DataSet:
    """What the run was trained on."""
    return open_run_data(trained.config)
