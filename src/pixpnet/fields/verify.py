"""Comparing the computed fields with the NaN probe, neuron by neuron."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor, nn

from pixpnet.fields.errors import FieldMismatch
from pixpnet.fields.fields import Fields, receptive_fields
from pixpnet.fields.names import parse_layer
from pixpnet.fields.probe import Disagreement, Pixel, Sighting, Verification, probe
from pixpnet.progress import Progress
from pixpnet.shapes import Bool


def verify_fields(
    model: nn.Module,
    input_shape: tuple[int, ...],
    pixels: Sequence[Pixel] | int = 16,
    *,
    fields: Fields | None = None,
    seed: int = 0,
    batch: int = 1,
    progress: Progress | None = None,
) -> Verification:
    """Checks the fields of every layer of a model against the NaN probe.

    Args:
        model: a module with real parameters.
        input_shape: channels, then the size of the input.
        pixels: which pixels to check, or how many: corners and centre first, then random ones.
        fields: the fields to check; computed when not given.
        seed: of the random pixels and the random image.
        batch: how many pixels the probe tries at once (see ``probe``).
        progress: told how many pixels are done, of how many.

    >>> conv = nn.Conv2d(1, 2, 3, padding=1)
    >>> print(verify_fields(conv, (1, 5, 5), pixels=3))
    3 pixels, 1 layers, 150 neuron-pixel pairs compared: the fields and the NaN probe agree on all of them
    """
    if isinstance(pixels, int):
        if pixels < 1:
            raise ValueError(f"{pixels} pixels cannot be checked; ask for at least 1")
        pixels = spread_pixels(input_shape[1:], pixels, seed)
    fields = receptive_fields(model, input_shape) if fields is None else fields
    layers = neurons = 0
    wrong: list[Disagreement] = []
    for done, sighting in enumerate(probe(model, input_shape, pixels, seed=seed, batch=batch), start=1):
        compared = list(_compared(fields, sighting))
        layers = len(compared)
        neurons += sum(comparison.size for comparison in compared)
        wrong += [comparison.disagreement for comparison in compared if comparison.disagreement is not None]
        if progress is not None:
            progress("NaN probe", done, len(pixels))
    return Verification(len(pixels), layers, neurons, tuple(wrong))


@dataclass(frozen=True)
class _Comparison:
    """Of one tensor of one layer at one pixel: how many neurons, and how they differ, if they do."""

    size: int
    disagreement: Disagreement | None


def _compared(fields: Fields, sighting: Sighting) -> Iterator[_Comparison]:
    expected: dict[int, Bool[Tensor, ...]] = {}  # many layers share one field
    missing = fields.calls()
    for path, calls in sighting.layers.items():
        for number, tensors in enumerate(calls, start=1):
            missing.discard((path, number))
            names = fields.names_of_call(path, number)
            if len(names) != len(tensors):
                # Another branch of the model's code was run, or it returned something else.
                seen = sum(int(tensor.sum()) for tensor in tensors if tensor is not None)
                name = _plain(f"{path}#{number}", fields)
                yield _Comparison(0, Disagreement(name, sighting.pixel, seen, 0, seen))
                continue
            for name, tensor in zip(names, tensors, strict=True):
                if tensor is None:
                    continue
                field = fields[name]
                if id(field) not in expected:
                    expected[id(field)] = field.sees(*sighting.pixel)
                claimed = expected[id(field)]
                same = claimed.shape == tensor.shape
                differ = int((claimed != tensor).sum()) if same else tensor.numel()
                counts = (differ, int(claimed.sum()), int(tensor.sum()))
                wrong = Disagreement(_plain(name, fields), sighting.pixel, *counts) if differ else None
                yield _Comparison(tensor.numel(), wrong)
    for path, number in sorted(missing):
        for name in fields.names_of_call(path, number):
            count = int(fields[name].sees(*sighting.pixel).sum())
            yield _Comparison(0, Disagreement(_plain(name, fields), sighting.pixel, count, count, 0))


def _plain(name: str, fields: Fields) -> str:
    """The name of a layer without the number of the call where there was but one."""
    layer = parse_layer(name)
    return name if (layer.path, 2) in fields.calls() else name.replace(f"#{layer.call}", "", 1)


def refuse_unless_verified(verification: Verification, network: str) -> None:
    """Refuses a network whose fields the probe did not confirm.

    Raises:
        FieldMismatch: with the layer, the pixel, and what fields and probe say.
    """
    if verification.passed:
        return
    worst = verification.disagreements[0]
    layers = {disagreement.layer for disagreement in verification.disagreements}
    raise FieldMismatch(
        f"the receptive fields of {network} are not what the NaN probe saw in {len(layers)} of {verification.layers} "
        f"layers at {verification.pixels} pixels, first at {worst}: the network does something that cannot be traced "
        "exactly, so it is refused; cut it before that layer, or write that step with tensor operations"
    )


def spread_pixels(space: tuple[int, ...], count: int, seed: int) -> list[Pixel]:
    """Distinct pixels, at most as many as there are: a corner, the centre, the other corners, then random ones.

    >>> spread_pixels((4, 6), 5, seed=0)
    [(0, 0), (2, 3), (0, 5), (3, 0), (3, 5)]
    """
    corners = list(product(*({0, size - 1} for size in space)))
    corners.sort()
    first = [corners[0], tuple(size // 2 for size in space), *corners[1:]]
    others = random_pixels(space, torch.Size(space).numel(), seed)
    return list(dict.fromkeys([*first, *others]))[:count]


def random_pixels(space: tuple[int, ...], count: int, seed: int) -> list[Pixel]:
    """Distinct random pixels, at most as many as there are."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(torch.Size(space).numel(), generator=generator)[:count]
    return [tuple(int(i) for i in torch.unravel_index(index, space)) for index in chosen]
