"""Pages as text: self-contained, escaped, each picture once."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pixpnet.box import Box
from pixpnet.views import report
from pixpnet.views.page import explanation_page
from tests.views.material import HOSTILE, SIZE, comb, explained, explanation, proof, term


class Tags(HTMLParser):
    """Collects tags, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def assert_self_contained(page: str) -> None:
    """Nothing on the page is fetched from anywhere."""
    for tag, attributes in Tags(page).tags:
        for name in ("src", "href", "xlink:href", "srcset", "action", "data", "poster"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:")), f"<{tag} {name}={value!r}>"
    assert not re.search(r"@import|url\((?!#)", page)
    assert '<link rel="stylesheet"' not in page


def test_hostile_names_are_text_and_nothing_else(tmp_path: Path) -> None:
    terms = [term(k, 0, "jay", proven=proof()) for k in range(3)]
    record = explanation([explained(0, HOSTILE, terms), explained(1, HOSTILE, terms)], image=f"{HOSTILE}/'.jpg")
    page = explanation_page([record])
    result = Tags(page)
    assert [tag for tag, _ in result.tags].count("script") == 1  # ours
    assert "<script>alert(1)" not in page
    assert "{{ 7 * 7 }}" in page
    assert HOSTILE in result.text
    assert_self_contained(page)


def test_each_picture_is_embedded_once_and_shown_by_reference(tmp_path: Path) -> None:
    terms = [term(k, pictures=tmp_path) for k in range(4)]
    page = explanation_page([explanation([explained(0, "jay", terms), explained(1, "wren", terms)])])
    # Four training images, and the image itself.
    assert page.count("data:image/") == 5
    ids = {attributes["id"] for tag, attributes in Tags(page).tags if "id" in attributes}
    used = {attributes["href"] for tag, attributes in Tags(page).tags if tag == "use"}
    assert {str(item).lstrip("#") for item in used} <= ids


def test_every_picture_says_what_it_shows() -> None:
    page = explanation_page([explanation([explained(0, "jay", [term(0), term(1, region=comb())])])])
    shots = [attributes for tag, attributes in Tags(page).tags if tag == "svg" and attributes.get("role") == "img"]
    assert len(shots) == 1 + 2 * 3
    assert all(attributes["aria-label"] for attributes in shots)


def test_a_region_with_holes_is_painted_alone() -> None:
    page = explanation_page([explanation([explained(0, "jay", [term(0, region=comb())])])])
    clips = [attributes for tag, attributes in Tags(page).tags if "clip-path" in attributes]
    assert len(clips) == 1


def test_the_sum_and_the_proofs_are_on_the_page() -> None:
    terms = [term(0, weight=-0.5, proven=proof()), term(1, weight=-0.5, proven=proof(False))]
    text = Tags(explanation_page([explanation([explained(0, "jay", terms, 2.0, 5)], "linear")])).text
    # -0.5 x (3.2 + 3.0), and 2 of the rest.
    assert "−3.10 shown, and 5 more, sum 2.00" in text
    assert "logit −1.10" in text
    assert "= −0.50 × 3.20" in text
    assert "✓ held, moved 0" in text
    assert "✗ failed, moved 0.25" in text
    assert "Proofs: 1 of 2 held" in text


def test_a_region_that_is_the_whole_image_is_no_proof_of_anything() -> None:
    whole = (Box(0, 0, SIZE, SIZE),)
    terms = [term(0, proven=proof()), term(1, region=whole, proven=proof(whole=True))]
    record = explanation([explained(0, "jay", terms)], everything=0.3)
    text = Tags(explanation_page([record])).text
    assert "Proofs: 1 of 1 held" in text
    assert text.count("✓") == 2  # beside the first term, and in the table
    assert "nothing outside to test" in text
    exact, upsampling = report.tested([report.Example(record, None)])
    assert (exact.held, exact.terms, exact.whole) == (1, 1, 1)
    assert (upsampling.held, upsampling.terms, upsampling.whole) == (0, 2, 0)


def test_cells_that_see_everything_are_not_outlined() -> None:
    page = explanation_page([explanation([explained(0, "jay", [term(0)])], everything=1.0)])
    assert 'class="edge' not in page
    assert "sees the whole image" in Tags(page).text


def test_a_page_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        explanation_page([])
