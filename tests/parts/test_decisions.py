"""Decisions with numbers worked out by hand, and the law that their weights are what they multiply with."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pixpnet.members.protopnet import PRESETS
from pixpnet.parts import ClassSum, Linear, LinearDecision, OneClassEach, OwnClass

LABELS = torch.tensor([0, 0, 1, 2])
SCORES = torch.tensor([[1.0, 2.0, 4.0, 8.0], [0.0, 0.5, 0.0, -1.0]])
# VARIANTS.md: ProtoPNet begins with +1 for the own class and -0.5 for others.
FIRST = [[1, 1, -0.5, -0.5], [-0.5, -0.5, 1, -0.5], [-0.5, -0.5, -0.5, 1]]


HEADS = ["class_sum", "frozen", "linear", "own_class"]


def build(
    name: str, labels: Tensor = LABELS, classes: int = 3, own: float = 1.0, other: float = -0.5
) -> LinearDecision:
    ownership = OneClassEach(labels, classes)
    return {
        "class_sum": lambda: ClassSum(ownership),
        "linear": lambda: Linear(ownership, own, other, learns=True),
        "frozen": lambda: Linear(ownership, own, other, learns=False),
        "own_class": lambda: OwnClass(ownership, own),
    }[name]()


@pytest.mark.parametrize(
    ("name", "logits"),
    [
        ("class_sum", [[3, 4, 8], [0.5, 0, -1]]),
        # 1 + 2 - 2 - 4 = -3; 4 - 0.5 - 1 - 4 = -1.5; 8 - 0.5 - 1 - 2 = 4.5, and so on
        ("linear", [[-3, -1.5, 4.5], [1, 0.25, -1.25]]),
        ("frozen", [[-3, -1.5, 4.5], [1, 0.25, -1.25]]),
        ("own_class", [[3, 4, 8], [0.5, 0, -1]]),
    ],
)
def test_first_logits_by_hand(name: str, logits: list[list[float]]) -> None:
    assert build(name).logits(SCORES).tolist() == logits


def test_learnt_logits_by_hand() -> None:
    own, linear = build("own_class"), build("linear")
    assert isinstance(own, OwnClass)
    assert isinstance(linear, Linear)
    own.weight.data = torch.tensor([2.0, 0.0, -1.0, 0.5])
    assert own.logits(SCORES[:1]).tolist() == [[2, -4, 4]]
    linear.weight.data = torch.tensor([[0.0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0.25, 0]])
    assert linear.logits(SCORES[:1]).tolist() == [[2, 9, 1]]


@pytest.mark.parametrize("name", ["linear", "frozen"])
def test_first_weights_are_protopnets(name: str) -> None:
    assert build(name).weights().tolist() == FIRST
    published = PRESETS["paper"].architecture
    assert (published.own_weight, published.other_weight) == (1, -0.5)


def test_first_weights_may_be_whole_numbers() -> None:
    # NP-ProtoPNet: frozen at +1 / -1
    head = build("frozen", own=1, other=-1)
    assert head.weights().tolist() == [[1, 1, -1, -1], [-1, -1, 1, -1], [-1, -1, -1, 1]]
    assert head.weights().dtype == torch.float32
    assert build("own_class", own=2).weights().tolist()[0] == [2, 2, 0, 0]


@given(st.integers(0, 999), st.sampled_from(HEADS), st.integers(2, 5), st.integers(1, 4))
def test_weights_times_scores_are_the_logits(seed: int, name: str, classes: int, count: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(count)
    head = build(name, labels, classes)
    for parameter in head.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator)
    scores = torch.randn(4, len(labels), generator=generator)
    assert head.weights().shape == (classes, len(labels))
    torch.testing.assert_close(head.logits(scores), scores @ head.weights().T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "numbers", "learns"), [("class_sum", 0, 0), ("linear", 12, 12), ("frozen", 12, 0), ("own_class", 4, 4)]
)
def test_what_each_head_learns(name: str, numbers: int, learns: int) -> None:
    parameters = list(build(name).parameters())
    assert sum(parameter.numel() for parameter in parameters) == numbers
    assert sum(parameter.numel() for parameter in parameters if parameter.requires_grad) == learns


def test_the_class_sum_keeps_nothing_in_a_file() -> None:
    assert not build("class_sum").state_dict()


@pytest.mark.parametrize("name", HEADS)
def test_double_scores_give_double_logits(name: str) -> None:
    assert build(name).logits(SCORES.double()).dtype == torch.float64


def test_off_class_weights_are_those_between_prototypes_and_other_classes() -> None:
    head = build("linear")
    assert isinstance(head, Linear)
    head.weight.data = torch.arange(12.0).reshape(3, 4)
    assert sorted(head.off_class().tolist()) == [2, 3, 4, 5, 7, 8, 9, 10]


# What a decision says of itself -----------------------------------------------------------------------------------


@given(st.integers(0, 999), st.sampled_from(HEADS), st.integers(2, 5), st.integers(1, 4))
def test_reasons_add_up_to_the_logits(seed: int, name: str, classes: int, count: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(count)
    head = build(name, labels, classes).double()
    for parameter in head.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    scores = torch.randn(len(labels), generator=generator, dtype=torch.float64)
    asked = [classes - 1, 0]
    reasons = head.reasons(scores, asked)
    result = reasons.constant + (reasons.weights * scores).sum(dim=1)
    torch.testing.assert_close(result.double(), head.logits(scores[None])[0, asked])
    # The same, prototype by prototype: only those that are connected.
    for connected, row in zip(reasons.connections(), reasons.weights.double().tolist(), strict=True):
        assert dict(connected) == {number: weight for number, weight in enumerate(row) if weight}


@given(st.integers(0, 999), st.sampled_from(HEADS), st.integers(2, 4), st.integers(1, 3))
def test_a_prototype_decides_where_the_answer_without_it_is_another(
    seed: int, name: str, classes: int, count: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(count)
    head = build(name, labels, classes).double()
    scores = torch.rand(3, len(labels), generator=generator, dtype=torch.float64)
    answers = head.logits(scores).argmax(dim=1)
    decides = head.decides(scores)
    for prototype in range(len(labels)):
        without = scores.clone()
        without[:, prototype] = 0  # a score of 0 adds nothing to any logit
        assert torch.equal(decides[:, prototype], head.logits(without).argmax(dim=1) != answers)


def test_prototypes_without_a_weight_are_not_used() -> None:
    head = build("own_class")
    assert isinstance(head, OwnClass)
    head.weight.data = torch.tensor([1.0, 0.0, -2.0, 0.5])
    assert head.uses(0.0).tolist() == [True, False, False, True]
    assert head.uses(0.7).tolist() == [True, False, False, False]
    assert build("class_sum").uses(0.0).all()


@pytest.mark.parametrize(
    ("name", "size"), [("class_sum", (10, 10)), ("linear", (20, 4000)), ("frozen", (20, 4000)), ("own_class", (20, 20))]
)
def test_explanation_sizes_are_those_of_the_papers_first_table(name: str, size: tuple[int, int]) -> None:
    # CUB-200-2011: 200 classes of 10 prototypes.
    assert tuple(build(name, torch.arange(200).repeat_interleave(10), 200).size()) == size
