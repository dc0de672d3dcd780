"""The engine against the NaN probe on random networks: every layer, every channel, every pixel."""

from itertools import product

import pytest
from hypothesis import given, settings
from torch import nn

from pixpnet.fields.verify import verify_fields
from tests.fields.random_modules import random_modules
from tests.fields.random_steps import KINDS


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_the_fields_of_random_networks_are_what_the_probe_sees(kind: str) -> None:
    @settings(max_examples=24)
    @given(random_modules(kind))
    def check(case: tuple[nn.Module, tuple[int, int, int]]) -> None:
        network, shape = case
        pixels = list(product(range(shape[1]), range(shape[2])))
        verification = verify_fields(network, shape, pixels)
        assert verification.passed, f"{verification}\n{network}\ninput {shape}"

    check()
