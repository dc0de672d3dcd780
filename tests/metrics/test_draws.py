"""Draws of whole classes, which consistency needs: the same on every machine, the larger after the smaller."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pixpnet.metrics.draws import drawn_classes

label_lists = st.lists(st.integers(0, 6), min_size=1, max_size=40)


@given(label_lists, st.integers(1, 50), st.integers(0, 5))
def test_a_class_is_drawn_whole_or_not_at_all(labels: list[int], count: int, seed: int) -> None:
    drawn = drawn_classes(labels, count, seed)
    assert Counter(labels[index] for index in drawn) == {
        label: number for label, number in Counter(labels).items() if label in {labels[index] for index in drawn}
    }


@given(label_lists, st.integers(1, 50), st.integers(0, 5))
def test_there_are_at_most_as_many_images_as_asked_for_unless_one_class_has_more(
    labels: list[int], count: int, seed: int
) -> None:
    drawn = drawn_classes(labels, count, seed)
    assert len(set(drawn)) == len(drawn) >= 1
    assert len(drawn) <= count or len({labels[index] for index in drawn}) == 1


@given(label_lists, st.integers(1, 50), st.integers(1, 50), st.integers(0, 5))
def test_a_larger_draw_begins_with_the_smaller_one(labels: list[int], one: int, other: int, seed: int) -> None:
    small, large = (drawn_classes(labels, count, seed) for count in sorted((one, other)))
    assert large[: len(small)] == small


def test_three_classes_of_four_images_by_hand() -> None:
    labels = [0, 1, 2] * 4
    assert [len(drawn_classes(labels, count, seed=0)) for count in (1, 4, 7, 8, 11, 12, 99)] == [4, 4, 4, 8, 8, 12, 12]
    # Every class is drawn first by some seed.
    assert {labels[drawn_classes(labels, 4, seed)[0]] for seed in range(20)} == {0, 1, 2}


def test_the_draw_does_not_depend_on_the_order_in_which_classes_come() -> None:
    labels = [0, 0, 1, 1, 2, 2]
    turned = labels[::-1]
    assert {labels[index] for index in drawn_classes(labels, 4, 3)} == {
        turned[index] for index in drawn_classes(turned, 4, 3)
    }


def test_no_images_give_an_empty_draw() -> None:
    assert drawn_classes([], 5, seed=0) == []
