"""What a report is made of: a finished run, how it was evaluated, and explained examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from jaxtyping import UInt8

from pixpnet.explanation import Explanation, Proof, Term, Trial
from pixpnet.explanation.text import share_of
from pixpnet.fields import Field
from pixpnet.model import Grid, PixPNet, picture_name
from pixpnet.training import Evaluation, Metrics, OpeningLine
from pixpnet.training.answers import AnswerLine
from pixpnet.views.pictures import image_pixels, training_pixels
from pixpnet.views.prototypes import grid_names
from pixpnet.views.stock import Mark, Picture, Shot, Stock
from pixpnet.views.trust import TrustBlock
from pixpnet.views.words import deviation, percent


@dataclass(frozen=True)
class Example:
    """An explained image; the name of its true class, where it is known."""

    explanation: Explanation
    truth: str | None


@dataclass(frozen=True)
class Report:
    """Everything that `report_page` shows.

    Attributes:
        title: of the page.
        model: of the run.
        metrics: how it was evaluated when its training ended.
        openings: of the test split.
        split: where examples are from, for people.
        evaluated_split: whose confusion is shown, for people: test where the run was evaluated on it.
        evaluation: on that split.
        mistakes: the wrong answers there, the surest first; None where the run did not keep its answers.
        examples: explained, best with proofs.
        notes: what the reader must know about this report, such as that the data were not at hand.
        config: text of `config.yaml`.
        versions: of what made the page.
        trust: how far the model can be trusted; None where nobody asked.
        run: the name of the run's folder, for commands.
    """

    title: str
    model: PixPNet
    metrics: Metrics
    openings: tuple[OpeningLine, ...]
    split: str
    evaluated_split: str
    evaluation: Evaluation
    mistakes: tuple[AnswerLine, ...] | None
    examples: tuple[Example, ...]
    notes: tuple[str, ...]
    config: str
    versions: Mapping[str, str]
    trust: TrustBlock | None = None
    run: str = "RUN"


@dataclass(frozen=True)
class SplitEvaluation:
    """A split before and after replacement; `before` is None where prototypes are never replaced."""

    split: str
    before: Evaluation | None
    after: Evaluation


@dataclass(frozen=True)
class Tested:
    """What proofs found for one way to draw regions.

    Attributes:
        name: of the way.
        terms: how many could be tested.
        held: how many of those held.
        whole: how many could not, because the region is the whole image.
        median: how far the cell's similarity moved.
        largest: the same at most.
    """

    name: str
    terms: int
    held: int
    whole: int
    median: float
    largest: float


@dataclass(frozen=True)
class Misled:
    """A term whose upsampling box leaves out what the cell reads."""

    prototype: int
    image: str
    field: str
    upsampling: str


@dataclass(frozen=True)
class GridBlock:
    """What the cells of one grid see.

    Attributes:
        name: of the grid, where there are several; else empty.
        field: of its cells.
        shot: some of them on an image.
        legend: what to call those, with their colours.
    """

    name: str
    field: Field
    shot: Shot
    legend: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Confusion:
    """Images of one class that were taken for another."""

    truth: str
    taken_for: str
    images: int


def hardest_classes(evaluation: Evaluation, number: int) -> tuple[int, ...]:
    """The classes with the lowest accuracies, lowest first; those without images are left out."""
    known = [(accuracy, label) for label, accuracy in enumerate(evaluation.class_accuracy) if accuracy is not None]
    return tuple(label for _, label in sorted(known)[:number])


def evaluated(metrics: Metrics) -> tuple[SplitEvaluation, ...]:
    """The splits that a run was evaluated on, test first."""
    validation = SplitEvaluation("validation", metrics.validation_before, metrics.validation)
    if metrics.test is None:
        return (validation,)
    return SplitEvaluation("test", metrics.test_before, metrics.test), validation


def tested(examples: Sequence[Example]) -> tuple[Tested, ...]:
    """What the proofs of all examples found, for the exact field and for upsampling; nothing without proofs."""
    proofs = _proofs(examples)
    if not proofs:
        return ()
    return (
        _tested("exact field", [proof.field for proof in proofs]),
        _tested("upsampling box", [proof.upsampling for proof in proofs]),
    )


def surroundings(examples: Sequence[Example]) -> str:
    """What the pictures around regions were in the proofs of all examples."""
    return " or ".join(dict.fromkeys(proof.pictures for proof in _proofs(examples)))


def _proofs(examples: Sequence[Example]) -> list[Proof]:
    return [
        term.proof
        for example in examples
        for explained in example.explanation.classes
        for term in explained.terms
        if term.proof is not None
    ]


def worst(examples: Sequence[Example], stock: Stock, most: int = 3) -> tuple[tuple[Shot, Misled], ...]:
    """The terms where changing what is outside the upsampling box moved the cell most, one for each image."""
    mistakes = []
    for example in examples:
        explanation = example.explanation
        terms = [
            term
            for term in explanation.predicted.terms
            if term.proof is not None and not term.proof.upsampling.passed and explanation.sight_of(term).everything < 1
        ]
        if not terms:
            continue
        term = max(terms, key=_moved_outside_upsampling)
        assert term.proof is not None
        trials = (term.proof.field, term.proof.upsampling)
        marks = [Mark(stock.outline(trial.region), style, style) for style, trial in enumerate(trials) if trial.region]
        alt = f"{explanation.image} with the exact field of a cell and the upsampling box of prototype {term.prototype}"
        shot = stock.whole(stock.picture(image_pixels(explanation)), alt, marks)
        moved = (deviation(trial.largest_deviation) for trial in trials)
        mistakes.append((_moved_outside_upsampling(term), shot, Misled(term.prototype, explanation.image, *moved)))
    mistakes.sort(key=lambda mistake: -mistake[0])
    return tuple((shot, caption) for _, shot, caption in mistakes[:most])


def taken_for(evaluation: Evaluation, class_names: Sequence[str], most: int = 20) -> tuple[Confusion, ...]:
    """The most frequent mistakes.

    >>> from pixpnet.training.evaluation import evaluation_of
    >>> taken_for(evaluation_of([[3, 2], [0, 4]], loss=0.1), ("jay", "wren"))
    (Confusion(truth='jay', taken_for='wren', images=2),)
    """
    wrong = [
        Confusion(class_names[truth], class_names[answer], images)
        for truth, answer, images in evaluation.confusion.entries
        if truth != answer
    ]
    return tuple(sorted(wrong, key=lambda pair: -pair.images)[:most])


def grid_blocks(report: Report, stock: Stock) -> tuple[GridBlock, ...]:
    """For each grid, what its cells see: those of a corner, an edge and the centre on an image."""
    model = report.model
    size = (model.preprocessing.size, model.preprocessing.size)
    pixels = [image_pixels(example.explanation) for example in report.examples if example.explanation.size == size]
    backdrop = stock.picture(pixels[0] if pixels else _prototype_image(model, size))
    names = grid_names(model)
    return tuple(
        _grid_block(grid, field, names[grid.number] if len(names) > 1 else "", backdrop, stock)
        for grid, field in zip(model.grids, model.fields, strict=True)
    )


def _grid_block(grid: Grid, field: Field, name: str, backdrop: Picture, stock: Stock) -> GridBlock:
    marks, legend = [], []
    for style, (landmark, (row, col)) in enumerate(field.landmark_cells().items()):
        region = grid.comparison.region((row, col), field)
        if region and not field.sees_everything:
            marks.append(Mark(stock.outline(region), style, style))
        share = percent(share_of(region, (backdrop.height, backdrop.width)))
        legend.append((f"{landmark} cell: {share} of the image", style))
    cells = " and of the ".join(field.landmark_cells())
    shot = stock.whole(backdrop, f"What the {cells} cell{f' of {name}' if name else ''} sees of an image", marks)
    return GridBlock(name, field, shot, tuple(legend))


def _prototype_image(model: PixPNet, size: tuple[int, int]) -> UInt8[np.ndarray, "height width 3"]:
    """The first training image that there is a picture of, or grey."""
    name = picture_name(0, model.num_prototypes)
    return training_pixels(None, None, None if model.pictures is None else model.pictures / f"{name}.jpg", size)


def _moved_outside_upsampling(term: Term) -> float:
    return 0.0 if term.proof is None else term.proof.upsampling.largest_deviation


def _tested(name: str, trials: Sequence[Trial]) -> Tested:
    fair = [trial for trial in trials if trial.outside]
    moved = [trial.largest_deviation for trial in fair] or [0.0]
    held = sum(trial.passed for trial in fair)
    return Tested(name, len(fair), held, len(trials) - len(fair), median(moved), max(moved))
