"""The report of a run, from its folder to one page that opens from disk: a library call, which prints nothing."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Literal

import torch

from pixpnet.data import DataError, DataSet, Entry, ImageError, Loading, Sample, plain_loader, preprocess
from pixpnet.explanation import explain, prove
from pixpnet.explanation.explaining import as_the_network_sees
from pixpnet.model import PixPNet
from pixpnet.model.mending import mending_text
from pixpnet.progress import Progress, part_of, silent
from pixpnet.records import from_plain
from pixpnet.training import Metrics, Run
from pixpnet.training.answers import AnswerLine, confusion_of
from pixpnet.training.converting import conversion_note
from pixpnet.training.evaluation import Evaluation, evaluation_of
from pixpnet.views.page import report_page
from pixpnet.views.report import Example, Report, Tested, tested
from pixpnet.views.trust import trust_block
from pixpnet.whole_file import written_whole

_BATCH = 64


@dataclass(frozen=True)
class ReportPage:
    """A report.

    Attributes:
        html: the page, which needs no other file.
        notes: what its reader must know, such as that the images have changed; they are on the page too.
        tested: what the proofs of its examples found, for the exact field and for upsampling.
        missing: the one of them that says why no examples could be drawn; None where they could.
    """

    html: str
    notes: tuple[str, ...]
    tested: tuple[Tested, ...]
    missing: str | None

    def write(self, path: Path | str) -> int:
        """Writes the page whole or not at all, and gives its size in bytes."""
        path = Path(path)
        # A file's name may hold bytes that are no text.
        content = self.html.encode("utf-8", errors="replace")
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as temporary:
            temporary.write_bytes(content)
        return len(content)


def report(
    run: Run | Path | str,
    *,
    images: Sequence[Path] = (),
    split: Literal["val", "test"] = "val",
    examples: int = 4,
    seed: int = 0,
    device: torch.device | str = "cpu",
    trust_code: bool = False,
    moved_to: str | None = None,
    progress: Progress | None = None,
) -> ReportPage:
    """Makes one page about a run: accuracy, prototypes, mistakes, and explained examples with proofs.

    Confusion, class accuracies and mistakes are those of the test split where the run was evaluated on it, from what
    the run kept of that; nothing is opened for them.

    Args:
        run: the folder of a finished run.
        images: to explain; where there are none, examples are drawn from the split.
        split: split that examples are sampled from; using test is recorded.
        examples: how many right, and how many wrong answers are explained.
        seed: of the drawing.
        device: where to compute.
        trust_code: whether a backbone that is code of its own may be called.
        moved_to: where the run's data set is now (`folder:PATH`), if it is not where it was.
        progress: told what is being done, how much of it is done, of how much.

    Raises:
        RunError: if the run is not finished, or its data set has other classes.
        ValueError: if a picture cannot be read.

    Example:
        >>> report("runs/birds").write("birds.html")  # doctest: +SKIP
    """
    run_folder, progress = Run.of(run), progress or silent
    metrics = from_plain(Metrics, run_folder.read_metrics(), str(run_folder.path / "metrics.json"))
    model = run_folder.model(trust_code).to(device)
    converted = conversion_note(run_folder)
    notes: list[str] = [] if converted is None else [converted]
    if model.mendings:
        notes.append(f"{mending_text(model.mendings)} Accuracies are this model's own.")
    missing: str | None = None
    chosen: list[tuple[Sample, str | None]] = [(sample, None) for sample in _read(images, model)]
    if examples and not chosen:
        data = _open(run_folder, moved_to, progress)
        if isinstance(data, str):
            missing = data
            notes.append(missing)
        else:
            changes = data.changes.sentences
            notes += [f"The data set has changed since the run began: {sentence}" for sentence in changes]
            entries = (
                data.val if split == "val" else data.test.open(run_folder.recorder(), "pixpnet report --split test")
            )
            chosen = _draw(model, data, entries, examples, seed, progress)
    shown = explained(model, chosen, seed, progress)
    evaluated_split, evaluation, mistakes = _evaluated(run_folder, metrics, model.class_names)
    kind, _, folder = run_folder.config.data.partition(":")
    page = report_page(
        Report(
            title=f"{Path(folder).name or kind}, {_backbone(model)}",
            model=model,
            metrics=metrics,
            openings=run_folder.read_openings(),
            split="validation" if split == "val" else "test",
            evaluated_split=evaluated_split,
            evaluation=evaluation,
            mistakes=mistakes,
            examples=shown,
            notes=tuple(notes),
            config=(run_folder.path / "config.yaml").read_text(encoding="utf-8"),
            versions={"pixpnet": version("pixpnet"), "torch": version("torch"), "Python": python_version()},
            trust=trust_block(run_folder, model),
            run=run_folder.path.name,
        )
    )
    return ReportPage(page, tuple(notes), tested(shown), missing)


def _evaluated(
    run: Run, metrics: Metrics, names: tuple[str, ...]
) -> tuple[str, Evaluation, tuple[AnswerLine, ...] | None]:
    """The split whose confusion is shown, how the model did there, and its mistakes, where the run kept them."""
    split, evaluation = ("validation", metrics.validation) if metrics.test is None else ("test", metrics.test)
    answers = run.read_answers()
    if answers is None:
        return split, evaluation, None
    lines = [line for line in answers if line.split == ("val" if split == "validation" else "test")]
    mistakes = sorted((line for line in lines if line.answer != line.truth), key=lambda line: -line.lead)
    return split, evaluation_of(confusion_of(lines, names), evaluation.loss), tuple(mistakes)


def _read(images: Sequence[Path], model: PixPNet) -> list[Sample]:
    samples = []
    for path in images:
        try:
            samples.append(as_the_network_sees(model, path))
        except (ImageError, OSError) as error:
            raise ValueError(f"{path}: {error}") from error
    return samples


def _open(run: Run, moved_to: str | None, progress: Progress) -> DataSet | str:
    """The run's data set, or the note that it is not at hand."""
    try:
        return run.data(progress, moved_to)
    except (DataError, OSError) as error:
        return f"The data set {run.config.data} is not at hand, so no examples could be drawn from it: {error}"


