"""Pages in a real Chromium: from disk, on a desk and on a phone, by keyboard, on paper, and for everybody."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from axe_core_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from pixpnet.cli import main
from pixpnet.views.page import explanation_page
from tests.views.material import HOSTILE, explained, explanation, proof, term


@pytest.fixture(scope="module")
def report(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run."""
    out = tmp_path_factory.mktemp("pages") / "report.html"
    assert main(["report", str(run_folder), "--examples", "1", "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def explained_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The explanation of a drawn bird, with ten terms for each of two classes, one with a long hostile name."""
    folder = tmp_path_factory.mktemp("explained")
    classes = [
        explained(0, "jay", [term(k, pictures=folder, proven=proof(k != 3)) for k in range(10)]),
        explained(1, HOSTILE + "W" * 60, [term(k, 1, "wren", -0.5, pictures=folder) for k in range(10)], 1.0, 30),
    ]
    page = folder / "page.html"
    page.write_text(explanation_page([explanation(classes, "linear")] * 2))
    return page


@dataclass
class Opened:
    """A page in a browser, and what it did."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


def opened(browser: Browser, path: Path, width: int, scheme: str = "light", script: bool = True) -> Iterator[Opened]:
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        java_script_enabled=script,
        offline=True,
        reduced_motion="reduce",  # what is looked at does not depend on when
    )
    result = Opened(context.new_page())
    result.page.on("request", lambda request: result.requests.append(request.url))
    result.page.on("console", lambda message: result.complaints.append(message.text))
    result.page.on("pageerror", lambda error: result.complaints.append(str(error)))
    try:
        result.page.goto(path.as_uri())
        yield result
    finally:
        context.close()


@pytest.fixture(params=["report", "explained_page"])
def path(request: pytest.FixtureRequest) -> Path:
    """Each kind of page."""
    return Path(request.getfixturevalue(request.param))


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")])
def test_a_page_opens_from_disk_fits_its_window_and_is_for_everybody(
    browser: Browser, path: Path, width: int, scheme: str
) -> None:
    for result in opened(browser, path, width, scheme):
        assert [url for url in result.requests if not url.startswith("data:")] == [path.as_uri()]
        assert result.complaints == []
        assert result.page.evaluate("document.documentElement.scrollWidth") <= width
        for folded in result.page.query_selector_all("details"):
            folded.evaluate("element => element.open = true")
        assert result.page.evaluate("document.documentElement.scrollWidth") <= width
        violations = Axe().run(result.page)["violations"]
        assert [(item["id"], item["nodes"][0]["html"]) for item in violations] == []


def visible_regions(page: Page, painted: str = ".edge") -> list[float]:
    """How strongly each outline, or label, of the first image is painted."""
    script = "marks => marks.map(mark => Number(getComputedStyle(mark).opacity))"
    return [
        float(item) for item in page.locator(".why").first.locator(f"figure .mark:has({painted})").evaluate_all(script)
    ]


def test_focus_on_a_term_shows_its_region_alone(browser: Browser, explained_page: Path) -> None:
    for result in opened(browser, explained_page, 1280):
        page = result.page
        # Outlines are painted last to first, so that the first lies on top; it alone is shown at first.
        assert visible_regions(page)[::-1][0] == 1.0
        assert set(visible_regions(page)[::-1][1:]) == {0.08}
        for _ in range(4):  # past the link that skips to the content
            page.keyboard.press("Tab")
        focused = page.evaluate("document.activeElement.textContent")
        shown = visible_regions(page)
        assert shown.count(1.0) == 1
        assert shown[::-1].index(1.0) == int(focused) - 1
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"


def test_on_a_phone_every_picture_that_the_legend_names_is_there_and_large(
    browser: Browser, explained_page: Path
) -> None:
    for result in opened(browser, explained_page, 390):
        block = result.page.locator(".why").first
        assert "this part of the image, the part it looks like, where that comes from" in block.inner_text().lower()
        for row in block.locator(".term.large").all():
            boxes = [shot.bounding_box() for shot in row.locator("svg.shot").all()]
            assert len(boxes) == 3 and all(box is not None and box["width"] > 120 for box in boxes)
            says = row.locator(".says").bounding_box()
            assert says is not None and says["x"] + says["width"] <= 390


def test_regions_that_are_not_shown_have_no_labels_in_the_picture(browser: Browser, explained_page: Path) -> None:
    for result in opened(browser, explained_page, 1280):
        shown = visible_regions(result.page, "text")
        assert sorted(set(shown)) == [0, 1] and shown.count(1) == 1
        result.page.emulate_media(media="print")
        assert set(visible_regions(result.page, "text")) == {1}


def test_a_page_is_whole_without_scripts(browser: Browser, report: Path) -> None:
    for result in opened(browser, report, 1280, script=False):
        assert result.page.locator("h2").count() >= 6
        assert result.page.locator(".gallery li").count() == 6
        assert result.complaints == []


def test_pictures_are_really_painted(browser: Browser, explained_page: Path) -> None:
    for result in opened(browser, explained_page, 1280):
        sizes = result.page.locator("svg.shot use").evaluate_all("uses => uses.map(use => use.getBBox().width)")
        assert min(sizes) > 0
        painted = result.page.locator("svg.shot").first.screenshot()
        assert len(set(painted)) > 200  # not one colour


def test_everything_is_on_paper(browser: Browser, explained_page: Path, tmp_path: Path) -> None:
    for result in opened(browser, explained_page, 1280):
        sheet = result.page.pdf(path=tmp_path / "page.pdf")
        assert sheet.startswith(b"%PDF")
        # What was folded is folded again.
        assert result.page.locator("details[open]").count() == 0
        result.page.emulate_media(media="print")
        result.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert result.page.locator("details:not([open])").count() == 0
