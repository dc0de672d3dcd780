"""ProtoTree: a soft binary tree whose nodes each look for one prototype; leaves learn classes without gradients.

The defaults are those of the published implementation for CUB: depth 9, embeddings of 256 dimensions, an add-on of one
convolution without bias, plain Euclidean distances, 100 epochs with the backbone frozen for 30, rates that halve after
epochs 60, 70, 80 and 90, pruning of leaves that know no class by more than 1 %, and one replacement at the end.

Where published settings leave something open, or ours depart from them:

- Everything is computed in logs, with the path of the root at probability 1.
- Where one side of the root knows nothing, the other side becomes the tree. (Published: nothing below the root's child
  is pruned then.) A tree of which no node would be left stays as it is, and so does one in which some grid would keep
  no prototype.
- A leaf that knows nothing yet takes all classes for its answer: prototypes above it may come from images of any.
- The extra rate of the last block of a ResNet-50 is there for whichever backbone has that block before its cut.
- Small presets have embeddings of 8 dimensions, choose the depth that suits the classes (one level more than it takes
  to have a leaf for each), prune leaves that know less than twice what a guess knows, and replace prototypes on the way
  too, so that they learn beside patches; the last replacement, after pruning, is the one that counts.
- Absent: the four corner crops of each training image, which need bounding boxes; training and test images are whole.
- With several grids, nodes are shared out among them level by level, the first grid asking first.
- As for ProtoPNet: the model is evaluated on a validation split, and the backbone (with its last block) keeps its batch
  statistics in the warm-up.
- Distances below 1e-7 count as 1e-7 in the log of not finding; published code adds 1e-7 to all of them.
- Absent: ensembles of three or five trees.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil, log2
from typing import TYPE_CHECKING, Literal

from pixpnet.family import Conversion, Member
from pixpnet.members import budgets
from pixpnet.members.classwise import pretraining_extras, share_out
from pixpnet.records import refuse_above
from pixpnet.settings import Frame, Optimization, Replacement, below_one, positive

if TYPE_CHECKING:
    from torch import nn

    from pixpnet.model import PixPNet
    from pixpnet.parts import BinaryTree, Parts, TreeDecision
    from pixpnet.parts.binary_tree import Pruned
    from pixpnet.parts.losses import Step
    from pixpnet.training.features import AnyBatch
    from pixpnet.training.groups import Group
    from pixpnet.training.learner import Learner
    from pixpnet.training.stages import Stage

_DEEPEST = 12
# Adam's, as published.
_EPSILON = 1e-7
_LAST_BLOCK = "last_block"


@dataclass(frozen=True)
class ProtoTreeArchitecture:
    """What stands behind the backbone.

    Attributes:
        dim: length of an embedding
        depth: levels of nodes; none for what suits the classes: one more than it takes to have a leaf for each
        inference: which leaves count in an answer: all by their probability (soft), the most probable one
            (sample_max), or the one that is reached by likely turns only (greedy). A tree is trained as a soft one
        nodes: how many nodes of each grid pruning left; none before
        cells: what the add-on gets: plain is what the backbone gives (published); normalized shifts and scales the
            channels of each cell to mean 0 and variance 1, by that cell alone
        channel_dropout: share of the backbone's channels that are left out of each cell while learning
    """

    dim: int = 256
    depth: int | None = 9
    inference: Literal["soft", "sample_max", "greedy"] = "soft"
    nodes: tuple[int, ...] | None = None
    cells: Literal["plain", "normalized"] = "plain"
    channel_dropout: float = 0.0

    def __post_init__(self) -> None:
        below_one(self, "channel_dropout")
        positive(self, "dim")
        refuse_above(self, {"dim": 16384}, "architecture.")
        if self.depth is not None and not 1 <= self.depth <= _DEEPEST:
            raise ValueError(f"depth is from 1 to {_DEEPEST} (a tree of {2**_DEEPEST - 1} nodes), got {self.depth}")
        if self.nodes is not None and not (self.nodes and min(self.nodes) >= 1 and sum(self.nodes) < 2**_DEEPEST):
            raise ValueError(f"every grid has at least one node, and all have fewer than {2**_DEEPEST}: {self.nodes}")

    def levels(self, num_classes: int) -> int:
        """How deep the tree is for so many classes.

        >>> [ProtoTreeArchitecture(depth=depth).levels(12) for depth in (9, None)]
        [9, 5]
        >>> ProtoTreeArchitecture(depth=None).levels(10_000)
        12
        """
        return min(_DEEPEST, ceil(log2(num_classes)) + 1) if self.depth is None else self.depth


@dataclass(frozen=True)
class Pruning:
    """What is taken from the tree after training.

    Attributes:
        threshold: leaves go that give no class more than this; none for twice what a guess would give (0.01 with the
            200 classes of CUB), but where classes are few no more than a tenth of the way from a guess to certainty
    """

    threshold: float | None = 0.01

    def __post_init__(self) -> None:
        if self.threshold is not None and not 0 <= self.threshold < 1:
            raise ValueError(f"threshold is at least 0 and below 1, got {self.threshold}")

    def least(self, num_classes: int) -> float:
        """The threshold for so many classes.

        >>> Pruning(None).least(200), Pruning(None).least(2)
        (0.01, 0.55)
        """
        if self.threshold is not None:
            return self.threshold
        return min(2 / num_classes, 0.1 + 0.9 / num_classes)


@dataclass(frozen=True)
class TreeReplacement:
    """When and how prototypes become patches of training images. It always happens at the end, after pruning.

    Attributes:
        start: epochs before the first replacement
        every: epochs between two replacements
        unique: no two prototypes of the tree from the same image, the same patch, or no such rule (published)
        assignment: where there is such a rule: smallest_total chooses the patches with the smallest sum of distances;
            nearest_first lets the nearest pair choose first
    """

    start: int = 100
    every: int = 100
    unique: Literal["image", "patch", "none"] = "none"
    assignment: Literal["smallest_total", "nearest_first"] = "nearest_first"

    def __post_init__(self) -> None:
        self.as_replacement()  # says what is wrong

    def as_replacement(self) -> Replacement:
        """The same, as training knows it."""
        return Replacement(self.start, self.every, self.unique, self.assignment)


@dataclass(frozen=True)
class ProtoTreeConfig:
    """What a ProtoTree is made of and how it is trained.

    Attributes:
        architecture: of the layers behind the backbone
        optimization: optimizer, learning rates and epochs
        first_step: with the schedule steps, after how many epochs the rates are first multiplied by lr_step_factor;
            then every lr_step_epochs
        last_block: layer of the backbone that learns from the start and has a rate of its own, where there is one of
            that name before the cut
        last_block_rate: learning rate of that layer
        pruning: what is taken from the tree after training
        replacement: of prototypes by training patches
        frame: how a picture becomes a square: crop, stretch or pad; by default what suits the data set
    """

    architecture: ProtoTreeArchitecture = field(default_factory=ProtoTreeArchitecture)
    optimization: Optimization = field(
        default_factory=lambda: Optimization(
            epochs=100,
            warm_up_epochs=30,
            lr_backbone=1e-5,
            lr_add_on=1e-3,
            lr_prototypes=1e-3,
            weight_decay=0.0,
            lr_schedule="steps",
            lr_step_epochs=10,
            lr_step_factor=0.5,
        )
    )
    first_step: int = 60
    last_block: str = "layer4.2"
    last_block_rate: float = 1e-3
    pruning: Pruning = field(default_factory=Pruning)
    replacement: TreeReplacement = field(default_factory=TreeReplacement)
    frame: Frame | None = None

    def __post_init__(self) -> None:
        positive(self, "first_step", "last_block_rate")
        refuse_above(self, {"first_step": 100_000, "last_block_rate": 1_000_000}, "")
        if self.architecture.inference != "soft" or self.architecture.nodes is not None:
            raise ValueError(
                "a tree is trained as a soft one, and pruned after training: leave --architecture.inference and "
                "--architecture.nodes as they are, and turn the finished run into a hard tree (pixpnet convert RUN "
                "--to hard)"
            )


def _small(optimization: Optimization, frame: Frame | None = None) -> ProtoTreeConfig:
    """Few dimensions, in which distances are small enough for a node to be undecided, and fast add-ons.

    In 256 dimensions everything is far from everything at first, every image turns left at every node, and a few epochs
    do not change that (held-out training images of cub12, frozen resnet18 @ layer3: 8 % in 256 dimensions, 49 % in 8).
    """
    return ProtoTreeConfig(
        ProtoTreeArchitecture(dim=8, depth=None, cells="normalized"),
        optimization=replace(optimization, lr_add_on=1e-2, lr_prototypes=1e-2),
        pruning=Pruning(None),
        replacement=TreeReplacement(start=max(1, optimization.epochs // 2), every=1, unique="patch"),
        frame=frame,
    )


PRESETS: Mapping[str, ProtoTreeConfig] = {
    "paper": ProtoTreeConfig(frame="crop"),
    "laptop": _small(budgets.LAPTOP),
    "scratch": _small(budgets.SCRATCH),
    "frozen": _small(budgets.FROZEN, "stretch"),
    "tail": _small(budgets.TAIL, "stretch"),
}


def parts(architecture: ProtoTreeArchitecture, channels: tuple[int, ...], num_classes: int) -> "Parts":
    """An add-on of one convolution, plain distances to one prototype for each node, and a tree."""
    import torch
    from torch import nn

    from pixpnet import parts as made

    tree, shares = _shape(architecture, len(channels), num_classes)
    add_ons, comparisons = [], []
    for count, share in zip(channels, shares, strict=True):
        layer = nn.Conv2d(count, architecture.dim, kernel_size=1, bias=False)
        nn.init.xavier_normal_(layer.weight, gain=nn.init.calculate_gain("sigmoid"))
        add_ons.append(
            made.with_prepared_cells(
                nn.Sequential(layer, nn.Sigmoid()), architecture.cells, architecture.channel_dropout
            )
        )
        prototypes = 0.5 + 0.1 * torch.randn(share, architecture.dim, 1, 1)
        comparisons.append(made.Comparison(prototypes, made.L2(), made.Negated(), made.Nearest()))
    decision = made.TreeDecision(num_classes, tree, architecture.inference)
    return made.Parts(tuple(add_ons), tuple(comparisons), made.TreeOwnership(decision), decision)


def _shape(architecture: ProtoTreeArchitecture, grids: int, num_classes: int) -> "tuple[BinaryTree, tuple[int, ...]]":
    """A tree of the right size, and how many of its nodes look at each grid; what was pruned has its shape in its file.

    Raises:
        ValueError: if the nodes are not those of so many grids.
    """
    from pixpnet.parts import BinaryTree

    if architecture.nodes is None:
        tree = BinaryTree.complete(architecture.levels(num_classes))
        return tree, share_out(tree.num_nodes, grids, "--architecture.depth")
    if len(architecture.nodes) != grids:
        raise ValueError(f"nodes of {len(architecture.nodes)} grids, and there are {grids}")
    return BinaryTree.filled(sum(architecture.nodes)), architecture.nodes


def tree_step(learner: "Learner", batch: "AnyBatch") -> "Step":
    """The network's own forward pass, from which the leaves learn as well."""
    from pixpnet.training.steps import plain_step

    step = plain_step(learner, batch)
    _tree_of(learner.model).observe(step)
    return step


