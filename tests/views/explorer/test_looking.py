"""A person at the tabs Prototypes, Mend and Quiz, in a real browser: every click, no word in the console."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from axe_core_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.views.explorer.client import Served, served


@pytest.fixture(scope="module")
def mine(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A run that may be changed; verdicts of one test are seen by the next, as by a person."""
    folder = Path(shutil.copytree(run_folder, tmp_path_factory.mktemp("mended") / "run"))
    with served(folder) as opened:
        yield opened


@pytest.fixture(params=[1280, 390])
def page(browser: Browser, mine: Served, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The page in a window of a computer or of a phone; anything in the console fails the test."""
    context = browser.new_context(
        viewport={"width": request.param, "height": 800},
        color_scheme="dark" if request.param == 390 else "light",
        bypass_csp=False,
        reduced_motion="reduce",
    )
    opened = context.new_page()
    problems: list[str] = []
    # A browser writes every response that is not 200 there, also one that the page shows as a sentence.
    opened.on(
        "console",
        lambda message: (
            problems.append(message.text)
            if message.type == "error" and "the server responded with a status of 404" not in message.text
            else None
        ),
    )
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.goto(mine.address)
    expect(opened.locator("#tabs a").first).to_be_visible()
    yield opened
    context.close()
    assert problems == []


def fits(page: Page) -> bool:
    return bool(page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth"))


def tab(page: Page, name: str) -> None:
    page.locator("#tabs").get_by_role("link", name=name).click()


def test_a_person_reviews_looks_judges_and_sees_what_it_does(page: Page, mine: Served) -> None:
    tab(page, "Prototypes")
    expect(page.locator(".proto").first).to_be_visible()
    review = page.get_by_role("button", name="Review every prototype")
    if review.count():
        review.click()
        expect(page.get_by_text("Reviewed on")).to_be_visible(timeout=60_000)
    assert fits(page)
    page.get_by_label("Sort by").select_option("number")
    page.locator(".proto").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Prototype 0")
    expect(page.locator(".near li").first).to_be_visible(timeout=60_000)
    page.keyboard.press("r")
    expect(page.get_by_text("Now: to be removed.")).to_be_visible()
    page.get_by_label("Name it").fill("<b>odd</b> one")
    page.get_by_role("button", name="Save the name").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("<b>odd</b> one")  # text, never markup
    assert fits(page)
    tab(page, "Mend")
    expect(page.get_by_text("Validation accuracy,")).to_be_visible(timeout=60_000)
    assert fits(page)
    rows = page.locator("[aria-label=Verdicts] tbody tr")
    before = rows.count()
    page.get_by_role("button", name="Undo verdict").first.click()
    expect(rows).to_have_count(before + 1)
    # Clean up for the other window: what is left is taken back.
    while page.get_by_role("button", name="Undo verdict").count():
        count = rows.count()
        page.get_by_role("button", name="Undo verdict").first.click()
        expect(rows).to_have_count(count + 1)
    expect(page.get_by_text("No prototype is to be removed or required.")).to_be_visible()


def test_two_tabs_do_not_overwrite_each_others_verdicts(page: Page, mine: Served) -> None:
    page.goto(f"http://{mine.host}/#/prototype/1")
    expect(page.get_by_text("Nothing yet.")).to_be_visible()
    other = page.context.new_page()
    other.goto(f"http://{mine.host}/#/prototype/1")
    expect(other.get_by_text("Nothing yet.")).to_be_visible()
    other.get_by_role("button", name="Keep").click()
    expect(other.get_by_text("Now: kept.")).to_be_visible()
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(page.get_by_text("Somebody else gave a verdict in between")).to_be_visible()
    expect(page.get_by_text("Now: kept.")).to_be_visible()
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(page.get_by_text("Now: to be removed.")).to_be_visible()
    other.close()
    page.get_by_role("button", name="Undo the last verdict on it").click()
    expect(page.get_by_text("Now: kept.")).to_be_visible()
    page.get_by_role("button", name="Undo the last verdict on it").click()
    expect(page.get_by_text("Nothing yet.")).to_be_visible()


def test_a_double_click_is_one_verdict_and_one_undo(page: Page, mine: Served) -> None:
    twice = "button => { button.click(); button.click(); }"
    page.goto(f"http://{mine.host}/#/prototype/2")
    expect(page.get_by_text("Nothing yet.")).to_be_visible()
    for name, outcome in (("Keep", "Now: kept."), ("Remove", "Now: to be removed.")):
        page.get_by_role("button", name=name, exact=True).evaluate(twice)
        expect(page.get_by_text(outcome)).to_be_visible()
    for outcome in ("Now: kept.", "Nothing yet."):
        page.get_by_role("button", name="Undo the last verdict on it").evaluate(twice)
        expect(page.get_by_text(outcome)).to_be_visible()


def test_a_person_takes_the_quiz_with_the_keyboard(page: Page, mine: Served) -> None:
    tab(page, "Quiz")
    page.get_by_label("Your name").fill("ann")
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_text("Does this look like that?")).to_be_visible(timeout=60_000)
    assert fits(page)
    questions = page.locator("progress.quiz-progress")
    count = int(questions.get_attribute("max") or 0)
    for number in range(count):
        expect(page.get_by_text(f"Question {number + 1} of {count}.")).to_be_visible()
        page.keyboard.press("3")
    expect(page.get_by_text("Which explanation is right?")).to_be_visible()
    assert fits(page)
    page.get_by_role("link", name="leave the quiz").click()
    expect(page.get_by_text("about this model")).to_be_visible()


def test_links_lead_to_a_prototype_a_verdict_and_a_filter(page: Page, mine: Served) -> None:
    page.goto(f"http://{mine.host}/#/prototypes?filter=unseen&sort=number")
    expect(page.get_by_label("Show")).to_have_value("unseen")
    page.goto(f"http://{mine.host}/#/prototype/9999")
    expect(page.get_by_role("alert")).to_contain_text("there is no prototype 9999")
    serial = mine.ask("/api/verdicts").json["serial"] + 1
    mine.post("/api/verdicts", {"prototype": 3, "kind": "keep", "expected": serial - 1})
    page.goto(f"http://{mine.host}/#/verdicts/{serial}")
    expect(page.locator(f"#verdict-{serial}.marked")).to_contain_text("keep")
    mine.post("/api/verdicts/undo", {"serial": serial, "expected": serial})


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_no_tab_has_barriers(browser: Browser, mine: Served, width: int, scheme: Literal["light", "dark"]) -> None:
    serial = mine.ask("/api/verdicts").json["serial"]
    given = mine.post("/api/verdicts", {"prototype": 4, "kind": "remove", "expected": serial}).json["serial"]
    quiz = mine.ended(mine.post("/api/quiz", {"agreement": 6, "distinction": 2, "seed": 3}).json)["result"]["quiz"]
    context = browser.new_context(
        viewport={"width": width, "height": 800},
        color_scheme=scheme,
        bypass_csp=True,  # axe's script is not the page's
        reduced_motion="reduce",
    )
    opened = context.new_page()
    opened.goto(mine.address)
    for path, ready in (
        ("prototypes", ".proto"),
        ("prototype/0", "#proto-name"),
        ("verdicts", "text=Validation accuracy,"),
        ("quiz", "text=replied so far"),
        (f"quiz/{quiz}/agreement/0", ".quiz-pair img"),
        (f"quiz/{quiz}/distinction/0", ".quiz-choices"),
    ):
        opened.evaluate("path => { location.hash = `#/${path}` }", path)
        expect(opened.locator(ready).first).to_be_visible()
        violations = [(rule["id"], rule["nodes"][0]["html"]) for rule in Axe().run(opened)["violations"]]
        assert (path, violations) == (path, [])
        assert fits(opened), path
    context.close()
    mine.post("/api/verdicts/undo", {"serial": given, "expected": given})


def test_cards_stand_in_the_page_in_the_order_in_which_they_are_seen(browser: Browser, mine: Served) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 300}, reduced_motion="reduce")
    page = context.new_page()
    first = mine.ask("/api/prototypes").json
    many = [{**line, "number": number} for number, line in enumerate(first["prototypes"] * 20)]
    page.route("**/api/prototypes", lambda route: route.fulfill(json={**first, "prototypes": many}))
    page.goto(f"{mine.address}#/prototypes?sort=number")
    shown = page.locator(".proto")
    expect(shown.first).to_have_attribute("data-number", "0")
    page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
    expect(shown.last).to_have_attribute("data-number", str(len(many) - 1))
    page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight - 1500)")
    expect(shown.last).not_to_have_attribute("data-number", str(len(many) - 1))
    numbers = [int(number) for number in shown.evaluate_all("cards => cards.map((card) => card.dataset.number)")]
    assert numbers == sorted(numbers)
    context.close()


def test_arrows_and_links_go_from_image_to_image_of_the_list_that_it_was_taken_from(page: Page, mine: Served) -> None:
    listed = [line["id"] for line in mine.ask("/api/images?sort=doubt&count=200").json["images"]]
    page.goto(f"http://{mine.host}/#/ask?sort=doubt")
    page.locator(".wall a").nth(1).click()
    expect(page.locator(".terms .term").first).to_be_visible()
    assert page.url.endswith(f"#/image/{listed[1]}?sort=doubt")
    expect(page.get_by_text(f"2 of {len(listed)}")).to_be_visible()
    page.keyboard.press("ArrowRight")
    page.wait_for_url(f"**/#/image/{listed[2]}?sort=doubt")
    expect(page.get_by_text(f"3 of {len(listed)}")).to_be_visible()
    page.get_by_role("link", name="previous").click()
    expect(page.get_by_text(f"2 of {len(listed)}")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_text(f"1 of {len(listed)}")).to_be_visible()
    expect(page.locator("a[rel=prev]")).to_have_count(0)
    page.keyboard.press("ArrowLeft")  # there is none before it
    # On the picture itself arrows walk over its cells.
    page.locator(".stage").first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".walking").first).to_be_visible()
    assert page.url.endswith(f"#/image/{listed[0]}?sort=doubt")
    page.get_by_role("link", name="all images").click()
    expect(page.get_by_label("Sort by")).to_have_value("doubt")
