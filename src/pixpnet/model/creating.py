"""A new network in one call."""

import copy
from collections.abc import Sequence
from pathlib import Path

from torch import nn

from pixpnet.config import GIVEN
from pixpnet.data import Preprocessing
from pixpnet.family import member_named
from pixpnet.model.backbone import Backbone
from pixpnet.model.build import build_backbone, build_model
from pixpnet.model.network import PixPNet


def create_model(
    member: str = "pixpnet",
    backbone: str | nn.Module = "small",
    at: str = "",
    num_classes: int | None = None,
    *,
    class_names: Sequence[str] = (),
    preset: str = "laptop",
    weights: str | Path = "none",
    size: int = 224,
    seed: int = 0,
) -> PixPNet:
    """A network of the family that has not learnt anything yet, in eval mode.

    Args:
        member: its name in the family.
        backbone: a torchvision network, ``timm:NAME``, ``small-N``, or a network of your own, of which a copy is cut,
            with its weights; who loads the model from a file has to give it again (`PixPNet.load`).
        at: the layer to cut it at, a module path or the paper's name; by default its end. Several layers, with commas,
            make a grid of cells each.
        num_classes: how many classes there are; they are called "class 0" and so on. Not with `class_names`.
        class_names: of the classes; logits are in their order.
        preset: whose architecture it has.
        weights: a file of the backbone's weights, "imagenet" to download them, or "none" for random ones.
        size: side of the images in pixels.
        seed: of random weights.

    Raises:
        UnknownMember: if the family has no such member or preset.
        UnknownModel: if there is no such backbone.
        WeightsError: if the weights do not fit.
        ValueError: if the classes are not said, or said twice.

    >>> model = create_model("pixpnet", backbone="small-21", num_classes=3, size=32)
    >>> model.class_names, model.num_prototypes
    (('class 0', 'class 1', 'class 2'), 30)
    """
    if bool(class_names) == (num_classes is not None):
        raise ValueError("say either how many classes there are (num_classes) or what they are called (class_names)")
    if isinstance(class_names, str):
        raise TypeError(f"class_names is a list of names, got {class_names!r}")
    names = tuple(class_names) or tuple(f"class {label}" for label in range(num_classes or 0))
    architecture = member_named(member).preset(preset).architecture
    preprocessing = Preprocessing().scaled_to(size)
    if isinstance(backbone, nn.Module):
        cut = Backbone(copy.deepcopy(backbone).eval(), at, (size, size))
        name = f"{GIVEN}{type(backbone).__name__}"
    else:
        cut = build_backbone(backbone, at, str(weights), size, seed)
        name = backbone
    return build_model(cut, name, architecture, names, preprocessing, seed, member).eval()