def begin_leaves(learner: "Learner") -> Mapping[str, float]:
    """Before an epoch: what leaves know now is what they will forget."""
    _tree_of(learner.model).begin_epoch()
    return {}


def update_leaves(learner: "Learner") -> Mapping[str, float]:
    """After a step: leaves learn from its images, those of all processes together."""
    from pixpnet.training.actions import summed_over_processes

    decision = _tree_of(learner.model)
    decision.learn(summed_over_processes(decision.pending()), learner.steps_per_epoch)
    return {}


@dataclass(frozen=True)
class Prune:
    """At the end: leaves that know no class go, and with them the nodes that lead to nothing else."""

    pruning: Pruning

    def __call__(self, learner: "Learner") -> Mapping[str, float]:
        """See `Action`."""
        model = learner.model
        decision = _tree_of(model)
        certainty = decision.leaves().amax(dim=1)
        keep(model, decision.tree().pruned((certainty <= self.pruning.least(model.num_classes)).tolist()))
        return {"nodes": float(_tree_of(model).tree().num_nodes)}


def keep(model: "PixPNet", pruned: "Pruned") -> None:
    """Makes a network the smaller one that pruning left, unless some grid would have no prototype."""
    import torch

    counts = tuple(sum(node in grid.prototypes for node in pruned.nodes) for grid in model.grids)
    if 0 in counts or len(pruned.nodes) == model.num_prototypes:
        return
    with torch.no_grad():
        vectors = torch.cat([grid.comparison.prototypes for grid in model.grids])[list(pruned.nodes)]
        knowledge = _tree_of(model).knowledge[list(pruned.leaves)].clone()
        model.rebuild(replace(model.architecture, nodes=counts))
        for grid, own in zip(model.grids, vectors.split(counts), strict=True):
            grid.comparison.prototypes.copy_(own)
        _tree_of(model).grow(pruned.tree, knowledge)


