"""Removing and requiring prototypes of a weighted head without retraining, in closed form.

The head is refitted once to the optimum w* of L(w) = CE + l2 |w|^2 (Newton's method, largest gradient below 1e-6), with
the Hessian H there. In the quadratic model of L around w*:

- **removing** the set J at once: w = w* - H^-1 E_J (H^-1_JJ)^-1 w*_J, at the cost 1/2 w*_J^T (H^-1_JJ)^-1 w*_J;
- **requiring** weights of at least m: the smallest (w - w*)^T H (w - w*) under w_j >= m, and w_J = 0 too where some are
  removed; a quadratic program in as many unknowns as there are requirements.

The cost is an estimate; the true loss of the new weights is worked out beside it. All in double precision.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int64
from scipy.optimize import nnls  # type: ignore[import-untyped]
from torch import Tensor
from torch.nn import functional as F

from pixpnet.parts import Connections, NoEdit

MOST_CONNECTIONS = 4096
"""A Hessian of more weights takes more than a few seconds and 128 MB."""
_LARGEST_GRADIENT = 1e-6
_STEPS = 100
_HALVINGS = 30


@dataclass(frozen=True)
class Optimum:
    """A head at the optimum of its loss on some images.

    Attributes:
        weights: w*, in the order of the connections.
        hessian: H there.
        loss: L(w*).
        gradient: the largest of L at w*, by absolute value.
        problem: what the loss is of.
    """

    weights: Float64[Tensor, " connections"]
    hessian: Float64[Tensor, "connections connections"]
    loss: float
    gradient: float
    problem: "HeadProblem"


@dataclass(frozen=True)
class ClosedForm:
    """What weights become when some prototypes are removed or required.

    Attributes:
        weights: in the order of the connections; exactly 0 for what was removed.
        estimated_cost: by how much the loss rises, by the quadratic model.
        true_cost: by how much it really rises.
    """

    weights: Float64[Tensor, " connections"]
    estimated_cost: float
    true_cost: float


def refuse_many(connections: Connections) -> None:
    """Refuses a head with more weights than a Hessian can be worked out for.

    Raises:
        NoEdit: if it has.
    """
    if len(connections.weights) > MOST_CONNECTIONS:
        raise NoEdit(
            f"the closed form is for heads of at most {MOST_CONNECTIONS} weights, and this one has "
            f"{len(connections.weights)}: only plain dropping can be shown"
        )


class HeadProblem:
    """The loss of a weighted head on scores that are given: cross-entropy and l2 times the squared weights."""

    def __init__(
        self,
        scores: Float64[Tensor, "images protos"],
        labels: Int64[Tensor, " images"],
        connections: Connections,
        num_classes: int,
        l2: float,
    ) -> None:
        """Raises `NoEdit` if there are more weights than a Hessian can be worked out for."""
        refuse_many(connections)
        if not l2 > 0:
            raise ValueError(f"l2 is above 0, so that there is one optimum, got {l2}")
        self.labels, self.num_classes, self.l2 = labels, num_classes, l2
        self.classes, self.start = connections.classes, connections.weights
        self.columns = scores[:, connections.prototypes]  # images x connections
        self.own = (labels[:, None] == self.classes[None, :]).double()

    def logits(self, weights: Float64[Tensor, " connections"]) -> Float64[Tensor, "images classes"]:
        """Of the images."""
        addends = self.columns * weights
        return addends.new_zeros(len(addends), self.num_classes).index_add(1, self.classes, addends)

    def loss(self, weights: Float64[Tensor, " connections"]) -> float:
        """L(w)."""
        return float(F.cross_entropy(self.logits(weights), self.labels) + self.l2 * weights.square().sum())

    def slope(
        self, weights: Float64[Tensor, " connections"]
    ) -> tuple[Float64[Tensor, " connections"], Float64[Tensor, "connections connections"]]:
        """The gradient and the Hessian of L."""
        shares = self.logits(weights).softmax(dim=1)[:, self.classes]  # of each connection's class
        gradient = (self.columns * (shares - self.own)).mean(dim=0) + 2 * self.l2 * weights
        weighted = self.columns * shares
        together = self.columns.T @ weighted  # only where both are of one class
        same = self.classes[:, None] == self.classes[None, :]
        hessian = (torch.where(same, together, 0.0) - weighted.T @ weighted) / len(self.labels)
        return gradient, hessian + 2 * self.l2 * torch.eye(len(weights), dtype=torch.float64)

    def optimum(self) -> Optimum:
        """Refits the head, from the weights that it has.

        Raises:
            NoEdit: if Newton's method does not arrive.
        """
        weights = self.start.clone()
        loss = self.loss(weights)
        for _ in range(_STEPS):
            gradient, hessian = self.slope(weights)
            if float(gradient.abs().max()) < _LARGEST_GRADIENT:
                return Optimum(weights, hessian, loss, float(gradient.abs().max()), self)
            step = torch.cholesky_solve(gradient[:, None], torch.linalg.cholesky(hessian))[:, 0]
            # The loss is convex: a whole step may go too far, a small one never does.
            for halving in range(_HALVINGS):
                proposed = weights - step / 2**halving
                if (lower := self.loss(proposed)) < loss or halving == _HALVINGS - 1:
                    weights, loss = proposed, lower
                    break
        raise NoEdit(f"the head could not be refitted: its largest gradient is still {gradient.abs().max():.1e}")


def edited_weights(
    optimum: Optimum,
    removed: Int64[Tensor, " _some"],
    required: Int64[Tensor, " _required"],
    least: Float64[Tensor, " _required"],
) -> ClosedForm:
    """The weights of the quadratic model without some connections and with others of at least some weight.

    Args:
        optimum: of the head.
        removed: numbers of connections that become 0.
        required: numbers of connections that get at least a weight; none of them removed.
        least: those weights.
    """
    weights, factor = optimum.weights, torch.linalg.cholesky(optimum.hessian)
    held = torch.cat([removed, required])
    # Columns of H^-1 of what is held, from which everything else follows.
    unit = torch.zeros(len(weights), len(held), dtype=torch.float64)
    unit[held, torch.arange(len(held))] = 1.0
    inverse = torch.cholesky_solve(unit, factor)
    count = len(removed)
    without, change = weights, torch.zeros_like(weights)
    curve = inverse[held]  # H^-1 of what is held
    if count:
        multipliers = torch.linalg.solve(curve[:count, :count], weights[removed])
        change = -inverse[:, :count] @ multipliers
        without = weights + change
    if len(required):
        # H^-1 of the weights that are left, by the Schur complement of what was removed.
        left = curve[count:, count:]
        across = inverse[:, count:]
        if count:
            taken = torch.linalg.solve(curve[:count, :count], curve[:count, count:])
            left = left - curve[count:, :count] @ taken
            across = across - inverse[:, :count] @ taken
        change = change + across @ torch.from_numpy(_raised(left.numpy(), (least - without[required]).numpy()))
    new = weights + change
    new[removed] = 0.0
    new[required] = new[required].clamp(min=least)
    difference = new - weights
    estimated = float(difference @ optimum.hessian @ difference) / 2
    return ClosedForm(new, estimated, optimum.problem.loss(new) - optimum.loss)


def _raised(inverse: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Multipliers x >= 0 with the smallest 1/2 x^T G x - x^T missing: weights then rise by G x, to their bounds."""
    lower = np.linalg.cholesky(inverse)
    target = np.linalg.solve(lower, missing)
    multipliers: np.ndarray = nnls(lower.T, target)[0]
    return multipliers
