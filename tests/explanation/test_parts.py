"""Explanations ask parts and never which parts they are: several grids, shared prototypes, constants, other scores."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from pixpnet.box import Box
from pixpnet.explanation import Explanation, Term, explain, prove
from pixpnet.explanation.text import WIDTH
from pixpnet.model import PixPNet
from pixpnet.parts import Linear, Nearest, Ownership, SquaredL2, Sum
from tests.explanation.test_explain import HEADS
from tests.explanation.toys import (
    PICTURE,
    as_sample,
    origins_of,
    photo,
    real_with_two_grids,
    similarity,
    toy,
    toy_with_two_grids,
)


def _terms(explanation: Explanation) -> Iterator[Term]:
    for explained in explanation.classes:
        yield from explained.terms


def _assert_sums_hold(explanation: Explanation) -> None:
    for explained in explanation.classes:
        total = math.fsum(term.contribution for term in explained.terms) + explained.rest
        assert total == pytest.approx(explained.logit, abs=1e-4)


# Several grids ---------------------------------------------------------------------------------------------


def test_two_grids_are_explained_as_on_paper() -> None:
    explanation = explain(toy_with_two_grids(), as_sample(PICTURE))
    result = {term.prototype: term for term in _terms(explanation)}
    assert {n: (term.class_name, term.grid) for n, term in result.items()} == {
        0: ("warm", 0),
        1: ("cold", 0),
        2: ("warm", 1),
        3: ("cold", 1),
    }
    # Red and blue are found in cells of 2 x 2 pixels, yellow and (one channel away) white in cells of 4 x 4.
    assert {n: (term.cell, term.region) for n, term in result.items()} == {
        0: ((0, 0), (Box(0, 0, 2, 2),)),
        1: ((2, 0), (Box(4, 0, 6, 2),)),
        2: ((0, 1), (Box(0, 4, 4, 8),)),
        3: ((0, 1), (Box(0, 4, 4, 8),)),
    }
    warm, cold = explanation.classes
    assert warm.logit == pytest.approx(2 * similarity(0))
    assert cold.logit == pytest.approx(similarity(0) + similarity(1))
    assert [(sight.cells, sight.mean_fraction, sight.layer) for sight in explanation.sights] == [
        ((4, 4), 1 / 16, "0"),
        ((2, 2), 1 / 4, "1"),
    ]
    assert explanation.sight == explanation.sights[0]
    assert explanation.sight_of(result[3]) == explanation.more_sights[0]


@pytest.mark.parametrize("head", HEADS)
def test_terms_of_both_grids_add_up_and_are_proven(head: str) -> None:
    model, sample = real_with_two_grids(head), as_sample(photo())
    model.origins = origins_of(model)
    explanation = explain(model, sample, classes=[0, 1, 2], top=5)
    _assert_sums_hold(explanation)
    assert {term.grid for term in _terms(explanation)} == {0, 1}
    assert all(term.prototype in model.grids[term.grid].prototypes for term in _terms(explanation))
    assert explanation.weighted == (head != "class_sum")
    proven = prove(model, sample, explanation, draws=3)
    assert all(term.proof is not None and term.proof.passed and term.proof.tested for term in _terms(proven))
    assert all(term.proof is not None and term.proof.inside > 0 for term in _terms(proven))
    assert Explanation.from_json(proven.to_json()) == proven
    text = proven.details()
    assert max(map(len, text.splitlines())) <= WIDTH
    words = " ".join(text.split())
    assert "Grid 1 (stage2): Of 12 x 12 cells" in words
    assert "Grid 2 (stage3): Of 6 x 6 cells" in words
    assert words.count("another cell may win.") == 1
    assert "small-21 @ stage2,stage3" in words
    assert "grid 2" in proven._repr_html_()


def test_a_region_of_one_grid_that_is_a_row_short_is_caught() -> None:
    model, sample = real_with_two_grids(), as_sample(photo())
    explanation = explain(model, sample, classes=[0, 1, 2])

    def shortened(term: Term) -> Term:
        ((y0, x0, y1, x1),) = term.region
        return replace(term, region=(Box(y0, x0, y1 - 1, x1),)) if term.grid == 1 else term

    classes = tuple(
        replace(explained, terms=tuple(map(shortened, explained.terms))) for explained in explanation.classes
    )
    proven = prove(model, sample, replace(explanation, classes=classes))
    assert {(term.grid, term.proof is not None and term.proof.passed) for term in _terms(proven)} == {
        (0, True),
        (1, False),
    }


def test_a_term_that_is_said_to_be_of_another_grid_is_refused() -> None:
    model, sample = real_with_two_grids(), as_sample(photo())
    explanation = explain(model, sample)
    first = explanation.predicted
    terms = tuple(replace(term, grid=1 - term.grid) for term in first.terms)
    wrong = replace(explanation, classes=(replace(first, terms=terms), *explanation.classes[1:]))
    with pytest.raises(ValueError, match="give the model that was explained"):
        prove(model, sample, wrong)


def test_with_several_grids_the_tolerance_is_that_of_the_terms_own() -> None:
    model, sample = real_with_two_grids(), as_sample(photo())
    model.grids[1].comparison.measure = SquaredL2()
    proven = prove(model, sample, explain(model, sample), draws=1)
    # 16 units in the last place of 1, for the cosine, and of 8, for a sum of 8 squares that are at most 1.
    expected = {(0, 16 * 2.0**-23), (1, 16 * 8 * 2.0**-23)}
    assert {(term.grid, term.proof.tolerance) for term in _terms(proven) if term.proof} == expected
    assert "stays within 1.9e-06 to 1.5e-05" in " ".join(proven.details().split())


# Whom a prototype speaks for -------------------------------------------------------------------------------


class _Shared(Ownership):
    """Prototype 0 speaks for all classes, 1 for the last one, 2 for nobody, 3 for the first."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("labels", torch.tensor([0, 1, -1, 0]))

    def mask(self) -> Bool[Tensor, "classes protos"]:
        return torch.tensor([[True, False, False, True], [True, True, False, False]])

    def sources(self) -> Bool[Tensor, "classes protos"]:
        return torch.ones(2, 4, dtype=torch.bool)

    def rivals(self) -> tuple[Int64[Tensor, " some"], ...]:
        return ()


