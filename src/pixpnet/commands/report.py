"""``pixpnet report``: one page about a run, in one file that opens from disk and can be sent to anybody."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from pixpnet.commands.console import plain_console
from pixpnet.commands.device import DEVICE_HELP, choose_device
from pixpnet.commands.output import check_output
from pixpnet.commands.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    import torch
    from jsonargparse import ArgumentParser, Namespace
    from rich.console import Console

    from pixpnet.data import DataSet, Entry, Sample
    from pixpnet.model import PixPNet
    from pixpnet.training import Judgement, Run
    from pixpnet.views.report import Example

EXAMPLES = """examples:
  pixpnet report runs/birds                           runs/birds/report.html, with validation images as examples
  pixpnet report runs/birds --images jay.jpg wren.jpg --out jays.html
  pixpnet report runs/birds --split test              test images as examples; on record as an opening"""

_BATCH = 64


def add_arguments(parser: ArgumentParser) -> None:
    """Declares what `report` takes."""
    from typing import Literal

    parser.add_argument("run", type=Path, metavar="RUN", help="the folder of a finished run")
    parser.add_argument(
        "--images", type=Path, nargs="+", default=[], metavar="FILE", help="explain these pictures, not drawn ones"
    )
    parser.add_argument("--out", type=Path, default=None, metavar="FILE", help="the page; RUN/report.html if not given")
    parser.add_argument(
        "--split", type=Literal["val", "test"], default="val", help="which images; test is recorded as an opening"
    )
    parser.add_argument("--examples", type=int, default=4, metavar="N", help="right answers to explain, and wrong ones")
    parser.add_argument("--seed", type=int, default=0, help="which examples are drawn")
    parser.add_argument("--device", type=str, default="auto", help=DEVICE_HELP)
    parser.add_argument("--own_code", action="store_true", help="the backbone is code of your own that may be called")


def run(args: Namespace) -> int:
    """Writes the report of a run and says how to open it."""
    out = args.run / "report.html" if args.out is None else args.out
    if args.examples < 0:
        raise ValueError(f"--examples is how many to show, got {args.examples}")
    if not args.run.is_dir():
        raise ValueError(f"{args.run} is no folder of a run: `pixpnet train --out RUN` makes one")
    check_output(out, (".html", ".htm"))
    size = write_report(
        args.run, out, args.images, args.split, args.examples, args.seed, choose_device(args.device), args.own_code
    )
    sys.stdout.write(f"{out} ({size / 1e6:.1f} MB)\n{how_to_open(out)}\n")
    return 0


def how_to_open(page: Path) -> str:
    """What to type to see a page."""
    opener = {"darwin": "open", "win32": "start"}.get(sys.platform, "xdg-open")
    return f"Open it:  {opener} {quote(str(page))}   (or in any browser: {page.resolve().as_uri()})"


def write_report(
    folder: Path,
    out: Path,
    images: Sequence[Path],
    split: Literal["val", "test"],
    count: int,
    seed: int,
    device: torch.device,
    own_code: bool = False,
) -> int:
    """Gathers what a report shows, writes it whole, and gives its size in bytes.

    Args:
        folder: of a finished run.
        out: the page.
        images: to explain; where there are none, examples are drawn from the split.
        split: whose confusion is shown, and where examples are drawn from.
        count: right answers to explain, and wrong ones.
        seed: of the drawing.
        device: where to compute.
        own_code: whether a backbone that is code of its own may be called.

    Raises:
        RunError: if the run is not finished.
        ImageError: if a picture cannot be read.
    """
    from pixpnet.model import PixPNet
    from pixpnet.records import from_plain
    from pixpnet.training import Metrics, Run
    from pixpnet.views.page import report_page
    from pixpnet.views.report import Report
    from pixpnet.whole_file import written_whole

    found = Run(folder)
    metrics = from_plain(Metrics, found.read_metrics(), str(folder / "metrics.json"))
    model = PixPNet.load(folder, own_code=own_code).to(device)
    console = plain_console()
    notes: list[str] = []
    asked = _read(images, model)
    judgement = metrics.validation if split == "val" else metrics.test
    chosen: list[tuple[Sample, str | None]] = [(sample, None) for sample in asked]
    if (count and not asked) or judgement is None:
        data = _open(found, model, console, notes)
        entries = () if data is None else _entries(found, data, split)
        if data is not None and judgement is None:
            judgement = _judged(model, data, entries, device, console)
        if data is not None and not asked:
            chosen = _draw(model, data, entries, count, seed, device, console)
    examples = _explained(model, chosen, seed, console)
    data_name = found.config.data.partition(":")
    title = f"{Path(data_name[2]).name or data_name[0]}, {_backbone(model)}"
    report = Report(
        title=title,
        model=model,
        metrics=metrics,
        openings=found.read_openings(),
        split="validation" if split == "val" else "test",
        judgement=judgement,
        examples=examples,
        notes=tuple(notes),
        config=(folder / "config.yaml").read_text(encoding="utf-8"),
        versions=_versions(),
    )
    # A file's name may hold bytes that are no text.
    page = report_page(report).encode("utf-8", errors="replace")
    out.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(out) as temporary:
        temporary.write_bytes(page)
    return len(page)


def _read(images: Sequence[Path], model: PixPNet) -> list[Sample]:
    from pixpnet.data import ImageError
    from pixpnet.explanation.explaining import as_the_network_sees

    samples = []
    for path in images:
        try:
            samples.append(as_the_network_sees(model, path))
        except (ImageError, OSError) as error:
            raise ValueError(f"{path}: {error}") from error
    return samples


def _open(found: Run, model: PixPNet, console: Console, notes: list[str]) -> DataSet | None:
    """The run's data set, or a note that it is not at hand."""
    from pixpnet.data import DataError
    from pixpnet.training import open_data_of

    try:
        with progress_bar(console, "looking at the images") as progress:
            data = open_data_of(found, progress)
    except (DataError, OSError) as error:
        note = f"The data set {found.config.data} is not at hand, so no examples could be drawn from it: {error}"
        sys.stderr.write(f"warning: {note}\n")
        notes.append(note)
        return None
    if data.class_names != model.class_names:
        raise ValueError(
            f"{found.config.data} has other classes than the model that was trained on it: was it changed?"
        )
    notes += [f"The data set has changed since the run began: {sentence}" for sentence in data.changes.sentences]
    return data


