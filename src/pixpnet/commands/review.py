"""``pixpnet review``: which prototypes to look at first, and why."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pixpnet.class_names import printable
from pixpnet.commands.device import TRUST_HELP
from pixpnet.views.console import plain_console
from pixpnet.views.progress import progress_bars

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

EXAMPLES = """examples:
  pixpnet review runs/birds                           the twenty most suspicious prototypes, with reasons
  pixpnet review runs/birds --top 200 --json          as one JSON list
  pixpnet review runs/birds --prototype 1             one prototype: what is known of it, and what is nearest to it

The first review of a run goes through its training and validation images; it is kept in RUN/review. What to do about a
prototype: pixpnet verdicts add, pixpnet edit, pixpnet train --feedback."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declares what `review` takes."""
    parser.add_argument("run", type=Path, metavar="RUN", help="the folder of a finished run")
    parser.add_argument("--top", type=int, default=20, metavar="N", help="how many prototypes are listed")
    parser.add_argument(
        "--prototype", type=int, default=None, metavar="P", help="one prototype, with all that is known"
    )
    parser.add_argument("--nearest", type=int, default=5, metavar="N", help="with --prototype: how many near patches")
    parser.add_argument("--trust-code", action="store_true", help=TRUST_HELP)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: Namespace) -> int:
    """Reviews prototypes."""
    from pixpnet.metrics.review import nearest_patches, review_prototypes
    from pixpnet.records import to_plain
    from pixpnet.verdicts import VerdictLog
    from pixpnet.wording import called

    if args.top < 1:
        raise ValueError(f"--top is at least 1, got {args.top}")
    names = VerdictLog(args.run).names()
    with progress_bars(plain_console()) as progress:
        reviews = review_prototypes(args.run, progress, trust_code=args.trust_code)
        near = None
        if args.prototype is not None:
            near = nearest_patches(args.run, args.prototype, args.nearest, progress, trust_code=args.trust_code)
    if near is not None:
        review = reviews[args.prototype]
        if args.json:
            sys.stdout.write(json.dumps({"review": to_plain(review), "nearest": to_plain(near)}, indent=1) + "\n")
            return 0
        origin = "no training patch" if review.image is None else printable(review.image)
        lines = [
            f"{called(review.prototype, names.get(review.prototype, ''))} of {printable(review.class_name)}: {origin}",
            f"suspicion {review.suspicion:.2f}: {'; '.join(review.reasons) or 'nothing speaks against it'}",
            f"decides {review.decides} of {reviews.images} validation answers; "
            f"added most to {review.misled_count} of {reviews.wrong} wrong ones",
        ]
        for split, patches in (("training", near.train), ("validation", near.val)):
            lines.append(f"nearest {split} patches:")
            lines += [
                f"  {patch.score:6.2f}  {printable(patch.class_name)}  {printable(patch.image)}" for patch in patches
            ]
        sys.stdout.write("\n".join(lines) + "\n")
        return 0
    shown = [reviews[number] for number in reviews.ranking[: args.top]]
    if args.json:
        sys.stdout.write(json.dumps(to_plain(shown), indent=1) + "\n")
        return 0
    for review in shown:
        heading = f"{called(review.prototype, names.get(review.prototype, ''))} of {printable(review.class_name)}"
        sys.stdout.write(f"{review.suspicion:5.2f}  {heading}\n")
        sys.stdout.write("".join(f"       {reason}\n" for reason in review.reasons))
    return 0
