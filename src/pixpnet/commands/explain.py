"""``pixpnet explain``: why the model takes pictures for what it says, and the proof of it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pixpnet.commands.device import DEVICE_HELP, TRUST_HELP, choose_device
from pixpnet.commands.output import check_output
from pixpnet.messages import on_one_line
from pixpnet.progress import Progress, part_of
from pixpnet.views.console import plain_console
from pixpnet.views.progress import progress_bars

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jsonargparse import ArgumentParser, Namespace

    from pixpnet.data import Sample
    from pixpnet.explanation import Explanation
    from pixpnet.model import PixPNet

EXAMPLES = """examples:
  pixpnet explain runs/birds jay.jpg
  pixpnet explain runs/birds jay.jpg --all                  every part, not only three
  pixpnet explain runs/birds jay.jpg --why-not wren --why-not robin
  pixpnet explain runs/birds jay.jpg --prove --out jay.png
  pixpnet explain runs/birds jay.jpg --qualities            does its colour matter, or its shape?
  pixpnet explain runs/birds photos/*.jpg --prove --out photos.html
  pixpnet explain runs/birds jay.jpg --json > jay.json      read it with Explanation.from_json"""

_TASK = "explaining"
_FIGURES = (".png", ".svg", ".pdf")
_ENDINGS = (*_FIGURES, ".html", ".json")
# What the figure says of its heat maps: each kind shows something else.
_SHOWN = {
    "field": "similarities painted on what their cells see (receptive-field mapping)",
    "upsampling": "the similarity map enlarged, which is not what the cells see (upsampling)",
    "prp": "which pixels the similarity is made of, by relevance propagation (PRP)",
}


def add_arguments(parser: ArgumentParser) -> None:
    """Declares what `explain` takes."""
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder, or a model.safetensors")
    parser.add_argument("images", type=Path, nargs="+", metavar="IMAGE", help="picture files")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="also write x.png, x.svg or x.pdf (a figure of one picture), x.html (one page for all of them, with "
        "everything in it) or x.json (one record, or a list of records where several pictures "
        "were given); a file that is there is replaced",
    )
    parser.add_argument(
        "--why-not",
        type=str,
        action="append",
        metavar="CLASS",
        help="explain this class as well, beside the answer; may be given several times (default: the runner-up)",
    )
    parser.add_argument(
        "--mapping",
        type=str,
        choices=tuple(_SHOWN),
        help="show heat maps of this kind in a figure, in the place of what each cell saw (default: none); boxes are "
        "exact fields always",
    )
    parser.add_argument(
        "--prove",
        action="store_true",
        help="change every pixel outside each part, and check that its cell's similarity stays; exit code 1 if not",
    )
    parser.add_argument(
        "--qualities",
        action="store_true",
        help="say what each part of the answer is made of: by how much its similarity falls when only its colour, hue, "
        "saturation, contrast, texture or shape is changed",
    )
    parser.add_argument(
        "--top", type=int, default=10, help="how many terms to list where a head connects a class with all prototypes"
    )
    parser.add_argument(
        "--all", action="store_true", help="print every part, the other classes and every proof, not only three parts"
    )
    parser.add_argument("--device", type=str, default="auto", help=DEVICE_HELP)
    parser.add_argument("--trust-code", action="store_true", help=TRUST_HELP)
    parser.add_argument("--json", action="store_true", help="print what x.json would hold, instead of the text")


@dataclass(frozen=True)
class _Explained:
    """A picture and why the model answered as it did."""

    sample: Sample
    explanation: Explanation


def run(args: Namespace) -> int:
    """Explains pictures; a picture that cannot be read is said, and the others go on."""
    _check(args)
    from pixpnet.data import ImageError
    from pixpnet.model import PixPNet

    model = PixPNet.load(args.run, trust_code=args.trust_code).to(choose_device(args.device))
    results: list[_Explained] = []
    failed = False
    with progress_bars(plain_console()) as progress:
        for number, path in enumerate(args.images):
            parts = partial(part_of, progress, number=number, count=len(args.images))
            try:
                explained = _explained(model, path, args, parts)
            except (ImageError, OSError) as error:
                failed = True
                sys.stderr.write(f"error: {on_one_line(path)}: {error}\n")
                continue
            results.append(explained)
            progress(_TASK, number + 1, len(args.images))
            if not args.json:
                text = explained.explanation.details() if args.all else str(explained.explanation)
                sys.stdout.write(f"{text}\n\n")
    explanations = [explained.explanation for explained in results]
    several = len(args.images) > 1
    if args.json and (results or several):
        sys.stdout.write(_as_json(explanations, several) + "\n")
    if args.out is not None and results:
        _write(model, results, args)
        if not args.json:
            sys.stdout.write(f"written: {args.out}\n")
    return 1 if failed or not all(map(_holds, explanations)) else 0


def _check(args: Namespace) -> None:
    """What can be said before anything is computed."""
    ending = None if args.out is None else args.out.suffix.lower()
    if ending in _FIGURES and len(args.images) > 1:
        raise ValueError(f"a figure shows one picture, and {len(args.images)} came: use --out {args.out.stem}.html")
    if args.mapping is not None and ending not in _FIGURES:
        raise ValueError(f"--mapping {args.mapping} chooses the heat maps of a figure: it goes with --out x.png")
    if args.out is not None:
        check_output(args.out, _ENDINGS)


def _explained(model: PixPNet, path: Path, args: Namespace, progress: Callable[[str], Progress | None]) -> _Explained:
    from pixpnet.explanation import explain, part_qualities, prove
    from pixpnet.explanation.explaining import as_the_network_sees

    sample = as_the_network_sees(model, path)
    explanation = explain(model, sample, classes=args.why_not or (), top=args.top)
    if args.prove:
        explanation = prove(model, sample, explanation, progress=progress(_TASK))
    if args.qualities:
        explanation = part_qualities(model, sample, explanation, progress=progress("changing parts"))
    return _Explained(sample, explanation)


def _holds(explanation: Explanation) -> bool:
    return all(term.proof is None or term.proof.passed for explained in explanation.classes for term in explained.terms)


def _as_json(explanations: Sequence[Explanation], several: bool) -> str:
    records = [explanation.to_json() for explanation in explanations]
    return "[" + ",\n".join(records) + "]" if several else records[0]


def _write(model: PixPNet, results: Sequence[_Explained], args: Namespace) -> None:
    from pixpnet.whole_file import written_whole

    explanations = [explained.explanation for explained in results]
    ending = args.out.suffix.lower()
    with written_whole(args.out) as temporary:
        if ending == ".json":
            temporary.write_text(_as_json(explanations, several=len(args.images) > 1) + "\n", encoding="utf-8")
        elif ending == ".html":
            from pixpnet.views.page import explanation_page

            # A file's name may hold bytes that are no text.
            temporary.write_text(explanation_page(explanations), encoding="utf-8", errors="replace")
        else:
            _draw(model, results[0], args.mapping, temporary, ending)


def _draw(model: PixPNet, explained: _Explained, mapping: str | None, path: Path, ending: str) -> None:
    from torch import Tensor

    from pixpnet.mapping import heatmaps
    from pixpnet.views.explanation_figure import explanation_figure

    if mapping is None:
        figure = explanation_figure(explained.explanation)
    else:
        image = explained.sample.image.as_subclass(Tensor).to(model.device)
        prototypes = [term.prototype for term in explained.explanation.predicted.terms]
        maps = heatmaps(model, image, prototypes, mapping=mapping)
        figure = explanation_figure(explained.explanation, maps, _SHOWN[mapping])
    figure.savefig(path, format=ending.removeprefix("."))
