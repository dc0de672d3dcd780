"""Prototype replacement (Sec. 4): each prototype becomes the embedding of a training patch of a class it speaks for.

One pass over the un-augmented training images. Of each prototype only the nearest few candidates are kept, as many
as it has rivals (`Ownership.rivals`; itself included): whatever the others take, one of those is left, so no better
choice can lie outside (`_Candidates`). So the memory does not grow with the data, and the choice is made once, over
all of it: it does not depend on the batch size, on the order of the images or on the number of processes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Literal

import torch
import torch.distributed as dist
from jaxtyping import Bool, Float, Int64, Shaped
from torch import Tensor
from torch.nn import functional as F

from pixpnet.data import Entry
from pixpnet.fields import Field
from pixpnet.model import Grid, Origin, PixPNet
from pixpnet.model.modes import evaluating
from pixpnet.model.origin import Matrix
from pixpnet.parts import Ownership
from pixpnet.parts.comparison import as_places
from pixpnet.progress import Progress
from pixpnet.settings import Replacement
from pixpnet.training.assignment import ASSIGNMENTS, enough_for_all
from pixpnet.training.evaluation import batch_count

Unique = Literal["image", "patch", "none"]
ForbiddenCells = Mapping[str, tuple[Bool[Tensor, " _cells"], ...]]
"""For the ids of images, which cells of each grid (row by row) no prototype may be taken from."""
_NOBODY = -1


def replace_prototypes(
    model: PixPNet,
    batches: Iterable[Any],
    entries: Sequence[Entry],
    settings: Replacement,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    embed: Callable[[Tensor], tuple[Tensor, ...]] | None = None,
    forbidden: ForbiddenCells | None = None,
) -> tuple[Origin, ...]:
    """Puts the nearest training patches in the places of the prototypes, and says which.

    Where several processes each bring their own batches, all of them end with the same prototypes.

    Args:
        model: its prototypes and `origins` change, nothing else does.
        batches: un-augmented training images, or what `embed` takes, in any order (`Batch`, `FeatureBatch`).
        entries: all training images, those of the other processes included.
        settings: which patches may not be shared, and how they are chosen.
        device: where the model is.
        progress: told how many batches are done.
        embed: from what batches hold to embeddings of each grid; `model.embed` by default.
        forbidden: cells that no prototype may be taken from.

    Raises:
        ValueError: if no image may give some prototype a patch, or all that might are forbidden.
    """
    order = {id_: index for index, id_ in enumerate(sorted(entry.id for entry in entries))}
    groups = [_Group(grid, model.ownership, field) for grid, field in zip(model.grids, model.fields, strict=True)]
    rules = [unique_rules(model, group, entries, settings.unique, forbidden) for group in groups]
    candidates = [_Candidates(group, rule) for group, rule in zip(groups, rules, strict=True)]
    total = batch_count(batches)
    with evaluating(model):
        for done, batch in enumerate(batches, start=1):
            batch = batch.to(device)
            embeddings = (embed or model.embed)(batch.images)
            places = torch.tensor([order[id_] for id_ in batch.ids])
            for number, (grid_candidates, cells) in enumerate(zip(candidates, embeddings, strict=True)):
                masks = _masks(batch.ids, number, forbidden)
                grid_candidates.add(cells.float(), batch.labels.cpu(), places, batch.to_source, masks)
            if progress is not None:
                progress("replacement", done, total)
    label_of = {entry.id: entry.label for entry in entries}
    origins = []
    for grid_candidates, rule in zip(candidates, rules, strict=True):
        patches = grid_candidates.gather(device)
        chosen = choose(patches, grid_candidates.group.rivals, rule, settings)
        origins += _put_in_place(grid_candidates.group, patches, chosen, sorted(order), label_of, rule)
    model.origins = tuple(origins)
    return model.origins


class _Group:
    """The prototypes of one grid: which images may give them patches, and which of them are rivals."""

    def __init__(self, grid: Grid, ownership: Ownership, field: Field) -> None:
        rows, cols = field.shape[-2:]
        numbers = torch.arange(grid.first, grid.first + len(grid.prototypes))
        self.grid, self.field, self.cells = grid, field, rows * cols
        self.sources = ownership.sources().cpu()[:, numbers]
        inside = [rivals.cpu()[torch.isin(rivals.cpu(), numbers)] - grid.first for rivals in ownership.rivals()]
        self.rivals = tuple(rivals for rivals in inside if len(rivals))


def unique_rules(
    model: PixPNet,
    group: _Group,
    entries: Sequence[Entry],
    unique: Unique,
    forbidden: ForbiddenCells | None = None,
) -> tuple[Unique, ...]:
    """What the prototypes of each group of rivals may not share, given how many images may give them patches.

    Rivals that cannot all have different images get different patches, and the nearest ones where they cannot have
    those. Forbidden cells do not count, nor do images in which all are.

    Args:
        model: for the names of its classes.
        group: the prototypes of a grid.
        entries: the training images.
        unique: what rivals may not share, where there are enough.
        forbidden: cells that no prototype may be taken from.

    Raises:
        ValueError: if no image may give some prototype a patch, or all that might are forbidden.
    """
    labels = torch.tensor([entry.label for entry in entries])
    left = torch.full((len(entries),), group.cells)
    for index, entry in enumerate(entries if forbidden else ()):
        if forbidden and entry.id in forbidden:
            left[index] = int((~forbidden[entry.id][group.grid.number]).sum())
    there = torch.bincount(labels, minlength=model.num_classes)
    images = torch.bincount(labels[left > 0], minlength=model.num_classes)
    patches = torch.zeros_like(images).index_add(0, labels, left)
    without = (~group.sources[images > 0].any(dim=0)).nonzero().flatten()
    if len(without):
        _refuse_nowhere(model, group, without, there)
    rules: list[Unique] = []
    for rivals in group.rivals:
        rule, sources = unique, group.sources[:, rivals]
        if rule == "image" and not enough_for_all(sources, images):
            rule = "patch"
        if rule == "patch" and not enough_for_all(sources, patches):
            rule = "none"
        rules.append(rule)
    return tuple(rules)


def refuse_if_nothing_is_left(model: PixPNet, entries: Sequence[Entry], forbidden: ForbiddenCells) -> None:
    """Refuses cells that are forbidden so widely that some prototype could be taken from nowhere.

    Raises:
        ValueError: with the prototype and its classes.
    """
    for grid, field in zip(model.grids, model.fields, strict=True):
        unique_rules(model, _Group(grid, model.ownership, field), entries, "none", forbidden)


def _refuse_nowhere(
    model: PixPNet, group: _Group, without: Int64[Tensor, " some"], images: Int64[Tensor, " classes"]
) -> None:
    empty = group.sources[:, without].any(dim=1) & (images == 0)
    if empty.any():
        names = [model.class_names[label] for label in empty.nonzero().flatten().tolist()]
        raise ValueError(f"no training image to take prototypes from in {', '.join(names)}")
    first = int(without[0])
    names = [model.class_names[label] for label in group.sources[:, first].nonzero().flatten().tolist()]
    raise ValueError(
        f"every patch that prototype {group.grid.first + first} could be taken from is forbidden "
        f"({', '.join(names[:5])}): forbid fewer patches, or add images"
    )


def choose(
    patches: "_Patches", rivals: Sequence[Int64[Tensor, " _some"]], rules: Sequence[Unique], settings: Replacement
) -> Int64[Tensor, " protos"]:
    """Which of its candidates, the nearest first, each prototype takes.

    Args:
        patches: the candidates of each prototype.
        rivals: groups of prototypes.
        rules: what no two prototypes of a group may share, for each group.
        settings: the assignment.
    """
    chosen = torch.zeros(len(patches.images), dtype=torch.int64)
    for own, rule in zip(rivals, rules, strict=True):
        if rule == "none":
            continue
        images, cells = patches.images[own], patches.cells[own]
        items = images if rule == "image" else images * (int(cells.max()) + 1) + cells
        assign = ASSIGNMENTS[settings.assignment]
        chosen[own] = torch.from_numpy(assign(patches.distances[own].numpy(), items.numpy()))
    return chosen


@dataclass(frozen=True)
class _Patches:
    """Patches of training images, some for each of some prototypes.

    Attributes:
        distances: to the prototype; infinite where there is none.
        images: by number, in the order of their ids.
        cells: by number, row by row.
        to_source: of the image.
        vectors: their embeddings.
        places: where their parts were read, where that depends on the image.
    """

    distances: Float[Tensor, "protos some"]
    images: Int64[Tensor, "protos some"]
    cells: Int64[Tensor, "protos some"]
    to_source: Shaped[Tensor, "protos some 3 3"]
    vectors: Float[Tensor, "protos some dim kernel_rows kernel_cols"]
    places: Float[Tensor, "protos some parts 2"]

    def map(self, change: Callable[[Tensor], Tensor]) -> "_Patches":
        """The same change to every tensor."""
        return _Patches(*(change(getattr(self, part.name)) for part in fields(self)))

    def of(self, protos: Int64[Tensor, " chosen"]) -> "_Patches":
        """Those of some of the prototypes."""
        return self.map(lambda tensor: tensor[protos])

    def nearest(self, count: int) -> "_Patches":
        """The nearest of each prototype, nearest first; ties go to the earlier image, then to the earlier cell."""
        order = self.cells.argsort(dim=1, stable=True)
        for key in (self.images, self.distances):
            order = order.gather(1, key.gather(1, order).argsort(dim=1, stable=True))
        protos = torch.arange(len(order))[:, None]
        return self.map(lambda tensor: tensor[protos, order[:, :count]])


def _together(several: Sequence[_Patches]) -> _Patches:
    parts = [[getattr(patches, part.name) for patches in several] for part in fields(_Patches)]
    return _Patches(*(torch.cat(part, dim=1) for part in parts))


class _Candidates:
    """The nearest patches of each prototype so far.

    With k rivals (a prototype is its own), the k nearest images (or patches) of each are enough: if a choice gave a
    prototype one that is not among its k nearest, the k - 1 others leave one of those free, which is no farther.
    """

    def __init__(self, group: _Group, rules: Sequence[Unique]) -> None:
        self.group = group
        prototypes = group.grid.comparison.prototypes
        count = len(prototypes)
        # For each class its prototypes, the first of them again where it has fewer than others.
        lists = [group.sources[label].nonzero().flatten() for label in range(len(group.sources))]
        most = max(map(len, lists))
        self.listed = torch.tensor([len(own) for own in lists])
        self.own = torch.stack([F.pad(own, (0, most - len(own))) for own in lists])
        by_patch = torch.zeros(count, dtype=torch.bool)
        for rivals, rule in zip(group.rivals, rules, strict=True):
            by_patch[rivals] = rule == "patch"
        self.patch_wise = (group.sources & by_patch).any(dim=1)
        shared = [len(rivals) for rivals, rule in zip(group.rivals, rules, strict=True) if rule != "none"]
        self.num_candidates = max(shared, default=1)
        shape = (count, self.num_candidates)
        self.patches = _Patches(
            distances=torch.full(shape, float("inf")),
            images=torch.full(shape, _NOBODY),
            cells=torch.full(shape, _NOBODY),
            to_source=torch.zeros(*shape, 3, 3, dtype=torch.float64),
            vectors=torch.zeros(*shape, *prototypes.shape[1:]),
            places=torch.zeros(*shape, group.grid.comparison.num_places, 2),
        )

    def add(
        self,
        embeddings: Float[Tensor, "batch dim cell_rows cell_cols"],
        labels: Int64[Tensor, " batch"],
        images: Int64[Tensor, " batch"],
        to_source: Shaped[Tensor, "batch 3 3"],
        forbidden: "Mapping[int, Bool[Tensor, ' cells']]" = MappingProxyType({}),
    ) -> None:
        """Considers the images of a batch; cells that are forbidden, by the number of the image, are infinitely far."""
        own = self.own[labels]
        near = self._distances(embeddings, labels)
        for image, mask in forbidden.items():
            near[image, :, mask.to(near.device)] = torch.inf
        # Of equal distances the first cell counts: `min` and a stable sort promise that, `topk` does not.
        if bool(self.patch_wise[labels].any()):
            distances, cells = (part[..., : self.num_candidates].cpu() for part in near.sort(dim=-1, stable=True))
        else:
            distances, cells = (part.cpu() for part in near.min(dim=-1, keepdim=True))
        worst = self.patches.distances[own, -1]
        # An image that is no nearer than all that are kept changes nothing; equal ones may win by their number.
        for label in labels[(distances[..., 0] <= worst).any(dim=1)].unique().tolist():
            listed = int(self.listed[label])
            if not listed:
                continue
            here = (labels == label).nonzero().flatten()
            some = distances.shape[-1] if self.patch_wise[label] else 1
            at = here.repeat_interleave(some).expand(listed, -1)
            found_cells = cells[here, :listed, :some].transpose(0, 1).flatten(1)
            cut = self.group.grid.comparison.patches(embeddings, at, found_cells)
            patches = _Patches(
                distances=distances[here, :listed, :some].transpose(0, 1).flatten(1),
                images=images[at],
                cells=found_cells,
                to_source=to_source[at].double(),
                vectors=cut.vectors.cpu(),
                places=cut.places.cpu(),
            )
            rows = self.own[label, :listed]
            best = _together([self.patches.of(rows), patches]).nearest(self.num_candidates)
            for part in fields(best):
                getattr(self.patches, part.name)[rows] = getattr(best, part.name)

    def _distances(
        self, embeddings: Float[Tensor, "batch dim cell_rows cell_cols"], labels: Int64[Tensor, " batch"]
    ) -> Float[Tensor, "batch own cells"]:
        """To those prototypes that an image may give a patch to, class by class where that is less work."""
        comparison, classes = self.group.grid.comparison, labels.unique().tolist()
        if len(classes) * self.own.shape[1] >= len(comparison.prototypes):
            maps = comparison.distance_maps(embeddings).flatten(2)
            return maps.gather(1, self.own[labels].to(maps.device)[:, :, None].expand(-1, -1, maps.shape[2]))
        near: Tensor | None = None
        for label in classes:
            here = (labels == label).nonzero().flatten().to(embeddings.device)
            prototypes = comparison.prototypes[self.own[label].to(embeddings.device)].float()
            with torch.autocast(embeddings.device.type, enabled=False):
                maps = comparison.maps_to(embeddings[here], prototypes).flatten(2)
            near = maps.new_empty(len(labels), *maps.shape[1:]) if near is None else near
            near[here] = maps
        assert near is not None  # a batch holds images
        return near

    def gather(self, device: torch.device | str) -> _Patches:
        """What all processes found; every one of them ends with the same."""
        if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
            return self.patches

        def of_all(tensor: Tensor) -> Tensor:
            if not tensor.numel():  # nothing to send
                return tensor.repeat(1, dist.get_world_size(), *[1] * (tensor.dim() - 2))
            mine = tensor.to(device)
            everything = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
            dist.all_gather(everything, mine)
            return torch.cat(everything, dim=1).cpu()

        return self.patches.map(of_all).nearest(self.num_candidates)


def _masks(ids: Sequence[str], grid: int, forbidden: ForbiddenCells | None) -> "dict[int, Bool[Tensor, ' cells']]":
    """The forbidden cells of a batch's images, by their numbers in it."""
    if not forbidden:
        return {}
    return {number: forbidden[id_][grid] for number, id_ in enumerate(ids) if id_ in forbidden}


