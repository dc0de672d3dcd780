"""ProtoPool's slots: drawn mixtures while learning, one prototype each when trained."""

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pixpnet.parts import GridMatches, Matches, Nearest, Original, SlotDecision, SlotOwnership, SquaredL2
from pixpnet.parts.comparison import Comparison
from pixpnet.parts.matches import matches_of
from pixpnet.parts.slots import annealed, own_sets, slot_orthogonality_loss
from tests.parts.numerics import Array, gradient, matched, slope

EPSILON = 1e-4


def decision_of(slots: Tensor, temperature: float = 0.5) -> SlotDecision:
    classes, prototypes, count = slots.shape
    decision = SlotDecision(classes, prototypes, count, Original(EPSILON), temperature).to(slots.dtype)
    decision.slots.data = slots.clone()
    return decision


def matches_with(distances: Tensor, background: Tensor) -> Matches:
    """Only what a decision reads; scores are focal ones."""
    similarity = Original(EPSILON)
    scores = similarity(distances) - similarity(background)
    cells = torch.zeros(distances.shape, dtype=torch.int64)
    return matches_of((GridMatches(scores, distances, cells, distances[..., None, None], background),))


def random_matches(seed: int, prototypes: int, batch: int = 3) -> Matches:
    generator = torch.Generator().manual_seed(seed)
    near, more = (torch.rand(batch, prototypes, generator=generator).double() for _ in range(2))
    return matches_with(near, near + more)


# First weights ----------------------------------------------------------------------------------------------------


def test_first_slots_have_the_standard_deviation_of_the_published_ones() -> None:
    torch.manual_seed(0)
    decision = SlotDecision(200, 202, 10, Original(EPSILON))
    assert decision.slots.shape == (200, 202, 10)
    assert decision.slots.std().item() == pytest.approx(0.0223, abs=1e-4)
    assert decision.slots.mean().item() == pytest.approx(0.0, abs=1e-3)


def test_first_weights_are_1_for_the_own_slots_and_0_for_others() -> None:
    decision = SlotDecision(3, 4, 2, Original(EPSILON))
    assert decision.weight.tolist() == [[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]]
    assert decision.off_class().shape == (12,)
    assert not decision.off_class().any()


def test_the_size_of_an_explanation_is_that_of_the_papers_table() -> None:
    assert SlotDecision(200, 202, 10, Original(EPSILON)).size() == (20, 404)
    assert SlotDecision(196, 195, 10, Original(EPSILON)).size() == (20, 390)


# Drawing ----------------------------------------------------------------------------------------------------------


def softmax(values: Array) -> Array:
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def test_a_draw_is_a_softmax_of_scaled_slots_and_gumbel_noise_over_the_temperature() -> None:
    slots = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0)).double()
    decision = decision_of(slots, temperature=0.25)
    decision.scale = 7.0
    torch.manual_seed(1)
    result = decision.draw().detach().numpy()
    torch.manual_seed(1)
    noise = -np.log(torch.empty_like(slots).exponential_().numpy())
    np.testing.assert_allclose(result, softmax((7.0 * slots.numpy() + noise) / 0.25), rtol=1e-8)
    np.testing.assert_allclose(result.sum(axis=1), np.ones((2, 3)))


def test_the_prototype_that_a_draw_prefers_is_distributed_as_the_softmax_says() -> None:
    # The maximum of logits with Gumbel noise is a draw from their softmax: independent of temperature.
    row = torch.tensor([0.5, 0.0, -1.0])
    decision = decision_of(row[None, :, None].expand(1, 3, 40_000).contiguous())
    decision.scale = 2.0
    torch.manual_seed(0)
    chosen = torch.bincount(decision.draw().argmax(dim=1).flatten(), minlength=3) / 40_000
    expected = softmax(2.0 * row.numpy()[None, :, None].astype(np.float64)).flatten()
    np.testing.assert_allclose(chosen.numpy(), expected, atol=0.01)


def test_a_scale_of_0_is_a_plain_softmax_without_noise() -> None:
    slots = torch.randn(2, 4, 3).double()
    decision = decision_of(slots)
    decision.scale = 0.0
    np.testing.assert_allclose(decision.draw().detach().numpy(), softmax(slots.numpy()))


def test_a_large_scale_draws_what_a_slot_holds() -> None:
    torch.manual_seed(0)
    decision = SlotDecision(5, 8, 4, Original(EPSILON))
    decision.slots.data = torch.stack([torch.randperm(8).float() for _ in range(20)]).reshape(5, 4, 8).transpose(1, 2)
    decision.scale = 10_000.0
    assert torch.equal(decision.draw().argmax(dim=1), decision.held())


def test_annealing_rises_as_the_root_of_the_epoch_and_then_stays() -> None:
    scales = [annealed(1000.0, epoch, 30) for epoch in range(1, 61)]
    assert scales[0] == pytest.approx(1000 * math.sqrt(1 / 30))
    assert scales[14] == pytest.approx(1000 * math.sqrt(15 / 30))
    assert scales[29:] == [1000.0] * 31
    assert scales[:30] == sorted(set(scales[:30]))


