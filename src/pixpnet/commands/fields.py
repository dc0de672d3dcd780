"""``pixpnet fields``: what every layer of a network looks at."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pixpnet.views.console import plain_console

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

    from pixpnet.fields import Field, Fields
    from pixpnet.fields.probe import Verification

EXAMPLES = """examples:
  pixpnet fields vgg16                        all layers, as a table
  pixpnet fields vgg16 --at maxpool4          one layer, with the fields of a few cells
  pixpnet fields resnet50 --out fields.png    a picture
  pixpnet fields timm:convnext_tiny --json    for another program
  pixpnet fields my.module:build --verify 20  your own code, checked against the real network
  pixpnet fields vgg16 --at maxpool4 --edits pointwise:features.21   after making a convolution 1 x 1
"""

_LARGEST_SIDE, _MOST_CHANNELS = 8192, 4096


def add_arguments(parser: "ArgumentParser") -> None:
    """Declares the arguments of ``pixpnet fields``."""
    parser.add_argument("model", help="a torchvision name, timm:NAME, small, or module.path:callable for your own code")
    parser.add_argument("--at", metavar="LAYER", help="one layer: a module path, or the paper's name (maxpool4)")
    parser.add_argument(
        "--edits",
        nargs="+",
        default=[],
        metavar="KIND:PATH",
        help="edits of the network before its fields are computed: pointwise:PATH (convolutions become 1 x 1), "
        "unstride:PATH, drop:PATH",
    )
    parser.add_argument(
        "--size", type=int, nargs="+", default=[224], metavar="PIXELS", help="input size: one number, or height width"
    )
    parser.add_argument("--channels", type=int, default=3, help="input channels")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument(
        "--out", type=Path, metavar="PICTURE", help="draw mean field against depth into this file (png, pdf, svg)"
    )
    parser.add_argument(
        "--verify",
        type=int,
        default=0,
        metavar="N",
        help="check N pixels, corners and centre first, with the NaN probe on the real network",
    )


def run(args: "Namespace") -> int:
    """Prints, draws and verifies the fields; 1 if the probe disagrees."""
    from pixpnet import zoo
    from pixpnet.fields import receptive_fields

    if args.verify < 0:
        raise ValueError(f"--verify {args.verify}: the number of pixels to check cannot be negative")
    if len(args.size) > 2 or min(args.size) < 1:
        raise ValueError(f"--size takes one number or height and width, each at least 1, not {args.size}")
    if max(args.size) > _LARGEST_SIDE or not 1 <= args.channels <= _MOST_CHANNELS:
        raise ValueError(
            f"--size is at most {_LARGEST_SIDE} pixels and --channels {_MOST_CHANNELS}, got {args.size} and "
            f"{args.channels}"
        )
    height, width = args.size[0], args.size[-1]
    shape = (args.channels, height, width)
    # The probe runs the network for real; without it, the network needs no weights.
    model = zoo.build(args.model, input_size=(height, width)) if args.verify or args.edits else args.model
    if args.edits:
        from pixpnet.model.edits import apply_edits

        model = apply_edits(model, args.edits, shape)
    fields = receptive_fields(model, shape)
    if args.at is not None:
        fields[args.at]  # an unknown layer should be said before anything is done
    if args.out is not None:
        from pixpnet.views.field_figure import check_path, save_field_figure

        check_path(args.out)
    verification = None
    if args.verify:
        verification = _verify(model, shape, fields, args.verify, quiet=args.json)
    if args.json:
        sys.stdout.write(json.dumps(_as_json(args, fields, verification)) + "\n")
    elif args.at is None:
        _print_table(args.model, fields)
    else:
        sys.stdout.write(describe(args.at, fields[args.at]) + "\n")
    if args.out is not None:
        save_field_figure(fields, args.out, title=args.model, layer=args.at)
        if not args.json:
            sys.stdout.write(f"picture: {args.out}\n")
    if verification is not None and not args.json:
        sys.stdout.write(f"verified: {verification}\n")
    return 0 if verification is None or verification.passed else 1


def describe(layer: str, field: "Field") -> str:
    """One layer in words, with the exact fields of its corner, edge and centre cells."""
    from pixpnet.wording import percent, times

    solid = "yes: every field is one box" if field.is_solid else "no: some fields have holes or steps, or are empty"
    lines = [
        f"{layer}: output {times(field.shape)}",
        f"  mean field       {percent(field.mean_fraction)} of the input's pixels, over every neuron",
        f"  channels united  {percent(field.mean_fraction_union)}, over every cell: what a 1x1 layer behind it sees",
        f"  largest field    {times(field.size)} pixels",
        f"  solid            {solid}",
    ]
    if field.sees_everything:
        lines.append("  every cell sees the whole image")
    for name, cell in field.landmark_cells().items():
        boxes = field.boxes(*cell)
        shown = ", ".join(str(tuple(box)) for box in boxes[:3]) + (" ..." if len(boxes) > 3 else "")
        lines.append(f"  {name} cell {cell} sees {shown or 'nothing but padding'}")
    return "\n".join([*lines, "  (boxes are y0, x0, y1, x1, half-open)"])


def _verify(model: Any, shape: tuple[int, ...], fields: "Fields", count: int, quiet: bool) -> "Verification":
    from pixpnet.fields.verify import verify_fields
    from pixpnet.views.progress import progress_bars

    with progress_bars(plain_console(quiet=quiet)) as progress:
        return verify_fields(model, shape, count, fields=fields, progress=progress)


def _as_json(args: "Namespace", fields: "Fields", verification: "Verification | None") -> dict[str, Any]:
    chosen = {args.at: fields[args.at]} if args.at is not None else fields
    record: dict[str, Any] = {
        "model": args.model,
        "size": [args.size[0], args.size[-1]],
        **({"edits": args.edits} if args.edits else {}),
        "layers": {
            name: {
                "shape": list(field.shape),
                "mean_fraction": field.mean_fraction,
                "mean_fraction_union": field.mean_fraction_union,
                "solid": field.is_solid,
            }
            for name, field in chosen.items()
        },
    }
    if verification is not None:
        record["verification"] = {
            "pixels": verification.pixels,
            "neurons": verification.neurons,
            "passed": verification.passed,
        }
    return record


def _print_table(model: str, fields: "Fields") -> None:
    table = fields.table()
    if not sys.stdout.isatty():
        sys.stdout.write(f"{table}\n")
        return
    from rich.table import Table

    from pixpnet.fields.table import HEADER

    rich_table = Table(title=f"{model}: what each layer looks at", header_style="bold")
    for position, name in enumerate(HEADER):
        rich_table.add_column(name, justify="left" if position < 2 else "right", overflow="fold")
    for row in table:
        rich_table.add_row(*row.cells(), style="dim" if row.mean_fraction_union == 1.0 else None)
    plain_console(stderr=False).print(rich_table)
