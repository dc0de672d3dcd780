"""``pixpnet tree``: the tree by which a model decides, and the paths of pictures through it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pixpnet.commands.device import TRUST_HELP
from pixpnet.commands.output import check_output

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

EXAMPLES = """examples:
  pixpnet tree runs/tree --out tree.html                  fold, unfold and zoom
  pixpnet tree runs/tree --out tree.pdf
  pixpnet tree runs/tree jay.jpg --out path.png           the path of one picture through the whole tree"""

_ENDINGS = (".html", ".png", ".svg", ".pdf")


def add_arguments(parser: ArgumentParser) -> None:
    """Declares what `tree` takes."""
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder, or a model.safetensors")
    parser.add_argument("images", type=Path, nargs="*", metavar="IMAGE", help="pictures whose paths are shown too")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="x.html (a page to fold and zoom), or x.png, x.svg, x.pdf (the whole tree on one sheet, with the path of "
        "at most one picture); a file that is there is replaced",
    )
    parser.add_argument("--trust-code", action="store_true", help=TRUST_HELP)


def run(args: Namespace) -> int:
    """Draws a tree."""
    check_output(args.out, _ENDINGS)
    ending = args.out.suffix.lower()
    if ending != ".html" and len(args.images) > 1:
        raise ValueError(
            f"a sheet shows one path, and {len(args.images)} pictures came: use --out {args.out.stem}.html"
        )
    from pixpnet.explanation import explain
    from pixpnet.model import PixPNet
    from pixpnet.views.page import tree_page
    from pixpnet.views.tree_figure import tree_figure, tree_of
    from pixpnet.whole_file import written_whole

    model = PixPNet.load(args.run, trust_code=args.trust_code)
    tree = tree_of(model)
    explanations = [explain(model, image) for image in args.images]
    with written_whole(args.out) as temporary:
        if ending == ".html":
            temporary.write_text(tree_page(model, explanations), encoding="utf-8", errors="replace")
        else:
            figure = tree_figure(model, explanations[0] if explanations else None)
            figure.savefig(temporary, format=ending.removeprefix("."))
    sys.stdout.write(f"{tree.num_nodes} nodes, {tree.num_leaves} leaves, {tree.depth} levels: written to {args.out}\n")
    return 0
