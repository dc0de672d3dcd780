"""The engine against the NaN probe on a spread of timm's families, at the size each was made for: the slow run."""

import pytest
import torch

from pixpnet import zoo
from pixpnet.fields.tested import TIMM
from pixpnet.fields.verify import random_pixels, verify_fields


@pytest.mark.slow
@pytest.mark.parametrize("name", TIMM)
@pytest.mark.filterwarnings("ignore")  # a model of another library may warn as it likes
def test_sampled_pixels_of_a_timm_model_come_out_where_the_fields_say(name: str) -> None:
    import timm

    torch.manual_seed(0)
    model = zoo.build(f"timm:{name}")
    shape = timm.get_pretrained_cfg(name).input_size
    verification = verify_fields(model, shape, random_pixels(shape[1:], 2, seed=0))
    assert verification.passed, verification
