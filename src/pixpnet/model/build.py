"""A new network from names: backbone, cut, weights, and what stands behind."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from pixpnet import zoo
from pixpnet.data import Preprocessing
from pixpnet.family import DEFAULT
from pixpnet.model.backbone import Backbone
from pixpnet.model.cells import input_size
from pixpnet.model.errors import CutError, FieldWarning
from pixpnet.model.network import PixPNet
from pixpnet.model.weights import WeightsError, load_weights
from pixpnet.timm_networks import weight_converter
from pixpnet.windows import Windows


def build_backbone(
    name: str,
    at: str,
    weights: str | None,
    size: int,
    seed: int,
    edits: Sequence[str] = (),
    windows: Windows | None = None,
) -> Backbone:
    """A backbone from the zoo, with its weights, edited and cut.

    Args:
        name: in the zoo.
        at: the layer; "" for all of it.
        weights: a file, "imagenet" to download them, "none" for random ones; None is for the small backbone only.
        size: side of the images.
        seed: of random weights.
        edits: changes of the network that has those weights, see `apply_edits`.
        windows: run it on windows of the image.

    Raises:
        WeightsError: if it was not said which weights, or the file does not fit.
        EditError: if an edit does not fit.
        InputSizeError: if a network for inputs of one size cannot be built for these images or windows.
    """
    if weights is None and not name.startswith("small"):
        raise WeightsError(
            f"say which weights {name} begins with: --weights FILE, --weights imagenet (downloads them), "
            "or --weights none (random: takes far more images and time)"
        )
    if windows is not None and windows.start and zoo.takes_one_size(name):
        raise CutError(
            f"{name} is built for inputs of one size, so its windows are cut from the image, not from the map of "
            f"'{windows.start}': leave out --window-from"
        )
    seen = input_size((size, size), windows)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = (zoo.download if weights == "imagenet" else zoo.build)(name, input_size=seen)
        if weights in (None, "none", "imagenet"):
            return Backbone(network, at, (size, size), edits, windows)
        # A file fits the network as it was, up to the cut; with edits, the field is not yet the one to warn about.
        with warnings.catch_warnings():
            if edits:
                warnings.simplefilter("ignore", FieldWarning)
            unedited = Backbone(network, at, (size, size), (), windows)
        load_weights(unedited.network, Path(weights).expanduser(), weight_converter(network))
        if not edits:
            return unedited
        network.load_state_dict(unedited.network.state_dict(), strict=False)
        return Backbone(network, at, (size, size), edits, windows)


def build_model(
    backbone: Backbone,
    backbone_name: str,
    architecture: Any,
    class_names: tuple[str, ...],
    preprocessing: Preprocessing,
    seed: int,
    member: str = DEFAULT,
) -> PixPNet:
    """A network with random add-on and prototypes, the same for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return PixPNet(backbone, architecture, class_names, preprocessing, backbone_name, member)
