"""``pixpnet train``: from a data set to a judged model in a run folder."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import is_dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import yaml
from jsonargparse import ArgumentParser, Namespace
from jsonargparse._actions import ActionConfigFile

from pixpnet.config import RunConfig, is_own_code
from pixpnet.recipe import KEPT_EPOCH, RECIPES
from pixpnet.records import from_plain, plain_fields, to_plain
from pixpnet.safe_yaml import load_yaml, read_yaml_text

if TYPE_CHECKING:
    from pixpnet.training import Metrics

USAGE = "pixpnet train --out RUN [--data ...] [--backbone ... --at ... --weights ...] [any option below]"

EXAMPLES = """examples:
  pixpnet train --out runs/birds                      drawn birds, the small backbone, on this machine
  pixpnet train --data folder:photos --backbone resnet18 --at layer3 --weights imagenet --out runs/photos
  pixpnet train --data cub:CUB_200_2011 --backbone vgg16 --at maxpool4 --weights imagenet \\
                --recipe pixpnet --trainer.devices 4 --trainer.precision bf16-mixed --out runs/paper
  pixpnet train --recipe protopnet --print_config > mine.yaml
  pixpnet train --config mine.yaml --seed 1 --out runs/mine
  pixpnet train --resume runs/mine                    after an interruption of any kind"""


# Options of the command that are none of the run's.
_OWN = ("out", "resume", "own_code")


def add_arguments(parser: ArgumentParser) -> None:
    """Declares what `train` takes: every field of `RunConfig`, and where the run goes."""
    parser.add_argument("--out", type=Path, default=None, metavar="RUN", help="a new folder for the run")
    parser.add_argument("--resume", type=Path, default=None, metavar="RUN", help="go on with an interrupted run")
    parser.add_argument(
        "--config",
        "--recipe",
        action=_ConfigOrRecipe,
        metavar="FILE|NAME",
        help="a configuration file, or the name of a recipe: laptop (a few hundred images, minutes to an hour; the "
        "default for a backbone with weights), scratch (the default for random weights), frozen (the backbone stays as "
        "it is and its features are kept: minutes, then seconds for another seed; best with --window), tail (its last "
        "stage learns too), pixpnet (the paper's) or protopnet. All other options change it",
    )
    parser.add_argument(
        "--own_code",
        action="store_true",
        help="call the code that the configuration file, or the run to go on with, names as its backbone; naming it "
        "with --backbone in this command allows it too",
    )
    parser.add_class_arguments(RunConfig, skip={"read_from"})


def complete(words: Sequence[str]) -> Sequence[str]:
    """Puts the recipe or file first, for the rest to change; where none is named, the recipe that suits the weights.

    Code that is named here with --backbone is allowed by that.

    >>> complete(["--weights", "imagenet"])
    ['--recipe', 'laptop', '--weights', 'imagenet']
    >>> complete(["--out", "runs/birds"])[:2]
    ['--recipe', 'scratch']
    >>> complete(["--seed", "7", "--recipe", "pixpnet"])
    ['--recipe', 'pixpnet', '--seed', '7']
    >>> complete(["--backbone", "my.module:build"])[-1]
    '--own_code'
    >>> complete(["--recipe", "frozen", "--window-stride", "40"])[2:]
    ['--window_stride', '40']
    """
    words = [_with_underscores(word) for word in words]
    first: list[str] = []
    rest: list[str] = []
    values = {"--weights": "none", "--backbone": ""}
    left = iter(words)
    for word in left:
        option, equals, value = word.partition("=")
        if option in ("--config", "--recipe", "--resume", *values):
            taken = [word] if equals else [word, *islice(left, 1)]
            (rest if option in values else first).extend(taken)
            if option in values:
                values[option] = value or taken[-1]
        else:
            rest.append(word)
    if "--resume" in [word.partition("=")[0] for word in first]:
        options = [word for word in (*first, *rest) if word.startswith("--") and not word.startswith("--resume")]
        others = [word for word in options if word not in ("--own_code", "--help")]
        if others:
            sys.stderr.write(
                f"error: a run goes on as it began, so --resume takes no other options, and {others[0]} came: begin a "
                "new run with --config RUN/config.yaml and what is to change\n"
            )
            raise SystemExit(2)
    elif not first:
        first = ["--recipe", "scratch" if values["--weights"] == "none" else "laptop"]
    return [*first, *rest, *(["--own_code"] if is_own_code(values["--backbone"]) else [])]


def _checked_text(path: Path) -> str:
    """A configuration file that holds options and nothing else: no other files, no classes, no permissions.

    jsonargparse would import a class that a file names (`class_path`), and read files that a file names.

    Raises:
        ValueError: with what is wrong.
    """
    try:
        text = read_yaml_text(path)
        values = load_yaml(text)
    except FileNotFoundError as error:
        raise ValueError(f"there is no configuration file {path}, and recipes are {', '.join(RECIPES)}") from error
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if isinstance(values, dict) and values.get("own_code"):
        raise ValueError(f"{path} cannot allow code: allow it in the command, --own_code, if you trust the file")
    # What `--print_config` prints of the command itself.
    options = (
        {name: value for name, value in values.items() if name not in _OWN} if isinstance(values, dict) else values
    )
    _refuse_foreign(RunConfig, options, str(path))
    return text


def _refuse_foreign(record: Any, values: object, where: str) -> None:
    kinds = get_type_hints(record)
    names = [field.name for field in plain_fields(record)]
    if not isinstance(values, dict):
        raise ValueError(f"{where}: expected options such as {', '.join(names[:3])}, got {str(values)[:100]!r}")
    for name, value in values.items():
        if name not in names:
            raise ValueError(f"{where}: there is no option {str(name)[:100]!r}; there are {', '.join(names)}")
        if is_dataclass(kinds[name]):
            _refuse_foreign(kinds[name], value, f"{where}: {name}")
        elif isinstance(value, dict):
            raise ValueError(f"{where}: {name} has no options of its own")


def _with_underscores(word: str) -> str:
    """An option may be written with hyphens."""
    option, equals, value = word.partition("=")
    if not option.startswith("--"):
        return word
    return f"--{option[2:].replace('-', '_')}{equals}{value}"


def run(args: Namespace) -> int:
    """Trains, or goes on training, and says how it went."""
    if (args.out is None) == (args.resume is None):
        sys.stderr.write("error: say where the run goes, --out RUN, or which one to go on with, --resume RUN\n")
        return 2
    from pixpnet.commands.training_display import display
    from pixpnet.training import resume, train

    folder: Path = args.out or args.resume
    try:
        with display() as shown:
            if args.resume is not None:
                metrics = resume(folder, shown.watcher, shown.opening, args.own_code)
            else:
                metrics = train(config_of(args), folder, shown.watcher, shown.opening, args.own_code)
    except KeyboardInterrupt:
        # What the last whole epoch left is safe; nothing that was begun is needed.
        kept = "the model kept so far is in it" if (folder / "model.safetensors").exists() else "no model yet"
        if (folder / "config.yaml").exists():
            sys.stderr.write(f"\nstopped; {folder} is kept ({kept}). Go on with: pixpnet train --resume {folder}\n")
        return 130
    if metrics is not None:
        sys.stdout.write(summary(metrics, folder))
    return 0


def config_of(args: Namespace) -> RunConfig:
    """The record of the command line's values."""
    given: dict[str, Any] = args.as_dict()
    values = {field.name: given[field.name] for field in plain_fields(RunConfig)}
    files = [file for file in given["config"] or () if file not in RECIPES]
    # What is not in this command came from a file, or from the environment.
    return replace(from_plain(RunConfig, values, "configuration"), read_from=files[-1] if files else "the environment")


