"""What replacement can have cost: what is proven to have stayed has stayed, and what cannot be told is refused."""

import copy
from dataclasses import dataclass

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pixpnet.model import PixPNet
from pixpnet.parts import Comparison, Distinct, Nearest
from pixpnet.parts.pooling import Pooling
from pixpnet.records import to_plain
from pixpnet.training.log import LogLine, log_line, log_text
from pixpnet.training.replacement_bound import PROVEN, STAYED, ReplacementBound, bound_in, replacement_bound
from tests.explanation.toys import real


@dataclass(frozen=True)
class Cells:
    """Embeddings in the place of images."""

    images: Tensor

    def __len__(self) -> int:
        return len(self.images)

    def to(self, device: object) -> "Cells":
        return self


def moved(pooling: Pooling, step: float, seed: int) -> tuple[PixPNet, list[Comparison], Cells]:
    """A network whose prototypes moved, what compared cells before, and cells."""
    generator = torch.Generator().manual_seed(seed)
    model = copy.deepcopy(real())
    (grid,) = model.grids
    shape = grid.comparison.prototypes.shape
    grid.comparison.pooling = pooling
    grid.comparison.prototypes.data.copy_(torch.rand(shape, generator=generator))
    before = [copy.deepcopy(grid.comparison)]
    further = torch.randn(shape, generator=generator)
    grid.comparison.prototypes.data.add_(step * further).clamp_(0, 1)
    return model, before, Cells(torch.rand(30, shape[1], 3, 4, generator=generator))


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), power=st.integers(-5, 0))
def test_an_answer_that_provably_stayed_did_stay(seed: int, power: int) -> None:
    model, before, cells = moved(Nearest(), 10.0**power, seed)
    for row in range(len(cells)):
        one = replacement_bound(model, before, [Cells(cells.images[row : row + 1])], lambda images: (images,))
        assert one.proven is not None and one.proven <= one.stayed
    bound = replacement_bound(model, before, [cells], lambda images: (images,))
    assert bound.images == 30 and bound.proven is not None and bound.proven <= bound.stayed


def test_hardly_any_movement_proves_all_and_a_long_way_nothing() -> None:
    near = replacement_bound(*moved(Nearest(), 1e-9, 0)[:2], [moved(Nearest(), 1e-9, 0)[2]], lambda images: (images,))
    assert (near.stayed, near.proven) == (30, 30)
    model, before, cells = moved(Nearest(), 1.0, 0)
    assert replacement_bound(model, before, [cells], lambda images: (images,)).proven == 0


def test_where_cells_are_shared_out_the_bound_is_refused_with_a_reason() -> None:
    model, before, cells = moved(Distinct(2), 1e-9, 0)
    bound = replacement_bound(model, before, [cells], lambda images: (images,))
    assert bound.proven is None and bound.stayed == 30 and "cell" in bound.refusal
    assert bound.figures == {STAYED: 1.0}


def line(epoch: int, figures: dict[str, float], refusals: dict[str, str]) -> LogLine:
    return LogLine(epoch, "joint", 1.0, {}, 0.5, 0.5, 1.0, figures, 0.5, 1.0, True, 1.0, refusals)


def test_the_log_says_the_share_or_the_reason_and_gives_the_last_one_back() -> None:
    lines = [line(1, {STAYED: 0.9, PROVEN: 0.5}, {}), line(2, {STAYED: 1.0}, {PROVEN: "cells jump"}), line(3, {}, {})]
    header, first, second, third = (row.split(",") for row in log_text(lines).splitlines())
    column = header.index(PROVEN)
    assert [first[column], second[column], third[column]] == ["0.5", "cells jump", ""]
    assert "refusals" not in header
    assert bound_in(lines[:1], 10) == ReplacementBound(10, 9, 5, "")
    assert bound_in(lines, 10) == ReplacementBound(10, 10, None, "cells jump")
    assert bound_in(lines[2:], 10) is None
    assert [log_line(to_plain(one)) for one in lines] == lines


def test_lines_of_earlier_logs_have_no_refusals() -> None:
    plain = to_plain(line(1, {}, {}))
    del plain["refusals"]
    assert log_line(plain).refusals == {}
