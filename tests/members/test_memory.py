"""No member makes a tensor of images x prototypes x cells x dimensions: in a step, an answer, or a replacement."""

from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from pixpnet.data import Preprocessing
from pixpnet.family import MEMBERS, member_named
from pixpnet.model import Backbone, PixPNet
from pixpnet.parts.losses import loss_of
from pixpnet.training.features import FeatureBatch
from pixpnet.training.stages import Epoch
from pixpnet.training.teaching import teach

IMAGES, SIZE, CHANNELS, CLASSES = 3, 24, 16, 6


class Largest(TorchDispatchMode):
    """Remembers the most numbers that any tensor had."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        for result in results if isinstance(results, (tuple, list)) else (results,):
            if isinstance(result, Tensor):
                # Views that only repeat numbers take no memory.
                self.numbers = max(self.numbers, result.untyped_storage().nbytes() // result.element_size())
        return results


def small_network(name: str) -> PixPNet:
    """A member with the numbers of its paper, but for the length of embeddings, behind two small convolutions."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(3, CHANNELS, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(CHANNELS, CHANNELS, 1))
    architecture: Any = member_named(name).preset("paper").architecture
    if any(field.name == "dim" for field in fields(architecture)):
        architecture = replace(architecture, dim=32)
    names = [f"class {label}" for label in range(CLASSES)]
    return PixPNet(
        Backbone(layers, "", (SIZE, SIZE)), architecture, names, Preprocessing().scaled_to(SIZE), member=name
    )


@pytest.mark.parametrize("name", MEMBERS)
def test_no_member_makes_a_tensor_of_images_by_prototypes_by_cells_by_dimensions(name: str) -> None:
    member = member_named(name)
    settings: Any = member.preset("paper")
    if name == "sdfasa":
        settings = replace(settings, losses=replace(settings.losses, shallow_layer="0"))
    model, teacher = small_network(name), small_network(name).eval()
    member.ready(model, settings)
    stage = [stage for stage in member.stages(settings) if stage.name == "joint"][-1]
    ids = tuple(f"image {number}" for number in range(IMAGES))
    to_source = torch.eye(3).expand(IMAGES, 3, 3)
    batch = FeatureBatch(torch.randn(IMAGES, 3, SIZE, SIZE), torch.arange(IMAGES) % CLASSES, ids, to_source)
    learner: Any = SimpleNamespace(
        model=model.train(),
        epoch=Epoch(stage, 0),
        current_epoch=0,
        step_number=0,
        steps_per_epoch=9,
        device=torch.device("cpu"),
        helpers={},
        taken_from=(),
        learns=lambda *modules: True,
        backbone_maps=model.backbone.maps,
        maps_and_watched=model.backbone.maps_and_watched,
        taught=lambda images: teach(teacher, images, behind_stem=False),
        training_distances=list,
        replace_prototypes=dict,
    )
    for action in stage.before_epoch:
        action(learner)
    with Largest() as largest:
        loss_of(stage.step(learner, batch), stage.losses).total.backward()
        for action in stage.each_step:
            action(learner)
        with torch.no_grad():
            matches = model.eval()(batch.images).matches
            for grid, found in zip(model.grids, matches.grids, strict=True):
                each = torch.arange(IMAGES)[:, None].expand_as(found.cells)
                grid.comparison.patches(model.embed(batch.images)[grid.number], each, found.cells)
    for grid, found in zip(model.grids, matches.grids, strict=True):
        vectors = grid.comparison.prototypes
        forbidden = found.distance_maps.numel() * vectors[0].numel()
        assert largest.numbers <= forbidden / 4
