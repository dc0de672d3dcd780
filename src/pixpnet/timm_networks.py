"""Networks of timm by name, built for the size of what they will be run on.

Transformers have a position embedding (ViT) or attention windows (Swin) for inputs of one size. timm builds them for
any size that their patches divide, and interpolates pretrained position embeddings to it. So a network that was
pretrained on 224 or 518 pixels runs on windows of 96 or 98.
"""

import sys
import warnings
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from pixpnet.extras import MissingExtra, wanted_by
from pixpnet.messages import first_line
from pixpnet.unknown_model import InputSizeError, UnknownModel, nearest_names

Weights = dict[str, Tensor]


def build(name: str, input_size: tuple[int, int] | None = None, pretrained: bool = False) -> nn.Module:
    """The network that timm has under this name.

    Args:
        name: without ``timm:``; a tag (``.lvd142m``) chooses among pretrained weights.
        input_size: height and width of what it will be run on; None for the size that it was pretrained with.
        pretrained: with timm's own weights, downloaded where they are not there yet.

    Raises:
        UnknownModel: if timm is not installed, or has no such network.
        InputSizeError: if the network takes no inputs of that size.
    """
    timm = _timm(name)
    options: dict[str, Any] = {"pretrained": pretrained}
    native = _native_size(name)
    if input_size is None or native is None or native == input_size:
        model: nn.Module = timm.create_model(name, **options)
        return model
    try:
        model = timm.create_model(name, img_size=input_size, **options)
    except (TypeError, RuntimeError, AssertionError, ValueError) as error:
        raise InputSizeError(
            f"timm:{name} cannot be built for inputs of {_pixels(input_size)} ({first_line(error)}): give it the size "
            f"that it was made for, {_pixels(native)}, as images (--size) or windows (--window)"
        ) from error
    _refuse_cut_patches(name, model, input_size)
    return model


def takes_one_size(name: str) -> bool:
    """Whether a network is built for inputs of one size.

    >>> takes_one_size("vit_tiny_patch16_224"), takes_one_size("resnet18")
    (True, False)
    """
    return _native_size(name) is not None


def weight_converter(network: nn.Module) -> Callable[[Weights], Weights] | None:
    """The translation that timm has of published files into the weights of a network; None where it has none.

    It renames tensors (the published files of DINOv2, DINO, CLIP ...) and interpolates position embeddings to the size
    that the network was built for.
    """
    module = sys.modules[type(network).__module__]
    if not module.__name__.startswith("timm.models."):
        return None
    convert: Callable[[Weights, nn.Module], Weights] | None = getattr(module, "checkpoint_filter_fn", None)
    if convert is None:
        return None

    def converted(state: Weights) -> Weights:
        with warnings.catch_warnings():
            # Of torch about timm's own code, where it resizes Swin's tables: nothing that anybody here can mend.
            warnings.filterwarnings("ignore", category=UserWarning, module=r"timm\.layers")
            return convert(dict(state), network)

    return converted


def _timm(name: str) -> Any:
    try:
        with wanted_by(f"'timm:{name}'"):
            import timm
    except MissingExtra as error:
        raise UnknownModel(str(error)) from error
    if name.split(".")[0] not in timm.list_models():
        raise UnknownModel(f"timm has no model '{name}'{nearest_names(name, timm.list_models())}")
    return timm


def _native_size(name: str) -> tuple[int, int] | None:
    """The input size of a network that is built for one size; None for those that take any."""
    config = _timm(name).get_pretrained_cfg(name)
    if config is None or not config.fixed_input_size:
        return None
    _, height, width = config.input_size
    return height, width


def _refuse_cut_patches(name: str, model: nn.Module, input_size: tuple[int, int]) -> None:
    """Refuses a size that patches do not divide: pixels at its edge would be seen by no token."""
    from timm.layers import PatchEmbed

    for module in model.modules():
        if isinstance(module, PatchEmbed):
            patch = module.patch_size[0]
            if any(side % patch for side in input_size):
                side = next(side for side in input_size if side % patch)
                near = f"{side - side % patch} or " if side > patch else ""
                raise InputSizeError(
                    f"the patches of timm:{name} have {patch} pixels, which do not divide {side}: take "
                    f"{near}{side - side % patch + patch} pixels (--window for windows, --size for whole images)"
                )


def _pixels(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]} pixels"
