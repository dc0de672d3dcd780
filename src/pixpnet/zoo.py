"""Names to networks, and the paper's names for their layers.

A name is a torchvision model (``resnet18``), a timm model (``timm:convnext_tiny``), the small network for small
images (``small``, or ``small-61`` for a field of 61 pixels) or user code (``my.module:build``, called
without arguments; looked for in the current folder too). The paper's table of intermediate layers (App. F) calls
layers by names that are not always module paths; ``paper_names`` translates them.
"""

import importlib
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from pixpnet import timm_networks
from pixpnet.messages import first_line
from pixpnet.network_names import is_given, is_user_code
from pixpnet.smallnet import SmallNet, nearest_fields
from pixpnet.unknown_model import InputSizeError as InputSizeError
from pixpnet.unknown_model import UnknownModel as UnknownModel
from pixpnet.unknown_model import nearest_names

_SMALL_DIGITS = 4
# Modules of user code that were called, and the names they were called by.
_OWN_MODULES: dict[str, str] = {}


class OwnCodeError(UnknownModel):
    """User code that raised an error; the message says which code, which error, and where."""


def build(name: str, device: str = "cpu", input_size: tuple[int, int] | None = None) -> nn.Module:
    """Builds the network called ``name`` with random weights, in eval mode.

    Args:
        name: a torchvision name, ``timm:NAME``, ``small`` or ``small-FIELD``, or ``module.path:callable``.
        device: where its parameters live; on ``"meta"`` they have shapes but no values and cost nothing.
        input_size: height and width of what it will be run on. Only timm's networks for inputs of one size (ViT, Swin)
            depend on it: they are built for that size. None is the size that they were pretrained with.

    Raises:
        UnknownModel: if there is no such network.
        InputSizeError: if it cannot be built for inputs of that size.

    >>> type(build("resnet18", device="meta")).__name__
    'ResNet'
    >>> build("small-61", device="meta").field
    61
    """
    if device == "meta":
        try:
            with torch.device("meta"):
                return _build(name, input_size).eval()
        except (NotImplementedError, RuntimeError, OwnCodeError):
            # Some constructors compute with tensors and need real ones.
            return _build(name, input_size).eval().to("meta")
    with torch.device(device):
        return _build(name, input_size).eval()


def download(name: str, input_size: tuple[int, int] | None = None) -> nn.Module:
    """Builds a network with the pretrained weights that its library offers, downloading them where needed.

    Args:
        name: a torchvision name or ``timm:NAME``.
        input_size: as in `build`; position embeddings are interpolated to it.

    Raises:
        UnknownModel: if the library has none.
        InputSizeError: if it cannot be built for inputs of that size.
        ConnectionError: if they cannot be had.
    """
    if is_user_code(name) or name.startswith("small"):
        raise UnknownModel(f"there are no ImageNet weights to download for {name!r}: give a file, or none")
    try:
        if name.startswith("timm:"):
            return timm_networks.build(name.removeprefix("timm:"), input_size, pretrained=True).eval()
        return _build_torchvision(name, pretrained=True).eval()
    except OSError as error:
        raise ConnectionError(
            f"the weights of {name} cannot be downloaded ({error}): give a file of them instead (--weights FILE)"
        ) from error


def takes_one_size(name: str) -> bool:
    """Whether a network is built for inputs of one size, as timm's transformers are (`build`).

    >>> takes_one_size("timm:swin_tiny_patch4_window7_224"), takes_one_size("resnet18")
    (True, False)
    """
    return name.startswith("timm:") and timm_networks.takes_one_size(name.removeprefix("timm:"))


def raised_by_user_code(error: BaseException) -> OwnCodeError | None:
    """The error to report where user code, called in this process, is what raised; None where it is not."""
    for frame, line in traceback.walk_tb(error.__traceback__):
        name = _OWN_MODULES.get(frame.f_globals.get("__name__", ""))
        if name is not None:
            file = frame.f_code.co_filename
            return OwnCodeError(f"'{name}' failed: {_described(error)} ({file}, line {line})")
    return None


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(error)}"


