"""The training loop as a Lightning module: it walks along a member's stages, and knows none of them by name."""

import time
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torchmetrics import MeanMetric

from pixpnet.data import Entry
from pixpnet.earlier_names import translate
from pixpnet.family import Member
from pixpnet.manifest import digest_of
from pixpnet.model import BehindStem, Origin, PixPNet
from pixpnet.model.backbone import WatchedMaps
from pixpnet.parts.losses import LossParts, Step, loss_of
from pixpnet.progress import named
from pixpnet.records import from_plain, to_plain
from pixpnet.settings import MemberSettings, Replacement
from pixpnet.training.checkpoint import rename_former_extras
from pixpnet.training.distances import TrainingDistances, training_distances
from pixpnet.training.divergence import diverged
from pixpnet.training.evaluation import Evaluation, evaluate
from pixpnet.training.features import AnyBatch, ViewOf
from pixpnet.training.groups import Group
from pixpnet.training.log import LogLine, log_line
from pixpnet.training.material import Material
from pixpnet.training.mending.feedback import Feedback
from pixpnet.training.optimizers import adam, follow_changes
from pixpnet.training.replacing import replace_and_bound
from pixpnet.training.run import Run, RunError
from pixpnet.training.running_means import RunningMeans
from pixpnet.training.selection import is_best, learnt_state
from pixpnet.training.stages import Epoch, epochs_of, term_names
from pixpnet.training.teaching import Taught, teach
from pixpnet.training.watching import Watcher
from pixpnet.training.workload import workload

_STEP_RANDOMNESS = 3
_STATE = "pixpnet"


