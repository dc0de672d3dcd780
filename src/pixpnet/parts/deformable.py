"""Deformable ProtoPNet's comparison: a prototype is four parts, and each image says where they are read.

The parts of the patch at a cell stand one step away from it, diagonally. A small network of two convolutions on the
cells says how far each is moved, the same for all prototypes; between cells a vector is interpolated so that its
length is kept: the root of the interpolated *squares*, channel by channel, with zeros outside the grid. A patch is as
similar as the mean cosine of its parts.

**What a patch sees** depends on the image: what the offset network reads (all cells up to two steps away), and every
cell that the interpolation reads at the places to which the parts were moved. A part that moves by less than a cell
stays within two steps, so the field of `field_of` is then exact; where it moves farther, `region` is larger.

Nothing of the size batch x prototypes x cells x dim exists: what is interpolated belongs to no prototype, and the
comparison is one matrix product behind it.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from pixpnet.box import Box
from pixpnet.fields import Field
from pixpnet.fields.region import Region
from pixpnet.parts.comparison import Comparison, GridMatches, NoShares, PatchesAt, Places
from pixpnet.parts.losses import Step
from pixpnet.parts.measures import Cosine, Patches
from pixpnet.parts.pooling import Nearest
from pixpnet.parts.similarities import RectifiedCosine

DIVISOR = 1.01
"""Of cosines: keeps them where arccos has a slope."""
# Parts down and across; where they stand before they are moved; how far the offset network reads.
_SIDE, _STEP, _REACH = 2, 1, 2
_PARTS = _SIDE * _SIDE
# Two channels of this are appended to cells and parts, so that none of them has length 0; published numbers.
_SMALL, _APPENDED, _LEAST_SQUARE, _LEAST_LENGTH = 1e-4, 2, 1e-4, 1e-4
# The length of cells that the offset network gets: 64 over the root of the number of parts.
_OFFSET_SCALE = 32.0
# A root is infinitely steep at 0: below this, relative to cells of length 1, gradients are those at this value.
_STEEPEST = 1e-4


class Deformable(Comparison):
    """Prototypes of 2 x 2 parts, read where an offset network moves them.

    Parts stay at their places until `moving` is set to 1 (the joint stage).

    >>> comparison = Deformable(torch.rand(2, 3, 2, 2))
    >>> matches = comparison(torch.rand(1, 3, 4, 5))
    >>> tuple(matches.scores.shape), matches.places_at(0, (1, 2))
    ((1, 2), ((0.0, 1.0), (0.0, 3.0), (2.0, 1.0), (2.0, 3.0)))
    """

    moves = (
        "of parts that move by less than a cell; where an image moves a part farther, its patch sees more, and the "
        "region that is claimed for it is larger"
    )
    moving: Tensor

    def __init__(self, prototypes: Float[Tensor, "protos dim 2 2"], hidden: int = 128, deviation: float = 2e-5) -> None:
        """First weights.

        Args:
            prototypes: four parts each.
            hidden: channels between the convolutions of the offset network.
            deviation: of the first weights of its last convolution.
        """
        super().__init__(prototypes, Cosine(), RectifiedCosine(DIVISOR), Nearest())
        self.offset_hidden = nn.Conv2d(prototypes.shape[1] + _APPENDED, hidden, 4, padding=1)
        self.offset_last = nn.Conv2d(hidden, 2 * _PARTS, 2, padding=1)
        nn.init.normal_(self.offset_last.weight, std=deviation)
        for layer in (self.offset_hidden, self.offset_last):
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)
        self.register_buffer("moving", torch.zeros(()))

    def forward(self, embeddings: Float[Tensor, "batch dim rows cols"]) -> GridMatches:
        """Compares every patch with every prototype, in float32 or better whatever the precision around it."""
        with torch.autocast(embeddings.device.type, enabled=False):
            exact = torch.promote_types(embeddings.dtype, torch.float32)
            cells = unit_cells(embeddings.to(exact))
            places = self.places(cells)
            maps = self._maps(cells, places, self.prototypes.to(exact))
            pooled = self.pooling(maps)
            scores = self.pooling.scores(pooled, maps, self.similarity)
        return GridMatches(scores, pooled.distances, pooled.cells, maps, places=places)

    def distance_maps(
        self, embeddings: Float[Tensor, "batch dim rows cols"]
    ) -> Float[Tensor, "batch protos rows cols"]:
        """See `Comparison`."""
        return self(embeddings).distance_maps  # type: ignore[no-any-return]

    def maps_to(
        self, embeddings: Float[Tensor, "batch dim rows cols"], prototypes: Float[Tensor, "protos dim 2 2"]
    ) -> Float[Tensor, "batch protos rows cols"]:
        """See `Comparison`: one minus the mean cosine of the parts."""
        cells = unit_cells(embeddings)
        return self._maps(cells, self.places(cells), prototypes)

    def places(self, cells: Float[Tensor, "batch numbers rows cols"]) -> Float[Tensor, "batch rows cols 4 2"]:
        """Where the parts of each patch are read: row and column of the grid, of cells of length 1."""
        first, last = self.offset_hidden, self.offset_last
        assert first.bias is not None and last.bias is not None
        hidden = F.relu(
            F.conv2d(_OFFSET_SCALE * cells, first.weight.to(cells.dtype), first.bias.to(cells.dtype), padding=1)
        )
        offsets = F.conv2d(hidden, last.weight.to(cells.dtype), last.bias.to(cells.dtype), padding=1)
        moved: Tensor = offsets.unflatten(1, (_PARTS, 2))
        return self.moving.to(cells.dtype) * moved.permute(0, 3, 4, 1, 2) + _resting_places(cells)

    def _maps(self, cells: Tensor, places: Tensor, prototypes: Tensor) -> Float[Tensor, "batch protos rows cols"]:
        batch, numbers, rows, cols = cells.shape
        read = interpolated(cells, places.flatten(1, 3)).view(batch * rows * cols, _PARTS * numbers)
        cosines = read @ unit_parts(prototypes).flatten(1).T / _PARTS
        maps: Tensor = (1 - cosines).clamp_min(0).view(batch, rows, cols, -1)
        return maps.permute(0, 3, 1, 2)

    def loss_distances(
        self, embeddings: Float[Tensor, "batch dim rows cols"], matches: GridMatches
    ) -> Float[Tensor, "batch protos"]:
        """Minus the scores, with a margin where the step gave them one."""
        return -matches.scores

    @property
    def num_places(self) -> int:
        """Four parts."""
        return _PARTS

    def field_of(self, cells: Field) -> Field:
        """What each patch sees whose parts move by less than a cell: what the offset network reads."""
        return cells.reaching(_REACH)

    def reads(self, cells: Bool[Tensor, "rows cols"]) -> Bool[Tensor, "rows cols"]:
        """See `Comparison`."""
        side = 2 * _REACH + 1
        return F.max_pool2d(cells[None].float(), side, stride=1, padding=_REACH)[0] > 0

    def check(self, grid: tuple[int, int]) -> None:
        """Refuses a grid in which no patch has all its parts inside.

        Raises:
            ValueError: if it has fewer than three rows or columns.
        """
        super().check(grid)
        if min(grid) < 2 * _STEP + 1:
            raise ValueError(
                f"the four parts of a deformable prototype stand two cells apart, and an image has {grid[0]} x "
                f"{grid[1]} cells: take an earlier cut (--at), larger images (--size) or --architecture.upsampling 2"
            )

    def region(self, cell: tuple[int, int], field: Field, places: Places = ()) -> tuple[Box, ...]:
        """What the offset network reads for this patch, and every cell that the interpolation reads at its parts.

        Args:
            cell: row and column of the patch's centre.
            field: of patches (`field_of`).
            places: of its parts; without any, where they stand before they are moved.

        Raises:
            ValueError: if there are other than four places, or the field is not of such patches.
        """
        if len(places) not in (0, _PARTS):
            raise ValueError(f"a deformable patch has {_PARTS} parts, and {len(places)} places are named")
        rows, cols = field.shape[-2:]
        regions = []
        for spot in places:
            (top, bottom), (left, right) = (_read(at, size) for at, size in zip(spot, (rows, cols), strict=True))
            near = all(
                low >= centre - _REACH and high <= centre + _REACH + 1
                for (low, high), centre in zip(((top, bottom), (left, right)), cell, strict=True)
            )
            if top < bottom and left < right and not near:
                if field.inner is None:
                    raise ValueError("the field of deformable patches is asked of the comparison (field_of)")
                regions.append(field.inner[:, top:bottom, left:right])
        if not regions:
            return super().region(cell, field)
        regions.append(field.region(*cell))
        products = tuple(product for region in regions for product in region.products)
        return tuple(Box(*box) for box in Region(products, field.space).boxes)

    def patches(
        self,
        embeddings: Float[Tensor, "batch dim rows cols"],
        images: Int64[Tensor, "*some"],
        cells: Int64[Tensor, "*some"],
    ) -> PatchesAt:
        """The four vectors that are read for each, of length 1 (but for the two small channels)."""
        used, image = images.to(embeddings.device).flatten().unique(return_inverse=True)
        unit = unit_cells(embeddings[used])
        cells = cells.to(embeddings.device).flatten()
        cols = unit.shape[-1]
        places = self.places(unit)[image, cells // cols, cells % cols]
        vectors = interpolated(unit, places, image)[..., :-_APPENDED]
        dim = vectors.shape[-1]
        shaped = vectors.transpose(1, 2).reshape(*images.shape, dim, _SIDE, _SIDE)
        return PatchesAt(shaped, places.reshape(*images.shape, _PARTS, 2))

    def shares(self, patches: Patches, prototypes: Patches) -> Patches:
        """Refuses.

        Raises:
            NoShares: always: what a patch is read from are no cells of its own.
        """
        raise NoShares(
            "the parts of a deformable prototype are read between cells, where an offset network puts them, and there "
            "is no rule for that: take another mapping"
        )

    def scores_after(
        self, distances: Float[Tensor, "batch protos"], moved_to: Float[Tensor, "protos dim 2 2"]
    ) -> tuple[Float64[Tensor, "batch protos"], Float64[Tensor, "batch protos"]]:
        """See `Comparison`: what is read is at most of length 1, so a part changes a cosine by how far it moves."""
        old, new = (unit_parts(vectors.detach().double()) for vectors in (self.prototypes, moved_to))
        moved = (new - old).norm(dim=2).mean(dim=1) + 2 * self.tolerance()
        before = distances.detach().double()
        return self.similarity(before + moved), self.similarity((before - moved).clamp_min(0))

    def comparable(self) -> Float[Tensor, "protos numbers"]:
        """Only the directions of parts count."""
        parts = self.prototypes.detach().double().flatten(2).transpose(1, 2)
        return F.normalize(parts, dim=-1).flatten(1)


def unit_cells(embeddings: Float[Tensor, "batch dim rows cols"]) -> Float[Tensor, "batch numbers rows cols"]:
    """Cells with two small channels more, scaled to length 1 (less where they are all but 0)."""
    small = embeddings.new_full((len(embeddings), _APPENDED, *embeddings.shape[2:]), _SMALL)
    squares = embeddings.square().sum(dim=1, keepdim=True) + (_APPENDED * _SMALL**2 + _LEAST_SQUARE)
    return torch.cat([embeddings, small], dim=1) * squares.rsqrt()


def unit_parts(prototypes: Float[Tensor, "protos dim 2 2"]) -> Float[Tensor, "protos 4 numbers"]:
    """The parts of prototypes with two small channels more, scaled to length 1."""
    parts = prototypes.flatten(2).transpose(1, 2)
    parts = torch.cat([parts, parts.new_full((*parts.shape[:2], _APPENDED), _SMALL)], dim=2)
    lengths = (parts.square().sum(dim=2, keepdim=True) + _LEAST_SQUARE).sqrt() + _LEAST_LENGTH
    return parts / lengths


def interpolated(
    cells: Float[Tensor, "batch numbers rows cols"],
    places: Float[Tensor, "some points 2"],
    images: Int64[Tensor, " some"] | None = None,
) -> Float[Tensor, "some points numbers"]:
    """The root of the bilinear interpolation of squares, which keeps the length of cells that all have the same.

    Args:
        cells: without negative numbers.
        places: rows and columns; outside the grid there are zeros.
        images: which image each of them belongs to; by default one after the other.

    >>> field = F.normalize(torch.rand(1, 3, 4, 4), dim=1)
    >>> round(interpolated(field, torch.tensor([[[1.3, 2.6]]])).norm().item(), 5)
    1.0
    """
    batch, numbers, rows, cols = cells.shape
    limits = places.new_tensor([rows, cols])
    # Two cells outside everything is 0: farther places are no others.
    places = places.clamp_min(-2.0).minimum(limits + 1)
    low = places.detach().floor()
    share = places - low
    # The four cells around each place: rows, then columns.
    down = torch.stack([low[..., 0], low[..., 0], low[..., 0] + 1, low[..., 0] + 1], dim=-1)
    across = torch.stack([low[..., 1], low[..., 1] + 1, low[..., 1], low[..., 1] + 1], dim=-1)
    inside = (down >= 0) & (down < rows) & (across >= 0) & (across < cols)
    lower, upper = 1 - share, share
    weights = torch.stack(
        [
            lower[..., 0] * lower[..., 1],
            lower[..., 0] * upper[..., 1],
            upper[..., 0] * lower[..., 1],
            upper[..., 0] * upper[..., 1],
        ],
        dim=-1,
    )
    image = torch.arange(batch, device=cells.device) if images is None else images
    index = (image[:, None, None] * rows + down.clamp(0, rows - 1).long()) * cols + across.clamp(0, cols - 1).long()
    table = cells.square().permute(0, 2, 3, 1).reshape(-1, numbers)
    summed = F.embedding_bag(index.view(-1, 4), table, mode="sum", per_sample_weights=(weights * inside).view(-1, 4))
    read = _root(summed)
    return read.view(*places.shape[:2], numbers)


def with_margin(
    scores: Float[Tensor, "batch protos"],
    distances: Float[Tensor, "batch protos"],
    own: Bool[Tensor, "batch protos"],
    margin: float,
) -> Float[Tensor, "batch protos"]:
    """Scores in which prototypes of other classes are nearer by an angle: training only.

    The margin rises with the activation, so that of the largest activation is the largest margin's: it may come after
    the maximum over cells as well as before.

    Args:
        scores: without a margin.
        distances: that they are made of, one minus the mean cosine.
        own: which prototypes speak for the class of each image.
        margin: the angle.
    """
    angles = torch.arccos((1 - distances) / DIVISOR)
    return torch.where(own, scores, (angles - margin).clamp_min(0).cos().clamp_min(0))


def offset_penalty(step: Step) -> Float[Tensor, ""]:
    """How far parts are moved: the root of the mean squared offset, the mean over grids, in cells.

    It is the norm of all offsets over the root of how many there are, so that it does not depend on the batch.
    """
    penalties = []
    for grid in step.required_matches.grids:
        assert grid.places is not None
        rows, cols = grid.distance_maps.shape[-2:]
        resting = _resting_places(grid.places.new_zeros(1, 1, rows, cols))
        squares = (grid.places - resting).square()
        # A root has no slope at 0.
        penalties.append((squares.mean() + torch.finfo(squares.dtype).tiny).sqrt())
    return torch.stack(penalties).mean()


def part_orthogonality(step: Step, as_published: bool = False) -> Float[Tensor, ""]:
    """How far the parts of a class's prototypes are from right angles, in every grid (`orthogonality_of_parts`)."""
    classes = len(step.parts.ownership.mask())
    losses = []
    for comparison in step.parts.comparisons:
        parts = F.normalize(comparison.prototypes.flatten(2).transpose(1, 2), dim=-1)
        groups = len(parts) // classes if as_published else classes
        losses.append(orthogonality_of_parts(parts.unflatten(0, (groups, -1)).flatten(1, 2)))
    return torch.stack(losses).sum()


