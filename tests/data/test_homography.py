import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.data import homography

angles = st.floats(-80, 80)
coordinates = st.floats(-100, 100)


@given(st.lists(st.tuples(st.floats(0, 0.2), st.floats(0, 0.2)), min_size=4, max_size=4))
def test_perspective_takes_its_four_points_where_opencv_does(
    displacements: list[tuple[float, float]],
) -> None:
    start = np.array([[0.0, 0.0], [80.0, 0.0], [80.0, 60.0], [0.0, 60.0]])
    end = start + np.array(displacements) * [80, 60]
    matrix = homography.perspective(start, end)
    expected = cv2.getPerspectiveTransform(start.astype(np.float32), end.astype(np.float32))
    np.testing.assert_allclose(matrix, expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(homography.transform_points(matrix, start), end, atol=1e-8)


@given(angles, coordinates, coordinates)
def test_rotation_keeps_lengths_and_its_center(degrees: float, x: float, y: float) -> None:
    moved = homography.transform_points(homography.rotation(degrees, (3.0, 4.0)), np.array([[x, y], [3.0, 4.0]]))
    assert np.hypot(*(moved[0] - moved[1])) == pytest.approx(np.hypot(x - 3, y - 4), abs=1e-9)
    np.testing.assert_allclose(moved[1], [3, 4], atol=1e-9)


def test_a_positive_rotation_turns_right_to_top() -> None:
    moved = homography.transform_points(homography.rotation(90, (0.0, 0.0)), np.array([[1.0, 0.0]]))
    np.testing.assert_allclose(moved, [[0, -1]], atol=1e-12)


@given(angles, coordinates, coordinates)
def test_a_map_and_its_inverse_lead_back(degrees: float, x: float, y: float) -> None:
    matrix = homography.compose(
        homography.shearing(degrees / 2, (5.0, 5.0)), homography.scaling(0.5, 2.0), homography.mirroring(10.0)
    )
    there = homography.transform_points(matrix, np.array([[x, y]]))
    np.testing.assert_allclose(homography.transform_points(homography.inverse(matrix), there), [[x, y]], atol=1e-8)


def test_composition_applies_the_last_map_first() -> None:
    both = homography.compose(homography.scaling(2.0, 2.0), homography.translation(1.0, 0.0))
    np.testing.assert_allclose(homography.transform_points(both, np.array([[1.0, 1.0]])), [[4, 2]])
