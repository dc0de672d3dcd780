"""The table of true and given classes, against counting by hand and NumPy."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.records import BadRecord, from_plain, to_json, to_plain
from pixpnet.training.confusion import ROWS_UP_TO, ConfusionTable
from pixpnet.training.evaluation import Evaluation, evaluation_of


@given(st.integers(1, 90).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.tuples(*[st.integers(0, n - 1)] * 2)))))
def test_answers_are_counted_and_read_back(case: tuple[int, list[tuple[int, int]]]) -> None:
    classes, pairs = case
    expected = np.zeros((classes, classes), dtype=int)
    for truth, answer in pairs:
        expected[truth, answer] += 1
    labels, answers = (torch.tensor([pair[n] for pair in pairs], dtype=torch.int64) for n in (0, 1))
    table = ConfusionTable.of_answers(labels, answers, classes)
    assert np.array_equal(np.array(list(table)).reshape(classes, classes), expected)
    assert (table.images, table.right) == (expected.sum(), expected.trace())
    assert table == ConfusionTable.of_rows(expected.tolist())
    plain = json.loads(to_json(table.to_plain()))
    assert isinstance(plain, list) == (classes <= ROWS_UP_TO)
    assert ConfusionTable.from_plain(plain, "confusion") == table


def test_rows_of_many_classes_that_earlier_versions_wrote_are_read() -> None:
    rows = torch.eye(100, dtype=torch.int64).tolist()
    assert ConfusionTable.from_plain(rows, "confusion").right == 100


@pytest.mark.parametrize(
    "value",
    [
        [[1, 2], [3]],
        [[1.5]],
        [[True]],
        [[-1]],
        "x",
        None,
        {"classes": 2, "given": [[0, 1]]},
        {"classes": 2, "given": [[0, 2, 1]]},
        {"classes": 2, "given": [[]]},
        {"classes": 2, "given": [[0, 1, 1, 1, 2]]},
        {"classes": "2", "given": []},
        {"classes": 2},
    ],
)
def test_what_is_no_table_is_refused(value: object) -> None:
    with pytest.raises(BadRecord, match="confusion"):
        ConfusionTable.from_plain(value, "confusion")


def test_the_figures_of_a_thousand_classes_take_less_than_a_megabyte() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(50_000) % 1000
    wrong = torch.rand(50_000, generator=generator) < 0.3
    answers = torch.where(wrong, torch.randint(0, 1000, (50_000,), generator=generator), labels)
    found = evaluation_of(ConfusionTable.of_answers(labels, answers, 1000), loss=1.0)
    # A run has four of them: validation and test, before and after replacement.
    text = to_json([to_plain(found)] * 4)
    assert len(text) < 1_000_000
    assert [from_plain(Evaluation, plain) for plain in json.loads(text)] == [found] * 4


def test_json_for_people_is_json() -> None:
    value = {"a": [], "b": {}, "c": [1, 2.5, None, True], "d": [[1], ["x", {"e": "f,\n"}]], "g": "h", "i": [[]]}
    assert json.loads(to_json(value)) == value