# Mixtures ---------------------------------------------------------------------------------------------------------


def log1(distance: float) -> float:
    return math.log((distance + 1) / (distance + EPSILON))


def mixed_logits(near: Array, mean: Array, mixture: Array, weight: Array) -> Array:
    """FAMILY's s_ck and the head, in loops."""
    classes, prototypes, slots = mixture.shape
    logits = np.zeros((len(near), classes))
    for n in range(len(near)):
        scores = []
        for c in range(classes):
            for k in range(slots):
                nearest = sum(mixture[c, j, k] * near[n, j] for j in range(prototypes))
                average = sum(mixture[c, j, k] * mean[n, j] for j in range(prototypes))
                scores.append(log1(nearest) - log1(average))
        logits[n] = weight @ np.array(scores)
    return logits


@given(st.integers(0, 10_000))
def test_distances_are_mixed_before_the_similarity_is_taken(seed: int) -> None:
    rng = np.random.default_rng(seed)
    decision = decision_of(torch.from_numpy(rng.normal(size=(3, 5, 2))))
    decision.weight.data = torch.from_numpy(rng.normal(size=(3, 6)))
    matches = random_matches(seed, 5)
    assert matches.background is not None
    mixture = softmax(rng.normal(size=(3, 5, 2)))
    result = decision.mixed(matches, torch.from_numpy(mixture))
    expected = mixed_logits(
        matches.distances.numpy(), matches.background.numpy(), mixture, decision.weight.detach().numpy()
    )
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-8, atol=1e-10)
    # Mixing scores instead would say something else.
    after = torch.einsum("bp,cpk->bck", matches.scores, torch.from_numpy(mixture)).flatten(1) @ decision.weight.T
    assert not torch.allclose(after, result)


def test_gradients_of_mixtures_agree_with_finite_differences() -> None:
    torch.manual_seed(0)
    slots, matches = torch.randn(2, 4, 3).double(), random_matches(5, 4)
    assert matches.background is not None
    background = matches.background
    factors = torch.randn(3, 2).double()
    decision = decision_of(slots)
    decision.weight.data = torch.randn(2, 6).double()
    noise = -torch.empty(2, 4, 3).double().exponential_().log()

    def logits(values: Tensor, distances: Tensor) -> Tensor:
        mixture = ((3 * values + noise) / 0.5).softmax(dim=1)
        return (decision.mixed(matches_with(distances, background), mixture) * factors).sum()

    def of_slots(values: Tensor) -> Tensor:
        return logits(values, matches.distances)

    def of_distances(distances: Tensor) -> Tensor:
        return logits(slots, distances)

    torch.testing.assert_close(gradient(of_slots, slots), slope(of_slots, slots), rtol=1e-5, atol=1e-7)
    result = gradient(of_distances, matches.distances)
    torch.testing.assert_close(result, slope(of_distances, matches.distances), rtol=1e-5, atol=1e-6)


def test_mixtures_need_a_background() -> None:
    comparison = Comparison(torch.rand(4, 3, 1, 1), SquaredL2(), Original(EPSILON), Nearest())
    decision = SlotDecision(2, 4, 2, Original(EPSILON))
    with pytest.raises(ValueError, match="Focal"):
        decision(matched(comparison, torch.rand(1, 3, 2, 2)))


# A trained network --------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000))
def test_a_trained_network_answers_as_if_each_slot_were_its_prototype_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    decision = decision_of(torch.from_numpy(rng.normal(size=(3, 4, 5)))).eval()
    decision.weight.data = torch.from_numpy(rng.normal(size=(3, 15)))
    matches = random_matches(seed, 4)
    assert matches.background is not None
    alone = np.zeros((3, 4, 5))
    for c, k in np.ndindex(3, 5):
        alone[c, int(np.argmax(decision.slots.detach().numpy()[c, :, k])), k] = 1
    expected = mixed_logits(
        matches.distances.numpy(), matches.background.numpy(), alone, decision.weight.detach().numpy()
    )
    np.testing.assert_allclose(decision(matches).detach().numpy(), expected, rtol=1e-8, atol=1e-8)
    reasons = decision.reasons(matches.scores[0], [2, 0])
    added = reasons.weights @ matches.scores[0] + reasons.constant
    torch.testing.assert_close(added, decision(matches)[0, [2, 0]])


def test_slots_that_hold_the_same_prototype_add_their_weights_and_what_nobody_holds_has_none() -> None:
    slots = torch.zeros(2, 4, 2)
    slots[0, 1] = 1.0  # both slots of class 0
    slots[1, 1, 0] = 1.0
    slots[1, 3, 1] = 1.0
    decision = decision_of(slots)
    decision.weight.data = torch.tensor([[1.0, 2.0, 4.0, 8.0], [0.5, 0.25, -1.0, 3.0]])
    assert decision.weights().tolist() == [[0.0, 7.0, 0.0, 8.0], [0.0, -0.25, 0.0, 3.0]]
    assert decision.uses(0.0).tolist() == [False, True, False, True]


