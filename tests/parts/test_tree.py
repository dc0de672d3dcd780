"""The tree: against an independent NumPy version that walks node by node, laws of trees, and numbers at their ends."""

import math
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pixpnet.parts import L2, BinaryTree, Comparison, Nearest, Negated, TreeDecision, TreeOwnership
from pixpnet.parts.tree import leaf_update, log_not, negative_log_likelihood_loss

Numbers = Any
CLASSES = 5


def decision_of(depth: int, seed: int = 0, inference: Any = "soft", dtype: torch.dtype = torch.float64) -> TreeDecision:
    decision = TreeDecision(CLASSES, BinaryTree.complete(depth), inference).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    decision.knowledge.copy_(3 * torch.rand(decision.knowledge.shape, generator=generator))
    return decision


def scores_of(images: int, nodes: int, seed: int = 1) -> Tensor:
    return -3 * torch.rand(images, nodes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# The formulas, written down once more without torch ------------------------------------------------------------------


def softmax(theta: Numbers) -> Numbers:
    raised = np.exp(theta - theta.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def reached(distances: Numbers, node: int, nodes: int, arrives: float, weights: dict[int, float]) -> None:
    """Heap order: what follows node n are 2n + 1 (not found) and 2n + 2 (found); the rest are leaves."""
    if node >= nodes:
        weights[node - nodes] = arrives
        return
    result = math.exp(-distances[node])
    reached(distances, 2 * node + 1, nodes, arrives * (1 - result), weights)
    reached(distances, 2 * node + 2, nodes, arrives * result, weights)


def leaf_weights(distances: Numbers) -> Numbers:
    weights: dict[int, float] = {}
    reached(distances, 0, len(distances), 1.0, weights)
    return np.array([weights[leaf] for leaf in range(len(distances) + 1)])


def numpy_answer(distances: Numbers, theta: Numbers) -> Numbers:
    return leaf_weights(distances) @ softmax(theta)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_soft_answers_are_the_published_sum_over_leaves(depth: int) -> None:
    decision = decision_of(depth)
    scores = scores_of(7, 2**depth - 1)
    expected = [numpy_answer(-row.numpy(), decision.knowledge.numpy()) for row in scores]
    np.testing.assert_allclose(decision.logits(scores).exp().numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(decision.logits(scores).softmax(dim=1).numpy(), expected, rtol=1e-12)


def test_gradients_are_those_of_finite_differences_of_the_numpy_version() -> None:
    decision, scores = decision_of(3), scores_of(2, 7).requires_grad_()
    labels = torch.tensor([1, 4])
    loss = negative_log_likelihood_loss(decision.logits(scores), labels)
    (gradient,) = torch.autograd.grad(loss, scores)

    def numpy_loss(values: Numbers) -> float:
        answers = [numpy_answer(-row, decision.knowledge.numpy()) for row in values]
        return -float(
            np.mean([math.log(answer[label]) for answer, label in zip(answers, labels.tolist(), strict=True)])
        )

    base, small = scores.detach().numpy(), 1e-6
    for position in np.ndindex(*base.shape):
        up, down = base.copy(), base.copy()
        up[position] += small
        down[position] -= small
        slope = (numpy_loss(up) - numpy_loss(down)) / (2 * small)
        assert float(gradient[position]) == pytest.approx(slope, rel=1e-6, abs=1e-9)


def test_the_path_of_the_root_has_probability_one() -> None:
    """A published implementation begins with 1 in log space, which makes every weight e times too large."""
    decision = decision_of(4)
    weights = decision.log_weights(scores_of(9, 15)).exp().sum(dim=1)
    np.testing.assert_allclose(weights.numpy(), 1.0, rtol=1e-12)


def test_leaves_learn_as_published() -> None:
    decision, scores = decision_of(3), scores_of(6, 7)
    labels = torch.tensor([0, 1, 1, 4, 2, 0])
    theta, old, steps = decision.knowledge.numpy().copy(), decision.knowledge.numpy() * 0.7, 5
    added = np.zeros_like(theta)
    for row, label in zip(scores.numpy(), labels.tolist(), strict=True):
        weights, known = leaf_weights(-row), softmax(theta)
        added[:, label] += weights * known[:, label] / (weights @ known)[label]
    expected = np.maximum(theta - old / steps, 0) + added
    result = leaf_update(decision.knowledge, torch.from_numpy(old), steps, decision.credit(scores, labels))
    # `credit` computes in float32, as networks do.
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5)


def test_each_image_adds_one_to_the_leaves_in_all() -> None:
    decision, scores = decision_of(4), scores_of(11, 15)
    added = decision.credit(scores, torch.arange(11) % CLASSES)
    assert float(added.sum()) == pytest.approx(11, rel=1e-5)


def test_certain_leaves_and_certain_turns_give_finite_answers_and_updates() -> None:
    """Leaves that saw thousands of images of one class give others e^-5000; prototypes are found at distance 0."""
    decision = TreeDecision(3, BinaryTree.complete(2))
    decision.knowledge.zero_()
    decision.knowledge[:, 0] = 5000.0
    scores = torch.tensor([[0.0, -200.0, 0.0], [-1e-30, 0.0, -1e4]], requires_grad=True)
    logits = decision.logits(scores)
    assert logits.isfinite().all()
    (gradient,) = torch.autograd.grad(logits[:, 1].sum(), scores)
    assert gradient.isfinite().all()
    added = decision.credit(scores.detach(), torch.tensor([1, 2]))
    assert added.isfinite().all()
    assert float(added.sum()) == pytest.approx(2.0)


@given(st.floats(1e-7, 700.0))
def test_the_log_of_not_finding_is_right_at_both_ends(distance: float) -> None:
    with mpmath.workdps(400):
        exact = float(mpmath.log(1 - mpmath.exp(-mpmath.mpf(distance))))
    assert float(log_not(torch.tensor(distance, dtype=torch.float64))) == pytest.approx(exact, rel=1e-9, abs=1e-300)


# Readings --------------------------------------------------------------------------------------------------------


def test_readings_are_those_of_walking_down_the_tree() -> None:
    decision, scores = decision_of(4, seed=3), scores_of(50, 15, seed=4)
    theta = decision.knowledge.numpy()
    readings = {name: answers.tolist() for name, answers in decision.readings(scores).items()}
    assert set(readings) == {"sample_max", "greedy"}
    readings["soft"] = decision.logits(scores).argmax(dim=1).tolist()
    for image, row in enumerate(scores.numpy()):
        weights = leaf_weights(-row)
        node = 0
        while node < 15:
            node = 2 * node + 2 if math.exp(row[node]) > 0.5 else 2 * node + 1
        assert readings["soft"][image] == int((weights @ softmax(theta)).argmax())
        assert readings["sample_max"][image] == int(theta[weights.argmax()].argmax())
        assert readings["greedy"][image] == int(theta[node - 15].argmax())
    assert readings["soft"] != readings["greedy"]


@pytest.mark.parametrize("inference", ["soft", "sample_max", "greedy"])
def test_a_trees_answer_is_what_other_trees_call_the_reading_of_its_name(inference: str) -> None:
    scores = scores_of(40, 15)
    own = decision_of(4, inference=inference)
    assert inference not in own.readings(scores)
    for other in {"soft", "sample_max", "greedy"} - {inference}:
        readings = decision_of(4, inference=other).readings(scores)
        assert torch.equal(own.logits(scores).argmax(dim=1), readings[inference])


@pytest.mark.parametrize("inference", ["soft", "sample_max", "greedy"])
def test_reasons_come_to_the_logits_by_walking(inference: str) -> None:
    decision, scores = decision_of(4, inference=inference), scores_of(20, 15)
    logits = decision.logits(scores)
    for row, expected in zip(scores, logits, strict=True):
        reasons = decision.reasons(row, range(CLASSES))
        torch.testing.assert_close(reasons.logits(row), expected)
        for label, route in enumerate(reasons.routes):
            assert sum(route.log_probabilities) == pytest.approx(
                math.log(leaf_weights(-row.numpy())[route.leaf]), rel=1e-9
            )
            known = softmax(decision.knowledge.numpy())[route.leaf]
            assert math.exp(route.log_leaf_probability) == pytest.approx(known[label], rel=1e-9)
            assert route.leaf_label == int(known.argmax())
            assert inference == "soft" or route.weight == 1.0


def test_the_shown_leaf_of_a_class_is_the_one_that_gives_it_most() -> None:
    decision, row = decision_of(4), scores_of(1, 15)[0]
    gives = leaf_weights(-row.numpy())[:, None] * softmax(decision.knowledge.numpy())
    routes = decision.reasons(row, range(CLASSES)).routes
    assert [route.leaf for route in routes] == gives.argmax(axis=0).tolist()


@pytest.mark.parametrize("inference", ["soft", "sample_max", "greedy"])
def test_a_prototype_decides_where_never_finding_it_changes_the_answer(inference: str) -> None:
    decision, scores = decision_of(3, seed=8, inference=inference), scores_of(30, 7, seed=9)
    expected = []
    for row in scores:
        answer = int(decision.logits(row[None]).argmax())
        without = []
        for node in range(7):
            changed = row.clone()
            changed[node] = -1e4  # infinitely far from everything
            without.append(int(decision.logits(changed[None]).argmax()) != answer)
        expected.append(without)
    assert decision.decides(scores).tolist() == expected
    assert any(map(any, expected)) and not all(map(all, expected))


# Shapes ----------------------------------------------------------------------------------------------------------


def grown(depth: int, gone: list[bool]) -> BinaryTree:
    """What is left of a complete tree when leaves go: any binary tree."""
    return BinaryTree.complete(depth).pruned([*gone, *[False] * 16][: 2**depth]).tree


DEPTHS, GONE = st.integers(1, 4), st.lists(st.booleans(), max_size=16)


@given(DEPTHS, GONE)
def test_paths_lead_where_they_say(depth: int, gone: list[bool]) -> None:
    tree = grown(depth, gone)
    assert tree.num_leaves == tree.num_nodes + 1
    for leaf, turns in enumerate(tree.paths):
        position = 0
        for turn in turns:
            assert position == turn.node
            position = tree.children[position][turn.present]
        assert ~position == leaf
    assert sorted(tree.leaves_below(0)) == list(range(tree.num_leaves))


@given(DEPTHS, GONE, st.lists(st.booleans(), min_size=16, max_size=16))
def test_pruning_keeps_the_order_of_questions_and_every_leaf_that_stays(
    depth: int, before_that: list[bool], goes: list[bool]
) -> None:
    tree = grown(depth, before_that)
    gone = goes[: tree.num_leaves]
    pruned = tree.pruned(gone)
    if sum(gone) >= tree.num_leaves - 1:
        assert pruned.tree == tree
        return
    assert pruned.leaves == tuple(leaf for leaf, out in enumerate(gone) if not out)
    for new, old in enumerate(pruned.leaves):
        asked = {pruned.nodes[turn.node]: turn.present for turn in pruned.tree.path_to(new)}
        before = dict(tree.path_to(old))
        # What is still asked was asked before and turns the same way; what is not had nothing on its other side.
        assert asked.items() <= before.items()
        for node in before.keys() - asked.keys():
            other = tree.children[node][not before[node]]
            assert all(gone[leaf] for leaf in tree.leaves_below(other))


def test_the_root_may_go_too() -> None:
    pruned = BinaryTree.complete(2).pruned([True, True, False, False])
    assert pruned.tree == BinaryTree.complete(1)
    assert (pruned.nodes, pruned.leaves) == ((2,), (2, 3))


@pytest.mark.parametrize("children", [(), ((0, -1),), ((1, 1), (-1, -2)), ((-1, -2), (1, -3)), ((-1, -3),)])
def test_what_is_no_tree_is_refused(children: Any) -> None:
    with pytest.raises(ValueError, match="tree"):
        BinaryTree(children)


def test_a_file_with_a_broken_tree_is_refused() -> None:
    decision = decision_of(2)
    state = decision.state_dict()
    state["branches"] = torch.zeros_like(state["branches"])
    with pytest.raises(RuntimeError, match="no tree"):
        decision_of(2).load_state_dict(state)


def test_a_loaded_tree_has_the_shape_of_the_file() -> None:
    tree = BinaryTree.complete(3).pruned([False, True, False, False, True, True, False, False]).tree
    saved = TreeDecision(CLASSES, tree).double()
    saved.knowledge.copy_(torch.rand(saved.knowledge.shape))
    other = TreeDecision(CLASSES, BinaryTree.filled(tree.num_nodes)).double()
    assert other.tree() != tree
    other.load_state_dict(saved.state_dict())
    assert other.tree() == tree
    scores = scores_of(5, tree.num_nodes)
    assert torch.equal(other.logits(scores), saved.logits(scores))


# What others ask -------------------------------------------------------------------------------------------------


def test_explanation_sizes_are_those_of_the_papers_table() -> None:
    """Table 1: 18 and 404 (depth 9, 202 nodes after pruning); Cars: depth 11 and 195 nodes, 22 and 390."""
    gone = [True] * 512
    gone[::4] = [False] * 128  # one of each four leaves, and three more of 25 fours
    for four in range(25):
        gone[4 * four : 4 * four + 4] = [False] * 4
    tree = BinaryTree.complete(9).pruned(gone).tree
    assert (tree.depth, tree.num_nodes) == (9, 202)
    assert TreeDecision(200, tree).size() == (18, 404)


def test_patches_may_come_from_classes_below_a_node_and_are_measured_on_those_behind_found() -> None:
    decision = TreeDecision(4, BinaryTree.complete(2))
    decision.knowledge.copy_(10 * torch.eye(4))
    ownership = TreeOwnership(decision)
    assert not ownership.mask().any()
    assert ownership.labels.tolist() == [-1, -1, -1]
    assert ownership.sources().T.tolist() == [[True] * 4, [True, True, False, False], [False, False, True, True]]
    behind_found = [[False, False, True, True], [False, True, False, False], [False, False, False, True]]
    assert ownership.expected().T.tolist() == behind_found
    assert [ownership.of(label).tolist() for label in range(4)] == [[], [1], [0], [0, 2]]


def test_a_leaf_that_knows_nothing_stands_for_every_class() -> None:
    ownership = TreeOwnership(TreeDecision(4, BinaryTree.complete(2)))
    assert ownership.sources().all()


# The measure -----------------------------------------------------------------------------------------------------


def test_distances_are_plain_not_squared() -> None:
    rng = np.random.default_rng(0)
    cells, prototypes = rng.random((2, 6, 3, 4)), rng.random((5, 6, 1, 1))
    expected = np.sqrt(((cells[:, None] - prototypes[None]) ** 2).sum(axis=2) + 1e-14)
    result = L2().maps(torch.from_numpy(cells), torch.from_numpy(prototypes))
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-10)


def test_distances_have_a_finite_gradient_where_a_patch_is_the_prototype() -> None:
    prototype = torch.rand(1, 6, 1, 1, requires_grad=True)
    distance = L2().maps(prototype.detach(), prototype)
    (gradient,) = torch.autograd.grad(distance.sum(), prototype)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("near", [0.0, 1e-3, 0.1, 1.0])
def test_rounding_stays_within_what_a_proof_allows(near: float) -> None:
    generator = torch.Generator().manual_seed(0)
    prototypes = torch.rand(4, 256, 1, 1, generator=generator)
    cells = (prototypes[:, :, 0, 0].T + near * torch.randn(256, 4, generator=generator) / 16).reshape(1, 256, 2, 2)
    comparison = Comparison(prototypes, L2(), Negated(), Nearest())
    exact = L2().maps(cells.double(), prototypes.double())
    error = (comparison.distance_maps(cells).detach().double() - exact).abs()
    allowed = torch.tensor([comparison.tolerance(float(distance)) for distance in exact.flatten()])
    assert (error.flatten() <= allowed).all()
    assert comparison.tolerance(10.0) < comparison.tolerance(0.1) < comparison.tolerance(0.0) < 0.03
