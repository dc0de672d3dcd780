"""A trained network that another one learns from: what it makes of batches, without learning anything itself."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pixpnet.model import Backbone, PixPNet
from pixpnet.model.grids import Embeddings
from pixpnet.parts import Matches
from pixpnet.training.run import RunError


@dataclass(frozen=True)
class Taught:
    """What a teacher makes of a batch.

    Attributes:
        teacher: the network.
        embeddings: of each grid.
        matches: with its own prototypes.
    """

    teacher: PixPNet
    embeddings: Embeddings
    matches: Matches


def teach(teacher: PixPNet, images: Tensor, behind_stem: bool) -> Taught:
    """What a teacher, in eval mode, makes of images, or of what its frozen stem made of them."""
    with torch.no_grad():
        embeddings = (teacher.behind_stem if behind_stem else teacher).embed(images)
        return Taught(teacher, embeddings, teacher.match(embeddings))


def refuse_other_stem(teacher: Backbone, student: Backbone) -> None:
    """Where features are kept instead of images, a teacher sees what the student's frozen layers gave: they must agree.

    Raises:
        RunError: if the frozen layers of the two are not the same.
    """
    theirs, ours = teacher.frozen_state(), student.frozen_state()
    if theirs.keys() != ours.keys() or any(not torch.equal(theirs[name], ours[name]) for name in ours):
        raise RunError(
            "features of frozen layers are kept instead of images, and the teacher's layers are not the same: take a "
            "teacher that was trained with the same --frozen, --backbone, --at and --weights, or leave out --frozen"
        )
