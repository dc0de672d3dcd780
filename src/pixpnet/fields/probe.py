"""An independent check of the fields: put NaN into one pixel and see where it comes out.

A neuron that reads a NaN becomes NaN, whatever its weights; one that does not stays a number. So one run of
the real network, in double precision and with kernels that do not mix what they should not, shows exactly
which neurons of every layer see that pixel. The probe shares no code with the rules it checks. It is slow,
one forward pass for each pixel, which is why it is the check and not the method.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from pixpnet.shapes import Bool

Pixel = tuple[int, ...]


@dataclass(frozen=True)
class Sighting:
    """Where one pixel came out: for each module path, its calls; for each call, its tensors as booleans (or None)."""

    pixel: Pixel
    layers: Mapping[str, list[list[Bool[Tensor, "..."] | None]]]


@dataclass(frozen=True)
class Disagreement:
    """A layer whose field and whose probe differ at a pixel.

    Attributes:
        layer: its name in `Fields`.
        pixel: that of the input.
        neurons: how many of its neurons differ.
        claimed: how many see the pixel by the fields that were computed.
        seen: how many became NaN.
    """

    layer: str
    pixel: Pixel
    neurons: int
    claimed: int
    seen: int

    def __str__(self) -> str:
        name = f"layer '{self.layer}'" if self.layer else "the output"
        return (
            f"{name}, pixel {self.pixel}: {self.claimed} neurons see it by the computed fields, "
            f"{self.seen} by the NaN probe, {self.neurons} differ"
        )


@dataclass(frozen=True)
class Verification:
    """What a comparison of fields with the probe found."""

    pixels: int
    layers: int
    neurons: int
    disagreements: tuple[Disagreement, ...]

    @property
    def passed(self) -> bool:
        """Whether fields and probe agree on every layer, neuron and pixel that was compared."""
        return not self.disagreements

    def __str__(self) -> str:
        compared = f"{self.pixels} pixels, {self.layers} layers, {self.neurons:,} neuron-pixel pairs compared"
        if self.passed:
            return f"{compared}: the fields and the NaN probe agree on all of them"
        worst = self.disagreements[0]
        return f"{compared}: {len(self.disagreements)} disagreements, the first at {worst}"


def probe(
    model: nn.Module, input_shape: tuple[int, ...], pixels: Iterable[Pixel], *, seed: int = 0, batch: int = 1
) -> Iterator[Sighting]:
    """Runs a copy of the model with NaN in one pixel at a time and yields where the NaN came out.

    Args:
        model: a module with real parameters; it stays as it is. Its copy is run on the CPU.
        input_shape: channels, then the size of the input.
        pixels: the pixels to try, one for each yielded sighting.
        seed: of the random image around the pixel.
        batch: how many pixels to try at once. More than 1 is faster and needs a model whose layers all keep
            the batch first and apart.

    Raises:
        ValueError: the model gives NaN without our help, or mixes the batch.
    """
    if any(parameter.is_meta for parameter in model.parameters()):
        raise ValueError("the probe runs the network for real, but its parameters are on the meta device")
    precision = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.get_default_dtype())
    with torch.no_grad():
        twin = copy.deepcopy(model).double()
    if not all(tensor.is_cpu for tensor in (*twin.parameters(), *twin.buffers())):
        twin.cpu()
    if isinstance(twin, torch.jit.ScriptModule):
        twin = _Compiled(twin)
    generator = torch.Generator().manual_seed(seed)
    image = torch.randn((1, *input_shape), generator=generator, dtype=torch.float64)
    with _watched(twin) as outputs:
        _run(twin, image, precision)
        for path, calls in outputs.items():
            if any(tensor.isnan().any() for tensors in calls for tensor in tensors):
                raise ValueError(
                    f"the model gives NaN at '{path}' for an ordinary image, so NaN cannot be traced in it"
                )
        todo = list(pixels)
        for start in range(0, len(todo), batch):
            chunk = todo[start : start + batch]
            images = image.repeat(len(chunk), *[1] * len(input_shape))
            for position, pixel in enumerate(chunk):
                images[position].reshape(input_shape[0], -1)[:, _flat(pixel, input_shape[1:])] = torch.nan
            outputs.clear()
            _run(twin, images, precision)
            for position, pixel in enumerate(chunk):
                yield Sighting(
                    pixel,
                    {
                        path: [[_nans(t, position, len(chunk), path) for t in ts] for ts in calls]
                        for path, calls in outputs.items()
                    },
                )


class _Compiled(nn.Module):
    """Around a compiled model, which takes no hooks, so that its output can be seen."""

    def __init__(self, compiled: nn.Module) -> None:
        super().__init__()
        self.run = compiled.forward

    def forward(self, images: Tensor) -> Any:
        return self.run(images)


def _run(model: nn.Module, images: Tensor, precision: torch.dtype) -> None:
    """One forward pass that leaves torch's switches and random numbers as they were."""
    with _plain_kernels(), _InterpolateIn(precision), torch.random.fork_rng(devices=[]):
        model(images)


def _flat(pixel: Pixel, space: tuple[int, ...]) -> int:
    """The row-major number of a pixel."""
    number = 0
    for index, size in zip(pixel, space, strict=True):
        number = number * size + index
    return number


def _nans(tensor: Tensor, position: int, count: int, path: str) -> Bool[Tensor, "..."] | None:
    """Where one image's part of an output is NaN; None for integers and booleans, which cannot say."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return None
    return _one_of(tensor, position, count, path).isnan()


def _one_of(tensor: Tensor, position: int, count: int, path: str) -> Tensor:
    """One image's part of a batched output, without the batch axis where there is one."""
    if count == 1:
        return tensor[0] if tensor.ndim > 1 and tensor.shape[0] == 1 else tensor
    if tensor.shape[0] != count:
        raise ValueError(f"'{path}' does not keep the batch first ({tuple(tensor.shape)}); probe it with batch=1")
    return tensor[position]


class _InterpolateIn(TorchFunctionMode):
    """Interpolates in the model's own precision: on ties, a rounding error decides which pixels are read."""

    def __init__(self, precision: torch.dtype) -> None:
        super().__init__()
        self.precision = precision

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not F.interpolate or args[0].dtype != torch.float64:
            return func(*args, **(kwargs or {}))
        return func(args[0].to(self.precision), *args[1:], **(kwargs or {})).double()


@contextmanager
def _watched(model: nn.Module) -> Iterator[dict[str, list[list[Tensor]]]]:
    outputs: dict[str, list[list[Tensor]]] = {}
    handles = []
    for path, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            continue  # compiled code has no layers to look into

        def keep(module: nn.Module, args: object, output: object, path: str = path) -> None:
            # Layers that work in place change their input, so what they were given is copied at once.
            tensors = [leaf.clone() for leaf in tree_leaves(output) if isinstance(leaf, Tensor)]
            outputs.setdefault(path, []).append(tensors)

        handles.append(module.register_forward_hook(keep))
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _plain_kernels() -> Iterator[None]:
    """No oneDNN (its fast convolutions spread NaN), no fused attention."""
    fast_path = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.backends.mkldnn.flags(enabled=False, allow_tf32=None))
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast_path)
