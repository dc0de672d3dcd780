"""Mending by clicks, in a real browser: verdicts of every kind, an edited run, a training, and replies to the quiz."""

import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from pixpnet.training import Run
from pixpnet.views.explorer import mending
from tests.views.explorer.client import Served, served
from tests.views.explorer.pages import opened


@pytest.fixture
def mine(run_folder: Path, tmp_path: Path) -> Iterator[Served]:
    """A run that may be changed."""
    with served(Path(shutil.copytree(run_folder, tmp_path / "run"))) as page:
        yield page


def open_prototype(page: Page, number: int) -> None:
    """As a person does: from the gallery."""
    page.locator("#tabs").get_by_role("link", name="Prototypes").click()
    page.get_by_label("Sort by").select_option("number")
    page.locator(f".proto[data-number='{number}']").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Prototype {number}")


def test_a_removed_prototype_is_gone_from_the_edited_run(browser: Browser, mine: Served) -> None:
    with opened(browser, mine) as result:
        page = result.page
        open_prototype(page, 1)
        page.get_by_role("button", name="Remove", exact=True).click()
        expect(page.get_by_text("Now: to be removed.")).to_be_visible()
        page.locator("#tabs").get_by_role("link", name="Mend").click()
        write = page.get_by_role("button", name="Write the edited run").first
        expect(write).to_be_visible()
        # Somebody else says something about which this page does not know.
        mine.post("/api/verdicts", {"prototype": 3, "kind": "remove", "expected": 1})
        write.click()
        expect(page.get_by_text("Somebody else gave a verdict in between")).to_be_visible()
        expect(page.locator(".protolist a")).to_have_count(2)  # what holds now
        write.click()
        expect(page.get_by_text("run+edited is written")).to_be_visible()
        expect(page.locator("code", has_text="run+edited")).to_be_visible()
    edited = Run(mine.explorer.run.path.parent / "run+edited")
    assert edited.model().mendings[0].removed == (1, 3)


def test_patches_are_forbidden_and_remembered_and_the_model_is_trained_again(
    browser: Browser, mine: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"  # a stand-in, which says how far it is and leaves a run
    script.write_text(
        "import shutil, sys\nprint(' 40 % of the run', flush=True)\n"
        f"shutil.copytree({str(mine.explorer.run.path)!r}, sys.argv[sys.argv.index('--out') + 1])\n"
    )
    monkeypatch.setattr(mending, "retrain", partial(mending.retrain, called=(sys.executable, str(script))))
    with opened(browser, mine) as result:
        page = result.page
        open_prototype(page, 0)
        page.get_by_role("button", name="Forbid its patch").click()
        expect(page.get_by_text("Now: forbidden.")).to_be_visible()
        open_prototype(page, 2)
        page.get_by_role("button", name="Remember its patch").click()
        expect(page.get_by_text("Now: remembered.")).to_be_visible()
        page.locator("#tabs").get_by_role("link", name="Mend").click()
        expect(page.get_by_text("1 patch is forbidden, 1 to be remembered.")).to_be_visible()
        page.get_by_role("button", name="Retrain now").click()
        expect(page.get_by_text("run+feedback is trained: validation accuracy")).to_be_visible()


def test_a_required_prototype_is_said_and_so_is_why_this_head_cannot(browser: Browser, mine: Served) -> None:
    with opened(browser, mine, allowed=("status of 400",)) as result:
        page = result.page
        open_prototype(page, 5)
        page.get_by_text("Require it").click()
        page.get_by_label("with a weight of at least").fill("2.5")
        page.get_by_role("button", name="Require", exact=True).click()
        expect(page.get_by_text("Now: required, at least 2.5.")).to_be_visible()
        page.locator("#tabs").get_by_role("link", name="Mend").click()
        expect(page.get_by_text("none can be required")).to_be_visible()
        page.get_by_role("button", name="Undo verdict 1").click()
        expect(page.get_by_text("No prototype is to be removed or required.")).to_be_visible()


def test_the_gallery_shows_what_is_asked_for(browser: Browser, mine: Served) -> None:
    mine.post("/api/verdicts", {"prototype": 4, "kind": "keep", "expected": 0})
    with opened(browser, mine) as result:
        page = result.page
        page.locator("#tabs").get_by_role("link", name="Prototypes").click()
        expect(page.get_by_text("6 of 6 prototypes.")).to_be_visible()
        page.get_by_label("Show").select_option("with a verdict")
        expect(page.get_by_text("1 of 6 prototypes.")).to_be_visible()
        expect(page.locator(".proto")).to_contain_text(["Prototype 4"])
        page.get_by_label("Show").select_option("without a verdict")
        expect(page.get_by_text("5 of 6 prototypes.")).to_be_visible()
        page.get_by_label("Class").select_option("red")
        expect(page.get_by_text("1 of 6 prototypes.")).to_be_visible()
        page.get_by_label("Class").select_option("all")
        page.get_by_label("Find").fill("blue")
        expect(page.get_by_text("2 of 6 prototypes.")).to_be_visible()
        page.get_by_label("Find").fill("no such")
        expect(page.get_by_text("No prototype is like that.")).to_be_visible()
        page.reload()  # the address holds all of it
        expect(page.get_by_text("No prototype is like that.")).to_be_visible()
        expect(page.get_by_label("Show")).to_have_value("unseen")


def test_explanations_are_chosen_in_the_quiz_and_replies_are_downloaded(browser: Browser, mine: Served) -> None:
    drawn = mine.ended(mine.post("/api/quiz", {"agreement": 6, "distinction": 2, "seed": 3}).json)["result"]
    count = drawn["distinction"]
    with opened(browser, mine, f"#/quiz/{drawn['quiz']}/distinction/0?of={count}&then=0") as result:
        page = result.page
        for number in range(count):
            expect(page.get_by_text(f"Question {number + 1} of {count}.")).to_be_visible()
            if number % 2:
                page.keyboard.press("2")
            else:
                page.get_by_role("button", name="Explanation 1 is right").click()
        expect(page.get_by_text(f"{count} replies of at least 1 person about this model.")).to_be_visible()
        with page.expect_download() as download:
            page.get_by_role("link", name="Download all replies as CSV").click()
        assert download.value.suggested_filename == "quiz.csv"
        assert len(download.value.path().read_text().splitlines()) == count + 1
