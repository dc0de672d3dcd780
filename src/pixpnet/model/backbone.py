"""The core f_core: any network, cut at a layer, with everything behind the cut removed (Sec. 4)."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pixpnet import zoo
from pixpnet.fields import Field, Fields, UnsupportedOperation, receptive_fields
from pixpnet.fields.names import parse_layer
from pixpnet.fields.table import percent
from pixpnet.messages import first_line
from pixpnet.model.edits import EditError, apply_edits, paths_of
from pixpnet.model.segments import Reached, Segment, SegmentError, call_order, check_segments
from pixpnet.windows import Windows, window_starts

# Above this a "part" is most of the picture.
_ALMOST_EVERYTHING = 0.75
_PART_SIZED = (0.02, 0.6)
# Segments behind this one are those between several cuts.
_TAPPED = 4
# A class token, one for distillation, and registers.
_MOST_TOKENS_BEFORE = 8


class CutError(ValueError):
    """A layer at which a network cannot be cut; the message says why."""


class FieldWarning(UserWarning):
    """The cells of a backbone see so much that an explanation cannot point at a part."""


class Backbone(nn.Module):
    """A network up to a layer; its output has rows and columns of cells, each with a known field.

    Behind a transformer's layer the cells are its tokens, in the places of their patches, without the class token.
    Cut at several layers, it gives a grid of cells for each (`maps`); its plain output is that of the last.

    With `windows`, the network runs on overlapping windows and each cell is the mean of what one window gives at the
    cut, so its field is that window, at any depth and for any network, attention included.

    Attributes:
        network: what is left of the network; its parameters keep their names.
        at: the layer, by its path, with the call ("relu#1") or part ("branch[0]") where one was chosen; several are
            separated by commas, in the order in which they run.
        edits: what was changed in the network before it was cut.
        windows: the windows that it runs on; None for the whole image.
        frozen: the layer up to which it does not learn: "" for nothing, "all" for everything.
        channels: of the output.
        grid_channels: of each grid, in the order of the layers.
    """

    def __init__(
        self,
        network: nn.Module,
        at: str,
        size: tuple[int, int],
        edits: Sequence[str] = (),
        windows: Windows | None = None,
    ) -> None:
        """Cuts a copy of a network.

        Args:
            network: any module that takes images; it stays as it is.
            at: a module path, or the paper's name for the layer; "" for the whole network; several with commas.
            size: height and width of the images that it will be used with.
            edits: what to change in the copy, see `apply_edits`.
            windows: run it on windows of the image, or of the map of an early layer.

        Raises:
            UnknownLayer: if there is no such layer.
            CutError: if the layer's output has no rows and columns, or windows do not fit.
            EditError: if an edit does not fit, or lies behind the cut.
        """
        super().__init__()
        edited = paths_of(edits, network)
        seen = _input_size(size, windows)
        network = apply_edits(network, edits, (3, *seen)).eval()
        fields = _fields_of(network, seen, windows)
        *taps, at = _in_order(at, network, fields, seen, windows)
        field = fields[at]
        self._tokens = None if windows is not None else _tokens(field, fields)
        if len(field.shape) != 3 and windows is None and self._tokens is None:
            raise CutError(
                f"the output at '{at}' has the shape {field.shape}; prototypes need channels, rows and columns, or the "
                "tokens of a transformer: "
                f"cut at {_better_cuts(network, fields) or 'a layer before it is flattened'}"
            )
        target = _Target(at, network, fields)
        self.taps = tuple(taps)
        self.at = ",".join([*taps, target.name])
        self.edits = tuple(edits)
        self.windows = windows
        self.frozen = ""
        self.network = network
        self._call = target.call
        self._part = target.part
        self._channel_dim = field.channel_dim
        self._calls_seen = 0
        self._segments: tuple[nn.Module, ...] = ()
        self.channels = field.shape[field.channel_dim]
        grids = [fields[tap].shape for tap in taps]
        self.grid_channels = (*(shape[0] for shape in grids), self.channels)
        self._grid_shapes = (
            *grids,
            (self.channels, *(side for dim, side in enumerate(field.shape) if dim != field.channel_dim)),
        )
        if target.path:
            network.get_submodule(target.path).register_forward_hook(self._stop)
        self._window_cells = (0, 0)
        if windows is not None:
            self._window_cells = _in_cells(windows, fields, seen)
        if target.path:
            _remove_what_is_not_used(self, seen)
            _refuse_edits_behind_the_cut(self, edited)
        self._take_apart(seen)
        # Convolutions on the CPU, and on GPUs in half precision, are faster with the channels last.
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        _warn_if_it_sees_everything(self, field, size, fields)

    def forward(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch channels rows cols"]:
        """Runs the network up to the (last) cut."""
        return self.maps(images)[-1]

    def maps(
        self, images: Float[Tensor, "batch 3 height width"]
    ) -> tuple[Float[Tensor, "batch _channels _rows _cols"], ...]:
        """The cells at each cut."""
        if self.taps:
            return self._tapped(images)
        if self.frozen:
            return self.tail_maps(self.stem(images))
        maps, grid = self._opened(images)
        return (self._cells(self._run(self._rest, maps), grid),)

    def stem(self, images: Float[Tensor, "batch 3 height width"]) -> Shaped[Tensor, "..."]:
        """What does not learn (`freeze`) makes of images: a tensor for each image, to be kept."""
        if self.taps:
            return torch.cat([cells.flatten(1) for cells in self._tapped(images)], dim=1)
        maps, grid = self._opened(images)
        if self.frozen == "all":
            return self._cells(self._run(self._rest, maps), grid)
        features: Tensor = self._run(self._middle, maps)
        return features if grid is None else features.unflatten(0, grid)

    def tail_maps(self, features: Shaped[Tensor, "..."]) -> tuple[Float[Tensor, "batch _channels _rows _cols"], ...]:
        """The cells at each cut, from what `stem` gave."""
        if self.taps:
            parts = features.split([prod(shape) for shape in self._grid_shapes], dim=1)
            return tuple(part.unflatten(1, shape) for part, shape in zip(parts, self._grid_shapes, strict=True))
        if self.frozen == "all":
            return (features,)
        if self.windows is None:
            return (self._cells(self._run(self._closing, features), None),)
        batch, rows, cols = features.shape[:3]
        return (self._cells(self._run(self._closing, features.flatten(0, 2)), (batch, rows, cols)),)

    def freeze(self, up_to: str, size: tuple[int, int]) -> None:
        """Says up to which layer the network does not learn, so that what it gives there can be kept.

        Args:
            up_to: a layer before the cut, by its path or the paper's name; "all" for everything, "" for nothing.
            size: height and width of the images.

        Raises:
            CutError: if the network cannot be taken apart there.
        """
        if up_to in ("", "all"):
            self.frozen = up_to
            return
        if self.taps:
            raise CutError(
                f"a backbone cut at several layers ('{self.at}') learns as a whole or not at all: freeze all of "
                "it, or nothing"
            )
        named = zoo.paper_names(self.network).get(up_to, up_to)
        self.frozen = named
        try:
            self._take_apart(_input_size(size, self.windows))
        except CutError:
            self.frozen = ""
            raise

    @property
    def cut(self) -> str:
        """The layer, what was changed in front of it and windows, for people; "" for a whole network as it was."""
        changes = f"after {', '.join(self.edits)}" if self.edits else ""
        windows = "" if self.windows is None else f"on windows of {self.windows.size} px"
        return " ".join(filter(None, (self.at, changes, windows)))

    def train(self, mode: bool = True) -> "Backbone":
        """Puts what learns into training mode; what is frozen answers as it always will."""
        super().train(mode)
        if self.frozen == "all":
            super().train(False)
        elif self.frozen:
            for path in self._before_the_tail:
                self.network.get_submodule(path).eval()
        return self

    def frozen_parameters(self) -> set[nn.Parameter]:
        """The parameters that do not learn."""
        if self.frozen == "all":
            return set(self.parameters())
        paths = self._before_the_tail if self.frozen else ()
        return {parameter for path in paths for parameter in self.network.get_submodule(path).parameters()}

    def frozen_state(self) -> dict[str, Tensor]:
        """The tensors that decide what `stem` gives."""
        state = self.network.state_dict()
        if self.frozen == "all":
            return state
        before = tuple(f"{path}." for path in self._before_the_tail)
        return {name: tensor for name, tensor in state.items() if name.startswith(before)}

    def extra_repr(self) -> str:
        """What is printed of it."""
        where = f"cut at {self.at!r}" if self.at else "whole"
        windows = () if self.windows is None else (f"{self.windows}",)
        return ", ".join([where, f"{self.channels} channels", *self.edits, *windows])

    def _opened(self, images: Tensor) -> tuple[Tensor, tuple[int, int, int] | None]:
        """The windows, and how many there are, behind what runs before they are cut; the images if there are none."""
        if self.windows is None:
            return images, None
        maps = self._run(self._opening, images) if self.windows.start else images
        return cut_windows(maps, *self._window_cells)

    def _tapped(self, images: Tensor) -> tuple[Tensor, ...]:
        *before, last = self._segments[_TAPPED:]
        values, found = images, []
        for segment in before:
            values = self._run(segment, values)
            found.append(values)
        return (*found, self._cells(self._run(last, values), None))

    def _run(self, segment: nn.Module, values: Tensor) -> Any:
        self._calls_seen = 0
        if values.dim() == 4:
            values = values.contiguous(memory_format=torch.channels_last)
        try:
            return segment(values)
        except Reached as reached:
            return reached.output

    def _cells(self, output: Any, grid: tuple[int, int, int] | None) -> Tensor:
        if self._part:
            output = output[self._part if isinstance(output, Mapping) else int(self._part)]
        channel_dim = self._channel_dim + 1
        if self._tokens is not None:
            tokens: Tensor = output[:, self._tokens.before :].unflatten(1, self._tokens.grid)
            return tokens.permute(0, 3, 1, 2)
        if grid is None:
            cells: Tensor = output.permute(0, 3, 1, 2) if channel_dim == 3 else output
            return cells
        others = [dim for dim in range(1, output.dim()) if dim != channel_dim]
        pooled: Tensor = output.mean(dim=others) if others else output
        return torch.permute(pooled.unflatten(0, grid), (0, 3, 1, 2))

    def _stop(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self._calls_seen += 1
        if self._calls_seen == self._call:
            raise Reached(output)

    # In a tuple, which torch does not look into: they share everything with `network`, which has the names.

    @property
    def _opening(self) -> nn.Module:
        return self._segments[0]

    @property
    def _rest(self) -> nn.Module:
        return self._segments[1]

    @property
    def _middle(self) -> nn.Module:
        return self._segments[2]

    @property
    def _closing(self) -> nn.Module:
        return self._segments[3]

    def _take_apart(self, size: tuple[int, int]) -> None:
        start = (
            "" if self.windows is None else zoo.paper_names(self.network).get(self.windows.start, self.windows.start)
        )
        frozen = "" if self.frozen == "all" else self.frozen
        self._segments = (self.network,) * _TAPPED
        self._before_the_tail: tuple[str, ...] = ()
        if not start and not frozen and not self.taps:
            return
        first = next(self.network.parameters(), torch.zeros(()))
        image = torch.randn(1, 3, *size, generator=torch.Generator().manual_seed(0)).to(first)
        with torch.no_grad():
            order = call_order(self.network, lambda: self._run(self.network, image))
        for layer in filter(None, (start, frozen, *self.taps)):
            if layer not in order:
                raise CutError(
                    f"'{layer}' is no layer in front of the cut at '{self.at}': choose one of "
                    f"{', '.join(order[1:9])} ..."
                )
        if start and frozen and order.index(frozen) <= order.index(start):
            raise CutError(f"windows are cut at '{start}', which is not before '{frozen}', up to which nothing learns")
        opening = Segment(self.network, "", start, order) if start else self.network
        rest = Segment(self.network, start, "", order)
        middle = Segment(self.network, start, frozen, order)
        closing = Segment(self.network, frozen, "", order)
        ends = ("", *self.taps, "")
        tapped = [Segment(self.network, begin, end, order) for begin, end in pairwise(ends)]
        self._segments = (opening, rest, middle, closing, *(tapped if self.taps else ()))
        if frozen:
            self._before_the_tail = tuple(
                path for path in order[: order.index(frozen)] if path and not frozen.startswith(f"{path}.")
            )
            self._before_the_tail += (frozen,)
        try:
            with torch.no_grad():
                whole = self._run(self.network, image)
                for tap in self.taps:
                    check_segments(lambda: _chain(self._run, tapped, image), whole, tap)
                if start:
                    check_segments(lambda: self._run(rest, self._run(opening, image)), whole, start)
                if frozen:
                    parts = (opening, middle, closing) if start else (middle, closing)
                    check_segments(lambda: _chain(self._run, parts, image), whole, frozen)
        except SegmentError as error:
            raise CutError(str(error)) from error


class _Tokens(NamedTuple):
    """The tokens of a transformer as a grid: so many (class token, registers) stand before those of patches."""

    before: int
    grid: tuple[int, int]


def _tokens(field: Field, fields: Fields) -> _Tokens | None:
    """The grid of a layer whose output is tokens; None if it is not.

    Its tokens are those of patches if an earlier layer has as many cells with as many channels: the patches themselves.
    """
    if len(field.shape) != 2 or field.channel_dim != 1:
        return None
    tokens, channels = field.shape
    for name in fields:
        patches = fields[name]
        if len(patches.shape) == 3 and patches.channel_dim == 0 and patches.shape[0] == channels:
            rows, cols = patches.shape[1:]
            if 0 <= tokens - rows * cols <= _MOST_TOKENS_BEFORE:
                return _Tokens(tokens - rows * cols, (rows, cols))
    return None


def cut_windows(
    maps: Float[Tensor, "batch channels height width"], size: int, stride: int
) -> tuple[Float[Tensor, "windows channels {size} {size}"], tuple[int, int, int]]:
    """Overlapping windows as a batch, image by image and row by row, and how many (images, rows, columns)."""
    indices = []
    for length in maps.shape[2:]:
        starts = window_starts(length, size, stride)
        indices.append((len(starts), [start + step for start in starts for step in range(size)]))
    (rows, down), (cols, across) = indices
    cut = maps.index_select(2, torch.tensor(down, device=maps.device)).unflatten(2, (rows, size))
    cut = cut.index_select(4, torch.tensor(across, device=maps.device)).unflatten(4, (cols, size))
    return cut.permute(0, 2, 4, 1, 3, 5).flatten(0, 2), (len(maps), rows, cols)


def _input_size(size: tuple[int, int], windows: Windows | None) -> tuple[int, int]:
    """Height and width of what the network is run on."""
    if windows is None:
        return size
    if windows.size > min(size):
        raise CutError(
            f"a window of {windows.size} pixels does not fit into images of {size[0]} x {size[1]}: take a smaller one "
            "(--window), or larger images (--size)"
        )
    return size if windows.start else (windows.size, windows.size)


def _in_order(
    at: str, network: nn.Module, fields: Fields, size: tuple[int, int], windows: Windows | None
) -> tuple[str, ...]:
    """The layers of a cut in the order in which they run; all but the last by their paths."""
    if "," not in at:
        return (at,)
    names = [name.strip() for name in at.split(",")]
    if windows is not None:
        raise CutError(f"windows are cut for one layer, and there are {len(names)} ('{at}'): choose one (--at)")
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
    first = next(network.parameters(), torch.zeros(()))
    image = first.new_zeros(1, 3, *size)
    with torch.no_grad():
        order = call_order(network, lambda: network(image))
    return tuple(sorted(paths, key=order.index))


def _fields_of(network: nn.Module, size: tuple[int, int], windows: Windows | None) -> Fields:
    try:
        return receptive_fields(network, (3, *size))
    except UnsupportedOperation:
        raise
    except (RuntimeError, AssertionError, ValueError) as error:
        if windows is None or windows.start:
            raise
        raise CutError(
            f"the network does not run on windows of {size[0]} x {size[1]} pixels ({first_line(error)}): take the "
            "size that it was made for (--window 224, with larger images: --size 448), or larger windows"
        ) from error


def _in_cells(windows: Windows, fields: Fields, size: tuple[int, int]) -> tuple[int, int]:
    """Size and stride of windows in cells of the map that they are cut from."""
    if not windows.start:
        return windows.size, windows.stride
    layer = fields[windows.start]
    if len(layer.shape) != 3 or layer.channel_dim != 0:
        raise CutError(
            f"windows cannot be cut at '{windows.start}', whose output has the shape {layer.shape}: choose a layer "
            "with channels, rows and columns"
        )
    pixels = size[0] / layer.shape[1]
    cells = max(1, round(windows.size / pixels))
    return cells, min(cells, max(1, round(windows.stride / pixels)))


def _chain(run: Callable[[nn.Module, Tensor], Any], parts: Sequence[nn.Module], values: Tensor) -> Any:
    for part in parts:
        values = run(part, values)
    return values


class _Removed(nn.Module):
    """Stands where a module was that the cut does not need."""

    def forward(self, *inputs: Any) -> Any:
        raise RuntimeError("this module lies behind the cut and was removed; only a training mode could have called it")


class _Target:
    """A layer's name taken apart: the path, which call of it, and which of several results."""

    def __init__(self, at: str, network: nn.Module, fields: Fields) -> None:
        self.name = fields.names.get(at, at)
        found = parse_layer(self.name)
        # A module that is registered twice has its calls counted under its first path.
        module = network.get_submodule(found.path)
        self.path = next(path for path, other in network.named_modules() if other is module)
        self.part = found.part
        calls = 0
        while any(f"{self.path}#{calls + 1}{tail}" in fields for tail in ("", f"[{self.part}]")):
            calls += 1
        self.call = found.call or max(calls, 1)