def harden(model: "PixPNet") -> None:
    """Makes a soft tree a hard one: one leaf counts, that of likely turns only."""
    model.architecture = replace(model.architecture, inference="greedy")
    _tree_of(model).inference = "greedy"


def stages(config: ProtoTreeConfig) -> "tuple[Stage, ...]":
    """Warm-up and joint epochs in which leaves learn beside everything else; pruning and replacement at the end."""
    from pixpnet.parts.losses import LossTerm
    from pixpnet.parts.tree import negative_log_likelihood
    from pixpnet.training.stages import late_steps, schedule_of
    from pixpnet.training.usual import usual_stages

    optim = config.optimization
    terms = [LossTerm("negative_log_likelihood", 1.0, negative_log_likelihood)]
    usual = usual_stages(optim, config.replacement.as_replacement(), terms, step=tree_step)
    rate = late_steps(optim, config.first_step) if optim.lr_schedule == "steps" else schedule_of(optim)

    def with_leaves(stage: "Stage") -> "Stage":
        learns = stage.learns | {_LAST_BLOCK}
        if "prototypes" not in stage.learns:
            return replace(stage, learns=learns)
        last = stage is usual[-1]
        return replace(
            stage,
            learns=learns,
            trains=stage.trains if "backbone" in learns else frozenset({"add_on"}),
            rate=rate,
            before_epoch=(begin_leaves,),
            each_step=(update_leaves,),
            at_end=(Prune(config.pruning), *stage.at_end) if last else stage.at_end,
            selectable="end" if last else "never",
        )

    return tuple(map(with_leaves, usual))


