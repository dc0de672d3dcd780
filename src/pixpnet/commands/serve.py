"""``pixpnet serve``: a page on this computer to ask a run's model, look at its evidence, and mend it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pixpnet.commands.device import DEVICE_HELP, MOVED_HELP, TRUST_HELP, choose_device
from pixpnet.extras import require

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

EXAMPLES = """examples:
  pixpnet serve runs/birds                  then open the address that it prints
  pixpnet serve runs/birds --open           opens it in the browser
  pixpnet serve runs/birds --port 9000

Only this computer can open it, and only with the token in the address. Ctrl-C ends it."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declares what `serve` takes."""
    parser.add_argument("run", type=Path, metavar="RUN", help="the folder of a finished run")
    parser.add_argument(
        "--port",
        type=int,
        default=None,
        metavar="N",
        help="port to listen on, 0 for any that is free (default: 8765, or another one where that is taken)",
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.add_argument("--data", type=str, default=None, help=MOVED_HELP)
    parser.add_argument("--device", type=str, default="auto", help=DEVICE_HELP)
    parser.add_argument("--trust-code", action="store_true", help=TRUST_HELP)


def run(args: Namespace) -> int:
    """Serves a run until it is stopped."""
    if args.port is not None and not 0 <= args.port <= 65535:
        raise ValueError(f"--port is a number from 0 to 65535, got {args.port}")
    if not args.run.is_dir():
        raise ValueError(f"{args.run} is no folder of a run: `pixpnet train --out RUN` makes one")
    serve_run(args.run, args.port, args.open, args.data, args.device, args.trust_code)
    return 0


def serve_run(
    folder: Path,
    port: int | None = None,
    open_browser: bool = False,
    moved_to: str | None = None,
    device: str = "auto",
    trust_code: bool = False,
) -> None:
    """Opens a run and serves it.

    Args:
        folder: of the run.
        port: see `pixpnet.views.explorer.serving.serve`.
        open_browser: show it in the browser, too.
        moved_to: where the run's data set is now, if it is not where it was.
        device: where to compute.
        trust_code: whether a backbone that is code of its own may be called.

    Raises:
        MissingExtra: if a package of the extra `web` is not installed.
    """
    require("pixpnet serve", "web")
    from pixpnet.training import Run
    from pixpnet.views.explorer.explorer import Explorer
    from pixpnet.views.explorer.serving import serve

    run_folder = Run(folder)
    model = run_folder.model(trust_code).to(choose_device(device))

    def say(address: str) -> None:
        sys.stdout.write(f"{folder} is open on this computer. The address, with its token:\n  {address}\n")
        sys.stdout.write("Ctrl-C ends it.\n")
        sys.stdout.flush()

    serve(Explorer(run_folder, model, moved_to, trust_code=trust_code), port, say, open_browser)