class _UsedTensors(TorchDispatchMode):
    """Takes note of every tensor that an operation reads."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.update(id(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor))
        return func(*args, **(kwargs or {}))


def _remove_what_is_not_used(backbone: Backbone, size: tuple[int, int]) -> None:
    """Removes modules that neither run nor lend their parameters before the cut, and parameters that nobody reads."""
    network = backbone.network
    called: set[int] = set()
    handles = [
        module.register_forward_pre_hook(lambda module, _: called.add(id(module))) for module in network.modules()
    ]
    first = next(network.parameters(), None)
    images = torch.zeros(1, 3, *size) if first is None else first.new_zeros(1, 3, *size)
    try:
        with torch.no_grad(), _UsedTensors() as used:
            backbone._run(network, images)
    finally:
        for handle in handles:
            handle.remove()

    def needed(module: nn.Module) -> bool:
        tensors = (*module.parameters(), *module.buffers())
        return id(module) in called or any(id(tensor) in used.seen for tensor in tensors)

    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if not any(needed(inner) for inner in child.modules()):
                setattr(module, name, _Removed())
        for name, parameter in list(module.named_parameters(recurse=False)):
            if id(parameter) not in used.seen:
                setattr(module, name, None)


def _refuse_edits_behind_the_cut(backbone: Backbone, edited: Mapping[str, str]) -> None:
    left = {path for path, module in backbone.network.named_modules() if not isinstance(module, _Removed)}
    for edit, path in edited.items():
        if path not in left:
            raise EditError(f"the edit '{edit}' changes nothing in front of the cut at '{backbone.at}': leave it out")


def _better_cuts(network: nn.Module, fields: Fields) -> str:
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


def _warn_if_it_sees_everything(backbone: Backbone, field: Field, size: tuple[int, int], fields: Fields) -> None:
    windows = backbone.windows
    if windows is not None:
        if not windows.start and windows.size**2 <= _ALMOST_EVERYTHING * size[0] * size[1]:
            return
        field = receptive_fields(backbone, (3, *size))[""]
    seen = field.mean_fraction_union
    if seen <= _ALMOST_EVERYTHING:
        return
    better = _better_cuts(backbone.network, fields) if windows is None else "smaller windows"
    hint = f"; cells at {better} see parts" if better else ""
    warnings.warn(
        f"a cell at '{backbone.cut or 'the output'}' sees {percent(seen)} of the image on average, so an explanation "
        f"cannot point at a part{hint}",
        FieldWarning,
        stacklevel=3,
    )
