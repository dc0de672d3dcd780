"""What a class may be called: one definition for data sets, for models that are saved, and for files that are read.

People use more than letters: no-break spaces, the joiners of Persian and of emoji, soft hyphens. These are fine. What a
terminal would obey, or what turns the order of what is read, is not; and neither are two classes that nobody could tell
apart.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Sequence

# Control characters, halves of characters (bytes that are no text), separators of lines and paragraphs.
_REFUSED_KINDS = frozenset({"Cc", "Cs", "Zl", "Zp"})
# Embeddings, overrides and isolates: they change the order of other letters on the screen.
_TURNING = frozenset({*range(0x202A, 0x202F), *range(0x2066, 0x206A)})
# Invisible although they are marks: variation selectors and the grapheme joiner.
_INVISIBLE = frozenset({0x034F, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)})


def fault_of(names: Sequence[str], folders: Sequence[str] = ()) -> str | None:
    r"""What is wrong with the names of classes, and what to do about it; None if nothing is.

    Args:
        names: as people will read them.
        folders: where the classes come from, if that is called otherwise.

    >>> fault_of(["jay", "wren"])
    >>> fault_of(["jay", "ja" + chr(0xAD) + "y"])
    "two classes look the same: 'jay' and 'ja\\xady': rename one of them"
    """
    for name, folder in zip(names, folders or names, strict=True):
        if not seen(name):
            return f"the class {folder!a} has no visible name: rename it"
        for letter in name:
            if not is_harmless(letter):
                called = unicodedata.name(letter, "a control character, or bytes that are no text")
                return (
                    f"the class {folder!a} has a character in its name that cannot be shown safely, "
                    f"{letter!a} ({called}): rename it"
                )
    alike: dict[str, list[str]] = defaultdict(list)
    for name, folder in zip(names, folders or names, strict=True):
        alike[seen(name)].append(folder)
    twins = next((both for both in alike.values() if len(both) > 1), None)
    if twins is None:
        return None
    return f"two classes look the same: {twins[0]!a} and {twins[1]!a}: rename one of them"


def seen(name: str) -> str:
    """What a reader sees of a name: composed, without what is invisible, and with ordinary spaces.

    >>> seen("blue" + chr(0xA0) + "jay" + chr(0x200C))
    'blue jay'
    """
    visible = [letter for letter in name if unicodedata.category(letter) != "Cf" and ord(letter) not in _INVISIBLE]
    return " ".join(unicodedata.normalize("NFC", "".join(visible)).split())


def is_harmless(letter: str) -> bool:
    """Whether a character may be printed: no terminal obeys it, and it leaves the order of others alone."""
    return unicodedata.category(letter) not in _REFUSED_KINDS and ord(letter) not in _TURNING


def printable(text: str) -> str:
    """Without what a terminal would obey: names of files and classes come from others.

    >>> printable("jay" + chr(27) + "[2J")
    'jay?[2J'
    """
    return "".join(_shown(letter) for letter in text)


def _shown(letter: str) -> str:
    if not is_harmless(letter):
        return "?"
    return " " if unicodedata.category(letter) == "Zs" else letter
