"""ProtoTree's decision: a binary tree whose nodes ask whether a prototype is found, and leaves that know classes.

A score is the log of the probability that a prototype is found: minus its distance, so that the probability is
exp(-d). *Found goes right.* A leaf is reached with the product of the probabilities of the turns that lead to it, and
a class's probability is the sum over the leaves of that times what the leaf gives to the class. Logits are the logs of
these probabilities, so their softmax is the answer itself.

Everything is computed in logs: products of probabilities underflow, and leaves that have seen thousands of images give
exactly 0 to other classes. Leaves learn without gradients (`leaf_update`).
"""

from collections.abc import Callable, Mapping, Sequence
from math import log
from typing import Any

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

from pixpnet.parts.binary_tree import DEEPEST, LEAST_DISTANCE, BinaryTree, Inference
from pixpnet.parts.decisions import Decision
from pixpnet.parts.losses import Step
from pixpnet.parts.ownership import NOBODY, Ownership
from pixpnet.parts.reasons import ExplanationSize, NoBounds, Path, Route

_LOG_2 = log(2)
# Of numbers in one tensor of images x leaves x classes.
_AT_ONCE = 2**23
_NODES_AT_ONCE = 32


def log_not(distances: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The log of 1 - exp(-d), without cancellation at either end.

    >>> [f"{value:.4f}" for value in log_not(torch.tensor([0.0, 0.5, 5.0])).tolist()]
    ['-16.1181', '-0.9328', '-0.0068']
    """
    distances = distances.clamp_min(LEAST_DISTANCE)
    near, far = distances.clamp_max(_LOG_2), distances.clamp_min(_LOG_2)
    return torch.where(distances < _LOG_2, torch.log(-torch.expm1(-near)), torch.log1p(-torch.exp(-far)))


def leaf_update(
    leaves: Float[Tensor, "leaves classes"],
    at_start: Float[Tensor, "leaves classes"],
    steps: int,
    added: Float[Tensor, "leaves classes"],
) -> Float[Tensor, "leaves classes"]:
    """What leaves have learnt after one more step: a part of what they knew when the epoch began is forgotten.

    Args:
        leaves: before the step.
        at_start: when the epoch began.
        steps: of the epoch.
        added: what the images of the step add (`TreeDecision.credit`).
    """
    return torch.relu(leaves - at_start / steps) + added


class TreeDecision(Decision):
    """A soft or hard binary tree.

    Attributes:
        branches: what follows each node: `BinaryTree.children`.
        knowledge: of each leaf about each class, before the softmax: learnt without gradients.
        inference: which leaves count; a tree learns as a soft one.
    """

    name = "binary_tree"
    own_only = True
    branches: Tensor
    knowledge: Tensor
    _present: Tensor
    _absent: Tensor

    def __init__(self, num_classes: int, tree: BinaryTree, inference: Inference = "soft") -> None:
        super().__init__()
        self.inference: Inference = inference
        self.register_buffer("branches", torch.zeros(tree.num_nodes, 2, dtype=torch.int64))
        self.register_buffer("knowledge", torch.zeros(tree.num_leaves, num_classes))
        for side in ("_present", "_absent"):
            self.register_buffer(side, torch.zeros(tree.num_leaves, tree.num_nodes), persistent=False)
        self._tree = tree
        # What a step adds to the leaves, and what they knew when the epoch began; of no interest between epochs.
        self._added: Tensor | None = None
        self._at_start: Tensor | None = None
        self._grow(tree)

    def grow(self, tree: BinaryTree, knowledge: Float[Tensor, "leaves classes"]) -> None:
        """Takes another shape of the same size, and what its leaves know."""
        self._grow(tree)
        self.knowledge.copy_(knowledge)

    def _grow(self, tree: BinaryTree) -> None:
        self._tree = tree
        if self.branches.is_meta:
            return
        self.branches.copy_(torch.tensor(tree.children))
        for side, matrix in ((True, self._present), (False, self._absent)):
            matrix.zero_()
            for leaf, turns in enumerate(tree.paths):
                matrix[leaf, [turn.node for turn in turns if turn.present is side]] = 1.0

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        errors: list[str] = args[-1]
        try:
            tree = BinaryTree(tuple((left, right) for left, right in self.branches.tolist()))
            if tree.depth > DEEPEST:
                raise ValueError(f"it is {tree.depth} levels deep, and {DEEPEST} are read")
            self._grow(tree)
        except ValueError as error:
            errors.append(f"{prefix}branches is no tree: {error}")

    # From scores to logits ------------------------------------------------------------------------------------

    def log_weights(self, scores: Float[Tensor, "batch protos"]) -> Float[Tensor, "batch leaves"]:
        """The log of the probability with which each leaf is reached."""
        distances = (-scores).clamp_min(LEAST_DISTANCE)
        present, absent = self._present.to(scores.dtype), self._absent.to(scores.dtype)
        return log_not(distances) @ absent.T - distances @ present.T

    def log_leaves(self) -> Float[Tensor, "leaves classes"]:
        """The log of what each leaf gives to each class."""
        return self.knowledge.log_softmax(dim=1)

    def logits(self, scores: Float[Tensor, "batch protos"]) -> Float[Tensor, "batch classes"]:
        """The log of each class's probability."""
        with torch.autocast(scores.device.type, enabled=False):
            if self.inference != "soft":
                return self.log_leaves().to(scores.dtype)[self._leaf_of(scores, self.inference)]
            return self._soft(scores)

    def _soft(self, scores: Float[Tensor, "batch protos"]) -> Float[Tensor, "batch classes"]:
        weights, leaves = self.log_weights(scores), self.log_leaves().to(scores.dtype)
        some = max(1, _AT_ONCE // max(1, weights.numel()))
        parts = [torch.logsumexp(weights[:, :, None] + own, dim=1) for own in leaves.split(some, dim=1)]
        return torch.cat(parts, dim=1)

    def _leaf_of(self, scores: Float[Tensor, "batch protos"], inference: Inference) -> Int64[Tensor, " batch"]:
        if inference == "sample_max":
            return self.log_weights(scores).argmax(dim=1)
        return self._wrong_turns(scores > -_LOG_2).argmin(dim=1)

    def _wrong_turns(self, right: Bool[Tensor, "batch protos"]) -> Float[Tensor, "batch leaves"]:
        """How many turns on the way to each leaf an image does not take, if it turns right at these nodes."""
        turns = right.to(self._present.dtype)
        return (1 - turns) @ self._present.T + turns @ self._absent.T

    def readings(self, scores: Float[Tensor, "batch protos"]) -> Mapping[str, Int64[Tensor, " batch"]]:
        """The answers of the whole tree, of its most probable leaf, and of likely turns only; but for its own."""
        best = self.knowledge.argmax(dim=1)
        rules: dict[str, Callable[[], Int64[Tensor, " batch"]]] = {
            "soft": lambda: self._soft(scores).argmax(dim=1),
            "sample_max": lambda: best[self._leaf_of(scores, "sample_max")],
            "greedy": lambda: best[self._leaf_of(scores, "greedy")],
        }
        return {rule: answers() for rule, answers in rules.items() if rule != self.inference}

    # Reasons --------------------------------------------------------------------------------------------------

    def reasons(self, scores: Float[Tensor, " protos"], labels: Sequence[int]) -> Path:
        """For each class the way to the leaf that gives it most; where one leaf counts, the way to that one."""
        exact = scores.detach().double()[None]
        logs = self.log_weights(exact)[0].cpu()
        known = self.knowledge.double().log_softmax(dim=1).cpu()
        best = known.argmax(dim=1).tolist()
        only = None if self.inference == "soft" else int(self._leaf_of(exact, self.inference))
        turned = {True: -exact[0].neg().clamp_min(LEAST_DISTANCE), False: log_not(-exact[0])}
        log_probabilities = {side: values.tolist() for side, values in turned.items()}

        def route(label: int) -> Route:
            leaf = int((logs + known[:, label]).argmax()) if only is None else only
            turns = self._tree.path_to(leaf)
            return Route(
                leaf,
                turns,
                tuple(log_probabilities[turn.present][turn.node] for turn in turns),
                1.0 if only is not None else float(logs[leaf].exp()),
                float(known[leaf, label]),
                best[leaf],
            )

        return Path(tuple(map(route, labels)), self.inference, self._tree, known[:, list(labels)])

    def decides(self, scores: Float[Tensor, "batch protos"]) -> Bool[Tensor, "batch protos"]:
        """A prototype that does not exist is never found: what would be answered if its node always turned left?"""
        exact, leaves = scores.double(), self.log_leaves().double()
        answers = self.logits(exact).argmax(dim=1)
        logs, wrong = self.log_weights(exact), self._wrong_turns(exact > -_LOG_2).double()
        changed = []
        for nodes in torch.arange(exact.shape[1], device=scores.device).split(_NODES_AT_ONCE):
            present, absent = (side[:, nodes].T.double() for side in (self._present, self._absent))
            if self.inference == "greedy":
                right = (exact[:, nodes] > -_LOG_2).double()[:, :, None]
                reached = (wrong[:, None] + right * (present - absent)).argmin(dim=2)
                changed.append(leaves.argmax(dim=1)[reached] != answers[:, None])
                continue
            # Leaves to the right lose everything, those to the left no longer share with them.
            left = logs[:, None] - absent * log_not(-exact[:, nodes])[:, :, None]
            without = left.masked_fill(present.bool(), float("-inf"))
            if self.inference == "sample_max":
                changed.append(leaves.argmax(dim=1)[without.argmax(dim=2)] != answers[:, None])
                continue
            largest = without.amax(dim=2, keepdim=True)
            probabilities = (without - largest).exp() @ leaves.exp()
            changed.append(probabilities.argmax(dim=2) != answers[:, None])
        return torch.cat(changed, dim=1)

    def least_leads(
        self, label: int, low: Float64[Tensor, "cases protos"], high: Float64[Tensor, "cases protos"]
    ) -> Float64[Tensor, "cases classes"]:
        """From the leaves to the root: each node turns as is worst for the class, within its bounds.

        Exact, because each node occurs once: what a subtree leads by is linear in the probability of its root's turn,
        so its least value lies at an end. Leads are of probabilities; where one leaf counts, of its logs.

        Raises:
            NoBounds: if the most probable leaf counts.
        """
        if self.inference == "sample_max":
            raise NoBounds(
                "which leaf is the most probable one depends on all nodes at once: ask the soft tree, or convert the "
                "run to a hard one (pixpnet convert RUN --to hard)"
            )
        known = self.knowledge.double().softmax(dim=1) if self.soft else self.knowledge.double().log_softmax(dim=1)
        leaf_leads = known[:, label, None] - known
        nodes = self._tree.num_nodes
        # Leaves behind the nodes, in reverse, so that ~leaf is an index from the end.
        leads = low.new_zeros(len(low), 2 * nodes + 1, known.shape[1])
        leads[:, nodes:] = leaf_leads.flip(0)
        children = torch.tensor(self._tree.children, device=low.device)
        for group in self._tree.by_height:
            some = torch.tensor(group, device=low.device)
            left, right = leads[:, children[some, 0]], leads[:, children[some, 1]]
            ends = [self._right_turns(bound[:, some])[..., None] for bound in (low, high)]
            leads[:, some] = torch.minimum(*(turn * right + (1 - turn) * left for turn in ends))
        return leads[:, 0]

    def _right_turns(self, scores: Float64[Tensor, "cases nodes"]) -> Float64[Tensor, "cases nodes"]:
        """The probability of a right turn; of a hard tree, 1 where it is likely."""
        return (-(-scores).clamp_min(LEAST_DISTANCE)).exp() if self.soft else (scores > -_LOG_2).double()

    @property
    def soft(self) -> bool:
        """Whether all leaves count, each by its probability."""
        return self.inference == "soft"

    def uses(self, least: float) -> Bool[Tensor, " protos"]:
        """All of them: each is asked for at its node."""
        return torch.ones(len(self.branches), dtype=torch.bool, device=self.branches.device)

    def size(self) -> ExplanationSize:
        """A score and a turn for each node of the longest way, and for each node (Table 1: 18 and 404 on CUB)."""
        return ExplanationSize(2 * self._tree.depth, 2 * self._tree.num_nodes)

    @property
    def form(self) -> str:
        """See `Decision`."""
        counted = {
            "soft": "a class's probability is the sum over all leaves of a soft binary tree",
            "sample_max": "the answer is the most probable leaf of a binary tree",
            "greedy": "the answer is the one leaf that a hard binary tree leads to",
        }[self.inference]
        tree = self._tree
        return f"{counted}, {tree.depth} levels deep, of {tree.num_nodes} nodes and {tree.num_leaves} leaves"

    @property
    def claim(self) -> str:
        """See `Decision`."""
        return "a logit is a simple tree model of scores"

    def tree(self) -> BinaryTree:
        """See `Decision`."""
        return self._tree

    def leaves(self) -> Float[Tensor, "leaves classes"]:
        """See `Decision`."""
        return self.knowledge.softmax(dim=1)

    # Learning -------------------------------------------------------------------------------------------------

    def begin_epoch(self) -> None:
        """Remembers what the leaves know now."""
        self._at_start = self.knowledge.clone()

    def credit(
        self, scores: Float[Tensor, "batch protos"], labels: Int64[Tensor, " batch"]
    ) -> Float[Tensor, "leaves classes"]:
        """What images add to the leaves: each shares out 1 among the leaves by how much they gave to its class.

        The share of a leaf is its weight times what it gives to the class, over the class's probability; from logs,
        so that it exists where that probability is too small for a number.
        """
        with torch.no_grad(), torch.autocast(scores.device.type, enabled=False):
            shares = (self.log_weights(scores.float()) + self.log_leaves()[:, labels].T).softmax(dim=1)
            # A product, because adding by index comes out differently each time on a GPU.
            classes = nn.functional.one_hot(labels, self.knowledge.shape[1])
            return shares.T.to(self.knowledge.dtype) @ classes.to(self.knowledge.dtype)

    def observe(self, step: Step) -> None:
        """Keeps what the images of a step add until the optimizer has stepped (`learn`)."""
        self._added = self.credit(step.required_matches.scores.detach(), step.labels)

    def pending(self) -> Float[Tensor, "leaves classes"]:
        """What the last step adds to the leaves.

        Raises:
            ValueError: if no step was observed.
        """
        if self._added is None:
            raise ValueError("leaves learn after a step, and there was none: observe one")
        return self._added

    def learn(self, added: Float[Tensor, "leaves classes"], steps: int) -> None:
        """Changes the leaves by what a step adds.

        Args:
            added: by all processes together.
            steps: of the epoch.

        Raises:
            ValueError: if no epoch was begun.
        """
        if self._at_start is None:
            raise ValueError("leaves forget a part of what they knew when the epoch began: call begin_epoch first")
        self.knowledge.copy_(leaf_update(self.knowledge, self._at_start, steps, added))
        self._added = None


class TreeOwnership(Ownership):
    """Prototypes of a tree speak for no class: they turn images right.

    A patch may come from images of the classes that some leaf below the node answers with. Prototypes are measured on
    images of the classes that leaves behind *found* answer with.
    """

    measured_on = (
        "Prototypes of a tree have no class, so figures about the prototypes of an image's class (S_con, S_sta, "
        "relevance ordering, distinctiveness, places of answers) are not defined for them as published: those are "
        "taken behind whose 'found' some leaf answers with that class. They are not comparable with figures of other "
        "members."
    )

    def __init__(self, decision: TreeDecision) -> None:
        super().__init__()
        # In a tuple, so that the decision's numbers are not this module's too, and in files twice.
        self._decision = (decision,)

    @property
    def labels(self) -> Int64[Tensor, " protos"]:  # type: ignore[override]
        """-1 for every prototype: none has a class."""
        decision = self._decision[0]
        return torch.full((len(decision.branches),), NOBODY, device=decision.branches.device)

    def mask(self) -> Bool[Tensor, "classes protos"]:
        """No prototype speaks for any class."""
        knowledge = self._decision[0].knowledge
        return torch.zeros(knowledge.shape[1], len(knowledge) - 1, dtype=torch.bool, device=knowledge.device)

    def sources(self) -> Bool[Tensor, "classes protos"]:
        """Images of the classes that the leaves below its node answer with."""
        decision = self._decision[0]
        return self._answered(decision._present + decision._absent)

    def expected(self) -> Bool[Tensor, "classes protos"]:
        """Images of the classes that the leaves behind *found* answer with."""
        return self._answered(self._decision[0]._present)

    def rivals(self) -> tuple[Int64[Tensor, " _some"], ...]:
        """All prototypes are one group."""
        return (torch.arange(len(self._decision[0].branches), device=self._decision[0].branches.device),)

    def _answered(self, reaches: Float[Tensor, "leaves protos"]) -> Bool[Tensor, "classes protos"]:
        """The classes that leaves answer with, of those that can be reached from each node; of equals all."""
        knowledge = self._decision[0].knowledge
        answers = (knowledge == knowledge.amax(dim=1, keepdim=True)).to(reaches.dtype)
        return (answers.T @ reaches) > 0


def negative_log_likelihood(step: Step) -> Float[Tensor, ""]:
    """`negative_log_likelihood_loss` of a step."""
    return negative_log_likelihood_loss(step.logits, step.labels)


def negative_log_likelihood_loss(
    logits: Float[Tensor, "batch classes"], labels: Int64[Tensor, " batch"]
) -> Float[Tensor, ""]:
    """Minus the log of the probability of each image's class: what a tree answers is a distribution already."""
    return -logits.gather(1, labels[:, None]).mean()