def _build(name: str, input_size: tuple[int, int] | None) -> nn.Module:
    if name.startswith("timm:"):
        return timm_networks.build(name.removeprefix("timm:"), input_size)
    if is_given(name):
        raise UnknownModel(
            f"'{name}' was handed over as an object, and no file can hold its code: give the network again "
            "(backbone=... of PixPNet.load, Predictor, Run, train and resume)"
        )
    if is_user_code(name):
        return _build_own(*name.rsplit(":", 1))
    if name == "small" or name.startswith("small-"):
        return _build_small(name)
    return _build_torchvision(name)


def _build_small(name: str) -> nn.Module:
    if name == "small":
        return SmallNet()
    size = name.removeprefix("small-")
    # Digits only: int() also takes signs, spaces and underscores, and a network has one name.
    if not (size.isascii() and size.isdigit()) or size.startswith("0"):
        raise UnknownModel(f"'{name}' should be 'small', or 'small-' and a field in pixels, such as 'small-61'")
    # A block for every 16 pixels: a name in a damaged file must not take all the memory there is.
    if len(size) > _SMALL_DIGITS:
        raise UnknownModel(f"'{name}' asks for a larger field than any image: take one below {10**_SMALL_DIGITS}")
    near = nearest_fields(int(size))
    if int(size) not in near:
        names = " or ".join(f"'small-{field}'" for field in near)
        raise UnknownModel(f"no small network has a field of {size} pixels; the nearest is {names}")
    return SmallNet(field=int(size))


def _build_torchvision(name: str, pretrained: bool = False) -> nn.Module:
    import torchvision

    models = torchvision.models
    known = models.list_models(module=models)
    if name not in known:
        raise UnknownModel(
            f"torchvision has no classifier '{name}'{nearest_names(name, known)}"
            " (other networks: 'timm:NAME', 'small' or 'module.path:callable')"
        )
    extra: dict[str, bool] = {}
    if name in ("inception_v3", "googlenet"):
        # Their weights expect an input that they rescale themselves, so with and without weights they do it.
        extra["transform_input"] = True
        if not pretrained:
            # They would spend a minute on, or warn about, an initialisation nobody asked for.
            extra["init_weights"] = False
    model: nn.Module = models.get_model(name, weights="DEFAULT" if pretrained else None, **extra)
    if isinstance(model, models.Inception3 | models.GoogLeNet):
        # Auxiliary classifiers, which only training would call, hang off layers that a cut may remove.
        model.aux_logits = False
        for auxiliary in ("AuxLogits", "aux1", "aux2"):
            if auxiliary in dict(model.named_children()):
                setattr(model, auxiliary, None)
    return model


def _build_own(path: str, attribute: str) -> nn.Module:
    if not path or not attribute:
        raise UnknownModel(f"'{path}:{attribute}' should be module.path:callable, such as my.networks:build")
    name = f"{path}:{attribute}"
    # Only now, and last: in a folder of somebody else's files, no library may find a module that it merely tries.
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        raise UnknownModel(f"'{name}' needs a module '{path}', which cannot be imported: {error}") from error
    except (Exception, SystemExit) as error:  # whatever stands in it is run
        raise OwnCodeError(f"'{name}' cannot be imported: {_described(error)}") from error
    builder = getattr(module, attribute, None)
    if not callable(builder):
        raise UnknownModel(f"'{path}' has no callable '{attribute}'{nearest_names(attribute, dir(module))}")
    _OWN_MODULES[module.__name__] = name
    try:
        model = builder if isinstance(builder, nn.Module) else builder()
    except TypeError as error:
        raise UnknownModel(f"'{name}' must be callable without arguments: {error}") from error
    except (Exception, SystemExit) as error:  # Ctrl-C is the person's
        raise OwnCodeError(f"'{name}' cannot be built: {_described(error)}") from error
    if not isinstance(model, nn.Module):
        raise UnknownModel(f"'{path}:{attribute}' gave a {type(model).__name__}; a torch.nn.Module is needed")
    return model


