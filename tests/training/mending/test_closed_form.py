"""The closed form against really refitting, with NumPy and SciPy and no code of ours."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, minimize

from pixpnet.parts import Connections, NoEdit
from pixpnet.training.mending.closed_form import MOST_CONNECTIONS, HeadProblem, Optimum, edited_weights

L2 = 0.05


class Case:
    """Random scores of prototypes with one class each, and their loss in NumPy."""

    def __init__(self, seed: int, images: int = 40, classes: int = 3, per_class: int = 3) -> None:
        generator = np.random.default_rng(seed)
        self.labels = generator.integers(0, classes, images)
        self.owner = np.repeat(np.arange(classes), per_class)
        own = (self.labels[:, None] == self.owner).astype(float)
        self.scores = generator.uniform(0, 2, (images, len(self.owner))) + own
        self.classes = classes

    def loss(self, weights: np.ndarray) -> float:
        logits = np.zeros((len(self.labels), self.classes))
        for connection, label in enumerate(self.owner):
            logits[:, label] += weights[connection] * self.scores[:, connection]
        log_sums = np.log(np.exp(logits).sum(axis=1))
        return float((log_sums - logits[np.arange(len(logits)), self.labels]).mean() + L2 * (weights**2).sum())

    def refitted(self, zero: list[int]) -> np.ndarray:
        """The true optimum with some weights held at 0, by a method that knows no Hessian of ours."""
        free = [number for number in range(len(self.owner)) if number not in zero]

        def of_free(values: np.ndarray) -> float:
            weights = np.zeros(len(self.owner))
            weights[free] = values
            return self.loss(weights)

        weights = np.zeros(len(self.owner))
        weights[free] = minimize(of_free, np.ones(len(free)), method="BFGS", options={"gtol": 1e-9}).x
        return weights

    def optimum(self) -> Optimum:
        owner = torch.from_numpy(self.owner)
        connections = Connections(owner, torch.arange(len(owner)), torch.ones(len(owner), dtype=torch.float64))
        scores, labels = torch.from_numpy(self.scores), torch.from_numpy(self.labels)
        return HeadProblem(scores, labels, connections, self.classes, L2).optimum()


def numbers(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


NOTHING = torch.zeros(0, dtype=torch.float64)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_optimum_is_where_scipy_finds_it_and_the_hessian_is_that_of_the_loss(seed: int) -> None:
    case = Case(seed)
    optimum = case.optimum()
    assert optimum.gradient < 1e-6
    assert np.allclose(optimum.weights.numpy(), case.refitted([]), atol=1e-4)
    assert optimum.loss == pytest.approx(case.loss(optimum.weights.numpy()))
    step, at = 1e-4, optimum.weights.numpy()
    for row, col in ((0, 0), (0, 1), (2, 7), (8, 8)):
        rise = np.zeros((2, len(at)))
        rise[0, row], rise[1, col] = step, step
        ends = [case.loss(at + a * rise[0] + b * rise[1]) for a in (1, -1) for b in (1, -1)]
        finite = (ends[0] - ends[1] - ends[2] + ends[3]) / (4 * step**2)
        assert float(optimum.hessian[row, col]) == pytest.approx(finite, abs=1e-5)


@pytest.mark.parametrize("removed", [[0], [4, 5], [0, 3, 6]])
def test_removing_in_closed_form_is_the_minimum_of_the_quadratic_model(removed: list[int]) -> None:
    optimum = Case(2).optimum()
    result = edited_weights(optimum, numbers(*removed), numbers(), NOTHING)
    hessian, best = optimum.hessian.numpy(), optimum.weights.numpy()
    # By eliminating the free weights, not by the inverse that the code uses.
    free = [number for number in range(len(best)) if number not in removed]
    held = -best[removed]
    moved = -np.linalg.solve(hessian[np.ix_(free, free)], hessian[np.ix_(free, removed)] @ held)
    expected = np.zeros(len(best))
    expected[free] = best[free] + moved
    assert np.allclose(result.weights.numpy(), expected, atol=1e-10)
    change = expected - best
    assert result.estimated_cost == pytest.approx(change @ hessian @ change / 2)
    inverse = np.linalg.inv(hessian)[np.ix_(removed, removed)]
    assert result.estimated_cost == pytest.approx(best[removed] @ np.linalg.inv(inverse) @ best[removed] / 2)
    assert (result.weights[removed] == 0).all()


@pytest.mark.parametrize("removed", [[0], [4, 5]])
def test_the_closed_form_is_near_really_refitting_and_its_true_cost_is_the_loss_of_its_weights(
    removed: list[int],
) -> None:
    case = Case(3, images=200)
    optimum = case.optimum()
    result = edited_weights(optimum, numbers(*removed), numbers(), NOTHING)
    refitted = case.refitted(removed)
    loss_there, loss_before = case.loss(refitted), case.loss(optimum.weights.numpy())
    assert result.true_cost == pytest.approx(case.loss(result.weights.numpy()) - loss_before, abs=1e-10)
    # Refitting is the best that can be done, and the closed form comes within a tenth of what removal costs.
    assert loss_there <= case.loss(result.weights.numpy()) + 1e-10
    assert result.true_cost <= 1.1 * (loss_there - loss_before) + 1e-6
    assert result.estimated_cost == pytest.approx(loss_there - loss_before, rel=0.35)


@settings(max_examples=25)
@given(st.integers(0, 1000), st.lists(st.floats(0.05, 3.0), min_size=1, max_size=3))
def test_requiring_weights_solves_the_quadratic_program(seed: int, least: list[float]) -> None:
    optimum = Case(seed % 7).optimum()
    generator = np.random.default_rng(seed)
    chosen = generator.permutation(9)
    required, removed = chosen[: len(least)], chosen[len(least) : len(least) + 1]
    bounds = torch.tensor(least, dtype=torch.float64)
    result = edited_weights(optimum, numbers(*removed), numbers(*required), bounds).weights.numpy()
    assert (result[required] >= np.array(least) - 1e-9).all()
    assert (result[removed] == 0).all()
    hessian, best = optimum.hessian.numpy(), optimum.weights.numpy()

    def cost(weights: np.ndarray) -> float:
        return float((weights - best) @ hessian @ (weights - best))

    lower, upper = np.full(9, -np.inf), np.full(9, np.inf)
    lower[required], lower[removed], upper[removed] = least, 0.0, 0.0
    other = minimize(
        cost,
        np.clip(best, lower, upper),
        jac=lambda weights: 2 * hessian @ (weights - best),
        bounds=Bounds(lower, upper),
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert cost(result) <= other.fun + 1e-7


def test_what_is_required_less_than_it_has_stays_as_it_is() -> None:
    optimum = Case(0).optimum()
    largest = int(optimum.weights.argmax())
    bound = optimum.weights[largest : largest + 1] / 2
    result = edited_weights(optimum, numbers(), numbers(largest), bound)
    assert torch.allclose(result.weights, optimum.weights)
    assert result.estimated_cost == pytest.approx(0.0, abs=1e-12)


def test_a_head_of_too_many_weights_is_refused_with_a_sentence() -> None:
    count = MOST_CONNECTIONS + 1
    connections = Connections(torch.zeros(count, dtype=torch.int64), torch.arange(count), torch.ones(count).double())
    with pytest.raises(NoEdit, match="at most 4096 weights, and this one has 4097"):
        HeadProblem(torch.zeros(1, count).double(), torch.tensor([0]), connections, 2, L2)
