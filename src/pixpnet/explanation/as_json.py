"""An explanation as JSON and back; what comes from a file is checked before anybody draws or believes it."""

import base64
import binascii
import io
import json
from collections.abc import Iterator
from itertools import chain
from math import exp, isclose, prod

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from pixpnet.box import Box
from pixpnet.class_names import is_harmless
from pixpnet.data import ImageError
from pixpnet.data.decode import decode
from pixpnet.explanation.record import ClassExplanation, Explanation
from pixpnet.parts.ownership import NOBODY
from pixpnet.records import BadRecord, from_plain, to_plain

FORMAT = 1
# Of probabilities that are computed in single precision, from distances of at least 1e-7.
_ROUNDING = 1e-5
_PNG = b"\x89PNG\r\n\x1a\n"


def to_json(explanation: Explanation) -> str:
    """One JSON object; `pixels` becomes a PNG in base64, everything else keeps its name."""
    height, width = explanation.size
    pixels = np.frombuffer(explanation.pixels, np.uint8).reshape(height, width, 3)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="png")
    values = to_plain(explanation)
    values["pixels"] = base64.b64encode(file.getvalue()).decode("ascii")
    return json.dumps({"format": FORMAT, **values}, indent=1, allow_nan=False)


def from_json(text: str) -> Explanation:
    """The explanation that `to_json` wrote.

    Raises:
        BadRecord: if the text is anything else; the message says where.
    """
    try:
        values = json.loads(text)
        if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
            raise BadRecord(f"no explanation of format {FORMAT}: was it written by pixpnet explain, and this version?")
        pixels = _pixels(values.get("pixels"))
        explanation = from_plain(Explanation, {**values, "pixels": pixels.tobytes()}, "explanation")
    except BadRecord:
        raise
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"no JSON: {error}") from error
    if pixels.shape[:2] != explanation.size:
        raise BadRecord(f"explanation.pixels: a picture of {pixels.shape[:2]} for an image of {explanation.size}")
    for problem in _problems(explanation):
        raise BadRecord(f"explanation: {problem}")
    return explanation


def _pixels(value: object) -> UInt8[np.ndarray, "height width 3"]:
    try:
        data = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
        if not data.startswith(_PNG):
            raise BadRecord("explanation.pixels: expected a PNG in base64")
        return decode(data, upright=False)
    except (binascii.Error, ImageError) as error:
        raise BadRecord(f"explanation.pixels: expected a PNG in base64: {error}") from error


def _problems(explanation: Explanation) -> Iterator[str]:
    """What no single field shows: numbers that must fit each other."""
    names = explanation.class_names
    for explained in explanation.classes:
        yield from _wrong_class(explained.label, explained.class_name, names)
        if explained.label < len(names) and explanation.logits[explained.label] != explained.logit:
            yield f"the logit of {explained.class_name} is not the one in the list of logits"
        for term in explained.terms:
            if (term.label, term.class_name) != (NOBODY, ""):
                yield from _wrong_class(term.label, term.class_name, names)
            if not all(map(is_harmless, term.name)):
                yield f"prototype {term.prototype} has a name with characters that cannot be shown safely"
            for name in set(term.also).difference(names):
                yield f"prototype {term.prototype} is said to speak for {name!r} too, which is no class"
            if not 0 <= term.grid < len(explanation.sights):
                yield f"a term of grid {term.grid}, and there are {len(explanation.sights)}"
        yield from _wrong_path(explained, names)
    paths = [explained.path for explained in explanation.classes]
    if len({path is None or path.soft for path in paths}) > 1 or len({path is None for path in paths}) > 1:
        yield "some classes are explained by a sum or a hard path, and others by a soft one"
    for answer in explanation.other_answers:
        if answer.class_name not in names:
            yield f"{answer.rule} is said to answer {answer.class_name!r}, which is no class"
    deciding = explanation.deciding
    if deciding is not None and (
        len(set(deciding.prototypes)) < len(deciding.prototypes)
        or not all(0 <= number < deciding.of for number in deciding.prototypes)
    ):
        yield f"the scores that decide are said to be those of {deciding.prototypes}, of {deciding.of} prototypes"
    if len({explained.label for explained in explanation.classes}) < len(explanation.classes):
        yield "a class is explained twice"
    if explanation.predicted.logit < max(explanation.logits):
        yield "the first class that is explained is not the one with the largest logit"
    height, width = explanation.size
    for y0, x0, y1, x1 in chain.from_iterable(map(_boxes, explanation.classes)):
        if not (0 <= y0 < y1 <= height and 0 <= x0 < x1 <= width):
            yield f"the box {(y0, x0, y1, x1)} is empty or reaches out of the image of {height} x {width} pixels"
    for term in chain.from_iterable(explained.terms for explained in explanation.classes):
        pixels = sum((y1 - y0) * (x1 - x0) for y0, x0, y1, x1 in term.region)
        if term.share is not None and not _close(term.share, pixels / (height * width)):
            yield f"the region of prototype {term.prototype} is not {term.share} of the image"


def _wrong_path(explained: ClassExplanation, names: tuple[str, ...]) -> Iterator[str]:
    path = explained.path
    if path is None:
        return
    about = f"the path for {explained.class_name}"
    shares = (*path.probabilities, path.weight, path.leaf_probability)
    if path.leaf < 0 or path.leaf_class not in names:
        yield f"leaf {path.leaf} is said to answer {path.leaf_class!r}"
    if not all(0 <= share <= 1 for share in shares):
        yield f"{about} has a probability that is none"
        return
    if not _close(path.weight, prod(path.probabilities) if path.soft else 1.0):
        yield f"{about} has the weight {path.weight}, which its turns do not come to"
    if not _close(exp(min(explained.constant, 0.0)), path.leaf_probability):
        yield f"{about} ends in a leaf that gives {path.leaf_probability}, which is not exp({explained.constant})"
    if len({term.prototype for term in explained.terms}) < len(explained.terms):
        yield f"{about} asks for a prototype twice"
    for term, present, probability in zip(explained.terms, path.present, path.probabilities, strict=True):
        probability_present = exp(min(term.score, 0.0))
        if not _close(probability, probability_present if present else 1 - probability_present):
            yield f"{about} turns at prototype {term.prototype} with {probability}, and its score is {term.score}"
        if not _close(exp(min(term.contribution, 0.0)), probability if path.soft else 1.0):
            yield f"{about} turns at prototype {term.prototype} with {probability}, which is not its contribution"


def _close(one: float, other: float) -> bool:
    return isclose(one, other, rel_tol=_ROUNDING, abs_tol=_ROUNDING)


def _wrong_class(label: int, class_name: str, names: tuple[str, ...]) -> Iterator[str]:
    if not 0 <= label < len(names) or names[label] != class_name:
        yield f"the class {label} is not {class_name!r}"


def _boxes(explained: ClassExplanation) -> Iterator[Box]:
    for term in explained.terms:
        yield from term.region
        if term.proof is not None:
            yield from term.proof.field.region
            yield from term.proof.upsampling.region
