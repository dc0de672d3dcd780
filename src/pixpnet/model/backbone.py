"""The core f_core: any network, cut at a layer, with everything behind the cut removed (Sec. 4)."""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from pixpnet import zoo
from pixpnet.fields import Field, Fields, receptive_fields
from pixpnet.model.cells import CellLayout, WindowGrid, cut_windows, input_size, size_in_cells, tokens_of
from pixpnet.model.edits import apply_edits, paths_of
from pixpnet.model.errors import CutError
from pixpnet.model.layers import (
    better_cuts,
    cut_layer,
    fields_of,
    layers_in_order,
    sees_almost_everything,
    warn_of_field,
)
from pixpnet.model.pruning import refuse_edits_behind_the_cut, remove_what_is_not_used
from pixpnet.model.segments import ForwardPass, Segment, SegmentError, take_apart, watched_pass
from pixpnet.windows import Windows


class _Segments(NamedTuple):
    """What the network runs, in pieces; none of them holds any of it.

    Attributes:
        opening: before windows are cut.
        rest: from there, or from the images, to the cut.
        middle: the part of `rest` that does not learn.
        closing: what is behind it.
        between_cuts: from the images to the first of several cuts, from there to the next one, and so on.
        watched: from the images to the layer that is watched, and from there on: to the frozen one where there is one,
            to each cut; none where nothing is watched.
    """

    opening: Segment | None
    rest: Segment
    middle: Segment
    closing: Segment
    between_cuts: tuple[Segment, ...] = ()
    watched: tuple[Segment, ...] = ()


