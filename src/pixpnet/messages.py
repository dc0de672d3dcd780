"""What other libraries, files and people say, made fit for our own messages."""

import re

# C0 but for tab and line feed, delete, C1, line separators, marks and overrides of the writing direction, and what
# stands for bytes that are no text: a terminal obeys the first ones, and is deceived by or cannot show the others.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def first_line(message: object) -> str:
    r"""The first line of an error or text: torch and databases go on with traces and statements.

    >>> first_line(ValueError("sizes differ\nsee line 12"))
    'sizes differ'
    """
    return str(message).strip().split("\n", 1)[0]


def visible(text: str) -> str:
    r"""Text for a terminal: what it would obey is shown, as JSON and Python write it; lines and tabs stay.

    >>> print(visible("jay\x1b[2J.jpg"))
    jay\u001b[2J.jpg
    """
    return _UNSEEN.sub(lambda unseen: f"\\u{ord(unseen[0]):04x}", text)


def on_one_line(text: object) -> str:
    r"""Like `visible`, for a name that must not begin a line of its own.

    >>> print(on_one_line("jay\nerror: none"))
    jay\u000aerror: none
    """
    return visible(str(text)).replace("\n", "\\u000a").replace("\t", "\\u0009")
