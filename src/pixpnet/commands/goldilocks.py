"""``pixpnet goldilocks``: the cut whose parts are small enough to mean something and large enough to decide."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pixpnet.commands.calling import command
from pixpnet.commands.device import DEVICE_HELP, WORKERS_HELP, choose_device
from pixpnet.commands.goldilocks_text import fields_text, line_of, result_text
from pixpnet.config import NumWorkers
from pixpnet.views.console import plain_console
from pixpnet.views.progress import progress_bars
from pixpnet.wording import percent

if TYPE_CHECKING:
    from collections.abc import Callable

    from jsonargparse import ArgumentParser, Namespace

    from pixpnet.goldilocks import Candidate, FinishedTrial, SearchOptions, SearchResult

EXAMPLES = """examples:
  pixpnet goldilocks --fields-only                            mean fields of all cuts of the paper's 21 networks
  pixpnet goldilocks --fields-only --backbones timm:resnetv2_50 --layers 'stages.*.blocks.*' --size 224
  pixpnet goldilocks --data folder:photos --backbones vgg16 resnet18 --weights imagenet --out searches/photos
  pixpnet goldilocks --data cub:CUB --backbones vgg16 resnet18 --weights weights/ --want 0.15 --out searches/cub
  pixpnet goldilocks --data cub:CUB --backbones vgg16 --weights imagenet --method finetune --out searches/cub
                                                              the paper's way, and how well the two rankings agree
  pixpnet goldilocks --fields-only --backbones resnet18 --target-field 0.15       windows and edits that see 15 %
  pixpnet goldilocks --data cub:CUB --backbones resnet18 --layers layer4 --weights imagenet --size 384 \\
      --windows 64 96 128 160 --want 0.08 --out searches/cub    prototypes on windows of four sizes
  pixpnet goldilocks --data cub:CUB --storage postgresql://me@server/searches --out here    on each of some machines
  pixpnet train --config searches/cub/train.yaml --out runs/cub                  what was recommended

