"""What the replies to a quiz say, with intervals.

Intervals draw whole images again, since everybody is asked about the same ones and replies about one image are alike.
They are about images like these and the people who replied, not about people in general.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from pixpnet.metrics.bootstrap import Estimate, bootstrap_mean
from pixpnet.metrics.quiz.questions import PairKind
from pixpnet.metrics.quiz.replies import AgreementReply, DistinctionReply, Reply
from pixpnet.training.evaluation import Interval, wilson

# From this rating on a pair counts as alike.
ALIKE = 3


@dataclass(frozen=True)
class Share:
    """How many of how many.

    Attributes:
        count: how many.
        of: of how many.
        interval: of the share (95 %, by drawing images again); None of nothing, and of a single image, which says
            nothing about others.
    """

    count: int
    of: int
    interval: Interval | None

    @property
    def share(self) -> float | None:
        """From 0 to 1; None of nothing."""
        return self.count / self.of if self.of else None


@dataclass(frozen=True)
class Rated:
    """Ratings of one kind of pair.

    Attributes:
        rating: mean rating, 1 to 4; None without replies.
        alike: how many were rated 3 or 4.
    """

    rating: Estimate | None
    alike: Share


@dataclass(frozen=True)
class QuizResult:
    """What people made of a model's explanations.

    Attributes:
        right: pairs from answers that are right.
        wrong: pairs from answers that are wrong.
        control: pairs that the model did not make.
        distinction: how often the right explanation was chosen.
        distinction_right: the same, of images that the model gets right.
        distinction_wrong: the same, of images that it gets wrong.
        chance: how often a guess is right; None without replies.
        people: how many replied, at the least: those who gave no name count as one.
        unnamed: replies without a name.
    """

    right: Rated
    wrong: Rated
    control: Rated
    distinction: Share
    distinction_right: Share
    distinction_wrong: Share
    chance: float | None
    people: int
    unnamed: int


def quiz_result(replies: Sequence[Reply], seed: int = 0) -> QuizResult:
    """Judges replies about one model.

    Args:
        replies: of any number of people.
        seed: of the intervals' draws.

    >>> reply = DistinctionReply("ann", "2026-01-01T00:00:00+00:00", "m", "a.jpg", "jay", "jay", 4, True)
    >>> quiz_result([reply]).distinction.share, quiz_result([reply]).chance
    (1.0, 0.25)
    """
    ratings = [reply for reply in replies if isinstance(reply, AgreementReply)]
    chosen = [reply for reply in replies if isinstance(reply, DistinctionReply)]
    return QuizResult(
        right=_rated(ratings, "right", seed),
        wrong=_rated(ratings, "wrong", seed),
        control=_rated(ratings, "control", seed),
        distinction=_chosen(chosen, seed),
        distinction_right=_chosen([reply for reply in chosen if reply.model_right], seed),
        distinction_wrong=_chosen([reply for reply in chosen if not reply.model_right], seed),
        chance=fmean(1 / reply.choices for reply in chosen) if chosen else None,
        people=len({reply.person for reply in replies}),
        unnamed=sum(not reply.person for reply in replies),
    )


def _rated(ratings: Sequence[AgreementReply], kind: PairKind, seed: int) -> Rated:
    own = [reply for reply in ratings if reply.kind == kind]
    images = [reply.image for reply in own]
    return Rated(
        rating=bootstrap_mean([float(reply.rating) for reply in own], images, seed),
        alike=_share([reply.rating >= ALIKE for reply in own], images, seed),
    )


def _chosen(replies: Sequence[DistinctionReply], seed: int) -> Share:
    return _share([reply.right for reply in replies], [reply.image for reply in replies], seed)


def _share(hits: Sequence[bool], images: Sequence[str], seed: int) -> Share:
    estimate = bootstrap_mean([float(hit) for hit in hits], images, seed)
    interval = None
    if estimate is not None and estimate.low is not None and estimate.high is not None:
        interval = Interval(estimate.low, estimate.high)
        if estimate.mean in (0.0, 1.0):
            # All alike, so drawing again finds no spread: Wilson's interval of as many trials as there are images.
            interval = wilson(round(estimate.mean * estimate.clusters), estimate.clusters)
    return Share(sum(hits), len(hits), interval)
