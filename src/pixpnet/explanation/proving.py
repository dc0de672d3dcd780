"""The proof of an explanation: the network is run on changed images, and nobody asks how fields are computed.

For each term, everything outside the claimed region is replaced (noise, one colour, a picture), and the distance
and similarity *at the term's cell* must stay what they were. Then the region itself is replaced, to see that it matters
at all; and the box that upsampling would draw is put to the same test. From the claim only the region is taken; the
rest of this file runs the model.

**The tolerance** is about the distance, where float errors are made: convolutions may add in another order, or mix
neighbouring pixels that cancel (Winograd), when pixels outside a region change. How much that can be, the comparison of
the term's grid knows (`Comparison.tolerance`): 16 units in the last place of the numbers that a distance is computed
from. Mostly nothing moves at all. A similarity may have its pole at distance 0, where the same error is multiplied by
up to 1 / epsilon; its movement is reported, not tested.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

from pixpnet.data.pictures import Picture
from pixpnet.explanation.answer import Deciding
from pixpnet.explanation.changed_images import Cell, batches, cell_of, explained_pixels, matches_of, pixels_of
from pixpnet.explanation.deciding import deciding
from pixpnet.explanation.explaining import as_the_network_sees
from pixpnet.explanation.fillings import Change, Region, fillings_for, training_images
from pixpnet.explanation.record import Explanation, Proof, Term, Trial
from pixpnet.mapping.scene import scene
from pixpnet.mapping.upsampling import by_upsampling
from pixpnet.model import Grid, PixPNet
from pixpnet.model.grids import Output
from pixpnet.parts import Matches, NoBounds
from pixpnet.progress import Progress

_GIVEN: Final = "pictures that were given"
_TRAINING: Final = "training images"
_ITSELF: Final = "the image itself, mirrored and moved"
# Times the tolerance: how far distances of the same model and image may be apart on two machines.
_SAME = 50


def prove(
    model: PixPNet,
    image: Picture,
    explanation: Explanation,
    draws: int = 6,
    seed: int = 0,
    progress: Progress | None = None,
    others: Sequence[Picture] = (),
) -> Explanation:
    """Puts every claim of an explanation to the test.

    Args:
        model: that answered.
        image: that was explained.
        explanation: what is claimed.
        draws: how many changed images for each region; in turns noise, one colour, and a picture around it.
        seed: of the draws.
        progress: is told how many images are done, of how many.
        others: pictures to put around regions; by default training images that lie beside the model's prototypes, or,
            where there are none, the image itself, mirrored and moved at random.

    Returns:
        the same explanation with a `Proof` on each term, and with the scores that decide the answer (`Deciding`).

    Raises:
        ValueError: if the image or the model is not that of the explanation, the model is in training mode, or its
            answer to a changed image is not finite.
    """
    if draws < 1:
        raise ValueError(f"a proof needs at least one draw, got {draws}")
    pixels = explained_pixels(model, image, explanation)
    terms = [term for explained in explanation.classes for term in explained.terms]
    with torch.no_grad():  # as `explain` ran it
        output: Output = model(pixels[None])
    distances = _measured_distances(model, output.matches, terms)
    boxes = _claims_of_upsampling(model, pixels, terms)
    tolerances = {
        number: model.grid_of(number).comparison.tolerance(distance) for number, distance in distances.items()
    }
    tests = _Tests()
    for term in terms:
        tests.add(Change(term.region, inside=False), term)
        tests.add(Change(term.region, inside=True), term)
        tests.add(Change(boxes[term.prototype], inside=False), term)
    given = [pixels_of(model, as_the_network_sees(model, other)) for other in others]
    known = given or training_images(model, explanation.size, -(-draws // 3), seed)
    fillings = fillings_for(model, pixels, draws, seed, known)
    moved = tests.run(model, pixels, fillings, progress)

    def trial(term: Term, region: Region) -> Trial:
        movement = moved[Change(region, inside=False), cell_of(term)]
        outside = int(Change(region, inside=False).mask(explanation.size).sum())
        held = movement.distance <= tolerances[term.prototype]
        return Trial(region, movement.similarity, movement.distance, held, outside)

    def proven(term: Term) -> Term:
        outside = moved[Change(term.region, inside=False), cell_of(term)]
        inside = moved[Change(term.region, inside=True), cell_of(term)]
        proof = Proof(
            draws=draws,
            seed=seed,
            tolerance=tolerances[term.prototype],
            field=trial(term, term.region),
            upsampling=trial(term, boxes[term.prototype]),
            inside=inside.similarity,
            score_outside=outside.score,
            pictures=_GIVEN if given else _TRAINING if known else _ITSELF,
        )
        return replace(term, proof=proof)

    classes = (
        replace(class_explanation, terms=tuple(map(proven, class_explanation.terms)))
        for class_explanation in explanation.classes
    )
    decisive, reason = _deciding(model, output, explanation.size)
    return replace(explanation, classes=tuple(classes), deciding=decisive, not_deciding=reason)


@dataclass(frozen=True)
class _Moved:
    """The largest movements over all draws."""

    similarity: float = 0.0
    distance: float = 0.0
    score: float = 0.0


class _Tests:
    """Which changed images are needed, and what is read from each: terms that claim the same pixels share images."""

    def __init__(self) -> None:
        self._cells: dict[Change, list[Cell]] = defaultdict(list)

    def add(self, change: Change, term: Term) -> None:
        """Asks what a change does to the cell of a term."""
        if cell_of(term) not in self._cells[change]:
            self._cells[change].append(cell_of(term))

    def run(
        self,
        model: PixPNet,
        image: Float[Tensor, "3 height width"],
        fillings: Float[Tensor, "draws 3 height width"],
        progress: Progress | None,
    ) -> dict[tuple[Change, Cell], _Moved]:
        """The largest movement for each change and cell."""
        moved: dict[tuple[Change, Cell], _Moved] = defaultdict(_Moved)
        work = [(change, draw) for change in self._cells for draw in range(len(fillings))]
        size = (image.shape[-2], image.shape[-1])
        for start, part in batches(work, image.numel()):
            masks = torch.stack([change.mask(size) for change, _ in part]).to(image.device)
            filled = fillings[[draw for _, draw in part]]
            # Rounding may depend on the batch, so the unchanged image is part of each.
            images = torch.cat([image[None], torch.where(masks[:, None], filled, image)])
            changes = [change for change, _ in part]
            for key, movement in self._movements(model.grids, matches_of(model, images), changes):
                best = moved[key]
                moved[key] = _Moved(
                    max(best.similarity, movement.similarity),
                    max(best.distance, movement.distance),
                    max(best.score, movement.score),
                )
            if progress is not None:
                progress("proving", start + len(part), len(work))
        return moved

    def _movements(
        self, grids: Sequence[Grid], matches: Matches, changes: Sequence[Change]
    ) -> Iterator[tuple[tuple[Change, Cell], _Moved]]:
        """How far each cell is from where it was in the first image of the batch."""
        for grid in grids:
            read = [
                (number, change, cell)
                for number, change in enumerate(changes, start=1)
                for cell in self._cells[change]
                if cell.grid == grid.number
            ]
            if not read:
                continue
            numbers, prototypes = [number for number, _, _ in read], [cell.prototype - grid.first for *_, cell in read]
            rows, cols = [cell.row for *_, cell in read], [cell.col for *_, cell in read]
            grid_matches = matches.grids[grid.number]
            distances = grid_matches.distance_maps[numbers, prototypes, rows, cols]
            before = grid_matches.distance_maps[[0] * len(read), prototypes, rows, cols]
            similarities, first = (grid.comparison.similarity(distance) for distance in (distances, before))
            scores = grid_matches.scores[numbers, prototypes] - grid_matches.scores[0, prototypes]
            movements = torch.stack([similarities - first, distances - before, scores], dim=1).abs()
            if not movements.isfinite().all():
                # `max` would take no notice of NaN, and the claim would hold.
                raise ValueError("the model's answer to a changed image is not finite, so nothing is proven")
            for (_, change, cell), moved in zip(read, movements.tolist(), strict=True):
                yield (change, cell), _Moved(*moved)


def _deciding(model: PixPNet, output: Output, size: tuple[int, int]) -> tuple[Deciding | None, str]:
    """Which scores decide, or why that cannot be told."""
    try:
        decisive = deciding(model, output.matches, output.logits, 0, size)
    except NoBounds as error:
        return None, str(error)
    return decisive, "" if decisive else "not even all scores decide: two classes are equal up to rounding"


def _measured_distances(model: PixPNet, matches: Matches, terms: Sequence[Term]) -> dict[int, float]:
    """The distance of each term's prototype, as the model measures it now.

    Raises:
        ValueError: if the model gives other numbers than the explanation says.
    """
    for term in terms:
        if not _is_known(model, matches, term):
            raise ValueError(
                f"this model finds other distances than the explanation says (prototype {term.prototype}): give the "
                "model that was explained, on the device where it was"
            )
    return {term.prototype: float(matches.distances[0, term.prototype]) for term in terms}


def _is_known(model: PixPNet, matches: Matches, term: Term) -> bool:
    if not 0 <= term.prototype < model.num_prototypes:
        return False
    grid = model.grid_of(term.prototype)
    rows, cols = matches.grids[grid.number].distance_maps.shape[-2:]
    if grid.number != term.grid or not (0 <= term.cell[0] < rows and 0 <= term.cell[1] < cols):
        return False
    measured = float(matches.distances[0, term.prototype])
    tolerance = min(map(grid.comparison.tolerance, (measured, term.distance)))
    return abs(measured - term.distance) <= _SAME * tolerance


def _claims_of_upsampling(
    model: PixPNet, image: Float[Tensor, "3 height width"], terms: Sequence[Term]
) -> dict[int, Region]:
    """The box that upsampling would draw for each prototype."""
    prototypes = list(dict.fromkeys(term.prototype for term in terms))
    return dict(zip(prototypes, by_upsampling(scene(model, image, prototypes)).regions, strict=True))