def test_evaluation_has_no_noise_and_learning_has() -> None:
    torch.manual_seed(0)
    decision, matches = SlotDecision(2, 4, 3, Original(EPSILON)).double(), random_matches(0, 4)
    decision.scale = 100.0
    decision.train()
    torch.manual_seed(1)
    first, second = decision(matches), decision(matches)
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    assert torch.equal(decision(matches), first)
    decision.eval()
    state = torch.get_rng_state()
    assert torch.equal(decision(matches), decision(matches))
    assert torch.equal(torch.get_rng_state(), state)


# Ownership ----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000))
def test_a_class_owns_what_its_slots_hold(seed: int) -> None:
    rng = np.random.default_rng(seed)
    slots = rng.normal(size=(3, 6, 2))
    ownership = SlotOwnership(decision_of(torch.from_numpy(slots)))
    holds = [{int(np.argmax(slots[c, :, k])) for k in range(2)} for c in range(3)]
    for prototype in range(6):
        owners = tuple(c for c in range(3) if prototype in holds[c])
        assert ownership.owners(prototype) == owners
        assert ownership.owners_of([prototype, prototype]) == [owners, owners]
        assert int(ownership.labels[prototype]) == (owners[0] if owners else -1)
        # Whoever holds it gives it a patch; where nobody does, anybody.
        sources = set(ownership.sources()[:, prototype].nonzero().flatten().tolist())
        assert sources == (set(owners) or {0, 1, 2})
    assert [set(ownership.of(c).tolist()) for c in range(3)] == holds


def test_rivals_name_every_prototype_once() -> None:
    ownership = SlotOwnership(SlotDecision(3, 7, 2, Original(EPSILON)))
    assert sorted(torch.cat(ownership.rivals()).tolist()) == list(range(7))


def test_ownership_follows_the_slots_of_its_own_network_and_adds_nothing_to_files() -> None:
    module = torch.nn.Module()
    module.head = SlotDecision(2, 3, 1, Original(EPSILON))
    module.ownership = SlotOwnership(module.head)
    assert list(module.ownership.state_dict()) == []
    assert sorted(module.state_dict()) == ["head.slots", "head.weight"]
    copied = copy.deepcopy(module)
    copied.head.slots.data = torch.tensor([[[0.0], [0.0], [1.0]], [[0.0], [0.0], [1.0]]])
    module.head.slots.data = torch.tensor([[[1.0], [0.0], [0.0]], [[1.0], [0.0], [0.0]]])
    assert copied.ownership.labels.tolist() == [-1, -1, 0]
    assert module.ownership.labels.tolist() == [0, -1, -1]


# The own set of an image ----------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.sampled_from([0, 1, 2]))
def test_the_own_set_are_the_largest_shares_and_the_rest_is_its_complement(seed: int, digits: int) -> None:
    # Rounded shares are often equal: the choice among equals is free, but not how many there are.
    mixture = softmax(np.random.default_rng(seed).normal(size=(3, 6, 2))).round(digits)
    labels = torch.tensor([2, 0, 0, 1])
    own = own_sets(torch.from_numpy(mixture), labels)
    assert own.sum(dim=1).tolist() == [2] * 4
    for row, label in zip(own.numpy(), labels.tolist(), strict=True):
        shares = mixture[label].sum(axis=1)
        assert shares[row].min() >= shares[~row].max()
        assert row.sum() + (~row).sum() == 6


def test_no_gradient_flows_through_the_choice() -> None:
    mixture = torch.rand(2, 4, 2, requires_grad=True)
    assert not own_sets(mixture, torch.tensor([0])).requires_grad


# Orthogonality ------------------------------------------------------------------------------------------------------


def orth(slots: Array) -> float:
    """As FAMILY writes it, in loops."""
    classes, _, count = slots.shape
    total = 0.0
    for c in range(classes):
        for a in range(count):
            for b in range(count):
                one, other = slots[c, :, a], slots[c, :, b]
                total += one @ other / math.sqrt((one @ one) * (other @ other))
    return total / (count * classes) - 1


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 5))
def test_orthogonality_is_the_mean_of_the_cosines_of_slots(seed: int, classes: int, count: int) -> None:
    slots = np.random.default_rng(seed).normal(size=(classes, 6, count))
    result = float(slot_orthogonality_loss(torch.from_numpy(slots)))
    assert result == pytest.approx(orth(slots), abs=1e-9)
    assert -1 - 1e-9 <= result <= count - 1 + 1e-9


def test_its_gradient_agrees_with_finite_differences() -> None:
    torch.manual_seed(0)
    slots = torch.randn(2, 4, 3).double()
    result = gradient(slot_orthogonality_loss, slots)
    torch.testing.assert_close(result, slope(slot_orthogonality_loss, slots), rtol=1e-6, atol=1e-8)


def test_slots_for_different_prototypes_cost_nothing() -> None:
    assert float(slot_orthogonality_loss(torch.eye(5)[None, :, :3])) == pytest.approx(0.0)
