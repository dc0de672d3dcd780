"""Comparing the computed fields with the NaN probe, neuron by neuron."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from pixpnet.fields.fields import Fields, receptive_fields
from pixpnet.fields.probe import Disagreement, Pixel, Verification, probe


def verify_fields(
    model: nn.Module,
    input_shape: tuple[int, ...],
    pixels: Sequence[Pixel] | int = 16,
    *,
    fields: Fields | None = None,
    seed: int = 0,
    batch: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> Verification:
    """Checks the fields of every layer of a model against the NaN probe.

    Args:
        model: a module with real parameters.
        input_shape: channels, then the size of the input.
        pixels: which pixels to check, or how many random ones.
        fields: the fields to check; computed when not given.
        seed: of the random pixels and the random image.
        batch: how many pixels the probe tries at once (see ``probe``).
        progress: called with the number of pixels done so far.

    >>> conv = nn.Conv2d(1, 2, 3, padding=1)
    >>> print(verify_fields(conv, (1, 5, 5), pixels=3))
    3 pixels, 1 layers, 150 neuron-pixel pairs compared: the fields and the NaN probe agree on all of them
    """
    if isinstance(pixels, int):
        if pixels < 1:
            raise ValueError(f"{pixels} pixels cannot be checked; ask for at least 1")
        pixels = random_pixels(input_shape[1:], pixels, seed)
    fields = receptive_fields(model, input_shape) if fields is None else fields
    layers = neurons = 0
    wrong = []
    for done, sighting in enumerate(probe(model, input_shape, pixels, seed=seed, batch=batch), start=1):
        layers = 0
        expected: dict[int, Bool[Tensor, ...]] = {}  # many layers share one field
        for path, calls in sighting.layers.items():
            for number, tensors in enumerate(calls, start=1):
                names = fields.names_of_call(path, number)
                for name, seen in zip(names, tensors, strict=True):
                    if seen is None:
                        continue
                    field = fields[name]
                    if id(field) not in expected:
                        expected[id(field)] = field.sees(*sighting.pixel)
                    claimed = expected[id(field)]
                    differ = int((claimed != seen).sum()) if claimed.shape == seen.shape else seen.numel()
                    layers += 1
                    neurons += seen.numel()
                    if differ:
                        wrong.append(Disagreement(name, sighting.pixel, differ))
        progress(done)
    return Verification(len(pixels), layers, neurons, tuple(wrong))


def random_pixels(space: tuple[int, ...], count: int, seed: int) -> list[Pixel]:
    """Distinct random pixels, at most as many as there are."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(torch.Size(space).numel(), generator=generator)[:count]
    return [tuple(int(i) for i in torch.unravel_index(place, space)) for place in chosen]
