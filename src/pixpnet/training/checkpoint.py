"""The place to go on from: Lightning's own checkpoint, at the end of each epoch, written whole or not at all."""

from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Checkpoint

from pixpnet.training.run import Run
from pixpnet.whole_file import written_whole


class LastEpoch(Checkpoint):
    """Keeps the state at the end of the last epoch. All randomness follows from (seed, epoch), so that is enough."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Saves, after everything else that belongs to the epoch."""
        if trainer.is_global_zero:
            with written_whole(self.run.checkpoint) as temporary:
                trainer.save_checkpoint(temporary)
        else:
            trainer.save_checkpoint(self.run.checkpoint)  # takes part in collecting the state; only the leader writes


def rename_former_extras(state: dict[str, Any]) -> None:
    """Checkpoints of earlier versions called the classifier of the pretraining otherwise."""
    for name in [name for name in state if name.startswith("pooled.")]:
        state[f"extras.{name}"] = state.pop(name)
