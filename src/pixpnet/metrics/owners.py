"""Which classes prototypes speak for, as plain numbers."""

from pixpnet.model import PixPNet


def owners_of(model: PixPNet) -> tuple[tuple[int, ...], ...]:
    """The classes that each prototype speaks for, in the order of prototypes; none for one without a class."""
    return tuple(tuple(classes.nonzero().flatten().tolist()) for classes in model.ownership.mask().cpu().T)
