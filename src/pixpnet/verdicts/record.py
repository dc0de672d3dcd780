"""What a person says of a prototype, and what of it holds now.

| kind | meaning | read by |
|---|---|---|
| `keep` | looked at, and right; takes back what was said against it before | people |
| `remove` | the model should answer without it | `preview_edit`, `write_edit` |
| `require` | its weight must be at least `weight` (weighted heads) | `preview_edit`, `write_edit` |
| `forbid` | no prototype may be this patch, or like it | `pixpnet train --feedback` |
| `remember` | prototypes should be like this patch | `pixpnet train --feedback` |
| `name` | what a person calls it; shown everywhere from then on | explanations, reports, pages |

`keep`, `remove` and `require` replace each other; so do `forbid` and `remember` of one patch. Undoing is a line too.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Literal, get_args

from pixpnet.box import Box
from pixpnet.class_names import is_harmless
from pixpnet.records import BadRecord

Kind = Literal["keep", "remove", "require", "forbid", "remember", "name"]
KINDS: tuple[Kind, ...] = get_args(Kind)
DECIDED_KINDS = ("keep", "remove", "require")
PATCH_KINDS = ("forbid", "remember")
Matrix = tuple[float, float, float, float, float, float, float, float, float]
_LONGEST_NAME = 80
_LONGEST_ID = 4096
_MOST_PROTOTYPES = 10_000_000
_LARGEST_WEIGHT = 1e6
_LARGEST_SIDE = 1 << 16


class VerdictError(ValueError):
    """Verdicts that cannot be given or read; the message says why and what to do."""


class StaleVerdicts(VerdictError):
    """Somebody else wrote in between: nothing was written; look again, then decide."""


class OtherModelVerdicts(VerdictError):
    """Verdicts about the prototypes of another model."""


class VerdictWarning(UserWarning):
    """Verdicts beside a model that cannot be used, so that names are not shown."""


@dataclass(frozen=True)
class TrainingPatch:
    """A patch of a training image, exactly.

    Attributes:
        image: stable id of the image.
        class_name: of the image.
        boxes: the pixels that the patch sees, disjoint, in the `pixel` frame of the model that the verdict is about.
        size: height and width of the image in that frame.
        to_source: from that frame to the file's, a 3 x 3 matrix row by row.
        grid: of the cell.
        row: of the cell.
        col: of the cell.
    """

    image: str
    class_name: str
    boxes: tuple[Box, ...]
    size: tuple[int, int]
    to_source: Matrix
    grid: int
    row: int
    col: int

    def __post_init__(self) -> None:
        height, width = self.size
        if not (0 < height <= _LARGEST_SIDE and 0 < width <= _LARGEST_SIDE):
            raise BadRecord(f"a patch of an image of {height} x {width} pixels")
        if not self.boxes:
            raise BadRecord("a patch without any pixels: it saw nothing but padding")
        for y0, x0, y1, x1 in self.boxes:
            if not (0 <= y0 < y1 <= height and 0 <= x0 < x1 <= width):
                raise BadRecord(
                    f"the box {(y0, x0, y1, x1)} is empty or reaches out of an image of {height} x {width} pixels"
                )
        if min(self.grid, self.row, self.col) < 0:
            raise BadRecord(f"cell {self.row}, {self.col} of grid {self.grid}")
        if not 0 < len(self.image) <= _LONGEST_ID or len(self.class_name) > _LONGEST_ID:
            raise BadRecord("the name of a patch's image or class is empty or too long")

    @property
    def key(self) -> tuple[str, tuple[Box, ...]]:
        """What makes it the same patch as another one: its image and its pixels."""
        return self.image, tuple(sorted(self.boxes))


@dataclass(frozen=True)
class Verdict:
    """What a person says of one prototype.

    Attributes:
        prototype: its number.
        kind: what is said.
        text: the name, for `name` (empty takes it away); else a note, if any.
        weight: for `require`, the least weight that it must have; else None.
        patch: for `forbid` and `remember`, which patch; `give_verdict` fills in the prototype's own. Else None.

    >>> Verdict(3, "name", "red belly").text
    'red belly'
    """

    prototype: int
    kind: Kind
    text: str = ""
    weight: float | None = None
    patch: TrainingPatch | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise VerdictError(f"{self.kind!r} is no verdict: there are {', '.join(KINDS)}")
        if not 0 <= self.prototype < _MOST_PROTOTYPES:
            raise VerdictError(f"there is no prototype {self.prototype}")
        if len(self.text) > _LONGEST_NAME:
            raise VerdictError(f"a name or note has at most {_LONGEST_NAME} characters, got {len(self.text)}")
        if not all(map(is_harmless, self.text)):
            raise VerdictError("a name or note cannot hold control characters or line breaks: leave them out")
        if (self.weight is not None) != (self.kind == "require"):
            raise VerdictError("`require` says the least weight that a prototype must have, and nothing else does")
        if self.weight is not None and not (isfinite(self.weight) and 0 < self.weight <= _LARGEST_WEIGHT):
            raise VerdictError(f"a prototype can be required with a weight above 0, got {self.weight}")
        if self.patch is not None and self.kind not in PATCH_KINDS:
            raise VerdictError(f"{self.kind!r} is said of a prototype, not of a patch")


@dataclass(frozen=True)
class VerdictLine:
    """One line of a log: a verdict, or that an earlier line is taken back.

    Attributes:
        serial: number of the line, from 1.
        time: when it was written (UTC).
        model: hash of the model that it is about.
        verdict: what is said; None where a line is taken back.
        undoes: the serial of the line that is taken back; else None.
    """

    serial: int
    time: str
    model: str
    verdict: Verdict | None
    undoes: int | None

    def __post_init__(self) -> None:
        if (self.verdict is None) == (self.undoes is None):
            raise BadRecord("a line is a verdict or takes one back, and not both")


@dataclass(frozen=True)
class Standing:
    """What holds of one prototype now.

    Attributes:
        prototype: its number.
        action: the last of keep, remove and require; None where none was said.
        weight: the least weight, where it is required.
        name: what a person calls it; empty where nobody does.
        forbidden: patches that are forbidden because of it.
        remembered: patches that are to be remembered because of it.
        serials: of the lines that say so, oldest first.
    """

    prototype: int
    action: Literal["keep", "remove", "require"] | None = None
    weight: float | None = None
    name: str = ""
    forbidden: tuple[TrainingPatch, ...] = ()
    remembered: tuple[TrainingPatch, ...] = ()
    serials: tuple[int, ...] = field(default=())

    @property
    def says_something(self) -> bool:
        """Whether anything is left of what was said."""
        return bool(self.action or self.name or self.forbidden or self.remembered)


def standing_of(lines: Iterable[VerdictLine]) -> dict[int, Standing]:
    """What holds after all lines, for each prototype of which anything is said, in the order of their numbers."""
    held = list(lines)
    undone = {line.undoes for line in held if line.undoes is not None}
    standing: dict[int, Standing] = {}
    for line in held:
        if line.verdict is not None and line.serial not in undone:
            number = line.verdict.prototype
            before = standing.get(number, Standing(number))
            standing[number] = _after(before, line.verdict, line.serial)
    return {number: standing[number] for number in sorted(standing) if standing[number].says_something}


def _after(before: Standing, verdict: Verdict, serial: int) -> Standing:
    after = replace(before, serials=(*before.serials, serial))
    if verdict.kind == "name":
        return replace(after, name=" ".join(verdict.text.split()))
    if verdict.kind == "keep":
        return replace(after, action="keep", weight=None, forbidden=())
    if verdict.kind == "remove" or verdict.kind == "require":
        return replace(after, action=verdict.kind, weight=verdict.weight)
    if verdict.patch is None:
        return after
    others = {
        name: tuple(patch for patch in getattr(before, name) if patch.key != verdict.patch.key)
        for name in ("forbidden", "remembered")
    }
    role = "forbidden" if verdict.kind == "forbid" else "remembered"
    others[role] = (*others[role], verdict.patch)
    return replace(after, forbidden=others["forbidden"], remembered=others["remembered"])
