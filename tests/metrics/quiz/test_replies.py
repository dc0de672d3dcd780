"""Replies to a quiz: kept as lines, judged by hand-made cases, handed on as a table."""

import csv
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixpnet import file_lock
from pixpnet.metrics.quiz import (
    AgreementReply,
    BadReply,
    DistinctionReply,
    QuizResult,
    Reply,
    append_reply,
    quiz_result,
    read_replies,
    replies_csv,
)
from pixpnet.metrics.quiz import replies as replies_module
from tests.verdicts.half_lines import HeldLock

TIME = "2026-11-18T07:00:00+00:00"


def rated(rating: int, kind: str = "right", image: str = "a.jpg", person: str = "ann") -> AgreementReply:
    return AgreementReply(person, TIME, "model", image, 3, kind, rating)


def chosen(
    name: str,
    truth: str = "jay",
    model_right: bool = True,
    choices: int = 4,
    image: str = "a.jpg",
    person: str = "ann",
) -> DistinctionReply:
    return DistinctionReply(person, TIME, "model", image, name, truth, choices, model_right)


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
    assert (result.people, result.unnamed) == (2, 0)


def test_more_people_who_reply_alike_about_the_same_images_say_no_more_about_others() -> None:
    answers = {"a.jpg": "jay", "b.jpg": "wren", "c.jpg": "jay", "d.jpg": "jay", "e.jpg": "wren", "f.jpg": "jay"}

    def result_of(people: int) -> QuizResult:
        return quiz_result(
            [
                reply
                for person in range(people)
                for image, name in answers.items()
                for reply in (
                    chosen(name, image=image, person=str(person)),
                    rated(4 if name == "jay" else 1, image=image, person=str(person)),
                )
            ]
        )

    alone, many = result_of(1), result_of(20)
    for share in ("distinction", "distinction_right"):
        assert getattr(alone, share).interval is not None
        assert getattr(many, share).interval == getattr(alone, share).interval
        assert getattr(many, share).of == 120
    assert many.right.alike.interval == alone.right.alike.interval
    # By hand, of 6 images of which 4 are right: the share of a draw is binomial, and below 1/6 in 0.7 % of all.
    interval = alone.distinction.interval
    assert interval is not None and (interval.low, interval.high) == pytest.approx((1 / 3, 1.0))


def test_shares_of_one_image_have_no_interval_and_unanimous_ones_no_empty_one() -> None:
    assert quiz_result([chosen("jay", person=person) for person in "abc"]).distinction.interval is None
    replies = [chosen("jay", image=f"{number}.jpg", person=person) for number in range(10) for person in "abc"]
    interval = quiz_result(replies).distinction.interval
    # Wilson's, of 10 of 10: 10 / (10 + 1.96**2).
    assert interval is not None and (interval.low, interval.high) == pytest.approx((10 / 13.8416, 1.0))


def test_those_who_give_no_name_may_be_many() -> None:
    result = quiz_result([rated(4, person=""), rated(3, person=""), rated(2)])
    assert (result.people, result.unnamed) == (2, 2)


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


@pytest.mark.parametrize("name", ["a\u2028b.jpg", "a\u0085b.jpg", "a\x1cb.jpg", "a\r\nb.jpg"])
def test_names_may_hold_what_python_takes_for_the_end_of_a_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / "quiz.jsonl"
    replies = (rated(4, image=name), rated(2))
    for reply in replies:
        append_reply(path, reply)
    assert read_replies(path) == replies


def test_a_reader_that_sees_half_a_reply_waits_for_its_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append_reply(tmp_path / "whole.jsonl", rated(4))
    whole = (tmp_path / "whole.jsonl").read_bytes()
    held = HeldLock(tmp_path / "quiz.jsonl", whole)
    monkeypatch.setattr(file_lock, "lock", held.lock)
    assert read_replies(tmp_path / "quiz.jsonl") == (rated(4),)
    assert held.waited == 1


def test_a_reply_is_written_under_the_lock_and_without_one_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "quiz.jsonl"
    asked: list[int] = []
    monkeypatch.setattr(replies_module, "lock", asked.append)
    append_reply(path, rated(4))
    assert len(asked) == 1
    monkeypatch.undo()
    monkeypatch.setattr(file_lock, "fcntl", None)  # as on Windows
    append_reply(path, rated(2))
    assert read_replies(path) == (rated(4), rated(2))


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
