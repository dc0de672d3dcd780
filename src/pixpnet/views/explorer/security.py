"""Who may talk to the explorer: this computer's browser, with the token of the printed address, and nobody else.

A page from elsewhere that a person has open can make the browser send requests to a server on loopback, also under a
name of its own that it lets point there (DNS rebinding); and other users of the computer can connect to the port. So:

- the header Host must name this server (against rebinding);
- an Origin must be this server's, and whatever changes something must have one; so must the browser's own word about
  where a request comes from (Sec-Fetch-Site), where it gives one;
- whatever says or does something needs the token: in a header, or in the address of a picture, which an `img` asks for.
  It is no cookie, because browsers send cookies to all ports of a host, and another user's server may be one of them.

Without the token there are only the page's own files, which are the same for everybody.
"""

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from starlette.responses import JSONResponse

TOKEN_HEADER = "x-pixpnet-token"  # noqa: S105  the name of a header
_SAFE_METHODS = frozenset({"GET", "HEAD"})
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(self), microphone=(), geolocation=(), display-capture=(), usb=()",
}

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Guard:
    """Stands before an application: refuses whoever may not talk to it, and puts security headers on every response.

    Args:
        app: what is guarded.
        port: that the server listens on.
        token: that requests below `/api/` must show.
    """

    def __init__(self, app: Application, port: int, token: str) -> None:
        self._app = app
        self._hosts = frozenset(f"{name}:{port}".encode() for name in ("127.0.0.1", "localhost"))
        self._origins = frozenset(b"http://" + host for host in self._hosts)
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request through, or answers it with a refusal."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no WebSocket is ever opened
            await send({"type": "websocket.close", "code": 1008})
            return

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message.get("headers", ())}
                extra = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                extra.append((b"cache-control", b"no-store"))
                message["headers"] = [
                    *message.get("headers", ()),
                    *(header for header in extra if header[0] not in given),
                ]
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        """Why a request is not let through; None if it is."""
        named: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            named.setdefault(name, []).append(value)
        if len(hosts := named.get(b"host", [])) != 1 or hosts[0].lower() not in self._hosts:
            return _refused(421, "This server answers to 127.0.0.1 only: open the address that it printed.")
        origins = named.get(b"origin", [])
        if len(origins) > 1 or any(origin not in self._origins for origin in origins):
            return _refused(403, "Another page may not ask this server.")
        safe = scope["method"] in _SAFE_METHODS
        if not safe and not origins:
            return _refused(403, "Only the page of this server may change something: the header Origin is missing.")
        elsewhere = any(site not in (b"same-origin", b"none") for site in named.get(b"sec-fetch-site", []))
        # A link to the page itself may be anywhere; what it then asks for is its own.
        if elsewhere and not (scope["path"] == "/" and named.get(b"sec-fetch-mode") == [b"navigate"]):
            return _refused(403, "Another page may not ask this server.")
        if scope["path"].startswith("/api/") and not self._is_known(named, scope["query_string"] if safe else b""):
            return _refused(
                401, "The token is missing or wrong: open the address that pixpnet serve printed, with its token."
            )
        return None

    def _is_known(self, named: dict[bytes, list[bytes]], query: bytes) -> bool:
        shown = named.get(TOKEN_HEADER.encode(), [])
        if not shown:
            shown = [value.encode() for value in parse_qs(query.decode("latin-1")).get("token", [])]
        return len(shown) == 1 and hmac.compare_digest(shown[0], self._token)


def _refused(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status, headers={"connection": "close"})