It may be stopped (Ctrl-C, or a kill) and goes on where it was when it is started again."""

DEFAULT_SIZE = 224


def add_arguments(parser: ArgumentParser) -> None:
    """Declares what `goldilocks` takes."""
    from typing import Literal

    parser.add_argument(
        "--data", type=str, default=None, help="birds, cub:PATH, cars:PATH, imagenette:PATH or folder:PATH"
    )
    parser.add_argument(
        "--backbones",
        type=str,
        nargs="+",
        default=["paper"],
        metavar="NAME",
        help="torchvision networks, timm:NAME, small-N, module.path:callable for your own code; paper: its 21 networks",
    )
    parser.add_argument(
        "--layers",
        type=str,
        nargs="+",
        default=[],
        metavar="PATTERN",
        help="layers to look at, such as 'layer?' or 'features.*'; by default those of the paper's table, for other "
        "networks the last layer of each field",
    )
    parser.add_argument(
        "--zone",
        type=float,
        nargs=2,
        default=[0.05, 0.6],
        metavar="SHARE",
        help="smallest and largest mean field; only cuts inside are trained",
    )
    parser.add_argument(
        "--want",
        type=float,
        default=None,
        metavar="SHARE",
        help="the mean field you want; if not given, that of --target-field, or the zone's middle",
    )
    parser.add_argument(
        "--target-field",
        type=float,
        default=None,
        metavar="SHARE",
        help="look also for windows and for modified cuts (blocks dropped, 3x3 made 1x1, strides removed) whose mean "
        "field is this; they change as little of the pretrained network as can be",
    )
    parser.add_argument(
        "--windows",
        type=int,
        nargs="+",
        default=[],
        metavar="PIXELS",
        help="run each network also on overlapping windows of these sides, cut at its deepest layer: a cell sees its "
        "window and nothing else. Windows that are named here are tried whatever the zone",
    )
    parser.add_argument(
        "--window-from",
        type=str,
        default=None,
        metavar="LAYER",
        help="cut windows from the map of this layer, or from the image; by default from the early layer that suits "
        "the network and the size",
    )
    parser.add_argument(
        "--method",
        type=Literal["probe", "frozen", "finetune", "pixpnet"],
        default=None,
        help="probe: linear classifiers at all layers of a network from one pass; frozen: a probe and prototypes on "
        "one pass of each cut, whose features are kept for pixpnet train; finetune: the paper's, a training for each "
        "cut; pixpnet: trains the whole network at each cut. By default probe, with --windows frozen",
    )
    parser.add_argument(
        "--weights",
        type=str,
        nargs="+",
        default=[],
        metavar="WHICH",
        help="imagenet (downloads them), none (random), NAME=FILE, or a folder with files named after backbones",
    )
    parser.add_argument(
        "--epochs",
        type=int,
        default=None,
        help="of the training at each cut: 10 for finetune, the preset's for pixpnet; probe has none",
    )
    parser.add_argument("--batch-size", type=int, default=None, help="images in a batch; 32, for pixpnet the preset's")
    parser.add_argument(
        "--views",
        type=int,
        default=None,
        help="augmented views of each image; by default what suits the data set, for pixpnet the preset's",
    )
    parser.add_argument("--size", type=int, default=None, help="side of the input; by default what suits the data set")
    parser.add_argument("--seed", type=int, default=0, help="of weights, order, augmentation and the validation split")
    parser.add_argument("--birds", type=int, default=4800, help="how many birds are drawn, with --data birds")
    parser.add_argument("--out", type=Path, default=None, metavar="DIR", help="folder for the results")
    parser.add_argument(
        "--storage",
        type=str,
        default=None,
        metavar="URL",
        help="where workers share the study: postgresql://USER:PASSWORD@HOST/DATABASE; by default a SQLite file in DIR",
    )
    parser.add_argument(
        "--heartbeat",
        type=int,
        default=15,
        help="seconds between signs of life, the same for all workers; one that is silent for 4 times as long is dead",
    )
    parser.add_argument("--retry-failed", action="store_true", help="try again what failed with an error")
    parser.add_argument("--fields-only", action="store_true", help="only the table of fields; trains nothing")
    parser.add_argument("--device", type=str, default="auto", help=DEVICE_HELP)
    parser.add_argument("--num-workers", type=NumWorkers, default="auto", help=WORKERS_HELP)
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def run(args: Namespace) -> int:
    """Prints the table of fields, or searches and prints the front."""
    if args.fields_only:
        return _print_fields(args)
    missing = [name for name in ("data", "out") if args[name] is None]
    if missing:
        sys.stderr.write(f"error: a search needs --{missing[0]} (the table of fields alone does not: --fields-only)\n")
        return 2
    return _search(args)


def _search(args: Namespace) -> int:
    from pixpnet.goldilocks import find_cuts
    from pixpnet.records import to_plain

    options = options_of(args)
    try:
        with progress_bars(plain_console()) as bars:
            result = find_cuts(options, args.out, _Shown(bars))
    except KeyboardInterrupt:
        sys.stderr.write(f"\nstopped; what was found is kept in {args.out}. The same command goes on from there:\n")
        sys.stderr.write(f"  {command(*command_words(args))}\n")
        if args.storage is not None and without_password(args.storage) != args.storage:
            sys.stderr.write("where *** stands for the password of the storage\n")
        return 130
    figure = draw_front(result, args.out)
    if args.json:
        sys.stdout.write(json.dumps(to_plain(result), indent=1) + "\n")
    else:
        sys.stdout.write(f"{result_text(result, args.out, wanted_by(args))}figure: {figure}\n")
    return 0 if result.front else 1


def options_of(args: Namespace) -> SearchOptions:
    """The record of the command line's values."""
    from pixpnet.goldilocks import SearchOptions

    return SearchOptions(
        data=args.data,
        backbones=tuple(args.backbones),
        layers=tuple(args.layers),
        zone=(args.zone[0], args.zone[1]),
        want=args.want,
        target_field=args.target_field,
        windows=tuple(args.windows),
        window_from=args.window_from,
        method=args.method,
        weights=tuple(args.weights),
        size=args.size,
        epochs=args.epochs,
        batch=args.batch_size,
        views=args.views,
        seed=args.seed,
        birds=args.birds,
        storage=args.storage,
        device=str(choose_device(args.device)),
        num_workers=args.num_workers,
        heartbeat=args.heartbeat,
        retry_failed=args.retry_failed,
    )


