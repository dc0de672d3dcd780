"""The probe (ours, not in the paper): linear classifiers at all layers of a network from one pass through it.

The backbone stays as it is. One pass over the augmented views of the training images gives the averaged features at
every candidate layer at once, and each layer gets its own linear classifier, learnt to the minimum. So a network costs
one pass without gradients, however many of its layers are asked about. It ranks cuts by what the given weights already
know at a layer; what fine-tuning would add is not in it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.utils.data import DataLoader

from pixpnet.data import Batch, Sample, take
from pixpnet.goldilocks.bench import Bench, Outcome
from pixpnet.goldilocks.candidates import Candidate
from pixpnet.goldilocks.logistic import fit_and_choose
from pixpnet.goldilocks.settings import BATCH
from pixpnet.goldilocks.taps import TappedBackbone
from pixpnet.model.modes import evaluating

_HELD_OUT = 0.2
_PASS_SHARE = 0.8  # of the time, about; the rest is for the classifiers


@dataclass(frozen=True)
class Seen:
    """What a pass saw: features at each layer, and whose they are."""

    features: tuple[Float[Tensor, "images _channels"], ...]
    labels: Int64[Tensor, " images"]
    ids: tuple[str, ...]


def probe(candidates: Sequence[Candidate], bench: Bench) -> Iterator[Outcome]:
    """Evaluates candidates of one network: accuracies of linear classifiers on its averaged features.

    A weight decay is chosen on training images that are held out (all views of an image together); the validation
    images are only counted on.
    """
    settings = bench.settings
    inner = sorted(candidates, key=lambda cut: cut.order)
    tapped = TappedBackbone(bench.backbone(inner[-1]), inner)
    batch = settings.batch or BATCH
    loader = bench.training_batches(batch, settings.views)
    loader.sampler.set_epoch(0)  # type: ignore[attr-defined]
    plain = bench.validation_batches(batch)
    batches = len(loader) + len(plain)
    with evaluating(tapped):
        train = _pass(tapped, loader, bench, 0, batches)
        val = _pass(tapped, plain, bench, len(loader), batches)
    held_out = held_out_of(bench, train.ids)
    for index, candidate in enumerate(inner):
        yield probe_outcome(candidate, train, val, held_out, index, bench.classes)
        bench.share_done(_PASS_SHARE + (1 - _PASS_SHARE) * (index + 1) / len(inner))


def _pass(tapped: TappedBackbone, loader: DataLoader[Sample], bench: Bench, before: int, of: int) -> Seen:
    parts: list[tuple[Tensor, ...]] = []
    labels: list[Tensor] = []
    ids: list[str] = []
    batch: Batch
    for done, batch in enumerate(loader, start=before + 1):
        batch = batch.to(bench.device)
        parts.append(tapped(batch.images))
        labels.append(batch.labels)
        ids += batch.ids
        bench.share_done(_PASS_SHARE * done / of)
    return Seen(tuple(torch.cat(layer) for layer in zip(*parts, strict=True)), torch.cat(labels), tuple(ids))


def held_out_of(bench: Bench, ids: tuple[str, ...]) -> Bool[Tensor, " images"]:
    """Which views are held out to choose the weight decay by; all of an image together."""
    data, seed = bench.data, bench.settings.seed
    taken = {entry.id for entry in take(data.train, _HELD_OUT, seed, "weight decay", data.split_rule).taken}
    return torch.tensor([id_ in taken for id_ in ids], device=bench.device)


def probe_outcome(
    candidate: Candidate, train: Seen, val: Seen, held_out: Bool[Tensor, " images"], index: int, classes: int
) -> Outcome:
    """The accuracy of a linear classifier on the features at one of the layers."""
    features, seen = train.features[index], val.features[index]
    if not (features.isfinite().all() and seen.isfinite().all()):
        return Outcome(candidate, None, error="features at this layer are not finite: are the weights damaged?")
    model = fit_and_choose(features, train.labels, held_out, classes)
    right = int((model.logits(seen).argmax(dim=1) == val.labels).sum())
    return Outcome(candidate, right / len(val.labels), len(val.labels))
