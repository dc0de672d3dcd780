"""Pictures to search on, drawn once."""

from tests.training.conftest import _own_cache, pictures

__all__ = ["_own_cache", "pictures"]
