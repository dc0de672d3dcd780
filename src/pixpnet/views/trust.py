"""Can I trust it? What the report says about certainty, doubt and certificates, in plain words and with figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from pixpnet.explanation.certainty import calibration_words
from pixpnet.metrics.certainty import CertaintyTable, certainty_table
from pixpnet.metrics.doubt import DoubtResult
from pixpnet.metrics.doubt_of_run import read_doubt
from pixpnet.model import PixPNet
from pixpnet.training import Run
from pixpnet.training.kept_scores import UNKNOWN, SplitScores, read_scores
from pixpnet.views.trust_figures import as_image, deciding_figure, doubt_figure, reliability_figure

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

    right: float | None
    wrong: float | None
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
        calibrated: where probabilities come from.
        reliability: figure; empty where there is none.
        doubts: against other data; empty where that was not measured.
        doubt: figure; empty where there is none.
        deciders: how many scores decide; None where no scores were kept.
    """

    split: str
    table: CertaintyTable | None
    calibrated: str
    reliability: str
    doubts: tuple[DoubtResult, ...]
    doubt: str
    deciders: Deciders | None


def trust_block(run: Run, model: PixPNet, coverage: float = COVERAGE) -> TrustBlock:
    """Reads what a run kept, and measures it; nothing is opened for that.

    Raises:
        RunError: if a file of the run is damaged.
    """
    kept = read_scores(run)
    name = "test" if len(kept.get("test", ())) else "val"
    scores = kept.get(name)
    split = "test" if name == "test" else "validation"
    table = None
    if scores is not None and model.calibration is not None:
        table = certainty_table(scores, model.calibration, split, coverage)
    doubts = read_doubt(run)
    return TrustBlock(
        split=split,
        table=table,
        calibrated=calibration_words(model.calibration),
        reliability="" if table is None else as_image(reliability_figure(table)),
        doubts=doubts,
        doubt=as_image(doubt_figure(doubts)) if doubts else "",
        deciders=None if scores is None else deciders(scores, model.num_prototypes),
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
        figure=as_image(deciding_figure(right, wrong)) if right else "",
    )


def _median(lengths: Sequence[int]) -> float | None:
    return float(median(lengths)) if lengths else None
