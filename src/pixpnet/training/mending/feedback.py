"""Training with a person's feedback (`--feedback verdicts.jsonl`): ProtoPDebug with exact patches.

Forbidden patches are penalised and remembered ones rewarded (`parts.feedback`), in every stage in which prototypes or
what embeds them learn; and no prototype is ever taken from a forbidden patch. Which cells of this network those are,
its own fields say (`locating`). Images that feedback is about are compared in the mode in which the network learns, a
few in each step, in an order that depends on (seed, epoch, step) alone. Where norms learn by batches, these images are
a batch of their own, and running statistics take no notice of them: in eval mode the two losses would pull at two
different functions, and validation accuracy was seen to fall to chance while training accuracy rose.

The file is copied into the new run's folder and its hash is written into `config.yaml`, so that the run can be resumed
when the other one has gone on or is gone.
"""

import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor, nn

from pixpnet.config import RunConfig
from pixpnet.data import Entry, preprocess
from pixpnet.family import member_named
from pixpnet.manifest import digest_of
from pixpnet.model import PixPNet
from pixpnet.parts import Parts
from pixpnet.parts.feedback import PatchDistances
from pixpnet.parts.losses import LossTerm, Step, forget, remember
from pixpnet.training.actions import Replace
from pixpnet.training.features import AnyBatch
from pixpnet.training.learner import Learner
from pixpnet.training.material import Material
from pixpnet.training.mending.locating import cells_of_patch
from pixpnet.training.replacement import ForbiddenCells, refuse_if_nothing_is_left
from pixpnet.training.run import Run, RunError
from pixpnet.training.stages import Stage, StepOf
from pixpnet.verdicts import TrainingPatch, VerdictError, read_verdicts, standing_of
from pixpnet.whole_file import written_whole

IMAGES_AT_ONCE = 8
"""Of forbidden patches, and of remembered ones, in a step."""
_COPY = "feedback.jsonl"
_FEEDBACK_RANDOMNESS = 7


class FeedbackWarning(UserWarning):
    """Some of a person's feedback cannot be used; the message says which, and why."""


@dataclass(frozen=True)
class LocatedPatch:
    """A patch in the grids of the network that learns.

    Attributes:
        entry: its image.
        cells: for each grid, which cells (row by row) see what it shows.
        forbidden: or to be remembered.
    """

    entry: Entry
    cells: tuple[Bool[Tensor, " _cells"], ...]
    forbidden: bool


