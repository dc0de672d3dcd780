"""The paper's augmentation (App. E) as one homography and one resampling.

Rotation, perspective, shear, flip, crop and both resizings compose into a single map from the file to the
network's input, so the pixels are interpolated once instead of five times: faster, and less blurred. Blur and
sharpness work on the resized image; where one of them is drawn (19 of 100 views), that image is made first
and warped from there. A file that is much larger than that is averaged down before anything else (`working.py`).

Against the step-by-step pipeline a view shows *more*: what an early step pushes out of the frame and a later
one brings back is black there and kept here.
"""

import numpy as np

from pixpnet.data import homography
from pixpnet.data.augmentation import Augmentation, Draw
from pixpnet.data.homography import Matrix
from pixpnet.data.preprocessing import Preprocessing, crop_to_pixel, normalize, source_to_resized
from pixpnet.data.resample import as_image, blurred, moved, pixels_of, resized, sharpened, warped
from pixpnet.data.sample import Sample
from pixpnet.data.working import working_image


def augment(sample: Sample, draw: Draw, preprocessing: Preprocessing, augmentation: Augmentation) -> Sample:
    """One augmented view of an image, its annotations with it.

    Args:
        sample: as read from its data set.
        draw: the random choices.
        preprocessing: sizes and statistics.
        augmentation: the amounts that are not drawn.

    Returns:
        a sample with a normalised float32 image; points that left the image are no longer visible.
    """
    sample = working_image(sample, preprocessing, augmentation)
    resized_to_pixel = view_to_pixel(preprocessing.resized(sample.size), draw, preprocessing)
    from_source = source_to_resized(sample.size, preprocessing)
    to_pixel = resized_to_pixel @ from_source
    pixels = pixels_of(sample)
    if draw.blur_sigma is None and not draw.sharpen:
        pixels = warped(pixels, to_pixel, preprocessing.size)
    else:
        pixels = resized(pixels, preprocessing.resized(sample.size))
        if draw.blur_sigma is not None:
            pixels = blurred(pixels, draw.blur_sigma, augmentation.blur_kernel)
        if draw.sharpen:
            pixels = sharpened(pixels, augmentation.sharpness)
        pixels = warped(pixels, resized_to_pixel, preprocessing.size)
    return normalize(moved(sample, as_image(pixels), to_pixel), preprocessing)


def view_to_pixel(size: tuple[int, int], draw: Draw, preprocessing: Preprocessing) -> Matrix:
    """Steps 4 to 9 of App. E as one map from the resized image of this height and width."""
    height, width = size
    center = (width / 2, height / 2)
    maps = []
    if draw.rotation is not None:
        maps.append(homography.rotation(draw.rotation, center))
    if draw.corners is not None:
        maps.append(homography.perspective(image_corners(size), moved_corners(size, draw.corners)))
    if draw.shear is not None:
        maps.append(homography.shearing(draw.shear, center))
    if draw.flip:
        maps.append(homography.mirroring(width))
    maps.append(crop_to_pixel(*draw.crop_square(size, preprocessing.crop), preprocessing))
    return homography.compose(*reversed(maps))


def image_corners(size: tuple[int, int]) -> homography.Points:
    """Corners (x, y) of an image of this height and width, clockwise from the top left."""
    height, width = size
    return np.array([[0.0, 0.0], [width, 0.0], [width, height], [0.0, height]])


def moved_corners(size: tuple[int, int], corners: tuple[tuple[float, float], ...]) -> homography.Points:
    """Where a perspective distortion takes the corners of an image of this height and width."""
    return np.asarray(image_corners(size) + np.array(corners) * np.array([size[1], size[0]]))
