"""Consistency and stability of a model over samples with parts: regions, noise, scores and their intervals (Sec. 5).

`region` says which pixels a prototype is taken to have found:

| region | pixels |
|---|---|
| ``window`` | 72 x 72 around the middle of what the mapping claims, as published; for comparison with others |
| ``field`` | the exact field of the cell that speaks, holes included; the same for every mapping |
| ``claimed`` | what the mapping claims: the field (``field``, ``prp``), the box of the top 5 % (``upsampling``) |
| ``argmax`` | half of 72 to every side of the pixel where the bicubic map is largest, that pixel included |

A larger region holds more parts and so has the larger frequencies: compare windows with windows, and fields of one size
with each other, and put the ``random`` mapping beside them, which is what a region of that size gets for nothing. A
maximum over many parts, each seen in few images, is flattering too.
"""

from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import torch
from torch import Tensor
from torchmetrics import Metric

from pixpnet.data import Sample
from pixpnet.mapping import MAPPINGS
from pixpnet.mapping.scene import Scene, scene
from pixpnet.metrics.answering import normalized_image
from pixpnet.metrics.bootstrap import Estimate, class_clusters, defined_mean
from pixpnet.metrics.consistency import THRESHOLD, Consistency, ConsistencyScore
from pixpnet.metrics.draws import generator_for
from pixpnet.metrics.owners import owners_of
from pixpnet.metrics.part_hits import WINDOW_SIDE, Region, argmax_windows, window
from pixpnet.metrics.stability import NOISE, Stability, StabilityScore, with_noise
from pixpnet.model import PixPNet
from pixpnet.model.modes import refuse_training_mode
from pixpnet.progress import Progress
from pixpnet.records import ADDED_LATER

RegionKind = Literal["window", "field", "claimed", "argmax"]

# These claim the exact field of the cell that speaks, which is known without painting a map.
_CLAIM_THE_FIELD = frozenset({"field", "field_flat", "prp"})


@dataclass(frozen=True)
class PrototypeParts:
    """What one prototype finds; None where nothing is known.

    Attributes:
        prototype: its number.
        label: the class that it is listed under; -1 for none.
        part: the part that it finds most often.
        frequency: in what share of the images that show the part.
        stability: share of images in which noise changes no part.
        soft_stability: mean share of visible parts about which noise changes nothing.
        images: how many images of its class (of its classes) show a part.
        owners: the classes that it speaks for.
    """

    prototype: int
    label: int
    part: int | None
    frequency: float | None
    stability: float | None
    soft_stability: float | None
    images: int
    owners: tuple[int, ...] = field(default=(), metadata=ADDED_LATER)

    @property
    def classes(self) -> tuple[int, ...]:
        """The classes that it speaks for; in records of earlier versions it has one."""
        return self.owners or (() if self.label < 0 else (self.label,))


@dataclass(frozen=True)
class PartScores:
    """Consistency and stability of a model.

    Attributes:
        consistency: share of prototypes that find one part in at least `threshold` of the images that show it.
        soft_consistency: mean frequency of the prototypes' parts.
        stability: mean over prototypes of the share of images in which noise changes no part.
        soft_stability: mean over prototypes of the share of visible parts about which noise changes nothing.
        undefined: how many prototypes are in none of the four, because none of the images of their class that were
            looked at shows a part, or because they speak for no class.
        prototypes: each prototype by itself.
        class_images: how many images of each class were looked at. Prototypes of a class without any (`not_drawn`)
            are in none of the four either; all four are None if nothing else is left.
        mapping: whose regions.
        region: which pixels.
        window_side: of the window, in pixels.
        threshold: mu.
        noise: sigma, in units of the normalised image.
        clipped: whether noisy pixels were kept between black and white.
        seed: of noise, of random regions and of the intervals.
        noise_limit: the largest that noise itself could be; None where it had no limit.
    """

    consistency: Estimate | None
    soft_consistency: Estimate | None
    stability: Estimate | None
    soft_stability: Estimate | None
    undefined: int
    prototypes: tuple[PrototypeParts, ...]
    class_images: tuple[int, ...]
    mapping: str
    region: RegionKind
    window_side: int
    threshold: float
    noise: float
    clipped: bool
    seed: int
    noise_limit: float | None = None

    @property
    def samples(self) -> int:
        """How many images were looked at."""
        return sum(self.class_images)

    @property
    def not_drawn(self) -> int:
        """How many prototypes speak for classes of which no image was looked at."""
        return sum(bool(parts.classes) and not _looked_at(parts, self.class_images) for parts in self.prototypes)