class Feedback:
    """What a person said of patches, for a network that learns.

    Attributes:
        patches: in its grids.
        terms: of the loss.
    """

    def __init__(
        self,
        patches: Sequence[LocatedPatch],
        forget_weight: float,
        remember_weight: float,
        material: Material,
        seed: int,
    ) -> None:
        self.patches = tuple(patches)
        self.terms = (LossTerm("forget", forget_weight, forget), LossTerm("remember", remember_weight, remember))
        self._material, self._seed = material, seed
        self._images: dict[str, Tensor] = {}

    @property
    def forbidden(self) -> ForbiddenCells:
        """Cells that no prototype may be taken from, by the ids of their images."""
        cells: dict[str, tuple[Tensor, ...]] = {}
        for patch in self.patches:
            if patch.forbidden:
                before = cells.get(patch.entry.id, tuple(torch.zeros_like(mask) for mask in patch.cells))
                cells[patch.entry.id] = tuple(one | other for one, other in zip(before, patch.cells, strict=True))
        return cells

    def stages(self, stages: Sequence[Stage]) -> tuple[Stage, ...]:
        """The stages with feedback in all in which prototypes, or what embeds them, learn."""
        return tuple(
            replace(stage, losses=(*stage.losses, *self.terms), step=partial(step_with_feedback, stage.step, self))
            if stage.validated and not stage.keeps_patches
            else stage
            for stage in stages
        )

    def compare(self, learner: Learner, parts: Parts) -> PatchDistances:
        """How far prototypes are from some of the patches, with gradients for what learns.

        Args:
            learner: the network.
            parts: that the step is about: all, or those of one branch.
        """
        patches = self._drawn(learner)
        model = learner.model
        images = torch.stack([self._image(patch.entry) for patch in patches]).to(learner.device)
        mine = {id(comparison) for comparison in parts.comparisons}
        grids = [grid.number for grid in model.grids if id(grid.comparison) in mine]
        with _statistics_unchanged(model):
            with torch.set_grad_enabled(learner.learns(model.backbone)):
                maps = learner.backbone_maps(images)
            deep = learner.learns(model.backbone, *parts.add_ons)
            distances, seen = [], []
            for number in grids:
                grid = model.grids[number]
                with torch.set_grad_enabled(deep):
                    embeddings = grid.add_on(maps[grid.cut])
                with torch.set_grad_enabled(deep or learner.learns(grid.comparison)):
                    measured = grid.comparison.distance_maps(embeddings).flatten(2)
                    least = grid.comparison.measure.range_for(grid.comparison.prototypes.detach())[0]
                    masks = torch.stack([patch.cells[number] for patch in patches]).to(measured.device)
                    distances.append(measured.masked_fill(~masks[:, None], torch.inf).amin(dim=2) - least)
                seen.append(masks.any(dim=1)[:, None].expand(-1, measured.shape[1]))
        labels = torch.tensor([patch.entry.label for patch in patches], device=learner.device)
        own = parts.ownership.of_images(labels)
        # A prototype without a class may be taken from any image.
        own = own | ~own.any(dim=1, keepdim=True)
        forbidden = torch.tensor([patch.forbidden for patch in patches], device=learner.device)
        return PatchDistances(torch.cat(distances, dim=1), own & torch.cat(seen, dim=1), forbidden)

    def _drawn(self, learner: Learner) -> list[LocatedPatch]:
        """Some forbidden and some remembered patches, all of them in turn."""
        chosen: list[LocatedPatch] = []
        for kind in (True, False):
            patches = [patch for patch in self.patches if patch.forbidden == kind]
            if patches:
                order = np.random.default_rng([_FEEDBACK_RANDOMNESS, self._seed, learner.current_epoch, kind])
                numbers = order.permutation(len(patches))
                first = learner.step_number * IMAGES_AT_ONCE
                count = min(IMAGES_AT_ONCE, len(patches))
                chosen += [patches[numbers[(first + offset) % len(patches)]] for offset in range(count)]
        return chosen

    def _image(self, entry: Entry) -> Tensor:
        """The image as it is, or what a frozen stem made of it; all are read when the first is asked for."""
        if not self._images:
            entries = list({patch.entry.id: patch.entry for patch in self.patches}.values())
            for batch in self._material.plain_batches(entries, 0, 1):
                self._images.update(zip(batch.ids, batch.images, strict=True))
        return self._images[entry.id]


def step_with_feedback(step: StepOf, feedback: Feedback, learner: Learner, batch: AnyBatch) -> Step:
    """A step of any kind, and beside it how far its prototypes are from the patches that feedback is about."""
    taken = step(learner, batch)
    return taken if taken.matches is None else replace(taken, patches=feedback.compare(learner, taken.parts))


