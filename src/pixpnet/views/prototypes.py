"""Which prototypes are shown for a class, and how views name their cells."""

import numpy as np
from jaxtyping import UInt8

from pixpnet.model import Origin, PixPNet, picture_name
from pixpnet.views.pictures import training_pixels


def origins_of(model: PixPNet, label: int) -> tuple[Origin, ...]:
    """The origins of the prototypes that speak for a class; of those that speak for none, the ones from its images.

    None where prototypes are not patches.
    """
    owned = model.ownership.mask()
    mine, nobodys = owned[label].tolist(), (~owned.any(dim=0)).tolist()
    return tuple(
        origin
        for origin in model.origins or ()
        if mine[origin.prototype] or (nobodys[origin.prototype] and origin.label == label)
    )


def origin_pixels(model: PixPNet, origin: Origin) -> UInt8[np.ndarray, "height width 3"]:
    """The training image that a prototype was taken from, as far as the model's run has pictures of it."""
    name, folder = picture_name(origin.prototype, model.num_prototypes), model.pictures
    return training_pixels(
        origin,
        None if folder is None else folder / f"{name}.png",
        None if folder is None else folder / f"{name}.jpg",
        (model.preprocessing.size, model.preprocessing.size),
    )


def grid_names(model: PixPNet) -> tuple[str, ...]:
    """What to call each grid: its layer, or its number."""
    layers = model.grid_layers
    return tuple(layer or f"grid {number} of {len(layers)}" for number, layer in enumerate(layers, start=1))


def cell_words(model: PixPNet, origin: Origin) -> str:
    """Row and column of a prototype's cell, and the grid where there are several."""
    names = grid_names(model)
    where = f" of {names[origin.grid]}" if len(names) > 1 else ""
    return f"{origin.row}, {origin.col}{where}"
