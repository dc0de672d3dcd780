"""Several samples of one size as stacked tensors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int64, Shaped
from torch import Tensor

from pixpnet.data.sample import Sample


@dataclass(frozen=True)
class Batch:
    """What the network is fed, and what is known about it; see `Sample` for each field.

    Attributes:
        images: normalised.
        labels: classes.
        ids: stable ids.
        keypoints: x and y in the `pixel` frame.
        visible: which of them can be seen.
        to_source: from the `pixel` to the `source` frame; stays on the CPU, as not every device has float64.
        source_sizes: height and width of each file's image.
        masks: per part, where the data set has them.
        boxes: x0 y0 x1 y1 in the `pixel` frame, where the data set has them.
    """

    images: Float[Tensor, "batch 3 height width"]
    labels: Int64[Tensor, " batch"]
    ids: tuple[str, ...]
    keypoints: Float[Tensor, "batch points 2"]
    visible: Bool[Tensor, "batch points"]
    to_source: Shaped[Tensor, "batch 3 3"]
    source_sizes: Int64[Tensor, "batch 2"]
    masks: Bool[Tensor, "batch parts height width"] | None
    boxes: Float[Tensor, "batch 4"] | None

    def __len__(self) -> int:
        return len(self.ids)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "Batch":
        """The same batch on another device."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "Batch":
        """The same batch in page-locked memory; the data loader calls this."""
        return self._map(lambda tensor: tensor.pin_memory())

    def _map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        return replace(
            self,
            images=change(self.images),
            labels=change(self.labels),
            keypoints=change(self.keypoints),
            visible=change(self.visible),
            source_sizes=change(self.source_sizes),
            masks=None if self.masks is None else change(self.masks),
            boxes=None if self.boxes is None else change(self.boxes),
        )


def collate(samples: Sequence[Sample]) -> Batch:
    """Stacks samples of one data set and one size."""
    masks = [sample.masks.as_subclass(Tensor) for sample in samples if sample.masks is not None]
    boxes = [sample.bounding_box[0].as_subclass(Tensor) for sample in samples if sample.bounding_box is not None]
    for name, known in (("masks", len(masks)), ("boxes", len(boxes))):
        if known not in (0, len(samples)):
            raise ValueError(f"{known} of {len(samples)} samples have {name}; a data set has them for all or none")
    return Batch(
        images=torch.stack([sample.image.as_subclass(Tensor) for sample in samples]),
        labels=torch.tensor([sample.label for sample in samples]),
        ids=tuple(sample.id for sample in samples),
        keypoints=torch.stack([sample.keypoints.as_subclass(Tensor) for sample in samples]),
        visible=torch.stack([sample.visible for sample in samples]),
        to_source=torch.stack([sample.to_source for sample in samples]),
        source_sizes=torch.tensor([sample.source_size for sample in samples]),
        masks=torch.stack(masks) if masks else None,
        boxes=torch.stack(boxes) if boxes else None,
    )
