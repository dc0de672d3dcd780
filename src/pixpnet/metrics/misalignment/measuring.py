"""Attacks on images, a batch at a time, and what they changed; all in the `pixel` frame of the network."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pixpnet.data import Sample
from pixpnet.metrics.answering import normalized_image
from pixpnet.metrics.misalignment.attacks import (
    Attack,
    AttackSettings,
    attack_named,
    attacked_prototypes,
    descend,
    random_start,
    similarity_map,
)
from pixpnet.metrics.misalignment.protection import (
    Protection,
    highest_pixels,
    protected_mask,
    protection_named,
)
from pixpnet.metrics.misalignment.record import AttackedImage, AttackedPrototype, Misalignment, summarize
from pixpnet.model import PixPNet
from pixpnet.model.grids import Output
from pixpnet.model.modes import refuse_training_mode
from pixpnet.progress import Progress, part_of, silent

BATCH = 10


@dataclass(frozen=True)
class _Clean:
    """A batch before the attack."""

    samples: tuple[Sample, ...]
    images: Float[Tensor, "batch 3 height width"]
    output: Output
    attacked: tuple[tuple[int, ...], ...]


def misalignment(
    model: PixPNet,
    samples: Sequence[Sample],
    attack: str = "pgd",
    protected: str = "field",
    settings: AttackSettings = AttackSettings(),  # noqa: B008  frozen
    *,
    seed: int = 0,
    batch_size: int = BATCH,
    progress: Progress | None = None,
) -> Misalignment:
    """How far an attack outside of a prototype's region moves its score, its rank, its place, and the answer.

    Args:
        model: in eval mode.
        samples: preprocessed and normalised, of one size.
        attack: `noise` or `pgd`.
        protected: `box` (published) or `field` (exact).
        settings: of the attack.
        seed: of the noise and of the intervals.
        batch_size: images attacked at a time.
        progress: told how many images are done, of how many.

    Raises:
        ValueError: if the model is in training mode, a name is unknown, or a sample does not fit, or two have one name.
    """
    if len({sample.id for sample in samples}) < len(samples):
        raise ValueError("two samples have the same id, by which results are kept: give each its own")
    progress, task = progress or silent, f"misalignment, {attack}, {protected}"
    attacked: dict[str, AttackedImage] = {}
    starts = range(0, len(samples), batch_size)
    for number, start in enumerate(starts):
        some = [samples[index] for index in range(start, min(start + batch_size, len(samples)))]
        part = part_of(progress, task, number, len(starts))
        (images,) = attack_images(model, some, attack, (protected,), settings, seed, part)
        attacked |= images
        progress(task, number + 1, len(starts))
    return summarize(attacked, attack_named(attack), protection_named(protected), settings, seed)


def attack_images(
    model: PixPNet,
    samples: Iterable[Sample],
    attack: str,
    protections: Sequence[str],
    settings: AttackSettings = AttackSettings(),  # noqa: B008  frozen
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[dict[str, AttackedImage], ...]:
    """Attacks a batch of samples under each protection, and says for each image by its name what that changed.

    Raises:
        ValueError: if the model is in training mode, a name is unknown, or a sample does not fit.
    """
    refuse_training_mode(model)
    chosen, regions = attack_named(attack), tuple(map(protection_named, protections))
    clean = _clean(model, tuple(samples), settings)
    return tuple(_attacked(model, clean, chosen, protection, settings, seed, progress) for protection in regions)


def _clean(model: PixPNet, samples: tuple[Sample, ...], settings: AttackSettings) -> _Clean:
    images = torch.stack([normalized_image(model, sample) for sample in samples])
    with torch.no_grad():
        output: Output = model(images)
    scores = zip(output.matches.scores, samples, strict=True)
    return _Clean(
        samples, images, output, tuple(attacked_prototypes(model, row, one.label, settings) for row, one in scores)
    )


def _attacked(
    model: PixPNet,
    clean: _Clean,
    attack: Attack,
    protection: Protection,
    settings: AttackSettings,
    seed: int,
    progress: Progress | None,
) -> dict[str, AttackedImage]:
    size = clean.samples[0].size
    masks = [
        ~protected_mask(model, clean.output.matches, index, prototypes, size, protection, settings.margin)
        for index, prototypes in enumerate(clean.attacked)
    ]
    free = torch.stack(masks).to(clean.images.device)
    changed = torch.stack(
        [
            random_start(image, mask, settings, seed, sample.id)
            for image, mask, sample in zip(clean.images, free, clean.samples, strict=True)
        ]
    )
    if attack == "pgd":
        changed = descend(model, clean.images, changed, free, clean.attacked, settings, progress)
    with torch.no_grad():
        after: Output = model(changed)
    return {sample.id: _compared(model, clean, after, index, free[index]) for index, sample in enumerate(clean.samples)}


def _compared(
    model: PixPNet, clean: _Clean, after: Output, index: int, free: Bool[Tensor, "height width"]
) -> AttackedImage:
    label = clean.samples[index].label
    return AttackedImage(
        prototypes=tuple(_prototype(model, clean, after, index, prototype) for prototype in clean.attacked[index]),
        free=float(free.double().mean()),
        right_before=int(clean.output.logits[index].argmax()) == label,
        right_after=int(after.logits[index].argmax()) == label,
    )


def _prototype(model: PixPNet, clean: _Clean, after: Output, index: int, prototype: int) -> AttackedPrototype:
    grid = model.grid_of(prototype)
    sides = (clean.output.matches, after.matches)
    row, col = sides[0].cells[index, prototype].tolist()
    measured = [float(side.grids[grid.number].distance_maps[index, prototype - grid.first, row, col]) for side in sides]
    maps = [similarity_map(model, side, index, prototype) for side in sides]
    others = torch.ones(model.num_prototypes, dtype=torch.bool, device=model.device)
    others[model.prototypes_of(clean.samples[index].label)] = False
    scores = [side.scores[index].clamp(min=0) for side in sides]
    rivals = [int((values[others] > values[prototype]).sum()) for values in scores]
    size = clean.samples[index].size
    highest = [highest_pixels(similarities, size) for similarities in maps]
    union = int((highest[0] | highest[1]).sum())
    return AttackedPrototype(
        prototype=prototype,
        before=float(scores[0][prototype]),
        after=float(scores[1][prototype]),
        cell_before=max(float(maps[0][row, col]), 0.0),
        cell_after=max(float(maps[1][row, col]), 0.0),
        moved=abs(measured[1] - measured[0]) > grid.comparison.tolerance(measured[0]),
        rivals_before=rivals[0],
        rivals_after=rivals[1],
        overlap=int((highest[0] & highest[1]).sum()) / union if union else None,
    )
