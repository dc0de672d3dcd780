"""Which prototypes are shown for a class, and how views name their cells."""

from pixpnet.model import Origin, PixPNet


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


def grid_names(model: PixPNet) -> tuple[str, ...]:
    """What to call each grid: its layer, or its number."""
    layers = model.backbone.at.split(",")
    return tuple(layer or f"grid {number} of {len(layers)}" for number, layer in enumerate(layers, start=1))


def cell_words(model: PixPNet, origin: Origin) -> str:
    """Row and column of a prototype's cell, and the grid where there are several."""
    names = grid_names(model)
    where = f" of {names[origin.grid]}" if len(names) > 1 else ""
    return f"{origin.row}, {origin.col}{where}"
