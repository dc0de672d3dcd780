"""Fields as notebooks show them: exact drawings, escaped names, small."""

import re
from html.parser import HTMLParser

import pytest
from torch import nn

from pixpnet.fields import Fields, receptive_fields
from pixpnet.fields.table import HEADER


class _Read(HTMLParser):
    """The rows of tables, the paths that are drawn, and every tag."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.paths: list[str] = []
        self.rows: list[list[str]] = []
        self._open = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.paths += [value or "" for name, value in attrs if name == "d"]
        if tag == "tr":
            self.rows.append([])
        self._open = tag in ("td", "th")
        if self._open:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = self._open and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._open:
            self.rows[-1][-1] += data


def dilated() -> Fields:
    """Every other pixel of 3 rows and columns, then the same again with larger gaps."""
    network = nn.Sequential(nn.Conv2d(3, 4, 3, dilation=2), nn.Conv2d(4, 4, 3, dilation=7, padding=7))
    return receptive_fields(network, (3, 21, 21))


def test_every_layer_has_a_row_with_the_numbers_of_the_table() -> None:
    fields = receptive_fields("resnet18", (3, 64, 64))
    read = _Read(fields._repr_html_())
    assert read.rows[0] == [
        "field",
        *HEADER,
    ]
    assert [tuple(row[1:]) for row in read.rows[1:]] == [row.cells() for row in fields.table()]


def test_what_is_drawn_is_exactly_what_the_middle_cell_sees() -> None:
    field = receptive_fields(nn.Sequential(nn.Conv2d(3, 4, 3, stride=2, padding=1)), (3, 10, 10))["0"]
    # Row and column 2 of 5 see pixels 3 to 5.
    assert "M3 3H6V6H3Z" in _Read(field._repr_html_()).paths
    read = _Read(dilated()._repr_html_())
    gaps = read.paths[0]
    # Nine single pixels, two apart, around the cell in the middle of 17 x 17: pixels 8, 10 and 12.
    corners = [(int(x), int(y)) for x, y in re.findall(r"M(\d+) (\d+)", gaps)]
    assert sorted(corners) == [(x, y) for x in (8, 10, 12) for y in (8, 10, 12)]
    # 81 boxes are drawn as the box around them, and said to be.
    assert read.paths[1] == "M1 1H20V20H1Z"
    assert "smallest box around its many gaps" in dilated()._repr_html_()


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        (nn.Conv1d(2, 3, 5, dilation=2), (2, 40)),
        (nn.Conv3d(1, 2, 3), (1, 5, 6, 7)),
        (nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 5)), (3, 8, 8)),
    ],
)
def test_other_shapes_are_shown_too(network: nn.Module, shape: tuple[int, ...]) -> None:
    fields = receptive_fields(network, shape)
    html = fields._repr_html_() + "".join(field._repr_html_() for field in fields.values())
    assert ("<svg" in html) == (len(shape) == 3)


def test_hostile_names_of_layers_are_escaped() -> None:
    evil = "</td><script>alert('\"')</script>"
    network = nn.Sequential()
    network.add_module(evil.replace(".", ""), nn.Conv2d(3, 4, 3))
    read = _Read(receptive_fields(network, (3, 8, 8))._repr_html_())
    assert "script" not in read.tags
    assert not any(name.startswith("on") for name in read.attributes)
    assert read.rows[1][1] == evil


def test_a_deep_network_stays_small() -> None:
    assert len(receptive_fields("densenet121", (3, 64, 64))._repr_html_()) < 250_000
