"""The explorer in a real Chromium, clicked through as a person would."""

import base64
import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from axe_core_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from pixpnet.members.prototree import ProtoTreeConfig
from pixpnet.progress import Progress
from pixpnet.training import train
from pixpnet.views.explorer.jobs import Result
from pixpnet.views.explorer.serving import leading_file
from tests.training.material import small_config
from tests.views.explorer.client import TOKEN, Served, picture, served
from tests.views.explorer.pages import opened


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three pictures of a person's own, and a file that is none."""
    folder = tmp_path_factory.mktemp("own")
    for number in range(3):
        (folder / f"own-{number}.png").write_bytes(picture(50 + number, (40, 60)))
    (folder / "broken.png").write_bytes(b"no picture")
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def image(explorer: Served) -> str:
    """The id of a validation image that is answered rightly, so that one class is not explained at first."""
    return str(next(line["id"] for line in explorer.ask("/api/images").json["images"] if line["right"]))


@pytest.fixture(scope="module")
def tree_run(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that decides by a tree."""
    config, tree = small_config(pictures), ProtoTreeConfig()
    settings = replace(tree, architecture=replace(tree.architecture, depth=2, dim=8), optimization=config.optimization)
    config = replace(config, member="prototree", settings=settings)
    path = tmp_path_factory.mktemp("trees") / "tree"
    assert train(config, path) is not None
    return path


def violations(page: Page) -> list[tuple[str, str]]:
    return [(item["id"], item["nodes"][0]["html"]) for item in Axe().run(page)["violations"]]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_tab_fits_its_window_and_is_for_everybody(
    browser: Browser, explorer: Served, image: str, width: int, scheme: str
) -> None:
    with opened(browser, explorer, width=width, scheme=scheme) as result:
        page = result.page
        for where, ready in (
            ("#/ask", ".wall li"),
            (f"#/image/{image}", ".terms .term"),
            ("#/network", ".chart"),
            ("#/measures", ".command"),
        ):
            page.evaluate("where => { location.hash = where }", where)
            page.locator(ready).first.wait_for()
            for folded in page.query_selector_all("details"):
                folded.evaluate("element => element.open = true")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert violations(page) == [], where


def test_the_token_leaves_the_address_and_another_tab_needs_it_no_more(browser: Browser, explorer: Served) -> None:
    with opened(browser, explorer) as result:
        expect(result.page).to_have_url(re.compile(r"/(#.*)?$"))
        other = result.page.context.new_page()
        other.goto(f"http://{explorer.host}/#/network")
        expect(other.locator("h2").first).to_be_visible()


def test_a_file_that_only_this_user_can_read_leads_to_the_page(
    browser: Browser, explorer: Served, tmp_path: Path
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(leading_file(tmp_path, explorer.address).as_uri())
    expect(page.locator(".wall li").first).to_be_visible()
    context.close()


def test_without_the_token_the_page_says_what_to_do_and_takes_the_address(browser: Browser, explorer: Served) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"http://{explorer.host}/")
    expect(page.get_by_role("alert")).to_contain_text("pixpnet serve printed")
    page.get_by_label("Or paste").fill(explorer.address)
    page.get_by_role("button", name="Open").click()
    expect(page.locator(".wall li").first).to_be_visible()
    context.close()


def test_a_chosen_picture_is_answered_with_evidence_that_adds_up(
    browser: Browser, explorer: Served, files: list[Path]
) -> None:
    with opened(browser, explorer) as result:
        page = result.page
        page.locator("input[type=file]").set_input_files(files[1])
        page.locator(".terms .term").first.wait_for()
        expect(page.locator("h1")).not_to_be_empty()
        expect(page.locator(".lead")).to_contain_text("own-0.png")
        first = page.locator(".why").first
        added = [float(text.replace("−", "-")) for text in first.locator(".adds").all_inner_texts()]
        logit = float(first.locator(".sum strong").inner_text().removeprefix("logit ").replace("−", "-"))
        assert sum(added) == pytest.approx(logit, abs=0.01 * len(added))
        # A deep link: the same answer after the page is loaded anew.
        name = page.locator("h1").inner_text()
        page.reload()
        expect(page.locator("h1")).to_have_text(name)


def test_pictures_are_pasted_and_dropped(browser: Browser, explorer: Served, files: list[Path]) -> None:
    give = """([kind, data]) => {
      const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
      const transfer = new DataTransfer();
      transfer.items.add(new File([bytes], `${kind}.png`, {type: "image/png"}));
      window.dispatchEvent(kind === "paste" ? new ClipboardEvent("paste", {clipboardData: transfer, bubbles: true})
        : new DragEvent("drop", {dataTransfer: transfer, bubbles: true, cancelable: true}));
    }"""
    for kind in ("paste", "drop"):
        with opened(browser, explorer) as result:
            result.page.locator(".drop").wait_for()
            result.page.evaluate(give, [kind, base64.b64encode(files[2].read_bytes()).decode()])
            expect(result.page.locator(".lead")).to_contain_text(f"{kind}.png")
            expect(result.page.locator(".terms .term").first).to_be_visible()


def test_several_pictures_make_a_table_that_sorts_by_doubt_and_a_bad_one_is_said(
    browser: Browser, explorer: Served, files: list[Path]
) -> None:
    with opened(browser, explorer, allowed=("status of 422",)) as result:  # Chromium logs the refusal
        page = result.page
        page.locator("input[type=file]").set_input_files(files)
        expect(page.get_by_role("alert")).to_contain_text("broken.png cannot be read")
        rows = page.locator("section[aria-labelledby=asked-heading] tbody tr")
        expect(rows).to_have_count(3)
        expect(page.locator("th[aria-sort]")).to_have_text("Doubt")

        def probabilities() -> list[str]:
            return page.locator("section[aria-labelledby=asked-heading] tbody tr td:nth-child(4)").all_inner_texts()

        page.get_by_role("button", name="Probability").click()
        rising = probabilities()
        page.get_by_role("button", name="Probability").click()
        assert probabilities() == rising[::-1]
        page.get_by_role("link", name="own-1.png", exact=True).click()
        expect(page.locator(".lead")).to_contain_text("own-1.png")
        page.go_back()
        expect(rows).to_have_count(3)


def test_hovering_shows_fields_of_cells_and_regions_of_terms_and_keys_do_too(
    browser: Browser, explorer: Served, image: str
) -> None:
    with opened(browser, explorer, f"#/image/{image}") as result:
        page = result.page
        why = page.locator(".why").first
        why.locator(".stage").hover()
        words = why.locator(".cell-words")
        expect(words).to_contain_text(re.compile(r"Cell \d+, \d+ sees rows \d+ to \d+, columns \d+ to \d+"))
        cells = explorer.ask(f"/api/images/{image}/cells").json["grids"][0]
        row, col = map(int, re.search(r"Cell (\d+), (\d+)", words.inner_text()).groups())  # type: ignore[union-attr]
        cell = cells["cells"][row * cells["cols"] + col]
        assert why.locator("path.cell").get_attribute("d") == cell["path"]
        y0, x0, y1, x1 = cell["hull"]
        expect(words).to_contain_text(f"rows {y0} to {y1 - 1}, columns {x0} to {x1 - 1}")

        second = why.locator(".term").nth(1)
        second.hover()
        group = re.search(r"\bt(\d+)\b", second.get_attribute("class") or "")[1]  # type: ignore[index]
        on = f".why > figure .mark.g{group}"
        assert page.locator(on).first.evaluate("mark => Number(getComputedStyle(mark).opacity)") == 1
        lit = second.locator(".dim").first.evaluate("path => Number(getComputedStyle(path).opacity)")
        assert lit == pytest.approx(0.45)

        stage = why.locator(".stage")
        stage.focus()
        page.keyboard.press("ArrowDown")
        before = words.inner_text()
        page.keyboard.press("ArrowLeft")
        expect(words).not_to_have_text(before)
        expect(words).to_contain_text("Cell")


def test_the_switch_shows_what_upsampling_would_have_claimed(browser: Browser, explorer: Served, image: str) -> None:
    with opened(browser, explorer, f"#/image/{image}") as result:
        why = result.page.locator(".why").first
        why.get_by_label("Show what upsampling").check()
        expect(why.locator("figcaption")).to_contain_text("Upsampling would have claimed")
        assert why.locator(".claimed").get_attribute("d")
        assert "/heat/" in (why.locator("image.heat").get_attribute("href") or "")
        why.get_by_label("Show what upsampling").uncheck()
        expect(why.locator(".claimed")).to_have_attribute("d", "")


def test_fields_and_claims_that_do_not_come_are_said_and_asked_for_again(
    browser: Browser, explorer: Served, image: str
) -> None:
    with opened(browser, explorer, f"#/image/{image}", allowed=("net::ERR_FAILED",)) as result:
        page = result.page
        why = page.locator(".why").first
        why.locator(".stage").wait_for()
        for path in ("cells", "upsampling/*"):
            page.route(f"**/api/images/*/{path}", lambda route: route.abort())
        why.locator(".stage").focus()
        page.keyboard.press("ArrowDown")
        expect(why.locator(".cell-words")).to_contain_text("is pixpnet serve still running")
        why.get_by_label("Show what upsampling").check()
        expect(why.get_by_role("alert")).to_contain_text("is pixpnet serve still running")
        page.unroute_all()
        why.get_by_role("button", name="Try again").click()
        expect(why.locator("figcaption")).to_contain_text("Upsampling would have claimed")
        why.locator(".stage").focus()
        page.keyboard.press("ArrowDown")
        expect(why.locator(".cell-words")).to_contain_text("sees rows")


def test_prove_it_shows_changed_images_and_the_unchanged_number(browser: Browser, explorer: Served, image: str) -> None:
    with opened(browser, explorer, f"#/image/{image}") as result:
        page = result.page
        page.get_by_role("button", name="Prove term 1", exact=True).first.click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("It held")
        outside = dialog.locator(".changed").first
        expect(outside.locator("img")).to_have_count(7)
        numbers = outside.locator("b").all_inner_texts()
        assert len(set(numbers)) == 1
        assert violations(page) == []
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(page.locator(".badge").first).to_contain_text("held")
        page.get_by_role("button", name="Prove every claim").click()
        expect(page.locator(".proving")).to_contain_text(re.compile(r"(\d+) of \1 claims held"))


def test_any_class_is_explained_beside_the_answer(browser: Browser, explorer: Served, image: str) -> None:
    with opened(browser, explorer, f"#/image/{image}") as result:
        page = result.page
        row = page.locator("section[aria-labelledby=ranking-heading] tbody tr").last
        name = row.locator("th").inner_text()
        row.get_by_role("link", name="why not?").click()
        expect(page.get_by_role("heading", name=f"Why not {name}?")).to_be_visible()


def test_images_of_the_data_set_are_filtered_and_linked_to(browser: Browser, explorer: Served) -> None:
    with opened(browser, explorer) as result:
        page = result.page
        page.get_by_label("Show").select_option("train")
        expect(page.get_by_text("24 of 24 training images")).to_be_visible()
        page.get_by_label("Class").select_option(label="blue")
        expect(page.get_by_text("8 of 8 training images")).to_be_visible()
        page.reload()
        expect(page.get_by_text("8 of 8 training images")).to_be_visible()
        page.locator(".wall a").first.focus()
        page.keyboard.press("Enter")
        expect(page.locator(".lead")).to_contain_text("training image")


def test_tabs_are_reached_by_keys_and_a_command_is_copied(browser: Browser, explorer: Served) -> None:
    with opened(browser, explorer) as result:
        page = result.page
        page.locator(".wall li").first.wait_for()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        page.get_by_role("link", name="Measures").press("Enter")
        page.locator(".command button").first.click()
        while not page.evaluate("navigator.clipboard.readText()").startswith("pixpnet "):
            page.wait_for_timeout(20)


def test_a_link_to_nothing_is_said(browser: Browser, explorer: Served) -> None:
    for where, words in (
        ("#/nowhere", "nothing here"),
        ("#/image/val-none", "no such image"),
        ("#/image/upload-x", "not in memory"),
    ):
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"http://{explorer.host}/?token={TOKEN}{where}")
        expect(page.locator("main")).to_contain_text(words)
        context.close()


def test_a_server_that_is_gone_is_said_and_may_be_tried_again(browser: Browser, explorer: Served, image: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(explorer.address)
    page.locator(".wall li").first.wait_for()
    page.route("**/api/images/**", lambda route: route.abort())
    page.evaluate("image => { location.hash = `#/image/${image}` }", image)
    expect(page.get_by_role("alert")).to_contain_text("is pixpnet serve still running")
    page.unroute("**/api/images/**")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".terms .term").first).to_be_visible()
    context.close()


def test_a_job_is_cancelled_from_the_page(browser: Browser, explorer: Served, image: str) -> None:
    free = threading.Event()

    def stands(progress: Progress) -> Result:
        while not free.wait(0.01):
            progress("standing", 1, 2)
        return Result({})

    jobs = explorer.explorer.jobs
    blocking = jobs.start("in the way", stands, heavy=False)
    try:
        with opened(browser, explorer, f"#/image/{image}") as result:
            page = result.page
            page.get_by_role("button", name="Prove every claim").click()
            expect(page.locator(".job")).to_contain_text("waiting for its turn")
            page.get_by_role("button", name="Cancel").click()
            expect(page.locator(".proving")).to_contain_text("Cancelled.")
            expect(page.get_by_role("button", name="Prove every claim")).to_be_enabled()
    finally:
        free.set()
        explorer.ended(blocking)


def test_a_tree_is_shown_as_its_path(browser: Browser, tree_run: Path) -> None:
    with served(tree_run) as explorer:
        image = explorer.ask("/api/images").json["images"][0]["id"]
        told = explorer.ask(f"/api/images/{image}").json["classes"][0]
        assert told["path"]
        assert [term["present"] in (True, False) for term in told["terms"]] == [True] * len(told["terms"])
        with opened(browser, explorer, f"#/image/{image}") as result:
            terms = result.page.locator(".why").first.locator(".turns .term")
            expect(terms).to_have_count(len(told["terms"]))
            expect(terms.first.locator(".adds")).to_contain_text("found")
            expect(result.page.locator(".sum").first).to_contain_text("Leaf")
            result.page.get_by_role("button", name="Prove term 1", exact=True).first.click()
            expect(result.page.get_by_role("dialog")).to_contain_text("It held")
        for where, ready in (("#/network", ".chart"), ("#/measures", ".command")):
            with opened(browser, explorer, where) as result:
                result.page.locator(ready).first.wait_for()


def test_the_camera_is_asked_for_and_its_picture_answered(
    explorer: Served, browser: Browser, chromium_path: str
) -> None:
    chromium = browser.browser_type.launch(
        executable_path=chromium_path,
        args=[
            *("--no-sandbox", "--headless", "--disable-gpu"),
            *("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"),
        ],
    )
    try:
        with opened(chromium, explorer) as result:
            result.page.get_by_role("button", name="Use the camera").click()
            snap = result.page.get_by_role("button", name="Take the picture")
            expect(snap).to_be_enabled()
            snap.click()
            expect(result.page.locator(".lead")).to_contain_text("camera.jpg")
    finally:
        chromium.close()