class WatchedMaps(NamedTuple):
    """The cells at each cut, and what a layer in front of them gave (`Backbone.watch`), which nothing learns from."""

    maps: tuple[Float[Tensor, "batch _channels _rows _cols"], ...]
    watched: Float[Tensor, "batch _channels _rows _cols"]


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
        watched: the layer whose map `maps_and_watched` gives beside those of the cuts; "" for none.
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
        seen = input_size(size, windows)
        network = apply_edits(network, edits, (3, *seen)).eval()
        fields = fields_of(network, seen, windows)
        *taps, at = layers_in_order(at, network, fields, seen, windows)
        field = fields[at]
        tokens = None if windows is not None else tokens_of(field, fields)
        if len(field.shape) != 3 and windows is None and tokens is None:
            raise CutError(
                f"the output at '{at}' has the shape {field.shape}; prototypes need channels, rows and columns, or the "
                "tokens of a transformer: "
                f"cut at {better_cuts(network, fields) or 'a layer before it is flattened'}"
            )
        layer = cut_layer(at, network, fields)
        self.taps = tuple(taps)
        self.at = ",".join([*taps, layer.name])
        self.edits = tuple(edits)
        self.windows = windows
        self.frozen = ""
        self.watched = ""
        self.network = network
        self._stop = layer.call
        self._layout = CellLayout(layer.part, field.channel_dim, tokens)
        self.channels = field.shape[field.channel_dim]
        grids = [fields[tap].shape for tap in taps]
        self.grid_channels = (*(shape[0] for shape in grids), self.channels)
        self._grid_shapes = (
            *grids,
            (self.channels, *(side for dim, side in enumerate(field.shape) if dim != field.channel_dim)),
        )
        self._window_cells = (0, 0) if windows is None else size_in_cells(windows, fields, seen)
        forward_pass = watched_pass(network, self._stop, seen)
        if self._stop is not None:
            remove_what_is_not_used(network, forward_pass)
            refuse_edits_behind_the_cut(network, self.at, edited)
        self._take_apart(forward_pass)
        # Convolutions on the CPU, and on GPUs in half precision, are faster with the channels last.
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._warn_if_it_sees_everything(field, size, fields)

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
        return (self._cells(self._segments.rest, maps, grid),)

    def stem(self, images: Float[Tensor, "batch 3 height width"]) -> Shaped[Tensor, "..."]:
        """What does not learn (`freeze`) makes of images: a tensor for each image, to be kept."""
        if self.taps:
            return torch.cat([cells.flatten(1) for cells in self._tapped(images)], dim=1)
        if self._keeps_watched:
            first, second, _ = self._segments.watched
            watched = first(self.network, images)
            return torch.cat([watched.flatten(1), second(self.network, watched).flatten(1)], dim=1)
        maps, grid = self._opened(images)
        if self.frozen == "all":
            return self._cells(self._segments.rest, maps, grid)
        features: Tensor = self._segments.middle(self.network, maps)
        return features if grid is None else features.unflatten(0, grid)

    def tail_maps(self, features: Shaped[Tensor, "..."]) -> tuple[Float[Tensor, "batch _channels _rows _cols"], ...]:
        """The cells at each cut, from what `stem` gave."""
        if self.taps:
            parts = features.split([prod(shape) for shape in self._grid_shapes], dim=1)
            return tuple(part.unflatten(1, shape) for part, shape in zip(parts, self._grid_shapes, strict=True))
        if self.frozen == "all":
            return (features,)
        if self._keeps_watched:
            return self.tail_and_watched(features).maps
        if self.windows is None:
            return (self._cells(self._segments.closing, features, None),)
        grid = WindowGrid(*features.shape[:3])
        return (self._cells(self._segments.closing, features.flatten(0, 2), grid),)

    def maps_and_watched(self, images: Float[Tensor, "batch 3 height width"]) -> WatchedMaps:
        """The cells at each cut, and the map of the layer that is watched, in one pass."""
        if self.frozen:
            return self.tail_and_watched(self.stem(images))
        first, *others, last = self._segments.watched
        watched = first(self.network, images)
        values, maps = watched, []
        for segment in others:
            values = segment(self.network, values)
            maps.append(values)
        return WatchedMaps((*maps, self._cells(last, values, None)), watched.detach())

    def tail_and_watched(self, features: Shaped[Tensor, "..."]) -> WatchedMaps:
        """The same from what `stem` gave."""
        if not self._keeps_watched:  # the frozen layer itself is watched
            return WatchedMaps(self.tail_maps(features), features.detach())
        shapes = self._watched_shapes
        parts = features.split([prod(shape) for shape in shapes], dim=1)
        watched, values = (part.unflatten(1, shape) for part, shape in zip(parts, shapes, strict=True))
        return WatchedMaps((self._cells(self._segments.watched[-1], values, None),), watched.detach())

    def watch(self, layer: str, size: tuple[int, int]) -> None:
        """Says which layer in front of the (first) cut loss terms read; answers do not depend on it.

        What is frozen must be said before (`freeze`): the layer's map is then kept with the features.

        Args:
            layer: by its path or the paper's name; "" for none.
            size: height and width of the images.

        Raises:
            CutError: if there is no such layer in front of the cut, or its map cannot be had beside that of the cut.
        """
        if layer and self.windows is not None:
            raise CutError(f"a backbone on windows has no whole map at '{layer}': take it without windows (--window)")
        if layer and self.frozen == "all":
            raise CutError(f"nothing of a frozen backbone learns from its map at '{layer}': freeze less (--frozen)")
        before, self.watched = self.watched, zoo.paper_names(self.network).get(layer, layer)
        try:
            self._take_apart(watched_pass(self.network, self._stop, size))
        except CutError:
            self.watched = before
            raise

    @property
    def _keeps_watched(self) -> bool:
        """Whether features hold the map that is watched beside that of the frozen layer."""
        return bool(self._watched_shapes) and self.frozen not in ("", "all")

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
            self._take_apart(watched_pass(self.network, self._stop, input_size(size, self.windows)))
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

    def _opened(self, images: Tensor) -> tuple[Tensor, WindowGrid | None]:
        """The windows, and how many there are, behind what runs before they are cut; the images if there are none."""
        if self.windows is None:
            return images, None
        opening = self._segments.opening
        maps = images if opening is None else opening(self.network, images)
        return cut_windows(maps, *self._window_cells)

    def _tapped(self, images: Tensor) -> tuple[Tensor, ...]:
        *before, last = self._segments.between_cuts
        values, maps = images, []
        for segment in before:
            values = segment(self.network, values)
            maps.append(values)
        return (*maps, self._cells(last, values, None))

    def _cells(self, segment: Segment, values: Tensor, windows: WindowGrid | None) -> Tensor:
        return self._layout.cells(segment(self.network, values), windows)

    def _take_apart(self, forward_pass: ForwardPass) -> None:
        names = zoo.paper_names(self.network)
        start = "" if self.windows is None else names.get(self.windows.start, self.windows.start)
        frozen = "" if self.frozen == "all" else self.frozen
        order = forward_pass.order
        for layer in filter(None, (start, self.watched, frozen, *self.taps)):
            if layer not in order:
                raise CutError(
                    f"'{layer}' is no layer in front of the cut at '{self.at}': choose one of "
                    f"{', '.join(order[1:9])} ..."
                )
        if start and frozen and order.index(frozen) <= order.index(start):
            raise CutError(f"windows are cut at '{start}', which is not before '{frozen}', up to which nothing learns")
        if self.watched:
            self._refuse_watching_behind(order, frozen)

        def parts(*layers: str) -> tuple[Segment, ...]:
            calls = [forward_pass.layer(layer) for layer in layers]
            return take_apart(self.network, calls, self._stop, forward_pass)

        try:
            between_cuts = parts(*self.taps) if self.taps else ()
            *opening, rest = between_cuts[-1:] or parts(*filter(None, (start,)))
            middle, closing = rest, rest
            if frozen:
                *_, middle, closing = parts(*filter(None, (start, frozen)))
            behind = [layer for layer in (frozen, *self.taps) if layer and layer != self.watched]
            watched = parts(self.watched, *behind) if self.watched else ()
        except SegmentError as error:
            raise CutError(str(error)) from error
        self._watched_shapes: tuple[torch.Size, ...] = ()
        if self.watched and frozen not in ("", self.watched):
            with torch.no_grad():
                value = watched[0](self.network, forward_pass.images)
                self._watched_shapes = (value.shape[1:], watched[1](self.network, value).shape[1:])
        # Without modules in it, it is no part of what torch saves, moves or trains.
        self._segments = _Segments(opening[0] if opening else None, rest, middle, closing, between_cuts, watched)
        self._before_the_tail: tuple[str, ...] = ()
        if frozen:
            before = order[: order.index(frozen)]
            self._before_the_tail = (*(path for path in before if path and not frozen.startswith(f"{path}.")), frozen)

    def _refuse_watching_behind(self, order: Sequence[str], frozen: str) -> None:
        """Refuses to watch a layer that does not come before what is frozen, or before every cut."""
        if self.watched == frozen:
            return
        cuts = (*filter(None, (frozen,)), *self.taps, *(() if self._stop is None else (self._stop.path,)))
        for cut in cuts:
            behind = order.index(self.watched) > order.index(cut) and not self.watched.startswith(f"{cut}.")
            if self.watched == cut or behind:
                raise CutError(f"'{self.watched}' does not lie in front of '{cut}': choose an earlier layer")

    def _warn_if_it_sees_everything(self, field: Field, size: tuple[int, int], fields: Fields) -> None:
        windows = self.windows
        if windows is not None:
            if not windows.start and not sees_almost_everything(windows.size**2 / (size[0] * size[1])):
                return
            field = receptive_fields(self, (3, *size))[""]
        if sees_almost_everything(field.mean_fraction_union):
            better = better_cuts(self.network, fields) if windows is None else "smaller windows"
            warn_of_field(self.cut, field, better, stacklevel=4)
