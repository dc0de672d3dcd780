"""AAP, AJS and PMS against sets that are counted one by one, and laws."""

from itertools import permutations

import numpy as np
import pytest
import torch

from pixpnet.metrics.transfer import active_cells, matching, transfer_scores
from tests.training.material import batches_of, small_model


def matched_by_hand(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """With sets of (image, cell), and every way to pair prototypes tried."""
    images, prototypes = ours.shape
    one = [{(n, int(ours[n, j])) for n in range(images)} for j in range(prototypes)]
    other = [{(n, int(theirs[n, j])) for n in range(images)} for j in range(prototypes)]
    costs = []
    for tenth in range(1, 11):
        size = max(1, round(images * tenth / 10))

        def cost(a: set[tuple[int, int]], b: set[tuple[int, int]], size: int = size) -> float:
            return 0.0 if len(a & b) >= size else 1 - len(a & b) / min(len(a | b), size)

        pairs = [[cost(a, b) for b in other] for a in one]
        costs.append(min(np.mean([pairs[i][j] for i, j in enumerate(p)]) for p in permutations(range(prototypes))))
    return 1 - float(np.mean(costs))


@pytest.mark.parametrize("seed", range(6))
def test_prototypes_are_paired_as_a_search_through_all_pairings_would(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    ours, theirs = (torch.randint(3, (10, 4), generator=generator) for _ in range(2))
    assert matching(ours, theirs) == pytest.approx(matched_by_hand(ours, theirs))


def test_cells_count_once_and_only_where_some_prototype_is_near() -> None:
    picked = torch.tensor([[0, 0, 2], [1, 1, 1]])
    near = torch.tensor([[True, False, False], [False, False, False]])
    assert active_cells(picked, near, 3).tolist() == [[True, False, False], [False, False, False]]


def test_a_network_beside_itself_agrees_wherever_anything_is_active() -> None:
    model = small_model().eval()
    torch.manual_seed(1)
    batches = batches_of(torch.randn(5, 3, 13, 13), [0, 1, 0, 1, 0], list("abcde"), 2)
    scores = transfer_scores(model, model, batches, threshold=float("inf"))
    assert (scores.images, scores.overlap.mean, scores.matching) == (5, 1.0, 1.0)
    assert scores.student_cells == scores.teacher_cells
    assert 1 <= scores.student_cells.mean <= 6
    # Nothing is active: 0 by definition, not undefined.
    empty = transfer_scores(model, model, batches, threshold=-1.0)
    assert (empty.student_cells.mean, empty.overlap.mean, empty.matching) == (0.0, 0.0, 1.0)


def test_networks_with_other_prototypes_are_refused() -> None:
    batches = batches_of(torch.randn(1, 3, 13, 13), [0], ["a"], 1)
    with pytest.raises(ValueError, match=r"other prototypes: \[6\] and \[4\]"):
        transfer_scores(small_model().eval(), small_model(prototypes_per_class=2).eval(), batches, 1.0)
