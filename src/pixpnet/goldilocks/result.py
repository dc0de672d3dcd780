"""What came out of a search: every candidate with its figures, the front, an advice, and the files that hold them."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from pixpnet.config import NumWorkers, RunConfig, config_text
from pixpnet.goldilocks.candidates import Candidate, LeftOut, Survey
from pixpnet.goldilocks.errors import SearchError
from pixpnet.goldilocks.front import RankAgreement, Trade, nearest_on_front, pareto_front
from pixpnet.goldilocks.settings import SearchSettings, training_config
from pixpnet.goldilocks.study import FinishedTrial
from pixpnet.records import ADDED_LATER, from_plain, to_plain
from pixpnet.training.evaluation import Interval, wilson
from pixpnet.whole_file import written_whole
from pixpnet.windows import Windows
from pixpnet.wording import percent

FRONT_JSON, FRONT_CSV, FRONT_FIGURE, TRAIN_CONFIG = "front.json", "front.csv", "front.png", "train.yaml"
FIELDS_JSON, FIELDS_CSV = "fields.json", "fields.csv"


@dataclass(frozen=True)
class EvaluatedCut:
    """A candidate, and what a method found of it.

    Attributes:
        name: for people.
        backbone: in the zoo.
        at: the layer.
        edits: changes to the network before it is cut.
        weights: a file, "imagenet", "none", or None for a small backbone.
        mean_field: mean share of the image that a cell sees, channels united.
        mean_field_neurons: the same over every neuron.
        shape: channels, rows and columns.
        accuracy: on validation, 0-1; None if it failed.
        interval: of the accuracy (Wilson, 95 %), for images like these.
        images: how many validation images.
        seconds: how long it took.
        error: why it failed.
        on_front: whether no other cut is at least as small and as accurate, and better in one.
        windows: the windows that the network runs on; None for the whole image.
        probe: accuracy of a linear classifier on the same features, where the method has one beside.
    """

    name: str
    backbone: str
    at: str
    edits: tuple[str, ...]
    weights: str | None
    mean_field: float
    mean_field_neurons: float
    shape: tuple[int, int, int]
    accuracy: float | None
    interval: Interval | None
    images: int
    seconds: float
    error: str | None
    on_front: bool
    windows: Windows | None = field(default=None, metadata=ADDED_LATER)
    probe: float | None = field(default=None, metadata=ADDED_LATER)


@dataclass(frozen=True)
class SearchResult:
    """A search, finished or as far as it came.

    Attributes:
        settings: what decided it.
        zone: smallest and largest mean field that was trained.
        want: the mean field that is wanted.
        evaluated: by mean field, smallest first.
        waiting: names of candidates that have no result yet.
        outside: candidates whose field lies outside the zone.
        left_out: layers that cannot be cut at.
        recommended: name of the cut on the front whose field is nearest to the wanted one.
        advice: the same as a sentence.
        agreements: with other methods on the same images, where the storage has any.
        designs: modified cuts in words, where they were asked for.
    """

    settings: SearchSettings
    zone: tuple[float, float]
    want: float
    evaluated: tuple[EvaluatedCut, ...]
    waiting: tuple[str, ...]
    outside: tuple[Candidate, ...]
    left_out: tuple[LeftOut, ...]
    recommended: str | None
    advice: str
    agreements: tuple[RankAgreement, ...]
    designs: tuple[str, ...] = field(default=(), metadata=ADDED_LATER)

    @property
    def front(self) -> tuple[EvaluatedCut, ...]:
        """The cuts on the front, smallest field first."""
        return tuple(cut for cut in self.evaluated if cut.on_front)


def evaluated_cuts(
    finished: Sequence[tuple[Candidate, FinishedTrial]], weights: dict[str, str | None]
) -> tuple[EvaluatedCut, ...]:
    """Candidates with what was found of them, by field, with the front marked."""
    ordered = sorted(finished, key=lambda pair: (pair[0].mean_field, -(pair[1].accuracy or 0), pair[0].name))
    done = [(cut, known) for cut, known in ordered if known.accuracy is not None]
    marks = pareto_front([Trade(cut.mean_field, known.accuracy or 0.0) for cut, known in done])
    on_front = {cut for (cut, _), mark in zip(done, marks, strict=True) if mark}
    return tuple(
        EvaluatedCut(
            name=cut.name,
            backbone=cut.backbone,
            at=cut.at,
            edits=cut.edits,
            weights=weights[cut.backbone],
            mean_field=cut.mean_field,
            mean_field_neurons=cut.mean_field_neurons,
            shape=cut.shape,
            accuracy=known.accuracy,
            interval=None if known.accuracy is None else wilson(round(known.accuracy * known.images), known.images),
            images=known.images,
            seconds=known.seconds,
            error=known.error,
            on_front=cut in on_front,
            windows=cut.windows,
            probe=known.probe,
        )
        for cut, known in ordered
    )


def recommendation(evaluated: Sequence[EvaluatedCut], want: float) -> tuple[EvaluatedCut | None, str]:
    """The cut to take for a wanted field, and a sentence that says so and what its neighbours on the front offer."""
    done = [cut for cut in evaluated if cut.accuracy is not None]
    index = nearest_on_front([Trade(cut.mean_field, cut.accuracy or 0.0) for cut in done], want)
    if index is None:
        return None, "No cut was evaluated, so there is nothing to recommend."
    best, accuracy = done[index], done[index].accuracy or 0.0
    text = (
        f"For parts of about {percent(want)} of the image, cut {best.name}: a cell sees {percent(best.mean_field)} on "
        f"average, and validation accuracy is {percent(accuracy)} ({best.images} images)"
    )
    if best.probe is not None:
        text += f" after replacement (a linear probe on the same features: {percent(best.probe)})"
    front = [cut for cut in evaluated if cut.on_front]
    smaller = [cut for cut in front if cut.mean_field < best.mean_field]
    larger = [cut for cut in front if cut.mean_field > best.mean_field]
    if larger:
        gain = 100 * ((larger[0].accuracy or 0.0) - accuracy)
        text += f"; {larger[0].name} gains {gain:.1f} points with {percent(larger[0].mean_field)}"
    if smaller:
        cost = 100 * (accuracy - (smaller[-1].accuracy or 0.0))
        text += f"; {smaller[-1].name} costs {cost:.1f} points with {percent(smaller[-1].mean_field)}"
    return best, text + "."


def write_result(result: SearchResult, folder: Path, num_workers: NumWorkers = "auto") -> None:
    """Writes `front.json`, `front.csv` and, where a cut is recommended, `train.yaml`."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / FRONT_JSON, json.dumps(to_plain(result), indent=1) + "\n")
    _write(folder / FRONT_CSV, _csv(list(result.evaluated)))
    best = next((cut for cut in result.evaluated if cut.name == result.recommended), None)
    if best is not None:
        _write(folder / TRAIN_CONFIG, config_text(recommended_run(result.settings, best, num_workers)))


