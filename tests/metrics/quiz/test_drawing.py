"""Questions of a quiz: what they show is what the model claims, controls are not, and nothing depends on order."""

from dataclasses import replace

import pytest

from pixpnet.data import DataSet
from pixpnet.explanation import explain
from pixpnet.metrics.quiz import Quiz, QuizError, draw_quiz
from pixpnet.model import PixPNet
from tests.metrics.conftest import data, pictures, run, trained
from tests.training.conftest import Trained

__all__ = ["data", "pictures", "run", "trained"]


@pytest.fixture(scope="module")
def model(trained: Trained) -> PixPNet:
    return PixPNet.load(trained.path)


@pytest.fixture(scope="module")
def quiz(model: PixPNet, data: DataSet) -> Quiz:
    return draw_quiz(model, data, agreement=9, distinction=3, seed=1)


def labels(data: DataSet) -> dict[str, int]:
    return {entry.id: entry.label for entry in data.val}


def test_the_same_seed_draws_the_same_questions(model: PixPNet, data: DataSet, quiz: Quiz) -> None:
    assert draw_quiz(model, data, agreement=9, distinction=3, seed=1) == quiz
    assert draw_quiz(model, data, agreement=9, distinction=3, seed=2) != quiz


def test_pairs_are_claims_of_the_model_and_controls_are_not(model: PixPNet, data: DataSet, quiz: Quiz) -> None:
    truth = labels(data)
    by_id = {entry.id: entry for entry in data.val}
    for question in quiz.agreement:
        predicted = explain(model, data.reader(by_id[question.explanation.image])).predicted
        claimed = {(term.region, term.prototype) for term in predicted.terms}
        shown = (question.pair.region, question.pair.origin.prototype)
        if question.kind == "control":
            assert shown not in claimed
            assert question.pair.origin.label not in (predicted.label, truth[question.explanation.image])
        else:
            assert shown in claimed
            assert (question.kind == "right") == (predicted.label == truth[question.explanation.image])


def test_every_image_to_distinguish_offers_its_true_class_and_the_answer(data: DataSet, quiz: Quiz) -> None:
    truth = labels(data)
    assert quiz.distinction
    for question in quiz.distinction:
        offered = [choice.label for choice in question.choices]
        assert question.truth == truth[question.explanation.image]
        assert {question.truth, question.explanation.predicted.label} <= set(offered)
        assert len(offered) == len(set(offered)) <= 4
        assert all(choice.pairs for choice in question.choices)


def test_where_nothing_can_be_asked_it_says_why(model: PixPNet, data: DataSet) -> None:
    with pytest.raises(QuizError, match="no validation images"):
        draw_quiz(model, replace(data, val=()))
    with pytest.raises(ValueError, match="at least 3 pairs"):
        draw_quiz(model, data, agreement=1)
