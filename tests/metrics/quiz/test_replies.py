"""Replies to a quiz: kept as lines, judged by hand-made cases, handed on as a table."""

import csv
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.metrics.quiz import (
    AgreementReply,
    BadReply,
    DistinctionReply,
    Reply,
    append_reply,
    quiz_result,
    read_replies,
    replies_csv,
)

TIME = "2026-11-18T07:00:00+00:00"


def rated(rating: int, kind: str = "right", image: str = "a.jpg", person: str = "ann") -> AgreementReply:
    return AgreementReply(person, TIME, "model", image, 3, kind, rating)


def chosen(name: str, truth: str = "jay", model_right: bool = True, choices: int = 4) -> DistinctionReply:
    return DistinctionReply("ann", TIME, "model", "a.jpg", name, truth, choices, model_right)


def test_mean_ratings_and_shares_by_hand() -> None:
    replies: list[Reply] = [
        rated(4, image="a.jpg"),
        rated(3, image="b.jpg"),
        rated(2, "wrong", "c.jpg"),
        rated(1, "control", "a.jpg"),
        rated(3, "control", "b.jpg", person="bob"),
        chosen("jay"),
        chosen("wren"),
        chosen("jay", model_right=False, choices=2),
    ]
    result = quiz_result(replies)
    assert result.right.rating is not None and result.right.rating.mean == 3.5
    assert (result.right.alike.count, result.right.alike.of) == (2, 2)
    assert result.wrong.rating is not None and result.wrong.rating.mean == 2.0
    assert result.wrong.rating.low is None  # one image says nothing about others
    assert result.control.alike.share == 0.5
    assert result.distinction.share == pytest.approx(2 / 3)
    assert (result.distinction_right.share, result.distinction_wrong.share) == (0.5, 1.0)
    assert result.chance == pytest.approx((1 / 4 + 1 / 4 + 1 / 2) / 3)
    assert result.people == 2


def test_without_replies_nothing_is_claimed() -> None:
    result = quiz_result([])
    assert result.right.rating is None and result.distinction.share is None and result.chance is None
    assert result.distinction.interval is None


@given(st.lists(st.integers(1, 4), min_size=2, max_size=20))
def test_an_interval_holds_its_mean_and_stays_on_the_scale(ratings: list[int]) -> None:
    replies = [rated(rating, image=f"{number}.jpg") for number, rating in enumerate(ratings)]
    estimate = quiz_result(replies).right.rating
    assert estimate is not None and estimate.low is not None and estimate.high is not None
    assert 1 <= estimate.low <= estimate.mean + 1e-12 and estimate.mean <= estimate.high + 1e-12 <= 4 + 1e-9


def test_replies_come_back_as_they_were_written_and_only_those_of_the_model(tmp_path: Path) -> None:
    path = tmp_path / "quiz.jsonl"
    replies = (rated(4), chosen("wren"))
    for reply in replies:
        append_reply(path, reply)
    assert read_replies(path) == replies
    assert read_replies(path, {"model"}) == replies
    assert read_replies(path, {"another"}) == ()
    assert read_replies(tmp_path / "none.jsonl") == ()


@pytest.mark.parametrize(
    "line",
    ['{"task": "agreement"}', "[1]", "no JSON", '{"task": "other"}', "[" * 100_000, '{"task": ["agreement"]}'],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "quiz.jsonl"
    append_reply(path, rated(4))
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(BadReply, match=r"^line 2 of "):
        read_replies(path)


@pytest.mark.parametrize("rating", [0, 5, -1])
def test_a_rating_is_one_to_four(rating: int) -> None:
    with pytest.raises(BadReply, match="1, 2, 3 or 4"):
        rated(rating)


@pytest.mark.parametrize("person", ["x" * 41, "ann\n", "\x1b[2J"])
def test_a_name_is_short_and_visible(person: str) -> None:
    with pytest.raises(BadReply, match="name"):
        rated(1, person=person)


def test_the_table_has_a_line_for_each_reply_and_no_formulas() -> None:
    lines = list(csv.DictReader(StringIO(replies_csv([rated(4, person="=SUM(A1)"), chosen("wren")]))))
    assert [line["task"] for line in lines] == ["agreement", "distinction"]
    assert lines[0]["person"] == "'=SUM(A1)" and lines[0]["rating"] == "4"
    assert lines[1]["right"] == "0" and lines[1]["kind"] == "right"
