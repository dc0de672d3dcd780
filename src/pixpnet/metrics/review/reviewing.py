"""`review_prototypes`: everything that is known of each prototype, from kept scores and one look at training images."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from pixpnet.data import DataSet, Sample, preprocess
from pixpnet.metrics.consistency import best_parts
from pixpnet.metrics.health.background import on_background
from pixpnet.metrics.health.duplicates import near_rows
from pixpnet.metrics.health.patches import Patch, object_share, patches
from pixpnet.metrics.owners import owners_of
from pixpnet.metrics.part_hits import part_count, part_hits
from pixpnet.metrics.regions import Cell, CellRegions, object_mask
from pixpnet.metrics.review.record import MisledImage, Review, Reviews
from pixpnet.metrics.review.suspicion import with_suspicion
from pixpnet.model import PixPNet
from pixpnet.model.origin_images import origin_images
from pixpnet.parts import Sum
from pixpnet.progress import Progress
from pixpnet.records import from_plain, to_json, to_plain
from pixpnet.training import Run
from pixpnet.training.mending.scores import REVIEW_FOLDER, PrototypeScores, prototype_scores
from pixpnet.whole_file import read_text, written_whole

REVIEWS_FILE = "reviews.json"
NEAREST = 10
"""How many training images with the highest scores are looked at."""
_LEAST_OBJECT = 0.1
_MOST_MISLED = 10
_LARGEST = 2**28
KnownBy = Literal["masks", "keypoints", "box", "nothing"]


def review_prototypes(
    run: Run | Path | str,
    progress: Progress | None = None,
    *,
    model: PixPNet | None = None,
    data: DataSet | None = None,
    trust_code: bool = False,
) -> Reviews:
    """What is known of each prototype of a run, and in which order a person should look at them.

    It is kept in the run's folder with the hash of the model, and read from there the next time. The test split stays
    closed.

    Args:
        run: a finished run.
        progress: told how far it is.
        model: of the run, where it is open already.
        data: of the run, where they are open already.
        trust_code: the backbone may be code that the run names, which is imported and called.
    """
    folder = Run.of(run)
    stored = read_reviews(folder)
    if stored is not None:
        return stored
    model = folder.model(trust_code) if model is None else model
    data = folder.data(progress) if data is None else data
    val, train = (prototype_scores(folder, split, model, data, progress) for split in ("val", "train"))
    answers = _Answers(model, val)
    looked_at = patches(model, data, lambda: None) if model.origins is not None else []
    places = {patch.prototype: patch for patch in looked_at}
    boxes, known_by = _object_shares(model, data, looked_at)
    highest = _highest(model, train)
    purity = _purities(model, data, train, highest, progress)
    twins, owners = _twins(model), owners_of(model)
    counts = model.head.uses(0.0).cpu() | _negative(model)
    reviews = []
    for number in range(model.num_prototypes):
        origin = None if model.origins is None else model.origins[number]
        label = int(model.labels[number])
        others = [int(train.labels[image]) for image in highest[number]]
        strangers = [other for other in others if other not in owners[number]]
        misled = answers.misled(number)
        share, background = boxes.get(number, (None, None))
        reviews.append(
            Review(
                prototype=number,
                class_name="" if label < 0 else model.class_names[label],
                counts=bool(counts[number]),
                image=None if origin is None else origin.image,
                region=() if origin is None else origin.boxes,
                on_background=background,
                object_share=share,
                parts=_part_names(places.get(number), data),
                duplicates=twins[number],
                decides=int(answers.decided[number]),
                other_share=len(strangers) / len(others) if owners[number] and others else None,
                other_classes=tuple(model.class_names[other] for other, _ in Counter(strangers).most_common()),
                misled=misled[:_MOST_MISLED],
                misled_count=len(misled),
                purity=purity[number],
                mean_right=answers.mean(number, right=True),
                mean_wrong=answers.mean(number, right=False),
            )
        )
    result = Reviews(folder.fingerprint(), with_suspicion(reviews, len(val)), len(val), answers.wrong, known_by)
    path = folder.path / REVIEW_FOLDER / REVIEWS_FILE
    path.parent.mkdir(exist_ok=True)
    with written_whole(path) as temporary:
        temporary.write_text(to_json(to_plain(result)), encoding="utf-8")
    return result


def read_reviews(run: Run | Path | str) -> Reviews | None:
    """What `review_prototypes` kept; None where there is nothing, or nothing of the run's model as it is now."""
    folder = Run.of(run)
    try:
        plain = json.loads(read_text(folder.path / REVIEW_FOLDER / REVIEWS_FILE, _LARGEST))
        reviews = from_plain(Reviews, plain, REVIEWS_FILE)
    except (OSError, ValueError, RecursionError):
        return None  # it is made again
    return reviews if reviews.model == folder.fingerprint() else None


