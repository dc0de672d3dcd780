"""The application: the page's own files, and the requests of its tabs, behind the guard."""

from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pixpnet.views.explorer import ask, gallery, measures, mending, network, quiz
from pixpnet.views.explorer.explorer import Explorer
from pixpnet.views.explorer.pictures import Encoded
from pixpnet.views.explorer.requests import BUGS, STATUS, Handling, bug_response, error_response, whole_number
from pixpnet.views.explorer.security import Application, Guard
from pixpnet.views.explorer.uploads import MAX_UPLOAD_PIXELS
from pixpnet.views.page import style_sheet
from pixpnet.views.words import percent

_KINDS = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


def create_app(explorer: Explorer, port: int, token: str) -> Application:
    """The explorer of a run as an ASGI application.

    Args:
        explorer: the opened run.
        port: that the server listens on; requests that name another one are refused.
        token: that the page must show.
    """
    bench = mending.Bench(explorer)
    app = Starlette(
        routes=[
            *_page_files(),
            *_common(explorer),
            *ask.routes(explorer),
            *gallery.routes(explorer, bench),
            *mending.routes(explorer, bench),
            *quiz.routes(explorer),
            *network.routes(explorer),
            *measures.routes(explorer),
        ],
        exception_handlers={
            **dict.fromkeys((*STATUS, Exception), error_response),
            **dict.fromkeys(BUGS, bug_response),
            404: _not_found,
            405: _not_found,
        },
    )
    return Guard(app, port, token)


def _page_files() -> list[Route]:
    """The page's own files, read once: what a request names is looked up, not opened."""
    folder = files("pixpnet.views.explorer") / "static"
    held = {
        file.name: Response(file.read_bytes(), media_type=_KINDS[f".{file.name.rpartition('.')[2]}"], headers=_FRESH)
        for file in folder.iterdir()
        if f".{file.name.rpartition('.')[2]}" in _KINDS
    }
    # The same style sheet as that of the report.
    held["page.css"] = Response(style_sheet(), media_type="text/css", headers=_FRESH)

    async def index(request: Request) -> Response:
        return held["index.html"]

    async def static(request: Request) -> Response:
        return held.get(request.path_params["name"]) or _not_found(request, None)

    return [Route("/", index), Route("/static/{name:str}", static)]


_FRESH = {"cache-control": "no-cache"}


def _common(explorer: Explorer) -> list[Route]:
    """What all tabs ask for: the run, and jobs."""
    handling, jobs = Handling(explorer), explorer.jobs

    async def about(request: Request) -> Response:
        return await handling.json(lambda: _about(explorer))

    async def list_jobs(request: Request) -> Response:
        return JSONResponse({"jobs": jobs.listed()})

    async def job(request: Request) -> Response:
        return JSONResponse(jobs.get(request.path_params["job"]))

    async def cancel(request: Request) -> Response:
        return JSONResponse(jobs.cancel(request.path_params["job"]))

    async def job_picture(request: Request) -> Response:
        job_id, picture = request.path_params["job"], whole_number(request.path_params["picture"], "a picture")
        return await handling.picture(lambda: Encoded(jobs.picture(job_id, picture), "image/png"))

    return [
        Route("/api/run", about),
        Route("/api/jobs", list_jobs),
        Route("/api/jobs/{job:str}", job),
        Route("/api/jobs/{job:str}/cancel", cancel, methods=["POST"]),
        Route("/api/jobs/{job:str}/pictures/{picture:str}", job_picture),
    ]


def _about(explorer: Explorer) -> dict[str, Any]:
    """The run in a few facts."""
    model, run = explorer.model, explorer.run
    kind, _, folder = run.config.data.partition(":")
    return {
        "run": run.path.name,
        "data": folder.rstrip("/").rsplit("/", 1)[-1] or kind,
        "model": f"{model.backbone_name} @ {model.backbone.cut}" if model.backbone.cut else model.backbone_name,
        "member": model.member,
        "classes": list(model.class_names),
        "prototypes": model.num_prototypes,
        "patches": model.origins is not None,
        "mean_field": percent(model.mean_field),
        "calibrated": model.calibration is not None,
        "size": model.preprocessing.size,
        "max_bytes": explorer.uploads.max_bytes,
        "max_pixels": MAX_UPLOAD_PIXELS,
    }


def _not_found(request: Request, error: Exception | None) -> Response:
    return JSONResponse({"error": "There is nothing here."}, 404)
