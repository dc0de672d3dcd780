"""The requests of the tab Network: how fields grow with depth, and the cut that is in use."""

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pixpnet.fields import Field, Fields, UnsupportedOperation, receptive_fields
from pixpnet.model import Grid, PixPNet
from pixpnet.model.edits import apply_edits
from pixpnet.views.explorer.asking import region_facts
from pixpnet.views.explorer.explorer import Explorer
from pixpnet.views.explorer.requests import Handling
from pixpnet.views.words import percent
from pixpnet.wording import times
from pixpnet.zoo import UnknownModel, build


def routes(explorer: Explorer) -> list[Route]:
    """What the tab may ask for."""
    handling, network = Handling(explorer), _Network(explorer.model)

    async def facts(request: Request) -> Response:
        return await handling.json(network.facts)

    return [Route("/api/network", facts)]


class _Network:
    """The facts of a model's network, worked out once, when somebody asks."""

    def __init__(self, model: PixPNet) -> None:
        self._model = model
        self._facts: dict[str, Any] | None = None
        self._lock = threading.Lock()

    def facts(self) -> dict[str, Any]:
        with self._lock:
            if self._facts is None:
                self._facts = network_facts(self._model)
            return self._facts


def network_facts(model: PixPNet) -> dict[str, Any]:
    """The layers of a model's network with their fields, and what the cells of its grids see."""
    size, windows = model.preprocessing.size, model.backbone.windows
    grids = [_grid_facts(model, grid, field) for grid, field in zip(model.grids, model.fields, strict=True)]
    fields, whole = _layers(model, size)
    return {
        "model": model.backbone_name,
        "cut": model.backbone.cut,
        "size": size,
        "edits": list(model.backbone.edits),
        "windows": _windows_words(model),
        "whole": whole,
        "grids": grids,
        "layers": [] if fields is None else _rows(fields, model),
        "mean": percent(model.mean_field),
        "on_windows": None if windows is None else model.mean_field,
    }


def _rows(fields: Fields, model: PixPNet) -> list[dict[str, Any]]:
    """One row for each layer that has rows and columns, in the order in which they are computed."""
    used = _used_layers(fields, model)
    return [
        {
            "layer": row.layer.strip("()"),
            "paper_name": row.paper_name,
            "output": times(row.shape),
            "mean": row.mean_fraction_union,
            "mean_words": percent(row.mean_fraction_union),
            "size": times(row.size),
            "stride": times(["–" if step is None else f"{step:g}" for step in row.stride]),
            "used": row.layer in used,
        }
        for row in fields.table()
        if len(row.shape) == 3
    ]


def _used_layers(fields: Fields, model: PixPNet) -> set[str]:
    """The rows of the table that the grids read: the last layer where the network is not cut."""
    table = [row for row in fields.table() if len(row.shape) == 3]
    names = {row.layer for row in table}
    aliases = {row.paper_name: row.layer for row in table if row.paper_name}
    cuts = [name.strip() for name in model.backbone.at.split(",") if name.strip()]
    used = {cut if cut in names else aliases.get(cut, "") for cut in cuts} if cuts else {table[-1].layer}
    return used & names


def _layers(model: PixPNet, side: int) -> tuple[Fields | None, bool]:
    """The fields of all layers of the network as it was before it was cut, or of what is left of it.

    A network that is code of the user's is not called again: what lies behind its cut is gone.
    """
    shape, name = (3, side, side), model.backbone_name
    own_code = ":" in name and not name.startswith("timm:")
    if name and not own_code:
        try:
            edits: Sequence[str] = model.backbone.edits
            if not edits:
                return receptive_fields(name, shape), True
            return receptive_fields(apply_edits(build(name, input_size=(side, side)), edits, shape), shape), True
        except (UnknownModel, UnsupportedOperation, ValueError):
            pass  # what is left of it has fields, or the model would not be here
    try:
        return receptive_fields(model.backbone.network, shape), False
    except (UnsupportedOperation, ValueError):
        return None, False


def _grid_facts(model: PixPNet, grid: Grid, field: Field) -> dict[str, Any]:
    """What the cells of a grid see: a corner, an edge and the centre."""
    _, rows, cols = field.shape
    region = partial(grid.comparison.region, field=field)
    return {
        "layer": model.grid_layers[grid.number] or "the whole network",
        "cells": f"{rows} × {cols}",
        "prototypes": len(grid.prototypes),
        "mean": percent(field.mean_fraction_union),
        "largest": percent(field.max_fraction),
        "everything": percent(field.fraction_that_sees_everything) if field.fraction_that_sees_everything else "",
        "moves": grid.comparison.moves or "",
        "landmarks": [
            {"name": name, "cell": list(cell), "region": region_facts(region((cell[-2], cell[-1])))}
            for name, cell in field.landmark_cells().items()
        ],
    }


def _windows_words(model: PixPNet) -> str:
    windows = model.backbone.windows
    if windows is None:
        return ""
    scales = " and ".join(f"{scale.size} pixels, at most {scale.stride} apart" for scale in windows.by_size)
    where = f"the map of {windows.start}" if windows.start else "the image"
    return f"The network runs on windows of {where}: {scales}. A cell's field is its window, at any depth."
