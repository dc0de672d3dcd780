"""A trained run for audits and suites, made once."""

from tests.training.conftest import _own_cache, pictures, trained

__all__ = ["_own_cache", "pictures", "trained"]
