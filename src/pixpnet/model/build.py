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
from pixpnet.model.errors import FieldWarning
from pixpnet.model.network import PixPNet
from pixpnet.model.weights import WeightsError, load_weights
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
    """
    if weights is None and not name.startswith("small"):
        raise WeightsError(
            f"say which weights {name} begins with: --weights FILE, --weights imagenet (downloads them), "
            "or --weights none (random: takes far more images and time)"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = zoo.download(name) if weights == "imagenet" else zoo.build(name)
        if weights in (None, "none", "imagenet"):
            return Backbone(network, at, (size, size), edits, windows)
        # A file fits the network as it was, up to the cut; with edits, the field is not yet the one to warn about.
        with warnings.catch_warnings():
            if edits:
                warnings.simplefilter("ignore", FieldWarning)
            unedited = Backbone(network, at, (size, size), (), windows)
        load_weights(unedited.network, Path(weights).expanduser())
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
