"""Eqs. 2-4 on numbers that can be checked by hand."""

from dataclasses import replace
from functools import cache, partial
from math import exp, log

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.members.pixpnet import MEMBER, Losses, PixPNetConfig
from pixpnet.model import PixPNet
from pixpnet.parts import GridMatches, LossParts, LossTerm, Step, loss_of
from pixpnet.parts.losses import cluster_loss, leave_one_out, separation_loss
from pixpnet.parts.matches import matches_of
from tests.training.material import small_model

LABELS = torch.tensor([0, 1])
# Prototypes of classes 0, 0, 1 and 1.
OWN = torch.tensor([[True, True, False, False], [False, False, True, True]])
# Own nearest: 0.25 and 0.375. Nearest of another class: 0.75 and 0.5.
DISTANCES = torch.tensor([[0.5, 0.25, 1.0, 0.75], [0.5, 0.625, 0.375, 2.0]])
CLUSTER, SEPARATION = (0.25 + 0.375) / 2, -(0.75 + 0.5) / 2


def step_of(
    model: PixPNet,
    distances: torch.Tensor,
    labels: torch.Tensor,
    logits: torch.Tensor | None = None,
    scores: torch.Tensor | None = None,
) -> Step:
    """A batch of such distances, on grids of one cell."""
    cells = torch.zeros(distances.shape, dtype=torch.int64)
    scores = torch.zeros_like(distances) if scores is None else scores
    matches = matches_of((GridMatches(scores, distances, cells, distances[:, :, None, None]),))
    logits = model.head(matches) if logits is None else logits
    return Step(logits, labels, model.parts, matches, (torch.zeros(len(labels), 5, 1, 1),))


def terms_of(weights: Losses, model: PixPNet) -> tuple[LossTerm, ...]:
    """What a PixPNet learns by, with such weights."""
    replacement = replace(PixPNetConfig().replacement, head_epochs=1)
    return MEMBER.stages(PixPNetConfig(model.architecture, weights, replacement=replacement))[-1].losses


def loss_with(weights: Losses, head: str = "class_sum") -> tuple[LossParts, torch.Tensor, torch.Tensor, PixPNet]:
    model = small_model(prototypes_per_class=2, head=head, own_weight=1.0, other_weight=-0.5)
    distances = DISTANCES.clone().requires_grad_()
    logits = torch.tensor([[1.0, 0.0], [3.0, 1.0]]).requires_grad_()
    loss = loss_of(step_of(model, distances, LABELS, logits), terms_of(weights, model))
    return loss, distances, logits, model


def test_the_cluster_loss_is_the_mean_distance_to_the_nearest_own_prototype() -> None:
    assert float(cluster_loss(DISTANCES, OWN)) == CLUSTER


def test_the_separation_loss_is_minus_the_mean_distance_to_the_nearest_other_prototype() -> None:
    assert float(separation_loss(DISTANCES, OWN)) == SEPARATION < 0


@given(st.integers(1, 9))
def test_losses_are_averaged_once_so_that_a_repeated_batch_changes_nothing(times: int) -> None:
    many = DISTANCES.repeat(times, 1), OWN.repeat(times, 1)
    assert float(cluster_loss(*many)) == pytest.approx(CLUSTER)
    assert float(separation_loss(*many)) == pytest.approx(SEPARATION)


def test_the_total_is_the_weighted_sum_of_equation_2() -> None:
    weights = Losses(cluster_weight=0.8, separation_weight=0.08)
    loss = loss_with(weights)[0]
    # -log softmax of the right logit: 1 against 0, and 1 against 3.
    cross_entropy = (log(1 + exp(-1)) + log(1 + exp(2))) / 2
    assert float(loss.terms["cross_entropy"]) == pytest.approx(cross_entropy)
    assert float(loss.total.detach()) == pytest.approx(cross_entropy + 0.8 * CLUSTER + 0.08 * SEPARATION)


def test_the_cluster_loss_pulls_on_the_nearest_own_prototype_alone_and_separation_pushes_the_other() -> None:
    loss, distances, _, _ = loss_with(Losses(cluster_weight=2.0, separation_weight=4.0))
    loss.total.backward()
    assert distances.grad is not None
    assert distances.grad.tolist() == [[0, 1, 0, -2], [-2, 0, 1, 0]]


def test_terms_of_weight_0_have_no_part_in_the_gradient() -> None:
    loss, distances, logits, _ = loss_with(Losses())
    loss.total.backward()
    assert distances.grad is None
    assert logits.grad is not None
    assert torch.equal(loss.total.detach(), loss.terms["cross_entropy"])
    assert float(loss.terms["cluster"]) == CLUSTER
    assert float(loss.terms["separation"]) == SEPARATION


def test_the_l1_term_counts_only_weights_between_prototypes_and_other_classes() -> None:
    loss, _, _, model = loss_with(Losses(off_class_l1=0.01), head="linear")
    # 2 classes x 4 prototypes: 4 weights across of -0.5 each.
    assert float((loss.total - loss.terms["cross_entropy"]).detach()) == pytest.approx(0.01 * 4 * 0.5)
    loss.total.backward()
    gradient = model.head.weight.grad
    assert gradient is not None
    assert torch.allclose(gradient, torch.tensor([[0, 0, -0.01, -0.01], [-0.01, -0.01, 0, 0]]))


@pytest.mark.parametrize("head", ["class_sum", "own_class"])
def test_a_head_without_weights_across_has_no_l1_term(head: str) -> None:
    loss = loss_with(Losses(off_class_l1=1.0), head)[0]
    assert torch.equal(loss.total.detach(), loss.terms["cross_entropy"])