def draw_front(result: SearchResult, folder: Path) -> Path:
    """Writes the figure beside the tables."""
    from pixpnet.goldilocks.result import FRONT_FIGURE
    from pixpnet.views.front_figure import front_figure
    from pixpnet.whole_file import written_whole

    path = folder / FRONT_FIGURE
    with written_whole(path) as temporary:
        front_figure(result).savefig(temporary, format="png")
    return path


class _Shown:
    """A search as bars and lines on stderr."""

    def __init__(self, bars: Callable[[str, int, int], None]) -> None:
        self._bars = bars

    def busy(self, task: str, done: int, total: int) -> None:
        """See `SearchWatcher`."""
        self._bars(task, done, total)

    def evaluated(self, candidate: Candidate, finished: FinishedTrial, done: int, total: int) -> None:
        """See `SearchWatcher`."""
        sys.stderr.write(f"[{done}/{total}] {line_of(candidate, finished)}\n")


def wanted_by(args: Namespace) -> str:
    """Where the wanted field comes from, in words."""
    if args.want is not None:
        return "--want"
    if args.target_field is not None:
        return "--target-field"
    return (
        f"nobody: it is the middle (as a ratio) of the zone {percent(args.zone[0])} to {percent(args.zone[1])}. Say "
        "the size of the parts that you mean with --want"
    )


def _print_fields(args: Namespace) -> int:
    from pixpnet.goldilocks import SearchOptions, look_for_cuts, write_survey
    from pixpnet.records import to_plain

    SearchOptions(args.data or "", zone=(args.zone[0], args.zone[1]), size=args.size)  # refuses what makes no sense
    options = SearchOptions(
        args.data or "",
        tuple(args.backbones),
        tuple(args.layers),
        zone=(0.0, 1.0),  # nothing is trained, so a target may lie outside of the zone
        target_field=args.target_field,
        windows=tuple(args.windows),
        window_from=args.window_from,
    )
    with progress_bars(plain_console()) as bars:
        surveyed = look_for_cuts(options, args.size or _size_of(args), _Shown(bars))
    if args.out is not None:
        write_survey(surveyed, args.out)
    if args.json:
        sys.stdout.write(json.dumps(to_plain(surveyed), indent=1) + "\n")
    else:
        sys.stdout.write(fields_text(surveyed, (args.zone[0], args.zone[1]), args.target_field))
    return 0


def _size_of(args: Namespace) -> int:
    if args.data is None:
        return DEFAULT_SIZE
    from pixpnet.goldilocks.settings import data_config
    from pixpnet.training import open_run_data

    return open_run_data(data_config(args.data, args.seed, args.birds)).preprocessing.size


def command_words(args: Namespace) -> list[str]:
    """The command that goes on, without a password: it is printed, and what is printed is kept in logs."""
    words = ["goldilocks", "--data", args.data, "--backbones", *args.backbones]
    words += ["--layers", *args.layers] if args.layers else []
    words += ["--zone", *map(str, args.zone)]
    words += ["--windows", *map(str, args.windows)] if args.windows else []
    words += ["--weights", *args.weights] if args.weights else []
    for name in ("method", "window_from", "want", "target_field", "epochs", "batch_size", "views", "size"):
        words += [] if args[name] is None else [f"--{name.replace('_', '-')}", str(args[name])]
    words += [] if args.storage is None else ["--storage", without_password(args.storage)]
    for name in ("seed", "birds", "out", "heartbeat", "device", "num_workers"):
        words += [f"--{name.replace('_', '-')}", str(args[name])]
    return [*words, *(["--json"] if args.json else [])]


def without_password(storage: str) -> str:
    """An address with *** for its password.

    >>> without_password("postgresql://me:secret@server/searches")
    'postgresql://me:***@server/searches'
    >>> without_password("postgresql://server/searches?user=me&password=secret")
    'postgresql://server/searches?user=me&password=***'
    """
    if storage.startswith("sqlite:"):
        return storage
    return re.sub(r"password=[^&]*", "password=***", re.sub(r":[^/].*@", ":***@", storage))
