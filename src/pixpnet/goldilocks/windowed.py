"""Windows that come into question: for each size the layer that they are cut from, their stride and their exact field.

A network on windows (`pixpnet.windows`) can be cut at its end, where it knows most, and its cells still see parts. So
for each network one layer counts, its deepest, and what varies is the size of the windows:

- *Where they are cut from*: the last layer with a cell for every 4 pixels, or finer, whose own cells see no more than
  0.6 of a window: what lies before it runs once for the whole image, and a window's margin stays small. Networks that
  are built for inputs of one size (timm's transformers) get windows of the image itself.
- *How many*: as few as leave neighbours 45 % of their side in common, but four along each side, so that a class's ten
  prototypes have cells of their own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, sqrt

from torch import nn

from pixpnet import zoo
from pixpnet.fields import Fields, UnsupportedOperation, receptive_fields
from pixpnet.fields.fields import traced_by_name
from pixpnet.goldilocks.candidates import Candidate, LeftOut, Survey, matching_layers
from pixpnet.goldilocks.errors import SearchError
from pixpnet.model import Backbone, CutError
from pixpnet.model.cells import tokens_of
from pixpnet.progress import Progress
from pixpnet.windows import Windows
from pixpnet.wording import percent

IMAGE = "image"
_FINEST = 4  # pixels for each cell of the map that windows are cut from
_MARGIN = 0.6  # of a window's side: the largest field of a cell of that map
_OVERLAP = 0.45  # of a window's side
_FEWEST = 4  # windows along a side
_REACH = 32  # pixels around the best size for a target that are tried, where patches must divide it
# A classifier has cells too in some networks (SqueezeNet), but they are votes for ImageNet's classes.
_HEADS = ("classifier", "fc", "head")


def with_windows(
    surveyed: Survey,
    backbones: Sequence[str],
    sizes: Sequence[int],
    layers: Sequence[str] = (),
    start: str | None = None,
    progress: Progress | None = None,
) -> Survey:
    """A survey and, for each network and size, its deepest layer on windows.

    Args:
        surveyed: cuts without windows.
        backbones: names in the zoo.
        sizes: sides of windows in pixels.
        layers: patterns; the deepest layer that fits one is taken. Without any, the deepest that has cells.
        start: the layer that windows are cut from, ``image`` for the image itself; None chooses.
        progress: told how many networks are done, of how many.

    Raises:
        SearchError: if no window fits any network.

    >>> surveyed = with_windows(Survey(384, (), ()), ["resnet18"], [72, 128])
    >>> [(cut.windows.stride, cut.windows.start, round(cut.mean_field, 3)) for cut in surveyed.candidates]
    [(40, 'layer1', 0.077), (64, 'layer1', 0.172)]
    """
    cuts: list[Candidate] = []
    left_out: list[LeftOut] = []
    for done, name in enumerate(backbones, start=1):
        choice = _Choice(name, surveyed.size, layers, start)
        for size in sorted(set(sizes)):
            try:
                cuts.append(choice.candidate(size))
            except (CutError, ValueError, UnsupportedOperation) as error:
                left_out.append(LeftOut(name, f"windows of {size} px", str(error)))
        if progress is not None:
            progress("windows", done, len(backbones))
    if not cuts:
        raise SearchError(f"no network takes the windows that were asked for: {left_out[0].reason}")
    return replace(surveyed, candidates=(*surveyed.candidates, *cuts), left_out=(*surveyed.left_out, *left_out))


def with_windows_for(
    surveyed: Survey,
    backbones: Sequence[str],
    target: float,
    layers: Sequence[str] = (),
    start: str | None = None,
    progress: Progress | None = None,
) -> Survey:
    """A survey and, for each network, windows whose cells see about a wanted share of the image.

    One size of windows that are cut from an early layer, and one of windows of the image itself.

    >>> surveyed = with_windows_for(Survey(384, (), ()), ["resnet18"], 0.08)
    >>> [(cut.windows.size, cut.windows.start, round(cut.mean_field, 3)) for cut in surveyed.candidates]
    [(72, 'layer1', 0.077), (109, '', 0.081)]
    """
    cuts: list[Candidate] = []
    for done, name in enumerate(backbones, start=1):
        starts = (None, IMAGE) if start is None else (start,)
        for chosen in starts:
            nearest = _Choice(name, surveyed.size, layers, chosen).nearest(target)
            if nearest is not None and nearest not in (*cuts, *surveyed.candidates):
                cuts.append(nearest)
        if progress is not None:
            progress("windows", done, len(backbones))
    return replace(surveyed, candidates=(*surveyed.candidates, *cuts))


def windows_in_words(cut: Candidate, target: float | None = None) -> str:
    """What was chosen for a cut on windows, for people."""
    assert cut.windows is not None
    _, rows, cols = cut.shape
    wanted = "" if target is None else f" (target {percent(target)})"
    return (
        f"{cut.backbone} at {cut.at} on windows of {cut.windows.size} px, every {cut.windows.stride} px at most, cut "
        f"from {cut.windows.start or 'the image'}: {rows} x {cols} cells see {percent(cut.mean_field)}{wanted}, all "
        "weights as pretrained"
    )


@dataclass(frozen=True)
class _Map:
    """A map that windows may be cut from; the image itself has no name.

    Attributes:
        layer: its name.
        pixels: of the image, from one of its cells to the next.
        rows: of cells.
        sees: side of the square that one of its cells sees, in pixels, on average.
    """

    layer: str
    pixels: float
    rows: int
    sees: float


class _Choice:
    """One network, for which windows are chosen."""

    def __init__(self, backbone: str, size: int, layers: Sequence[str], start: str | None) -> None:
        self._backbone, self._size, self._layers, self._start = backbone, size, layers, start
        self._one_size = zoo.takes_one_size(backbone)

    def candidate(self, window: int) -> Candidate:
        """Its deepest layer on windows of a size."""
        if window > self._size:
            raise CutError(f"windows of {window} px do not fit into images of {self._size} px (--size)")
        network, fields = self._traced(window)
        at = _deepest(network, fields, self._layers, self._backbone)
        maps = [] if self._one_size else list(self._early_maps(fields, at))
        if self._start not in (None, IMAGE):
            maps = [early for early in maps if early.layer == self._start]
            if not maps:
                raise CutError(
                    f"windows of {self._backbone} cannot be cut from '{self._start}': name a layer in front of "
                    f"'{at}' that has channels, rows and columns, or {IMAGE}"
                )
            return self._on(network, fields, at, window, maps[0])
        for early in reversed(maps) if self._start is None else ():
            if early.pixels <= _FINEST and early.sees <= _MARGIN * window:
                try:
                    return self._on(network, fields, at, window, early)
                except CutError:
                    continue  # something goes around this layer
        return self._on(network, fields, at, window, _Map("", 1.0, self._size, 1.0))

    def nearest(self, target: float) -> Candidate | None:
        """With windows whose cells see about a share of the image; None where none can be had."""
        side = self._size * sqrt(target)
        tried: list[Candidate] = []
        for window in self._sizes_for(side):
            try:
                tried.append(self.candidate(window))
            except (CutError, ValueError, UnsupportedOperation):
                continue
            if abs(tried[-1].mean_field - target) <= target / 20 or len(tried) > 2 * _FINEST:
                break
        return min(tried, key=lambda cut: abs(cut.mean_field - target), default=None)

    def _sizes_for(self, side: float) -> Iterator[int]:
        """Sizes to try for cells that see a square of this side, the likeliest first."""
        around = sorted(range(-_REACH, _REACH + 1), key=abs)
        if self._start != IMAGE and not self._one_size:
            _, fields = self._traced(self._size)
            at = _deepest(_, fields, self._layers, self._backbone)
            for early in reversed(list(self._early_maps(fields, at))):
                # The outermost cells of a window see half of what they see beyond its edges.
                window = side - early.sees + early.pixels
                if early.pixels <= _FINEST and early.sees <= _MARGIN * window:
                    near = {max(1, round((window + step) / early.pixels)) for step in (-early.pixels, 0, early.pixels)}
                    sizes = [round(cells * early.pixels) for cells in near]
                    yield from sorted(sizes, key=lambda size: abs(size - window))
                    break
        yield from (round(side) + step for step in around if 1 <= round(side) + step <= self._size)

    def _traced(self, window: int) -> tuple[nn.Module, Fields]:
        side = window if self._one_size else self._size
        traced = traced_by_name(self._backbone, (3, side, side))
        return traced.network, traced.fields

    def _early_maps(self, fields: Fields, at: str) -> Iterator[_Map]:
        """Maps in front of a cut, first to last."""
        order = list(fields)
        path = fields.names.get(at, at)
        named = zoo.PAPER_LAYERS.get(self._backbone) or [name for name in fields if name and name.count(".") <= 1]
        for name in named:
            own = fields.names.get(name, name)
            if own not in fields or order.index(own) >= order.index(path) or own.startswith(f"{path}."):
                continue
            field = fields[own]
            if len(field.shape) == 3 and field.channel_dim == 0 and field.shape[1] > 1:
                rows = field.shape[1]
                yield _Map(name, self._size / rows, rows, self._size * sqrt(field.mean_fraction_union))

    def _on(self, network: nn.Module, fields: Fields, at: str, window: int, early: _Map) -> Candidate:
        cells = max(1, round(window / early.pixels))
        stride = _stride(early.rows, cells)
        # What runs is a whole number of cells; the name says that, not what was asked for.
        windows = Windows(round(cells * early.pixels), round(stride * early.pixels), early.layer)
        size = (self._size, self._size)
        backbone = Backbone(network, at, size, (), windows)
        field = receptive_fields(backbone, (3, *size))[""]
        channels, rows, cols = field.shape
        return Candidate(
            backbone=self._backbone,
            at=at,
            order=list(fields).index(fields.names.get(at, at)),
            mean_field=field.mean_fraction_union,
            mean_field_neurons=field.mean_fraction,
            shape=(channels, rows, cols),
            windows=windows,
        )


def _stride(length: int, window: int) -> int:
    """The largest step, in cells of a map, of windows that overlap enough, or are as many as are needed."""
    room = length - window
    if room <= 0:
        return window
    fewest = min(room, _FEWEST - 1)
    stride = min(window, ceil(room / max(ceil(room / ((1 - _OVERLAP) * window)), fewest)))
    while ceil(room / stride) < fewest:  # a whole number of cells may be too large a step
        stride -= 1
    return stride


def _deepest(network: nn.Module, fields: Fields, layers: Sequence[str], backbone: str) -> str:
    """The last layer that has cells, or tokens: of those that were asked for, or of the network."""
    names = matching_layers(fields, layers) if layers else zoo.PAPER_LAYERS.get(backbone) or tuple(fields)
    order = list(fields)
    paths = {fields.names.get(name, name): name for name in names if name}
    for path in reversed([path for path in order if path in paths]):
        field = fields[path]
        if "#" in path or "[" in path or (not layers and path.split(".")[0].startswith(_HEADS)):
            continue
        if not layers and isinstance(network.get_submodule(path), nn.AdaptiveAvgPool2d | nn.Identity | nn.Dropout):
            continue
        cells = len(field.shape) == 3 and min(field.shape) > 1
        if cells or tokens_of(field, fields) is not None:
            return paths[path]
    raise CutError(f"no layer of {backbone} that was asked for has cells or tokens: choose others with --layers")
