"""``pixpnet predict``: which class each picture is taken for."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pixpnet.commands.console import plain_console
from pixpnet.commands.device import DEVICE_HELP, choose_device
from pixpnet.commands.progress import progress_bar
from pixpnet.messages import on_one_line

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

EXAMPLES = """examples:
  pixpnet predict runs/birds jay.jpg wren.png
  pixpnet predict runs/birds photos/*.jpg --json > answers.json"""

_SHOWN = 3


def add_arguments(parser: ArgumentParser) -> None:
    """Declares what `predict` takes."""
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder, or a model.safetensors")
    parser.add_argument("images", type=Path, nargs="+", metavar="IMAGE", help="picture files")
    parser.add_argument("--device", type=str, default="auto", help=DEVICE_HELP)
    parser.add_argument("--own_code", action="store_true", help="the backbone is code of your own that may be called")
    parser.add_argument("--json", action="store_true", help="print one JSON list with the logits of all classes")


def run(args: Namespace) -> int:
    """Prints the classes of pictures; a picture that cannot be read is said, and the others go on."""
    import torch

    from pixpnet.data import ImageError, preprocess, read_sample
    from pixpnet.model import PixPNet

    device = choose_device(args.device)
    model = PixPNet.load(args.run, own_code=args.own_code).to(device)
    records = []
    failed = 0
    with progress_bar(plain_console(), "reading pictures") as progress, torch.no_grad():
        for done, path in enumerate(args.images, start=1):
            try:
                sample = preprocess(read_sample(path), model.preprocessing)
            except (ImageError, OSError) as error:
                failed += 1
                sys.stderr.write(f"error: {on_one_line(path)}: {error}\n")
                continue
            image = sample.image.as_subclass(torch.Tensor)[None].to(device)
            logits = model(image).logits[0].cpu()
            shares = logits.softmax(dim=0)
            order = logits.argsort(descending=True, stable=True).tolist()
            records.append(
                {
                    "image": str(path),
                    "class": model.class_names[order[0]],
                    "logits": {model.class_names[label]: float(logits[label]) for label in order},
                    "softmax": {model.class_names[label]: float(shares[label]) for label in order},
                }
            )
            progress(done, len(args.images))
            if not args.json:
                best = ", ".join(f"{model.class_names[k]} {shares[k]:.0%} ({logits[k]:.2f})" for k in order[:_SHOWN])
                sys.stdout.write(f"{on_one_line(path)}: {best}\n")
    if args.json:
        sys.stdout.write(json.dumps(records, indent=1) + "\n")
    elif records:
        sys.stdout.write("(softmax of the logits, not a calibrated probability; logits in brackets)\n")
    return 1 if failed else 0