class _Answers:
    """What each prototype added to the answers to validation images."""

    def __init__(self, model: PixPNet, seen: PrototypeScores) -> None:
        self._model, self._seen = model, seen
        scores = seen.scores.to(model.device, model.dtype)
        with torch.no_grad():
            logits = model.head.logits(scores)
            self.decided = torch.zeros(model.num_prototypes, dtype=torch.int64)
            for some in scores.split(256):
                self.decided += model.head.decides(some).sum(dim=0).cpu()
            self.answers = logits.argmax(dim=1).cpu()
            self._right = self.answers == seen.labels
            addends = [_addends(model, scores[image], int(self.answers[image])) for image in range(len(scores))]
        self.wrong = int((~self._right).sum())
        # Images x prototypes; NaN where they are not connected.
        self._addends = None if any(row is None for row in addends) or not addends else torch.stack(addends)  # type: ignore[arg-type]
        # Of each image: the prototype that added most.
        self._best = None if self._addends is None else self._addends.nan_to_num(-torch.inf).argmax(dim=1)

    def mean(self, prototype: int, right: bool) -> float | None:
        if self._addends is None:
            return None
        values = self._addends[self._right if right else ~self._right, prototype]
        values = values[~values.isnan()]
        return float(values.mean()) if len(values) else None

    def misled(self, prototype: int) -> tuple[MisledImage, ...]:
        """Wrong answers to which it added most, largest first."""
        if self._addends is None or self._best is None:
            return ()
        names, seen = self._model.class_names, self._seen
        images_misled = (~self._right & (self._best == prototype)).nonzero().flatten().tolist()
        images = [
            MisledImage(
                seen.ids[image],
                names[int(seen.labels[image])],
                names[int(self.answers[image])],
                float(self._addends[image, prototype]),
            )
            for image in images_misled
        ]
        return tuple(sorted(images, key=lambda image: -image.contribution))


def _addends(model: PixPNet, scores: Float[Tensor, " protos"], answer: int) -> Float[Tensor, " protos"] | None:
    """What each prototype adds to the logit of the answer; NaN where it is not connected. None for a tree."""
    reasons = model.head.reasons(scores, [answer])
    if not isinstance(reasons, Sum):
        return None
    weights = reasons.weights[0].cpu()
    return torch.where(weights != 0, weights * scores.cpu(), torch.nan)


def _negative(model: PixPNet) -> Tensor:
    """Prototypes that count against some class only."""
    counts = torch.zeros(model.num_prototypes, dtype=torch.bool)
    probe = torch.ones(1, model.num_prototypes, device=model.device, dtype=model.dtype)
    for label in range(model.num_classes):
        reasons = model.head.reasons(probe[0], [label])
        if not isinstance(reasons, Sum):
            return torch.ones_like(counts)
        for prototype, _ in reasons.connections()[0]:
            counts[prototype] = True
    return counts


