"""The warning of a cut whose cells see almost everything, on windows or without."""

from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor, nn

from pixpnet.fields import Field, Fields, receptive_fields
from pixpnet.model.layers import better_cuts, sees_almost_everything, warn_of_field

if TYPE_CHECKING:
    from pixpnet.model.backbone import Backbone


def warn_if_it_sees_everything(backbone: "Backbone", field: Field, size: tuple[int, int], fields: Fields) -> None:
    """Warns where the cells of a backbone, of its largest windows where there are some, see too much for a part.

    Args:
        backbone: as it was cut.
        field: of the layer that it is cut at.
        size: height and width of the images.
        fields: of all layers.
    """
    windows = backbone.windows
    if windows is not None:
        sides = [scale.size for scale in windows.by_size]
        if not windows.start and not sees_almost_everything(max(sides) ** 2 / (size[0] * size[1])):
            return
        field = receptive_fields(_OneGrid(backbone, sides.index(max(sides))), (3, *size))[""]
    if sees_almost_everything(field.mean_fraction_union):
        better = better_cuts(backbone.network, fields) if windows is None else "smaller windows"
        warn_of_field(backbone.cut, field, better, stacklevel=4)


class _OneGrid(nn.Module):
    def __init__(self, backbone: "Backbone", grid: int) -> None:
        super().__init__()
        self.backbone, self.grid = backbone, grid

    def forward(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch channels rows cols"]:
        return self.backbone.grid_map(images, self.grid)
