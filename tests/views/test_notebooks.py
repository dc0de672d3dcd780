"""What notebooks show, in a real Chromium: no request, no complaint, for everybody; it answers to pointer and keys."""

from pathlib import Path

import pytest
from axe_core_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from pixpnet.fields import receptive_fields
from tests.views.material import HOSTILE, comb, explained, explanation, proof, term
from tests.views.test_browser import opened

_START = "<!doctype html><html lang=en><meta charset=utf-8><title>notebook</title><body><main><h1>A notebook</h1>"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Explanations (twice, as of two cells of a notebook), one of them with hostile names and gaps, and fields."""
    folder = tmp_path_factory.mktemp("notebook")
    classes = [
        explained(0, HOSTILE, [term(k, pictures=folder, proven=proof(k != 3)) for k in range(10)]),
        explained(1, "wren", [term(k, 1, "wren", -0.5, comb(), folder) for k in range(13)], 1.0, 30),
    ]
    record = explanation(classes, "linear", image=HOSTILE)
    fields = receptive_fields("resnet18", (3, 64, 64))
    pieces = [record._repr_html_(), record._repr_html_(), fields._repr_html_(), fields["layer2"]._repr_html_()]
    page = folder / "page.html"
    page.write_text(_START + "".join(f"<section>{piece}</section>" for piece in pieces), encoding="utf-8")
    return page


def lit(page: Page) -> list[int]:
    """Which regions of the first picture are fully painted, by their numbers from 0."""
    marks = page.locator(".why").first.locator("figure .mark")
    script = "marks => marks.filter(m => getComputedStyle(m).opacity === '1').map(m => Number(m.classList[1].slice(1)))"
    return [int(number) for number in marks.evaluate_all(script)]


@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (1100, "dark"), (390, "light")])
def test_it_opens_without_requests_or_complaints_and_is_for_everybody(
    browser: Browser, shown: Path, width: int, scheme: str
) -> None:
    for result in opened(browser, shown, width, scheme):
        assert [url for url in result.requests if not url.startswith("data:")] == [shown.as_uri()]
        result.page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
        assert result.page.evaluate("document.documentElement.scrollWidth") <= width
        violations = Axe().run(result.page)["violations"]
        assert [(item["id"], item["nodes"][0]["html"][:300]) for item in violations] == []
        assert result.complaints == []
        assert result.page.locator("script").count() == 0
        assert result.page.locator(".answer").first.inner_text() == HOSTILE


def test_pointer_keyboard_and_click_light_up_a_region_without_scripts(browser: Browser, shown: Path) -> None:
    for result in opened(browser, shown, 1100):
        page = result.page
        assert lit(page) == [0]  # as long as nobody points at a term
        first = page.locator(".why").first
        first.locator(".t4 summary").hover()
        assert lit(page) == [4]
        page.mouse.move(0, 0)
        first.locator(".t2 summary").focus()
        assert lit(page) == [2]
        page.keyboard.press("Enter")
        assert first.locator(".t2 .more svg").is_visible()
        first.locator(".t5 summary").click()
        page.mouse.move(0, 0)
        assert sorted(lit(page)) == [2, 5]  # what was opened stays lit


def test_the_part_of_the_picture_and_the_part_it_looks_like_are_painted(browser: Browser, shown: Path) -> None:
    for result in opened(browser, shown, 1100):
        crops = result.page.locator(".why").first.locator("img.crop")
        assert crops.count() == 20
        sizes = crops.evaluate_all("all => all.map(one => [one.naturalWidth, one.naturalHeight])")
        assert sizes[0] == [37, 37]  # exactly the pixels of the region
        assert min(min(size) for size in sizes) > 0


def test_the_theme_of_the_notebook_goes_before_that_of_the_system(browser: Browser, shown: Path) -> None:
    script = "getComputedStyle(document.querySelector('.pixpnet')).backgroundColor"
    for result in opened(browser, shown, 1100, "dark"):
        dark = result.page.evaluate(script)
        result.page.evaluate("document.body.dataset.jpThemeLight = 'true'")
        assert result.page.evaluate(script) == "rgb(255, 255, 255)" != dark
    for result in opened(browser, shown, 1100, "light"):
        result.page.evaluate("document.body.className = 'vscode-dark'")
        assert result.page.evaluate(script) == dark


def test_a_piece_stays_small(shown: Path) -> None:
    # Two pieces of two classes with 10 and 13 terms, and the tables of fields.
    assert len(shown.read_bytes()) < 600_000
