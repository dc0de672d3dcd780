"""The audit of a run: the three desiderata and the conduct of training, each with what was found."""

from dataclasses import dataclass
from pathlib import Path

from pixpnet.data import DataSet
from pixpnet.metrics.auditing.conduct import Conduct, check_conduct
from pixpnet.metrics.auditing.grounding import TOLERANCE, Grounding, check_grounding
from pixpnet.metrics.auditing.localization import PIXELS, THRESHOLD, Localization, check_localization
from pixpnet.metrics.auditing.reasoning import Reasoning, check_reasoning
from pixpnet.metrics.auditing.verdict import Verdict, together
from pixpnet.model import PixPNet
from pixpnet.model.modes import refuse_training_mode
from pixpnet.progress import Progress
from pixpnet.training import Run


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes:
        grounding: desideratum 1, prototypes are image patches.
        localization: desideratum 2, they see parts of the image.
        reasoning: desideratum 3, a linear model of scores.
        conduct: validation and test split.
    """

    grounding: Grounding
    localization: Localization
    reasoning: Reasoning
    conduct: Conduct

    @property
    def verdict(self) -> Verdict:
        """The verdict on all desiderata and the conduct together."""
        parts = (self.grounding, self.localization, self.reasoning, self.conduct)
        return together(part.verdict for part in parts)


def audit(
    run: Path | str,
    model: PixPNet,
    data: DataSet | None,
    *,
    threshold: float = THRESHOLD,
    tolerance: float = TOLERANCE,
    pixels: int = PIXELS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Audit:
    """Puts the paper's three desiderata to a trained model.

    Args:
        run: the folder of the run.
        model: of the run, in eval mode (`PixPNet.load`).
        data: its data set (`pixpnet.training.open_data_of`), whose test split stays closed; None where it is not at
            hand, and then some claims are not checked.
        threshold: largest mean receptive field, and largest mean winning region, that count as a part (0 to 1).
        tolerance: the largest difference between a component of a prototype and of its patch.
        pixels: how many are probed.
        seed: of these and of random images.
        progress: told what is being done, how much of it is done, of how much.

    Raises:
        ValueError: if the model is in training mode, or a file of the run is damaged.

    Example:
        >>> from pixpnet.model import PixPNet
        >>> audit("runs/birds", PixPNet.load("runs/birds"), None).verdict  # doctest: +SKIP
        'not checked'
    """
    refuse_training_mode(model)
    return Audit(
        grounding=check_grounding(model, data, tolerance, progress),
        localization=check_localization(model, data, threshold, pixels, seed, progress),
        reasoning=check_reasoning(model, seed),
        conduct=check_conduct(Run(Path(run)), data),
    )
