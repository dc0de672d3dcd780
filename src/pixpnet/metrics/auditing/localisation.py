"""Desideratum 2, "prototypes must localize to object parts".

No network can promise parts; what can be measured is whether its cells see parts of the image at all. The claim is that
the mean field of the embedding is at most a threshold. Three quarters is generous, and a matter of taste, which is why
it is an option: the paper itself grants this desideratum to a cut whose cells see everything (Table 1, ResNeXt @
layer3), against its own argument. The fields are computed by rules, so they are checked on this very network by the
probe, which shares no code with them: NaN in one pixel comes out at exactly the cells that see it.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from pixpnet.data.scan import Progress
from pixpnet.fields.probe import Pixel, probe
from pixpnet.fields.verify import random_pixels
from pixpnet.metrics.auditing.verdict import Finding, Judged, found
from pixpnet.model import PixPNet

THRESHOLD = 0.75
PIXELS = 8


@dataclass(frozen=True)
class Localisation(Judged):
    """What was found about what cells see.

    Attributes:
        mean_field: mean share of the image that a cell sees, 0-1.
        largest_field: the largest.
        sees_everything: share of the cells that see the whole image.
        threshold: what the mean may be at most.
        pixels: how many pixels were probed.
        disagreements: at how many of them probe and fields differ.
        findings: claim by claim.
    """

    mean_field: float
    largest_field: float
    sees_everything: float
    threshold: float
    pixels: int
    disagreements: int
    findings: tuple[Finding, ...]


def check_localisation(
    model: PixPNet,
    threshold: float = THRESHOLD,
    pixels: int = PIXELS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Localisation:
    """Measures fields, and probes some pixels of the real network.

    Args:
        model: in eval mode.
        threshold: of the mean field.
        pixels: how many random ones are probed; each takes a forward pass in double precision on the CPU.
        seed: of the pixels.
        progress: told how many pixels are done.
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"the threshold is a share of the image above 0 and at most 1, got {threshold}")
    field, size = model.field, model.preprocessing.size
    chosen = random_pixels((size, size), pixels, seed)
    wrong = _disagreements(model, chosen, progress)
    mean, everything = field.mean_fraction_union, field.fraction_that_sees_everything
    rows, cols = field.shape[-2:]
    findings = (
        found(
            f"a cell sees at most {threshold:.0%} of the image on average",
            mean <= threshold,
            f"mean field {mean:.1%}, largest {field.max_fraction:.1%}; {everything:.0%} of {rows} x {cols} cells see "
            "everything",
        ),
        found(
            "the fields are those of this network",
            not wrong,
            f"NaN in {len(chosen)} random pixels came out at exactly the cells that see them"
            if not wrong
            else f"{len(wrong)} of {len(chosen)} probed pixels came out at other cells, the first is {wrong[0]}",
        ),
    )
    return Localisation(mean, field.max_fraction, everything, threshold, len(chosen), len(wrong), findings)


def _disagreements(model: PixPNet, pixels: Sequence[Pixel], progress: Progress | None) -> list[Pixel]:
    """Pixels that came out of the real network at other patches than the fields say."""
    size = model.preprocessing.size
    # A copy: the probe computes in double precision, which not every device has.
    network = copy.deepcopy(nn.Sequential(model.backbone, model.add_on)).cpu().eval()
    wrong = []
    for done, sighting in enumerate(probe(network, (3, size, size), pixels), start=1):
        seen = sighting.layers[""][-1][0]
        assert seen is not None  # embeddings are floating-point numbers
        if not torch.equal(_patches(model, seen), model.field.sees(*sighting.pixel).any(dim=0)):
            wrong.append(sighting.pixel)
        if progress is not None:
            progress(done, len(pixels))
    return wrong


def _patches(model: PixPNet, seen: Bool[Tensor, "dim cells_down cells_across"]) -> Bool[Tensor, "rows cols"]:
    """A patch of several cells sees what any of them sees."""
    how = model.architecture
    cells = seen.any(dim=0).unfold(0, how.prototype_rows, 1).unfold(1, how.prototype_cols, 1)
    return cells.flatten(2).any(dim=2)
