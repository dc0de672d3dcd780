"""The relevance ordering test over samples and prototypes: draws, curves, means and their intervals (Sec. 5)."""

from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int64
from torch import Tensor

from pixpnet.mapping.scene import PixelMapping, scene
from pixpnet.metrics.bootstrap import Estimate, bootstrap_mean
from pixpnet.metrics.draws import generator_for
from pixpnet.metrics.ordering.curve import Curve, area_under_similarity, pixel_order, pixels_to_recovery
from pixpnet.metrics.ordering.curves import Curves, Method
from pixpnet.metrics.ordering.spacing import Spacing
from pixpnet.model import PixPNet
from pixpnet.model.modes import refuse_training_mode
from pixpnet.progress import Progress, part_of


@runtime_checkable
class Labeled(Protocol):
    """What the test needs of a sample; `pixpnet.data.Sample` is one."""

    @property
    def image(self) -> Tensor:
        """Normalised, channels first."""

    @property
    def label(self) -> int:
        """Its class."""

    @property
    def id(self) -> str:
        """Its stable name."""


@runtime_checkable
class Samples(Protocol):
    """Samples to draw from, each made when it is asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Labeled: ...


_TASK = "relevance ordering"


@dataclass(frozen=True)
class PairResult:
    """One prototype in one sample.

    Attributes:
        sample: the sample's id.
        label: its class, one that the prototype speaks for.
        prototype: the prototype's number.
        curve: its similarity while pixels are put back.
        area: AUSC; None if the similarity does not rise.
        recovery: %2R as a fraction; None if the similarity does not rise.
    """

    sample: str
    label: int
    prototype: int
    curve: Curve
    area: float | None
    recovery: float | None


_TASK = "relevance ordering"


@dataclass(frozen=True)
class OrderingResult:
    """What the relevance ordering test found.

    Attributes:
        pairs: every sample with every prototype that was drawn for it.
        area: mean AUSC over pairs; None if it is undefined for all of them.
        recovery: mean %2R over pairs, as a fraction; None if it is undefined for all of them.
        undefined: how many pairs are left out of both means, because their similarity does not rise.
        method: "exact", "stepped", or "full: " and why every step took a whole forward pass.
        seed: of all random choices.
    """

    pairs: tuple[PairResult, ...]
    area: Estimate | None
    recovery: Estimate | None
    undefined: int
    method: str
    seed: int


def relevance_ordering(
    model: PixPNet,
    samples: Samples,
    mapping: PixelMapping,
    *,
    method: Method = "stepped",
    sample_count: int = 50,
    prototypes_per_sample: int | None = 3,
    spacing: Spacing = Spacing(),  # noqa: B008  frozen
    seed: int = 0,
    progress: Progress | None = None,
) -> OrderingResult:
    """Puts pixels back into a random image, the relevant ones first, and watches the similarity of prototypes.

    The random image is normal in normalised space. It depends on the seed and the sample alone, as do the prototypes
    that are drawn, so that mappings are compared on the same curves' ends.

    Args:
        model: in eval mode.
        samples: to draw from; normalised images.
        mapping: what says which pixels are relevant.
        method: ``exact`` looks after every pixel, ``stepped`` at the points of `spacing`.
        sample_count: how many samples to draw (the paper's 50); all, if there are fewer.
        prototypes_per_sample: how many of the prototypes of its class to draw for each sample; None for all of them,
            as the paper does.
        spacing: of the stepped method.
        seed: of all random choices.
        progress: is called with how many evaluations are done, of how many.

    Raises:
        ValueError: if the model is in training mode, or there is no sample.
    """
    refuse_training_mode(model)
    if not len(samples):
        raise ValueError("there is no sample to draw: give at least one")
    chosen = drawn_samples(len(samples), sample_count, seed)
    curves = Curves(model, method, spacing)
    pairs: list[PairResult] = []
    for done, index in enumerate(chosen):
        part = part_of(progress, _TASK, done, len(chosen))
        pairs += order_sample(curves, samples[index], mapping, prototypes_per_sample, seed, part)
    return ordering_result(tuple(pairs), curves.name, seed)


def drawn_samples(available: int, count: int, seed: int) -> list[int]:
    """Which samples are drawn; a larger count adds to those of a smaller one.

    >>> drawn_samples(9, 4, seed=0)[:2] == drawn_samples(9, 2, seed=0)
    True
    """
    drawn: list[int] = torch.randperm(available, generator=generator_for(seed, "samples"))[:count].tolist()
    return drawn


def order_sample(
    curves: Curves,
    sample: Labeled,
    mapping: PixelMapping,
    prototypes_per_sample: int | None,
    seed: int,
    progress: Progress | None = None,
) -> tuple[PairResult, ...]:
    """The test for one sample: what `relevance_ordering` finds for it, whatever the others are.

    Args:
        curves: how curves are made, for the model in eval mode.
        sample: a normalised image.
        mapping: what says which pixels are relevant.
        prototypes_per_sample: how many of the prototypes of its class to draw; None for all of them.
        seed: of all random choices.
        progress: is called with how many evaluations are done, of how many for this sample.
    """
    model = curves.model
    image = sample.image.as_subclass(Tensor).to(model.device, model.dtype)
    prototypes = _drawn(model.prototypes_of(sample.label), prototypes_per_sample, seed, sample.id)
    if not prototypes:  # of a tree, a class may lie behind no prototype that is found
        return ()
    start = torch.randn(image.shape, generator=generator_for(seed, "start", sample.id)).to(image)
    given = scene(model, image, prototypes, generator_for(seed, "mapping", sample.id))
    heat = mapping(given).maps
    evaluations = curves.evaluations(image)
    pairs: list[PairResult] = []
    for index, prototype in enumerate(prototypes):
        order = pixel_order(heat[index], generator_for(seed, "ties", sample.id, prototype)).to(image.device)
        before, total = index * evaluations, len(prototypes) * evaluations
        tick = None if progress is None else partial(_tick, progress, before, total)
        curve = curves.curve(start, image, order, prototype, tick)
        values = area_under_similarity(curve), pixels_to_recovery(curve)
        pairs.append(PairResult(sample.id, sample.label, prototype, curve, *values))
        _tick(progress, before, total, evaluations)
    return tuple(pairs)


def ordering_result(pairs: tuple[PairResult, ...], method: str, seed: int) -> OrderingResult:
    """Every pair counts once, whatever the class of its sample; images are what intervals draw again."""

    def estimate(values: list[tuple[str, float | None]]) -> Estimate | None:
        defined = [(sample, value) for sample, value in values if value is not None]
        return bootstrap_mean([value for _, value in defined], [sample for sample, _ in defined], seed)

    return OrderingResult(
        pairs,
        area=estimate([(pair.sample, pair.area) for pair in pairs]),
        recovery=estimate([(pair.sample, pair.recovery) for pair in pairs]),
        undefined=sum(pair.area is None for pair in pairs),
        method=method,
        seed=seed,
    )


def _drawn(prototypes: Int64[Tensor, " protos"], count: int | None, seed: int, sample: str) -> list[int]:
    """Some of a class's prototypes, in their order."""
    if count is None or count >= len(prototypes):
        return prototypes.tolist()
    places = torch.randperm(len(prototypes), generator=generator_for(seed, "prototypes", sample))[:count]
    return sorted(prototypes.cpu()[places].tolist())


def _tick(progress: Progress | None, before: int, total: int, done: int) -> None:
    if progress is not None:
        progress(_TASK, before + done, total)
