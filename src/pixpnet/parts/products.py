"""The scalar product of every patch with every prototype: the only large part of a comparison."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from pixpnet.parts.precision import full_precision

# From so many prototypes on oneDNN's convolution was measured to be twice as fast on one thread.
_MANY = 512


def all_products(
    patches: Float[Tensor, "batch dim rows cols"], prototypes: Float[Tensor, "protos dim kernel_rows kernel_cols"]
) -> Float[Tensor, "batch protos positions_down positions_across"]:
    """A convolution of embeddings with prototypes, in full float32 or better.

    On one thread PyTorch leaves 1 x 1 convolutions of fewer than 16 images to another routine than on several threads
    or for more images (oneDNN), which takes twice as long for many prototypes; here they are left to oneDNN.

    >>> all_products(torch.ones(1, 3, 2, 2), torch.ones(5, 3, 1, 1)).shape
    torch.Size([1, 5, 2, 2])
    """
    if _left_to_onednn(patches, prototypes):
        return torch.mkldnn_convolution(patches, prototypes, None, (0, 0), (1, 1), (1, 1), 1)
    # Three digits (TensorFloat-32) are too few beside the pole of the similarity.
    with full_precision(patches.device):
        return F.conv2d(patches, prototypes)


def _left_to_onednn(patches: Tensor, prototypes: Tensor) -> bool:
    return (
        len(prototypes) >= _MANY
        and prototypes.shape[2:] == (1, 1)
        and patches.device.type == "cpu"
        and patches.dtype == prototypes.dtype == torch.float32
        and patches.numel() > 0
        and torch.backends.mkldnn.is_available()
        and bool(torch.backends.mkldnn.enabled)
        and not (torch.compiler.is_compiling() or torch.compiler.is_exporting())
    )
