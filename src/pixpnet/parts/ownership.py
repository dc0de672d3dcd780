"""Ownership: which classes a prototype speaks for, and which training images may give it its patch."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Int64
from torch import Tensor, nn

from pixpnet.extras import wanted_by

NOBODY = -1


class Ownership(nn.Module, ABC):
    """Which classes each prototype speaks for. It is a module so that it moves with the network; it has no parameters.

    Attributes:
        labels: the class that a prototype is listed under: its own; where it has several, the first; -1 without any.
    """

    labels: Tensor
    #: What readers of measured figures must know where prototypes are measured on other images than those of the
    #: classes that they speak for (`expected`); None where they are not.
    measured_on: str | None = None

    @abstractmethod
    def mask(self) -> Bool[Tensor, "classes protos"]:
        """Which prototypes speak for which class."""

    def of_images(self, labels: Int64[Tensor, " batch"]) -> Bool[Tensor, "batch protos"]:
        """Which prototypes speak for the class of each image: a row of `mask` for each."""
        return self.mask()[labels]

    @abstractmethod
    def sources(self) -> Bool[Tensor, "classes protos"]:
        """Images of which class may give a prototype its patch; each prototype has at least one."""

    @abstractmethod
    def rivals(self) -> tuple[Int64[Tensor, " _some"], ...]:
        """Groups of prototypes that may not share a patch, where replacement has such a rule."""

    def expected(self) -> Bool[Tensor, "classes protos"]:
        """In images of which class a prototype is expected to be found, and measured: of those it speaks for."""
        return self.mask()

    def of(self, label: int) -> Int64[Tensor, " some"]:
        """The numbers of the prototypes that are expected in images of a class."""
        return self.expected()[label].nonzero().flatten()

    def owners(self, prototype: int) -> tuple[int, ...]:
        """The classes that a prototype speaks for."""
        return tuple(self.mask()[:, prototype].nonzero().flatten().tolist())

    def owners_of(self, prototypes: Sequence[int]) -> list[tuple[int, ...]]:
        """The classes that each of some prototypes speaks for, the one that it is listed under first."""
        chosen = torch.tensor(prototypes, dtype=torch.int64, device=self.labels.device)
        owners: list[list[int]] = [[] for _ in prototypes]
        for index, owner in self.mask()[:, chosen].T.nonzero().tolist():
            owners[index].append(owner)
        listed = zip(owners, self.labels[chosen].tolist(), strict=True)
        return [tuple(sorted(classes, key=lambda label: label != first)) for classes, first in listed]


class OneClassEach(Ownership):
    """Every prototype speaks for one class.

    >>> OneClassEach(torch.tensor([0, 0, 1]), 2).mask().tolist()
    [[True, True, False], [False, False, True]]
    """

    def __init__(self, labels: Int64[Tensor, " protos"], num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.register_buffer("labels", labels, persistent=False)
        self._owners: list[tuple[int, ...]] = []

    def mask(self) -> Bool[Tensor, "classes protos"]:
        """See `Ownership`."""
        return membership(self.labels, self.num_classes)

    def of_images(self, labels: Int64[Tensor, " batch"]) -> Bool[Tensor, "batch protos"]:
        """Without the mask of all classes, which has 250 million entries for 5,000 of them."""
        return labels[:, None] == self.labels

    def owners_of(self, prototypes: Sequence[int]) -> list[tuple[int, ...]]:
        """Its label; without the mask of all classes."""
        self._owners = self._owners or [(label,) for label in self.labels.tolist()]
        return [self._owners[prototype] for prototype in prototypes]

    def sources(self) -> Bool[Tensor, "classes protos"]:
        """Images of its own class."""
        return self.mask()

    def rivals(self) -> tuple[Int64[Tensor, " _some"], ...]:
        """Prototypes of one class do not share a patch."""
        return tuple((self.labels == label).nonzero().flatten() for label in range(self.num_classes))


class ClassSets(Ownership):
    """A prototype may speak for several classes: one that others were merged into speaks for all of theirs.

    >>> sets = ClassSets([(0,), (1, 2)], 3)
    >>> sets.mask().tolist(), sets.labels.tolist()
    ([[True, False], [False, True], [False, True]], [0, 1])
    """

    sets: Tensor

    def __init__(self, owners: Sequence[Sequence[int]], num_classes: int) -> None:
        super().__init__()
        for classes in owners:
            if not classes or min(classes) < 0 or max(classes) >= num_classes:
                raise ValueError(f"a prototype speaks for some of {num_classes} classes, got {list(classes)[:10]}")
        pairs = [(label, proto) for proto, classes in enumerate(owners) for label in classes]
        sets = torch.zeros(num_classes, len(owners), dtype=torch.bool)
        sets[[label for label, _ in pairs], [proto for _, proto in pairs]] = True
        self.register_buffer("sets", sets, persistent=False)
        self.register_buffer("labels", torch.tensor([min(classes) for classes in owners]), persistent=False)

    def mask(self) -> Bool[Tensor, "classes protos"]:
        """See `Ownership`."""
        return self.sets

    def sources(self) -> Bool[Tensor, "classes protos"]:
        """Images of every class that it speaks for."""
        return self.sets

    def rivals(self) -> tuple[Int64[Tensor, " _some"], ...]:
        """Those that share a class, with those that share one with these, and so on: groups must not overlap."""
        with wanted_by("the replacement of prototypes that share classes"):
            from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped]

        shared = self.sets.cpu().numpy().astype(np.int64)
        count, numbers = connected_components(shared.T @ shared, directed=False)
        return tuple((torch.from_numpy(numbers) == group).nonzero().flatten() for group in range(count))


def membership(labels: Int64[Tensor, " protos"], num_classes: int) -> Bool[Tensor, "classes protos"]:
    """Which prototypes have which label."""
    return torch.arange(num_classes, device=labels.device)[:, None] == labels[None, :]
