"""Pictures that a person gives to the page: bounded in bytes, time and pixels, and decoded in memory.

They come as the plain body of a request. Nothing is written to the disk, and a name that comes with a picture is a
label to be shown, nothing else.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator

from pixpnet.class_names import printable
from pixpnet.data import ImageError
from pixpnet.data.decode import decode
from pixpnet.data.intact import refuse_damaged
from pixpnet.data.reader import UNKNOWN
from pixpnet.data.sample import NO_ANNOTATION, Sample, source_sample

MAX_BYTES = 25 * 2**20
MAX_JSON_BYTES = 64 * 2**10
"""Of a request that is no picture; the longest that the page makes, a verdict with a note, has a few thousand."""
MAX_UPLOAD_PIXELS = 50_000_000
"""As many as the cameras of telephones have; decoded they are 150 MB."""
_AT_ONCE = 8
_LONGEST_NAME = 120


class UploadError(ValueError):
    """A picture that is not taken; the message is for the person who gave it.

    Attributes:
        status: of the response.
    """

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Uploads:
    """Reads bodies of requests, a few at a time: the others wait before they send anything.

    Args:
        max_bytes: of one body.
        seconds: that one body may take.
    """

    def __init__(self, max_bytes: int = MAX_BYTES, seconds: float = 30.0) -> None:
        self.max_bytes, self.seconds = max_bytes, seconds
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def body(self, declared: str | None, stream: AsyncIterator[bytes], most: int | None = None) -> bytes:
        """The whole body of a request.

        Args:
            declared: its header Content-Length, where it has one; that is a claim, and the bytes are counted.
            stream: its pieces.
            most: bytes that it may have, where that is less than a picture may have.

        Raises:
            UploadError: if it is too large, too slow or empty.
        """
        if declared is not None and (not declared.isascii() or not declared.isdigit()):
            raise UploadError("the length of the upload is no number")
        limit = self.max_bytes if most is None else min(most, self.max_bytes)
        if declared is not None and int(declared) > limit:
            raise _too_large(limit)
        async with self._turn:
            try:
                async with asyncio.timeout(self.seconds):
                    data = await _collected(stream, limit)
            except TimeoutError as error:
                raise UploadError(f"The upload took longer than {self.seconds:g} seconds: try again", 408) from error
        if not data:
            raise UploadError("Nothing came: choose a picture file")
        return data


async def _collected(stream: AsyncIterator[bytes], limit: int) -> bytes:
    data = bytearray()
    async for piece in stream:
        data += piece
        if len(data) > limit:
            raise _too_large(limit)
    return bytes(data)


def _too_large(limit: int) -> UploadError:
    size = f"{limit // 2**20} MB" if limit >= 2**20 else f"{limit // 2**10} kB"
    return UploadError(f"What was sent is larger than {size}: make it smaller and ask again", 413)


def shown_name(name: str) -> str:
    """What to call a picture whose name comes from outside: the last part, visible, and not too long.

    >>> shown_name("../../etc/passwd"), shown_name("")
    ('passwd', 'picture')
    """
    last = printable(name.replace("\\", "/").rsplit("/", 1)[-1]).strip()
    return (last if len(last) <= _LONGEST_NAME else f"{last[: _LONGEST_NAME - 1]}…") or "picture"


def decoded(data: bytes, name: str) -> Sample:
    """A picture file's content as a sample, upright, not yet preprocessed.

    Raises:
        UploadError: if it is no picture that can be read; the message says why.
    """
    try:
        pixels = decode(data, upright=True, max_pixels=MAX_UPLOAD_PIXELS)
        refuse_damaged(data)
    except ImageError as error:
        raise UploadError(f"{name} cannot be read: {error}", 422) from error
    return source_sample(pixels, UNKNOWN, name, NO_ANNOTATION, masks=None)


def content_id(data: bytes) -> str:
    """The id of an uploaded picture: what is in it decides, so the same file has the same id."""
    return f"upload-{hashlib.blake2b(data, digest_size=12).hexdigest()}"