# Prototypes that come from the image itself ---------------------------------------------------------------------

# Two classes of three prototypes; images of class 0, 0, 1 and 1.
SHOWN = torch.tensor([0, 0, 1, 1])
SCORES = torch.tensor(
    [[1.0, 2.0, 9.0, 4.0, 5.0, 6.0], [1.0, 2.0, 9.0, 4.0, 5.0, 6.0], [3.0, 3.0, 3.0, 4.0, 8.0, 7.0], [1, 2, 3, 4, 5, 6]]
)
FAR = torch.tensor(
    [
        [0.5, 0.25, 0.0, 1.0, 0.75, 2.0],
        [0.5, 0.25, 0.0, 1.0, 0.75, 2.0],
        [0.625, 1.0, 2.0, 0.375, 0.0, 0.125],
        [0.875, 1.0, 2.0, 0.0, 0.5, 0.25],
    ]
)
# Gave the third prototype; gave none; gave the fifth and sixth; gave all of its class.
FROM_IT = torch.tensor([[0, 0, 1, 0, 0, 0], [0] * 6, [0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1]], dtype=torch.bool)


three_each = cache(partial(small_model, prototypes_per_class=3))


def left_out(
    scores: torch.Tensor = SCORES, distances: torch.Tensor = FAR, from_it: torch.Tensor = FROM_IT
) -> tuple[Step, PixPNet]:
    model = three_each()
    return leave_one_out(step_of(model, distances, SHOWN, scores=scores), from_it), model


def test_a_score_of_a_prototype_from_the_image_itself_becomes_the_mean_of_the_others_of_the_class() -> None:
    step, _ = left_out()
    assert step.required_matches.scores.tolist() == [
        [1, 2, 1.5, 4, 5, 6],  # (1 + 2) / 2
        [1, 2, 9, 4, 5, 6],
        [3, 3, 3, 4, 4, 4],  # one is left
        [1, 2, 3, 4, 5, 6],  # none is left
    ]
    assert step.logits.tolist() == [[4.5, 15], [12, 15], [9, 12], [6, 15]]


def test_prototypes_from_the_image_itself_do_not_enter_the_cluster_loss_and_leave_separation_alone() -> None:
    step, model = left_out()
    parts = loss_of(step, terms_of(Losses(cluster_weight=1.0), model))
    # Own nearest: 0.25 without the third, 0 with it, 0.375 without fifth and sixth; 0 where none would be left.
    assert float(parts.terms["cluster"]) == (0.25 + 0.0 + 0.375 + 0.0) / 4
    assert float(parts.terms["separation"]) == -(0.75 + 0.75 + 0.625 + 0.875) / 4
    assert float(parts.total) == pytest.approx(float(parts.terms["cross_entropy"]) + 0.25 * 0.625)


@given(
    scores=st.lists(st.floats(0, 14, width=32), min_size=3, max_size=3),
    distances=st.lists(st.floats(0, 2, width=32), min_size=3, max_size=3),
)
def test_the_answer_and_the_loss_do_not_depend_on_what_is_hidden(scores: list[float], distances: list[float]) -> None:
    places = [0, 2, 2], [2, 4, 5]
    other_scores, other_distances = SCORES.clone(), FAR.clone()
    other_scores[places], other_distances[places] = torch.tensor(scores), torch.tensor(distances)
    (one, model), (two, _) = left_out(), left_out(other_scores, other_distances)
    assert torch.equal(one.logits, two.logits)
    terms = terms_of(Losses(cluster_weight=0.8, separation_weight=0.08), model)
    assert torch.equal(loss_of(one, terms).total, loss_of(two, terms).total)


def test_what_is_hidden_gets_no_gradient_and_the_others_share_it() -> None:
    scores, distances = SCORES.clone().requires_grad_(), FAR.clone().requires_grad_()
    step, _ = left_out(scores, distances)
    step.logits.sum().backward()
    # A sum of three of which one is the mean of two: each counts one and a half times.
    assert scores.grad is not None
    assert scores.grad.tolist() == [[1.5, 1.5, 0, 1, 1, 1], [1] * 6, [1, 1, 1, 3, 0, 0], [1] * 6]
    cluster_loss(step.distances, step.own).backward()
    assert distances.grad is not None
    assert distances.grad[FROM_IT & (SHOWN != 1)[:, None]].abs().sum() == 0
    assert distances.grad[[0, 2], [1, 3]].tolist() == [0.25, 0.25]


def test_images_that_gave_no_prototype_are_answered_as_ever() -> None:
    step, model = left_out(from_it=torch.zeros_like(FROM_IT))
    assert torch.equal(step.required_matches.scores, SCORES)
    assert torch.equal(step.distances, FAR)
    assert torch.equal(step.logits, model.head.logits(SCORES))


def test_hiding_needs_no_more_than_the_scores_so_a_head_with_weights_sees_the_mean_too() -> None:
    model = small_model(prototypes_per_class=3, head="linear", own_weight=1.0, other_weight=-0.5)
    logits = leave_one_out(step_of(model, FAR, SHOWN, scores=SCORES), FROM_IT).logits
    # Sums of the classes as above; the other class counts minus a half.
    assert logits.tolist() == [[4.5 - 7.5, 15 - 2.25], [12 - 7.5, 15 - 6], [9 - 6, 12 - 4.5], [6 - 7.5, 15 - 3]]
