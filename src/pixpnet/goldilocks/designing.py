"""Field design: cuts of a backbone, changed as little as can be, whose cells see a wanted share of the image.

The paper leaves this to future work. Cuts alone give few sizes of fields; named edits in front of a cut
(`pixpnet.model.edits`) give the sizes between. Families of edits are tried on all cuts at once, without any weights:

- *pointwise*: every k x k convolution between some depth and the cut becomes 1 x 1. Those with a stride stay, because
  behind a 1 x 1 window that steps by 2 three pixels of four would be seen by nobody;
- *drop*: the last blocks of a stage, all that keep the shape of their input;
- *unstride*: the stride of a pool, a convolution or a block;
- any two of these together.

Each convolution made 1 x 1 leaves a subset of every field behind it, so the depth is found by halving.
"""

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, product

from torch import nn

from pixpnet import zoo
from pixpnet.fields import Fields, UnsupportedOperation, receptive_fields
from pixpnet.fields.fields import traced_by_name
from pixpnet.model.edits import in_words, is_plain_convolution, is_strided, make_edits, shape_keepers
from pixpnet.wording import percent

# A field within this share of the target hits it: 14.3 to 15.7 % for 15 %. Nearer is no better, but less change is.
TOLERANCE = 0.05
# Together with another family, this many depths are tried, evenly spaced.
_DEPTHS = 15


class DesignWarning(UserWarning):
    """A backbone that no edit fits, so that only its unmodified cuts are proposed."""


@dataclass(frozen=True)
class Design:
    """A cut of a backbone, perhaps modified.

    Attributes:
        backbone: its name in the zoo.
        at: the layer to cut it at.
        edits: what is changed in front of it; none for an unmodified cut.
        target: the wanted share of the image, 0 to 1.
        mean_field: the share that a cell sees, channels united, exactly.
        cells: rows and columns of the output.
        share_pretrained: the share of the parameters up to the cut that stay as pretrained: with their values, and,
            where they weigh neighbours, with these as far apart in the image as they were (a removed stride brings them
            nearer).
        parameters: how many these are.
    """

    backbone: str
    at: str
    edits: tuple[str, ...]
    target: float
    mean_field: float
    cells: tuple[int, int]
    share_pretrained: float
    parameters: int

    @property
    def miss(self) -> float:
        """How far the field is from the target, as a share of the image."""
        return abs(self.mean_field - self.target)

    @property
    def hits(self) -> bool:
        """Whether the field is the target's, but for a twentieth of it."""
        return self.miss <= TOLERANCE * self.target

    def __str__(self) -> str:
        rows, cols = self.cells
        return (
            f"{self.backbone} at {self.at}, {in_words(self.edits) or 'unmodified'}: {rows} x {cols} cells see "
            f"{percent(self.mean_field)} (target {percent(self.target)}), "
            f"{percent(self.share_pretrained)} of weights as pretrained"
        )


def propose(
    backbone: str, target: float, size: int = 224, at: Sequence[str] = (), count: int = 5
) -> tuple[Design, ...]:
    """The cuts of a backbone, modified or not, whose cells see nearest to a wanted share of the image.

    Those that hit the target come first, beginning with the one that changes least of the pretrained network; then the
    others, nearest first. A design is left out if another hits as well (or comes as near), keeps as large a share and
    as many of the pretrained weights, and takes no more edits.

    Args:
        backbone: a name in the zoo.
        target: the wanted mean field of the embedding, 0 to 1.
        size: side of the images.
        at: layers to cut at; by default those of the paper's table, or modules and their children.
        count: how many designs at most.

    Raises:
        UnknownLayer: if a layer is not there.

    Warns:
        DesignWarning: if no edit fits the backbone.

    >>> propose("small-37", 0.1, size=96, at=["stage3"])[0].edits
    ('drop:stage1.wider',)
    """
    if not 0 < target <= 1:
        raise ValueError(f"the target is a share of the image, above 0 and at most 1, not {target}")
    if count < 1:
        raise ValueError(f"at least 1 design can be asked for, not {count}")
    bench = _Bench(backbone, size, at)
    if not (bench.convolutions or bench.strides or bench.stages):
        warnings.warn(
            f"no edit fits {backbone}: it has no plain convolution, stride or block of an unchanged shape, so only its "
            "unmodified cuts are proposed",
            DesignWarning,
            stacklevel=2,
        )
    designs = {(design.at, design.edits): design for design in _candidates(bench, target)}
    best = _undominated(list(designs.values()))
    return tuple(sorted(best, key=_rank)[:count])


