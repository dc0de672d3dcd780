"""What a terminal would obey is shown."""

import json
import string

from hypothesis import given
from hypothesis import strategies as st

from pixpnet.messages import on_one_line, visible

# Escape, bell, backspace, carriage return, delete, CSI of C1, right-to-left override and isolate, half a pair.
OBEYED = "\x1b\x07\x08\r\x7f\x9b\u202e\u2067\udcff\x00\u2028"


def test_each_character_that_a_terminal_obeys_is_shown_by_its_number() -> None:
    assert visible("a\x1b[2Jb") == r"a\u001b[2Jb"
    for character in OBEYED:
        assert visible(character) == f"\\u{ord(character):04x}"


@given(st.text(alphabet=string.printable.replace("\r", "").replace("\x0b", "").replace("\x0c", "") + "äß日本😀\u200d"))
def test_text_that_no_terminal_obeys_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


@given(st.text())
def test_what_is_visible_can_be_printed_and_stays_visible(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    assert all(character.isprintable() or character in "\n\t" or ord(character) > 0x9F for character in shown)
    shown.encode("utf-8")


def test_a_json_text_keeps_its_meaning() -> None:
    value = {"name": f"a{OBEYED}b"}
    assert json.loads(visible(json.dumps(value, ensure_ascii=False))) == value


def test_a_name_stays_on_its_line() -> None:
    assert on_one_line("jay\nerror: gone\t.jpg") == r"jay\u000aerror: gone\u0009.jpg"
