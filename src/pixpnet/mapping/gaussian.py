"""The Gaussian T of App. D over the pixels of a box: the largest value is 1, sigma the larger of height and width.

It is a product of a function of the row and one of the column, which is what makes the mapping fast. No value is below
exp(-1/4), that of a corner: the Gaussian orders the pixels of a field and hardly changes their height.
"""

from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor


def squared_offsets(length: int) -> Float64[np.ndarray, " length"]:
    """Squared distances of the pixels of a run from its centre, less that of the most central ones.

    A run of even length has two pixels nearest to its centre. They count as the centre, so that the largest value of
    the Gaussian is 1 whatever the length.

    >>> squared_offsets(3).tolist(), squared_offsets(4).tolist()
    ([1.0, 0.0, 1.0], [2.0, 0.0, 0.0, 2.0])
    """
    squares = np.square(np.arange(length) - (length - 1) / 2)
    return np.asarray(squares - squares.min())


@lru_cache(maxsize=4096)
def kernel(height: int, width: int) -> Float64[Tensor, "height width"]:
    """The Gaussian over a box.

    >>> kernel(1, 2).tolist()
    [[1.0, 1.0]]
    """
    squares = squared_offsets(height)[:, None] + squared_offsets(width)
    return torch.from_numpy(np.exp(-squares / (2 * max(height, width) ** 2)))
