"""Opening the explorer: a server on loopback, and its address with the token."""

import asyncio
import html
import secrets
import socket
import tempfile
import webbrowser
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pixpnet.views.explorer.app import create_app
from pixpnet.views.explorer.explorer import Explorer

LOOPBACK = "127.0.0.1"
PORT = 8765
MOST_CONNECTIONS = 256
HEAD_SECONDS = 10.0


def serve(explorer: Explorer, port: int | None, say: Callable[[str], object], open_browser: bool = False) -> None:
    """Serves an explorer until it is stopped (Ctrl-C).

    Args:
        explorer: the opened run; it is closed at the end.
        port: to listen on, 0 for any that is free; by default 8765, or another one where that is taken.
        say: is given the address.
        open_browser: show it in the browser, too.

    Raises:
        OSError: if the port is taken.
    """
    listening = listen(port)
    number = listening.getsockname()[1]
    token = secrets.token_urlsafe(24)
    address = f"http://{LOOPBACK}:{number}/?token={token}"

    with ExitStack() as afterwards:
        afterwards.callback(listening.close)
        afterwards.callback(explorer.close)

        def announce() -> None:
            say(address)
            if open_browser:
                folder = afterwards.enter_context(tempfile.TemporaryDirectory(prefix="pixpnet-open-"))  # only for us
                webbrowser.open(leading_file(Path(folder), address).as_uri())

        server = _Server(configuration(explorer, number, token), announce)
        try:
            explorer.start()
            server.run(sockets=[listening])
        except KeyboardInterrupt:
            pass  # the way to end it


def leading_file(folder: Path, address: str) -> Path:
    """A page that leads to an address with a token, for nobody else to read.

    A browser is told on its command line what to open, and every user of the computer can read command lines.
    """
    file, quoted = folder / "open.html", html.escape(address)
    file.touch(mode=0o600)
    file.write_text(
        '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>pixpnet</title>'
        f'<meta http-equiv="refresh" content="0; url={quoted}"><a href="{quoted}">pixpnet serve</a>'
    )
    return file


class _Server(uvicorn.Server):
    """Announces itself once it answers: from then on Ctrl-C ends it in order; earlier, it might end half-way."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self.announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.announce()


def configuration(explorer: Explorer, port: int, token: str) -> uvicorn.Config:
    """How the server behaves: it logs nothing, offers no WebSocket, and bounds connections (`_Punctual`)."""
    return uvicorn.Config(
        create_app(explorer, port, token),
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        http=_Punctual,
        h11_max_incomplete_event_size=2**14,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=2,
    )


class _Punctual(H11Protocol):
    """Ends connections that only hold their place: uvicorn bounds neither how many there are nor how long a head takes.

    The head of a request must be there in `HEAD_SECONDS`, whoever goes on sending after the answer is cut off, and what
    is more than `MOST_CONNECTIONS` ends at once. Nobody needs the token for a connection, so other users of the
    computer could otherwise use up the files that this process may open.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
            return
        self._deadline = self.loop.call_later(HEAD_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        waits_for_head = self.conn.their_state is h11.IDLE
        if self._deadline is not None and not waits_for_head:
            self._deadline.cancel()
            self._deadline = None
        elif self._deadline is None and waits_for_head:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.abort)
        if self.cycle is not None and self.cycle.response_complete and self.conn.their_state is h11.SEND_BODY:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)


def listen(port: int | None) -> socket.socket:
    """A socket on loopback, and nowhere else.

    Raises:
        OSError: if the port is taken.
    """
    wanted = [PORT, 0] if port is None else [port]
    for candidate in wanted:
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((LOOPBACK, candidate))
        except OSError as error:
            listening.close()
            if candidate == wanted[-1]:
                raise OSError(
                    f"port {candidate} cannot be used ({error.strerror}): choose another with --port, or --port 0 for "
                    "any that is free"
                ) from error
            continue
        listening.listen(1024)
        return listening
    raise AssertionError("a free port is always the last that is tried")
