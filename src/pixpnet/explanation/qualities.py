"""What a part is made of: how far its similarity falls when one quality of its region is changed, and nothing else.

Qualities are colour, hue, saturation, contrast, texture and shape. Read is the term's own cell, which sees the region
and nothing else, so a fall is one of *this part*, whichever cell would win in the changed image. A changed picture is
none that a camera took: a fall says what the similarity depends on there, not what the network would make of another
bird. Falls do not add up.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pixpnet.box import Box
from pixpnet.data.pictures import Picture
from pixpnet.explanation.alterations import alterations
from pixpnet.explanation.changed_images import Cell, batches, cell_of, explained_pixels, matches_of
from pixpnet.explanation.quality import QUALITIES, Quality, QualityName
from pixpnet.explanation.record import ClassExplanation, Explanation, Term
from pixpnet.model import PixPNet
from pixpnet.parts import Matches
from pixpnet.progress import Progress

Region = tuple[Box, ...]


def part_qualities(
    model: PixPNet,
    image: Picture,
    explanation: Explanation,
    seed: int = 0,
    progress: Progress | None = None,
) -> Explanation:
    """Says of each part of the predicted class which of its qualities its similarity rests on.

    Args:
        model: that answered.
        image: that was explained.
        explanation: whose parts are meant.
        seed: of the orders in which blocks are shuffled.
        progress: is told how many regions are done, of how many.

    Returns:
        the same explanation, with `Term.qualities` for the parts of the predicted class.

    Raises:
        ValueError: if the image or the model is not that of the explanation, the model is in training mode, or its
            answer to a changed image is not finite.
    """
    pixels = explained_pixels(model, image, explanation)
    mean, std = (
        pixels.new_tensor(values)[:, None, None] for values in (model.preprocessing.mean, model.preprocessing.std)
    )
    plain = (pixels * std + mean).clamp(0, 1)
    terms = [term for term in explanation.predicted.terms if term.region]
    # Terms that look at the same pixels share their changed images.
    regions = list(dict.fromkeys(term.region for term in terms))
    falls: dict[tuple[Cell, QualityName], list[float | None]] = defaultdict(list)
    for done, region in enumerate(regions, start=1):
        there = [term for term in terms if term.region == region]
        changed = [
            (quality, (altered - mean) / std)
            for quality in QUALITIES
            for altered in alterations(plain, _mask(region, pixels), quality, seed)
        ]
        for _, part in batches(changed, pixels.numel()):
            # Rounding may depend on the batch, so the unchanged image is part of each.
            images = torch.stack([pixels, *(altered for _, altered in part)])
            for cell, (before, *after) in _similarities(model, matches_of(model, images), there).items():
                for (quality, _), similarity in zip(part, after, strict=True):
                    falls[cell, quality].append(1 - similarity / before if before > 0 else None)
        if progress is not None:
            progress("changing parts", done, len(regions))
    return replace(explanation, classes=(_with_falls(explanation.predicted, falls), *explanation.classes[1:]))


def _mask(region: Region, pixels: Float[Tensor, "3 height width"]) -> Bool[Tensor, "height width"]:
    mask = torch.zeros(pixels.shape[-2:], dtype=torch.bool, device=pixels.device)
    for y0, x0, y1, x1 in region:
        mask[y0:y1, x0:x1] = True
    return mask


def _similarities(model: PixPNet, matches: Matches, terms: Sequence[Term]) -> dict[Cell, list[float]]:
    """Of each term's cell in every image of a batch."""
    similarities = {}
    for cell in map(cell_of, terms):
        grid = model.grids[cell.grid]
        distances = matches.grids[cell.grid].distance_maps[:, cell.prototype - grid.first, cell.row, cell.col]
        values = grid.comparison.similarity(distances)
        if not values.isfinite().all():
            raise ValueError("the model's answer to a changed image is not finite, so nothing can be said of its parts")
        similarities[cell] = values.tolist()
    return similarities


def _with_falls(
    explained: ClassExplanation, falls: dict[tuple[Cell, QualityName], list[float | None]]
) -> ClassExplanation:
    def known(term: Term) -> Term:
        if not term.region:
            return term
        measured = []
        for quality in QUALITIES:
            values = falls[cell_of(term), quality]
            defined = [value for value in values if value is not None]
            measured.append(Quality(quality, sum(defined) / len(defined) if defined else None, len(values)))
        return replace(term, qualities=tuple(measured))

    return replace(explained, terms=tuple(map(known, explained.terms)))
