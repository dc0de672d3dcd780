"""The explanation of one answer: a frozen record that every view renders, and that turns into JSON and back.

Regions are disjoint half-open boxes in the `pixel` frame (the network's input); `Explanation.in_source` takes them to
the `source` frame (the file). A claim is about one *cell*: its similarity depends on the pixels of its region and on
nothing else. Which cell gives the score is decided among all cells (the best one, or with distinct pooling the best
one that is free), so the score may move when other pixels change, because another cell may win. Where a score is more
than the similarity of its cell, `Explanation.score_note` says what else it rests on.

A network has one or several *grids* of cells (a backbone cut at several layers); a cell is one of its term's grid.

What is made of a record lives beside it: `as_json`, `contrast`, `text` (for `print`) and `notebook`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from pixpnet.box import Box
from pixpnet.data.homography import transform_points
from pixpnet.explanation.answer import Certainty, Deciding, OtherAnswer
from pixpnet.explanation.names import UnknownClass, label_of
from pixpnet.explanation.quality import Quality
from pixpnet.model import Origin
from pixpnet.records import ADDED_LATER

if TYPE_CHECKING:
    from pixpnet.explanation.contrast import Contrast

Matrix = tuple[float, float, float, float, float, float, float, float, float]
Polygon = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Trial:
    """What changing every pixel outside a region did to one cell.

    Attributes:
        region: the pixels that were kept.
        largest_deviation: of the cell's similarity, over all draws; 0 means bit for bit the same.
        largest_distance_deviation: of the cell's distance, which is what the tolerance is about: the similarity has its
            pole at distance 0 and makes a rounding error of the distance look large there.
        passed: whether the distance stayed within the tolerance.
        outside: how many pixels there are outside; where the region is the whole image there are none, so that nothing
            was changed and `passed` says nothing.
    """

    region: tuple[Box, ...]
    largest_deviation: float
    largest_distance_deviation: float
    passed: bool
    outside: int


@dataclass(frozen=True)
class Proof:
    """The test of a term's claim: the network is run on changed images, and nobody asks how fields are computed.

    Attributes:
        draws: how many changed images; in turns noise, one colour, and a picture around the region.
        seed: of the draws.
        tolerance: how far the distance may move, for float error.
        field: the exact field, everything outside changed.
        upsampling: the same for the box that upsampling of the similarity map would draw.
        inside: how far the cell's similarity moved at most when the pixels of the field were changed instead.
        score_outside: how far the score, that of whichever cell wins, moved at most when everything outside the
            field was changed; it may, because another cell may win.
        pictures: what the pictures around the region were.
    """

    draws: int
    seed: int
    tolerance: float
    field: Trial
    upsampling: Trial
    inside: float
    score_outside: float
    pictures: Literal["training images", "pictures that were given", "the image itself, mirrored and moved"]

    @property
    def passed(self) -> bool:
        """Whether the claim about the field held; also where it could not fail, see `tested`."""
        return self.field.passed

    @property
    def tested(self) -> bool:
        """Whether there was anything outside the field to change."""
        return self.field.outside > 0


@dataclass(frozen=True)
class Term:
    """One addend of a logit: this part of the image looks like that part of a training image.

    Attributes:
        prototype: its number.
        label: the explained class where the prototype speaks for it, else the class that the prototype is listed under;
            where it speaks for none, that of the training image that it is from; -1 where there is no such image.
        class_name: of that class; empty without one.
        weight: what the head multiplies the score with.
        score: similarity of the prototype to its most similar patch in this image (see `Explanation.score_note`).
        distance: to that patch.
        contribution: weight x score; of a node of a tree, see `TreePath`.
        cell: row and column of the patch (of its top left cell) in its grid.
        region: the pixels that the patch sees, exactly; empty where it sees only padding.
        origin: the training patch that the prototype is; None where prototypes are not patches.
        crop: file that shows what the prototype's own cell saw, where there is one.
        picture: file that shows the training image around it, where there is one.
        proof: the test of the claim, after `prove`.
        grid: whose cell it is, from 0.
        also: names of the other classes that the prototype speaks for.
        parts: annotated parts that the prototype's own region holds, the one nearest to its middle first; empty where
            the data set knows none.
        share: of the image's pixels that the region holds, 0 to 1; None in files of earlier versions.
        qualities: how far the similarity falls when one quality of the region is changed, after `part_qualities`.
        name: what a person calls the prototype; empty where nobody does.
    """

    prototype: int
    label: int
    class_name: str
    weight: float
    score: float
    distance: float
    contribution: float
    cell: tuple[int, int]
    region: tuple[Box, ...]
    origin: Origin | None
    crop: str | None
    picture: str | None
    proof: Proof | None = None
    grid: int = field(default=0, metadata=ADDED_LATER)
    also: tuple[str, ...] = field(default=(), metadata=ADDED_LATER)
    parts: tuple[str, ...] = field(default=(), metadata=ADDED_LATER)
    share: float | None = field(default=None, metadata=ADDED_LATER)
    qualities: tuple[Quality, ...] = field(default=(), metadata=ADDED_LATER)
    name: str = field(default="", metadata=ADDED_LATER)

    def origin_in_source(self) -> tuple[Polygon, ...]:
        """The prototype's own region in the pixels of its training image's file; see `Explanation.in_source`."""
        return () if self.origin is None else _in_source(self.origin.to_source, self.origin.boxes)


@dataclass(frozen=True)
class TreePath:
    """How a tree came to a class: the way to the leaf that gives the class most. Terms are its nodes, root first.

    In a soft tree, a term's contribution is the log of the probability of the turn that was taken at its node; where
    one leaf counts, turns contribute nothing to the logit, which is what the leaf gives.

    Attributes:
        leaf: its number.
        present: at each node, whether the path turns to the side for images in which the prototype is present.
        probabilities: of each turn, as it was taken.
        weight: what share of the answer the leaf has; 1 where only one leaf counts.
        leaf_probability: what the leaf gives to the explained class.
        leaf_class: name of the class that the leaf gives most to.
        soft: whether other leaves count too, by their weights.
    """

    leaf: int
    present: tuple[bool, ...]
    probabilities: tuple[float, ...]
    weight: float
    leaf_probability: float
    leaf_class: str
    soft: bool

    @property
    def not_shown(self) -> float:
        """The share of the answer that other leaves have."""
        return 1 - self.weight


@dataclass(frozen=True)
class ClassExplanation:
    """Why a class got its logit: ``logit = sum of the terms' contributions + rest``.

    Attributes:
        label: of the class.
        class_name: for people.
        logit: what the head computed.
        share: softmax of the logits, no calibrated probability: see `Explanation.probability`.
        terms: the largest contributions, by absolute value, largest first; all of them where a class is connected with
            its own prototypes only. Of a tree, the nodes of `path`, from the root on.
        rest: sum of what is not listed: of the other contributions, and of the constant. Of a tree: the log of what the
            leaf gives to the class, and by how much other leaves raise it.
        rest_terms: how many contributions are not listed.
        constant: the part of `rest` that is the same for every image (that reaches the same leaf).
        path: the way through a tree, where the decision is one.
    """

    label: int
    class_name: str
    logit: float
    share: float
    terms: tuple[Term, ...]
    rest: float
    rest_terms: int
    constant: float = field(default=0.0, metadata=ADDED_LATER)
    path: TreePath | None = field(default=None, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        if self.path is not None and not len(self.path.present) == len(self.path.probabilities) == len(self.terms):
            raise ValueError(f"a path of {len(self.path.present)} turns for {len(self.terms)} terms")


@dataclass(frozen=True)
class Sight:
    """What the cells of one grid can see of an image of this size.

    Attributes:
        cells: rows and columns of patches.
        mean_fraction: mean share of the pixels that a patch sees, 0 to 1.
        max_fraction: largest share.
        everything: share of the patches that see the whole image.
        layer: at which the backbone gives these cells; empty for a whole network, or where it is not known.
        note: of which patches these shares are, as the end of a sentence, where what a patch sees depends on the image;
            else None.
    """

    cells: tuple[int, int]
    mean_fraction: float
    max_fraction: float
    everything: float
    layer: str = field(default="", metadata=ADDED_LATER)
    note: str | None = field(default=None, metadata=ADDED_LATER)


@dataclass(frozen=True)
class Explanation:
    """Why the model answered as it did for one image.

    Attributes:
        image: the file or a name.
        size: height and width in the `pixel` frame.
        source_size: height and width of the file, upright.
        to_source: from the `pixel` frame to the `source` frame, a 3 x 3 matrix row by row.
        pixels: the image as the network saw it, RGB, row by row.
        class_names: all classes of the model.
        logits: of all classes, in that order.
        classes: explained classes: the predicted one, then those asked for, or the runner-up.
        head: what the decision that made the logits calls itself.
        explanation_size: how many elements a person must read for one class, as `ExplanationSize` counts them.
        sight: what the cells can see; with several grids, those of the first.
        model: what the model is, in a few words (backbone @ layer).
        more_sights: what the cells of further grids can see.
        score_note: what else a score rests on beside the similarity of its cell, as the end of a sentence; None where a
            score is that similarity.
        other_answers: what other rules would answer to the same scores (a soft tree, read as a hard one).
        deciding: which scores decide the answer, after `prove`; None where that was not asked or cannot be told.
        not_deciding: why it cannot be told, as a sentence; empty where it can, or was not asked.
        choice_note: how the prototypes were chosen that speak in this image; None where all of them do.
        certainty: how certain the model may say to be; None where nobody has measured that.
    """

    image: str
    size: tuple[int, int]
    source_size: tuple[int, int]
    to_source: Matrix
    pixels: bytes = field(repr=False)
    class_names: tuple[str, ...]
    logits: tuple[float, ...]
    classes: tuple[ClassExplanation, ...]
    head: str
    explanation_size: tuple[int, int]
    sight: Sight
    model: str
    more_sights: tuple[Sight, ...] = field(default=(), metadata=ADDED_LATER)
    score_note: str | None = field(default=None, metadata=ADDED_LATER)
    other_answers: tuple[OtherAnswer, ...] = field(default=(), metadata=ADDED_LATER)
    deciding: Deciding | None = field(default=None, metadata=ADDED_LATER)
    not_deciding: str = field(default="", metadata=ADDED_LATER)
    choice_note: str | None = field(default=None, metadata=ADDED_LATER)
    certainty: Certainty | None = field(default=None, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        height, width = self.size
        if height < 1 or width < 1 or len(self.pixels) != height * width * 3:
            raise ValueError(f"{len(self.pixels)} bytes are no RGB image of {height} x {width} pixels")
        if not self.classes or len(self.logits) != len(self.class_names):
            raise ValueError(
                f"an explanation has a logit for each class and explains at least one, got {len(self.logits)} logits, "
                f"{len(self.class_names)} classes, {len(self.classes)} explained"
            )

    @property
    def predicted(self) -> ClassExplanation:
        """The class with the largest logit."""
        return self.classes[0]

    def probability(self, explained: ClassExplanation) -> float:
        """Of an explained class: calibrated where that was measured, else its share."""
        if self.certainty is None:
            return explained.share
        scaled = np.array(self.logits) / self.certainty.temperature
        exponentials = np.exp(scaled - scaled.max())
        return float(exponentials[explained.label] / exponentials.sum())

    @property
    def weighted(self) -> bool:
        """Whether scores are multiplied with weights: with the class sum all weights are 1."""
        return any(term.weight != 1 for explained in self.classes for term in explained.terms)

    @property
    def sights(self) -> tuple[Sight, ...]:
        """What the cells of each grid can see."""
        return (self.sight, *self.more_sights)

    def sight_of(self, term: Term) -> Sight:
        """What the cells of a term's grid can see."""
        return self.sights[term.grid]

    @property
    def sees_everything(self) -> bool:
        """Whether every cell of every grid sees the whole image, so that no part can be pointed at."""
        return all(sight.everything == 1 for sight in self.sights)

    def explained(self, class_or_label: str | int) -> ClassExplanation:
        """Why a class, by its name or label, got its logit.

        Raises:
            UnknownClass: if there is no such class or it was not asked for.
        """
        label = label_of(class_or_label, self.class_names)
        for explained in self.classes:
            if explained.label == label:
                return explained
        names = ", ".join(explained.class_name for explained in self.classes)
        raise UnknownClass(
            f"{self.class_names[label]} was not explained, but {names}: ask for it, explain(model, image, "
            f"classes=[{self.class_names[label]!r}])"
        )

    def why_not(self, class_or_label: str | int) -> "Contrast":
        """The terms of the predicted class and of another explained one side by side.

        Raises:
            UnknownClass: if there is no such class or it was not asked for.
            ValueError: if it is the predicted class, or a tree decided.
        """
        from pixpnet.explanation.contrast import contrast

        other = self.explained(class_or_label)
        if other is self.predicted:
            raise ValueError(f"{other.class_name} is the predicted class: ask why not for another one")
        return contrast(self.predicted, other)

    def in_source(self, region: Sequence[Box]) -> tuple[Polygon, ...]:
        """Boxes of this image in the pixels of its file, upright.

        Returns:
            for each box its corners (x, y), clockwise from the top left: polygons, since an image may be turned
            against its file. They are continuous, and may reach out of the file where a small image was padded.
        """
        return _in_source(self.to_source, region)

    def to_json(self) -> str:
        """The record as one JSON object, with the image in it; `from_json` gives back an equal record."""
        from pixpnet.explanation.as_json import to_json

        return to_json(self)

    @staticmethod
    def from_json(text: str) -> "Explanation":
        """The record that `to_json` wrote.

        Raises:
            BadRecord: if the text is anything else; the message says where.
        """
        from pixpnet.explanation.as_json import from_json

        return from_json(text)

    def __str__(self) -> str:
        """The answer in two sentences, and the three parts that speak most for it; `details` has all of it."""
        from pixpnet.explanation.brief import brief_text

        return brief_text(self)

    def details(self) -> str:
        """Every term of every explained class, why not the others, and what was tested, as text."""
        from pixpnet.explanation.text import text_of

        return text_of(self)

    def _repr_html_(self) -> str:
        from pixpnet.explanation.notebook import html_of

        return html_of(self)


def _in_source(to_source: Matrix, region: Sequence[Box]) -> tuple[Polygon, ...]:
    matrix = np.array(to_source).reshape(3, 3)
    polygons = []
    for y0, x0, y1, x1 in region:
        corners = np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]], dtype=np.float64)
        polygons.append(tuple((float(x), float(y)) for x, y in transform_points(matrix, corners)))
    return tuple(polygons)