def _shared() -> PixPNet:
    model = toy(head="linear")
    model.ownership = _Shared().eval()
    with torch.no_grad():
        model.head.weight.copy_(torch.tensor([[2.0, 0.5, 0.25, 1.0], [1.0, 1.0, 0.5, 0.25]]))
    return model


def test_terms_are_of_the_explained_class_where_they_speak_for_it() -> None:
    model = _shared()
    explanation = explain(model, as_sample(PICTURE))
    warm, cold = (explanation.explained(name) for name in ("warm", "cold"))
    assert {t.prototype: (t.label, t.class_name, t.also) for t in warm.terms} == {
        0: (0, "warm", ("cold",)),
        1: (1, "cold", ()),
        2: (-1, "", ()),
        3: (0, "warm", ()),
    }
    assert {t.prototype: (t.label, t.class_name, t.also) for t in cold.terms} == {
        0: (1, "cold", ("warm",)),
        1: (1, "cold", ()),
        2: (-1, "", ()),
        3: (0, "warm", ()),
    }
    assert Explanation.from_json(explanation.to_json()) == explanation
    text = explanation.details()
    assert "prototype 0, which is no training patch (also of cold)" in text
    assert "prototype 2, which is no training patch\n" in text
    assert "also of cold" in explanation._repr_html_()


def test_a_prototype_of_no_class_is_of_the_class_of_its_training_image() -> None:
    model = _shared()
    model.origins = tuple(replace(origin, label=abs(origin.label)) for origin in origins_of(model))
    terms = {term.prototype: term for term in explain(model, as_sample(PICTURE)).predicted.terms}
    assert (terms[2].label, terms[2].class_name) == (1, "cold")


# What a logit and a score are made of ----------------------------------------------------------------------


class _WithBias(Linear):
    """A weighted sum and 1, 2, 3 ... for the classes."""

    def logits(self, scores: Float[Tensor, "batch protos"]) -> Float[Tensor, "batch classes"]:
        return super().logits(scores) + 1 + torch.arange(len(self.weight))

    def reasons(self, scores: Float[Tensor, " protos"], labels: Sequence[int]) -> Sum:
        return Sum(self.weight[list(labels)], 1 + torch.tensor(labels).float())


def test_a_constant_is_part_of_the_rest() -> None:
    model, sample = toy(), as_sample(PICTURE)
    model.head = _WithBias(model.ownership, 1.0, 0.25, learns=True).eval()
    explanation = explain(model, sample, top=3)
    _assert_sums_hold(explanation)
    assert {explained.class_name: explained.constant for explained in explanation.classes} == {"warm": 1.0, "cold": 2.0}
    for explained in explanation.classes:
        assert (explained.rest_terms, explained.rest > explained.constant) == (1, True)
    assert "from 1 more, and 2.00 for every image" in explanation.details()
    everything = explain(model, sample, top=4)
    _assert_sums_hold(everything)
    assert [explained.rest for explained in everything.classes] == [
        explained.constant for explained in everything.classes
    ]
    assert "4 weighted scores, and 2.00 for every image" in everything.details()
    assert "and 2.00 for every image" in everything._repr_html_()
    assert "and +1.00 from the rest" in everything.details()


class _MinusTheMean(Nearest):
    """A score that is more than the similarity of its cell."""

    beside_the_cell = "the mean similarity of all cells is subtracted from it"

    def scores(self, pooled: object, maps: Tensor, similarity: object) -> Tensor:
        return similarity(pooled.distances) - similarity(maps).mean(dim=(2, 3))  # type: ignore[operator, attr-defined]


def test_where_a_score_is_more_than_its_cell_the_explanation_says_so() -> None:
    model, sample = toy_with_two_grids(), as_sample(PICTURE)
    assert explain(model, sample).score_note is None
    assert "more than" not in str(explain(model, sample))
    model.grids[1].comparison.pooling = _MinusTheMean()
    explanation = prove(model, sample, explain(model, sample))
    _assert_sums_hold(explanation)
    assert explanation.score_note == _MinusTheMean.beside_the_cell
    sentence = f"A score is more than the similarity of its cell: {_MinusTheMean.beside_the_cell}."
    assert sentence in " ".join(explanation.details().split())
    assert sentence in explanation._repr_html_()
    assert Explanation.from_json(explanation.to_json()) == explanation
    # The claim is about the cell, and holds; the score moves with all pixels.
    assert all(term.proof is not None and term.proof.passed for term in _terms(explanation))
    moved = [term.proof.score_outside for term in _terms(explanation) if term.proof and term.grid == 1]
    assert min(moved) > 0
