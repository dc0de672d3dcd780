"""The requests of the tab Ask: images in, answers with evidence out, and proofs as jobs."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from torch import Tensor

from pixpnet.data.resample import pixels_of
from pixpnet.explanation import ClassExplanation, Explanation, Term, prove
from pixpnet.explanation.changed_images import matches_of
from pixpnet.explanation.lookups import seen_by
from pixpnet.explanation.shown_proof import changed_images
from pixpnet.model import PixPNet
from pixpnet.parts import Matches
from pixpnet.progress import Progress
from pixpnet.views.explorer import asking, pictures
from pixpnet.views.explorer.explorer import Explorer
from pixpnet.views.explorer.images import SPLITS, Asked, Listed, OfferedSplit
from pixpnet.views.explorer.jobs import Result
from pixpnet.views.explorer.requests import BadRequest, Handling, json_body, prototype_in, whole_number
from pixpnet.views.explorer.uploads import content_id, decoded, shown_name
from pixpnet.views.words import number, percent

_MOST_LISTED = 200
_MOST_CLASSES = 8
_DRAWS = 6
_SORTS = ("doubt", "mistakes", "name")
Handler = Callable[[Request], Awaitable[Response]]


def routes(explorer: Explorer) -> list[Route]:
    """What the tab may ask for."""
    model, images, handling = explorer.model, explorer.images, Handling(explorer)
    shelf = pictures.Shelf()

    async def list_images(request: Request) -> Response:
        query = request.query_params
        return await handling.json(lambda: _listing(explorer, dict(query)))

    async def add_image(request: Request) -> Response:
        data = await explorer.uploads.body(request.headers.get("content-length"), request.stream())
        name = shown_name(request.query_params.get("name", ""))

        def added() -> dict[str, Any]:
            asked = images.add(content_id(data), name, lambda: decoded(data, name))
            return asking.brief(model, asked, explorer.explanation(asked))

        return await handling.json(added)

    async def answer(request: Request) -> Response:
        image_id, classes = request.path_params["image"], _classes(request.query_params.get("classes", ""), model)
        query = dict(request.query_params)

        def answered() -> dict[str, Any]:
            asked = images.get(image_id)
            facts = asking.answer(model, asked, _shown(explorer, asked, classes))
            return {**facts, "neighbours": _neighbours(explorer, image_id, query)}

        return await handling.json(answered)

    async def picture(request: Request) -> Response:
        image_id = request.path_params["image"]
        return await handling.picture(lambda: pictures.png(pictures.sample_pixels(images.get(image_id), model)))

    async def small_picture(request: Request) -> Response:
        image_id = request.path_params["image"]
        return await handling.picture(lambda: shelf.get(image_id, lambda: _thumbnail(explorer, image_id)))

    async def cells(request: Request) -> Response:
        image_id = request.path_params["image"]
        return await handling.json(lambda: _cells(model, images.get(image_id)))

    async def upsampling(request: Request) -> Response:
        image_id, prototype = request.path_params["image"], prototype_in(request, model)

        def claimed() -> dict[str, Any]:
            maps = pictures.upsampled(model, images.get(image_id), prototype)
            return {"region": asking.region_facts(maps.regions[0]), "prototype": prototype}

        return await handling.json(claimed)

    async def heat(request: Request) -> Response:
        image_id, prototype = request.path_params["image"], prototype_in(request, model)
        return await handling.picture(
            lambda: pictures.heat_overlay(pictures.upsampled(model, images.get(image_id), prototype).maps[0])
        )

    async def training_picture(request: Request) -> Response:
        prototype = prototype_in(request, model)
        return await handling.picture(lambda: pictures.training_picture(model, prototype))

    async def start_proof(request: Request) -> Response:
        asked_for = await json_body(request, explorer)
        image_id, classes = str(asked_for.get("image", "")), _classes(str(asked_for.get("classes", "")), model)
        prototype = asked_for.get("prototype")
        if prototype is not None and type(prototype) is not int:
            raise BadRequest("a prototype is named by its number")

        def started() -> dict[str, Any]:
            asked = images.get(image_id)
            explanation = _shown(explorer, asked, classes)
            if prototype is None:
                return explorer.jobs.start(
                    f"Proving every claim about {asked.name}",
                    lambda progress: Result(
                        asking.proven(prove(model, asked.sample, explanation, _DRAWS, progress=progress))
                    ),
                    heavy=False,
                )
            explained, term = _term(explanation, prototype)
            return explorer.jobs.start(
                f"Proving the claim of prototype {prototype} about {asked.name}",
                lambda progress: _proof_of_one(model, asked, explanation, explained, term, progress),
                heavy=False,
            )

        return await handling.json(started)

    def of_image(answering: Handler) -> Handler:
        """A link to an image of the data set may be opened before the data set is."""

        async def answered(request: Request) -> Response:
            if not request.path_params["image"].startswith("upload-"):
                await images.until_opened()
            return await answering(request)

        return answered

    one = "/api/images/{image:str}"
    return [
        Route("/api/images", list_images),
        Route("/api/images", add_image, methods=["POST"]),
        Route(one, of_image(answer)),
        Route(f"{one}/picture", of_image(picture)),
        Route(f"{one}/thumbnail", of_image(small_picture)),
        Route(f"{one}/cells", of_image(cells)),
        Route(f"{one}/upsampling/{{prototype:str}}", of_image(upsampling)),
        Route(f"{one}/heat/{{prototype:str}}", of_image(heat)),
        Route("/api/prototypes/{prototype:str}/picture", training_picture),
        Route("/api/proofs", start_proof, methods=["POST"]),
    ]


def _shown(explorer: Explorer, asked: Asked, classes: tuple[int, ...]) -> Explanation:
    """What the page shows of an image: beside a wrong answer also the right one, which need not be the runner-up."""
    explanation = explorer.explanation(asked, classes)
    if classes or asked.truth in (None, *(explained.class_name for explained in explanation.classes)):
        return explanation
    truth, runner_up = explorer.model.class_names.index(str(asked.truth)), explanation.classes[1].label
    return explorer.explanation(asked, (truth, runner_up))


def _classes(text: str, model: PixPNet) -> tuple[int, ...]:
    """Labels of classes, as the page names them: "3,5"."""
    labels = tuple(dict.fromkeys(whole_number(word, "a class") for word in text.split(",") if word))
    if len(labels) > _MOST_CLASSES:
        raise BadRequest(f"at most {_MOST_CLASSES} classes are explained at a time")
    if wrong := [label for label in labels if not 0 <= label < model.num_classes]:
        raise BadRequest(f"there is no class {wrong[0]}: labels are 0 to {model.num_classes - 1}", 404)
    return labels


def _listing(explorer: Explorer, query: dict[str, str]) -> dict[str, Any]:
    """Some images of the data set, as lines of a table."""
    if not explorer.images.opened:
        return {"state": "opening", "total": 0, "images": []}
    if explorer.images.why_not:
        return {"state": "missing", "why": explorer.images.why_not, "total": 0, "images": []}
    split = query.get("split", "val")
    if split not in SPLITS:
        raise BadRequest("images of validation and training are offered: test images stay closed", 403)
    start = whole_number(query.get("start", "0"), "the first line")
    count = min(_MOST_LISTED, whole_number(query.get("count", "60"), "the number of lines"))
    order = _ordered(explorer, split, query)
    return {
        "state": "ready",
        "split": SPLITS[split],
        "total": len(order),
        "answered": any(image.logits is not None for image in order),
        "images": [asking.listed_line(explorer.model, image) for image in order[start : start + count]],
    }


def _ordered(explorer: Explorer, split: OfferedSplit, query: dict[str, str]) -> list[Listed]:
    """The images of a split, those of one class if the query says so, in the order that it names."""
    sort = query.get("sort", "doubt")
    if sort not in _SORTS:
        raise BadRequest(f"images are sorted by {', '.join(_SORTS)}")
    label = whole_number(query["label"], "a class") if query.get("label") else None
    listed = [image for image in explorer.images.listed(split) if label is None or image.entry.label == label]
    return sorted(listed, key=_ORDERS[sort]) if sort != "name" else listed


def _neighbours(explorer: Explorer, image_id: str, query: dict[str, str]) -> dict[str, Any] | None:
    """The images before and behind one in the list that a person comes from; None where it is in none."""
    if not explorer.images.has(image_id):
        return None
    order = [image.id for image in _ordered(explorer, explorer.images.find(image_id).split, {"sort": "name", **query})]
    if image_id not in order:
        return None
    position = order.index(image_id)
    return {
        "number": position + 1,
        "of": len(order),
        "previous": order[position - 1] if position else None,
        "next": order[position + 1] if position + 1 < len(order) else None,
    }


def _lead(image: Listed) -> float:
    """By how much the answer is ahead: small where there is doubt."""
    if image.logits is None:
        return 0.0
    first, second = image.logits.topk(2).values.tolist()
    return float(first - second)


def _mistake(image: Listed) -> tuple[bool, float]:
    """Wrong answers first, the surest of them first."""
    if image.logits is None:
        return True, 0.0
    wrong = int(image.logits.argmax()) != image.entry.label
    return not wrong, -_lead(image) if wrong else _lead(image)


_ORDERS: dict[str, Any] = {"doubt": _lead, "mistakes": _mistake}


def _thumbnail(explorer: Explorer, image_id: str) -> pictures.Encoded:
    if image_id.startswith("upload-"):
        return pictures.thumbnail(pictures.sample_pixels(explorer.images.get(image_id), explorer.model))
    return pictures.thumbnail(pixels_of(explorer.images.read(explorer.images.find(image_id))))


def _cells(model: PixPNet, asked: Asked) -> dict[str, Any]:
    """The exact field of every cell of every grid; where an image moves what a cell sees, that of this image."""
    image = asked.sample.image.as_subclass(Tensor)
    size = (image.shape[-2], image.shape[-1])
    grids = []
    matches: Matches | None = None
    for seen in seen_by(model, size):
        moves = seen.grid.comparison.moves is not None
        if moves and matches is None:
            matches = matches_of(model, image[None].to(model.device))
        _, rows, cols = seen.field.shape
        places = matches.grids[seen.grid.number].places_at if moves and matches is not None else None
        regions = [
            [seen.region((row, col), () if places is None else places(0, (row, col))) for col in range(cols)]
            for row in range(rows)
        ]
        grids.append(
            {
                "layer": model.grid_layers[seen.grid.number],
                "rows": rows,
                "cols": cols,
                "cells": [
                    {**(asking.region_facts(region.boxes) or {"path": "", "hull": None}), "sees": percent(region.share)}
                    for line in regions
                    for region in line
                ],
            }
        )
    return {"grids": grids}


def _term(explanation: Explanation, prototype: int) -> tuple[ClassExplanation, Term]:
    for explained in explanation.classes:
        for term in explained.terms:
            if term.prototype == prototype:
                return explained, term
    raise BadRequest(f"prototype {prototype} is no part of this explanation", 404)


def _proof_of_one(
    model: PixPNet, asked: Asked, explanation: Explanation, explained: ClassExplanation, term: Term, progress: Progress
) -> Result:
    """The test of one claim, with the images that the network was run on."""
    # A path of one node would be no path: the claim about its cell is the same.
    single = replace(explanation, classes=(replace(explained, terms=(term,), path=None),))
    proven = prove(model, asked.sample, single, _DRAWS, progress=progress)
    progress("looking at the changed images", 1, 1)
    shown = changed_images(model, asked.sample, explanation, term, _DRAWS)
    unchanged, *changed = shown
    values = {
        **asking.proven(proven),
        "deciding": "",
        "prototype": term.prototype,
        "changed": [
            {
                "change": image.change,
                "similarity": number(image.similarity),
                "moved": asking.moved_words(image.similarity - unchanged.similarity),
                "inside": index > _DRAWS,
            }
            for index, image in enumerate(shown)
        ],
    }
    return Result(values, tuple(pictures.png(image.pixels).data for image in (unchanged, *changed)))