def open_feedback(config: RunConfig, run: Run, model: PixPNet, material: Material) -> Feedback | None:
    """What a run is told of patches; None where its configuration names no feedback.

    Args:
        config: of the run.
        run: whose own copy comes first, where it has one.
        model: that learns.
        material: what it learns from.

    Raises:
        RunError: if the file is missing, damaged, another than the one that the run began with, says nothing of
            patches that this run learns from, or forbids all that some prototype could be taken from.

    Warns:
        FeedbackWarning: if some patches are of images that this run does not learn from.
    """
    if not config.feedback:
        return None
    path = _file(config, run)
    try:
        standing = standing_of(read_verdicts(path)).values()
    except VerdictError as error:
        raise RunError(str(error)) from error
    entries = {entry.id: entry for entry in material.data.train}
    named = {
        True: [patch for current in standing for patch in current.forbidden],
        False: [patch for current in standing for patch in current.remembered],
    }
    named = {forbidden: list({patch.key: patch for patch in patches}.values()) for forbidden, patches in named.items()}
    total = sum(map(len, named.values()))
    if not total:
        raise RunError(f"{config.feedback} forbids and remembers no patch: pixpnet verdicts add RUN forbid PROTOTYPE")
    matrices: dict[str, Tensor] = {}
    located: list[LocatedPatch] = []
    for forbidden, patches in named.items():
        for patch in patches:
            if _is_here(patch, entries.get(patch.image), model):
                entry = entries[patch.image]
                if entry.id not in matrices:
                    matrices[entry.id] = _to_source(material, entry)
                cells = cells_of_patch(model, patch, matrices[entry.id])
                if any(bool(mask.any()) for mask in cells):
                    located.append(LocatedPatch(entry, cells, forbidden))
    if not located:
        raise RunError(
            f"none of the {total} patches that {config.feedback} forbids or remembers is of an image that this run "
            "learns from: is it about the same data set?"
        )
    if len(located) < total:
        warnings.warn(
            f"of {total} patches that {config.feedback} forbids or remembers {total - len(located)} cannot be used: "
            "their images are not among those that this run learns from",
            FeedbackWarning,
            stacklevel=2,
        )
    feedback = Feedback(located, config.forget_weight, config.remember_weight, material, config.seed)
    if _replaces(config):
        try:
            refuse_if_nothing_is_left(model, material.data.train, feedback.forbidden)
        except ValueError as error:
            raise RunError(f"with {config.feedback} this network could not be trained to its end: {error}") from error
    return feedback


def with_feedback_hash(config: RunConfig, run: Run) -> RunConfig:
    """The configuration with the hash of its feedback, as `config.yaml` says it."""
    return replace(config, feedback_hash=digest_of(_file(config, run))) if config.feedback else config


def keep_feedback(config: RunConfig, run: Run) -> None:
    """Copies the feedback into a new run's folder."""
    if config.feedback:
        with written_whole(run.path / "checkpoints" / _COPY) as temporary:
            shutil.copyfile(_file(config, run), temporary)


def _file(config: RunConfig, run: Run) -> Path:
    """The run's own copy, the file that is named, or the copy of a run whose configuration this is."""
    named = Path(config.feedback).expanduser()
    places = [run.path / "checkpoints" / _COPY, named]
    # Only where the named file is gone: beside a newer log, the older one of that run would be taken for it.
    if config.read_from is not None and not named.is_file():
        places.append(Path(config.read_from).parent / "checkpoints" / _COPY)
    files = [path for path in places if path.is_file()]
    if not files:
        raise RunError(
            f"there is no {config.feedback} to learn from: --feedback is a log of verdicts, such as RUN/verdicts.jsonl"
        )
    wanted = config.feedback_hash
    for path in files:
        if not wanted or digest_of(path) == wanted:
            return path
    raise RunError(
        f"{files[0]} is not the feedback that the configuration names, whose hash is {wanted}: put it back, or leave "
        "--feedback-hash empty to take this one"
    )


def _replaces(config: RunConfig) -> bool:
    """Whether prototypes ever become patches."""
    stages = member_named(config.member).stages(config.settings)
    return any(isinstance(action, Replace) for stage in stages for action in stage.at_end)


def _is_here(patch: TrainingPatch, entry: Entry | None, model: PixPNet) -> bool:
    return entry is not None and model.class_names[entry.label] == patch.class_name


def _to_source(material: Material, entry: Entry) -> Tensor:
    """From this network's `pixel` frame of an image to its file."""
    return preprocess(material.data.reader(entry), material.preprocessing).to_source.double()


@contextmanager
def _statistics_unchanged(model: nn.Module) -> Iterator[None]:
    """Keeps running statistics as they are, whatever passes by."""
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._NormBase)]
    before = [(norm.momentum, norm.num_batches_tracked) for norm in norms]
    for norm in norms:
        # At a momentum of 0 the running statistics are replaced by themselves.
        norm.momentum = 0.0
        norm.num_batches_tracked = None if norm.num_batches_tracked is None else norm.num_batches_tracked.clone()
    try:
        yield
    finally:
        for norm, (momentum, batches) in zip(norms, before, strict=True):
            norm.momentum, norm.num_batches_tracked = momentum, batches
