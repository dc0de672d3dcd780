"""Where windows lie: laws of their places along an axis, and what a person may ask for."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.windows import Scale, Windows, resolve_windows, window_starts


@given(st.integers(1, 400), st.data())
def test_windows_cover_the_axis_in_equal_steps_and_end_flush(length: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, length))
    stride = data.draw(st.integers(1, size))
    starts = window_starts(length, size, stride)
    steps = [after - before for before, after in pairwise(starts)]
    assert starts[0] == 0
    assert starts[-1] + size == length
    assert all(0 < step <= stride for step in steps)
    assert not steps or max(steps) - min(steps) <= 1  # equal, to a whole number
    # No window could be spared: with one fewer the steps would exceed the stride.
    assert len(starts) == 1 or (len(starts) - 2) * stride < length - size


def test_a_window_may_be_given_in_pixels_or_as_a_fraction() -> None:
    assert resolve_windows(112, 56, "", 384) == Windows(112, 56)
    assert resolve_windows(0.25, 0.125, "layer1", 384) == Windows(96, 48, "layer1")
    assert resolve_windows(111, None, "", 384).stride == 55


@pytest.mark.parametrize(
    ("window", "stride", "says"),
    [
        (500, None, "does not fit into images of 384 x 384"),
        (0, None, "above 0"),
        (-3, None, "above 0"),
        (float("nan"), None, "above 0"),
        (11.5, None, "whole number of pixels"),
        (64, 65, "gaps that no cell sees"),
        (64, 0.5, "gaps that no cell sees"),
    ],
)
def test_windows_that_cannot_be_are_refused_by_name(window: float, stride: float | None, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        resolve_windows(window, stride, "", 384)


def test_several_sizes_have_one_stride_each_or_one_for_all() -> None:
    assert resolve_windows("72,144", "40,80", "layer1", 384) == Windows(72, 40, "layer1", (Scale(144, 80),))
    assert resolve_windows("0.25, 192", 48, "", 384) == Windows(96, 48, "", (Scale(192, 48),))
    assert resolve_windows("60,100,20", None, "", 384) == Windows(60, 30, "", (Scale(100, 50), Scale(20, 10)))
    assert Windows(8, 4, "x", (Scale(16, 2),)).by_size == (Windows(8, 4, "x"), Windows(16, 2, "x"))


@pytest.mark.parametrize(
    ("window", "stride", "says"),
    [
        ("72,144", "40,80,90", "2 sizes of windows have one stride each, or one for all, and 3 came"),
        ("72", "40,80", "1 sizes of windows"),
        ("72,large", None, "several with commas such as 72,144, got '72,large'"),
        ("72,", None, "several with commas"),
        ("72,72", None, "differ in size, got 72, 72 pixels"),
        ("72,400", None, "window of 400 pixels does not fit"),
        ("72,144", "40,150", "windows of 144 pixels with a stride of 150 would leave gaps"),
    ],
)
def test_several_sizes_that_cannot_be_are_refused_by_name(window: str, stride: str | None, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        resolve_windows(window, stride, "", 384)


def test_a_window_that_does_not_fit_along_an_axis_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        window_starts(10, 11, 3)