_RESNET = ("conv1", "maxpool", "layer1", "layer2", "layer3", "layer4", "avgpool", "fc")
_DENSENET = (
    *("conv0", "norm0", "relu0", "pool0", "denseblock1", "transition1", "denseblock2", "transition2"),
    *("denseblock3", "transition3", "denseblock4", "norm5", "avgpool", "classifier"),
)
_INCEPTION = (
    *("Conv2d_1a_3x3", "Conv2d_2a_3x3", "Conv2d_2b_3x3", "maxpool1", "Conv2d_3b_1x1", "Conv2d_4a_3x3"),
    *("maxpool2", "Mixed_5b", "Mixed_5c", "Mixed_5d", "Mixed_6a", "Mixed_6b", "Mixed_6c", "Mixed_6d"),
    *("Mixed_6e", "Mixed_7c", "avgpool", "fc"),
)
_SQUEEZENET = ("conv1", "maxpool1", "maxpool2", "maxpool3", "features", "final_conv")
_VGG = ("conv1", "maxpool1", "maxpool2", "maxpool3", "maxpool4", "maxpool5", "avgpool", "classifier")

# The 21 architectures and intermediate layers of the paper's table (App. F), under the paper's names.
PAPER_LAYERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("densenet121", "densenet161", "densenet169", "densenet201"), _DENSENET),
    "inception_v3": _INCEPTION,
    **dict.fromkeys(("resnet18", "resnet34", "resnet50", "resnet101", "resnet152"), _RESNET),
    **dict.fromkeys(("resnext101_32x8d", "resnext101_64x4d", "resnext50_32x4d"), _RESNET),
    **dict.fromkeys(("wide_resnet50_2", "wide_resnet101_2"), _RESNET),
    **dict.fromkeys(("squeezenet1_0", "squeezenet1_1"), _SQUEEZENET),
    **dict.fromkeys(("vgg11", "vgg13", "vgg16", "vgg19"), _VGG),
}


def stage_before(name: str, at: str) -> str:
    """The stage before a cut, by the paper's names of layers.

    >>> stage_before("resnet18", "layer4"), stage_before("vgg16", "maxpool5")
    ('layer3', 'maxpool4')

    Raises:
        UnknownModel: if the paper's table does not have the network, or not the cut.
    """
    stages = PAPER_LAYERS.get(name, ())
    if at not in stages[1:]:
        raise UnknownModel(
            f"which stage of {name} comes before {at or 'its end'!r} is not known here: name the layer up to which the "
            "backbone is frozen (--frozen LAYER)"
        )
    return stages[stages.index(at) - 1]


def shallow_layer(model: nn.Module) -> str:
    """A layer near the image, of a fourth of its side where the network allows: what details are compared at.

    ResNet's `layer1`, the last layer before VGG's third pooling, DenseNet's first block.

    >>> shallow_layer(build("vgg19", device="meta")), shallow_layer(build("densenet121", device="meta"))
    ('features.17', 'features.denseblock1')

    Raises:
        UnknownModel: if it is not known for this network.
    """
    names = paper_names(model)
    if "maxpool3" in names and "conv1" in names and "final_conv" not in names:
        features, pool = names["maxpool3"].split(".")
        return f"{features}.{int(pool) - 1}"
    if "denseblock1" in names:
        return names["denseblock1"]
    children = dict(model.named_children())
    for name in ("layer1", "stage1"):
        if name in children:
            return name
    raise UnknownModel(
        f"which layer of {type(model).__name__} is near the image is not known here: name one in front of the cut "
        "(--losses.shallow-layer LAYER)"
    )


def paper_names(model: nn.Module) -> dict[str, str]:
    """The paper's names of layers that differ from their module paths, for torchvision's models.

    DenseNet's ``avgpool`` of the paper is a functional call inside ``forward``, so it has no path.

    >>> paper_names(build("vgg16", device="meta"))["maxpool4"]
    'features.23'
    """
    if not type(model).__module__.startswith("torchvision.models."):
        return {}
    children = dict(model.named_children())
    features = children.get("features")
    if not isinstance(features, nn.Sequential):
        return {}
    family = type(model).__name__
    if family == "DenseNet":
        return {name: f"features.{name}" for name, _ in features.named_children()}
    if family not in ("VGG", "SqueezeNet"):
        return {}
    pools = [path for path, module in features.named_children() if isinstance(module, nn.MaxPool2d)]
    names = {f"maxpool{k}": f"features.{path}" for k, path in enumerate(pools, start=1)}
    if family == "SqueezeNet":
        return {"conv1": "features.0", **names, "final_conv": "classifier.1"}
    # The paper takes VGG's conv1 after its ReLU.
    first_relu = next(path for path, module in features.named_children() if isinstance(module, nn.ReLU))
    return {"conv1": f"features.{first_relu}", **names}
