"""Cuts that come into question: layers of networks with their exact mean fields, computed before anything is trained.

Fields need no weights and no images, so all layers of all networks are looked at first (`survey`), and only those
inside the zone are worth training (`inside`). The field of a candidate is that of an embedding: the mean over cells
with their channels united, a share of the image from 0 to 1.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from pixpnet.fields import Field, Fields, UnknownLayer, receptive_fields
from pixpnet.fields.fields import traced_by_name
from pixpnet.goldilocks.designing import Design, propose
from pixpnet.goldilocks.errors import SearchError
from pixpnet.model import apply_edits
from pixpnet.progress import Progress
from pixpnet.records import ADDED_LATER
from pixpnet.windows import Windows
from pixpnet.zoo import PAPER_LAYERS, InputSizeError

PAPER = "paper"
_CELLS = 3  # axes of an output that has channels, rows and columns


@dataclass(frozen=True)
class Candidate:
    """A network cut at a layer.

    Attributes:
        backbone: in the zoo.
        at: the layer, as it was asked for.
        order: its place among the layers of the network, in the order in which they are finished.
        mean_field: mean share of the image that a cell sees, channels united.
        mean_field_neurons: the same over every neuron, as the paper defines the mean receptive field.
        shape: channels, rows and columns of its output.
        channels_last: whether the layer keeps its channels behind rows and columns.
        edits: changes to the network before it is cut, by their names.
        windows: the windows that the network runs on; None for the whole image.
    """

    backbone: str
    at: str
    order: int
    mean_field: float
    mean_field_neurons: float
    shape: tuple[int, int, int]
    channels_last: bool = False
    edits: tuple[str, ...] = ()
    windows: Windows | None = field(default=None, metadata=ADDED_LATER)

    @property
    def name(self) -> str:
        """For people, and to tell cuts apart.

        >>> Candidate("vgg16", "maxpool4", 23, 0.157, 0.157, (512, 14, 14)).name
        'vgg16 @ maxpool4'
        >>> Candidate("resnet18", "layer4", 60, 0.077, 0.077, (512, 9, 9), windows=Windows(72, 40, "layer1")).name
        'resnet18 @ layer4 + windows of 72 px every 40 px from layer1'
        """
        cut = f"{self.backbone} @ {self.at}" if self.at else self.backbone
        return " + ".join([cut, *self.edits, *([] if self.windows is None else [_in_short(self.windows)])])


@dataclass(frozen=True)
class LeftOut:
    """A layer that was asked for and cannot be cut at.

    Attributes:
        backbone: the network.
        at: the layer.
        reason: why not.
    """

    backbone: str
    at: str
    reason: str


@dataclass(frozen=True)
class Survey:
    """All cuts that come into question at an input size, and what does not, with the reason.

    Attributes:
        size: side of the network's input in pixels.
        candidates: cuts, modified ones last.
        left_out: layers that cannot be cut at.
        designs: what is known of modified cuts, in the order of the proposals.
    """

    size: int
    candidates: tuple[Candidate, ...]
    left_out: tuple[LeftOut, ...]
    designs: tuple[Design, ...] = ()


def survey(
    backbones: Sequence[str],
    size: int,
    layers: Sequence[str] = (),
    progress: Progress | None = None,
) -> Survey:
    """The exact fields of the layers of networks.

    Args:
        backbones: names in the zoo; ``paper`` stands for the 21 architectures of the paper's table (App. F).
        size: side of the network's input in pixels.
        layers: patterns of names (``layer?``, ``features.*``), paths or the paper's. By default the layers of the
            paper's table, for other networks of each field the last layer that has it.
        progress: told how many networks are done, of how many.

    Raises:
        UnknownModel: if a backbone is not in the zoo.
        UnknownLayer: if a pattern fits no layer of any backbone.

    >>> [round(cut.mean_field, 3) for cut in survey(["vgg16"], 224, ["maxpool[34]"]).candidates]
    [0.035, 0.157]
    """
    names = names_of(backbones)
    if not names:
        raise SearchError("there is no backbone to look at: name some, --backbones vgg16 resnet18, or paper")
    candidates: list[Candidate] = []
    left_out: list[LeftOut] = []
    unused = dict.fromkeys(layers, "")
    for done, name in enumerate(names, start=1):
        try:
            fields = receptive_fields(name, (3, size, size))
        except InputSizeError as error:
            # On windows it may run all the same, and only there can its layers be known.
            left_out.append(LeftOut(name, f"whole images of {size} px", str(error)))
            unused.clear()
            continue
        wanted = matching_layers(fields, layers) if layers else PAPER_LAYERS.get(name) or _last_of_each_field(fields)
        for pattern in layers:
            if matching_layers(fields, [pattern]):
                unused.pop(pattern, None)
            elif pattern in unused:
                unused[pattern] = unused[pattern] or _why_unknown(fields, pattern)
        for at in wanted:
            cut = _candidate(name, at, fields)
            if isinstance(cut, LeftOut):
                left_out.append(cut)
            else:
                candidates.append(cut)
        if progress is not None:
            progress("fields", done, len(names))
    for pattern, reason in unused.items():
        raise UnknownLayer(f"--layers {pattern} fits no layer of {', '.join(names)}: {reason}")
    return Survey(size, tuple(candidates), tuple(left_out))


def names_of(backbones: Sequence[str]) -> tuple[str, ...]:
    """The networks that are meant, each once; ``paper`` stands for the 21 of the paper's table."""
    return tuple(dict.fromkeys(name for given in backbones for name in (PAPER_LAYERS if given == PAPER else (given,))))


