"""Which model a run keeps (`settings.kept_epoch`), and what is remembered of it from before replacement."""

from collections.abc import Sequence
from math import sqrt

from torch import Tensor

from pixpnet.model import PixPNet
from pixpnet.training.evaluation import Evaluation
from pixpnet.training.log import LogLine


def is_best(evaluation: Evaluation, lines: Sequence[LogLine]) -> bool:
    """Whether validation has nothing against a model: at most one standard error below the most accurate so far.

    Few images cannot tell neighbouring epochs apart; the later of two equals has learnt with lower rates, and its
    prototypes moved less when they became patches. So the last epoch within one standard error is kept.

    Args:
        evaluation: of the model, on the validation images.
        lines: of the epochs before.
    """
    accuracies = [line.val_accuracy_after for line in lines if line.best and line.val_accuracy_after is not None]
    if not accuracies:
        return True
    # One right and one wrong answer more, so that a perfect score on few images is not taken for certainty.
    images = evaluation.images + 2
    best = (max(accuracies) * evaluation.images + 1) / images
    return evaluation.accuracy >= max(accuracies) - sqrt(best * (1 - best) / images)


def learnt_state(model: PixPNet) -> dict[str, Tensor]:
    """What the end of a stage, and training of the head after it, will change: so that its price can be measured."""
    changing = ("prototype_layer", "head.")
    return {
        name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items() if name.startswith(changing)
    }
