"""Samples as bytes, and a store of them that the processes of a loader share (`SharedCache`)."""

from dataclasses import dataclass

import torch
from safetensors.torch import load, save
from torch import Tensor
from torchvision import tv_tensors

from pixpnet.data.catalog import Entry
from pixpnet.data.sample import Sample
from pixpnet.data.shared_cache import SharedCache, Stamp


@dataclass(frozen=True)
class SharedStore:
    """Samples where the processes of a loader share them; see `pixpnet.data.keeping.Store`.

    Attributes:
        cache: the file that holds them.
    """

    cache: SharedCache

    def find(self, key: str, stamp: Stamp, entry: Entry) -> Sample | None:
        """See `pixpnet.data.keeping.Store`."""
        content = self.cache.find(key, stamp)
        return None if content is None else sample_from(content, entry)

    def add(self, key: str, stamp: Stamp, sample: Sample) -> None:
        """See `pixpnet.data.keeping.Store`."""
        self.cache.add(key, stamp, content_of(sample))


def content_of(sample: Sample) -> bytes:
    """Everything that a sample holds but its label and its id."""
    tensors: dict[str, Tensor] = {
        # As it was decoded, so that it is read without turning it.
        "image": sample.image.as_subclass(Tensor).permute(1, 2, 0).contiguous(),
        "source_size": torch.tensor(sample.source_size),
        "to_source": sample.to_source.contiguous(),
        "keypoints": sample.keypoints.as_subclass(Tensor).contiguous(),
        "visible": sample.visible.contiguous(),
    }
    if sample.masks is not None:
        tensors["masks"] = sample.masks.as_subclass(Tensor).contiguous()
    if sample.bounding_box is not None:
        tensors["bounding_box"] = sample.bounding_box.as_subclass(Tensor).contiguous()
    return save(tensors)


def sample_from(content: bytes, entry: Entry) -> Sample:
    """What `content_of` was given."""
    tensors = load(content)
    image = tensors["image"].permute(2, 0, 1)
    size = image.shape[1], image.shape[2]
    masks, box = tensors.get("masks"), tensors.get("bounding_box")
    height, width = tensors["source_size"].tolist()
    return Sample(
        image=tv_tensors.Image(image),
        label=entry.label,
        id=entry.id,
        source_size=(height, width),
        to_source=tensors["to_source"],
        keypoints=tv_tensors.KeyPoints(tensors["keypoints"], canvas_size=size),
        visible=tensors["visible"],
        masks=None if masks is None else tv_tensors.Mask(masks),
        bounding_box=None
        if box is None
        else tv_tensors.BoundingBoxes(box, format=tv_tensors.BoundingBoxFormat.XYXY, canvas_size=size),
    )
