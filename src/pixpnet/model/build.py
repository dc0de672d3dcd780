"""A new network from names: backbone, cut, weights, and what stands behind."""

from pathlib import Path

import torch

from pixpnet import zoo
from pixpnet.data import Preprocessing
from pixpnet.model.backbone import Backbone
from pixpnet.model.network import PixPNet
from pixpnet.model.weights import WeightsError, load_weights
from pixpnet.recipe import Architecture


def build_backbone(name: str, at: str, weights: str | None, size: int, seed: int) -> Backbone:
    """A backbone from the zoo, cut, with its weights.

    Args:
        name: in the zoo.
        at: the layer; "" for all of it.
        weights: a file, "imagenet" to download them, "none" for random ones; None is for the small backbone only.
        size: side of the images.
        seed: of random weights.

    Raises:
        WeightsError: if it was not said which weights, or the file does not fit.
    """
    if weights is None and not name.startswith("small"):
        raise WeightsError(
            f"say which weights {name} begins with: --weights FILE, --weights imagenet (downloads them), "
            "or --weights none (random: takes far more images and time)"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if weights == "imagenet":
            return Backbone(zoo.download(name), at, (size, size))
        backbone = Backbone(zoo.build(name), at, (size, size))
    if weights not in (None, "none"):
        load_weights(backbone.network, Path(weights).expanduser())
    return backbone


def build_model(
    backbone: Backbone,
    backbone_name: str,
    architecture: Architecture,
    class_names: tuple[str, ...],
    preprocessing: Preprocessing,
    seed: int,
) -> PixPNet:
    """A network with random add-on and prototypes, the same for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return PixPNet(backbone, architecture, class_names, preprocessing, backbone_name)
