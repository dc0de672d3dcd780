"""Named edits of a network: smaller fields at the same layer, with as much as can be of its pretrained weights.

Which pixels a cell sees is decided by the layer at which a network is cut (Sec. 4), and cuts come in coarse steps. An
edit changes the network in front of the cut, and with it the field; the paper names this as future work. It is a short
string, ``kind:path``, so that a list of edits passes through a command line, a configuration and a model's file, and
rebuilds the same network anywhere:

- ``pointwise:features.21``: convolutions become 1 x 1, at the places that they had; each reads one cell less around;
- ``unstride:layer3.0``: strides become 1, of convolutions and pools, those of a block's shortcut included;
- ``drop:layer3.1``: a block whose output has the shape of its input becomes the identity.

A path is a module's, or the paper's name for it (``maxpool4``). The first two kinds take a module or everything in it.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from math import prod
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from pixpnet import zoo
from pixpnet.fields import UnsupportedOperation, receptive_fields
from pixpnet.messages import first_line
from pixpnet.wording import times

# Numbers in a layer for one image, a gigabyte of them: a damaged file must not take all the memory there is.
_LARGEST_LAYER = 2**28
_LISTED = 4


class EditError(ValueError):
    """An edit that does not fit the network; the message says why."""


@dataclass(frozen=True)
class EditTarget:
    """Where an edit is made.

    Attributes:
        edit: as it was written.
        network: the copy that is being changed.
        path: of the module.
        keepers: the paths of modules that keep the shape of their input (`shape_keepers`); it may take a trace.
    """

    edit: str
    network: nn.Module
    path: str
    keepers: Callable[[], frozenset[str]]

    @property
    def module(self) -> nn.Module:
        """The module that the edit names."""
        return self.network.get_submodule(self.path)

    def refusal(self, why: str) -> EditError:
        """An error that names the edit."""
        return EditError(f"the edit '{self.edit}' does not fit: {why}")


@dataclass(frozen=True)
class Kind:
    """A kind of edit.

    Attributes:
        change: changes the network, or raises `EditError`.
        words: what it does, for people; {} stands for the paths.
    """

    change: Callable[[EditTarget], None]
    words: str


def apply_edits(network: nn.Module, edits: Sequence[str], input_shape: tuple[int, ...] = (3, 224, 224)) -> nn.Module:
    """A copy of a network with edits made one after the other; the network itself stays as it is.

    Args:
        network: any module that takes images, with its weights.
        edits: such as ``("unstride:layer3.0", "pointwise:layer3.1")``.
        input_shape: of the images that it will be used with; on these the result is known to run.

    Raises:
        EditError: if there is no such kind or path, an edit does not fit, or the result does not run.

    >>> edited = apply_edits(zoo.build("vgg11", device="meta"), ["pointwise:features.16"])
    >>> edited.features[16].kernel_size
    (1, 1)
    """
    edited = copy.deepcopy(network)
    make_edits(edited, edits, lambda: shape_keepers(edited, input_shape))
    if edits:
        _check_that_it_runs(edited, edits, input_shape)
    return edited


def make_edits(network: nn.Module, edits: Sequence[str], keepers: Callable[[], frozenset[str]]) -> None:
    """Changes the network itself; whether the result runs is not looked at. See `apply_edits`."""
    for edit in edits:
        kind, path = _taken_apart(edit, network)
        EDITS[kind].change(EditTarget(edit, network, path, keepers))


def shape_keepers(network: nn.Module, input_shape: tuple[int, ...]) -> frozenset[str]:
    """The paths of modules that make of one tensor another of the same shape, whenever they are called."""
    calls: dict[str, list[bool]] = {}

    def note(path: str, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        tensors = [tensor for tensor in (*inputs, output) if isinstance(tensor, Tensor)]
        keeps = len(inputs) == 1 and len(tensors) == 2 and tensors[0].shape == tensors[1].shape
        calls.setdefault(path, []).append(keeps)

    handles = [module.register_forward_hook(partial(note, path)) for path, module in network.named_modules()]
    try:
        receptive_fields(network, input_shape)
    finally:
        for handle in handles:
            handle.remove()
    return frozenset(path for path, keeps in calls.items() if all(keeps))


def in_words(edits: Sequence[str]) -> str:
    """What edits do, for people; "" for none.

    >>> in_words(["unstride:layer3.0", "pointwise:layer3.1.conv1", "pointwise:layer3.1.conv2"])
    'strides removed in layer3.0, convolutions made 1x1 in layer3.1.conv1 and layer3.1.conv2'
    """
    paths: dict[str, list[str]] = {}
    for edit in edits:
        kind, _, path = edit.partition(":")
        paths.setdefault(kind, []).append(path)
    return ", ".join(EDITS[kind].words.format(_listed(names)) for kind, names in paths.items())


def paths_of(edits: Sequence[str], network: nn.Module) -> dict[str, str]:
    """The module path that each edit names.

    Raises:
        EditError: if there is no such kind or path.
    """
    return {edit: _taken_apart(edit, network)[1] for edit in edits}


def is_plain_convolution(module: nn.Module) -> bool:
    """Whether a module is torch's own convolution with a kernel that has a centre and neighbours around it."""
    return type(module) is nn.Conv2d and max(_extents(module)) > 1 and all(extent % 2 for extent in _extents(module))