def recommended_run(settings: SearchSettings, best: EvaluatedCut, num_workers: NumWorkers = "auto") -> RunConfig:
    """The run that trains a cut, as `train.yaml` says it."""
    return training_config(settings, best.backbone, best.at, best.weights, num_workers, best.edits, best.windows)


def read_result(folder: Path) -> SearchResult:
    """Reads `front.json`.

    Raises:
        SearchError: if it is missing or damaged.
    """
    path = folder / FRONT_JSON
    try:
        return from_plain(SearchResult, json.loads(path.read_text(encoding="utf-8")), str(path))
    except FileNotFoundError as error:
        raise SearchError(f"there is no {path}: is {folder} the folder of a search (pixpnet goldilocks)?") from error
    except ValueError as error:
        raise SearchError(f"{path} is damaged ({error}): the search's own command writes it anew") from error


def write_survey(surveyed: Survey, folder: Path) -> None:
    """Writes `fields.json` and `fields.csv`."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / FIELDS_JSON, json.dumps(to_plain(surveyed), indent=1) + "\n")
    _write(folder / FIELDS_CSV, _csv(list(surveyed.candidates)))


def _csv(records: Sequence[Any]) -> str:
    text = StringIO()
    rows = [_row(to_plain(record)) for record in records]
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _row(values: dict[str, Any]) -> dict[str, Any]:
    """A record as cells of a table; windows have three, under the names of the options that make them."""
    windows = values.pop("windows") or {}
    names = {"window": "size", "window_stride": "stride", "window_from": "start"}
    return {
        **{name: _cell(value) for name, value in values.items()},
        **{option: windows.get(name) for option, name in names.items()},
    }


def _cell(value: Any) -> Any:
    if isinstance(value, dict):
        return " to ".join(map(str, value.values()))
    if isinstance(value, list):
        sizes = all(isinstance(item, int) for item in value)
        return (" x " if sizes else " + ").join(map(str, value))
    return value


def _write(path: Path, text: str) -> None:
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