def _object_shares(
    model: PixPNet, data: DataSet, looked_at: list[Patch]
) -> tuple[dict[int, tuple[float | None, bool | None]], KnownBy]:
    """For each prototype the share of its region that shows the object, and whether that is too little."""
    known: dict[int, tuple[float | None, bool | None]] = {
        patch.prototype: (patch.object_share, on_background(patch, _LEAST_OBJECT)) for patch in looked_at
    }
    if any(patch.masks for patch in looked_at):
        return known, "masks"
    known_by: KnownBy = "keypoints" if any(verdict is not None for _, verdict in known.values()) else "nothing"
    for image in origin_images(model.origins or (), data):
        shown = object_mask(image.read(model, data))
        if shown is None:
            continue
        known_by = "box" if known_by == "nothing" else known_by
        for origin in image.origins:
            share = object_share(origin.boxes, shown)
            verdict = known.get(origin.prototype, (None, None))[1]
            if verdict is None and share is not None:
                verdict = share < _LEAST_OBJECT
            known[origin.prototype] = share, verdict
    return known, known_by


def _part_names(patch: Patch | None, data: DataSet) -> tuple[str, ...]:
    if patch is None:
        return ()
    return tuple(data.part_names[part] for part in patch.hit.nonzero().flatten().tolist())


def _highest(model: PixPNet, train: PrototypeScores) -> list[list[int]]:
    """For each prototype the training images that score highest, its own image apart; of equals the first."""
    order = train.scores.argsort(dim=0, descending=True, stable=True)[: NEAREST + 1].T.tolist()
    own = [None if model.origins is None else model.origins[number].image for number in range(len(order))]
    return [
        [image for image in images if train.ids[image] != source][:NEAREST]
        for images, source in zip(order, own, strict=True)
    ]


@dataclass(frozen=True)
class _Points:
    """Where the annotated points of an image lie."""

    keypoints: Tensor
    visible: Tensor


def _purities(
    model: PixPNet, data: DataSet, train: PrototypeScores, highest: list[list[int]], progress: Progress | None
) -> list[float | None]:
    """How often the part that each prototype shows most often lies in its exact region, in its best images."""
    moves = any(grid.comparison.num_places for grid in model.grids)
    if not data.point_parts or moves:
        return [None] * model.num_prototypes
    points = _points_of(model, data, {image for images in highest for image in images}, train, progress)
    side = model.preprocessing.size
    regions = CellRegions(model, (side, side))
    grid_of = [grid.number for grid in model.grids for _ in grid.prototypes]
    parts = part_count(data.point_parts)
    hits, seen = (torch.zeros(model.num_prototypes, parts, dtype=torch.int64) for _ in range(2))
    for number, images in enumerate(highest):
        for image in images:
            row, col = train.cells[image, number].tolist()
            region = regions.region(Cell(grid_of[number], row, col))
            own = points[image]
            here = part_hits([region], own.keypoints, own.visible, data.point_parts)
            hits[number] += here.hit[0]
            seen[number] += here.visible
    return [None if best is None else best.frequency for best in best_parts(hits, seen)]


def _points_of(
    model: PixPNet, data: DataSet, images: Iterable[int], train: PrototypeScores, progress: Progress | None
) -> dict[int, _Points]:
    entries = {entry.id: entry for entry in data.train}
    wanted = sorted(images)
    points: dict[int, _Points] = {}
    for done, image in enumerate(wanted, start=1):
        sample: Sample = preprocess(data.reader(entries[train.ids[image]]), model.preprocessing)
        points[image] = _Points(sample.keypoints.as_subclass(Tensor), sample.visible)
        if progress is not None:
            progress("parts that prototypes show", done, len(wanted))
    return points


def _twins(model: PixPNet) -> list[tuple[int, ...]]:
    """Prototypes that are the same patch as each, or nearly the same vector."""
    twins: list[set[int]] = [set() for _ in range(model.num_prototypes)]
    if model.origins is not None:
        by_patch: dict[object, list[int]] = {}
        for origin in model.origins:
            by_patch.setdefault((origin.image, origin.boxes), []).append(origin.prototype)
        for group in by_patch.values():
            for number in group:
                twins[number].update(group)
    for rows, near in near_rows(model):
        for row, number in enumerate(rows.tolist()):
            twins[number].update(near[row].nonzero().flatten().tolist())
    return [tuple(sorted(others - {number})) for number, others in enumerate(twins)]