def is_strided(module: nn.Module) -> bool:
    """Whether a module leaves out cells: a convolution or pool with a stride above 1."""
    return isinstance(module, nn.Conv2d | nn.MaxPool2d | nn.AvgPool2d) and max(_pair(module.stride)) > 1


class PointwiseConv2d(nn.Conv2d):
    """A 1 x 1 convolution in the place of a larger one: the same cells, each reading the centre of its old window.

    Its weights are the sums of the old ones over the window. On an input that is constant around a cell, that is the
    same answer; and where the mean of a channel is the same at all places, the mean of each output is what it was, on
    which a pretrained batch norm behind it relies. Neither would be true of the centre tap alone.

    Attributes:
        crop: rows and columns at each border that the larger window, for want of padding, had no centre on.
    """

    def __init__(self, conv: nn.Conv2d) -> None:
        """Takes the place of a convolution whose kernel has a centre."""
        centers = [extent // 2 for extent in _extents(conv)]
        # The window's centre was `center - padding` cells inside the border, and a negative padding is a crop.
        inset = [center - padding for center, padding in zip(centers, _paddings(conv), strict=True)]
        super().__init__(
            conv.in_channels,
            conv.out_channels,
            kernel_size=1,
            stride=(conv.stride[0], conv.stride[1]),
            padding=(max(0, -inset[0]), max(0, -inset[1])),
            groups=conv.groups,
            bias=conv.bias is not None,
            padding_mode=conv.padding_mode,
            device="meta",  # draws no random weights
        )
        self.crop = (max(0, inset[0]), max(0, inset[1]))
        summed = conv.weight.detach().sum(dim=(2, 3), keepdim=True)
        self.weight = nn.Parameter(summed, requires_grad=conv.weight.requires_grad)
        self.bias = conv.bias
        self.train(conv.training)

    def forward(
        self, inputs: Float[Tensor, "*batch channels rows cols"]
    ) -> Float[Tensor, "*batch out new_rows new_cols"]:
        """The convolution of what is left without the border."""
        top, left = self.crop
        rows, cols = inputs.shape[-2:]
        if any(self.crop):
            inputs = inputs[..., top : rows - top, left : cols - left]
        return super().forward(inputs)


def _pointwise(target: EditTarget) -> None:
    modules = dict(target.module.named_modules(prefix=target.path))
    convolutions = {
        path: module
        for path, module in modules.items()
        if isinstance(module, nn.Conv2d) and max(module.kernel_size) > 1
    }
    if not convolutions:
        has = "is" if len(modules) == 1 else "has"
        raise target.refusal(
            f"{target.path} ({_kind_of(target.module)}) {has} no two-dimensional convolution larger than 1 x 1"
        )
    for path, convolution in convolutions.items():
        if not is_plain_convolution(convolution):
            raise target.refusal(
                f"{path} ({_kind_of(convolution)}) has a window without a centre, or code of its own; only a plain "
                "convolution over an odd number of rows and columns can be made 1 x 1"
            )
        _put(target.network, convolution, PointwiseConv2d(convolution))


def _unstride(target: EditTarget) -> None:
    strided = [module for module in target.module.modules() if is_strided(module)]
    if not strided:
        raise target.refusal(
            f"{target.path} ({_kind_of(target.module)}) has no convolution, maximum or average pool with a stride "
            "above 1"
        )
    for module in strided:
        assert isinstance(module, nn.Conv2d | nn.MaxPool2d | nn.AvgPool2d)
        module.stride = (1, 1)


def _drop(target: EditTarget) -> None:
    module = target.module
    if isinstance(module, nn.Identity):
        raise target.refusal(f"{target.path} is the identity already")  # so a list is no longer than the network
    path = next(path for path, other in target.network.named_modules() if other is module)
    if path not in target.keepers():
        raise target.refusal(
            f"{target.path} ({_kind_of(module)}) does not make of one tensor another of the same shape, so nothing can "
            "stand in its place; drop a later block of its stage"
        )
    _put(target.network, module, nn.Identity())


# A new kind is a function that changes a copy of the network or refuses, and a line here.
EDITS: Mapping[str, Kind] = {
    "pointwise": Kind(_pointwise, "convolutions made 1x1 in {}"),
    "unstride": Kind(_unstride, "strides removed in {}"),
    "drop": Kind(_drop, "{} dropped"),
}


def _taken_apart(edit: str, network: nn.Module) -> tuple[str, str]:
    """The kind and the module's path."""
    kind, colon, named = edit.partition(":")
    if kind not in EDITS or not colon:
        raise EditError(
            f"'{_short(edit)}' is no edit: it should be KIND:PATH, such as 'pointwise:layer3.1.conv2', and the kinds "
            f"are {', '.join(EDITS)}"
        )
    # The paper's names stand for whole modules, which may have modules in them.
    first, dot, rest = named.partition(".")
    path = zoo.paper_names(network).get(first, first) + dot + rest
    known = [known for known, _ in network.named_modules(remove_duplicate=False) if known]
    if path not in known:
        near = (
            get_close_matches(named, [*known, *zoo.paper_names(network)], n=4, cutoff=0.4) if len(named) < 200 else []
        )
        hint = f"the nearest are {', '.join(map(repr, near))}" if near else f"there are {', '.join(known[:4])}, ..."
        raise EditError(f"the edit '{_short(edit)}' names no module of the network; {hint}")
    return kind, path


def _check_that_it_runs(edited: nn.Module, edits: Sequence[str], input_shape: tuple[int, ...]) -> None:
    try:
        fields = receptive_fields(edited, input_shape)
    except UnsupportedOperation:
        raise
    except (RuntimeError, ValueError, TypeError, AttributeError, IndexError) as error:
        # What a network's code raises at shapes that it was not written for.
        raise EditError(
            f"with the edits {_short(', '.join(edits))} the network does not run on {times(input_shape)} "
            f"({first_line(error)}): what changes the size of one branch must change the others as well, so edit "
            "the whole block (unstride:layer3.0, not unstride:layer3.0.conv1)"
        ) from error
    largest = max((field.shape for field in fields.values()), key=prod)
    if prod(largest) > _LARGEST_LAYER:
        raise EditError(
            f"with the edits {_short(', '.join(edits))} a layer has {times(largest)} numbers for one image, more than "
            "memory is taken for: keep more strides, or take smaller images"
        )


def _put(network: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Puts a module where another was, under all names that it had."""
    for path, module in list(network.named_modules(remove_duplicate=False)):
        if module is old:
            parent, _, name = path.rpartition(".")
            setattr(network.get_submodule(parent), name, new)


def _extents(conv: nn.Conv2d) -> tuple[int, int]:
    """How many rows and columns a window reaches over, gaps of a dilation included."""
    rows, cols = (step * (size - 1) + 1 for size, step in zip(conv.kernel_size, conv.dilation, strict=True))
    return rows, cols


def _paddings(conv: nn.Conv2d) -> tuple[int, int]:
    if conv.padding == "same":
        rows, cols = _extents(conv)
        return rows // 2, cols // 2
    return (0, 0) if isinstance(conv.padding, str) else _pair(conv.padding)


def _pair(value: Any) -> tuple[int, int]:
    rows, cols = value if isinstance(value, tuple | list) else (value, value)
    return rows, cols


def _kind_of(module: nn.Module) -> str:
    if isinstance(module, nn.Conv2d):
        return f"{type(module).__name__} of {times(module.kernel_size)}"
    return type(module).__name__


def _listed(names: Sequence[str]) -> str:
    if len(names) > _LISTED:
        return f"{len(names)} modules from {names[0]} to {names[-1]}"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]} ..."