class Fitting(pl.LightningModule):
    """Trains a network along its member's stages, carries out their actions, and keeps one result in a run folder."""

    def __init__(
        self,
        model: PixPNet,
        member: Member,
        settings: MemberSettings,
        material: Material,
        run: Run,
        seed: int,
        watcher: Watcher,
        teacher: PixPNet | None = None,
        feedback: Feedback | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.extras = nn.ModuleDict(member.extras(model, settings))
        self.member, self.settings = member, settings
        self._regroup()
        self.feedback = feedback
        stages = member.stages(settings) if feedback is None else feedback.stages(member.stages(settings))
        self.plan = epochs_of(stages)
        if not any(epoch.selectable for epoch in self.plan):
            raise ValueError(
                f"no epoch of {member.name} ends with a model that may be kept: mark a stage as selectable"
            )
        self.material, self.run = material, run
        self.seed, self.watcher = seed, watcher
        # In a tuple, so that it is no part of what learns and of checkpoints: the run keeps its file.
        self._teacher = (teacher,)
        self.lines: list[LogLine] = []
        self.learnt: dict[str, Tensor] = {}
        self.learnt_architecture = model.architecture
        self.taken_from: tuple[str, ...] = ()
        self.step_number = 0
        self._means = {name: MeanMetric() for name in ("loss", "train_accuracy", *term_names(stages))}
        self._seen = RunningMeans()
        self._started = 0.0
        self._refusals: Mapping[str, str] = {}

    # Batches ------------------------------------------------------------------------------------------------

    def train_dataloader(self) -> DataLoader[Any]:
        """Augmented batches; each process gets its share of every batch."""
        return self.material.training_batches(self.seed, self.global_rank, self.trainer.world_size)

    def _plain_batches(self, entries: Sequence[Entry]) -> DataLoader[Any]:
        return self.material.plain_batches(entries, self.global_rank, self.trainer.world_size)

    def on_fit_start(self) -> None:
        """Computes the features of what does not learn, where that is kept; processes share the work."""
        features = self.material.features
        if features is None:
            return
        rank, world = self.global_rank, self.trainer.world_size
        views = [*self.material.kept_views, *(ViewOf(entry) for entry in self.material.data.val)]
        features.compute(views[rank::world], self.device, self._busy)
        self.trainer.strategy.barrier("features")
        features.refresh()

    @property
    def _answering(self) -> PixPNet | BehindStem:
        """The network as batches meet it: on images, or on features of its stem."""
        return self.model if self.material.features is None else self.model.behind_stem

    # One step -----------------------------------------------------------------------------------------------

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam with a group for each part that has a learning rate of its own."""
        return adam(self.groups)

    @property
    def epoch(self) -> Epoch:
        """The running epoch of the plan."""
        return self.plan[self.current_epoch]

    @property
    def helpers(self) -> Mapping[str, nn.Module]:
        """See `Learner`."""
        return dict(self.extras.items())

    @property
    def steps_per_epoch(self) -> int:
        """See `Learner`."""
        return max(1, int(self.trainer.num_training_batches))

    def learns(self, *modules: nn.Module) -> bool:
        """See `Learner`."""
        learning = {
            id(parameter)
            for name in self.epoch.stage.learns
            if name in self.groups
            for parameter in self.groups[name].parameters
        }
        return any(id(parameter) in learning for module in modules for parameter in module.parameters())

    def backbone_maps(self, images: Tensor) -> tuple[Tensor, ...]:
        """See `Learner`."""
        backbone = self.model.backbone
        return backbone.maps(images) if self.material.features is None else backbone.tail_maps(images)

    def maps_and_watched(self, images: Tensor) -> WatchedMaps:
        """See `Learner`."""
        backbone = self.model.backbone
        return (
            backbone.maps_and_watched(images) if self.material.features is None else backbone.tail_and_watched(images)
        )

    def taught(self, images: Tensor) -> Taught:
        """See `Learner`."""
        (teacher,) = self._teacher
        if teacher is None:
            raise ValueError("this run has no teacher: name one, --teacher RUN")
        return teach(teacher.to(self.device), images, behind_stem=self.material.features is not None)

    def on_train_start(self) -> None:
        """Says how much there is to do."""
        if self.trainer.is_global_zero:
            steps, data = int(self.trainer.num_training_batches), self.material.data
            images = len(data.train), len(data.val), len(data.test)
            batch_size = self.material.loading.batch_size
            later = len(data.test) if self.material.features is not None and self.run.config.evaluate_on_test else 0
            protos, folds = self.model.num_prototypes, self._folds()
            self.watcher.planned(workload(self.plan, steps, images, batch_size, protos, later, folds))
            self.watcher.begins(len(self.plan), len(self.lines), steps)

    def _folds(self) -> int:
        """How many networks are trained on folds at the end."""
        from pixpnet.training.folds import FOLDS, cheap_folds  # which train networks like this one

        return FOLDS if cheap_folds(self, self.run.config, self.material.data) else 0

    def on_train_epoch_start(self) -> None:
        """Puts every part into the mode of the stage, and randomness where it would be after any interruption."""
        self._started = time.monotonic()
        self._seen = RunningMeans()
        for mean in self._means.values():
            mean.to(self.device).reset()
        stage = self.epoch.stage
        if not stage.keeps_patches:
            self.model.origins = None
        self.model.train()
        for name, modules in self._parts.items():
            trains = self.learns(*modules) if stage.trains is None else name in stage.trains
            for module in modules:
                module.train(trains)
        # Dropout and the like read torch's own generator, so it is set from (seed, epoch, process).
        entropy = [_STEP_RANDOMNESS, self.seed, self.current_epoch, self.global_rank]
        torch.manual_seed(int(np.random.SeedSequence(entropy).generate_state(1)[0]))
        for action in stage.before_epoch:
            action(self)

    def transfer_batch_to_device(self, batch: AnyBatch, device: torch.device, dataloader_idx: int) -> AnyBatch:
        """Moves a batch."""
        return batch.to(device, non_blocking=True)

    def training_step(self, batch: AnyBatch, batch_idx: int) -> torch.Tensor:
        """The loss of a batch, with gradients for what learns in this stage."""
        self.step_number = batch_idx
        self._set_rates(batch_idx)
        stage = self.epoch.stage
        step = stage.step(self, batch)
        loss = loss_of(step, stage.losses)
        self._measure(loss, step, batch_idx)
        return loss.total

    def on_train_batch_end(self, outputs: Any, batch: AnyBatch, batch_idx: int) -> None:
        """Carries out the actions of every step."""
        for action in self.epoch.stage.each_step:
            action(self)

    def _set_rates(self, step: int) -> None:
        epoch = self.epoch
        factor = epoch.stage.rate(epoch.begins + step / self.steps_per_epoch)
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = group["full_rate"] * factor

    @property
    def _parts(self) -> dict[str, tuple[nn.Module, ...]]:
        """What a stage may keep out of training mode (`Stage.trains`)."""
        return {"backbone": (self.model.backbone,), "add_on": tuple(grid.add_on for grid in self.model.grids)}

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Parts that do not learn in this stage keep their weights and the optimiser's memory of them."""
        learning = self.epoch.stage.learns
        for group in optimizer.param_groups:
            if group["name"] not in learning:
                for parameter in group["params"]:
                    parameter.grad = None

    def _measure(self, loss: LossParts, step: Step, number: int) -> None:
        value = float(loss.total.detach())
        if not isfinite(value):
            raise diverged(
                self.run.path, self.model, f"loss became {value} in epoch {self.current_epoch + 1}, step {number + 1}"
            )
        # Of mixed images the class with the larger share is the right one.
        labels = step.labels if step.targets is None else step.targets.argmax(dim=1)
        answers = step.logits if step.answers is None else step.answers
        right = (answers.argmax(dim=1) == labels).float().mean()
        measured = {"loss": loss.total.detach(), "train_accuracy": right, **loss.terms}
        for name, figure in measured.items():
            self._means[name].update(figure, weight=len(labels))
        self._seen.add(value, float(right), len(labels))
        if self.trainer.is_global_zero:
            self.watcher.stepped(self.current_epoch, self._seen.loss, self._seen.accuracy)

    # The end of an epoch ------------------------------------------------------------------------------------

    def on_train_epoch_end(self) -> None:
        """Validation, the stage's actions, validation again; the result is kept if `settings.kept_epoch` says so."""
        self._share_statistics()
        epoch, stage = self.epoch, self.epoch.stage
        before = self._validate("validation") if stage.validated else None
        if before is not None and not isfinite(before.loss):
            # The last step of the epoch did it; what is on disk is still good.
            raise diverged(
                self.run.path, self.model, f"validation loss became {before.loss} after epoch {self.current_epoch + 1}"
            )
        after = before
        figures: dict[str, float] = {}
        self._refusals = {}
        changes = bool(stage.at_end) and epoch.is_last
        if changes:
            self.learnt, self.learnt_architecture = learnt_state(self.model), self.model.architecture
            for action in stage.at_end:
                figures.update(action(self))
            follow_changes(self.trainer.strategy, self, self._regroup())
            after = before and self._validate("validation after replacement")
        best = epoch.selectable and after is not None and is_best(after, self.lines)
        patches = after if changes or epoch.selectable else None
        line = LogLine(
            epoch=self.current_epoch + 1,
            stage=stage.name,
            loss=float(self._means["loss"].compute()),
            terms={term.name: float(self._means[term.name].compute()) for term in stage.losses},
            train_accuracy=float(self._means["train_accuracy"].compute()),
            val_accuracy=None if before is None else before.accuracy,
            val_loss=None if before is None else before.loss,
            figures=figures,
            val_accuracy_after=None if patches is None else patches.accuracy,
            val_loss_after=None if patches is None else patches.loss,
            best=best,
            seconds=round(time.monotonic() - self._started, 3),
            refusals=dict(self._refusals),
        )
        self.lines.append(line)
        values = {**to_plain(line), **line.terms, **line.figures}
        numbers = {name: value for name, value in values.items() if isinstance(value, float)}
        # For callbacks of the caller's, such as one that stops early.
        self.trainer.callback_metrics.update({name: torch.tensor(value) for name, value in numbers.items()})
        if not self.trainer.is_global_zero:
            return
        if best:
            self.run.keep(self.model, self.learnt, self.learnt_architecture)
        self.run.write_log(self.lines)
        for logger in self.trainer.loggers:
            logger.log_metrics(numbers, step=line.epoch)
        self.watcher.epoch_ended(line)

    def replace_prototypes(self, settings: Replacement) -> Mapping[str, float]:
        """See `Learner`."""
        batches, embed = self._plain_batches, self._answering.embed
        forbidden = None if self.feedback is None else self.feedback.forbidden
        data = self.material.data
        replaced = replace_and_bound(self.model, batches, data, settings, embed, self.device, self._busy, forbidden)
        self.taken_from = tuple(origin.image for origin in replaced.origins)
        self._refusals = replaced.refusals
        return replaced.figures

    def training_distances(self) -> TrainingDistances:
        """See `Learner`."""
        entries = self.material.data.train
        batches, embed = self._plain_batches(entries), self._answering.embed
        return training_distances(self.model, batches, entries, self.device, self._busy, embed)

    def _regroup(self) -> Mapping[str, Group]:
        self.groups = self.member.groups(self.model, self.settings, self.helpers)
        return self.groups

    def _validate(self, task: str) -> Evaluation:
        return evaluate(
            self._answering,
            self.model.num_classes,
            self._plain_batches(self.material.data.val),
            self.device,
            named(self._busy, task),
            together=True,
        )

    def _busy(self, task: str, done: int, total: int) -> None:
        if self.trainer.is_global_zero:
            self.watcher.busy(task, done, total)

    def _share_statistics(self) -> None:
        """Batch statistics of the leading process for all, so that all evaluate the same network."""
        if self.trainer.world_size > 1:
            for buffer in self.model.buffers():
                dist.broadcast(buffer, src=0)

    def _config_digest(self) -> str | None:
        config = self.run.path / "config.yaml"
        return digest_of(config) if config.exists() else None

    # Going on after an interruption ---------------------------------------------------------------------------

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """What is not in Lightning's own state."""
        checkpoint[_STATE] = {
            "lines": to_plain(self.lines),
            "origins": to_plain(self.model.origins),
            "architecture": to_plain(self.model.architecture),
            "learnt": self.learnt,
            "learnt_architecture": to_plain(self.learnt_architecture),
            "taken_from": list(self.taken_from),
            "data": self.material.fingerprint(),
            "config": self._config_digest(),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restores what `on_save_checkpoint` saved."""
        state = checkpoint[_STATE]
        if state["data"] != self.material.fingerprint():
            raise RunError(
                f"{self.material.data.name} has changed since {self.run.path} began (other images or classes): put it "
                "back as it was to go on, or begin a new run"
            )
        # Checkpoints of earlier versions do not say, and other machines need not see the run's folder.
        if None not in (here := self._config_digest(), there := state.get("config")) and here != there:
            raise RunError(
                f"{self.run.checkpoint} does not belong to this run: put the run's own file back, or delete it to "
                "begin the run anew"
            )
        # What was pruned or merged at the end of a stage is smaller than what the run began with.
        kind, now = type(self.model.architecture), to_plain(self.model.architecture)
        if (plain := translate(state.get("architecture", now), "architecture").values) != now:
            self.model.rebuild(from_plain(kind, plain, "architecture"))
            self._regroup()
        if "learnt_architecture" in state:
            self.learnt_architecture = from_plain(kind, state["learnt_architecture"], "architecture")
        self.lines = [log_line(line) for line in state["lines"]]
        rename_former_extras(checkpoint["state_dict"])
        self.learnt = state["learnt"]
        self.taken_from = tuple(state["taken_from"])
        origins = state["origins"]
        self.model.origins = origins and tuple(from_plain(Origin, origin, "origins") for origin in origins)
