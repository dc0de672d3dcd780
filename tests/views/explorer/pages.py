"""Pages of the explorer in a browser; what they complain about, or ask for elsewhere, fails the test."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from playwright.sync_api import Browser, ConsoleMessage, Page

from tests.views.explorer.client import Served


@dataclass
class Opened:
    """A page, and what it asked for and complained about; refusals that a test provokes may be in the console."""

    page: Page
    allowed: tuple[str, ...] = ()
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(words in message.text for words in self.allowed):
            self.complaints.append(message.text)


@contextmanager
def opened(
    browser: Browser,
    explorer: Served,
    where: str = "",
    width: int = 1280,
    scheme: str = "light",
    allowed: tuple[str, ...] = (),
) -> Iterator[Opened]:
    context = browser.new_context(  # without soft changes, so that what is looked at does not depend on when
        viewport={"width": width, "height": 900},
        color_scheme=scheme,  # type: ignore[arg-type]
        reduced_motion="reduce",
    )
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    result = Opened(context.new_page(), allowed)
    result.page.on("request", lambda request: result.requests.append(request.url))
    result.page.on("console", result.hear)
    result.page.on("pageerror", lambda error: result.complaints.append(str(error)))
    result.page.goto(f"{explorer.address}{where}")
    try:
        yield result
        assert result.complaints == []
        own = (f"http://{explorer.host}/", "blob:")
        assert [url for url in result.requests if not url.startswith(own)] == []
    finally:
        context.close()
