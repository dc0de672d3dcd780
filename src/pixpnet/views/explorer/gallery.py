"""The requests of the tab Prototypes: all of them as lines, one as a page, and what is nearest to it.

What a review says comes from the run's folder; where there is none yet, making one is a job. The page filters and sorts
by itself, so that two thousand prototypes are asked for once.
"""

import threading
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pixpnet.box import Box
from pixpnet.metrics.review import NearPatch, Review, Reviews, nearest_patches, read_reviews, review_prototypes
from pixpnet.model import Origin
from pixpnet.parts.ownership import NOBODY
from pixpnet.progress import Progress
from pixpnet.verdicts import Standing
from pixpnet.views.explorer import asking, pictures
from pixpnet.views.explorer.explorer import Explorer
from pixpnet.views.explorer.images import entry_id
from pixpnet.views.explorer.jobs import Result
from pixpnet.views.explorer.mending import Bench, standing_facts
from pixpnet.views.explorer.requests import Handling, prototype_in
from pixpnet.views.pictures import cut_out
from pixpnet.views.prototypes import cell_words, grid_names, origin_pixels
from pixpnet.views.words import number, percent

_NEAREST = 8
Plain = dict[str, Any]


class Gallery:
    """What is known of the prototypes of one explorer's model."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer
        self._reviews: Reviews | None = None
        self._lock = threading.Lock()

    @property
    def reviews(self) -> Reviews | None:
        """What was found out about each prototype; None where nobody has looked yet."""
        with self._lock:
            if self._reviews is None:
                self._reviews = read_reviews(self._explorer.run)
            return self._reviews

    def review(self, progress: Progress) -> Result:
        """Looks at every prototype; the result is kept in the run's folder."""
        # With a model of its own: keeping features freezes the one that it is given.
        reviews = review_prototypes(
            self._explorer.run,
            progress,
            data=self._explorer.images.data(),
            trust_code=self._explorer.trust_code,
        )
        with self._lock:
            self._reviews = reviews
        return Result({"reviewed": len(reviews)})


def routes(explorer: Explorer, bench: Bench) -> list[Route]:
    """What the tab may ask for."""
    model, handling, gallery, shelf = explorer.model, Handling(explorer), Gallery(explorer), pictures.Shelf()

    async def listing(request: Request) -> Response:
        return await handling.json(lambda: _listing(explorer, bench, gallery.reviews))

    async def start_review(request: Request) -> Response:
        return await handling.json(lambda: explorer.jobs.start("Reviewing every prototype", gallery.review))

    async def one(request: Request) -> Response:
        prototype = prototype_in(request, model)
        return await handling.json(lambda: _page(explorer, bench, gallery.reviews, prototype))

    async def crop(request: Request) -> Response:
        prototype = prototype_in(request, model)
        return await handling.picture(lambda: shelf.get(str(prototype), lambda: _crop(explorer, prototype)))

    async def start_nearest(request: Request) -> Response:
        prototype = prototype_in(request, model)
        return await handling.json(
            lambda: explorer.jobs.start(
                f"Looking for what is nearest to prototype {prototype}",
                lambda progress: _nearest(explorer, prototype, progress),
                heavy=gallery.reviews is None,  # a review keeps the scores that this reads
            )
        )

    path = "/api/prototypes/{prototype:str}"
    return [
        Route("/api/prototypes", listing),
        Route("/api/review", start_review, methods=["POST"]),
        Route(path, one),
        Route(f"{path}/crop", crop),
        Route(f"{path}/nearest", start_nearest, methods=["POST"]),
    ]


def _listing(explorer: Explorer, bench: Bench, reviews: Reviews | None) -> Plain:
    """Every prototype in one line, and what is not known yet."""
    standing, owned = bench.log.standing(), explorer.model.ownership.mask().cpu()
    return {
        "reviewed": reviews is not None,
        "images": None if reviews is None else reviews.images,
        "wrong": None if reviews is None else reviews.wrong,
        "known_by": None if reviews is None else reviews.known_by,
        "serial": bench.log.serial,
        "prototypes": [
            _line(
                explorer,
                prototype,
                owned[:, prototype].nonzero().flatten().tolist(),
                None if reviews is None else reviews[prototype],
                standing.get(prototype),
            )
            for prototype in range(explorer.model.num_prototypes)
        ],
    }


def _line(
    explorer: Explorer, prototype: int, owners: Sequence[int], review: Review | None, standing: Standing | None
) -> Plain:
    model = explorer.model
    label = int(model.labels[prototype])
    line: Plain = {
        "number": prototype,
        "label": label,
        "class": "" if label == NOBODY else model.class_names[label],
        "classes": list(owners),
        **standing_facts(standing),
    }
    if review is None:
        return line
    return {
        **line,
        "suspicion": round(review.suspicion, 4),
        "reasons": list(review.reasons),
        "parts": list(review.parts),
        "background": bool(review.on_background),
        "duplicate": bool(review.duplicates),
        "never": review.decides == 0,
        "others": review.other_share is not None and review.other_share > 0,
        "misled": review.misled_count,
        "decides": review.decides,
        "other_share": review.other_share,
        "purity": review.purity,
        "right": review.mean_right,
        "wrong": review.mean_wrong,
        "counts": review.counts,
    }


