"""What the requests of all tabs have in common: work in the answering threads, and friendly errors."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from pixpnet.explanation import UnknownClass
from pixpnet.messages import first_line, on_one_line
from pixpnet.model import PixPNet
from pixpnet.views.explorer.explorer import Explorer
from pixpnet.views.explorer.images import UnknownImage
from pixpnet.views.explorer.jobs import TooManyJobs, UnknownJob
from pixpnet.views.explorer.pictures import Encoded
from pixpnet.views.explorer.uploads import MAX_JSON_BYTES, UploadError

T = TypeVar("T")
_LONGEST_NUMBER = 9


class BadRequest(ValueError):
    """A request that makes no sense; the message says why.

    Attributes:
        status: of the response.
    """

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Handling:
    """Does the work of requests in the threads of an explorer, so that the server goes on answering meanwhile."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer

    async def json(self, work: Callable[[], Mapping[str, Any]]) -> Response:
        """The response to a request whose answer are plain values."""
        return Response(await self._done(lambda: encoded(work())), media_type="application/json")

    async def picture(self, work: Callable[[], Encoded]) -> Response:
        """The response to a request whose answer is a picture; a browser may keep it for an hour."""
        picture = await self._done(work)
        return Response(picture.data, media_type=picture.media_type, headers={"cache-control": "private, max-age=3600"})

    async def _done(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._explorer.workers, work)


def encoded(values: Mapping[str, Any]) -> bytes:
    """Plain values as JSON."""
    return json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def whole_number(text: str, meaning: str) -> int:
    """A number that is not negative, from a request.

    Raises:
        BadRequest: if it is none.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
        raise BadRequest(f"{meaning} is a whole number")
    return int(text)


def prototype_in(request: Request, model: PixPNet) -> int:
    """The prototype that a request names in its path.

    Raises:
        BadRequest: if there is none with that number.
    """
    prototype = whole_number(request.path_params["prototype"], "a prototype")
    if not 0 <= prototype < model.num_prototypes:
        raise BadRequest(f"there is no prototype {prototype}: they are numbered 0 to {model.num_prototypes - 1}", 404)
    return prototype


async def json_body(request: Request, explorer: Explorer) -> dict[str, Any]:
    """The JSON object that a request brings.

    Raises:
        BadRequest: if it brings none.
        UploadError: if it is larger than any that the page makes.
    """
    data = await explorer.uploads.body(request.headers.get("content-length"), request.stream(), MAX_JSON_BYTES)
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadRequest("the request is no JSON") from error
    if not isinstance(values, dict):
        raise BadRequest("the request is no JSON object")
    return values


def error_response(request: Request, error: Exception) -> Response:
    """What the page is told when something went wrong: one sentence that a person understands."""
    for kind, status in STATUS.items():
        if isinstance(error, kind) and not isinstance(error, BUGS):
            return JSONResponse({"error": _sentence(error)}, getattr(error, "status", status))
    # A bug of ours: the server writes the trace to the terminal, and lives on.
    return JSONResponse({"error": "Something went wrong inside: the terminal of pixpnet serve says more."}, 500)


async def bug_response(request: Request, error: Exception) -> Response:
    """Hands a bug on, so that the server writes its trace: `error_response` is asked again behind that."""
    raise error


def _sentence(error: Exception) -> str:
    if not isinstance(error, OSError):
        return on_one_line(first_line(error))
    # Its own message names files.
    logging.getLogger("uvicorn.error").warning("%s", on_one_line(str(error)))
    return f"A file of this run could not be read or written ({error.strerror or 'the disk failed'}): try again."


BUGS = (KeyError, IndexError)
"""Look-ups of ours that fail, unlike a `LookupError` that says what is missing."""
STATUS: dict[type[Exception], int] = {
    BadRequest: 400,
    UploadError: 400,
    UnknownImage: 404,
    UnknownJob: 404,
    UnknownClass: 404,
    TooManyJobs: 429,
    ClientDisconnect: 400,
    ValueError: 400,
    MemoryError: 507,
    LookupError: 404,
    OSError: 507,
}
