"""Eqs. 2-4 on numbers that can be checked by hand."""

from math import exp, log

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.model import Matches, Output, PixPNet
from pixpnet.recipe import Losses
from pixpnet.training.losses import LossParts, cluster_loss, loss_of, separation_loss
from tests.training.material import small_model

CLASSES = torch.tensor([0, 0, 1, 1])
LABELS = torch.tensor([0, 1])
# Own nearest: 0.25 and 0.375. Nearest of another class: 0.75 and 0.5.
DISTANCES = torch.tensor([[0.5, 0.25, 1.0, 0.75], [0.5, 0.625, 0.375, 2.0]])
CLUSTER, SEPARATION = (0.25 + 0.375) / 2, -(0.75 + 0.5) / 2


def output_of(model: PixPNet, distances: torch.Tensor, logits: torch.Tensor) -> Output:
    count = len(distances)
    matches = Matches(
        scores=torch.zeros_like(distances),
        distances=distances,
        best=torch.zeros(count, distances.shape[1], dtype=torch.int64),
        distance_maps=distances[:, :, None, None],
        similarity=model.prototype_layer.similarity,
        epsilon=1e-6,
    )
    return Output(logits, matches)


def loss_with(weights: Losses, head: str = "class_sum") -> tuple[LossParts, torch.Tensor, torch.Tensor, PixPNet]:
    model = small_model(prototypes_per_class=2, head=head, own_weight=1.0, other_weight=-0.5)
    distances = DISTANCES.clone().requires_grad_()
    logits = torch.tensor([[1.0, 0.0], [3.0, 1.0]]).requires_grad_()
    return loss_of(model, output_of(model, distances, logits), LABELS, weights), distances, logits, model


def test_the_cluster_loss_is_the_mean_distance_to_the_nearest_own_prototype() -> None:
    assert float(cluster_loss(DISTANCES, LABELS, CLASSES)) == CLUSTER


def test_the_separation_loss_is_minus_the_mean_distance_to_the_nearest_other_prototype() -> None:
    assert float(separation_loss(DISTANCES, LABELS, CLASSES)) == SEPARATION < 0


@given(st.integers(1, 9))
def test_losses_are_averaged_once_so_that_a_repeated_batch_changes_nothing(times: int) -> None:
    many = DISTANCES.repeat(times, 1), LABELS.repeat(times), CLASSES
    assert float(cluster_loss(*many)) == pytest.approx(CLUSTER)
    assert float(separation_loss(*many)) == pytest.approx(SEPARATION)


def test_the_total_is_the_weighted_sum_of_equation_2() -> None:
    weights = Losses(cluster_weight=0.8, separation_weight=0.08)
    loss = loss_with(weights)[0]
    # -log softmax of the right logit: 1 against 0, and 1 against 3.
    cross_entropy = (log(1 + exp(-1)) + log(1 + exp(2))) / 2
    assert float(loss.cross_entropy) == pytest.approx(cross_entropy)
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
    assert torch.equal(loss.total.detach(), loss.cross_entropy)
    assert float(loss.cluster) == CLUSTER
    assert float(loss.separation) == SEPARATION


def test_the_l1_term_counts_only_weights_between_prototypes_and_other_classes() -> None:
    loss, _, _, model = loss_with(Losses(off_class_l1=0.01), head="linear")
    # 2 classes x 4 prototypes: 4 weights across of -0.5 each.
    assert float((loss.total - loss.cross_entropy).detach()) == pytest.approx(0.01 * 4 * 0.5)
    loss.total.backward()
    gradient = model.head.weight.grad
    assert gradient is not None
    assert torch.allclose(gradient, torch.tensor([[0, 0, -0.01, -0.01], [-0.01, -0.01, 0, 0]]))


@pytest.mark.parametrize("head", ["class_sum", "own_class"])
def test_a_head_without_weights_across_has_no_l1_term(head: str) -> None:
    loss = loss_with(Losses(off_class_l1=1.0), head)[0]
    assert torch.equal(loss.total.detach(), loss.cross_entropy)
