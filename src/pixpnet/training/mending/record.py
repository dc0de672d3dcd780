"""What an edit would do, before anybody does it: records that commands print and pages show."""

from dataclasses import dataclass, field

from pixpnet.model.mending import Way
from pixpnet.parts import NoEdit
from pixpnet.records import IN_MEMORY


@dataclass(frozen=True)
class ChangedAnswer:
    """A validation image that would get another answer.

    Attributes:
        image: stable id.
        class_name: the true class.
        before: the answer now.
        after: the answer then.
    """

    image: str
    class_name: str
    before: str
    after: str

    @property
    def mended(self) -> bool:
        """Whether a wrong answer becomes a right one."""
        return self.before != self.class_name == self.after

    @property
    def broken(self) -> bool:
        """Whether a right answer becomes a wrong one."""
        return self.before == self.class_name != self.after


@dataclass(frozen=True)
class EditOutcome:
    """What one way of making an edit would do to the answers to validation images.

    Attributes:
        way: how the other prototypes make up for those that are removed.
        right: how many answers would be right.
        images: how many there are.
        loss: mean cross-entropy of the answers.
        changed: the images that would get another answer.
        weights: of all connections of the head; for `write_edit`.
    """

    way: Way
    right: int
    images: int
    loss: float
    changed: tuple[ChangedAnswer, ...]
    weights: tuple[float, ...] = field(repr=False, metadata=IN_MEMORY, default=())

    @property
    def accuracy(self) -> float:
        """The share of right answers."""
        return self.right / self.images


@dataclass(frozen=True)
class RefitFigures:
    """How well the closed form speaks for itself.

    Attributes:
        estimated_cost: by how much the loss on training images rises, by the closed form.
        true_cost: by how much it really rises.
        loss: at the optimum, before anything is removed.
        limit: the largest estimated cost that is allowed.
        allowed: whether the estimate is within the limit: that is the feasibility test. An edit that fails it is only
            written where somebody asks for this way by name.
        gradient: the largest at the optimum.
        l2: weight of the squared weights in the loss.
        images: training images that the head was refitted on.
        refitted_right: how many validation answers are right with the refitted head, before anything is removed: what
            refitting alone does, and the edit does not.
    """

    estimated_cost: float
    true_cost: float
    loss: float
    limit: float
    allowed: bool
    gradient: float
    l2: float
    images: int
    refitted_right: int


@dataclass(frozen=True)
class EditPreview:
    """What an edit would do to the answers to validation images, for each way of making it.

    Attributes:
        run: name of the run's folder.
        model: hash of its model.
        removed: prototypes that would be removed.
        required: prototypes that would get at least a weight.
        least_weights: those weights.
        right: how many answers are right now.
        images: how many validation images there are.
        outcomes: of each way, the recommended one first, and last the closed form where it costs more than allowed.
        refit: figures of the closed form, where the head has weights that were learnt; else None.
        refusals: ways that cannot be gone, and why, as sentences.
    """

    run: str
    model: str
    removed: tuple[int, ...]
    required: tuple[int, ...]
    least_weights: tuple[float, ...]
    right: int
    images: int
    outcomes: tuple[EditOutcome, ...]
    refit: RefitFigures | None = None
    refusals: tuple[str, ...] = ()

    @property
    def accuracy(self) -> float:
        """The share of right answers now."""
        return self.right / self.images

    def allows(self, way: Way) -> bool:
        """Whether an edit may be made this way without asking for it by name."""
        return way != "refitted" or self.refit is None or self.refit.allowed

    @property
    def recommended(self) -> EditOutcome | None:
        """What the recommended way would do; None where the only way there is costs more than allowed."""
        return next((outcome for outcome in self.outcomes if self.allows(outcome.way)), None)

    def outcome(self, way: Way | None = None) -> EditOutcome:
        """What one way would do; the recommended one by default.

        Raises:
            NoEdit: if none is named, and the only one there is costs more than allowed.
            ValueError: if that way cannot be gone; with the reason.
        """
        if way is None and self.recommended is not None:
            return self.recommended
        if way is None and self.refit is not None:
            raise NoEdit(
                f"this edit is not allowed: the training loss would rise by {self.refit.estimated_cost:.4f} "
                f"(estimated), and at most {self.refit.limit:g} is allowed. Remove or require less, or ask for the way "
                "by name: refitted"
            )
        for outcome in self.outcomes:
            if way == outcome.way:
                return outcome
        known = ", ".join(outcome.way for outcome in self.outcomes)
        raise ValueError(f"this edit cannot be made {way}: {' '.join(self.refusals) or f'there are {known}'}")
