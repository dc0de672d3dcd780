"""Desideratum 1, "prototypes must correspond directly to image patches".

The origin that a model claims for each prototype is gone back to: the training image is read again, embedded again, and
the patch at the claimed cell must be the prototype (as patches become prototypes: `Comparison.as_prototypes`).

**The tolerance** is on the largest difference of any component. Embeddings come out of a sigmoid, so components lie
between 0 and 1, and float32 kernels that add in another order (another batch size, another machine) move them by some
1e-6. 1e-4 leaves room for that. Reduced precision does not fit into it: a run whose replacement computed in TF32 is
told apart from its patches by about 1e-3, and says so here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from types import MappingProxyType

import torch
from torch import Tensor

from pixpnet.data import DataSet
from pixpnet.metrics.auditing.verdict import Desideratum, Finding, finding_of
from pixpnet.model import Grid, Origin, PixPNet
from pixpnet.model.origin_images import misplaced, origin_images
from pixpnet.parts.precision import full_precision
from pixpnet.progress import Progress

TOLERANCE = 1e-4
# Of where parts are read, in cells: offsets are rounded like everything else.
_PART_TOLERANCE = 1e-3
_FROM_TRAINING = "every origin is a training image of a class that may give the prototype its patch"
_BATCH = 16
_NAMED = 5


@dataclass(frozen=True)
class Grounding(Desideratum):
    """What was found about the origins of the prototypes.

    Attributes:
        prototypes: how many there are.
        checked: how many were compared with the patch of their origin.
        largest_difference: of any component of any of them to its patch; None if none was compared.
        tolerance: what that may be at most.
        failed: the numbers of prototypes about which some claim is wrong.
        findings: claim by claim.
    """

    prototypes: int
    checked: int
    largest_difference: float | None
    tolerance: float
    failed: tuple[int, ...]
    findings: tuple[Finding, ...]


def check_grounding(
    model: PixPNet, data: DataSet | None, tolerance: float = TOLERANCE, progress: Progress | None = None
) -> Grounding:
    """Goes back to the patch of every prototype.

    Args:
        model: in eval mode.
        data: that it was trained on; None where it is not at hand, and then only regions are checked.
        tolerance: the largest difference of a component that counts as the same.
        progress: told how many images are done.

    Raises:
        ValueError: if the tolerance is not finite, or negative.
    """
    if not 0 <= tolerance < float("inf"):
        raise ValueError(f"the tolerance is a finite number from 0 up, got {tolerance}")
    count = model.num_prototypes
    if model.origins is None:
        missing = finding_of(
            "every prototype has an origin", False, "the model names none: its prototypes were not replaced by patches"
        )
        return Grounding(count, 0, None, tolerance, tuple(range(count)), (missing,))
    regions = _wrong_regions(model, model.origins)
    findings = [_finding("every region is the exact field of its cell", regions, count, "recomputed on this network")]
    if data is None:
        findings += [
            Finding(claim, "not checked", "the data set is not at hand")
            for claim in (_FROM_TRAINING, "every prototype is its patch")
        ]
        return Grounding(count, 0, None, tolerance, tuple(sorted(regions)), tuple(findings))
    gone = _gone(model.origins, data)
    here = [origin for origin in model.origins if origin.prototype not in gone]
    strangers = _strangers(model, here, data)
    findings.append(_finding(_FROM_TRAINING, strangers, count, _in(data), gone))
    known = [origin for origin in here if origin.prototype not in strangers]
    compared = _compare(model, data, known, progress)
    moved = dict.fromkeys(compared.misplaced, "lies elsewhere in its file")
    findings.append(
        _finding("every region lies where it says in the image file", moved, count, "by the same crop", gone)
    )
    # `not <=`: a component that is NaN is no patch.
    far = {number: f"differs by {by:.2g}" for number, by in compared.differences.items() if not by <= tolerance}
    far |= dict.fromkeys(compared.outside, "has no such cell")
    far |= dict.fromkeys(strangers, "has no patch to compare with")
    largest = max(filter(isfinite, compared.differences.values()), default=None)
    difference = "none compared" if largest is None else f"largest difference of a component {largest:.2g}"
    evidence = (
        f"embedded again from {compared.images} training images: {difference}, up to {tolerance:g} counts as the same"
    )
    findings.append(_finding("every prototype is its patch", far, count, evidence, gone))
    failed = {*regions, *strangers, *moved, *far}
    return Grounding(count, len(compared.differences), largest, tolerance, tuple(sorted(failed)), tuple(findings))


def _finding(
    claim: str, wrong: dict[int, str], count: int, evidence: str, gone: Mapping[int, str] = MappingProxyType({})
) -> Finding:
    """A claim about every prototype; it is not checked where images are gone and nothing else is wrong."""
    if gone and not wrong:
        named = ", ".join([*dict.fromkeys(gone.values())][:_NAMED])
        rest = f"; the other {count - len(gone)} of {count}: {evidence}" if len(gone) < count else ""
        return Finding(claim, "not checked", f"the images of {len(gone)} of {count} prototypes are gone: {named}{rest}")
    if not wrong:
        return finding_of(claim, True, f"{count} of {count}; {evidence}")
    named = ", ".join(f"prototype {number} {fault}" for number, fault in sorted(wrong.items())[:_NAMED])
    more = f" and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
    return finding_of(claim, False, f"{len(wrong)} of {count} fail: {named}{more}; {evidence}")


def _in(data: DataSet) -> str:
    return f"{len(data.train)} in train, {len(data.val)} in validation, {len(data.test)} in the test split (not opened)"


def _wrong_regions(model: PixPNet, origins: Sequence[Origin]) -> dict[int, str]:
    fields, wrong = model.fields, {}
    for origin in origins:
        grid = model.grid_of(origin.prototype)
        rows, cols = fields[grid.number].shape[-2:]
        if origin.grid != grid.number:
            wrong[origin.prototype] = f"names a cell of grid {origin.grid} and looks at grid {grid.number}"
        elif not (0 <= origin.row < rows and 0 <= origin.col < cols):
            wrong[origin.prototype] = f"names cell ({origin.row}, {origin.col}) of {rows} x {cols}"
        elif set(origin.boxes) != set(
            grid.comparison.region((origin.row, origin.col), fields[grid.number], origin.places)
        ):
            wrong[origin.prototype] = "claims other pixels than its cell sees"
    return wrong


def _gone(origins: Sequence[Origin], data: DataSet) -> dict[int, str]:
    """Prototypes whose image the run learnt from and the data set no longer has, or not with the same pixels."""
    missing = dict.fromkeys(data.changes.missing, "no longer there")
    missing |= dict.fromkeys(data.changes.altered, "has other pixels now")
    return {
        origin.prototype: f"{origin.image} ({missing[origin.image]})" for origin in origins if origin.image in missing
    }


def _strangers(model: PixPNet, origins: Sequence[Origin], data: DataSet) -> dict[int, str]:
    """Origins that no training image may be, or whose picture is also in a split that is held out."""
    sources = model.ownership.sources().cpu()
    train = {entry.id: entry for entry in data.train}
    held_out = {entry.id for entry in data.val}
    copies = {entry.digest: f"{entry.id} of the validation split" for entry in data.val if entry.digest is not None}
    copies |= {image.digest: "an image of the test split" for image in data.test.listed(data.class_names).images}
    wrong = {}
    for origin in origins:
        if origin.image in held_out:
            wrong[origin.prototype] = f"comes from {origin.image} of the validation split"
        elif origin.image not in train:
            wrong[origin.prototype] = f"comes from {origin.image}, which is neither in train nor in validation"
        elif not sources[label := train[origin.image].label, origin.prototype] or label != origin.label:
            wrong[origin.prototype] = f"comes from {origin.image} of another class"
        elif (copy := copies.get(train[origin.image].digest or "no digest")) is not None:
            wrong[origin.prototype] = f"comes from {origin.image}, a copy of {copy}"
    return wrong


@dataclass(frozen=True)
class _Compared:
    """Prototypes beside the patches of their origins."""

    images: int
    differences: dict[int, float]
    misplaced: tuple[int, ...]
    outside: tuple[int, ...]


def _compare(model: PixPNet, data: DataSet, origins: Sequence[Origin], progress: Progress | None) -> _Compared:
    differences: dict[int, float] = {}
    elsewhere: list[int] = []
    outside: list[int] = []
    images = origin_images(origins, data)
    for start in range(0, len(images), _BATCH):
        some = images[start : start + _BATCH]
        samples = [image.read(model, data) for image in some]
        with torch.no_grad(), full_precision(model.device):
            pixels = torch.stack([sample.image.as_subclass(Tensor) for sample in samples])
            embeddings = [cells.float() for cells in model.embed(pixels.to(model.device, model.dtype))]
        for number, (image, sample) in enumerate(zip(some, samples, strict=True)):
            elsewhere += [origin.prototype for origin in misplaced(image.origins, sample)]
            for origin in image.origins:
                difference = _difference(model.grid_of(origin.prototype), origin, embeddings, number)
                if difference is None:
                    outside.append(origin.prototype)
                else:
                    differences[origin.prototype] = difference
        if progress is not None:
            progress("going back to the patches", start + len(some), len(images))
    return _Compared(len(images), differences, tuple(elsewhere), tuple(outside))


def _difference(grid: Grid, origin: Origin, embeddings: Sequence[Tensor], image: int) -> float | None:
    """The largest difference of a component of a prototype to its patch; None where there is no such patch."""
    comparison, cells = grid.comparison, embeddings[grid.number]
    with torch.no_grad():
        rows, cols = comparison.distance_maps(cells[image : image + 1]).shape[-2:]
    if not (0 <= origin.row < rows and 0 <= origin.col < cols):
        return None
    at, cell = torch.tensor(image), torch.tensor(origin.row * cols + origin.col)
    with torch.no_grad():
        patch = comparison.patches(cells, at, cell)
    claimed = torch.tensor(origin.places).reshape(-1, 2)
    # Where its parts were read decides what it saw.
    if patch.places.shape != claimed.shape or (patch.places.cpu() - claimed).abs().gt(_PART_TOLERANCE).any():
        return float("inf")
    prototype = comparison.prototypes[origin.prototype - grid.first].detach()
    return float((comparison.as_prototypes(patch.vectors[None])[0] - prototype).abs().max())
