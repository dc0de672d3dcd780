"""Attacks on pixels outside of a region: the random start alone (`noise`), and true gradient descent from it (`pgd`).

Both stay within `AttackSettings.reach` of the image in every channel of the normalised space. Descent goes along the
sign of the gradient of the mean, over the attacked prototypes, of the largest similarity of their maps. Printed figures
of other papers are those of `noise`: the gradient of the published attack is 0 everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from pixpnet.metrics.draws import generator_for
from pixpnet.metrics.naming import known_name
from pixpnet.model import PixPNet
from pixpnet.parts import Matches
from pixpnet.progress import Progress

Attack = Literal["noise", "pgd"]
ATTACKS: tuple[Attack, ...] = get_args(Attack)
Attacked = Literal["best", "class"]
ATTACKED: tuple[Attacked, ...] = get_args(Attacked)


def attack_named(name: str) -> Attack:
    """An attack by its name.

    Raises:
        ValueError: if there is none.
    """
    return known_name("attack", name, ATTACKS)


@dataclass(frozen=True)
class AttackSettings:
    """How far and how often pixels are moved; the defaults are the published ones.

    Attributes:
        reach: the largest change of a pixel in any channel, in units of the normalised image.
        step: of each step of descent.
        steps: of descent.
        margin: by which the box is grown on every side, in pixels of an image of 224 x 224.
        attacked: `best` for the prototype with the largest score, `class` for all of the image's own class.
    """

    reach: float = 0.4
    step: float = 0.01
    steps: int = 40
    margin: int = 10
    attacked: Attacked = "best"

    def __post_init__(self) -> None:
        known_name("choice of prototypes", self.attacked, ATTACKED)
        if not (self.reach > 0 and self.step > 0 and self.steps >= 1 and self.margin >= 0):
            raise ValueError(
                f"reach and step are positive, steps are 1 or more, a margin is not negative, got {self.reach}, "
                f"{self.step}, {self.steps}, {self.margin}"
            )


def random_start(
    image: Float[Tensor, "3 height width"],
    free: Bool[Tensor, "height width"],
    settings: AttackSettings,
    seed: int,
    name: str,
) -> Float[Tensor, "3 height width"]:
    """The image with uniform noise on the pixels that may change: the whole of `noise`, and where `pgd` begins.

    It depends on the seed and the image's name alone, so protections and models are compared under the same noise.
    """
    uniform = torch.rand(image.shape, generator=generator_for(seed, "misalignment", name)).to(image)
    return torch.where(free, image + settings.reach * (2 * uniform - 1), image)


def descend(
    model: PixPNet,
    images: Float[Tensor, "batch 3 height width"],
    starts: Float[Tensor, "batch 3 height width"],
    free: Bool[Tensor, "batch height width"],
    attacked: Sequence[Sequence[int]],
    settings: AttackSettings,
    progress: Progress | None = None,
) -> Float[Tensor, "batch 3 height width"]:
    """Projected gradient descent on the largest similarities of the attacked prototypes.

    An image whose gradient is 0 on all pixels that may change would stay as it is in all further steps, so it is left
    out of them: the result is the same.

    Args:
        model: in eval mode.
        images: normalised.
        starts: where the descent begins.
        free: which pixels may change.
        attacked: the prototypes of each image.
        settings: of the attack.
        progress: told how many steps are done.
    """
    result = starts.clone()
    low, high = images - settings.reach, images + settings.reach
    moving = torch.arange(len(images), device=images.device)
    for done in range(settings.steps):
        gradient = _gradient(model, result[moving], [attacked[index] for index in moving.tolist()])
        step = settings.step * gradient.sign() * free[moving, None]
        still = step.flatten(1).any(dim=1)
        moving, step = moving[still], step[still]
        if not len(moving):
            break
        result[moving] = (result[moving] - step).clamp(low[moving], high[moving])
        if progress is not None:
            progress("attacking", done + 1, settings.steps)
    return result


def _gradient(
    model: PixPNet, images: Float[Tensor, "batch 3 height width"], attacked: Sequence[Sequence[int]]
) -> Float[Tensor, "batch 3 height width"]:
    """Of the mean over attacked prototypes of the largest similarity, by the image."""
    kernels = {grid.comparison.kernel for grid in model.grids}
    moves = any(grid.comparison.moves for grid in model.grids)
    if model.backbone.cells_alone and kernels == {(1, 1)} and not moves:
        return _gradient_by_cells(model, images, attacked)
    leaf = images.detach().requires_grad_()
    with torch.enable_grad():
        matches = model.match(model.embed(leaf))
        largest = [
            torch.stack([similarity_map(model, matches, index, prototype).amax() for prototype in prototypes]).mean()
            for index, prototypes in enumerate(attacked)
        ]
        # Only for the image: gradients of weights are never computed.
        (gradient,) = torch.autograd.grad(torch.stack(largest).sum(), leaf)
    return gradient


def _gradient_by_cells(
    model: PixPNet, images: Float[Tensor, "batch 3 height width"], attacked: Sequence[Sequence[int]]
) -> Float[Tensor, "batch 3 height width"]:
    """The same on windows: which cells are nearest needs no gradient, and only their windows are run with one."""
    with torch.no_grad():
        matches = model.match(model.embed(images))
    leaf = images.detach().requires_grad_()
    shares = leaf.new_tensor([1 / len(prototypes) for prototypes in attacked])
    total = leaf.new_zeros(())
    for grid in model.grids:
        pairs = [(i, p - grid.first) for i, own in enumerate(attacked) for p in own if p in grid.prototypes]
        if not pairs:
            continue
        index, prototype = torch.tensor(pairs, device=images.device).T
        maps = matches.grids[grid.number].distance_maps
        nearest = maps[index, prototype].flatten(1).argmin(dim=1)
        wanted = torch.zeros_like(maps[:, 0], dtype=torch.bool)
        wanted.flatten(1)[index, nearest] = True
        position = wanted.flatten().cumsum(dim=0).reshape(len(images), -1) - 1
        with torch.enable_grad():
            cells = model.embed_cells(leaf, grid.number, wanted)[position[index, nearest]]
            chosen = grid.comparison.prototypes.detach()[prototype]
            measured = grid.comparison.maps_to(cells[:, :, None, None], chosen).flatten(1).diagonal()
            total = total + (grid.comparison.similarity(measured) * shares[index]).sum()
    (gradient,) = torch.autograd.grad(total, leaf)
    return gradient


def similarity_map(model: PixPNet, matches: Matches, image: int, prototype: int) -> Float[Tensor, "_rows _cols"]:
    """The similarity of a prototype to every patch of one image of a batch."""
    grid = model.grid_of(prototype)
    return grid.comparison.similarity(matches.grids[grid.number].distance_maps[image, prototype - grid.first])


def attacked_prototypes(
    model: PixPNet, scores: Float[Tensor, " protos"], label: int, settings: AttackSettings
) -> tuple[int, ...]:
    """The prototypes of one image that are attacked."""
    if settings.attacked == "best":
        return (int(scores.argmax()),)
    own: Int64[Tensor, " own"] = model.prototypes_of(label)
    return tuple(own.tolist())
