"""What all tests share: scans of data sets are kept apart, and `Sources` are checked whenever one is made."""

import os
from collections.abc import Iterator
from math import prod
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from pixpnet.fields.sources import Sources

# The same examples on every machine. `HYPOTHESIS_PROFILE=wide` looks further, differently every time.
_COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}
settings.register_profile("same", derandomize=True, phases=[Phase.explicit, Phase.generate, Phase.shrink], **_COMMON)
settings.register_profile("wide", max_examples=1000, **_COMMON)
settings.register_profile("few", settings.get_profile("same"), max_examples=10)  # for `make quick`
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared material beside the checkout; tests that need it skip where it is not."""
    if not SHARED.is_dir():
        pytest.skip("needs the shared material beside the checkout (../shared), which is not here")
    return SHARED


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIXPNET_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def _sources_keep_their_invariants(monkeypatch: pytest.MonkeyPatch) -> None:
    make = Sources.__init__

    def checked(self: Sources, *args: object, **kwargs: object) -> None:
        make(self, *args, **kwargs)
        flat = [size for group in self.atoms for size in group]
        assert [prod(group) for group in self.atoms] == list(self.shape)
        assert 1 not in flat
        for term in self.terms:
            for shape in (term.mask.shape, *(sets.shape[:-1] for sets in term.sets)):
                assert len(shape) == len(flat)
                assert all(held in (1, size) for held, size in zip(shape, flat, strict=True))

    monkeypatch.setattr(Sources, "__init__", checked)
