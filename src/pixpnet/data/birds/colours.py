"""Colours as red, green and blue from 0 to 255, written as hexadecimal digits."""

Colour = tuple[int, int, int]


def hue(text: str) -> Colour:
    """A colour from six hexadecimal digits.

    >>> hue("ff8000")
    (255, 128, 0)
    """
    red, green, blue = bytes.fromhex(text)
    return red, green, blue


def hues(text: str) -> tuple[Colour, ...]:
    """Colours from six hexadecimal digits each, with spaces between.

    >>> hues("ff8000 000000")
    ((255, 128, 0), (0, 0, 0))
    """
    return tuple(hue(word) for word in text.split())
