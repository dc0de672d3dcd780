"""The prototypes of a class, each in its training image, with the exact region that its cell saw."""

from math import ceil

from matplotlib.figure import Figure

from pixpnet.colors import BLUE, MUTED
from pixpnet.model import PixPNet
from pixpnet.views.prototypes import grid_names, origin_pixels, origins_of
from pixpnet.views.slide import HEIGHT, SMALLEST, WIDTH, Slide
from pixpnet.views.words import SEES_EVERYTHING, deviation

_MARGIN, _TOP, _GAP, _CAPTION = 0.45, 1.35, 0.3, 0.66


def gallery_figure(model: PixPNet, label: int) -> Figure:
    """Draws every prototype of a class: one slide for up to ten, a taller sheet for more.

    Args:
        model: read from a run, so that it has pictures; without them regions are shown on grey.
        label: the class.

    Raises:
        LookupError: if there is no such class.
        ValueError: if the model's prototypes are not patches.
    """
    if not 0 <= label < model.num_classes:
        raise LookupError(f"there is no class {label}: the model has 0 to {model.num_classes - 1}")
    if model.origins is None:
        raise ValueError("the prototypes of this model are not patches of training images: train it with replacement")
    origins = origins_of(model, label)
    columns = max(3, min(5, ceil(len(origins) / 2)))
    rows = max(1, ceil(len(origins) / columns))
    across = WIDTH - 2 * _MARGIN
    side = (across - _GAP * (columns - 1)) / columns
    side = min(side, (HEIGHT - _TOP - 0.3) / min(rows, 2) - _CAPTION - 0.1)
    row_height = side + _CAPTION + 0.1
    slide = Slide(WIDTH, max(HEIGHT, _TOP + rows * row_height + 0.3))
    slide.words(_MARGIN, 0.36, model.class_names[label], across, 22, bold=True)
    everything = all(field.sees_everything for field in model.fields)
    about = f"{len(origins)} prototypes, each in its training image. The outline holds every pixel that its cell saw."
    if everything:
        about = f"{len(origins)} prototypes, each with its training image. {SEES_EVERYTHING}"
    slide.words(_MARGIN, 0.84, about, across, 11, MUTED)
    step = (across - side) / max(1, columns - 1)
    names = grid_names(model)
    for index, origin in enumerate(origins):
        down, along = divmod(index, columns)
        x, y = _MARGIN + along * min(step, side + 2 * _GAP), _TOP + down * row_height
        shown = slide.picture(origin_pixels(model, origin), x, y, side)
        if not model.fields[origin.grid].sees_everything:
            slide.outline(shown, origin.boxes, BLUE)
        below = y + shown.height + 0.07
        grid = f"  ·  {names[origin.grid]}" if len(names) > 1 else ""
        slide.words(x, below, f"prototype {origin.prototype}{grid}", side, 10, bold=True)
        caption = f"cell {origin.row}, {origin.col}  ·  moved {deviation(origin.distance)}"
        slide.words(x, below + 0.2, caption, side, SMALLEST, MUTED)
        slide.words(x, below + 0.37, origin.image, side, SMALLEST, MUTED)
    return slide.figure
