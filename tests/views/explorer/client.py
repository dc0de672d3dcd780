"""A served explorer, and a client that says exactly what it is told to: no library sets headers for it."""

import io
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from PIL import Image

from pixpnet.views.explorer.explorer import Explorer
from pixpnet.views.explorer.serving import configuration, listen
from pixpnet.views.explorer.uploads import Uploads

TOKEN = "correct-horse-battery-staple"


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Served:
    port: int
    explorer: Explorer

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        return f"http://{self.host}/?token={TOKEN}"

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> Reply:
        """A request as the page makes it; a header that is None is left out."""
        own: dict[str, str | None] = {"Host": self.host, "X-Pixpnet-Token": TOKEN}
        if method != "GET":
            own["Origin"] = f"http://{self.host}"
        own.update(headers or {})
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in own.items():
            if value is not None:
                connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        reply = Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        connection.close()
        return reply

    def post(self, path: str, values: Any) -> Reply:
        return self.ask(path, "POST", json.dumps(values).encode())

    def upload(self, data: bytes, name: str = "picture.png") -> Reply:
        return self.ask(f"/api/images?name={name}", "POST", data)

    def ended(self, job: Mapping[str, Any]) -> Mapping[str, Any]:
        """A job when it has ended; a test that waits for ever is stopped by its runner."""
        known = job
        while known["state"] in ("waiting", "running"):
            time.sleep(0.02)
            known = self.ask(f"/api/jobs/{known['id']}").json
        return known

    def raw(self, text: bytes) -> bytes:
        """The beginning of what is answered to these very bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(text)
            return connection.recv(65536)


@contextmanager
def served(
    run: Path, uploads: Uploads | None = None, moved_to: str | None = None, open_data: bool = True
) -> Iterator[Served]:
    explorer = Explorer(run, uploads=uploads, moved_to=moved_to)
    listening = listen(0)
    port = listening.getsockname()[1]
    server = uvicorn.Server(configuration(explorer, port, TOKEN))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    if open_data:
        explorer.images.open_data()
    thread.start()
    try:
        yield Served(port, explorer)
    finally:
        server.should_exit = True
        thread.join()
        explorer.close()
        listening.close()


def picture(seed: int = 0, size: tuple[int, int] = (32, 32), mode: str = "RGB", kind: str = "png") -> bytes:
    """The file of a picture of noise."""
    rng = np.random.default_rng(seed)
    image = Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)).convert(mode)
    file = io.BytesIO()
    image.save(file, format=kind)
    return file.getvalue()
