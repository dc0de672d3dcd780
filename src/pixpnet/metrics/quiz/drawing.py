"""Draws the questions of a quiz from the validation images of a run.

Half of the images are ones that the model gets wrong, as far as there are such: whether a person can tell a right
answer from a wrong one by its explanation is what the quiz is about. Test images stay where they are.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import torch

from pixpnet.data import DataSet, Entry
from pixpnet.explanation import Explanation, explain
from pixpnet.explanation.record import ClassExplanation
from pixpnet.metrics.draws import generator_for
from pixpnet.metrics.quiz.questions import AgreementQuestion, Choice, DistinctionQuestion, Pair, PairKind, Quiz
from pixpnet.model import Origin, PixPNet
from pixpnet.progress import Progress, silent

T = TypeVar("T")

CHOICES = 4
PAIRS = 3
# So many images are explained at the most, in search of wrong answers.
_PATIENCE = 4
_TASK = "drawing the quiz"


class QuizError(ValueError):
    """A run that no quiz can be made of; the message says why."""


def draw_quiz(
    model: PixPNet,
    data: DataSet,
    agreement: int = 18,
    distinction: int = 8,
    seed: int = 0,
    progress: Progress | None = None,
) -> Quiz:
    """Questions about a model's explanations of validation images.

    Args:
        model: in eval mode.
        data: that it was trained on.
        agreement: how many pairs; a third of them are controls.
        distinction: how many images to find the right explanation of.
        seed: of every draw.
        progress: told how many images have been explained.

    Raises:
        QuizError: if there are no validation images, one class only, or prototypes that are no image patches.
    """
    if agreement < 3 or distinction < 1:
        raise ValueError(f"a quiz has at least 3 pairs and 1 image to distinguish, got {agreement} and {distinction}")
    if not model.origins:
        raise QuizError(
            "the prototypes of this model are no patches of training images, so there is nothing to compare parts with"
        )
    if not data.val:
        raise QuizError(f"{data.name} has no validation images, and what the model learnt from is no fair question")
    if len(model.class_names) < 2:
        raise QuizError("with a single class there is nothing to distinguish")
    pairs = agreement - agreement // 3
    right, wrong, looked_at = _images(model, data, max(pairs, distinction), seed, progress or silent)
    mixed = _mixed(right, wrong, pairs)
    if not mixed:
        raise QuizError("in no validation image did a part with a training patch speak for the answer")
    questions = [_own_pair(explanation, truth, seed) for explanation, truth in mixed]
    controls = [
        _control(model, explanation, truth, seed)
        for explanation, truth in (_shuffled(mixed, seed, "control images") * agreement)[: agreement // 3]
        if _others(model, explanation, truth)
    ]
    drawn = _shuffled([*questions, *controls], seed, "agreement")
    return Quiz(
        agreement=tuple(
            AgreementQuestion(number, explanation, pair, kind) for number, (explanation, pair, kind) in enumerate(drawn)
        ),
        distinction=tuple(
            _distinction(number, model, explanation, truth, data, seed)
            for number, (explanation, truth) in enumerate(_mixed(right, wrong, distinction))
        ),
        seed=seed,
        looked_at=looked_at,
    )


_Known = tuple[Explanation, int]


def _images(
    model: PixPNet, data: DataSet, count: int, seed: int, progress: Progress
) -> tuple[list[_Known], list[_Known], int]:
    """Explained images that the model gets right and wrong, at most `count` of each."""
    most = min(len(data.val), _PATIENCE * count)
    right: list[_Known] = []
    wrong: list[_Known] = []
    looked_at = 0
    for entry in _drawn(data.val, seed, most):
        progress(_TASK, looked_at, most)
        explanation = explain(model, data.reader(entry))
        looked_at += 1
        answers = right if explanation.predicted.label == entry.label else wrong
        if len(answers) < count and pairs_of(explanation.predicted):
            answers.append((explanation, entry.label))
        if len(right) >= count and len(wrong) >= count // 2:
            break
    progress(_TASK, most, most)
    return right, wrong, looked_at


def _drawn(entries: Sequence[Entry], seed: int, most: int) -> Iterator[Entry]:
    order = torch.randperm(len(entries), generator=generator_for(seed, "quiz images"))
    return (entries[index] for index in order[:most].tolist())


def _mixed(right: Sequence[_Known], wrong: Sequence[_Known], count: int) -> list[_Known]:
    """Half wrong answers, or as many as there are; each image once."""
    few = min(len(wrong), max(count // 2, count - len(right)))
    return [*wrong[:few], *right[: count - few]]


def pairs_of(explained: ClassExplanation, most: int = PAIRS) -> tuple[Pair, ...]:
    """The parts that add most to a class and can be shown on both sides.

    Of a tree, the nodes at which the part was present.
    """
    turns = explained.path.present if explained.path is not None else (True,) * len(explained.terms)
    shown = [
        term
        for term, present in zip(explained.terms, turns, strict=True)
        if present and term.origin is not None and term.origin.boxes and term.region
    ]
    ranked = shown if explained.path is not None else sorted(shown, key=lambda term: -term.contribution)
    return tuple(Pair(term.region, term.origin) for term in ranked[:most] if term.origin is not None)


def _own_pair(explanation: Explanation, truth: int, seed: int) -> tuple[Explanation, Pair, PairKind]:
    pairs = pairs_of(explanation.predicted)
    number = _integer(len(pairs), seed, "pair", explanation.image)
    return explanation, pairs[number], "right" if explanation.predicted.label == truth else "wrong"


def _others(model: PixPNet, explanation: Explanation, truth: int) -> list[Origin]:
    """Training patches of classes that are neither the answer nor the truth."""
    apart = {explanation.predicted.label, truth}
    return [origin for origin in model.origins or () if origin.label not in apart and origin.boxes]


def _control(model: PixPNet, explanation: Explanation, truth: int, seed: int) -> tuple[Explanation, Pair, PairKind]:
    others = _others(model, explanation, truth)
    origin = others[_integer(len(others), seed, "control", explanation.image)]
    pairs = pairs_of(explanation.predicted)
    return explanation, Pair(pairs[_integer(len(pairs), seed, "place", explanation.image)].region, origin), "control"


def _distinction(
    number: int, model: PixPNet, explanation: Explanation, truth: int, data: DataSet, seed: int
) -> DistinctionQuestion:
    """The true class, the answer, and the classes with the next largest logits, in a random order."""
    ranked = sorted(range(len(explanation.logits)), key=lambda label: -explanation.logits[label])
    labels = list(dict.fromkeys([explanation.predicted.label, truth, *ranked]))[:CHOICES]
    by_id = {entry.id: entry for entry in data.val}
    whole = explain(model, data.reader(by_id[explanation.image]), classes=labels)
    choices = [Choice(label, pairs_of(whole.explained(label))) for label in labels]
    shown = _shuffled(choices, seed, "choices", explanation.image)
    return DistinctionQuestion(number, whole, tuple(shown), truth, explanation.predicted.label == truth)


def _shuffled(items: Sequence[T], seed: int, *purpose: str) -> list[T]:
    order = torch.randperm(len(items), generator=generator_for(seed, *purpose))
    return [items[index] for index in order.tolist()]


def _integer(below: int, seed: int, *purpose: str) -> int:
    return int(torch.randint(below, (1,), generator=generator_for(seed, *purpose)))
