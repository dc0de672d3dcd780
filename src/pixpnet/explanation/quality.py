"""What a part is made of, in records and words: by how much its similarity falls when one quality of it is changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

QualityName = Literal["color", "hue", "saturation", "contrast", "texture", "shape"]
QUALITIES: Final[tuple[QualityName, ...]] = get_args(QualityName)
_WORDS: Final[dict[QualityName, str]] = {
    "color": "colour",
    "hue": "hue",
    "saturation": "saturation",
    "contrast": "contrast",
    "texture": "texture",
    "shape": "shape",
}
# A smaller fall than this is not worth a word.
_LITTLE: Final = 0.05


@dataclass(frozen=True)
class Quality:
    """What changing one quality of a part, and nothing else, does to the similarity of its cell.

    Attributes:
        name: what was changed.
        fall: the share of the similarity that is lost, mean over the changed images: 1 is all of it, 0 nothing, less
            than 0 a rise; None where the similarity is not positive, so that there is no share of it.
        images: how many changed images the mean is of.
    """

    name: QualityName
    fall: float | None
    images: int

    def __post_init__(self) -> None:
        if self.images < 1:
            raise ValueError(f"a mean over {self.images} images")


def matters_text(qualities: Sequence[Quality]) -> str:
    """What a part's similarity rests on, the most important quality first; empty where nothing was measured.

    >>> matters_text([Quality("color", 0.62, 1), Quality("shape", 0.4, 3), Quality("texture", 0.01, 1)])
    'colour matters most (62 %), then shape (40 %)'
    >>> matters_text([Quality("color", 0.02, 1), Quality("shape", -0.1, 3)])
    'no single quality matters much (colour 2 %)'
    >>> matters_text([Quality("color", None, 1)])
    'its similarity is not positive, so no share of it can fall'
    >>> matters_text([])
    ''
    """
    if not qualities:
        return ""
    falls = _largest_first(qualities)
    if not falls:
        return "its similarity is not positive, so no share of it can fall"
    largest, name = falls[0]
    if largest < _LITTLE:
        return f"no single quality matters much ({name} {_share(largest)})"
    others = [f"{word} ({_share(fall)})" for fall, word in falls[1:3] if fall >= _LITTLE]
    return f"{name} matters most ({_share(largest)})" + (f", then {' and '.join(others)}" if others else "")


def mostly_text(qualities: Sequence[Quality]) -> str:
    """The same for a narrow column.

    >>> mostly_text([Quality("color", 0.62, 1), Quality("shape", 0.4, 3)]), mostly_text([Quality("hue", 0.01, 3)])
    ('mostly colour (62 %)', 'no one quality')
    """
    falls = _largest_first(qualities)
    if not falls:
        return ""
    return f"mostly {falls[0][1]} ({_share(falls[0][0])})" if falls[0][0] >= _LITTLE else "no one quality"


def qualities_text(qualities: Sequence[Quality]) -> str:
    """Every quality with its fall, in the order of `QUALITIES`.

    >>> qualities_text([Quality("color", 0.62, 1), Quality("hue", None, 3)])
    'colour 62 %, hue undefined'
    """
    return ", ".join(
        f"{_WORDS[quality.name]} {'undefined' if quality.fall is None else _share(quality.fall)}"
        for quality in qualities
    )


def _share(fall: float) -> str:
    return f"{100 * fall:.0f} %"


def _largest_first(qualities: Sequence[Quality]) -> list[tuple[float, str]]:
    falls = [(quality.fall, _WORDS[quality.name]) for quality in qualities if quality.fall is not None]
    return sorted(falls, key=lambda fall: -fall[0])
