"""Sizes, counted by hand; and decisions that say what is added up."""

import pytest
import torch

from pixpnet.metrics.sizes import distinct_vectors, model_sizes, sparsity
from pixpnet.parts import BinaryTree, ClassSum, Linear, OneClassEach, OwnClass, SelectedSum, TreeDecision
from pixpnet.parts.reasons import NoReasons
from tests.explanation.toys import toy_with_two_grids
from tests.metrics.part_toys import BLACK, BLUE, RED, YELLOW, finder, picture

SAMPLE = picture(((RED, YELLOW), (BLUE, BLACK)), ())


def test_the_class_sum_counts_own_prototypes_for_the_answer_and_all_for_any_class() -> None:
    sizes = model_sizes(finder(), [SAMPLE])
    assert (sizes.prototypes, sizes.global_size, sizes.distinct, sizes.distinct_parts) == (4, 4, 4, 4)
    assert sizes.local_size.estimate is not None and sizes.local_size.estimate.mean == 2
    assert sizes.local_size_any_class.estimate is not None and sizes.local_size_any_class.estimate.mean == 4
    # 2 classes, 4 prototypes of one cell, 2 x 2 cells: (2 + 2 / 4) / (4 + 4 / 4).
    assert sizes.sparsity == pytest.approx(0.5)
    assert sizes.images == 1 and sizes.refusal == ""


def test_equal_vectors_count_once_and_are_equal_after_eight_decimals() -> None:
    model = finder()
    with torch.no_grad():
        model.prototypes[1] = model.prototypes[0]
    sizes = model_sizes(model, [SAMPLE])
    assert sizes.distinct == 3 and sizes.global_size == 4
    close = torch.tensor([[1.0, 0.0], [1.0 + 4e-9, 0.0], [1.0 + 4e-8, 0.0]], dtype=torch.float64)
    assert distinct_vectors(close) == 2


def test_parts_of_prototypes_of_several_cells_are_counted_cell_by_cell() -> None:
    model = finder(2, prototype_rows=2)
    with torch.no_grad():
        model.prototypes.fill_(0.5)
        model.prototypes[0, :, 0] = 0.7
        model.prototypes[1, :, 0] = 0.9
    sizes = model_sizes(model, [SAMPLE])
    # Three different prototypes, made of three different cells; 4 x 4 cells, on which they have 3 x 4 positions.
    assert (sizes.distinct, sizes.distinct_parts) == (3, 3)
    assert sizes.sparsity == pytest.approx((2 + 2 / 16) / (3 + 3 / 16))
    with torch.no_grad():
        model.prototypes[1, :, 1] = 0.3
    assert model_sizes(model, [SAMPLE]).sparsity == pytest.approx((2 + 2 / 16) / (3 + 4 / 16))


def test_with_several_grids_sparsity_is_not_defined() -> None:
    assert model_sizes(toy_with_two_grids(), [SAMPLE]).sparsity is None


def test_a_prototype_that_is_in_use_by_no_class_is_not_counted() -> None:
    model = finder(head="linear")
    with torch.no_grad():
        model.head.weight[:, 3] = torch.tensor([-0.5, 0.0005])
    sizes = model_sizes(model, [SAMPLE])
    assert sizes.global_size == 3


@pytest.mark.parametrize("score", [2.0, -2.0])
def test_addends_are_scores_times_weights_by_hand(score: float) -> None:
    decision = Linear(OneClassEach(torch.tensor([0, 1]), 2), own_weight=1.0, other_weight=-0.5, learns=False)
    scores = torch.tensor([[score, 4.0]])
    assert decision.addends(scores, torch.tensor([1])).tolist() == [[-0.5 * score, 4.0]]
    assert decision.largest_addends(scores).tolist() == [[max(score, -0.5 * score), 4.0]]


def test_sums_of_some_scores_add_nothing_for_the_others() -> None:
    owners = OneClassEach(torch.tensor([0, 0, 1, 1]), 2)
    scores = torch.tensor([[2.0, 4.0, 2.0, 5.0]])
    chosen = SelectedSum(owners, terms=1)
    assert chosen.addends(scores, torch.tensor([0])).tolist() == [[0.0, 4.0, 0.0, 0.0]]
    assert chosen.largest_addends(scores).tolist() == [[0.0, 4.0, 0.0, 5.0]]
    assert ClassSum(owners).addends(scores, torch.tensor([1])).tolist() == [[0.0, 0.0, 2.0, 5.0]]
    assert ClassSum(owners).largest_addends(scores).tolist() == scores.tolist()


@pytest.mark.parametrize("classes", [1, 3])
def test_largest_addends_without_a_table_are_those_of_the_table(classes: int) -> None:
    owners = OneClassEach(torch.arange(6) % classes, classes)
    scores = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    weighted = OwnClass(owners, own_weight=1.0)
    with torch.no_grad():
        weighted.weight.copy_(torch.tensor([1.0, -2.0, 0.0, 0.5, 3.0, -1.0]))
    for decision in (ClassSum(owners), weighted):
        table = decision.weights().detach()
        expected = (scores[:, None] * table).amax(dim=1)
        assert torch.equal(decision.largest_addends(scores), expected)


def test_a_tree_adds_nothing_up_and_local_sizes_are_undefined() -> None:
    decision = TreeDecision(2, BinaryTree.complete(2))
    with pytest.raises(NoReasons, match="nothing is added up"):
        decision.addends(torch.zeros(1, 3), torch.tensor([0]))
    model = finder()

    def refuse(*words: object) -> None:
        raise NoReasons("no sums here")

    model.head.addends = refuse
    sizes = model_sizes(model, [SAMPLE, SAMPLE])
    assert sizes.local_size.estimate is None and sizes.local_size.undefined == 2
    assert sizes.refusal == "no sums here" and sizes.global_size == 4


def test_sparsity_is_one_for_one_prototype_a_class_and_a_tenth_for_ten() -> None:
    assert sparsity(200, 200, 200, 49) == 1
    assert sparsity(200, 2000, 2000, 49) == pytest.approx(0.1)