def _put_in_place(
    group: _Group,
    patches: _Patches,
    chosen: Int64[Tensor, " protos"],
    ids: Sequence[str],
    label_of: Mapping[str, int],
    rules: Sequence[Unique],
) -> list[Origin]:
    protos = torch.arange(len(chosen))
    taken = patches.map(lambda tensor: tensor[protos, chosen][:, None])
    grid, comparison = group.grid, group.grid.comparison
    comparison.prototypes.data.copy_(comparison.as_prototypes(taken.vectors[:, 0]))
    unique: dict[int, Unique] = {
        int(proto): rule for rivals, rule in zip(group.rivals, rules, strict=True) for proto in rivals
    }
    origins = []
    for proto in range(len(chosen)):
        row, col = divmod(int(taken.cells[proto]), group.field.shape[-1])
        image = ids[int(taken.images[proto])]
        places = as_places(taken.places[proto, 0])
        origins.append(
            Origin(
                prototype=grid.first + proto,
                label=label_of[image],
                image=image,
                row=row,
                col=col,
                boxes=comparison.region((row, col), group.field, places),
                to_source=_matrix(taken.to_source[proto, 0].flatten().tolist()),
                distance=float(taken.distances[proto]),
                unique=unique.get(proto, "none"),
                grid=grid.number,
                places=places,
            )
        )
    return origins


def _matrix(values: list[float]) -> Matrix:
    a, b, c, d, e, f, g, h, i = values
    return a, b, c, d, e, f, g, h, i
