"""A cut network in the pieces that are run by themselves: before windows, what does not learn, between cuts."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn

from pixpnet.model.errors import CutError
from pixpnet.model.segments import ForwardPass, Segment, SegmentError, take_apart
from pixpnet.model.truncation import LayerCall


class Marks(NamedTuple):
    """Where a network is taken apart, by the paths of its layers; "" for nowhere.

    Attributes:
        at: the cuts, for messages.
        start: the layer on whose map windows are cut.
        frozen: the layer up to which nothing learns.
        watched: the layer whose map loss terms read.
        taps: all cuts but the last.
        stop: the last cut; None for the network's end.
    """

    at: str
    start: str
    frozen: str
    watched: str
    taps: tuple[str, ...]
    stop: LayerCall | None


class Pieces(NamedTuple):
    """What the network runs, in pieces; none of them holds any of it.

    Attributes:
        opening: before windows are cut.
        rest: from there, or from the images, to the cut.
        middle: the part of `rest` that does not learn.
        closing: what is behind it.
        between_cuts: from the images to the first of several cuts, from there to the next one, and so on.
        watched: from the images to the layer that is watched, and from there on: to the frozen one where there is one,
            to each cut; none where nothing is watched.
        before_the_tail: the modules that do not learn, by their paths, where something behind them does.
        watched_shapes: of the map that is watched and of that of the frozen layer, where features hold both.
    """

    opening: Segment | None
    rest: Segment
    middle: Segment
    closing: Segment
    between_cuts: tuple[Segment, ...] = ()
    watched: tuple[Segment, ...] = ()
    before_the_tail: tuple[str, ...] = ()
    watched_shapes: tuple[torch.Size, ...] = ()


def pieces_of(network: nn.Module, marks: Marks, forward_pass: ForwardPass) -> Pieces:
    """Takes a network apart.

    Args:
        network: in eval mode.
        marks: where.
        forward_pass: of the network up to the last cut.

    Raises:
        CutError: if there is no such layer in front of the cut, or the network cannot be taken apart there.
    """
    start, frozen, taps = marks.start, marks.frozen, marks.taps
    order = forward_pass.order
    for layer in filter(None, (start, marks.watched, frozen, *taps)):
        if layer not in order:
            raise CutError(
                f"'{layer}' is no layer in front of the cut at '{marks.at}': choose one of {', '.join(order[1:9])} ..."
            )
    if start and frozen and order.index(frozen) <= order.index(start):
        raise CutError(f"windows are cut at '{start}', which is not before '{frozen}', up to which nothing learns")
    if marks.watched:
        _refuse_watching_behind(marks, order)

    def parts(*layers: str) -> tuple[Segment, ...]:
        calls = [forward_pass.layer(layer) for layer in layers]
        return take_apart(network, calls, marks.stop, forward_pass)

    try:
        between_cuts = parts(*taps) if taps else ()
        *opening, rest = between_cuts[-1:] or parts(*filter(None, (start,)))
        middle, closing = rest, rest
        if frozen:
            *_, middle, closing = parts(*filter(None, (start, frozen)))
        behind = [layer for layer in (frozen, *taps) if layer and layer != marks.watched]
        watched = parts(marks.watched, *behind) if marks.watched else ()
    except SegmentError as error:
        raise CutError(str(error)) from error
    shapes: tuple[torch.Size, ...] = ()
    if marks.watched and frozen not in ("", marks.watched):
        with torch.no_grad():
            value = watched[0](network, forward_pass.images)
            shapes = (value.shape[1:], watched[1](network, value).shape[1:])
    before_the_tail: tuple[str, ...] = ()
    if frozen:
        before = order[: order.index(frozen)]
        before_the_tail = (*(path for path in before if path and not frozen.startswith(f"{path}.")), frozen)
    return Pieces(
        opening[0] if opening else None, rest, middle, closing, between_cuts, watched, before_the_tail, shapes
    )


def _refuse_watching_behind(marks: Marks, order: Sequence[str]) -> None:
    """Refuses to watch a layer that does not come before what is frozen, or before every cut."""
    watched = marks.watched
    if watched == marks.frozen:
        return
    cuts = (*filter(None, (marks.frozen,)), *marks.taps, *(() if marks.stop is None else (marks.stop.path,)))
    for cut in cuts:
        behind = order.index(watched) > order.index(cut) and not watched.startswith(f"{cut}.")
        if watched == cut or behind:
            raise CutError(f"'{watched}' does not lie in front of '{cut}': choose an earlier layer")
