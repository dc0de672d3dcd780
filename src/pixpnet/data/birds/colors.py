"""Colours as red, green and blue from 0 to 255, written as hexadecimal digits."""

Color = tuple[int, int, int]


def hue(text: str) -> Color:
    """A colour from six hexadecimal digits.

    >>> hue("ff8000")
    (255, 128, 0)
    """
    red, green, blue = bytes.fromhex(text)
    return red, green, blue


def hues(text: str) -> tuple[Color, ...]:
    """Colours from six hexadecimal digits each, with spaces between.

    >>> hues("ff8000 000000")
    ((255, 128, 0), (0, 0, 0))
    """
    return tuple(hue(word) for word in text.split())