class _ClassImages(Metric):
    """How many images of each class were looked at, by all processes."""

    full_state_update = False
    images: Tensor

    def __init__(self, num_classes: int, sync_on_compute: bool) -> None:
        super().__init__(sync_on_compute=sync_on_compute)
        self.add_state("images", torch.zeros(num_classes, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, *labels: int) -> None:
        """Takes note of images with these classes."""
        for label in labels:
            self.images[label] += 1

    def compute(self) -> tuple[int, ...]:
        """The counts of everything so far."""
        return tuple(self.images.tolist())


def consistency_and_stability(
    model: PixPNet,
    samples: Iterable[Sample],
    point_parts: Sequence[int],
    mapping: str = "field",
    region: RegionKind = "window",
    *,
    window_side: int = WINDOW_SIDE,
    threshold: float = THRESHOLD,
    noise: float = NOISE,
    clip: bool = False,
    seed: int = 0,
    together: bool = False,
    progress: Progress | None = None,
) -> PartScores:
    """Looks where the prototypes of each sample's class are found, with noise and without, and at which parts.

    Noise depends on the seed and the sample alone, so mappings are compared on the same noisy images, in any order and
    number of processes. Intervals draw whole classes again: the prototypes of a class are measured on the same images
    and stand for much the same parts, so drawing them one by one would promise too much.

    Args:
        model: in eval mode.
        samples: preprocessed and normalised, with keypoints.
        point_parts: the part of each keypoint, as the data set says; none if it has no parts, and then nothing is
            looked at and there is no score.
        mapping: a name in `pixpnet.mapping.MAPPINGS`. ``prp`` claims the same regions as ``field``.
        region: which pixels; see the module.
        window_side: of the window. The published 72 is meant for images of 224 x 224; `part_hits.scaled_window_side`
            says what that is in others.
        threshold: mu.
        noise: sigma, in units of the normalised image.
        clip: keep noisy pixels between black and white.
        seed: of noise, of random regions and of the intervals.
        together: with other processes, each of which brings its own samples; all get the answer for all of them.
        progress: told how many samples are done, of how many (0 if that is not known).

    Raises:
        ValueError: if the model is in training mode, a name is unknown, or a sample does not fit.
    """
    (scores,) = scores_by_region(
        model,
        samples,
        point_parts,
        mapping,
        (region,),
        window_side=window_side,
        threshold=threshold,
        noise=noise,
        clip=clip,
        seed=seed,
        together=together,
        progress=progress,
    )
    return scores


def scores_by_region(
    model: PixPNet,
    samples: Iterable[Sample],
    point_parts: Sequence[int],
    mapping: str,
    regions: Sequence[RegionKind],
    *,
    window_side: int = WINDOW_SIDE,
    threshold: float = THRESHOLD,
    noise: float = NOISE,
    clip: bool = False,
    noise_limit: float | None = None,
    seed: int = 0,
    together: bool = False,
    progress: Progress | None = None,
) -> tuple[PartScores, ...]:
    """`consistency_and_stability` for several kinds of regions, with one look at each sample for all of them.

    Noise itself is never larger than `noise_limit`, where there is one.
    """
    _refuse(model, mapping, regions)
    count, points = model.num_prototypes, len(point_parts)
    counters = [
        (
            Consistency(count, point_parts, threshold, sync_on_compute=together),
            Stability(count, point_parts, sync_on_compute=together),
        )
        for _ in regions
    ]
    looked_at = _ClassImages(model.num_classes, sync_on_compute=together)
    # Nothing seen yet: a process may have no samples, and a metric that was never told anything complains.
    for consistency, stability in counters:
        consistency.update((), (), torch.zeros(points, 2), torch.zeros(points, dtype=torch.bool))
        stability.update((), (), (), torch.zeros(points, 2), torch.zeros(points, dtype=torch.bool))
    looked_at.update()
    total = len(samples) if isinstance(samples, Sized) else 0
    for done, sample in enumerate(samples if points else (), start=1):
        image = normalized_image(model, sample)
        within = model.preprocessing if clip else None
        noisy = with_noise(image, generator_for(seed, "noise", sample.id), noise, within, noise_limit)
        prototypes = model.prototypes_of(sample.label).tolist()
        # Two generators: what is drawn for the noisy image must not happen to be what was drawn for the other.
        clean_regions, noisy_regions = (
            _regions(
                scene(model, pixels, prototypes, generator_for(seed, kind, sample.id)), mapping, regions, window_side
            )
            for pixels, kind in ((image, "regions"), (noisy, "noisy regions"))
        )
        for (consistency, stability), clean, moved in zip(counters, clean_regions, noisy_regions, strict=True):
            consistency.update(prototypes, clean, sample.keypoints, sample.visible)
            stability.update(prototypes, clean, moved, sample.keypoints, sample.visible)
        looked_at.update(sample.label)
        if progress is not None:
            progress("consistency and stability", done, total)
    class_images = looked_at.compute()
    return tuple(
        replace(
            _scores(
                _by_prototype(model, consistency.compute(), stability.compute()),
                class_images,
                mapping=mapping,
                region=region,
                window_side=window_side,
                threshold=threshold,
                noise=noise,
                clip=clip,
                seed=seed,
            ),
            noise_limit=noise_limit,
        )
        for region, (consistency, stability) in zip(regions, counters, strict=True)
    )


def _scores(
    prototypes: tuple[PrototypeParts, ...],
    class_images: tuple[int, ...],
    *,
    mapping: str,
    region: RegionKind,
    window_side: int,
    threshold: float,
    noise: float,
    clip: bool,
    seed: int,
) -> PartScores:
    classes = class_clusters([parts.label for parts in prototypes])
    return PartScores(
        consistency=defined_mean(
            [_reaches(parts.frequency, threshold) for parts in prototypes], classes, seed
        ).estimate,
        soft_consistency=defined_mean([parts.frequency for parts in prototypes], classes, seed).estimate,
        stability=defined_mean([parts.stability for parts in prototypes], classes, seed).estimate,
        soft_stability=defined_mean([parts.soft_stability for parts in prototypes], classes, seed).estimate,
        undefined=sum(
            parts.part is None and (not parts.classes or _looked_at(parts, class_images)) for parts in prototypes
        ),
        prototypes=prototypes,
        class_images=class_images,
        mapping=mapping,
        region=region,
        window_side=window_side,
        threshold=threshold,
        noise=noise,
        clipped=clip,
        seed=seed,
    )


def _regions(
    given: Scene, mapping: str, kinds: Sequence[RegionKind], window_side: int
) -> tuple[tuple[Region, ...], ...]:
    """For each kind, the region of every prototype; a map is painted once, and only where that is needed."""
    fields = given.regions
    painted = mapping not in _CLAIM_THE_FIELD and any(kind in ("window", "claimed") for kind in kinds)
    claimed = MAPPINGS[mapping](given).regions if painted else fields
    windows = tuple(window(region, given.size, window_side) for region in claimed)
    peaks = argmax_windows(given.similarity_maps, given.size, window_side // 2) if "argmax" in kinds else ()
    by_kind = {"window": windows, "field": fields, "claimed": claimed, "argmax": peaks}
    return tuple(by_kind[kind] for kind in kinds)


def _looked_at(parts: PrototypeParts, class_images: Sequence[int]) -> bool:
    return any(class_images[label] for label in parts.classes)


def _by_prototype(
    model: PixPNet, consistency: ConsistencyScore, stability: StabilityScore
) -> tuple[PrototypeParts, ...]:
    labels, owners = model.labels.tolist(), owners_of(model)
    return tuple(
        PrototypeParts(
            prototype=number,
            label=label,
            part=None if best is None else best.part,
            frequency=None if best is None else best.frequency,
            stability=None if agreement is None else agreement.same,
            soft_stability=None if agreement is None else agreement.parts,
            images=0 if agreement is None else agreement.images,
            owners=owners[number],
        )
        for number, (label, best, agreement) in enumerate(
            zip(labels, consistency.best, stability.agreements, strict=True)
        )
    )


def _reaches(frequency: float | None, threshold: float) -> float | None:
    return None if frequency is None else float(frequency >= threshold)


def _refuse(model: PixPNet, mapping: str, regions: Sequence[str]) -> None:
    if mapping not in MAPPINGS:
        raise ValueError(f"no mapping is called {mapping!r}: choose one of {', '.join(MAPPINGS)}")
    if unknown := [region for region in regions if region not in get_args(RegionKind)]:
        raise ValueError(f"no region is called {unknown[0]!r}: choose one of {', '.join(get_args(RegionKind))}")
    refuse_training_mode(model)
