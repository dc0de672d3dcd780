"""Previews of edits: what removing or requiring prototypes would do to validation answers, without retraining.

Scores do not change, so one pass over the validation images is enough for all edits, and each preview is arithmetic on
the weights of the head. A head whose weights were learnt is also refitted in closed form (`closed_form`), for which the
training images are gone through once.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor
from torch.nn import functional as F

from pixpnet.data import DataSet
from pixpnet.model import PixPNet
from pixpnet.model.mending import Way, removed_by
from pixpnet.parts import Connections, NoEdit
from pixpnet.progress import Progress
from pixpnet.training.mending.closed_form import ClosedForm, HeadProblem, Optimum, edited_weights, refuse_many
from pixpnet.training.mending.record import ChangedAnswer, EditOutcome, EditPreview, RefitFigures
from pixpnet.training.mending.scores import PrototypeScores, prototype_scores
from pixpnet.training.run import Run, RunError

L2 = 1e-3
"""Weight of the squared weights in the loss that a head is refitted to."""
COST_LIMIT = 0.05
"""The largest rise of the training loss, in nats, at which the closed form allows an edit."""
_MOST_OPTIMA = 4


def preview_edit(
    run: Run | Path | str,
    remove: Iterable[int] = (),
    require: Mapping[int, float] | None = None,
    progress: Progress | None = None,
    trust_code: bool = False,
) -> EditPreview:
    """What removing prototypes, or requiring some with a least weight, would do to validation answers.

    The first preview of a run goes through its images once; the scores are kept in the run's folder, and further ones
    take a moment. For many previews of one run make an `Editor`, which also keeps the model open.

    Args:
        run: a finished run.
        remove: numbers of prototypes that the model should answer without.
        require: the least weights of others, where the head has weights that were learnt.
        progress: told how far it is.
        trust_code: the backbone may be code that the run names, which is imported and called.

    Raises:
        NoEdit: if the network has no weights that could be changed, or a class would have no prototype left.
        ValueError: if a prototype does not exist, or is removed and required.
        RunError: if the run is not finished.
    """
    return Editor(run, progress=progress, trust_code=trust_code).preview(remove, require)


class Editor:
    """Previews edits of one run; keeps what they have in common.

    Attributes:
        run: whose model is edited.
        connections: the weights of its head as they are now.
        l2: see `L2`.
        cost_limit: see `COST_LIMIT`.
    """

    def __init__(
        self,
        run: Run | Path | str,
        model: PixPNet | None = None,
        data: DataSet | None = None,
        progress: Progress | None = None,
        trust_code: bool = False,
        l2: float = L2,
        cost_limit: float = COST_LIMIT,
    ) -> None:
        """Opens a run; its images are gone through when the first preview needs them, unless scores are kept.

        Args:
            run: a finished run.
            model: of the run, where it is open already; it is not changed.
            data: of the run, where they are open already.
            progress: told how far it is.
            trust_code: the backbone may be code that the run names, which is imported and called.
            l2: weight of the squared weights in the loss that a head is refitted to.
            cost_limit: the largest estimated rise of the loss that is allowed.

        Raises:
            NoEdit: if the network has no weights that could be changed.
            RunError: if the run is not finished.
        """
        self.run = Run.of(run)
        if not self.run.finished:
            raise RunError(f"{self.run.path} is not finished: pixpnet train --resume {self.run.path}")
        self._model = self.run.model(trust_code) if model is None else model
        self._data, self._progress = data, progress
        self._hash = self.run.fingerprint()
        self.l2, self.cost_limit = l2, cost_limit
        head = self._model.head.reweighted(self._model.ownership)
        self.connections = head.connections()
        self._optima: dict[tuple[bool, ...], Optimum] = {}
        self._learnt = self._model.head.learns_weights
        mask = self._model.ownership.mask().cpu()
        self._own: Bool[Tensor, " connections"] = mask[self.connections.classes, self.connections.prototypes]

    @cached_property
    def scores(self) -> PrototypeScores:
        """Of the validation images."""
        return prototype_scores(self.run, "val", self._model, self._data, self._progress)

    def _optimum(self, left: Bool[Tensor, " connections"]) -> Optimum:
        """The head, refitted to the training images.

        Args:
            left: the connections that it has: those of prototypes that earlier edits removed cost nothing to remove.

        Raises:
            NoEdit: if it has too many weights.
        """
        key = tuple(left.tolist())
        if key not in self._optima:
            connections = _some(self.connections, left)
            refuse_many(connections)
            seen = prototype_scores(self.run, "train", self._model, self._data, self._progress)
            problem = HeadProblem(seen.scores.double(), seen.labels, connections, self._model.num_classes, self.l2)
            if len(self._optima) >= _MOST_OPTIMA:  # each holds a Hessian
                self._optima.clear()
            self._optima[key] = problem.optimum()
        return self._optima[key]

    def warm_up(self) -> None:
        """Goes through all images that previews need, so that each takes a moment; then nobody is told any more."""
        _ = self.scores
        if self._learnt:
            with suppress(NoEdit):  # which a preview then says
                self._optimum(~self._of(removed_by(self._model.mendings)))
        self._progress = None

    def preview(self, remove: Iterable[int] = (), require: Mapping[int, float] | None = None) -> EditPreview:
        """What an edit would do; see `preview_edit`."""
        removed, required = tuple(sorted(set(remove))), dict(sorted((require or {}).items()))
        self._check(removed, required)
        now = self.connections.weights
        # What an earlier edit removed stays removed: refitted, it would get weights again.
        earlier = self._of(removed_by(self._model.mendings) - set(required))
        goes = earlier | self._of(removed)
        before = self._answers(now)
        outcomes: list[EditOutcome] = []
        refusals: list[str] = []
        refit: RefitFigures | None = None
        if self._learnt:
            try:
                closed = self._closed_form(~earlier, removed, required)
                refit = self._figures(closed, ~earlier)
                outcomes.append(self._outcome("refitted", self._all(closed.weights, ~earlier), before))
            except NoEdit as error:
                refusals.append(f"{error}.")
        elif required:
            raise NoEdit("every prototype counts with a fixed weight in this network, so none can be required")
        else:
            outcomes.append(self._outcome("scaled", self._scaled(goes), before))
        if not required:
            dropped = self._outcome("dropped", now.masked_fill(goes, 0.0), before)
            # What costs more than allowed is shown, but comes last and is never what an edit does by itself.
            outcomes = [dropped, *outcomes] if refit is not None and not refit.allowed else [*outcomes, dropped]
        if not outcomes:
            raise NoEdit(" ".join(refusals))
        labels = self.scores.labels
        return EditPreview(
            run=self.run.path.resolve().name,
            model=self._hash,
            removed=removed,
            required=tuple(required),
            least_weights=tuple(required.values()),
            right=int((before == labels).sum()),
            images=len(labels),
            outcomes=tuple(outcomes),
            refit=refit,
            refusals=tuple(refusals),
        )

    def _check(self, removed: tuple[int, ...], required: Mapping[int, float]) -> None:
        count = self._model.num_prototypes
        if not removed and not required:
            raise ValueError("an edit removes or requires at least one prototype")
        for number in (*removed, *required):
            if not 0 <= number < count:
                raise ValueError(f"there is no prototype {number}: they are 0 to {count - 1}")
        if both := set(removed) & set(required):
            raise ValueError(f"prototype {min(both)} cannot be removed and required")
        if any(not 0 < weight < float("inf") for weight in required.values()):
            raise ValueError(f"a prototype is required with a weight above 0, got {list(required.values())}")
        counts = self._own & (self.connections.weights != 0)
        stays, classes = ~self._of(removed), self.connections.classes
        before, after = (_per_class(chosen, classes, self._model) for chosen in (counts, counts & stays))
        for label in ((before > 0) & (after == 0)).nonzero().flatten().tolist():
            raise NoEdit(
                f"{self._model.class_names[label]} would have no prototype left: keep one, or forbid its patches and "
                "train again (pixpnet train --feedback)"
            )

    def _scaled(self, goes: Bool[Tensor, " connections"]) -> Float64[Tensor, " connections"]:
        """The own weights of a class that has K and loses r, times K / (K - r)."""
        now, classes = self.connections.weights, self.connections.classes
        counts = self._own & (now != 0)
        before, after = (_per_class(chosen, classes, self._model) for chosen in (counts, counts & ~goes))
        factor = torch.where(after > 0, before / after.clamp(min=1), 1.0)
        return torch.where(self._own, now * factor[classes], now).masked_fill(goes, 0.0)

    def _of(self, prototypes: Iterable[int]) -> Bool[Tensor, " connections"]:
        """Which connections are of some prototypes."""
        return torch.isin(self.connections.prototypes, torch.tensor(sorted(prototypes), dtype=torch.int64))

    def _all(
        self, weights: Float64[Tensor, " _some"], left: Bool[Tensor, " connections"]
    ) -> Float64[Tensor, " connections"]:
        """Weights of the connections that are left as weights of all: 0 where earlier edits removed a prototype."""
        return torch.zeros(len(left), dtype=torch.float64).masked_scatter(left, weights)

    def _closed_form(
        self, left: Bool[Tensor, " connections"], removed: Iterable[int], required: Mapping[int, float]
    ) -> ClosedForm:
        """Numbers of connections are counted among those that are left."""
        prototypes, own = self.connections.prototypes[left], self._own[left]
        numbers, least = [], []
        for number, weight in required.items():
            here = ((prototypes == number) & own).nonzero().flatten().tolist()
            numbers += here
            least += [weight] * len(here)
        return edited_weights(
            self._optimum(left),
            self._of(removed)[left].nonzero().flatten(),
            torch.tensor(numbers, dtype=torch.int64),
            torch.tensor(least, dtype=torch.float64),
        )

    def _figures(self, closed: ClosedForm, left: Bool[Tensor, " connections"]) -> RefitFigures:
        optimum = self._optimum(left)
        refitted = self._answers(self._all(optimum.weights, left))
        return RefitFigures(
            estimated_cost=closed.estimated_cost,
            true_cost=closed.true_cost,
            loss=optimum.loss,
            limit=self.cost_limit,
            allowed=closed.estimated_cost <= self.cost_limit,
            gradient=optimum.gradient,
            l2=self.l2,
            images=len(optimum.problem.labels),
            refitted_right=int((refitted == self.scores.labels).sum()),
        )

    def _logits(self, weights: Float64[Tensor, " connections"]) -> Float64[Tensor, "images classes"]:
        changed = Connections(self.connections.classes, self.connections.prototypes, weights)
        return changed.logits(self.scores.scores, self._model.num_classes)

    def _answers(self, weights: Float64[Tensor, " connections"]) -> Int64[Tensor, " images"]:
        return self._logits(weights).argmax(dim=1)

    def _outcome(
        self, way: Way, weights: Float64[Tensor, " connections"], before: Int64[Tensor, " images"]
    ) -> EditOutcome:
        logits, labels, names = self._logits(weights), self.scores.labels, self._model.class_names
        after = logits.argmax(dim=1)
        changed = tuple(
            ChangedAnswer(
                self.scores.ids[image], names[int(labels[image])], names[int(before[image])], names[int(after[image])]
            )
            for image in (before != after).nonzero().flatten().tolist()
        )
        right = int((after == labels).sum())
        loss = float(F.cross_entropy(logits, labels))
        return EditOutcome(way, right, len(labels), loss, changed, tuple(weights.tolist()))


def without_weights(preview: EditPreview) -> EditPreview:
    """The preview as a file holds it."""
    return replace(preview, outcomes=tuple(replace(outcome, weights=()) for outcome in preview.outcomes))


def _some(connections: Connections, chosen: Bool[Tensor, " connections"]) -> Connections:
    return Connections(connections.classes[chosen], connections.prototypes[chosen], connections.weights[chosen])


def _per_class(
    chosen: Bool[Tensor, " connections"], classes: Int64[Tensor, " connections"], model: PixPNet
) -> Float64[Tensor, " classes"]:
    return torch.zeros(model.num_classes, dtype=torch.float64).index_add(0, classes, chosen.double())