def _page(explorer: Explorer, bench: Bench, reviews: Reviews | None, prototype: int) -> Plain:
    """Everything that the page of one prototype shows at once."""
    model = explorer.model
    owners = model.ownership.mask().cpu()[:, prototype].nonzero().flatten().tolist()
    review = None if reviews is None else reviews[prototype]
    origin = None if model.origins is None else model.origins[prototype]
    return {
        **_line(explorer, prototype, owners, review, bench.log.standing().get(prototype)),
        "serial": bench.log.serial,
        "class_names": [model.class_names[label] for label in owners],
        "of": model.num_prototypes,
        "size": model.preprocessing.size,
        "origin": None if origin is None else _origin(explorer, origin),
        "reviewed": review is not None,
        "facts": [] if review is None else _facts(review, reviews),
        "misled_images": []
        if review is None
        else [
            {
                "id": _image_id(explorer, "val", image.image),
                "name": image.image,
                "truth": image.class_name,
                "answer": image.answer,
                "adds": number(image.contribution),
            }
            for image in review.misled
        ],
    }


def _origin(explorer: Explorer, origin: Origin) -> Plain:
    model = explorer.model
    names = grid_names(model)
    return {
        "image": origin.image,
        "id": _image_id(explorer, "train", origin.image),
        "class": model.class_names[origin.label],
        "cell": cell_words(model, origin),
        "grid": names[origin.grid] if len(names) > 1 else "",
        "region": _region(origin.boxes),
        "sees": percent(_share(origin.boxes, model.preprocessing.size)),
    }


def _share(boxes: Sequence[Box], side: int) -> float:
    return sum((y1 - y0) * (x1 - x0) for y0, x0, y1, x1 in boxes) / side**2


def _region(boxes: Sequence[Box]) -> Plain | None:
    return asking.region_facts(tuple(boxes))


def _facts(review: Review, reviews: Reviews | None) -> list[list[str]]:
    """What is known of a prototype, as lines of a table: name and words."""
    images = 0 if reviews is None else reviews.images
    known = [
        ("Parts in its region", ", ".join(review.parts) if review.parts else "none annotated"),
        ("Purity", "not known" if review.purity is None else percent(review.purity)),
        (
            "Shows the object",
            "not known" if review.object_share is None else f"{percent(review.object_share)} of what it sees",
        ),
        ("Adds to right answers, mean", "–" if review.mean_right is None else number(review.mean_right)),
        ("Adds to wrong answers, mean", "–" if review.mean_wrong is None else number(review.mean_wrong)),
        ("Answers that depend on it alone", f"{review.decides} of {images}"),
        ("Wrong answers to which it added most", f"{review.misled_count}"),
        (
            "Other classes among its best training images",
            "–" if review.other_share is None else percent(review.other_share),
        ),
        ("Says the same as", ", ".join(map(str, review.duplicates[:5])) or "no other prototype"),
    ]
    return [list(fact) for fact in known]


def _crop(explorer: Explorer, prototype: int) -> pictures.Encoded:
    """What the prototype's own cell saw, exactly; holes and what is not there are white."""
    origin = None if explorer.model.origins is None else explorer.model.origins[prototype]
    seen = None if origin is None else cut_out(origin_pixels(explorer.model, origin), origin.boxes)
    if seen is None:
        raise LookupError(f"prototype {prototype} is no patch of a training image, so there is no picture of it")
    return pictures.thumbnail(seen)


def _nearest(explorer: Explorer, prototype: int, progress: Progress) -> Result:
    near = nearest_patches(
        explorer.run,
        prototype,
        _NEAREST,
        progress,
        data=explorer.images.data(),
        trust_code=explorer.trust_code,
    )
    return Result({"train": _patches(explorer, near.train), "val": _patches(explorer, near.val)})


def _patches(explorer: Explorer, near: Sequence[NearPatch]) -> list[Plain]:
    return [
        {
            "id": _image_id(explorer, patch.split, patch.image),
            "name": patch.image,
            "class": patch.class_name,
            "own": patch.own_class,
            "score": number(patch.score),
            "region": _region(patch.region),
        }
        for patch in near
    ]


def _image_id(explorer: Explorer, split: str, image: str) -> str | None:
    """By which the page knows an image of the data set; None where it is not at hand."""
    return entry_id(split, image) if explorer.images.has(entry_id(split, image)) else None