def _draw(
    model: PixPNet, data: DataSet, entries: tuple[Entry, ...], count: int, seed: int, progress: Progress
) -> list[tuple[Sample, str | None]]:
    """As many right and wrong answers as were asked for, or as there are, in an order that the seed decides."""
    order = list(entries)
    random.Random(seed).shuffle(order)  # noqa: S311  no secrets here
    right: list[Entry] = []
    wrong: list[Entry] = []
    batches = plain_loader(data, order, model.preprocessing, Loading(_BATCH, 0))
    with torch.no_grad():
        for number, batch in enumerate(batches):
            answers = model(batch.images.to(model.device)).logits.argmax(dim=1).tolist()
            for entry, answer in zip(order[number * _BATCH :], answers, strict=False):
                (right if answer == entry.label else wrong).append(entry)
            progress("looking for examples", number + 1, len(batches))
            if len(right) >= count and len(wrong) >= count:
                break
    drawn = [*right[:count], *wrong[:count]]
    return [(preprocess(data.reader(entry), model.preprocessing), data.class_names[entry.label]) for entry in drawn]


def explained(
    model: PixPNet, chosen: Sequence[tuple[Sample, str | None]], seed: int, progress: Progress
) -> tuple[Example, ...]:
    """Explains and proves samples, each with the name of its true class where that is known."""
    examples = []
    for number, (sample, truth) in enumerate(chosen):
        part = part_of(progress, "explaining and proving", number, len(chosen))
        # Beside a wrong answer stands the right one, which need not be the runner-up.
        explanation = explain(model, sample, classes=() if truth is None else (truth,))
        explanation = prove(model, sample, explanation, seed=seed, progress=part)
        examples.append(Example(explanation, truth))
    return tuple(examples)


def _backbone(model: PixPNet) -> str:
    at = model.backbone.cut
    return f"{model.backbone_name} cut at {at}" if at else model.backbone_name
