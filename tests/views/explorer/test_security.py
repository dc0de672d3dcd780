"""Attacks on the explorer: other hosts, other pages, no token, paths, bombs, and more than it can take."""

import io
import re
import socket
import struct
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image

from pixpnet.progress import Progress
from pixpnet.views.explorer import serving
from pixpnet.views.explorer.jobs import Result
from pixpnet.views.explorer.serving import listen
from pixpnet.views.explorer.uploads import MAX_JSON_BYTES, Uploads
from tests.views.explorer.client import TOKEN, Served, picture, served

ASKED = ("/api/run", "/api/images", "/api/jobs", "/api/prototypes/0/picture", "/api/network", "/api/measures")


def test_it_listens_on_loopback_and_nowhere_else() -> None:
    with listen(0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("path", ["/", "/static/app.js", *ASKED])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", None, "localhost"])
def test_a_request_that_names_another_host_is_refused(explorer: Served, path: str, host: str | None) -> None:
    named = None if host is None else host.format(port=explorer.port)
    reply = explorer.ask(path, headers={"Host": named})
    assert reply.status in (400, 421)
    assert b"prototype" not in reply.body and b"<script" not in reply.body


def test_two_hosts_are_refused(explorer: Served) -> None:
    text = f"GET /api/run HTTP/1.1\r\nHost: {explorer.host}\r\nHost: evil.example\r\nX-Pixpnet-Token: {TOKEN}\r\n\r\n"
    assert re.match(rb"HTTP/1.1 4\d\d", explorer.raw(text.encode()))


@pytest.mark.parametrize("path", ASKED)
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"])
def test_another_page_is_refused_even_with_the_token(explorer: Served, path: str, origin: str) -> None:
    assert explorer.ask(path, headers={"Origin": origin.format(port=explorer.port)}).status == 403


@pytest.mark.parametrize("path", ["/api/images", "/api/proofs", "/api/jobs/x/cancel"])
def test_what_changes_something_must_say_its_origin(explorer: Served, path: str) -> None:
    assert explorer.ask(path, "POST", b"{}", headers={"Origin": None}).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_the_browsers_word_that_a_request_is_from_elsewhere_is_believed(explorer: Served, site: str) -> None:
    assert explorer.ask("/api/run", headers={"Sec-Fetch-Site": site}).status == 403
    assert explorer.ask("/static/app.js", headers={"Sec-Fetch-Site": site}).status == 403
    assert explorer.ask("/api/run", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}).status == 403
    # A link to the page itself may be anywhere.
    assert explorer.ask("/", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}).status == 200


@pytest.mark.parametrize("path", [*ASKED, "/api/", "/api/nothing"])
@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "é"])
def test_without_the_token_nothing_is_said(explorer: Served, path: str, token: str | None) -> None:
    reply = explorer.ask(path, headers={"X-Pixpnet-Token": token})
    assert reply.status == 401
    assert "token" in reply.json["error"]


def test_two_tokens_are_refused(explorer: Served) -> None:
    for query in (f"token=wrong&token={TOKEN}", f"token={TOKEN}&token=wrong"):
        assert explorer.ask(f"/api/run?{query}", headers={"X-Pixpnet-Token": None}).status == 401