def summary(metrics: Metrics, folder: Path) -> str:
    """The outcome in a few lines."""
    lines = [
        f"kept: epoch {metrics.chosen_epoch} of {metrics.epochs}, {KEPT_EPOCH}",
        f"validation accuracy  {metrics.validation.accuracy:6.1%} ({metrics.validation.images} images), "
        f"{metrics.validation_before.accuracy:.1%} before replacement",
    ]
    if metrics.test is None or metrics.test_before is None:
        lines.append("test accuracy        not looked at: the test split stayed closed")
    else:
        low, high = metrics.test.interval.low, metrics.test.interval.high
        lines.append(
            f"test accuracy        {metrics.test.accuracy:6.1%} ({metrics.test.images} images, 95 % interval "
            f"{low:.1%} to {high:.1%}), {metrics.test_before.accuracy:.1%} before replacement"
        )
    lines += [
        f"a cell sees          {metrics.mean_field:6.1%} of the image on average, {metrics.largest_field:.1%} at most",
        f"{metrics.prototypes} prototypes, each a patch of a training image: {folder / 'prototypes'}",
        f"the run: {folder}",
    ]
    return "\n".join(lines) + "\n"


class _ConfigOrRecipe(ActionConfigFile):
    """A recipe is a configuration file that is built in."""

    def __call__(self, parser: Any, cfg: Any, values: Any, option_string: str | None = None) -> None:
        try:
            text = yaml.safe_dump(to_plain(RECIPES[values])) if values in RECIPES else _checked_text(Path(values))
        except (OSError, ValueError) as error:
            # In one line, as the other commands say it of their files.
            sys.stderr.write(f"error: {error}\n")
            raise SystemExit(2 if isinstance(error.__cause__, FileNotFoundError) else 1) from error
        # The text, so that what is parsed is what was checked; with an end that makes it no name of any file.
        super().__call__(parser, cfg, f"{text}\n#{'-' * 2**13}", option_string)  # type: ignore[no-untyped-call]
        cfg[self.dest][-1] = str(values)
