"""The working image: what augmented views are made of, and all of a large file that a run has to keep for them.

App. E resizes a picture first and does everything else on the resized one. A view is one warp from the file, so the
file may hold far more than any view can show: a photograph of 4000 x 3000 pixels has 35 times the pixels of its resized
image. It is therefore averaged down first, by the largest whole factor that leaves it at least as large as the resized
image, and with a pixel for each pixel of the most enlarged view. Files of less than twice that size are left as they
are.

The rule is part of the augmentation, so views are the same whether the working image was kept or has just been made. It
does not touch un-augmented images: what becomes a prototype and what is answered is warped from the file itself.
"""

from pixpnet.data import homography
from pixpnet.data.augmentation import Augmentation
from pixpnet.data.preprocessing import Preprocessing
from pixpnet.data.resample import as_image, moved, pixels_of, resized
from pixpnet.data.sample import Sample


def reduction(size: tuple[int, int], preprocessing: Preprocessing, augmentation: Augmentation) -> int:
    """The whole factor by which a picture of this height and width is averaged down before it is augmented.

    >>> reduction((3000, 4000), Preprocessing(), Augmentation()), reduction((375, 500), Preprocessing(), Augmentation())
    (5, 1)
    """
    (height, width), (rows, cols) = size, preprocessing.resized(size)
    largest = max(1.0, augmentation.max_zoom * preprocessing.size / preprocessing.crop)
    return max(1, int(min(height / rows, width / cols) / largest))


def working_image(sample: Sample, preprocessing: Preprocessing, augmentation: Augmentation) -> Sample:
    """The sample at the size that augmented views need; the working image of a working image is itself.

    Args:
        sample: as read from its data set.
        preprocessing: the network's.
        augmentation: by how much views may enlarge it.
    """
    factor = reduction(sample.size, preprocessing, augmentation)
    if factor == 1:
        return sample
    height, width = sample.size
    small = round(height / factor), round(width / factor)
    to_small = homography.scaling(small[1] / width, small[0] / height)
    return moved(sample, as_image(resized(pixels_of(sample), small)), to_small)