def test_a_picture_may_be_asked_for_with_the_token_in_its_address_and_a_change_may_not(explorer: Served) -> None:
    assert explorer.ask(f"/api/run?token={TOKEN}", headers={"X-Pixpnet-Token": None}).status == 200
    changed = explorer.ask(f"/api/images?token={TOKEN}", "POST", picture(), headers={"X-Pixpnet-Token": None})
    assert changed.status == 401


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/static/nothing", "/api/run", "/api/nothing", "/nowhere"])
def test_every_response_has_the_headers_that_keep_a_browser_in_check(explorer: Served, path: str) -> None:
    for headers in ({}, {"X-Pixpnet-Token": None}, {"Host": "evil.example"}):
        reply = explorer.ask(path, headers=headers)
        policy = dict(part.split(" ", 1) for part in reply.headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in reply.headers
        assert "server" not in reply.headers


def test_the_page_has_no_script_or_style_in_its_markup(explorer: Served) -> None:
    page = explorer.ask("/").body.decode()
    assert re.findall(r"<script[^>]*>", page) == ['<script type="module" src="/static/app.js">']
    assert not re.search(r"<style|style=|\son\w+=|javascript:|https?://", page)


TRAVERSALS = (
    "../../../../etc/passwd",
    "..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "..%5c..%5cetc%5cpasswd",
    "%2fetc%2fpasswd",
    "file:%2f%2f%2fetc%2fpasswd",
    "config.yaml",
    "..%00",
    "-1",
    "0x0",
    "1e3",
    "%F0%9D%9F%8E",  # a digit that is none of ASCII
    "9" * 5000,
)


@pytest.mark.parametrize("word", TRAVERSALS)
@pytest.mark.parametrize(
    "path",
    [
        "/{}",
        "/static/{}",
        "/api/images/{}",
        "/api/images/{}/picture",
        "/api/images/{}/thumbnail",
        "/api/images/{}/cells",
        "/api/images/{image}/heat/{}",
        "/api/images/{image}/upsampling/{}",
        "/api/images/{image}?classes={}",
        "/api/images?split={}",
        "/api/images?sort={}",
        "/api/images?start={}",
        "/api/images?count={}",
        "/api/images?label={}",
        "/api/prototypes/{}/picture",
        "/api/jobs/{}",
        "/api/jobs/{}/pictures/0",
        "/api/jobs/x/pictures/{}",
    ],
)
def test_no_parameter_leads_to_a_file(explorer: Served, path: str, word: str) -> None:
    reply = explorer.ask(path.replace("{image}", "val-0").replace("{}", word))
    assert 400 <= reply.status < 500
    assert b"root:" not in reply.body and b"backbone:" not in reply.body and b"Traceback" not in reply.body


def test_a_name_from_outside_is_shown_and_never_written(explorer: Served, run_folder: Path) -> None:
    before = sorted(path.name for path in run_folder.rglob("*"))
    reply = explorer.ask("/api/images?name=..%2F..%2Fevil%0A%1B[2J.png", "POST", picture(1))
    assert reply.status == 200
    assert reply.json["name"] == "evil??[2J.png"
    assert sorted(path.name for path in run_folder.rglob("*")) == before
    assert not list(run_folder.parent.rglob("evil*"))


def test_test_images_stay_closed(explorer: Served, run_folder: Path) -> None:
    openings = (run_folder / "openings.jsonl").read_text()
    assert explorer.ask("/api/images?split=test").status == 403
    names = {
        line["name"]
        for split in ("val", "train")
        for line in explorer.ask(f"/api/images?split={split}&count=200").json["images"]
    }
    assert names and not [name for name in names if name.startswith("test/")]
    assert (run_folder / "openings.jsonl").read_text() == openings


def bomb(side: int) -> bytes:
    """A small PNG file that says it is a large picture, and is."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compressobj(9)
    data = b"".join(rows.compress(b"\0" * (side // 8 + 1)) for _ in range(side)) + rows.flush()
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def truncated() -> bytes:
    whole = picture(2, (64, 64), kind="jpeg")
    return whole[: len(whole) // 2]


def animated() -> bytes:
    file = io.BytesIO()
    frames = [Image.new("RGB", (16, 16), color) for color in ("red", "green")]
    frames[0].save(file, format="gif", save_all=True, append_images=frames[1:])
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (bomb(12_000), "decompression bomb"),
        (truncated(), "truncated"),
        (b"no picture at all", "not an image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "not an image"),
        (animated(), "animated"),
        (b"\xff\xd8\xff\xc0\x00\x11\x08\xff\xff\xff\xff\x03", ""),
        (b"\x89PNG\r\n\x1a\n", ""),
    ],
    ids=["bomb", "truncated", "text", "svg", "animated", "jpeg bomb", "png head"],
)
def test_a_bad_picture_is_a_friendly_message_and_the_server_lives_on(
    explorer: Served, data: bytes, reason: str
) -> None:
    reply = explorer.upload(data, "odd.png")
    assert reply.status == 422
    assert reply.json["error"].startswith("odd.png cannot be read: ")
    assert reason in reply.json["error"]
    assert explorer.upload(picture()).status == 200


def test_an_empty_upload_is_a_friendly_message(explorer: Served) -> None:
    assert "Nothing came" in explorer.upload(b"").json["error"]


@pytest.mark.parametrize(("mode", "kind"), [("L", "png"), ("CMYK", "jpeg"), ("L", "jpeg"), ("P", "png"), ("1", "png")])
def test_greyscale_cmyk_and_palettes_are_answered(explorer: Served, mode: str, kind: str) -> None:
    assert explorer.upload(picture(3, mode=mode, kind=kind)).json["answer"]


@pytest.fixture(scope="module")
def strict(run_folder: Path) -> Iterator[Served]:
    """An explorer that takes little."""
    with served(run_folder, Uploads(max_bytes=2**16, seconds=10)) as opened:
        yield opened


@pytest.fixture(scope="module")
def impatient(run_folder: Path) -> Iterator[Served]:
    """An explorer that waits for nobody."""
    with served(run_folder, Uploads(max_bytes=2**16, seconds=0.5)) as opened:
        yield opened


def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_read(strict: Served) -> None:
    head = f"POST /api/images HTTP/1.1\r\nHost: {strict.host}\r\nOrigin: http://{strict.host}\r\n"
    head += f"X-Pixpnet-Token: {TOKEN}\r\nContent-Length: {10**12}\r\n\r\n"
    assert strict.raw(head.encode()).startswith(b"HTTP/1.1 413")


def test_a_body_without_a_length_is_counted(strict: Served) -> None:
    with socket.create_connection(("127.0.0.1", strict.port), timeout=30) as connection:
        head = f"POST /api/images HTTP/1.1\r\nHost: {strict.host}\r\nOrigin: http://{strict.host}\r\n"
        connection.sendall(f"{head}X-Pixpnet-Token: {TOKEN}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        piece = b"%x\r\n" % 2**14 + b"x" * 2**14 + b"\r\n"
        for _ in range(5):
            connection.sendall(piece)
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413")
    assert strict.ask("/api/run").status == 200


@pytest.mark.parametrize("path", ["/api/verdicts", "/api/proofs", "/api/quiz"])
def test_what_is_no_picture_has_a_limit_of_its_own(explorer: Served, path: str) -> None:
    limit = MAX_JSON_BYTES
    just, more = (b'{"text": "' + b"x" * (size - 12) + b'"}' for size in (limit, limit + 1))
    assert (len(just), len(more)) == (limit, limit + 1)
    assert explorer.ask(path, "POST", just).status in (200, 400, 404)
    refused = explorer.ask(path, "POST", more)
    assert (refused.status, "64 kB" in refused.json["error"]) == (413, True)


def closed(connection: socket.socket) -> bool:
    """Whether the server ends a connection, however that is seen here; a test that waits for ever is stopped."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize("before", [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1"])
