"""The proof of one term, to look at: the changed images themselves, and what its cell says of each.

`prove` tells how far the similarity moved at most; here are the images that it ran the network on, from the same seed.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import UInt8

from pixpnet.data import to_uint8
from pixpnet.data.pictures import Picture
from pixpnet.explanation.changed_images import batches, cell_of, explained_pixels, matches_of
from pixpnet.explanation.fillings import FILLINGS, Change, fillings_for, training_images
from pixpnet.explanation.record import Explanation, Term
from pixpnet.model import PixPNet


@dataclass(frozen=True)
class ChangedImage:
    """An image on which the network was run for a proof.

    Attributes:
        change: what was done, in a few words; "unchanged" for the image itself.
        pixels: what the network saw; values that noise puts outside the range of a picture are cut off to be shown.
        similarity: of the term's cell to its prototype.
        score: of the prototype, which is that of whichever cell wins.
    """

    change: str
    pixels: UInt8[np.ndarray, "height width 3"]
    similarity: float
    score: float


def changed_images(
    model: PixPNet, image: Picture, explanation: Explanation, term: Term, draws: int = 6, seed: int = 0
) -> tuple[ChangedImage, ...]:
    """The images of a term's proof: unchanged, everything outside its region changed, then the region itself changed.

    Args:
        model: that answered.
        image: that was explained.
        explanation: of the image.
        term: one of its terms.
        draws: how many changed images of each kind.
        seed: of the draws; the one that `prove` was given, to see its images.

    Raises:
        ValueError: if the image or the model is not that of the explanation, or the model is in training mode.
    """
    pixels = explained_pixels(model, image, explanation)
    known = training_images(model, explanation.size, -(-draws // len(FILLINGS)), seed)
    fillings = fillings_for(model, pixels, draws, seed, known)
    work = [(Change(term.region, inside), draw) for inside in (False, True) for draw in range(draws)]
    cell, grid = cell_of(term), model.grid_of(term.prototype)
    number = term.prototype - grid.first
    result: list[ChangedImage] = []
    for start, part in batches(work, pixels.numel()):
        masks = torch.stack([change.mask(explanation.size) for change, _ in part]).to(pixels.device)
        changed = torch.where(masks[:, None], fillings[[draw for _, draw in part]], pixels)
        # Rounding may depend on the batch, so the unchanged image is part of each.
        images = torch.cat([pixels[None], changed])
        matches = matches_of(model, images).grids[grid.number]
        similarities = grid.comparison.similarity(matches.distance_maps[:, number, cell.row, cell.col]).tolist()
        scores = matches.scores[:, number].tolist()
        names = ["unchanged", *(_words(change, draw) for change, draw in part)]
        for index in range(1 if start else 0, len(images)):
            shown = to_uint8(images[index], model.preprocessing)
            result.append(ChangedImage(names[index], shown, similarities[index], scores[index]))
    return tuple(result)


def _words(change: Change, draw: int) -> str:
    filling = FILLINGS[draw % len(FILLINGS)]
    return f"{'the part itself' if change.inside else 'everything outside the part'}: {filling}"
