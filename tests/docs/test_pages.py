"""Tutorials and pages about extending run as they stand, and print what they say."""

from pathlib import Path

import pytest
import uvicorn
from PIL import Image

from pixpnet import zoo
from pixpnet.cli import main
from tests.docs.running import DOCS, EXECUTED, Block, blocks, compare, run_page
from tests.docs.stand_ins import draw, stop_when_open

TUTORIALS = [page for page in EXECUTED if page.parent.name == "tutorials" and page.name != "index.md"]
EXTENSIONS = [page for page in EXECUTED if page.parent.name == "extend" and page.name != "index.md"]


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reader's folder with photographs, and the working directory; random weights stand in for a download."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(zoo, "download", zoo.build)
    monkeypatch.setattr(uvicorn.Server, "run", stop_when_open)
    draw(tmp_path / "photos", 14, seed=0)
    Image.open(tmp_path / "photos" / "jay" / "0.png").save(tmp_path / "new.jpg")
    return tmp_path


@pytest.mark.parametrize("page", EXTENSIONS, ids=lambda page: page.stem)
def test_the_code_of_a_page_about_extending_runs_and_prints_what_it_says(page: Path, reader: Path) -> None:
    run_page(page)


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_the_short_part_of_a_tutorial_runs_and_prints_what_it_says(page: Path, reader: Path) -> None:
    run_page(page, short=True)


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_whole_tutorial_runs_and_prints_what_it_says(page: Path, reader: Path) -> None:
    run_page(page)


@pytest.mark.slow
def test_the_ten_lines_of_the_first_page_print_what_they_say_after_the_demo(reader: Path) -> None:
    assert main(["demo", "--out", "demo"]) == 0
    run_page(DOCS / "index.md")


def test_every_extension_point_has_a_page() -> None:
    points = {"rule", "backbone", "member", "part", "mapping", "metric", "dataset", "view"}
    assert {page.stem for page in EXTENSIONS} == points
    assert all(blocks(page) for page in EXTENSIONS)


@pytest.mark.parametrize(
    ("printed", "text", "numbers_differ", "same"),
    [
        ("one 1\ntwo", "one 1\ntwo", False, True),
        ("one 1\ntwo", "one 2\ntwo", False, False),
        ("one 1\ntwo", "one 2\ntwo", True, True),
        ("one 1\ntwo", "one 2\nthree", True, False),
        ("one, and more\nlast", "one...\nlast", False, True),
        ("one", "one\nlast", False, False),
    ],
)
def test_pages_are_compared_word_by_word(printed: str, text: str, numbers_differ: bool, same: bool) -> None:
    block = Block("text", text, numbers_differ, "")
    if same:
        compare(printed, block, "page")
    else:
        with pytest.raises(AssertionError):
            compare(printed, block, "page")
