"""The core f_core: any network, cut at a layer, with everything behind the cut removed (Sec. 4)."""

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from pixpnet import zoo
from pixpnet.model.cells import CellLayout, WindowGrid, as_grid, cut_windows, input_size, size_in_cells, tokens_of
from pixpnet.model.edits import apply_edits, paths_of
from pixpnet.model.errors import CutError
from pixpnet.model.layers import (
    better_cuts,
    cut_layer,
    fields_of,
    layers_in_order,
)
from pixpnet.model.modes import evaluating, refuse_batch_statistics
from pixpnet.model.pieces import Marks, pieces_of
from pixpnet.model.pruning import refuse_edits_behind_the_cut, remove_what_is_not_used
from pixpnet.model.seeing import warn_if_it_sees_everything
from pixpnet.model.segments import ForwardPass, Segment, watched_pass
from pixpnet.windows import Windows


class WatchedMaps(NamedTuple):
    """The cells at each cut, and what a layer in front of them gave (`Backbone.watch`), which nothing learns from."""

    maps: tuple[Float[Tensor, "batch _channels _rows _cols"], ...]
    watched: Float[Tensor, "batch _channels _rows _cols"]


class Backbone(nn.Module):
    """A network up to a layer; its output has rows and columns of cells, each with a known field.

    Behind a transformer's layer the cells are its tokens, in the places of their patches, without the class token.
    Cut at several layers, it gives a grid of cells for each (`maps`); its plain output is that of the last.

    With `windows`, the network runs on overlapping windows and each cell is the mean of what one window gives at the
    cut, so its field is that window, at any depth and for any network, attention included. Windows of several sizes
    give a grid of cells each, in the order of the sizes; the layers before the windows run once for all of them.

    Attributes:
        network: what is left of the network; its parameters keep their names.
        at: the layer, by its path, with the call ("relu#1") or part ("branch[0]") where one was chosen; several are
            separated by commas, in the order in which they run.
        edits: what was changed in the network before it was cut.
        windows: the windows that it runs on; None for the whole image.
        frozen: the layer up to which it does not learn: "" for nothing, "all" for everything.
        windows_at_once: through how many windows gradients flow at a time. Others are computed again when their turn
            comes, which bounds the memory of learning and costs another forward pass; None for all at once.
        watched: the layer whose map `maps_and_watched` gives beside those of the cuts; "" for none.
        channels: of the output.
        grid_channels: of each grid, in the order of the layers, or of the sizes of windows.
        grid_names: what each grid is, for people: its layer, and where windows have several sizes, their size.
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
        scales = (None,) if windows is None else windows.by_size
        seen, *others = dict.fromkeys(input_size(size, scale) for scale in scales)
        network = apply_edits(network, edits, (3, *seen)).eval()
        fields = fields_of(network, seen, windows)
        for other in others:
            fields_of(network, other, windows)  # says now if it does not run on windows of that size
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
        self._scales = scales
        self.frozen = ""
        self.windows_at_once: int | None = None
        self.watched = ""
        self.network = network
        self._stop = layer.call
        self._layout = CellLayout(layer.part, field.channel_dim, tokens)
        self.channels = field.shape[field.channel_dim]
        grids = [fields[tap].shape for tap in taps]
        self.grid_channels = (*(shape[0] for shape in grids), self.channels)
        self.grid_names: tuple[str, ...] = (*taps, layer.name)
        self._part_shapes: tuple[tuple[int, ...], ...] = (
            *grids,
            (self.channels, *(side for dim, side in enumerate(field.shape) if dim != field.channel_dim)),
        )
        self._window_cells = tuple(size_in_cells(scale, fields, seen) for scale in scales if scale is not None)
        if len(scales) > 1:
            self.grid_channels *= len(scales)
            self.grid_names = tuple(_on_windows(layer.name, scale) for scale in scales if scale is not None)
        forward_pass = watched_pass(network, self._stop, seen)
        if self._stop is not None:
            remove_what_is_not_used(network, forward_pass)
            refuse_edits_behind_the_cut(network, self.at, edited)
        self._take_apart(forward_pass)
        # Convolutions on the CPU, and on GPUs in half precision, are faster with the channels last.
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        warn_if_it_sees_everything(self, field, size, fields)

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
            parts = self.stem_parts(images)
            return self.tail_maps(parts[0]) if len(parts) == 1 else tuple(map(self._tail, parts))
        return tuple(self._cells(self._segments.rest, *opened) for opened in self._opened(images))

    def grid_map(
        self, images: Float[Tensor, "batch 3 height width"], grid: int
    ) -> Float[Tensor, "batch channels rows cols"]:
        """The cells of one grid; the others are not computed where windows have several sizes."""
        if self.taps or len(self._scales) == 1:
            return self.maps(images)[grid]
        if self.frozen:
            return self._tail(*self.stem_parts(images, (grid,)))
        (opened,) = self._opened(images, (grid,))
        return self._cells(self._segments.rest, *opened)

    @property
    def cells_alone(self) -> bool:
        """Whether a cell can be computed without the others: it is what one window gives."""
        return self.windows is not None

    def some_cells(
        self, images: Float[Tensor, "batch 3 height width"], grid: int, wanted: Bool[Tensor, "batch rows cols"]
    ) -> Float[Tensor, "cells channels"]:
        """Some cells of a grid, image by image and row by row; only their windows are run (`cells_alone`)."""
        some = wanted.flatten(1).any(dim=1)
        if not some.any():
            return images.new_zeros(0, self.channels)
        ((windows, _),) = self._opened(images[some], (grid,))
        return self._layout.pooled(self._segments.rest(self.network, windows[wanted[some].flatten()]))

    def stem(self, images: Float[Tensor, "batch 3 height width"]) -> Shaped[Tensor, "..."]:
        """What does not learn (`freeze`) makes of images: a tensor for each image, to be kept."""
        return joined(self.stem_parts(images))

    def stem_parts(
        self, images: Float[Tensor, "batch 3 height width"], parts: Sequence[int] | None = None
    ) -> tuple[Shaped[Tensor, "..."], ...]:
        """What `stem` gives in the parts that can be kept by themselves: those of each size of windows.

        Each is what a backbone on windows of that size alone gives. Without windows, or with one size, there is one.

        Args:
            images: of the size that was frozen for.
            parts: which of them, by their numbers; all by default.
        """
        if self.taps:
            return (joined(self._tapped(images)),)
        if self._keeps_watched:
            first, second, _ = self._segments.watched
            watched = first(self.network, images)
            return (joined((watched, second(self.network, watched))),)
        if self.frozen == "all":
            return tuple(self._cells(self._segments.rest, *opened) for opened in self._opened(images, parts))
        stems = []
        for maps, grid in self._opened(images, parts):
            features: Tensor = self._segments.middle(self.network, maps)
            stems.append(features if grid is None else features.unflatten(0, grid))
        return tuple(stems)

    def tail_maps(self, features: Shaped[Tensor, "..."]) -> tuple[Float[Tensor, "batch _channels _rows _cols"], ...]:
        """The cells at each cut, from what `stem` gave."""
        if self._keeps_watched:
            return self.tail_and_watched(features).maps
        if not self.taps and len(self._scales) == 1:
            return (self._tail(features),)
        parts = features.split([prod(shape) for shape in self._part_shapes], dim=1)
        maps = (part.unflatten(1, shape) for part, shape in zip(parts, self._part_shapes, strict=True))
        return tuple(maps) if self.taps else tuple(map(self._tail, maps))

    @property
    def stem_windows(self) -> tuple[Windows | None, ...]:
        """The windows that each of `stem_parts` is of; None for the whole image."""
        return self._scales

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
        shapes = self._segments.watched_shapes
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
        return bool(self._segments.watched_shapes) and self.frozen not in ("", "all")

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
            self._note_parts(size)
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
        self._note_parts(size)

    @property
    def cut(self) -> str:
        """The layer, what was changed in front of it and windows, for people; "" for a whole network as it was."""
        changes = f"after {', '.join(self.edits)}" if self.edits else ""
        sizes = " and ".join(str(scale.size) for scale in self._scales if scale is not None)
        return " ".join(filter(None, (self.at, changes, f"on windows of {sizes} px" if sizes else "")))

    def train(self, mode: bool = True) -> "Backbone":
        """Puts what learns into training mode; what is frozen answers as it always will."""
        super().train(mode)
        if self.frozen == "all":
            super().train(False)
        elif self.frozen:
            for path in self._segments.before_the_tail:
                self.network.get_submodule(path).eval()
        return self

    def frozen_parameters(self) -> set[nn.Parameter]:
        """The parameters that do not learn."""
        if self.frozen == "all":
            return set(self.parameters())
        paths = self._segments.before_the_tail if self.frozen else ()
        return {parameter for path in paths for parameter in self.network.get_submodule(path).parameters()}

    def frozen_state(self) -> dict[str, Tensor]:
        """The tensors that decide what `stem` gives."""
        state = self.network.state_dict()
        if self.frozen == "all":
            return state
        before = tuple(f"{path}." for path in self._segments.before_the_tail)
        return {name: tensor for name, tensor in state.items() if name.startswith(before)}

    def extra_repr(self) -> str:
        """What is printed of it."""
        where = f"cut at {self.at!r}" if self.at else "whole"
        windows = () if self.windows is None else (f"{self.windows}",)
        return ", ".join([where, f"{self.channels} channels", *self.edits, *windows])

    def _opened(self, images: Tensor, grids: Sequence[int] | None = None) -> Iterator[tuple[Tensor, WindowGrid | None]]:
        """The windows of some grids, and how many there are, behind what runs before they are cut.

        The images where there are no windows. One grid after the other, so that one batch of windows is held at a time.
        """
        if self.windows is None:
            yield images, None
            return
        opening = self._segments.opening
        maps = images if opening is None else opening(self.network, images)
        for grid in range(len(self._scales)) if grids is None else grids:
            yield cut_windows(maps, *self._window_cells[grid])

    def _tail(self, features: Tensor) -> Tensor:
        """The cells of one grid, from what is kept of it."""
        if self.frozen == "all":
            return features
        if self.windows is None:
            return self._cells(self._segments.closing, features, None)
        grid = WindowGrid(*features.shape[:3])
        return self._cells(self._segments.closing, features.flatten(0, 2), grid)

    def _note_parts(self, size: tuple[int, int]) -> None:
        """Takes down the shapes of `stem_parts`, which one tensor of all of them does not show."""
        if self.taps or len(self._scales) == 1 or not self.frozen:
            return
        first = next(self.parameters(), torch.zeros(()))
        with evaluating(self):
            parts = self.stem_parts(torch.zeros(1, 3, *size).to(first))
        self._part_shapes = tuple(tuple(part.shape[1:]) for part in parts)

    def _tapped(self, images: Tensor) -> tuple[Tensor, ...]:
        *before, last = self._segments.between_cuts
        values, maps = images, []
        for segment in before:
            values = segment(self.network, values)
            maps.append(values)
        return (*maps, self._cells(last, values, None))

    def _cells(self, segment: Segment, values: Tensor, windows: WindowGrid | None) -> Tensor:
        at_once = self.windows_at_once
        if windows is None or at_once is None or len(values) <= at_once or not torch.is_grad_enabled():
            return self._layout.cells(segment(self.network, values), windows)
        refuse_batch_statistics(self.network)
        pooled = [
            checkpoint(lambda some: self._layout.pooled(segment(self.network, some)), some, use_reentrant=False)
            for some in values.split(at_once)
        ]
        return as_grid(torch.cat(pooled), windows)

    def _take_apart(self, forward_pass: ForwardPass) -> None:
        names = zoo.paper_names(self.network)
        start = "" if self.windows is None else names.get(self.windows.start, self.windows.start)
        frozen = "" if self.frozen == "all" else self.frozen
        marks = Marks(self.at, start, frozen, self.watched, self.taps, self._stop)
        # Without modules in it, it is no part of what torch saves, moves or trains.
        self._segments = pieces_of(self.network, marks, forward_pass)


def joined(parts: Sequence[Shaped[Tensor, "batch ..."]]) -> Shaped[Tensor, "batch ..."]:
    """Parts of a stem's output as one tensor; a single one stays as it is."""
    return parts[0] if len(parts) == 1 else torch.cat([part.flatten(1) for part in parts], dim=1)


def _on_windows(layer: str, windows: Windows) -> str:
    return " ".join(filter(None, (layer, f"on windows of {windows.size} px")))
