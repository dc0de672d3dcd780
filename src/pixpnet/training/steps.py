"""Steps: from a batch to logits and matches, with gradients for what learns in the stage and for nothing else."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pixpnet.model import PixPNet
from pixpnet.model.grids import Embeddings
from pixpnet.parts import Matches, branch_of
from pixpnet.parts.losses import Step, leave_one_out
from pixpnet.parts.matches import matches_of
from pixpnet.training.features import AnyBatch
from pixpnet.training.learner import Learner

POOLED = "pooled"


def plain_step(learner: Learner, batch: AnyBatch) -> Step:
    """The network's own forward pass."""
    embeddings, matches = compare_images(learner, batch.images)
    model = learner.model
    return Step(model.head(matches), batch.labels, model.parts, matches, embeddings)


def compare_images(learner: Learner, images: Tensor) -> tuple[Embeddings, Matches]:
    """The forward pass up to the decision: for steps that decide, or mix images, in a way of their own."""
    with torch.set_grad_enabled(learner.learns(learner.model.backbone)):
        maps = learner.backbone_maps(images)
    return compare_maps(learner, maps)


def watching_step(learner: Learner, batch: AnyBatch) -> Step:
    """The network's own forward pass, with the maps of the backbone and of the layer that is watched."""
    model = learner.model
    with torch.set_grad_enabled(learner.learns(model.backbone)):
        maps, watched = learner.maps_and_watched(batch.images)
    embeddings, matches = compare_maps(learner, maps)
    return Step(model.head(matches), batch.labels, model.parts, matches, embeddings, maps=maps, watched=watched)


def compare_maps(learner: Learner, maps: tuple[Tensor, ...]) -> tuple[Embeddings, Matches]:
    """From what the backbone gave to matches."""
    model = learner.model
    grids = model.grids
    deep = learner.learns(model.backbone, *(grid.add_on for grid in grids))
    with torch.set_grad_enabled(deep):
        embeddings = model.add_on_of(maps)
    with torch.set_grad_enabled(deep or learner.learns(*(grid.comparison for grid in grids))):
        matches = model.match(embeddings)
    return embeddings, matches


def leave_one_out_step(learner: Learner, batch: AnyBatch) -> Step:
    """Each image is compared only with prototypes that were not taken from that very image."""
    step = plain_step(learner, batch)
    if not learner.taken_from:
        return step
    from_it = [[source == id_ for source in learner.taken_from] for id_ in batch.ids]
    return leave_one_out(step, torch.tensor(from_it, device=learner.device))


def pretraining_step(learner: Learner, batch: AnyBatch, cells: int = 1) -> Step:
    """Plain classification by a linear layer on the largest values of each channel (of the deepest grid).

    Args:
        learner: whose backbone, and whose layer.
        batch: of images.
        cells: how many cells of a channel are averaged; all of them where a map has fewer.
    """
    features = learner.backbone_maps(batch.images)[-1]
    logits = learner.helpers[POOLED](largest_mean(features, cells).float())
    return Step(logits.float(), batch.labels, learner.model.parts)


def largest_mean(maps: Float[Tensor, "batch channels rows cols"], cells: int) -> Float[Tensor, "batch channels"]:
    """The mean of the largest values of each map.

    >>> largest_mean(torch.tensor([[[[1.0, 5.0], [2.0, 3.0]]]]), 2)
    tensor([[4.]])
    """
    if cells == 1:
        return maps.amax(dim=(-2, -1))
    values = maps.flatten(2)
    return values.topk(min(cells, values.shape[2]), dim=2).values.mean(dim=2)


def pooled_classifier(model: PixPNet) -> nn.Linear:
    """The layer that learns, and answers, during pretraining only."""
    return nn.Linear(model.backbone.channels, model.num_classes)


def alternating_step(learner: Learner, batch: AnyBatch) -> Step:
    """Branches take turns, beginning with the first in every epoch: a batch is compared with one branch alone.

    What belongs to other branches gets no gradient at all, so the optimizer leaves it, and what it remembers of it, as
    they are.
    """
    parts = learner.model.parts
    names = list(dict.fromkeys(parts.branches))
    branch = branch_of(parts, names[learner.step_number % len(names)])
    deep = learner.learns(learner.model.backbone)
    with torch.set_grad_enabled(deep):
        maps = learner.backbone_maps(batch.images)
    deep = deep or learner.learns(*branch.add_ons)
    with torch.set_grad_enabled(deep):
        embeddings = tuple(add_on(maps[cut]) for add_on, cut in zip(branch.add_ons, branch.cuts, strict=True))
    with torch.set_grad_enabled(deep or learner.learns(*branch.comparisons)):
        grids = zip(branch.comparisons, embeddings, strict=True)
        matches = matches_of(tuple(comparison(cells) for comparison, cells in grids))
    return Step(branch.decision(matches), batch.labels, branch, matches, embeddings, branch=branch.branches[0])
