"""One warp for image, keypoints, masks and box: however many geometric steps, the pixels are resampled once.

Bilinear, on the source grid. Where a file holds more than twice the pixels per side that are wanted, it is
first averaged down by a whole factor, so that detail finer than the output does not alias.
"""

from dataclasses import replace
from typing import TypeAlias

import cv2
import numpy as np
import torch
from jaxtyping import Bool, Float32, UInt8
from torchvision import tv_tensors

from pixpnet.data import homography
from pixpnet.data.homography import Matrix
from pixpnet.data.sample import Sample, box_in, inside, keypoints_in

Pixels: TypeAlias = UInt8[np.ndarray, "height width 3"]


def moved(sample: Sample, image: tv_tensors.Image, to_pixel: Matrix) -> Sample:
    """The sample with a new image and its annotations taken along by the same map.

    Args:
        sample: where the annotations come from.
        image: the picture under the map.
        to_pixel: from the sample's frame to that of the new image.
    """
    canvas = image.shape[-2], image.shape[-1]
    points = homography.transform_points(to_pixel, sample.keypoints.numpy().astype(np.float64))
    box = None if sample.bounding_box is None else _moved_box(sample.bounding_box, to_pixel, canvas)
    masks = None if sample.masks is None else _warped_masks(sample.masks.numpy(), to_pixel, canvas)
    return replace(
        sample,
        image=image,
        to_source=sample.to_source @ torch.from_numpy(homography.inverse(to_pixel)),
        keypoints=keypoints_in(points, canvas),
        visible=sample.visible & torch.from_numpy(inside(points, canvas)),
        masks=None if masks is None else tv_tensors.Mask(torch.from_numpy(masks)),
        bounding_box=None if box is None else box_in(box, canvas),
    )


def as_image(pixels: Pixels) -> tv_tensors.Image:
    """Pixels as a sample holds them, without a copy."""
    return tv_tensors.Image(torch.from_numpy(pixels).permute(2, 0, 1))


def pixels_of(sample: Sample) -> Pixels:
    """The decoded image as OpenCV wants it, without a copy."""
    if sample.image.dtype != torch.uint8:
        raise TypeError(
            f"{sample.id}: expected the uint8 image of a data set, got {sample.image.dtype}; "
            "a sample can be transformed once"
        )
    return sample.image.permute(1, 2, 0).numpy()


def warped(pixels: Pixels, to_pixel: Matrix, size: int) -> UInt8[np.ndarray, "{size} {size} 3"]:
    """The image under a map, bilinear, black where the source has nothing (as torchvision fills)."""
    pixels, to_pixel = _averaged_down(pixels, to_pixel, size)
    return np.asarray(
        cv2.warpPerspective(
            pixels, _between_centers(to_pixel), (size, size), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        )
    )


def resized(pixels: Pixels, size: tuple[int, int]) -> UInt8[np.ndarray, "{size[0]} {size[1]} 3"]:
    """The image at another height and width; averaged where it shrinks."""
    if pixels.shape[:2] == size:
        return pixels
    shrinks = size[0] < pixels.shape[0]
    mode = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(pixels, (size[1], size[0]), interpolation=mode))


def blurred(pixels: Pixels, sigma: float, kernel: int) -> Pixels:
    """Gaussian blur with a square kernel, mirrored at the border as torchvision does."""
    return np.asarray(cv2.GaussianBlur(pixels, (kernel, kernel), sigma, borderType=cv2.BORDER_REFLECT_101))


def sharpened(pixels: Pixels, factor: float) -> Pixels:
    """Pushed away from its own 3 x 3 average by a factor, as Pillow and torchvision do; the border stays."""
    kernel = np.ones((3, 3), dtype=np.float32)
    kernel[1, 1] = 5.0
    smooth = cv2.filter2D(pixels, -1, kernel / 13.0)
    result = pixels.copy()
    middle = (slice(1, -1), slice(1, -1))
    result[middle] = cv2.addWeighted(pixels, factor, smooth, 1.0 - factor, 0.0)[middle]
    return result


def normalized(
    pixels: Pixels, mean: tuple[float, float, float], std: tuple[float, float, float]
) -> Float32[np.ndarray, "3 height width"]:
    """Channels first, 0-1, minus mean, over std."""
    result = np.empty((3, *pixels.shape[:2]), dtype=np.float32)
    for channel, plane in enumerate(cv2.split(pixels)):
        np.multiply(plane, np.float32(1 / (255 * std[channel])), out=result[channel], dtype=np.float32)
        result[channel] -= np.float32(mean[channel] / std[channel])
    return result


def _averaged_down(pixels: Pixels, to_pixel: Matrix, size: int) -> tuple[UInt8[np.ndarray, "rows cols 3"], Matrix]:
    """Brings a large file to between one and two source pixels per output pixel."""
    center = np.array([[size / 2, size / 2], [size / 2 + 1, size / 2], [size / 2, size / 2 + 1]])
    spread = homography.transform_points(homography.inverse(to_pixel), center)
    density = float(min(np.linalg.norm(spread[1] - spread[0]), np.linalg.norm(spread[2] - spread[0])))
    if density < 2:
        return pixels, to_pixel
    height, width = pixels.shape[:2]
    small = max(1, round(height / int(density))), max(1, round(width / int(density)))
    back = homography.scaling(width / small[1], height / small[0])
    return resized(pixels, small), to_pixel @ back


def _between_centers(to_pixel: Matrix) -> Matrix:
    """OpenCV counts from pixel centres, and wants the map from the output back to the input."""
    there, back = homography.translation(0.5, 0.5), homography.translation(-0.5, -0.5)
    return homography.compose(back, homography.inverse(to_pixel), there)


def _moved_box(
    box: tv_tensors.BoundingBoxes, to_pixel: Matrix, size: tuple[int, int]
) -> tuple[float, float, float, float]:
    """The upright box around the moved corners, cut to an image of this height and width."""
    limits = np.array([size[1], size[0]])
    x0, y0, x1, y1 = box[0].tolist()
    corners = homography.transform_points(to_pixel, np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]]))
    (left, top), (right, bottom) = corners.min(axis=0).clip(0, limits), corners.max(axis=0).clip(0, limits)
    return float(left), float(top), float(right), float(bottom)


def _warped_masks(
    masks: Bool[np.ndarray, "parts height width"], to_pixel: Matrix, size: tuple[int, int]
) -> Bool[np.ndarray, "parts {size[0]} {size[1]}"]:
    """Nearest neighbour; eight masks travel as the bits of one image."""
    packed = np.packbits(masks, axis=0)
    matrix = _between_centers(to_pixel)
    flags = cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP
    planes = [cv2.warpPerspective(plane, matrix, size[::-1], flags=flags) for plane in packed]
    if not planes:
        return np.zeros((0, *size), dtype=bool)
    return np.unpackbits(np.stack(planes), axis=0, count=len(masks)).astype(bool)
