"""The layers at which a network is cut: found by name, put in order, and chosen by what their cells see."""

import warnings
from typing import NamedTuple

from torch import nn

from pixpnet import zoo
from pixpnet.fields import Field, Fields, UnsupportedOperation, receptive_fields
from pixpnet.fields.names import parse_layer
from pixpnet.messages import first_line
from pixpnet.model.errors import CutError, FieldWarning
from pixpnet.model.segments import watched_pass
from pixpnet.model.truncation import LayerCall
from pixpnet.windows import Windows
from pixpnet.wording import percent

# Above this a "part" is most of the picture.
_ALMOST_EVERYTHING = 0.75
_PART_SIZED = (0.02, 0.6)


class CutLayer(NamedTuple):
    """A layer's name taken apart: as it is shown, the call of its module, and which of several results."""

    name: str
    call: LayerCall | None
    part: str


def cut_layer(at: str, network: nn.Module, fields: Fields) -> CutLayer:
    """The layer that a name of `Fields`, or of the paper, stands for; the last call where none is named."""
    name = fields.names.get(at, at)
    parsed = parse_layer(name)
    # A module that is registered twice has its calls counted under its first path.
    module = network.get_submodule(parsed.path)
    path = next(path for path, other in network.named_modules() if other is module)
    calls = 0
    while any(f"{path}#{calls + 1}{tail}" in fields for tail in ("", f"[{parsed.part}]")):
        calls += 1
    return CutLayer(name, LayerCall(path, parsed.call or max(calls, 1)) if path else None, parsed.part)


def layers_in_order(
    at: str, network: nn.Module, fields: Fields, size: tuple[int, int], windows: Windows | None
) -> tuple[str, ...]:
    """The layers of a cut in the order in which they run; all but the last by their paths.

    Raises:
        CutError: if there are several that cannot be had together.
    """
    if "," not in at:
        return (at,)
    names = [name.strip() for name in at.split(",")]
    if windows is not None:
        # A window at two depths would be the same region twice; sizes make the difference that a person sees.
        raise CutError(
            f"windows are cut for one layer, and there are {len(names)} ('{at}'): choose one (--at); for several "
            "grids, name several sizes of windows (--window 72,144)"
        )
    paths = []
    for name in names:
        field = fields[name]
        if len(field.shape) != 3 or field.channel_dim != 0:
            raise CutError(
                f"the output at '{name}' has the shape {field.shape}: several cuts need channels, rows, columns"
            )
        path = fields.names.get(name, name)
        if not path or path not in dict(network.named_modules()):
            raise CutError(f"one of several cuts is a module by its path, and '{name}' is not: choose another (--at)")
        paths.append(path)
    for path in paths:
        if any(other != path and other.startswith(f"{path}.") for other in paths) or paths.count(path) > 1:
            raise CutError(f"several cuts lie one behind the other, and '{path}' holds, or is, another one of '{at}'")
    return tuple(sorted(paths, key=watched_pass(network, None, size).order.index))


def fields_of(network: nn.Module, size: tuple[int, int], windows: Windows | None) -> Fields:
    """The fields of all layers, for images or windows of a size.

    Raises:
        CutError: if the network does not run on windows of that size.
    """
    try:
        return receptive_fields(network, (3, *size))
    except UnsupportedOperation:
        raise
    except (RuntimeError, AssertionError, ValueError) as error:
        if windows is None or windows.start:
            raise
        raise CutError(
            f"the network does not run on windows of {size[0]} x {size[1]} pixels ({first_line(error)}): take the "
            "size that it was made for (--window 224, with larger images: --size 448), larger windows, or a "
            "transformer of timm (timm:vit_small_patch16_224), which is built for any size that its patches divide"
        ) from error


def better_cuts(network: nn.Module, fields: Fields) -> str:
    """Up to three layers, whose cells see the size of a part, in words."""
    low, high = _PART_SIZED
    paths = {path: name for name, path in fields.names.items()}
    stages = [name for names in zoo.PAPER_LAYERS.values() for name in names]
    names = dict.fromkeys([*paths, *(name for name in stages if name in fields)])
    if not names:
        names = dict.fromkeys(name for name in fields if name and name.count(".") <= 1)
    good = [
        (fields[name].mean_fraction_union, paths.get(name, name))
        for name in names
        if name in fields and len(fields[name].shape) == 3 and low <= fields[name].mean_fraction_union <= high
    ]
    return ", ".join(f"'{name}' ({percent(seen)})" for seen, name in sorted(set(good), reverse=True)[:3])


def sees_almost_everything(share: float) -> bool:
    """Whether cells that see this share of the image are too large for a part."""
    return share > _ALMOST_EVERYTHING


def warn_of_field(cut: str, field: Field, better: str, stacklevel: int) -> None:
    """Warns where a cell sees almost everything.

    Args:
        cut: where the network is cut, for people.
        field: of its cells.
        better: what to choose instead; "" where nothing is known.
        stacklevel: of the warning, from here.
    """
    seen = field.mean_fraction_union
    if not sees_almost_everything(seen):
        return
    hint = f"; cells at {better} see parts" if better else ""
    warnings.warn(
        f"a cell at '{cut or 'the output'}' sees {percent(seen)} of the image on average, so an explanation "
        f"cannot point at a part{hint}",
        FieldWarning,
        stacklevel=stacklevel,
    )