def test_a_connection_that_never_asks_anything_is_ended(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, before: bytes
) -> None:
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.5)
    with served(run_folder) as opened, socket.create_connection(("127.0.0.1", opened.port), timeout=30) as connection:
        connection.sendall(before)
        assert closed(connection)


def test_a_second_request_must_come_in_time_too_and_nobody_sends_on_after_the_answer(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "HEAD_SECONDS", 2.0)  # on a busy machine the requests in between take their time
    with served(run_folder) as opened:
        head = f"GET / HTTP/1.1\r\nHost: {opened.host}\r\n"
        with socket.create_connection(("127.0.0.1", opened.port), timeout=30) as connection:
            connection.sendall(f"{head}\r\n".encode())
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
            connection.sendall(head.encode())  # and no end of it
            assert closed(connection)
        with socket.create_connection(("127.0.0.1", opened.port), timeout=30) as connection:
            connection.sendall(f"{head}Content-Length: 1000000\r\n\r\n".encode())
            answer = b""
            while b"</html>" not in answer:
                answer += connection.recv(65536)
            connection.sendall(b"x")
            assert closed(connection)


def test_only_so_many_connections_are_held(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 3)
    with served(run_folder) as opened:
        held = [socket.create_connection(("127.0.0.1", opened.port), timeout=30) for _ in range(3)]
        head = f"GET / HTTP/1.1\r\nHost: {opened.host}\r\n\r\n".encode()
        for connection in held:  # answered, so the server has all three
            connection.sendall(head)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        with socket.create_connection(("127.0.0.1", opened.port), timeout=30) as one_more:
            assert closed(one_more)
        for connection in held:
            connection.close()


