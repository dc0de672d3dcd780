"""Prototypes on a backbone that stays as it is: one pass over the images for each cut, then seconds for the prototypes.

The features of a cut are computed once and kept where every run keeps them (`pixpnet.training.features`). A linear
probe and the prototypes of a PixPNet (preset `frozen`) both learn from them, and so does `pixpnet train` of the cut
that is recommended in the end: it makes no second pass. The accuracy of a cut is that of its prototypes after
replacement on the validation images; the probe's stands beside it.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import torch

from pixpnet.goldilocks.bench import Bench, Outcome
from pixpnet.goldilocks.candidates import Candidate
from pixpnet.goldilocks.pooled import pool
from pixpnet.goldilocks.probe import Seen, held_out_of, probe_outcome
from pixpnet.goldilocks.settings import BATCH
from pixpnet.goldilocks.whole import run_of, trained
from pixpnet.training import Nobody
from pixpnet.training.features import Features, ViewOf
from pixpnet.training.preparing import prepare

# Of the time that a cut takes, about.
_PASS_SHARE, _PROBE_SHARE = 0.85, 0.02


def frozen(candidates: Sequence[Candidate], bench: Bench) -> Iterator[Outcome]:
    """Trains a probe and prototypes on the same kept features of each cut. The test split stays closed."""
    for candidate in candidates:
        probe = _probed(candidate, bench)
        if probe.error is not None:
            yield probe
            continue
        behind = _PASS_SHARE + _PROBE_SHARE
        metrics = trained(candidate, bench, partial(_tell, bench, behind, 1.0))
        validation = metrics.validation
        yield Outcome(candidate, validation.accuracy, validation.images, probe=probe.accuracy)


def _probed(candidate: Candidate, bench: Bench) -> Outcome:
    """Computes the features of a candidate's run, where they are not there yet, and fits a linear classifier."""
    wanted = run_of(candidate, bench)
    material = prepare(wanted.config, bench.data, wanted.run, Nobody()).material
    features = material.features
    assert features is not None  # the preset freezes the whole backbone
    features.backbone.to(bench.device)
    train, val = material.kept_views, [ViewOf(entry) for entry in bench.data.val]
    features.compute(
        [*train, *val], bench.device, lambda _, done, total: _tell(bench, 0.0, _PASS_SHARE, done / max(1, total))
    )
    seen = _averaged(features, train)
    outcome = probe_outcome(
        candidate, seen, _averaged(features, val), held_out_of(bench, seen.ids).cpu(), 0, bench.classes
    )
    _tell(bench, _PASS_SHARE, _PASS_SHARE + _PROBE_SHARE, 1.0)
    return outcome


def _averaged(features: Features, views: Sequence[ViewOf]) -> Seen:
    """The mean over the cells of each view."""
    pooled = []
    for first in range(0, len(views), BATCH):
        batch = features.batch(views[first : first + BATCH])
        pooled.append(pool(features.backbone.tail_maps(batch.images)[-1]))
    labels = torch.tensor([view.entry.label for view in views])
    return Seen((torch.cat(pooled),), labels, tuple(view.entry.id for view in views))


def _tell(bench: Bench, begin: float, end: float, share: float) -> None:
    """A share of a part of a cut's work, as a share of all of it."""
    bench.share_done(begin + (end - begin) * share)
