"""The ways to evaluate a cut, by name. A new one is a function and a line here."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pixpnet.goldilocks.bench import Bench, Outcome
from pixpnet.goldilocks.candidates import Candidate
from pixpnet.goldilocks.finetune import finetune
from pixpnet.goldilocks.frozen import frozen
from pixpnet.goldilocks.probe import probe
from pixpnet.goldilocks.settings import FROZEN, WHOLE
from pixpnet.goldilocks.whole import pixpnet


@dataclass(frozen=True)
class Method:
    """A way to evaluate cuts.

    Attributes:
        evaluate: yields an outcome for each candidate, as soon as it is known. What it raises counts against all
            candidates that have none yet.
        together: whether it takes all candidates of one network at once, because one pass serves them all. Such a
            group is claimed by one worker as a whole.
    """

    evaluate: Callable[[Sequence[Candidate], Bench], Iterator[Outcome]]
    together: bool


METHODS: Mapping[str, Method] = {
    "probe": Method(probe, together=True),
    FROZEN: Method(frozen, together=False),
    "finetune": Method(finetune, together=False),
    WHOLE: Method(pixpnet, together=False),
}
