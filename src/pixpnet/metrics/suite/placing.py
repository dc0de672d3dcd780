"""Parts and places of a run: where its prototypes come from, what they show, and where its answers look.

One forward pass for each image of the split (answers, distinctiveness) and one for each training image (purity), and a
look at the images that prototypes come from. Each of the three is kept when it is done.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pixpnet.data import DataSet, Entry
from pixpnet.data.loader import PlainSamples
from pixpnet.data.reader import WithoutMasks
from pixpnet.metrics.answering import answers
from pixpnet.metrics.answers import AnswerPlaces, AnswerPlacesCounter
from pixpnet.metrics.distinctiveness import Distinctiveness, DistinctivenessCounter
from pixpnet.metrics.origin_places import PrototypePlaces, prototype_places
from pixpnet.metrics.purity import Purity, prototype_purity
from pixpnet.metrics.sizes import Sizes, SizesCounter
from pixpnet.metrics.suite.record import Places
from pixpnet.metrics.suite.result_store import ResultStore
from pixpnet.model import PixPNet
from pixpnet.progress import Progress

_TASK = "parts and places"


@dataclass(frozen=True)
class _OfAnswers:
    """What one pass over the split gives."""

    answers: AnswerPlaces
    distinctiveness: Distinctiveness


@dataclass(frozen=True)
class MeasuredPlaces:
    """Parts and places, and the sizes that the same pass over the split counts."""

    places: Places
    sizes: Sizes


def measure_places(
    model: PixPNet, data: DataSet, entries: Sequence[Entry], seed: int, results: ResultStore, progress: Progress
) -> MeasuredPlaces:
    """Measures what is not among the kept results yet.

    Args:
        model: in eval mode.
        data: what it was trained on.
        entries: of the split that is measured.
        seed: of random places and intervals.
        results: where what was measured is kept.
        progress: told how many forward passes are done, of how many.
    """
    known = data.reader(data.train[0])
    # Masks are only looked at where there are no boxes, and cost more to carry along than the images themselves.
    unmasked = data if known.bounding_box is None else replace(data, reader=WithoutMasks(data.reader))
    total = len(entries) + (len(data.train) if data.point_parts else 0)
    of_answers, sizes = results.get(_OfAnswers, "places of answers"), results.get(Sizes, "sizes")
    if of_answers is None or sizes is None:
        counters = AnswerPlacesCounter(model, seed), DistinctivenessCounter(model, seed=seed), SizesCounter(model, seed)
        samples = PlainSamples(entries, unmasked.reader, model.preprocessing)
        for answer in answers(model, samples, lambda _, done, __: progress(_TASK, done, total)):
            for counter in counters:
                counter.update(answer)
        of_answers, sizes = _OfAnswers(counters[0].compute(), counters[1].compute()), counters[2].compute()
        results.put(of_answers, "places of answers")
        results.put(sizes, "sizes")
    purity = None
    if data.point_parts:
        purity = results.get(Purity, "purity")
        if purity is None:
            samples = PlainSamples(data.train, WithoutMasks(data.reader), model.preprocessing)
            purity = prototype_purity(
                model,
                samples,
                data.point_parts,
                seed=seed,
                progress=lambda _, done, __: progress(_TASK, len(entries) + done, total),
            )
            results.put(purity, "purity")
    prototypes = None
    if data.point_parts or known.bounding_box is not None or known.masks is not None:
        prototypes = results.get(PrototypePlaces, "prototype places")
        if prototypes is None:
            prototypes = prototype_places(model, unmasked, seed=seed)
            results.put(prototypes, "prototype places")
    return MeasuredPlaces(Places(of_answers.answers, of_answers.distinctiveness, purity, prototypes), sizes)
