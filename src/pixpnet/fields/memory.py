"""What the memory of a tensor reads, shared by all its views, so that a write through one is seen by the others."""

from dataclasses import dataclass, field

from pixpnet.fields.errors import UnsupportedOperation
from pixpnet.fields.rules.registry import View
from pixpnet.fields.rules.taps import Reach
from pixpnet.fields.sources import Sources


@dataclass
class Memory:
    """What the elements of a tensor's own memory read; shared by all its views."""

    sources: Sources
    reach: Reach | None = None  # what the elements can name, where they are used as an index
    is_real: bool = False  # whether the elements are complex numbers, and only their real parts depend on the image
    version: int = 0

    def overwrite(self, sources: Sources) -> None:
        """Puts what was just written in place of what was there."""
        self.sources = sources
        self.reach = None
        self.version += 1


@dataclass
class Handle:
    """A tensor: a chain of views on a memory."""

    memory: Memory
    views: tuple[View, ...] = ()
    seen: tuple[int, Sources] | None = field(default=None, repr=False)

    def read(self) -> Sources:
        """What each element of the tensor reads now."""
        if self.seen is None or self.seen[0] != self.memory.version:
            sources = self.memory.sources
            for view in self.views:
                sources = view.read(sources)
            self.seen = (self.memory.version, sources)
        return self.seen[1]

    def write(self, sources: Sources, layer: str) -> None:
        """Writes to the tensor, and so to the memory that it is a view of."""
        bases = [self.memory.sources]
        for view in self.views[:-1]:
            bases.append(view.read(bases[-1]))
        for view, base in zip(reversed(self.views), reversed(bases), strict=False):
            if view.write is None:
                raise UnsupportedOperation(
                    f"{layer} writes through a view (of a diagonal, of windows, expanded) for which there is no "
                    "receptive-field rule; write to a copy, or cut the backbone earlier"
                )
            sources = view.write(base, sources)
        self.memory.overwrite(sources)
