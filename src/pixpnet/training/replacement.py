"""Prototype replacement (Sec. 4): each prototype becomes the embedding of a training patch of its class.

One pass over the un-augmented training images. Of each prototype only the nearest few candidates are kept, as many
as its class has prototypes: whatever the others of the class take, one of those is left, so no better choice can lie
outside (`_Candidates`). So the memory does not grow with the data, and the choice is made once, over all of it: it
does not depend on the batch size, on the order of the images or on the number of processes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import torch
import torch.distributed as dist
from jaxtyping import Float, Int64, Shaped
from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]
from torch import Tensor

from pixpnet.box import Box
from pixpnet.data import Entry
from pixpnet.data.scan import Progress
from pixpnet.model import Origin, PixPNet
from pixpnet.model.origin import Matrix
from pixpnet.recipe import Replacement
from pixpnet.training.judging import batch_count, evaluating

Unique = Literal["image", "patch", "none"]
_NOBODY = -1
_Numbers = Float[np.ndarray, "..."]


def replace_prototypes(
    model: PixPNet,
    batches: Iterable[Any],
    entries: Sequence[Entry],
    how: Replacement,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    embed: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Origin, ...]:
    """Puts the nearest training patches in the places of the prototypes, and says which.

    Where several processes each bring their own batches, all of them end with the same prototypes.

    Args:
        model: its prototypes and `origins` change, nothing else does.
        batches: un-augmented training images, or what `embed` takes, in any order (`Batch`, `FeatureBatch`).
        entries: all training images, those of the other processes included.
        how: which patches may not be shared, and how they are chosen.
        device: where the model is.
        progress: told how many batches are done.
        embed: from what batches hold to embeddings; `model.embed` by default.

    Raises:
        ValueError: if a class has no image.
    """
    order = {id_: place for place, id_ in enumerate(sorted(entry.id for entry in entries))}
    rules = unique_rules(model, entries, how.unique)
    candidates = _Candidates(model, rules)
    total = batch_count(batches)
    with evaluating(model):
        for done, batch in enumerate(batches, start=1):
            batch = batch.to(device)
            embeddings = (embed or model.embed)(batch.images).float()
            maps = model.prototype_layer.distance_maps(embeddings)
            places = torch.tensor([order[id_] for id_ in batch.ids])
            candidates.add(maps, embeddings, batch.labels.cpu(), places, batch.to_source)
            if progress is not None:
                progress(done, total)
    found = candidates.gather(device)
    chosen = choose(found, model.labels.cpu(), rules, how)
    return _put_in_place(model, found, chosen, sorted(order), rules)


def unique_rules(model: PixPNet, entries: Sequence[Entry], unique: Unique) -> dict[int, Unique]:
    """What prototypes of each class may not share, given how many images the class has.

    A class with fewer images than prototypes gets different patches, with fewer patches the nearest ones.
    """
    images = np.bincount([entry.label for entry in entries], minlength=model.num_classes)
    if not images.all():
        names = [model.class_names[label] for label in np.flatnonzero(images == 0)]
        raise ValueError(f"no training image to take prototypes from in {', '.join(names)}")
    rows, cols = model.field.shape[-2:]
    rules: dict[int, Unique] = {}
    for label, count in enumerate(images):
        wanted = int((model.labels == label).sum())
        rule = unique
        if rule == "image" and count < wanted:
            rule = "patch"
        if rule == "patch" and count * rows * cols < wanted:
            rule = "none"
        rules[label] = rule
    return rules


def choose(
    found: "_Patches", labels: Int64[Tensor, " protos"], rules: Mapping[int, Unique], how: Replacement
) -> Int64[Tensor, " protos"]:
    """Which of its candidates, the nearest first, each prototype takes.

    Args:
        found: the candidates of each prototype.
        labels: of the prototypes.
        rules: what no two prototypes of a class may share, for each class.
        how: the assignment.
    """
    chosen = torch.zeros(len(labels), dtype=torch.int64)
    for label, rule in rules.items():
        if rule == "none":
            continue
        own = labels == label
        images, cells = found.images[own], found.cells[own]
        items = images if rule == "image" else images * (int(cells.max()) + 1) + cells
        assign = ASSIGNMENTS[how.assignment]
        chosen[own] = torch.from_numpy(assign(found.distances[own].numpy(), items.numpy()))
    return chosen


def smallest_total(distances: _Numbers, items: Int64[np.ndarray, "protos kept"]) -> Int64[np.ndarray, " protos"]:
    """The choice with the smallest sum of distances in which nobody shares.

    >>> smallest_total(np.array([[0.0, 0.5], [0.1, 9.0]]), np.array([[7, 8], [7, 8]])).tolist()
    [1, 0]
    """
    numbers, columns = np.unique(items, return_inverse=True)
    columns = columns.reshape(items.shape)
    real = np.isfinite(distances)
    far = distances[real].max(initial=0.0) + 1
    # More than any sum of real ones, so it is taken only where there is no other way, and there always is.
    costs = np.full((len(items), len(numbers)), far * (len(items) + 1))
    rows = np.broadcast_to(np.arange(len(items))[:, None], items.shape)
    costs[rows[real], columns[real]] = distances[real]
    taken = linear_sum_assignment(costs)[1]
    return np.array([int(np.flatnonzero(line == column)[0]) for line, column in zip(columns, taken, strict=True)])


def nearest_first(distances: _Numbers, items: Int64[np.ndarray, "protos kept"]) -> Int64[np.ndarray, " protos"]:
    """The nearest pair of all goes first, then the next; what is taken is taken (the paper).

    >>> nearest_first(np.array([[0.0, 0.5], [0.1, 9.0]]), np.array([[7, 8], [7, 8]])).tolist()
    [0, 1]
    """
    chosen = np.full(len(items), _NOBODY)
    taken: set[int] = set()
    for flat in np.argsort(distances, axis=None, kind="stable"):
        proto, place = np.unravel_index(flat, distances.shape)
        if chosen[proto] == _NOBODY and int(items[proto, place]) not in taken:
            chosen[proto] = place
            taken.add(int(items[proto, place]))
    return chosen


ASSIGNMENTS: Mapping[str, Callable[[_Numbers, Int64[np.ndarray, "protos kept"]], Int64[np.ndarray, " protos"]]] = {
    "smallest_total": smallest_total,
    "nearest_first": nearest_first,
}


@dataclass(frozen=True)
class _Patches:
    """Patches of training images, some for each of some prototypes.

    Attributes:
        distances: to the prototype; infinite where there is none.
        images: by number, in the order of their ids.
        cells: by number, row by row.
        to_source: of the image.
        vectors: their embeddings.
    """

    distances: Float[Tensor, "protos some"]
    images: Int64[Tensor, "protos some"]
    cells: Int64[Tensor, "protos some"]
    to_source: Shaped[Tensor, "protos some 3 3"]
    vectors: Float[Tensor, "protos some dim kernel_rows kernel_cols"]

    def each(self, change: Callable[[Tensor], Tensor]) -> "_Patches":
        """The same change to every tensor."""
        return _Patches(*(change(getattr(self, part.name)) for part in fields(self)))

    def of(self, protos: Int64[Tensor, " chosen"]) -> "_Patches":
        """Those of some of the prototypes."""
        return self.each(lambda tensor: tensor[protos])

    def nearest(self, count: int) -> "_Patches":
        """The nearest of each prototype, nearest first; ties go to the earlier image, then to the earlier cell."""
        order = self.cells.argsort(dim=1, stable=True)
        for key in (self.images, self.distances):
            order = order.gather(1, key.gather(1, order).argsort(dim=1, stable=True))
        protos = torch.arange(len(order))[:, None]
        return self.each(lambda tensor: tensor[protos, order[:, :count]])


def _together(several: Sequence[_Patches]) -> _Patches:
    parts = [[getattr(each, part.name) for each in several] for part in fields(_Patches)]
    return _Patches(*(torch.cat(part, dim=1) for part in parts))


class _Candidates:
    """The nearest patches of each prototype so far.

    With k prototypes in a class, the k nearest images (or patches) of each are enough: if a choice gave a prototype
    one that is not among its k nearest, the k - 1 others leave one of those free, which is no farther.
    """

    def __init__(self, model: PixPNet, rules: Mapping[int, Unique]) -> None:
        labels = model.labels.cpu()
        self.own = torch.stack([(labels == label).nonzero().flatten() for label in range(model.num_classes)])
        self.patch_wise = torch.tensor([rules[label] == "patch" for label in range(model.num_classes)])
        self.kept = self.own.shape[1]
        self.kernel = model.prototypes.shape[-2:]
        shape = (len(labels), self.kept)
        self.patches = _Patches(
            distances=torch.full(shape, float("inf")),
            images=torch.full(shape, _NOBODY),
            cells=torch.full(shape, _NOBODY),
            to_source=torch.zeros(*shape, 3, 3, dtype=torch.float64),
            vectors=torch.zeros(*shape, *model.prototypes.shape[1:]),
        )

    def add(
        self,
        maps: Float[Tensor, "batch protos rows cols"],
        embeddings: Float[Tensor, "batch dim cell_rows cell_cols"],
        labels: Int64[Tensor, " batch"],
        images: Int64[Tensor, " batch"],
        to_source: Shaped[Tensor, "batch 3 3"],
    ) -> None:
        """Considers the images of a batch."""
        own = self.own[labels]
        near = maps.flatten(2).gather(1, own.to(maps.device)[:, :, None].expand(-1, -1, maps[0, 0].numel()))
        # Of equal distances the first cell counts: `min` and a stable sort promise that, `topk` does not.
        if bool(self.patch_wise[labels].any()):
            distances, cells = (part[..., : self.kept].cpu() for part in near.sort(dim=-1, stable=True))
        else:
            distances, cells = (part.cpu() for part in near.min(dim=-1, keepdim=True))
        worst = self.patches.distances[own, -1]
        # An image that is no nearer than all that are kept changes nothing; equal ones may win by their number.
        for label in labels[(distances[..., 0] <= worst).any(dim=1)].unique().tolist():
            here = (labels == label).nonzero().flatten()
            some = distances.shape[-1] if self.patch_wise[label] else 1
            at = here.repeat_interleave(some).expand(self.kept, -1)
            found_cells = cells[here, :, :some].transpose(0, 1).flatten(1)
            found = _Patches(
                distances=distances[here, :, :some].transpose(0, 1).flatten(1),
                images=images[at],
                cells=found_cells,
                to_source=to_source[at].double(),
                vectors=self._cut_out(embeddings, at, found_cells),
            )
            rows = self.own[label]
            best = _together([self.patches.of(rows), found]).nearest(self.kept)
            for part in fields(best):
                getattr(self.patches, part.name)[rows] = getattr(best, part.name)

    def _cut_out(
        self, embeddings: Tensor, images: Int64[Tensor, "protos some"], cells: Int64[Tensor, "protos some"]
    ) -> Float[Tensor, "protos some dim kernel_rows kernel_cols"]:
        height, width = self.kernel
        cols = embeddings.shape[-1] - width + 1
        down = (cells // cols)[..., None, None] + torch.arange(height)[:, None]
        across = (cells % cols)[..., None, None] + torch.arange(width)
        index = (each.to(embeddings.device) for each in (images[..., None, None], down, across))
        return embeddings.permute(0, 2, 3, 1)[tuple(index)].permute(0, 1, 4, 2, 3).cpu()

    def gather(self, device: torch.device | str) -> _Patches:
        """What all processes found; every one of them ends with the same."""
        if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
            return self.patches

        def of_all(tensor: Tensor) -> Tensor:
            mine = tensor.to(device)
            everything = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
            dist.all_gather(everything, mine)
            return torch.cat(everything, dim=1).cpu()

        return self.patches.each(of_all).nearest(self.kept)


def _put_in_place(
    model: PixPNet,
    found: _Patches,
    chosen: Int64[Tensor, " protos"],
    ids: Sequence[str],
    rules: Mapping[int, Unique],
) -> tuple[Origin, ...]:
    protos = torch.arange(len(chosen))
    taken = found.each(lambda tensor: tensor[protos, chosen][:, None])
    model.prototypes.data.copy_(taken.vectors[:, 0])
    field = model.field
    origins = []
    for proto, label in enumerate(model.labels.tolist()):
        row, col = divmod(int(taken.cells[proto]), field.shape[-1])
        origins.append(
            Origin(
                prototype=proto,
                label=label,
                image=ids[int(taken.images[proto])],
                row=row,
                col=col,
                boxes=tuple(Box(*box) for box in field.boxes(row, col)),
                to_source=_matrix(taken.to_source[proto, 0].flatten().tolist()),
                distance=float(taken.distances[proto]),
                unique=rules[label],
            )
        )
    model.origins = tuple(origins)
    return model.origins


def _matrix(values: list[float]) -> Matrix:
    a, b, c, d, e, f, g, h, i = values
    return a, b, c, d, e, f, g, h, i
