"""The paper's augmentation (App. E) step by step, as it is printed, with torchvision's transforms v2.

Two forms. `step_by_step` applies given random choices with torchvision's functions, which carry keypoints,
masks and box along; it is what the fused warp is tested against. `stock_pipeline` is the same list as
torchvision's own classes, drawing for themselves: what a plain training script would use, and the yardstick
for speed.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms.v2 import functional as F

from pixpnet.data import homography
from pixpnet.data.augmentation import Augmentation, Draw
from pixpnet.data.fused import image_corners, moved_corners, view_to_pixel
from pixpnet.data.preprocessing import Preprocessing, source_to_resized
from pixpnet.data.sample import Sample, inside

_BILINEAR = InterpolationMode.BILINEAR


def step_by_step(sample: Sample, draw: Draw, preprocessing: Preprocessing, augmentation: Augmentation) -> Sample:
    """The view that `pixpnet.data.fused.augment` gives for the same choices, resampled at every step."""
    size = preprocessing.resized(sample.size)
    carried: dict[str, Any] = {
        name: F.resize(item, list(size), interpolation=_mode(item), antialias=True)
        for name, item in _carried(sample).items()
    }
    if draw.blur_sigma is not None:
        kernel, sigma = [augmentation.blur_kernel] * 2, [draw.blur_sigma] * 2
        carried["image"] = F.gaussian_blur(carried["image"], kernel, sigma)
    if draw.sharpen:
        carried["image"] = F.adjust_sharpness(carried["image"], augmentation.sharpness)
    if draw.rotation is not None:
        angle = draw.rotation
        carried = {name: F.rotate(item, angle, interpolation=_mode(item)) for name, item in carried.items()}
    if draw.corners is not None:
        start, end = image_corners(size).tolist(), moved_corners(size, draw.corners).tolist()
        carried = {name: F.perspective(item, start, end, interpolation=_mode(item)) for name, item in carried.items()}
    if draw.shear is not None:
        shear = [draw.shear, 0.0]
        carried = {
            name: F.affine(item, 0.0, [0, 0], 1.0, shear, interpolation=_mode(item)) for name, item in carried.items()
        }
    if draw.flip:
        carried = {name: _flipped(item) for name, item in carried.items()}
    left, top, side = draw.crop_square(size, preprocessing.crop)
    new = [preprocessing.size] * 2
    carried = {name: F.crop(item, top, left, side, side) for name, item in carried.items()}
    carried = {name: F.resize(item, new, interpolation=_mode(item), antialias=True) for name, item in carried.items()}
    image = F.to_dtype(carried["image"], torch.float32, scale=True)
    carried["image"] = F.normalize(image, list(preprocessing.mean), list(preprocessing.std))
    to_pixel = view_to_pixel(size, draw, preprocessing) @ source_to_resized(sample.size, preprocessing)
    points = carried["keypoints"].numpy().astype(np.float64)
    return replace(
        sample,
        to_source=sample.to_source @ torch.from_numpy(homography.inverse(to_pixel)),
        visible=sample.visible & torch.from_numpy(inside(points, (preprocessing.size, preprocessing.size))),
        image=carried["image"],
        keypoints=carried["keypoints"],
        masks=carried.get("masks"),
        bounding_box=carried.get("bounding_box"),
    )


def stock_pipeline(
    preprocessing: Preprocessing,
    augmentation: Augmentation,
    turning: InterpolationMode = InterpolationMode.BILINEAR,
) -> v2.Compose:
    """The ten steps as torchvision's classes, for a Pillow image or an image tensor.

    They draw from torch's global generator, so this pipeline cannot repeat a view; training uses `augment`.

    Args:
        preprocessing: sizes and statistics.
        augmentation: probabilities and amounts.
        turning: interpolation of rotation and shear, where torchvision's own default is the nearest pixel.
    """
    return v2.Compose(
        [
            *([] if preprocessing.shortest_side is None else [v2.Resize(preprocessing.shortest_side)]),
            v2.RandomApply(
                [v2.GaussianBlur(augmentation.blur_kernel, augmentation.blur_sigma)],
                augmentation.blur_probability,
            ),
            v2.RandomAdjustSharpness(augmentation.sharpness, augmentation.sharpen_probability),
            v2.RandomApply(
                [v2.RandomRotation([-augmentation.max_rotation, augmentation.max_rotation], interpolation=turning)],
                augmentation.rotate_probability,
            ),
            v2.RandomPerspective(augmentation.perspective_scale, augmentation.perspective_probability),
            v2.RandomApply(
                [v2.RandomAffine([0.0, 0.0], shear=augmentation.max_shear, interpolation=turning)],
                augmentation.shear_probability,
            ),
            v2.RandomHorizontalFlip(augmentation.flip_probability),
            v2.RandomCrop(preprocessing.crop, pad_if_needed=preprocessing.shortest_side is None),
            *([] if preprocessing.crop == preprocessing.size else [v2.Resize(preprocessing.size)]),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(list(preprocessing.mean), list(preprocessing.std)),
        ]
    )


def _carried(sample: Sample) -> dict[str, Any]:
    """Everything of a sample that moves with its image, and the image."""
    items = {
        "image": sample.image,
        "keypoints": sample.keypoints,
        "masks": sample.masks,
        "bounding_box": sample.bounding_box,
    }
    return {name: item for name, item in items.items() if item is not None}


def _mode(item: Any) -> InterpolationMode:
    return InterpolationMode.NEAREST if isinstance(item, tv_tensors.Mask) else _BILINEAR


def _flipped(item: Any) -> Any:
    """Flips; torchvision counts keypoints from pixel centres here (W - 1 - x), from edges elsewhere."""
    flipped = F.horizontal_flip(item)
    if isinstance(item, tv_tensors.KeyPoints):
        return tv_tensors.wrap(flipped + torch.tensor([1.0, 0.0]), like=item)
    return flipped
