"""The network: image -> embeddings -> matches -> scores -> logits, and what it must remember about itself."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64, Shaped
from torch import Tensor, nn

from pixpnet.data import Preprocessing
from pixpnet.family import DEFAULT, member_named
from pixpnet.fields import Field, receptive_fields
from pixpnet.model.backbone import Backbone
from pixpnet.model.calibration import Calibration
from pixpnet.model.grids import Embeddings, Grid, Output
from pixpnet.model.mending import Mending
from pixpnet.model.modes import evaluating
from pixpnet.model.origin import Origin
from pixpnet.parts import Comparison, Decision, EditableDecision, Matches, Ownership, Parts
from pixpnet.parts.matches import matches_of

# Of all models: one would have to be copied, and saved, with its model.
_TRACING = threading.Lock()


class PixPNet(nn.Module):
    """A prototypical part network whose cells see known pixels; which member of the family it is, its parts decide.

    Attributes:
        backbone: the core, cut at one or more layers.
        head: from scores to logits, a `Decision`.
        ownership: which classes each prototype speaks for.
        member: its name in the family.
        architecture: how it is made: a record of the member's own.
        backbone_name: what the backbone was built from, for `save`.
        class_names: for people; logits are in their order.
        preprocessing: from a file to what the network expects.
        origins: the training patch of each prototype; None as long as prototypes are not patches.
        pictures: the folder of its prototypes' pictures, where it was read from a run (`picture_name`); may be None.
        calibration: what it knows about its own certainty; None as long as nobody has measured that.
        names: what people call prototypes, by their numbers (`verdicts.jsonl` beside the model).
        mendings: what was done to it after training, oldest first; mostly nothing.

    Example:
        >>> from pixpnet import zoo
        >>> from pixpnet.members.pixpnet import Architecture
        >>> backbone = Backbone(zoo.build("squeezenet1_1"), "maxpool1", (32, 32))
        >>> model = PixPNet(backbone, Architecture(dim=8), ("jay", "wren"), Preprocessing().scaled_to(32)).eval()
        >>> model(torch.zeros(1, 3, 32, 32)).logits.shape
        torch.Size([1, 2])
        >>> model.field.boxes(0, 0)
        [Box(y0=0, x0=0, y1=7, x1=7)]
    """

    head: Decision
    ownership: Ownership

    def __init__(
        self,
        backbone: Backbone,
        architecture: Any,
        class_names: Sequence[str],
        preprocessing: Preprocessing,
        backbone_name: str = "",
        member: str = DEFAULT,
    ) -> None:
        super().__init__()
        if len(class_names) < 2:
            raise ValueError(f"a classifier tells at least two classes apart, got {list(class_names)}")
        self.member = member
        self.architecture = architecture
        self.backbone_name = backbone_name
        self.class_names = tuple(class_names)
        self.preprocessing = preprocessing
        self.origins: tuple[Origin, ...] | None = None
        self.pictures: Path | None = None
        self.calibration: Calibration | None = None
        self.names: Mapping[int, str] = {}
        self.mendings: tuple[Mending, ...] = ()
        self.backbone = backbone
        parts = self._made_of(architecture)
        self._cuts = parts.cuts or tuple(range(len(backbone.grid_channels)))
        self._branches = parts.branches or ("",) * len(self._cuts)
        for grid, add_on in enumerate(parts.add_ons):
            self.add_module(_named("add_on", grid), add_on.to(memory_format=torch.channels_last))  # type: ignore[call-overload]
        self._fields: dict[tuple[int, int], tuple[Field, ...]] = {}
        self._put(parts)

    def _made_of(self, architecture: Any) -> Parts:
        return member_named(self.member).parts(architecture, self.backbone.grid_channels, len(self.class_names))

    def _put(self, parts: Parts) -> None:
        for grid, comparison in enumerate(parts.comparisons):
            self.add_module(_named("prototype_layer", grid), comparison)
        self.head = parts.decision
        self.ownership = parts.ownership
        if self.head.asks_for_fields:
            sees = [field.mean_fraction_union for field in self.fields]
            self.head.set_field_shares(
                torch.tensor([sees[grid.number] for grid in self.grids for _ in grid.prototypes])
            )

    def rebuild(self, architecture: Any) -> None:
        """Gets other prototypes and another decision, with first weights; backbone and add-ons stay as they are.

        For whatever changes how many prototypes there are, such as pruning. An optimizer does not know the new ones:
        the training loop makes another one after actions that call this (`training.fitting`).

        Args:
            architecture: of the same member, with the same embeddings.
        """
        with torch.random.fork_rng(devices=[]):
            parts = self._made_of(architecture)
        device, dtype, training = self.device, self.dtype, self.training
        self.architecture, self.origins, self.calibration = architecture, None, None
        self.names, self.mendings = {}, ()
        self._put(parts)
        for module in (*(grid.comparison for grid in self.grids), self.head, self.ownership):
            module.to(device, dtype).train(training)

    def make_editable(self) -> EditableDecision:
        """Gives it a decision with the same answers whose weights can be changed one by one.

        Raises:
            NoEdit: if there is none; the message says why.
        """
        head = self.head.reweighted(self.ownership)
        self.head = head.to(self.device, self.dtype).train(self.training)
        return head

    def forward(self, images: Float[Tensor, "batch 3 height width"]) -> Output:
        """Logits, with the comparison that they are made of."""
        return self.compare(self.embed(images))

    def embed(self, images: Float[Tensor, "batch 3 height width"]) -> Embeddings:
        """The embedded patches of normalised images, Z = f(x), of each grid."""
        return self.add_on_of(self.backbone.maps(images))

    def add_on_of(self, maps: Sequence[Float[Tensor, "batch _channels _rows _cols"]]) -> Embeddings:
        """Embeddings of each grid, from what the backbone gave at each cut."""
        return tuple(grid.add_on(maps[grid.cut]) for grid in self.grids)

    def embed_cells(
        self, images: Float[Tensor, "batch 3 height width"], grid: int, wanted: Bool[Tensor, "batch rows cols"]
    ) -> Float[Tensor, "cells dim"]:
        """Some embedded cells of a grid, image by image and row by row (where `Backbone.cells_alone`)."""
        here = self.grids[grid]
        cells = self.backbone.some_cells(images, here.cut, wanted)
        embedded: Tensor = here.add_on(cells[:, :, None, None])
        return embedded.flatten(1)

    def match(self, embeddings: Embeddings) -> Matches:
        """Compares embedded patches with all prototypes."""
        grids = zip(self.grids, embeddings, strict=True)
        return matches_of(tuple(grid.comparison(cells) for grid, cells in grids))

    def compare(self, embeddings: Embeddings) -> Output:
        """Logits of embedded patches."""
        matches = self.match(embeddings)
        return Output(self.head(matches), matches)

    @property
    def behind_stem(self) -> "BehindStem":
        """The network as seen from behind the frozen part of its backbone; it shares everything with this one."""
        return BehindStem(self)

    @property
    def grids(self) -> tuple[Grid, ...]:
        """What prototypes look at, in the order of their numbers."""
        result: list[Grid] = []
        first = 0
        for number, (cut, branch) in enumerate(zip(self._cuts, self._branches, strict=True)):
            add_on, comparison = (self._modules[_named(part, number)] for part in ("add_on", "prototype_layer"))
            assert add_on is not None and isinstance(comparison, Comparison)
            result.append(Grid(number, add_on, comparison, first, cut, branch))
            first += len(comparison.prototypes)
        return tuple(result)

    def grid_of(self, prototype: int) -> Grid:
        """The grid that a prototype looks at."""
        return next(grid for grid in self.grids if prototype in grid.prototypes)

    @property
    def grid_layers(self) -> tuple[str, ...]:
        """The layer (and size of windows) that each grid reads, and its branch where there are several.

        "" for the end of the network.
        """
        layers = self.backbone.grid_names
        return tuple(
            f"{layers[grid.cut]} ({grid.branch})".strip() if grid.branch else layers[grid.cut] for grid in self.grids
        )

    @property
    def parts(self) -> Parts:
        """What it is made of behind the backbone."""
        grids = self.grids
        return Parts(
            tuple(grid.add_on for grid in grids),
            tuple(grid.comparison for grid in grids),
            self.ownership,
            self.head,
            self._cuts,
            self._branches,
        )

    @property
    def prototypes(self) -> Float[Tensor, "protos dim kernel_rows kernel_cols"]:
        """The prototypes themselves, where there is one grid.

        Raises:
            ValueError: if there are several, whose prototypes may differ in size: ask one of `grids`.
        """
        grids = self.grids
        if len(grids) > 1:
            raise ValueError(f"there are {len(grids)} grids, each with its own prototypes: ask one of .grids")
        return grids[0].comparison.prototypes

    @property
    def num_prototypes(self) -> int:
        """How many prototypes there are in all grids."""
        return sum(len(grid.prototypes) for grid in self.grids)

    @property
    def num_classes(self) -> int:
        """How many classes it tells apart."""
        return len(self.class_names)

    @property
    def labels(self) -> Int64[Tensor, " protos"]:
        """The class that each prototype is listed under (`Ownership.labels`)."""
        return self.ownership.labels

    @property
    def device(self) -> torch.device:
        """The device that the parameters are on."""
        return self.ownership.labels.device

    @property
    def dtype(self) -> torch.dtype:
        """Of its prototypes, and of the images that it takes."""
        return self.grids[0].comparison.prototypes.dtype

    def prototypes_of(self, label: int) -> Int64[Tensor, " protos"]:
        """The numbers of the prototypes that are expected in images of a class: mostly those that speak for it."""
        return self.ownership.of(label)

    def similarity_maps(
        self, matches: Matches, prototypes: Sequence[int]
    ) -> tuple[Float[Tensor, "batch _rows _cols"], ...]:
        """The similarity of some prototypes to every patch of their grids."""
        grids = [self.grid_of(prototype) for prototype in prototypes]
        return tuple(
            grid.comparison.similarity(matches.grids[grid.number].distance_maps[:, prototype - grid.first])
            for grid, prototype in zip(grids, prototypes, strict=True)
        )

    @property
    def field(self) -> Field:
        """What each patch that is compared with a prototype sees of an image of the training size, exactly.

        Raises:
            ValueError: if there are several grids: ask `fields`.
        """
        return self.field_at((self.preprocessing.size, self.preprocessing.size))

    def field_at(self, size: tuple[int, int]) -> Field:
        """Like `field`, for images of another height and width."""
        fields = self.fields_at(size)
        if len(fields) > 1:
            raise ValueError(f"there are {len(fields)} grids, each with its own field: ask .fields")
        return fields[0]

    @property
    def fields(self) -> tuple[Field, ...]:
        """The field of each grid's patches, for images of the training size."""
        return self.fields_at((self.preprocessing.size, self.preprocessing.size))

    def fields_at(self, size: tuple[int, int]) -> tuple[Field, ...]:
        """Like `fields`, for images of another height and width.

        They are the fields of the network as it answers (eval mode), whatever mode it is in now.
        """
        if size not in self._fields:
            # Threads that ask for the same fields at once wait for the first, instead of tracing them again.
            with _TRACING, evaluating(self):
                if size not in self._fields:
                    self._fields[size] = tuple(
                        grid.comparison.field_of(receptive_fields(self.embedding(grid.number), (3, *size))[""])
                        for grid in self.grids
                    )
        return self._fields[size]

    @property
    def mean_field(self) -> float:
        """The mean share of the image that a prototype's cell sees: of each grid, weighed by its prototypes."""
        fields = self.fields
        if len(fields) == 1:
            return fields[0].mean_fraction_union
        counts = [len(grid.prototypes) for grid in self.grids]
        return sum(count * field.mean_fraction_union for count, field in zip(counts, fields, strict=True)) / sum(counts)

    def embedding(self, grid: int) -> nn.Module:
        """From images to the embeddings of one grid, as a module of its own that shares everything with this one."""
        chosen = self.grids[grid]
        return _GridEmbedding(self.backbone, chosen.add_on, chosen.cut)

    def check_grids(self) -> None:
        """Says before any training if an image has too few cells for the way in which they are pooled.

        Raises:
            ValueError: if it has.
        """
        for grid, field in zip(self.grids, self.fields, strict=True):
            rows, cols = field.shape[-2:]
            grid.comparison.check((rows, cols))

    def save(self, path: Path) -> None:
        """Writes the whole model to one ``.safetensors`` file, at once or not at all; see `load`."""
        from pixpnet.model.file import save_model

        save_model(self, path)

    @classmethod
    def load(cls, path: Path | str, trust_code: bool = False, backbone: nn.Module | None = None) -> "PixPNet":
        """A trained model, ready to answer: in eval mode, with its preprocessing, class names and origins.

        Args:
            path: a run folder, or its ``model.safetensors``.
            trust_code: the backbone may be user code (``module.path:callable``), which is imported and called.
                Only say so for files that you trust.
            backbone: the network that the model was trained on, where that was an object of the caller's: a file holds
                its weights, not its code. A copy gets the file's weights.

        Raises:
            ModelFileError: if the file is missing, damaged, or not such a model.
            ManifestError: if a file in the run folder is another run's.

        Warns:
            ManifestWarning: if the folder is a run of an earlier version, which cannot be checked for that.
        """
        from pixpnet.model.file import load_model

        return load_model(Path(path), trust_code, backbone)


def _named(part: str, grid: int) -> str:
    """The first grid has plain names, so that weights are called the same in files of all versions."""
    return part if grid == 0 else f"{part}_{grid + 1}"


class BehindStem(nn.Module):
    """A network that takes what its frozen stem gave (`Backbone.stem`) instead of images."""

    def __init__(self, model: PixPNet) -> None:
        super().__init__()
        self.model = model

    def forward(self, features: Shaped[Tensor, "..."]) -> Output:
        """Logits, with the comparison that they are made of."""
        return self.model.compare(self.embed(features))

    def embed(self, features: Shaped[Tensor, "..."]) -> Embeddings:
        """The embedded patches."""
        return self.model.add_on_of(self.model.backbone.tail_maps(features))


class _GridEmbedding(nn.Module):
    def __init__(self, backbone: Backbone, add_on: nn.Module, cut: int) -> None:
        super().__init__()
        self.backbone, self.add_on, self.cut = backbone, add_on, cut

    def forward(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim rows cols"]:
        embeddings: Tensor = self.add_on(self.backbone.grid_map(images, self.cut))
        return embeddings
