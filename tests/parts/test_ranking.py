"""Scores in the order of their size, against a stable sort; sums of rivals, against a plain loop."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.parts import ClassSum
from pixpnet.parts.ownership import OneClassEach
from pixpnet.parts.ranking import RankedScores

# Few different numbers, so that there are equals; both zeros, the smallest and large ones.
numbers = st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, 3.5, 3e38, -3e38]) | st.floats(
    width=32, allow_nan=False
)


@given(st.lists(numbers, min_size=1, max_size=30), st.sampled_from([torch.float32, torch.float64]))
def test_the_largest_score_comes_first_and_of_equals_the_first(scores: list[float], dtype: torch.dtype) -> None:
    given_scores = torch.tensor(scores, dtype=dtype)
    ranked = RankedScores.of(given_scores, np.zeros(len(scores)))
    rounded = given_scores.tolist()
    assert ranked.order.tolist() == sorted(range(len(scores)), key=lambda number: -rounded[number])
    assert ranked.scores.tolist() == rounded


@given(st.integers(0, 10_000), st.booleans())
def test_classes_of_equal_and_of_different_sizes_decide_after_equally_many_scores(seed: int, equal: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(12) % 4 if equal else torch.tensor([0, 0, 0, 0, 0, 1, 1, 2, 3, 3, 3, 3])
    scores = torch.rand(12, generator=generator)
    decision = ClassSum(OneClassEach(labels, 4))
    label = int(decision.logits(scores[None])[0].argmax())
    least = np.full(12, 0.05)

    def decided(length: int) -> bool:
        order = sorted(range(12), key=lambda number: -scores[number].item())
        limit, known = scores[order[length - 1]].item(), set(order[:length])
        low = sum(
            scores[number].item() if number in known else min(0.05, limit)
            for number in range(12)
            if labels[number] == label
        )
        high = [
            sum(scores[number].item() if number in known else limit for number in range(12) if labels[number] == other)
            for other in range(4)
            if other != label
        ]
        return low > max(high) + 1e-6

    expected = next((length for length in range(1, 13) if decided(length)), None)
    assert decision.deciding_length(label, RankedScores.of(scores, least)) == expected
