"""All prototypes of a run at a glance: one column for each class, each picture exactly what a prototype's cell saw."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from matplotlib.figure import Figure
from PIL import Image

from pixpnet.model import Origin, picture_name

_CELL_INCHES = 0.95
_LARGEST = 24


def prototype_sheet(class_names: Sequence[str], origins: Sequence[Origin], crops: Path) -> Figure:
    """A sheet of the pictures in a run's folder `prototypes`.

    Args:
        class_names: of the model; the first 24 are shown.
        origins: of its prototypes.
        crops: the folder of their pictures.

    Raises:
        FileNotFoundError: if a picture is missing.
    """
    shown = range(min(len(class_names), _LARGEST))
    columns = [[origin.prototype for origin in origins if origin.label == label] for label in shown]
    rows = max(1, *map(len, columns))
    figure = Figure(figsize=(_CELL_INCHES * len(columns), _CELL_INCHES * rows + 0.6), layout="constrained")
    axes = figure.subplots(rows, len(columns), squeeze=False)
    side = max((max(box.y1 - box.y0, box.x1 - box.x0) for o in origins if (box := o.hull) is not None), default=1)
    for across, prototypes in enumerate(columns):
        axes[0, across].set_title(fill(class_names[across], 12), fontsize=8)
        for down in range(rows):
            axis = axes[down, across]
            axis.set_axis_off()
            if down < len(prototypes):
                with Image.open(crops / f"{picture_name(prototypes[down], len(origins))}.png") as picture:
                    axis.imshow(picture.convert("RGBA"), interpolation="nearest")
                # One scale for all, so that a field that the border clips looks clipped.
                axis.set_xlim(0, side)
                axis.set_ylim(side, 0)
    return figure
