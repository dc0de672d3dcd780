"""The network: image -> embeddings -> distances -> scores -> logits, and what it must remember about itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor, nn

from pixpnet.data import Preprocessing
from pixpnet.fields import Field, receptive_fields
from pixpnet.model.add_on import build_add_on
from pixpnet.model.backbone import Backbone
from pixpnet.model.heads import HEADS
from pixpnet.model.origin import Origin
from pixpnet.model.pooling import refuse_too_few_cells
from pixpnet.model.prototypes import Matches, PrototypeLayer
from pixpnet.recipe import Architecture


@dataclass(frozen=True)
class Output:
    """What the network makes of a batch of images."""

    logits: Float[Tensor, "batch classes"]
    matches: Matches


class PixPNet(nn.Module):
    """A prototypical part network whose cells see known pixels; the other members of the family are other recipes.

    Attributes:
        backbone: the core, cut at a layer.
        add_on: from its channels to embeddings, cell by cell.
        prototype_layer: prototypes, and the comparison with them.
        head: from scores to logits.
        labels: the class of each prototype.
        architecture: how it is made.
        backbone_name: what the backbone was built from, for `save`.
        class_names: for people; logits are in their order.
        preprocessing: from a file to what the network expects.
        origins: the training patch of each prototype; None as long as prototypes are not patches.
        pictures: the folder of its prototypes' pictures, where it was read from a run (`picture_name`); may be None.

    Example:
        >>> from pixpnet import zoo
        >>> backbone = Backbone(zoo.build("squeezenet1_1"), "maxpool1", (32, 32))
        >>> model = PixPNet(backbone, Architecture(dim=8), ("jay", "wren"), Preprocessing().scaled_to(32)).eval()
        >>> model(torch.zeros(1, 3, 32, 32)).logits.shape
        torch.Size([1, 2])
        >>> model.field.boxes(0, 0)
        [Box(y0=0, x0=0, y1=7, x1=7)]
    """

    labels: Tensor

    def __init__(
        self,
        backbone: Backbone,
        architecture: Architecture,
        class_names: Sequence[str],
        preprocessing: Preprocessing,
        backbone_name: str = "",
    ) -> None:
        super().__init__()
        if len(class_names) < 2:
            raise ValueError(f"a classifier tells at least two classes apart, got {list(class_names)}")
        count = architecture.prototypes_per_class
        labels = torch.arange(len(class_names)).repeat_interleave(count)
        self.architecture = architecture
        self.backbone_name = backbone_name
        self.class_names = tuple(class_names)
        self.preprocessing = preprocessing
        self.origins: tuple[Origin, ...] | None = None
        self.pictures: Path | None = None
        self.backbone = backbone
        self.add_on = build_add_on(backbone.channels, architecture).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.prototype_layer = PrototypeLayer(len(labels), architecture)
        self.head = HEADS[architecture.head](labels, len(class_names), architecture)
        self.register_buffer("labels", labels, persistent=False)
        self._fields: dict[tuple[int, int], Field] = {}

    def forward(self, images: Float[Tensor, "batch 3 height width"]) -> Output:
        """Logits, with the comparison that they are made of."""
        return self.compare(self.embed(images))

    def embed(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim rows cols"]:
        """The embedded patches of normalised images, Z = f(x)."""
        embeddings: Tensor = self.add_on(self.backbone(images))
        return embeddings

    def compare(self, embeddings: Float[Tensor, "batch dim rows cols"]) -> Output:
        """Logits of embedded patches."""
        matches: Matches = self.prototype_layer(embeddings)
        return Output(self.head(matches.scores), matches)

    @property
    def behind_stem(self) -> "BehindStem":
        """The network as seen from behind the frozen part of its backbone; it shares everything with this one."""
        return BehindStem(self)

    @property
    def prototypes(self) -> Float[Tensor, "protos dim kernel_rows kernel_cols"]:
        """The prototypes themselves."""
        return self.prototype_layer.prototypes

    @property
    def num_classes(self) -> int:
        """How many classes it tells apart."""
        return len(self.class_names)

    def prototypes_of(self, label: int) -> Int64[Tensor, " protos"]:
        """The numbers of a class's prototypes."""
        return (self.labels == label).nonzero().flatten()

    @property
    def field(self) -> Field:
        """What each patch that is compared with a prototype sees of an image of the training size, exactly."""
        return self.field_at((self.preprocessing.size, self.preprocessing.size))

    def field_at(self, size: tuple[int, int]) -> Field:
        """Like `field`, for images of another height and width.

        It is the field of the network as it answers (eval mode), whatever mode it is in now.
        """
        if size not in self._fields:
            training = {module: module.training for module in self.modules()}
            try:
                cells = receptive_fields(nn.Sequential(self.backbone, self.add_on).eval(), (3, *size))[""]
            finally:
                for module, mode in training.items():
                    module.training = mode
            how = self.architecture
            self._fields[size] = cells.window(how.prototype_rows, how.prototype_cols)
        return self._fields[size]

    def check_pooling(self) -> None:
        """Says before any training if an image has too few cells for this way of pooling.

        Raises:
            ValueError: if it has.
        """
        if self.architecture.pooling == "distinct":
            refuse_too_few_cells(self.field.shape[-2:], self.architecture.prototypes_per_class)

    def save(self, path: Path) -> None:
        """Writes the whole model to one ``.safetensors`` file, at once or not at all; see `load`."""
        from pixpnet.model.file import save_model

        save_model(self, path)

    @classmethod
    def load(cls, path: Path | str, own_code: bool = False) -> "PixPNet":
        """A trained model, ready to answer: in eval mode, with its preprocessing, class names and origins.

        Args:
            path: a run folder, or its ``model.safetensors``.
            own_code: the backbone may be a person's own (``module.path:callable``), which is imported and called.
                Only say so for files that you trust.

        Raises:
            ModelFileError: if the file is missing, damaged, or not such a model.
            ManifestError: if a file in the run folder is another run's.

        Warns:
            ManifestWarning: if the folder is a run of an earlier version, which cannot be checked for that.
        """
        from pixpnet.model.file import load_model

        return load_model(Path(path), own_code)


class BehindStem(nn.Module):
    """A network that takes what its frozen stem gave (`Backbone.stem`) instead of images."""

    def __init__(self, model: PixPNet) -> None:
        super().__init__()
        self.model = model

    def forward(self, features: Shaped[Tensor, "..."]) -> Output:
        """Logits, with the comparison that they are made of."""
        return self.model.compare(self.embed(features))

    def embed(self, features: Shaped[Tensor, "..."]) -> Float[Tensor, "batch dim rows cols"]:
        """The embedded patches."""
        embeddings: Tensor = self.model.add_on(self.model.backbone.tail(features))
        return embeddings
