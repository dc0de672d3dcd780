"""Matrix products: every entry reads one row of the left and one column of the right."""

import torch

from pixpnet.fields.rules.registry import Call, rule
from pixpnet.fields.sources import Sources

aten = torch.ops.aten


def _product(left: Sources, right: Sources) -> Sources:
    """``left @ right`` for matrices and batches of them."""
    rows = left.reduce([-1], keepdim=True)
    columns = right.reduce([-2], keepdim=True)
    return Sources.union([rows, columns])


@rule(aten.mm.default, aten.bmm.default)
def product(call: Call) -> Sources:
    """``self @ mat2``."""
    return _product(call.sources("self"), call.sources("mat2"))


@rule(aten.addmm.default)
def add_product(call: Call) -> Sources:
    """``self + mat1 @ mat2``."""
    return Sources.union([call.sources("self"), _product(call.sources("mat1"), call.sources("mat2"))])


@rule(aten.baddbmm.default)
def add_batch_product(call: Call) -> Sources:
    """``self + batch1 @ batch2``."""
    return Sources.union([call.sources("self"), _product(call.sources("batch1"), call.sources("batch2"))])


@rule(aten.addbmm.default)
def add_summed_product(call: Call) -> Sources:
    """``self`` plus the sum over the batch of ``batch1 @ batch2``."""
    products = _product(call.sources("batch1"), call.sources("batch2")).reduce([0], keepdim=False)
    return Sources.union([call.sources("self"), products])


@rule(aten._cdist_forward.default, aten._euclidean_dist.default)
def pairwise_distance(call: Call) -> Sources:
    """The distance of each row of the one to each row of the other."""
    return _product(call.sources("x1"), call.sources("x2").transpose(-2, -1))


@rule(aten.mv.default)
def matrix_vector(call: Call) -> Sources:
    """``self @ vec``."""
    return _product(call.sources("self"), call.sources("vec").unsqueeze(-1)).squeeze([-1])


@rule(aten.dot.default, aten.vdot.default)
def inner(call: Call) -> Sources:
    """The sum of products of two vectors."""
    return Sources.union([call.sources("self"), call.sources("tensor" if "tensor" in call else "other")]).reduce(
        [0], keepdim=False
    )


@rule(aten.linear.default)
def linear(call: Call) -> Sources:
    """``input @ weight.T + bias``."""
    weight = call.sources("weight")
    rows = call.sources("input").reduce([-1], keepdim=True)
    columns = weight.reduce([-1], keepdim=False)
    return Sources.union([rows, columns, call.sources("bias")])