def with_designs(surveyed: Survey, target: float, progress: Progress | None = None) -> Survey:
    """A survey and, for each of its networks, modified cuts whose cells see about a wanted share of the image.

    >>> found = with_designs(survey(["small-37"], 96), 0.1)
    >>> [(design.at, design.edits) for design in found.designs][:1]
    [('stage3', ('drop:stage1.wider',))]
    """
    names = tuple(dict.fromkeys(cut.backbone for cut in surveyed.candidates))
    designs: list[Design] = []
    cuts: list[Candidate] = []
    for done, name in enumerate(names, start=1):
        # Edits are tried on layers that run once and give one tensor.
        plain = [cut for cut in surveyed.candidates if cut.backbone == name and cut.windows is None]
        layers = [cut.at for cut in plain if not {"#", "["} & set(cut.at)]
        proposed = [design for design in propose(name, target, surveyed.size, layers) if design.edits]
        if proposed:
            designs += proposed
            cuts += _designed(proposed, name, surveyed.size)
        if progress is not None:
            progress("modified cuts", done, len(names))
    return replace(surveyed, candidates=(*surveyed.candidates, *cuts), designs=tuple(designs))


def _designed(designs: Sequence[Design], backbone: str, size: int) -> Iterator[Candidate]:
    shape = (3, size, size)
    network = traced_by_name(backbone, shape).network
    for design in designs:
        cut = _candidate(backbone, design.at, receptive_fields(apply_edits(network, design.edits, shape), shape))
        assert isinstance(cut, Candidate)  # the design was made from its rows and columns
        yield replace(cut, edits=design.edits)


def _in_short(windows: Windows) -> str:
    start = f" from {windows.start}" if windows.start else ""
    return f"windows of {windows.size} px every {windows.stride} px{start}"


def inside(candidates: Sequence[Candidate], zone: tuple[float, float]) -> tuple[Candidate, ...]:
    """The candidates whose mean field lies in the zone, ends included, and all windows, whose size was asked for.

    Raises:
        SearchError: if no candidate lies in it; the message names the nearest.
    """
    low, high = zone
    chosen = tuple(cut for cut in candidates if cut.windows is not None or low <= cut.mean_field <= high)
    if not chosen:
        raise SearchError(f"no cut lies in the zone {low:g} {high:g}{_nearest(candidates, zone)}")
    return chosen


def _nearest(candidates: Sequence[Candidate], zone: tuple[float, float]) -> str:
    below = [cut for cut in candidates if cut.mean_field < zone[0]]
    above = [cut for cut in candidates if cut.mean_field > zone[1]]
    near = [max(below, key=lambda cut: cut.mean_field)] if below else []
    near += [min(above, key=lambda cut: cut.mean_field)] if above else []
    if not near:
        return ": no layer that was asked for has rows and columns; choose others with --layers"
    return f"; the nearest are {' and '.join(f'{cut.name} ({cut.mean_field:.4f})' for cut in near)}: widen --zone"


def _candidate(backbone: str, at: str, fields: Fields) -> Candidate | LeftOut:
    try:
        field = fields[at]
    except UnknownLayer as error:
        # The paper's table names layers that some of its networks do not have as modules (DenseNet's avgpool).
        return LeftOut(backbone, at, str(error))
    if len(field.shape) != _CELLS:
        shape = " x ".join(map(str, field.shape))
        return LeftOut(backbone, at, f"its output ({shape}) is flat: prototypes need channels, rows and columns")
    channels, rows, cols = (field.shape[field.channel_dim], *_without(field.shape, field.channel_dim))
    return Candidate(
        backbone=backbone,
        at=at,
        order=_order(fields, at, field),
        mean_field=field.mean_fraction_union,
        mean_field_neurons=field.mean_fraction,
        shape=(channels, rows, cols),
        channels_last=field.channel_dim == _CELLS - 1,
    )


def _without(shape: tuple[int, ...], position: int) -> tuple[int, ...]:
    return tuple(length for axis, length in enumerate(shape) if axis != position)


def _order(fields: Fields, at: str, field: Field) -> int:
    names = list(fields)
    resolved = fields.names.get(at, at)
    if resolved in names:
        return names.index(resolved)
    # A further name of a module that is registered twice, or its last call by number.
    return max(index for index, other in enumerate(fields.values()) if other is field)


def matching_layers(fields: Fields, patterns: Sequence[str]) -> tuple[str, ...]:
    """Layers that fit a pattern, in the order of execution; each once, under the paper's name where that fits."""
    alias = {path: name for name, path in fields.names.items()}
    matching = []
    for path in fields:
        names = [name for name in (alias.get(path), path) if name]
        fits = [name for name in names if any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)]
        matching += fits[:1]
    return tuple(matching)


def _why_unknown(fields: Fields, pattern: str) -> str:
    try:
        fields[pattern]
    except UnknownLayer as error:
        return str(error)
    return "it was asked for under another name"


def _last_of_each_field(fields: Fields) -> tuple[str, ...]:
    """Of all layers with the same mean field the last one: the most depth that its field can be had with."""
    last: dict[float, str] = {}
    for name, layer in fields.items():
        if name and len(layer.shape) == _CELLS:
            last[layer.mean_fraction_union] = name
    alias = {path: name for name, path in fields.names.items()}
    return tuple(alias.get(name, name) for name in last.values()) or ("",)
