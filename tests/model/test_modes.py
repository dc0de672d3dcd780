"""The mode of a network, given back and asked for."""

import pytest
import torch
from torch import nn

from pixpnet.model.modes import evaluating, refuse_training_mode


def network() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Sequential(nn.BatchNorm2d(4), nn.Dropout()))


def test_each_module_gets_its_own_mode_back_even_after_an_exception() -> None:
    model = network().eval()
    model[1][0].train()
    with pytest.raises(RuntimeError, match="on purpose"), evaluating(model):
        assert not any(module.training for module in model.modules())
        assert not torch.is_grad_enabled()
        raise RuntimeError("on purpose")
    assert [module.training for module in model.modules()] == [False, False, False, True, False]


def test_a_network_any_part_of_which_is_in_training_mode_is_refused() -> None:
    model = network().eval()
    refuse_training_mode(model)
    model[1][0].train()
    with pytest.raises(ValueError, match=r"training mode.*model\.eval\(\)"):
        refuse_training_mode(model)


def test_a_module_that_was_taken_away_is_no_hindrance() -> None:
    model = network().eval()
    model[1].register_module("nothing", None)
    refuse_training_mode(model)
