"""A small network for small images, with a field of a chosen size.

It is what the drawn birds (96 x 96 pixels) are learnt with on a CPU, from random weights. Blocks of convolution,
batch norm and ReLU bring the image down to one cell for each 8 pixels; how many of them are 3x3 decides the field
(Sec. 4: the cut decides what a prototype can look at). There is no classifier: the output is the embedding that a
prototypical part network's add-on reads.
"""

from collections import OrderedDict

from torch import nn

SMALLEST_FIELD, FIELD_STEP = 21, 8


class SmallNet(nn.Sequential):
    """Three stages that each halve the image; the output has `4 * width` channels and a step of 8 pixels.

    The first block sees 5 pixels, and every 3x3 block after it 2 steps more: `stage1.wider` (step 2) makes it 9,
    `stage2.halve` 13, and `stage3.halve` (step 4 until there) 21. The block `stage2.wider`, if it is there, adds 8,
    and each of `stage3.wider1`, `stage3.wider2`, ... (step 8) adds 16. So 21, 29, 37, 45, ... can be reached, and
    nothing between. `mix` is a 1x1 block: depth, but no field.

    Attributes:
        field: side in pixels of the field of a cell that the border of the image does not clip.
        out_channels: channels of the output.

    >>> import torch
    >>> SmallNet(field=37)(torch.zeros(1, 3, 96, 96)).shape
    torch.Size([1, 96, 12, 12])
    """

    def __init__(self, field: int = 53, width: int = 24) -> None:
        """A network with random weights.

        Args:
            field: side of the field in pixels: 21, 29, 37, 45, ...
            width: channels after the first stage; they double with each stage.

        Raises:
            ValueError: if no network of this kind has that field; the message names the nearest that one has.
        """
        if field not in nearest_fields(field):
            near = " or ".join(map(str, nearest_fields(field)))
            raise ValueError(
                f"no SmallNet has a field of {field} pixels: they have {SMALLEST_FIELD}, "
                f"{SMALLEST_FIELD + FIELD_STEP}, {SMALLEST_FIELD + 2 * FIELD_STEP}, ...; take {near}"
            )
        if width < 1:
            raise ValueError(f"a SmallNet has at least 1 channel after its first stage, not {width}")
        widenings, wider = divmod((field - SMALLEST_FIELD) // FIELD_STEP, 2)
        one, two, four = width, 2 * width, 4 * width
        # Halving at once, as ResNet does: a block at full resolution would cost more than all the others together.
        stage1 = {"halve": block(3, one, 5, stride=2), "wider": block(one, one, 3)}
        stage2 = {"halve": block(one, two, 3, stride=2)}
        if wider:
            stage2["wider"] = block(two, two, 3)
        stage3 = {"halve": block(two, four, 3, stride=2), "mix": block(four, four, 1)}
        for number in range(1, widenings + 1):
            stage3[f"wider{number}"] = block(four, four, 3)
        super().__init__(
            OrderedDict(
                stage1=nn.Sequential(OrderedDict(stage1)),
                stage2=nn.Sequential(OrderedDict(stage2)),
                stage3=nn.Sequential(OrderedDict(stage3)),
            )
        )
        self.field = field
        self.out_channels = four


def nearest_fields(field: int) -> tuple[int, ...]:
    """The sides that a `SmallNet` can have next to a wanted one: the one itself, or its neighbours.

    >>> nearest_fields(61), nearest_fields(60), nearest_fields(5)
    ((61,), (53, 61), (21,))
    """
    above = (field - SMALLEST_FIELD) % FIELD_STEP
    if field <= SMALLEST_FIELD:
        return (SMALLEST_FIELD,)
    return (field,) if not above else (field - above, field - above + FIELD_STEP)


def block(in_channels: int, out_channels: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """Convolution, batch norm and ReLU; an odd kernel keeps the size, a stride divides it."""
    # The norm has a bias of its own, so the convolution needs none.
    conv = nn.Conv2d(in_channels, out_channels, kernel, stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")  # as torchvision's ResNet
    return nn.Sequential(OrderedDict(conv=conv, norm=nn.BatchNorm2d(out_channels), relu=nn.ReLU(inplace=True)))