def groups(model: "PixPNet", config: ProtoTreeConfig, extras: "Mapping[str, nn.Module]") -> "Mapping[str, Group]":
    """The usual ones; the last block, where the backbone has it, apart."""
    from pixpnet.training.groups import group, usual_groups

    optim = config.optimization
    usual = {**usual_groups(model, optim, extras)}
    usual.pop("head")
    block = dict(model.backbone.named_modules()).get(f"network.{config.last_block}") if config.last_block else None
    block_parameters = [] if block is None else list(block.parameters())
    in_block = {id(parameter) for parameter in block_parameters}
    rest = (parameter for parameter in model.backbone.parameters() if id(parameter) not in in_block)
    usual["backbone"] = group(rest, optim.lr_backbone, optim.weight_decay)
    usual[_LAST_BLOCK] = group(block_parameters, config.last_block_rate, optim.weight_decay)
    return {name: replace(parameters, epsilon=_EPSILON) for name, parameters in usual.items()}


def _tree_of(model: "PixPNet") -> "TreeDecision":
    from pixpnet.parts import TreeDecision

    assert isinstance(model.head, TreeDecision)
    return model.head


MEMBER = Member(
    name="prototree",
    title="ProtoTree",
    summary="a soft binary tree whose nodes each look for one prototype; leaves learn classes without gradients",
    config=ProtoTreeConfig,
    architecture=ProtoTreeArchitecture,
    presets=PRESETS,
    parts=parts,
    groups=groups,
    stages=stages,
    extras=pretraining_extras,
    conversions={"hard": Conversion("a hard tree: each image takes one path, by what is likely found", harden)},
)
