"""The network's answers, image by image, from one forward pass of each: what measures of places are made of."""

from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass
from itertools import islice

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from pixpnet.data import Sample
from pixpnet.metrics.regions import Cell
from pixpnet.model import PixPNet
from pixpnet.model.modes import refuse_training_mode
from pixpnet.parts import Matches
from pixpnet.parts.comparison import Places
from pixpnet.progress import Progress

BATCH = 32


@dataclass(frozen=True)
class Answer:
    """What the network makes of one image.

    Attributes:
        sample: the image.
        predicted: the class with the largest logit.
        scores: of every prototype.
        cells: of each prototype, its grid and the row and column of the cell that speaks for it there.
        speaking: which prototypes count in this image, where the decision chooses among them.
        places: where the parts of that cell's patch are read, for each prototype, where that depends on the image;
            else empty.
    """

    sample: Sample
    predicted: int
    scores: Float[Tensor, " protos"]
    cells: Int64[Tensor, "protos 3"]
    speaking: Bool[Tensor, " protos"]
    places: tuple[Places, ...] = ()

    def cells_of(self, prototypes: Int64[Tensor, " some"]) -> list[Cell]:
        """The cells of some prototypes."""
        places = [self.places[number] for number in prototypes.tolist()] if self.places else [()] * len(prototypes)
        cells = zip(self.cells[prototypes].tolist(), places, strict=True)
        return [Cell(grid, row, col, at) for (grid, row, col), at in cells]


def answers(
    model: PixPNet, samples: Iterable[Sample], progress: Progress | None = None, batch_size: int = BATCH
) -> Iterator[Answer]:
    """One forward pass for each image, in batches; everything that is yielded is on the CPU.

    Args:
        model: in eval mode.
        samples: preprocessed and normalised.
        progress: told how many samples are done, of how many (0 if that is not known).
        batch_size: images in a forward pass.

    Raises:
        ValueError: if the model is in training mode, or a sample does not fit.
    """
    refuse_training_mode(model)
    total, done = len(samples) if isinstance(samples, Sized) else 0, 0
    rest = iter(samples)
    grids = torch.cat([torch.full((len(grid.prototypes),), grid.number) for grid in model.grids])
    while batch := tuple(islice(rest, batch_size)):
        with torch.no_grad():
            output = model(torch.stack([normalized_image(model, sample) for sample in batch]))
        predicted = output.logits.argmax(dim=1).tolist()
        scores, cells = output.matches.scores.cpu(), output.matches.cells.cpu()
        speaking = model.head.speaking(output.matches.scores).cpu()
        for number, sample in enumerate(batch):
            where = torch.cat([grids[:, None], cells[number]], dim=1)
            yield Answer(
                sample,
                predicted[number],
                scores[number],
                where,
                speaking[number],
                _places(output.matches, number, where),
            )
            done += 1
            if progress is not None:
                progress("looking where cells win", done, total)


def _places(matches: Matches, image: int, cells: Int64[Tensor, "protos 3"]) -> tuple[Places, ...]:
    """Where parts are read, of the patch that speaks for each prototype; none where no grid has any."""
    if all(grid.places is None for grid in matches.grids):
        return ()
    return tuple(matches.grids[grid].places_at(image, (row, col)) for grid, row, col in cells.tolist())


def normalized_image(model: PixPNet, sample: Sample) -> Float[Tensor, "3 height width"]:
    """A sample's image as the model takes it.

    Raises:
        ValueError: if the image is not normalised, or the sample is of no class of the model.
    """
    if not sample.image.is_floating_point():
        raise ValueError(
            f"{sample.id}: expected a normalised image, got {sample.image.dtype}: preprocess the sample with "
            "pixpnet.data.preprocess(sample, model.preprocessing)"
        )
    if not 0 <= sample.label < model.num_classes:
        raise ValueError(
            f"{sample.id} has class {sample.label}, and the model tells apart {model.num_classes}: give samples of the "
            "data set that it was trained on"
        )
    return sample.image.as_subclass(Tensor).to(model.device, model.dtype)
