"""From cells to pixels: heat maps and regions of prototypes in an image (Sec. 3, App. D)."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from pixpnet.mapping.field_map import by_field, by_flat_field
from pixpnet.mapping.random_map import by_chance
from pixpnet.mapping.relevance import prp
from pixpnet.mapping.scene import Heatmaps, PixelMapping, Scene, scene
from pixpnet.mapping.upsampling import by_upsampling
from pixpnet.model import PixPNet
from pixpnet.model.modes import refuse_training_mode

__all__ = ["MAPPINGS", "Heatmaps", "PixelMapping", "Scene", "heatmaps", "scene"]

MAPPINGS: Mapping[str, PixelMapping] = {
    "field": by_field,
    "field_flat": by_flat_field,
    "upsampling": by_upsampling,
    "prp": prp,
    "random": by_chance,
}


def heatmaps(
    model: PixPNet,
    image: Float[Tensor, "3 height width"],
    prototypes: Sequence[int],
    mapping: str = "field",
    generator: torch.Generator | None = None,
) -> Heatmaps:
    """Where some prototypes are found in an image, by one forward pass.

    Args:
        model: in eval mode.
        image: normalised, of any size that the model can read.
        prototypes: the numbers of those that are wanted; only their maps are computed.
        mapping: a name in `MAPPINGS`.
        generator: for ``random``.

    Raises:
        ValueError: if the name is unknown, a prototype does not exist or the model is in training mode.

    Example:
        >>> from pixpnet import zoo
        >>> from pixpnet.data import Preprocessing
        >>> from pixpnet.model import Backbone
        >>> from pixpnet.members.pixpnet import Architecture
        >>> backbone = Backbone(zoo.build("squeezenet1_1"), "maxpool1", (32, 32))
        >>> model = PixPNet(backbone, Architecture(dim=8), ("jay", "wren"), Preprocessing().scaled_to(32)).eval()
        >>> found = heatmaps(model, torch.zeros(3, 32, 32), [3, 17])
        >>> found.maps.shape, found.regions[0]
        (torch.Size([2, 32, 32]), (Box(y0=0, x0=0, y1=7, x1=7),))
    """
    if mapping not in MAPPINGS:
        raise ValueError(f"no mapping is called {mapping!r}: choose one of {', '.join(MAPPINGS)}")
    count = model.num_prototypes
    if wrong := [number for number in prototypes if not 0 <= number < count]:
        raise ValueError(f"the model has no prototypes {wrong}: it has {count}, numbered 0 to {count - 1}")
    refuse_training_mode(model)
    return MAPPINGS[mapping](scene(model, image, prototypes, generator))
