"""Pictures to search on, drawn once."""

from tests.training.conftest import pictures

__all__ = ["pictures"]