def _rank(design: Design) -> tuple[float, ...]:
    change = (-design.share_pretrained, len(design.edits))
    return (0, *change, design.miss) if design.hits else (1, design.miss, *change)


def _undominated(designs: list[Design]) -> list[Design]:
    def costs(design: Design) -> tuple[float, ...]:
        return (0.0 if design.hits else design.miss, 1 - design.share_pretrained, len(design.edits), -design.parameters)

    first: dict[tuple[float, ...], Design] = {}
    for design in designs:
        first.setdefault(costs(design), design)  # of those that are equal in all respects, the earlier cut
    return [
        design
        for cost, design in first.items()
        if not any(other != cost and all(a <= b for a, b in zip(other, cost, strict=True)) for other in first)
    ]


def _candidates(bench: "_Bench", target: float) -> Iterator[Design]:
    """All that the families make of all cuts, as far as it can be near the target."""
    drops = [
        tuple(f"drop:{path}" for path in stage[-number:]) for stage in bench.stages for number in _some(len(stage))
    ]
    strides = [(f"unstride:{path}",) for path in bench.strides]
    for base in [(), *strides, *drops]:
        yield from _alone(bench, base, target)
        yield from _with_pointwise(bench, base, target)
    for stride, drop in product(strides, drops):
        yield from _alone(bench, (*stride, *drop), target)


def _alone(bench: "_Bench", edits: tuple[str, ...], target: float) -> Iterator[Design]:
    for at in bench.cuts:
        if bench.in_front(edits, at) and at in bench.look(edits):
            yield bench.design(at, edits, bench.look(edits)[at], target)