def orthogonality_of_parts(groups: Float[Tensor, "groups parts dim"]) -> Float[Tensor, ""]:
    """The Frobenius norm of G - 1 over all groups, G the scalar products within a group; not squared.

    >>> orthogonality_of_parts(torch.tensor([[[1.0, 0.0], [0.6, 0.8]]])).item() ** 2  # doctest: +ELLIPSIS
    0.72...
    """
    products = groups @ groups.transpose(1, 2)
    differences = products - torch.eye(products.shape[1]).to(products)
    return (differences.square().sum() + torch.finfo(differences.dtype).tiny).sqrt()


def _resting_places(cells: Float[Tensor, "batch numbers rows cols"]) -> Float[Tensor, "rows cols 4 2"]:
    """Where parts stand before they are moved: a step from the centre, diagonally."""
    rows, cols = (torch.arange(size, device=cells.device, dtype=cells.dtype) for size in cells.shape[-2:])
    centres = torch.stack(torch.meshgrid(rows, cols, indexing="ij"), dim=-1)
    steps = [(down, across) for down in (-_STEP, _STEP) for across in (-_STEP, _STEP)]
    return centres[:, :, None] + torch.tensor(steps, device=cells.device, dtype=cells.dtype)


def _read(coordinate: float, size: int) -> tuple[int, int]:
    """The rows (or columns) of the grid that are read for a place, as a half-open range; empty outside."""
    low = int(min(max(coordinate, -2.0), size + 1) // 1)
    return max(0, low), min(size, low + 2)


def _root(squares: Tensor) -> Tensor:
    if torch.is_grad_enabled() and squares.requires_grad:
        root: Tensor = _BoundedRoot.apply(squares)  # type: ignore[no-untyped-call]
        return root
    return squares.sqrt()


class _BoundedRoot(torch.autograd.Function):
    """The root, with a gradient that is nowhere steeper than at `_STEEPEST`."""

    @staticmethod
    def forward(ctx: Any, squares: Tensor) -> Tensor:
        root = squares.sqrt()
        ctx.save_for_backward(root)
        return root

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        root: Tensor = ctx.saved_tensors[0]
        return gradient / (2 * root.clamp_min(_STEEPEST))
