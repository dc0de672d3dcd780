"""Training that came to nothing: what happened, and what to do about it."""

from pathlib import Path

from pixpnet.config import is_user_code
from pixpnet.model import PixPNet


class TrainingDiverged(RuntimeError):
    """The loss became NaN or infinite; the message says what to do."""


def diverged(run: Path, model: PixPNet, reason: str) -> TrainingDiverged:
    """What to raise, and to try, when the loss of a run is not finite."""
    allowed = "--trust-code " if is_user_code(model.backbone_name) else ""
    return TrainingDiverged(
        f"the {reason}: begin anew with lower rates or more precision, such as pixpnet train --config "
        f"{run / 'config.yaml'} {allowed}--lr-add-on 1e-3 --out NEW (going on would end "
        f"the same); what was learnt up to the last epoch is kept in {run}"
    )