def _with_pointwise(bench: "_Bench", base: tuple[str, ...], target: float) -> Iterator[Design]:
    """The two depths next to the target, for each cut that sees more than the target."""
    dropped = _paths(base, "drop")
    convolutions = [path for path in bench.convolutions if not _within(path, dropped)]
    for at, seen in bench.look(base).items():
        inside = sum(bench.position[path] <= bench.cuts[at] for path in convolutions)
        if not inside or seen.mean_field <= target or not bench.in_front(base, at):
            continue
        step = -(-inside // _DEPTHS) if base else 1
        starts = sorted({*range(0, inside, step)})
        low, high = -1, len(starts)  # from `low` on it sees no more than the target, from `high` on it sees more
        while high - low > 1:
            middle = (low + high) // 2
            every = (*base, *bench.pointwise(convolutions[starts[middle] :]))
            looked = bench.look(every)
            if at not in looked:
                return
            low, high = (middle, high) if looked[at].mean_field <= target else (low, middle)
        for chosen in (low, high):
            if 0 <= chosen < len(starts):
                behind = convolutions[starts[chosen] :]  # what lies behind the cut does not change what is seen there
                edits = (*base, *bench.pointwise(convolutions[starts[chosen] : inside]))
                yield bench.design(at, edits, bench.look((*base, *bench.pointwise(behind)))[at], target)


def _some(count: int) -> list[int]:
    """Few numbers from 1 to a count: 1, a half, all."""
    return sorted({1, (count + 1) // 2, count})


@dataclass(frozen=True)
class _Sight:
    """What the cells of a cut see, and how many they are."""

    mean_field: float
    cells: tuple[int, int]


@dataclass(frozen=True)
class _Weight:
    """A parameter: the module that has it, when that module was run, its size, and whether it weighs neighbours."""

    path: str
    position: int
    count: int
    spatial: bool


class _Bench:
    """A backbone without data, on which edits are tried; what was seen is remembered.

    Attributes:
        position: when each module was run.
        cuts: the layers to cut at, and when they were run.
        convolutions: that can be made 1 x 1, in the order of their execution.
        strides: modules whose stride can be removed.
        stages: runs of blocks that can be dropped.
    """

    def __init__(self, backbone: str, size: int, at: Sequence[str]) -> None:
        self.backbone = backbone
        self._shape = (3, size, size)
        traced = traced_by_name(backbone, self._shape)
        self._network, fields = traced.network, traced.fields
        self.position = {path: number for number, path in enumerate(fields)}
        modules = {path: module for path, module in self._network.named_modules() if path in self.position}
        names = at or _usual_cuts(backbone, fields)
        for name in names:
            if len(fields[name].shape) != 3:
                raise ValueError(
                    f"the output at '{name}' has the shape {fields[name].shape}: it has no rows and columns"
                )
        self.cuts = {name: self.position[fields.names.get(name, name)] for name in names}
        last = max(self.cuts.values(), default=-1)
        run = [path for path in sorted(modules, key=self.position.__getitem__) if self.position[path] <= last]
        # Also those behind the last cut: a module that has some of them is not named, since it is not to change there.
        self._kernels = {path for path, module in self._network.named_modules() if _has_neighbors(module)}
        self.convolutions = [
            path for path in run if is_plain_convolution(modules[path]) and not is_strided(modules[path])
        ]
        self._strided = [path for path in run if is_strided(modules[path])]
        self.strides = _stride_units(self._network, run)
        self._keepers = shape_keepers(self._network, self._shape)
        self.stages = [stage for stage in _stages(self._network, self._keepers) if self.position[stage[0]] <= last]
        self._weights = list(self._all_weights())
        self._seen: dict[tuple[str, ...], dict[str, _Sight]] = {(): self._sights(fields)}

    def look(self, edits: tuple[str, ...]) -> dict[str, _Sight]:
        """What the cells of each cut see after the edits; nothing where the network does not run any more."""
        if edits not in self._seen:
            network = copy.deepcopy(self._network)
            make_edits(network, edits, lambda: self._keepers)
            try:
                self._seen[edits] = self._sights(receptive_fields(network, self._shape))
            except UnsupportedOperation:
                raise
            except (RuntimeError, ValueError):  # one branch has another size than the other
                self._seen[edits] = {}
        return self._seen[edits]

    def in_front(self, edits: tuple[str, ...], at: str) -> bool:
        """Whether all edits lie in front of the cut."""
        return all(self.position[path] <= self.cuts[at] for path in _paths(edits))

    def design(self, at: str, edits: tuple[str, ...], sight: _Sight, target: float) -> Design:
        """A cut with edits, as a record."""
        weights = [weight for weight in self._weights if weight.position <= self.cuts[at]]
        changed = self._changed(edits)
        unchanged = sum(weight.count for weight in weights if not changed(weight))
        total = sum(weight.count for weight in weights)
        share = unchanged / total if total else 1.0
        return Design(self.backbone, at, edits, target, sight.mean_field, sight.cells, share, unchanged)

    def pointwise(self, convolutions: Sequence[str]) -> list[str]:
        """Edits that make these convolutions 1 x 1, and no others; blocks are named instead of all that is in them."""
        left = dict.fromkeys(convolutions)
        edits: dict[str, int] = {}
        for path, _ in self._network.named_modules():
            inside = [kernel for kernel in self._kernels if _within(kernel, [path])] if path else []
            if inside and all(kernel in left for kernel in inside):
                edits[f"pointwise:{path if len(inside) > 1 else inside[0]}"] = min(self.position[k] for k in inside)
                for kernel in inside:
                    del left[kernel]
        return sorted(edits, key=edits.__getitem__)

    def _sights(self, fields: Fields) -> dict[str, _Sight]:
        seen = {}
        for name in self.cuts:
            field = fields[name]
            rows, cols = (length for dim, length in enumerate(field.shape) if dim != field.channel_dim)
            seen[name] = _Sight(field.mean_fraction_union, (rows, cols))
        return seen

    def _all_weights(self) -> Iterator[_Weight]:
        for path, module in self._network.named_modules():
            # Parameters of a module that is not called, but read by the one around it, are used when that is called.
            owner = path
            while owner not in self.position:
                owner = owner.rpartition(".")[0]
            for name, parameter in module.named_parameters(recurse=False):
                spatial = _has_neighbors(module) and name == "weight"
                yield _Weight(path, self.position[owner], parameter.numel(), spatial)

    def _changed(self, edits: tuple[str, ...]) -> Callable[[_Weight], bool]:
        """Whether a weight is another after the edits, or reads other neighbours."""
        dropped, pointwise, unstrided = (_paths(edits, kind) for kind in ("drop", "pointwise", "unstride"))
        strided = [self.position[path] for path in self._strided if _within(path, unstrided)]
        scaled = min(strided, default=len(self.position))

        def changed(weight: _Weight) -> bool:
            if _within(weight.path, dropped):
                return True
            return weight.spatial and (weight.position > scaled or _within(weight.path, pointwise))

        return changed


def _paths(edits: Sequence[str], wanted: str = "") -> list[str]:
    """The paths that edits of a kind, or of all kinds, name."""
    parted = [edit.split(":", 1) for edit in edits]
    return [path for kind, path in parted if wanted in ("", kind)]


def _within(path: str, modules: Sequence[str]) -> bool:
    return any(path == module or path.startswith(f"{module}.") for module in modules)


def _usual_cuts(backbone: str, fields: Fields) -> list[str]:
    """The paper's layers, or modules and their children, as far as they have several rows and columns."""
    names = zoo.PAPER_LAYERS.get(backbone) or [name for name in fields if name and name.count(".") <= 1]
    known = [name for name in names if fields.names.get(name, name) in fields and "#" not in name]
    return [name for name in known if len(fields[name].shape) == 3 and min(fields[name].shape[1:]) > 1]


def _has_neighbors(module: nn.Module) -> bool:
    return isinstance(module, nn.Conv2d) and max(module.kernel_size) > 1


def _stride_units(network: nn.Module, run: Sequence[str]) -> list[str]:
    """Modules with a stride; the block around them where it has several, since its branches must go together."""
    modules = dict(network.named_modules())
    units: dict[str, None] = {}
    for path in run:
        if not is_strided(modules[path]):
            continue
        unit, around = path, path.rpartition(".")[0]
        while around and unit == path:
            block = modules[around]
            if type(block) is not nn.Sequential and sum(map(is_strided, block.modules())) > 1:
                unit = around
            around = around.rpartition(".")[0]
        units[unit] = None
    return list(units)


def _stages(network: nn.Module, keepers: frozenset[str]) -> list[list[str]]:
    """Runs of neighbouring blocks that keep the shape of their input."""

    def is_block(path: str, module: nn.Module) -> bool:
        children = list(module.children())
        holds_blocks = type(module) is nn.Sequential and any(list(child.children()) for child in children)
        return path in keepers and bool(children) and not holds_blocks

    stages: list[list[str]] = []
    todo = [("", network)]
    while todo:
        path, parent = todo.pop(0)
        named = [(f"{path}.{name}".lstrip("."), child) for name, child in parent.named_children()]
        for block, members in groupby(named, key=lambda item: is_block(*item)):
            siblings = list(members)
            if block:
                stages.append([name for name, _ in siblings])
            else:
                todo += siblings
    return stages