def test_a_slow_upload_is_ended(impatient: Served) -> None:
    with socket.create_connection(("127.0.0.1", impatient.port), timeout=30) as connection:
        head = f"POST /api/images HTTP/1.1\r\nHost: {impatient.host}\r\nOrigin: http://{impatient.host}\r\n"
        connection.sendall(f"{head}X-Pixpnet-Token: {TOKEN}\r\nContent-Length: 100\r\n\r\nslow".encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 408")


def test_slow_uploads_do_not_keep_others_from_being_answered(strict: Served) -> None:
    head = f"POST /api/images HTTP/1.1\r\nHost: {strict.host}\r\nOrigin: http://{strict.host}\r\n"
    text = f"{head}X-Pixpnet-Token: {TOKEN}\r\nContent-Length: 100\r\n\r\n".encode()
    slow = [socket.create_connection(("127.0.0.1", strict.port)) for _ in range(50)]
    for connection in slow:
        connection.sendall(text)
    assert strict.ask("/api/run").status == 200
    for connection in slow:
        connection.close()
    assert strict.upload(picture()).status == 200


def test_there_is_no_websocket(explorer: Served) -> None:
    head = f"GET /api/run HTTP/1.1\r\nHost: {explorer.host}\r\nOrigin: http://{explorer.host}\r\n"
    head += f"X-Pixpnet-Token: {TOKEN}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    head += "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    assert not explorer.raw(head.encode()).startswith(b"HTTP/1.1 101")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(explorer: Served, method: str) -> None:
    for path in ("/", "/api/run", "/api/images"):
        assert explorer.ask(path, method).status in (401, 403, 404, 405)


@pytest.mark.parametrize(
    "body", [b"", b"no json", b"[]", b"[" * 100_000, b'{"image": 3}', b'{"image": "val-0", "prototype": "../x"}']
)
def test_a_job_that_makes_no_sense_is_refused(explorer: Served, body: bytes) -> None:
    reply = explorer.ask("/api/proofs", "POST", body)
    assert 400 <= reply.status < 500
    assert reply.json["error"]


def test_200_requests_at_once_lose_nothing_and_mix_up_nothing(explorer: Served) -> None:
    files = {f"picture-{number}.png": picture(100 + number) for number in range(20)}
    alone = {name: explorer.upload(data, name).json for name, data in files.items()}
    assert len({line["id"] for line in alone.values()}) == len(files)

    def ask(number: int) -> bool:
        name = f"picture-{number % 20}.png"
        expected = alone[name]
        if number % 2:
            return bool(explorer.upload(files[name], name).json == expected)
        whole = explorer.ask(f"/api/images/{expected['id']}").json
        return whole["answer"] == expected and whole["image"]["id"] == expected["id"]

    with ThreadPoolExecutor(50) as pool:
        assert list(pool.map(ask, range(200))) == [True] * 200


def test_answers_come_while_a_job_runs(explorer: Served) -> None:
    def work(progress: Progress) -> Result:
        while True:  # until it is cancelled
            progress("working", 1, 2)
            time.sleep(0.005)

    job = explorer.explorer.jobs.start("a long job", work)
    assert explorer.upload(picture(7)).status == 200
    assert explorer.ask(f"/api/jobs/{job['id']}").json["state"] in ("waiting", "running")
    assert explorer.ask(f"/api/jobs/{job['id']}/cancel", "POST", b"{}").status == 200
    assert explorer.ended(job)["state"] == "cancelled"
