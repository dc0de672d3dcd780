"""Which evidence decides: an adversary changes other scores within the bounds; with one score fewer it may succeed."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pixpnet.explanation import Explanation, explain, prove
from pixpnet.explanation.deciding import deciding_length
from pixpnet.explanation.deciding_text import deciding_text
from pixpnet.model import PixPNet
from pixpnet.parts import ClassSum, Decision, OneClassEach
from pixpnet.parts.ranking import RankedScores
from pixpnet.records import BadRecord
from tests.explanation.toys import BLACK, BLUE, RED, YELLOW, as_sample, photo, quarters, real, real_with_two_grids, toy


def least_scores(model: PixPNet) -> Tensor:
    return torch.cat(
        [
            torch.full((len(grid.prototypes),), grid.comparison.score_bounds()[0], dtype=torch.float64)
            for grid in model.grids
        ]
    )


def answers(model: PixPNet, scores: Tensor) -> Tensor:
    with torch.no_grad():
        return model.head.double().logits(scores).argmax(dim=1)


def adversary(model: PixPNet, scores: Tensor, length: int, generator: torch.Generator) -> Tensor:
    """Scores that agree in the largest ones and are anything within the bounds elsewhere: corners class by class."""
    order = scores.argsort(descending=True)
    low = torch.minimum(least_scores(model), scores[order[length - 1]])
    high = scores[order[length - 1]].expand_as(low)
    rows = [low + (high - low) * torch.rand(len(scores), generator=generator, dtype=torch.float64) for _ in range(50)]
    rows += [torch.where(torch.rand(len(scores), generator=generator) < 0.5, low, high) for _ in range(200)]
    for own in model.ownership.mask():
        rows.append(torch.where(own, high, low))
    changed = torch.stack(rows)
    changed[:, order[:length]] = scores[order[:length]]
    return changed


@pytest.mark.parametrize("head", ["class_sum", "linear", "own_class"])
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_adversary_changes_the_answer_within_the_bounds(head: str, seed: int) -> None:
    model = real(head)
    generator = torch.Generator().manual_seed(seed)
    scores = least_scores(model) + 8 * torch.rand(model.num_prototypes, generator=generator, dtype=torch.float64)
    label = int(answers(model, scores[None])[0])
    length = deciding_length(model, scores, label)
    assert length is not None
    assert (answers(model, adversary(model, scores, length, generator)) == label).all()


@given(seed=st.integers(0, 2**32 - 1), ties=st.booleans())
def test_the_sums_of_classes_find_the_same_list_as_trying_each_length(seed: int, ties: bool) -> None:
    random = np.random.default_rng(seed)
    labels = random.integers(0, 4, 18)
    labels[:4] = range(4)
    scores = random.integers(0, 5, 18).astype(float) if ties else random.normal(2, 1, 18)
    least = np.full(18, scores.min() - 0.5)
    sums = np.bincount(labels, scores)
    answer, order = int(sums.argmax()), np.argsort(-scores, kind="stable")

    def decides(length: int) -> bool:
        known = np.isin(np.arange(18), order[:length])
        low, high = (np.bincount(labels, np.where(known, scores, end)) for end in (least, scores[order[length - 1]]))
        return all(low[answer] - high[other] > 1e-5 for other in range(4) if other != answer)

    expected = next((length for length in range(1, 19) if decides(length)), None)
    head = ClassSum(OneClassEach(torch.from_numpy(labels), 4))
    ranked = RankedScores.of(torch.from_numpy(scores), least)
    assert head.deciding_length(answer, ranked) == expected
    assert Decision.deciding_length(head, answer, ranked) == expected


def test_with_one_score_fewer_a_class_sum_can_be_beaten() -> None:
    model = real()
    generator = torch.Generator().manual_seed(5)
    scores = least_scores(model) + 8 * torch.rand(model.num_prototypes, generator=generator, dtype=torch.float64)
    label = int(answers(model, scores[None])[0])
    length = deciding_length(model, scores, label)
    assert length is not None and length > 1
    # Its corners hold the worst case of a class sum: one rival as high as can be, everything else as low.
    assert (answers(model, adversary(model, scores, length - 1, generator)) != label).any()


def test_on_paper_the_largest_score_is_not_enough_but_two_are() -> None:
    # Warm has red and yellow, cold blue and white. Red and yellow are both in the picture: similarity log 2 each.
    model = toy()
    explanation = explain(model, as_sample(quarters((RED, YELLOW), (BLACK, BLACK))))
    proven = prove(model, as_sample(quarters((RED, YELLOW), (BLACK, BLACK))), explanation)
    assert proven.deciding is not None
    # With the first alone, yellow may be as low as the bound and blue and white as high as red: cold may win.
    assert len(proven.deciding.prototypes) > 1
    assert set(proven.deciding.prototypes[:2]) == {0, 1}
    assert proven.deciding.of == 4


def test_the_cells_that_decide_saw_the_union_of_their_regions() -> None:
    model = toy()
    sample = as_sample(quarters((RED, YELLOW), (BLACK, BLUE)))
    proven = prove(model, sample, explain(model, sample, classes=["cold", "warm"]))
    assert proven.deciding is not None
    terms = {term.prototype: term for explained in proven.classes for term in explained.terms}
    seen = torch.zeros(proven.size, dtype=torch.bool)
    for number in proven.deciding.prototypes:
        for y0, x0, y1, x1 in terms[number].region:
            seen[y0:y1, x0:x1] = True
    assert proven.deciding.seen == pytest.approx(float(seen.double().mean()))


@pytest.mark.parametrize("model", [real(), real_with_two_grids()])
def test_the_record_travels_and_is_said_in_the_words_that_were_agreed(model: PixPNet) -> None:
    sample = as_sample(photo())
    assert deciding_text(explain(model, sample)) == ""
    proven = prove(model, sample, explain(model, sample))
    assert Explanation.from_json(proven.to_json()) == proven
    assert proven.deciding is not None
    count, of = len(proven.deciding.prototypes), proven.deciding.of
    words = deciding_text(proven)
    if 1 < count < of:
        assert words.startswith(f"The {count} largest of {of} scores decide: as long as no other score exceeds the ")
        assert words.endswith("that nothing else scored higher rests on the whole image.")
    assert words in " ".join(proven.details().split())


def test_a_list_that_names_a_prototype_twice_is_refused() -> None:
    model = real()
    sample = as_sample(photo())
    values = json.loads(prove(model, sample, explain(model, sample)).to_json())
    values["deciding"]["prototypes"] = [0, 0]
    with pytest.raises(BadRecord, match="scores that decide"):
        Explanation.from_json(json.dumps(values))
