"""Desideratum 2, "prototypes must localize to object parts".

No network can promise parts; what can be measured is whether it shows parts of the image at all. Two means must be at
most a threshold: that of the fields of all cells (of several grids, in each), and that of the regions that win, which
are what a person is shown. The second is the larger one where cells at the border, whose fields are clipped, seldom
win. A quarter of the image is the threshold: the paper itself grants this desideratum to a cut whose cells see
everything (Table 1, ResNeXt @ layer3), against its own argument. A network with parts and wholes, whose second grid
sees 30 %, fails here, as it should: some of its terms show no part. The finding names the grid and how many prototypes
look at it, and whoever holds a larger region for a part says so with another threshold.

Winning regions are those of the predicted class's prototypes in validation images, so they need the data set. The
fields are computed by rules, so they are checked on this very network by the probe, which shares no code with them: NaN
in one pixel comes out at exactly the cells that see it.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pixpnet.data import DataSet
from pixpnet.data.loader import PlainSamples
from pixpnet.data.reader import WithoutMasks
from pixpnet.explanation.explaining import score_note
from pixpnet.fields.probe import Pixel, probe
from pixpnet.fields.verify import random_pixels
from pixpnet.metrics.answers import answer_places
from pixpnet.metrics.auditing.verdict import Desideratum, Finding, finding_of
from pixpnet.model import PixPNet
from pixpnet.progress import Progress
from pixpnet.wording import percent

THRESHOLD = 0.25
PIXELS = 8


@dataclass(frozen=True)
class Localization(Desideratum):
    """What was found about what cells see.

    Attributes:
        mean_field: mean share of the image that a cell sees, 0-1.
        largest_field: the largest.
        sees_everything: share of the cells that see the whole image (of several grids, the mean over prototypes).
        winning_region: mean share of the image that the region of a winning cell covers; None where it is not known.
        images: how many validation images that is the mean of.
        threshold: what the two means may be at most.
        pixels: how many pixels were probed.
        disagreements: at how many of them probe and fields differ.
        findings: claim by claim.
    """

    mean_field: float
    largest_field: float
    sees_everything: float
    winning_region: float | None
    images: int
    threshold: float
    pixels: int
    disagreements: int
    findings: tuple[Finding, ...]


def check_localization(
    model: PixPNet,
    data: DataSet | None,
    threshold: float = THRESHOLD,
    pixels: int = PIXELS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Localization:
    """Measures fields and winning regions, and probes some pixels of the real network.

    Args:
        model: in eval mode.
        data: whose validation images are looked at, with one forward pass each; None where it is not at hand.
        threshold: of the mean field and of the mean winning region.
        pixels: how many random ones are probed; each takes a forward pass in double precision on the CPU.
        seed: of the pixels.
        progress: told how many pixels, then how many validation images are done.
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"the threshold is a share of the image above 0 and at most 1, got {threshold}")
    size = model.preprocessing.size
    chosen = random_pixels((size, size), pixels, seed)
    wrong = _disagreements(model, chosen, progress)
    # With several grids, each must show parts: a mean over grids would hide one whose cells see everything.
    widest = max(field.mean_fraction_union for field in model.fields)
    largest = max(field.max_fraction for field in model.fields)
    counts = [len(grid.prototypes) for grid in model.grids]
    shares = [field.fraction_that_sees_everything for field in model.fields]
    everything = sum(count * share for count, share in zip(counts, shares, strict=True)) / sum(counts)
    evidence = "; ".join(
        f"{percent(share)} of {field.shape[-2]} x {field.shape[-1]} cells see everything"
        for share, field in zip(shares, model.fields, strict=True)
    )
    region, images = _winning_region(model, data, seed, progress)
    findings = (
        finding_of(
            f"a cell sees at most {percent(threshold)} of the image on average",
            widest <= threshold,
            f"mean field {_means(model)}, largest {percent(largest)}; {evidence}{_beside(model)}",
        ),
        _about_winners(region, images, threshold),
        finding_of(
            "the fields are those of this network",
            not wrong,
            f"NaN in {len(chosen)} random pixels came out at exactly the cells that see them"
            if not wrong
            else f"{len(wrong)} of {len(chosen)} probed pixels came out at other cells, the first is {wrong[0]}",
        ),
    )
    return Localization(
        model.mean_field, largest, everything, region, images, threshold, len(chosen), len(wrong), findings
    )


def _winning_region(
    model: PixPNet, data: DataSet | None, seed: int, progress: Progress | None
) -> tuple[float | None, int]:
    """The mean share of the image that one winning region covers, and of how many validation images that is."""
    if data is None or not data.val:
        return None, 0
    samples = PlainSamples(data.val, WithoutMasks(data.reader), model.preprocessing)
    region = answer_places(model, samples, seed=seed, progress=progress).winning_region
    return None if region.estimate is None else region.estimate.mean, len(data.val) - region.undefined


def _about_winners(region: float | None, images: int, threshold: float) -> Finding:
    claim = f"the region that wins covers at most {percent(threshold)} of the image on average"
    if region is None:
        return Finding(claim, "not checked", "there are no images at hand to see which cells win")
    return finding_of(
        claim,
        region <= threshold,
        f"mean winning region {percent(region)}: the prototypes of the predicted class in {images} validation images",
    )


def _means(model: PixPNet) -> str:
    """The mean field of each grid; of several, by name and with the share of the prototypes that look at it."""
    shares = [percent(field.mean_fraction_union) for field in model.fields]
    if len(shares) == 1:
        return shares[0]
    return ", ".join(
        f"{share} ({name}, {len(grid.prototypes)} of {model.num_prototypes} prototypes)"
        for share, name, grid in zip(shares, model.grid_layers, model.grids, strict=True)
    )


def _beside(model: PixPNet) -> str:
    """What scores rest on beside their cells, where that is anything: the threshold is about cells."""
    notes = dict.fromkeys(grid.comparison.moves for grid in model.grids if grid.comparison.moves is not None)
    moved = "".join(f". That is said {note}" for note in notes)
    note = score_note(model)
    if note is None:
        return moved
    return f"{moved}. This is about cells, and a score is more than the similarity of its cell: {note}"


def _disagreements(model: PixPNet, pixels: Sequence[Pixel], progress: Progress | None) -> list[Pixel]:
    """Pixels that came out of the real network at other patches than the fields say, in some grid."""
    size, wrong = model.preprocessing.size, set[Pixel]()
    for grid, field in zip(model.grids, model.fields, strict=True):
        # A copy: the probe computes in double precision, which not every device has.
        network = copy.deepcopy(model.embedding(grid.number)).cpu().eval()
        for done, sighting in enumerate(probe(network, (3, size, size), pixels), start=1):
            seen = sighting.layers[""][-1][0]
            assert seen is not None  # embeddings are floating-point numbers
            if not torch.equal(grid.comparison.reads(seen.any(dim=0)), field.sees(*sighting.pixel).any(dim=0)):
                wrong.add(sighting.pixel)
            if progress is not None:
                progress("probing pixels", grid.number * len(pixels) + done, len(model.grids) * len(pixels))
    return [pixel for pixel in pixels if pixel in wrong]
