"""What a run's model made of each image that it was evaluated on, as tensors: `scores.safetensors`.

`answers.csv` is for people and has the best classes; this has the logits of all, from which calibration, prediction
sets of any coverage and doubt follow without another look at the test split.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import torch
from jaxtyping import Float, Int64
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from pixpnet.training.run import Run, RunError

SCORES_FILE = "scores.safetensors"
UNKNOWN = -1
"""A length of the deciding list that was not measured, or that there is none of."""
# Of all numbers in the file, at most: the logits of 50,000 images of 1,000 classes.
_MOST_NUMBERS = 50_000_000


@dataclass(frozen=True)
class SplitScores:
    """What a model made of the images of a split.

    Attributes:
        logits: of every class.
        labels: the true classes.
        largest_scores: the largest score of any prototype.
        deciding: how many of the largest scores decide the answer; `UNKNOWN` where that was not measured.
    """

    logits: Float[Tensor, "images classes"]
    labels: Int64[Tensor, " images"]
    largest_scores: Float[Tensor, " images"]
    deciding: Int64[Tensor, " images"]

    def __len__(self) -> int:
        return len(self.labels)


def write_scores(run: Run, splits: Mapping[str, SplitScores]) -> None:
    """Keeps scores, by the names of their splits; none where there are too many of them."""
    tensors = {
        f"{split}.{part.name}": getattr(scores, part.name).contiguous()
        for split, scores in splits.items()
        for part in fields(SplitScores)
    }
    if sum(tensor.numel() for tensor in tensors.values()) > _MOST_NUMBERS:
        return
    with run.manifest.replacing(SCORES_FILE) as temporary:
        temporary.write_bytes(save(tensors))


def read_scores(run: Run) -> dict[str, SplitScores]:
    """What `write_scores` wrote; empty in runs of earlier versions.

    Raises:
        RunError: if the file is damaged.
    """
    path = run.path / SCORES_FILE
    if not path.exists():
        return {}
    try:
        with safe_open(path, framework="pt") as opened:
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118  it is no dictionary
        names = dict.fromkeys(name.rpartition(".")[0] for name in sorted(tensors))
        splits = {
            split: SplitScores(*(tensors[f"{split}.{part.name}"] for part in fields(SplitScores))) for split in names
        }
        for scores in splits.values():
            _check(scores)
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise RunError(f"{path} is damaged ({error}): put a copy back, or train anew") from error
    return splits


def _check(scores: SplitScores) -> None:
    count, classes = scores.logits.shape
    if any(getattr(scores, part.name).shape[0] != count for part in fields(SplitScores)):
        raise ValueError("its parts are of different numbers of images")
    if not torch.isfinite(scores.logits).all() or not torch.isfinite(scores.largest_scores).all():
        raise ValueError("it holds numbers that are not finite")
    if count and not 0 <= int(scores.labels.min()) <= int(scores.labels.max()) < classes:
        raise ValueError("it names classes that there are not")
