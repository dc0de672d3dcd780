"""Can I trust it? What the report says about certainty, doubt and certificates, in plain words and with figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_high

from pixpnet.explanation.certainty import calibration_words, limits_words
from pixpnet.metrics.certainty import FITTED_TO_THESE, CertaintyTable, certainty_table, error_words, fitted_to
from pixpnet.metrics.doubt import DoubtResult
from pixpnet.metrics.doubt_of_run import read_doubt
from pixpnet.metrics.misalignment import Misalignment
from pixpnet.metrics.suite import read_table
from pixpnet.metrics.suite.record import TABLE_FILE
from pixpnet.model import PixPNet
from pixpnet.training import Run
from pixpnet.training.kept_scores import UNKNOWN, SplitScores, read_scores
from pixpnet.views.trust_figures import as_image, deciding_figure, doubt_figure, misalignment_figure, reliability_figure

COVERAGE = 0.95


@dataclass(frozen=True)
class Deciders:
    """How many scores decide, for right answers and for wrong ones.

    Attributes:
        right: median for right answers; None without any.
        wrong: median for wrong answers; None without any.
        right_images, wrong_images: how many have a list that decides.
        undefined: how many images have none, or were not searched.
        of: how many scores there are.
        figure: of all of them; empty without any.
    """

    right: int | None
    wrong: int | None
    right_images: int
    wrong_images: int
    undefined: int
    of: int
    figure: str


@dataclass(frozen=True)
class TrustBlock:
    """The section of a report.

    Attributes:
        split: whose images the figures are of, for people.
        table: probabilities, sets and false alarms; None where the model is not calibrated, or no scores were kept.
        after, before: by how much probabilities are off with calibration and without, in words; empty without a table.
        flattered: why all of that flatters the model; empty where it does not.
        calibrated: where probabilities come from.
        limits: when the model warns of an image.
        reliability: figure; empty where there is none.
        doubts: against other data; empty where that was not measured.
        doubt: figure; empty where there is none.
        deciders: how many scores decide; None where no scores were kept.
        attacks: what changes outside of a part do to its score; None where this model was not measured.
    """

    split: str
    table: CertaintyTable | None
    after: str
    before: str
    flattered: str
    calibrated: str
    limits: str
    reliability: str
    doubts: tuple[DoubtResult, ...]
    doubt: str
    deciders: Deciders | None
    attacks: "Attacks | None" = None


@dataclass(frozen=True)
class Attacks:
    """Misalignment as a domain expert reads it: of one attack, with each protection.

    Attributes:
        split: whose images, for people.
        attack: the stronger of those that were measured.
        box: with the published box protected; None where that was not measured.
        field: with the exact field protected; None where that was not measured.
        figure: of all attacks and protections, a point for each image.
    """

    split: str
    attack: str
    box: Misalignment | None
    field: Misalignment | None
    figure: str


def trust_block(run: Run, model: PixPNet, coverage: float = COVERAGE) -> TrustBlock:
    """Reads what a run kept, and measures it; nothing is opened for that.

    Raises:
        RunError: if a file of the run is damaged.
    """
    scores_by_split = read_scores(run)
    name = "test" if len(scores_by_split.get("test", ())) else "val"
    scores = scores_by_split.get(name)
    split = "test" if name == "test" else "validation"
    table = None
    if scores is not None and model.calibration is not None:
        fitted = fitted_to(model.calibration, split)
        table = certainty_table(scores, model.calibration, split, coverage, own_images=fitted)
    doubts = read_doubt(run)
    return TrustBlock(
        split=split,
        table=table,
        after="" if table is None else error_words(table.after),
        before="" if table is None else error_words(table.before),
        flattered="" if table is None else _flattered(table),
        calibrated=calibration_words(model.calibration),
        limits=limits_words(model.calibration),
        reliability="" if table is None else as_image(reliability_figure(table)),
        doubts=doubts,
        doubt=as_image(doubt_figure(doubts)) if doubts else "",
        deciders=None if scores is None else deciders(scores, model.num_prototypes),
        attacks=attacks_on(run),
    )


def _flattered(table: CertaintyTable) -> str:
    if table.own_images:
        return FITTED_TO_THESE
    return "" if table.split == "test" else "These images chose which epoch is kept, which flatters the model a little."


def attacks_on(run: Run) -> Attacks | None:
    """What `pixpnet measure` found about misalignment, where it measured this very model; else None.

    Raises:
        ValueError: if there is a table and it is damaged.
    """
    if not (run.path / "measure" / TABLE_FILE).exists():
        return None
    table = read_table(run.path)
    if table.model != run.fingerprint() or table.further is None:
        return None
    # Of one prototype an image; of all of a class it is not what the page says.
    measured = [one for one in table.further.misalignment if one.settings.attacked == "best"]
    if not measured:
        return None
    attack = "pgd" if any(one.attack == "pgd" for one in measured) else measured[0].attack
    by_protection = {one.protected: one for one in measured if one.attack == attack}
    return Attacks(
        split="test" if table.settings.split == "test" else "validation",
        attack="gradient descent" if attack == "pgd" else "noise",
        box=by_protection.get("box"),
        field=by_protection.get("field"),
        figure=as_image(misalignment_figure(measured)),
    )


def deciders(scores: SplitScores, prototypes: int) -> Deciders:
    """How many scores decide, from what was kept of some images."""
    right_answers = (scores.logits.argmax(dim=1) == scores.labels).tolist()
    pairs = list(zip(scores.deciding.tolist(), right_answers, strict=True))
    right, wrong = ([length for length, good in pairs if length != UNKNOWN and good is side] for side in (True, False))
    return Deciders(
        right=_median(right),
        wrong=_median(wrong),
        right_images=len(right),
        wrong_images=len(wrong),
        undefined=len(pairs) - len(right) - len(wrong),
        of=prototypes,
        figure=as_image(deciding_figure(right, wrong)) if right or wrong else "",
    )


def _median(lengths: Sequence[int]) -> int | None:
    return median_high(lengths) if lengths else None
