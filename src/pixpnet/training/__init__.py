"""Training: losses, replacement, the plan of epochs, the Lightning module, and a run on disk."""

from pixpnet.training.divergence import TrainingDiverged
from pixpnet.training.evaluation import Evaluation, Interval, evaluate
from pixpnet.training.finishing import Metrics
from pixpnet.training.log import LogLine
from pixpnet.training.replacement import replace_prototypes
from pixpnet.training.run import OpeningLine, Run, RunError
from pixpnet.training.run_data import open_data_of, open_run_data, refuse_other_classes
from pixpnet.training.train import resume, train, train_on
from pixpnet.training.watching import Nobody, Watcher

__all__ = [
    "Evaluation",
    "Interval",
    "LogLine",
    "Metrics",
    "Nobody",
    "OpeningLine",
    "Run",
    "RunError",
    "TrainingDiverged",
    "Watcher",
    "evaluate",
    "open_data_of",
    "open_run_data",
    "refuse_other_classes",
    "replace_prototypes",
    "resume",
    "train",
    "train_on",
]