def _entries(found: Run, data: DataSet, split: Literal["val", "test"]) -> tuple[Entry, ...]:
    return data.val if split == "val" else data.test.open(found.recorder(), "pixpnet report --split test")


def _judged(
    model: PixPNet, data: DataSet, entries: tuple[Entry, ...], device: torch.device, console: Console
) -> Judgement:
    from pixpnet.data import Loading, plain_loader
    from pixpnet.training import judge

    batches = plain_loader(data, entries, model.preprocessing, Loading(_BATCH, 0))
    with progress_bar(console, "judging") as progress:
        return judge(model, model.num_classes, batches, device, progress)


def _draw(
    model: PixPNet,
    data: DataSet,
    entries: tuple[Entry, ...],
    count: int,
    seed: int,
    device: torch.device,
    console: Console,
) -> list[tuple[Sample, str | None]]:
    """As many right and wrong answers as were asked for, or as there are, in an order that the seed decides."""
    import random

    import torch

    from pixpnet.data import Loading, plain_loader, preprocess

    order = list(entries)
    random.Random(seed).shuffle(order)  # noqa: S311  no secrets here
    right: list[Entry] = []
    wrong: list[Entry] = []
    batches = plain_loader(data, order, model.preprocessing, Loading(_BATCH, 0))
    with progress_bar(console, "looking for examples") as progress, torch.no_grad():
        for number, batch in enumerate(batches):
            answers = model(batch.images.to(device)).logits.argmax(dim=1).tolist()
            for entry, answer in zip(order[number * _BATCH :], answers, strict=False):
                (right if answer == entry.label else wrong).append(entry)
            progress(number + 1, len(batches))
            if len(right) >= count and len(wrong) >= count:
                break
    drawn = [*right[:count], *wrong[:count]]
    return [(preprocess(data.reader(e), model.preprocessing), data.class_names[e.label]) for e in drawn]


def _explained(
    model: PixPNet, chosen: Sequence[tuple[Sample, str | None]], seed: int, console: Console
) -> tuple[Example, ...]:
    from pixpnet.explanation import explain, prove
    from pixpnet.views.report import Example

    examples = []
    with progress_bar(console, "explaining and proving") as progress:
        for number, (sample, truth) in enumerate(chosen):

            def part(done: int, of: int, number: int = number) -> None:
                progress(number * of + done, len(chosen) * of)

            # Beside a wrong answer stands the right one, which need not be the runner-up.
            explanation = explain(model, sample, classes=() if truth is None else (truth,))
            explanation = prove(model, sample, explanation, seed=seed, progress=part)
            examples.append(Example(explanation, truth))
    return tuple(examples)


def _backbone(model: PixPNet) -> str:
    at = model.backbone.cut
    return f"{model.backbone_name} cut at {at}" if at else model.backbone_name


def _versions() -> dict[str, str]:
    from importlib.metadata import version
    from platform import python_version

    return {"pixpnet": version("pixpnet"), "torch": version("torch"), "Python": python_version()}
