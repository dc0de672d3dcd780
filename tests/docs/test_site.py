"""The documentation site: built with strict links, fetching nothing from elsewhere, and complete."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

import pixpnet
from pixpnet.cli import build_parser

ROOT = Path(__file__).parents[2]
pytest.importorskip("mkdocs", reason="the documentation needs pip install '.[docs]'")
# Attributes by which a page makes a browser fetch something; a link that a person may follow is none.
FETCHES = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
}
RELATIONS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload", "manifest"}


def build(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Builds the site of a checkout as `make docs` does."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(source / "mkdocs.yml")]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run([*command, "--site-dir", str(out)], cwd=source, capture_output=True, text=True, env=env)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    out = tmp_path_factory.mktemp("site")
    done = build(ROOT, out)
    assert done.returncode == 0, done.stderr
    return out


class Fetched(HTMLParser):
    """What a page fetches."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag in FETCHES:
            self.addresses += [values.get(FETCHES[tag], ""), *values.get("srcset", "").split()]
        if tag == "link" and RELATIONS & set(values.get("rel", "").split()):
            self.addresses.append(values.get("href", ""))


def fetched(path: Path) -> Iterator[str]:
    """Addresses that a file of the site makes a browser fetch."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".css":
        yield from re.findall(r"url\(\s*['\"]?([^'\")]+)", text)
        yield from re.findall(r"@import\s+['\"]([^'\"]+)", text)
    else:
        parser = Fetched()
        parser.feed(text)
        yield from parser.addresses


def is_remote(address: str) -> bool:
    """Whether it is on another machine."""
    return re.match(r"(https?:)?//", address) is not None


def test_nothing_that_a_page_fetches_is_on_another_machine(site: Path) -> None:
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    addresses = {address for path in files for address in fetched(path)}
    assert len(files) > 50
    assert any(address.endswith("explanation.jpg") for address in addresses)
    assert [address for address in addresses if is_remote(address)] == []


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://example.com/a.js"></script>',
        '<link rel="stylesheet" href="//example.com/a.css">',
        '<img src="http://example.com/a.png">',
    ],
)
def test_a_remote_resource_would_be_seen(text: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(f"<a href='https://example.com'>a link is none</a>{text}")
    assert [is_remote(address) for address in fetched(tmp_path / "page.html")] == [True]


def test_every_command_and_every_public_name_has_its_place_in_the_reference(site: Path) -> None:
    parsers: dict[tuple[str, ...], object] = {}
    build_parser(made=parsers)  # type: ignore[arg-type]
    for words in parsers:
        page = (site / "reference" / "commands" / f"{'-'.join(words)}.html").read_text()
        assert f"pixpnet {' '.join(words)}" in page
    api = "".join(path.read_text() for path in (site / "reference" / "api").glob("*.html"))
    homes = pixpnet._HOMES  # type: ignore[attr-defined]
    assert [name for name, home in homes.items() if f'id="{home}.{name}"' not in api] == []


def test_an_options_page_says_what_help_says(site: Path) -> None:
    page = (site / "reference" / "commands" / "explain.html").read_text()
    for word in ("--why-not CLASS", "--prove", "change every pixel outside each part", "--top"):
        assert word in page, word


def test_pages_opened_from_disk_request_nothing_from_elsewhere_fit_a_phone_and_can_be_searched(site: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("there is no Chromium on PATH: make browser")
    playwright = pytest.importorskip("playwright.sync_api")
    requested: list[str] = []
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        page = chromium.new_page(viewport={"width": 390, "height": 844})
        page.set_default_timeout(120_000)  # machines are busy
        page.on("request", lambda request: requested.append(request.url))
        for name in ("index.html", "reference/api/fields.html", "tutorials/choosing-a-cut.html"):
            page.goto((site / name).as_uri(), wait_until="networkidle")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, f"{name} is wider than a phone"
        page.set_viewport_size({"width": 1280, "height": 900})
        page.locator("input.md-search__input").click()
        page.keyboard.type("goldilocks")
        # The search runs in a worker, which a page from disk may not start: docs/iframe-worker.js.
        page.locator(".md-search-result__item a").first.wait_for()
        assert page.locator(".md-search-result__item a").first.get_attribute("href").endswith("goldilocks.html")
        chromium.close()
    assert len(requested) > 5
    assert [url for url in requested if not url.startswith(("file:", "data:", "blob:"))] == []
