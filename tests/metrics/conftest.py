"""A trained run for audits and suites, made once."""

from tests.training.conftest import pictures, trained

__all__ = ["pictures", "trained"]
