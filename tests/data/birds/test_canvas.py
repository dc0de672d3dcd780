"""The canvas: fills in pixel coordinates, checked against areas known from geometry."""

import numpy as np
import pytest

from pixpnet.data.birds.canvas import Canvas
from pixpnet.data.birds.curves import closed_curve, ellipse, open_curve, turn


def test_an_even_fineness_has_no_center_and_is_refused():
    with pytest.raises(ValueError, match="odd"):
        Canvas.over(np.zeros((4, 4, 3), np.uint8), fineness=4)


@pytest.mark.parametrize("fineness", [3, 5])
def test_a_disc_has_the_area_and_center_of_a_disc_in_labels_and_picture(fineness):
    canvas = Canvas.over(np.zeros((64, 80, 3), np.uint8), fineness)
    canvas.fill(canvas.fixed(ellipse((50.25, 30.75), (20.0, 20.0), vertices=200)), (200, 0, 0), label=9)
    finished = canvas.finish()
    mask = finished.labels == 9
    cover = finished.picture[..., 0] / 200
    area = np.pi * 20**2
    # OpenCV paints the outline too: up to half a fine pixel all around.
    rim = 2 * np.pi * 20 * 0.5 / fineness
    for weights in (mask, cover):
        assert area - 10 < weights.sum() < area + rim + 10
        ys, xs = np.indices(weights.shape)
        center = (weights * xs).sum() / weights.sum(), (weights * ys).sum() / weights.sum()
        np.testing.assert_allclose(center, (50.25, 30.75), atol=0.1)


def test_a_background_that_nobody_paints_on_comes_back_unchanged():
    background = np.random.default_rng(0).integers(0, 256, (20, 30, 3)).astype(np.uint8)
    finished = Canvas.over(background, fineness=3).finish()
    assert np.array_equal(finished.picture, background)
    assert not finished.labels.any()


def test_curves_run_through_their_control_points_and_commute_with_rotation():
    points = [(0.0, 0.0), (1.0, 0.2), (1.3, 1.1), (0.1, 0.9)]
    np.testing.assert_allclose(closed_curve(points, samples=4)[::4], points, atol=1e-12)
    np.testing.assert_allclose(open_curve(points, samples=4)[::4], points, atol=1e-12)
    turned = [tuple(point) for point in np.array(points) @ turn(33.0).T]
    np.testing.assert_allclose(closed_curve(turned), closed_curve(points) @ turn(33.0).T, atol=1e-12)


def test_the_picture_is_the_mean_over_each_pixels_block():
    fine = np.random.default_rng(1).integers(0, 256, (30, 45, 4)).astype(np.uint8)
    means = fine.reshape(10, 3, 15, 3, 4).mean(axis=(1, 3))[..., :3]
    finished = Canvas(fine.copy(), fineness=3).finish()
    assert np.abs(finished.picture - means).max() <= 0.5 + 1e-6
    assert np.array_equal(finished.labels, fine[1::3, 1::3, 3])
    covered = (fine[..., 3] > 0).reshape(10, 3, 15, 3).mean(axis=(1, 3))
    assert np.abs(finished.cover / 255 - covered).max() <= 0.5 / 255 + 1e-6
