"""Which options `pixpnet train` has: those of every run, and those of the member of the family that is named.

A member, a preset and configuration files may be named anywhere among the words of the command. They are looked for
first, because the other options, and the values that `--help` shows, depend on them:

    the member's numbers, or a preset of it  <  configuration files, in their order  <  options in the command

A preset that comes behind a file stands above the settings of the file, and leaves it data, backbone and the like.
"""

import sys
from argparse import SUPPRESS
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml
from jsonargparse import ArgumentParser
from jsonargparse._actions import ActionConfigFile

from pixpnet.commands.foreign_options import refuse_foreign
from pixpnet.commands.option_words import flat, value_in
from pixpnet.commands.seeds import add_seeds
from pixpnet.commands.spelling import spell
from pixpnet.commands.start_option import taken_over
from pixpnet.config import RunConfig, is_user_code
from pixpnet.earlier_names import translate
from pixpnet.family import DEFAULT, MEMBERS, Member, UnknownMember, member_named
from pixpnet.members.recipes import RECIPES
from pixpnet.records import plain_fields, to_plain
from pixpnet.safe_yaml import load_yaml, read_yaml_text
from pixpnet.settings import MemberSettings

# Options of the command that are none of the run's.
_OWN = ("out", "resume", "seeds", "trust_code")
# Options that decide about others; each has a value.
_FIRST = ("--member", "--preset", "--recipe", "--config", "--resume")
# The presets that suit drawn birds and photographs where no backbone is named, and one that is named with random
# weights, or with pretrained ones.
_BIRDS, _PHOTOS, _RANDOM, _LEARNT = "birds", "photos", "scratch", "laptop"
_USES = {
    _BIRDS: "for drawn birds (a small backbone)",
    _PHOTOS: "for photographs (a frozen ResNet-18 on windows)",
    _RANDOM: "where --backbone or --at is given and weights are random",
    _LEARNT: "where they are pretrained",
}
# What the data are, and the weights, where the command does not say.
_DATA, _WEIGHTS = "birds", "none"


@dataclass(frozen=True)
class Prepared:
    """A command line whose parser depends on it.

    Attributes:
        words: what is left to parse.
        add_arguments: declares what they may be.
    """

    words: tuple[str, ...]
    add_arguments: Callable[[ArgumentParser], None]


def add_arguments(parser: ArgumentParser) -> None:
    """Declares what `train` takes where nothing is named: every option of the default member."""
    member = member_named(DEFAULT)
    _add_arguments(parser, member, _BIRDS, member.preset(_BIRDS), {}, ())


def prepare(words: Sequence[str]) -> Prepared:
    """Reads which member, preset and files are named, and declares the options that go with them.

    Code that is named here with --backbone is allowed by that.

    Raises:
        SystemExit: with 2 for a name that does not exist, with 1 for a file that cannot be used; stderr says why.

    >>> prepare(["--seed", "7", "--member", "protopnet", "--window-stride", "40"]).words
    ('--seed', '7', '--window-stride', '40')
    >>> prepare(["--backbone", "my.module:build"]).words[-1]
    '--trust-code'
    """
    first, rest = _split(words)
    options = dict(first)
    if "--resume" in options:
        _refuse_beside_resume(words)
        return Prepared(("--resume", options["--resume"], *rest), add_arguments)
    first = [pair for option, value in first for pair in _renamed(option, value)]
    presets = [number for number, (option, _) in enumerate(first) if option == "--preset"]
    # What comes before a preset gives way to it.
    below = presets[-1] if presets else -1
    files = [
        _read_file(value, gives_way=number < below)
        for number, (option, value) in enumerate(first)
        if option == "--config"
    ]
    member = _member_of(first, files)
    started = _started(value_in(rest, "--start", ""))
    taken = [
        f"--{name}={file.values[name] or _WEIGHTS}" for file in started for name in ("data", "backbone", "weights")
    ]
    try:
        preset = first[below][1] if presets else "" if files else _suiting_preset([*taken, *rest], member)
        settings = member.preset(preset) if preset else member.config()
    except UnknownMember as error:
        _refuse(str(error), 2)
    files = [*started, *files]
    texts = {file.name: _checked_text(file, member) for file in files}
    configs = [word for file in files for word in ("--config", file.name)]
    asks = [word for word in rest if word in ("--help", "-h")]
    allowed = ["--trust-code"] if is_user_code(value_in(rest, "--backbone", "")) else []
    return Prepared(
        (*configs, *rest, *allowed, *_fitting_warm_up(rest, settings, files, quiet=bool(asks))),
        lambda parser: _add_arguments(parser, member, preset, settings, texts, configs if asks else ()),
    )


def _suiting_preset(words: Sequence[str], member: Member) -> str:
    """The preset of a command that names none: what the README recommends for its data and weights.

    >>> pixpnet = member_named("pixpnet")
    >>> _suiting_preset([], pixpnet), _suiting_preset(["--data", "folder:photos"], pixpnet)
    ('birds', 'photos')
    >>> _suiting_preset(["--weights", "imagenet", "--backbone", "vgg16", "--at", "maxpool4"], pixpnet)
    'laptop'
    """
    random = value_in(words, "--weights", _WEIGHTS) == _WEIGHTS
    named = any(word.partition("=")[0] in ("--backbone", "--at") for word in words)
    drawn = random and value_in(words, "--data", _DATA) == _DATA
    suiting = [] if named else [_BIRDS if drawn else _PHOTOS]
    suiting.append(_RANDOM if random else _LEARNT)
    return next((preset for preset in suiting if preset in member.presets), next(iter(member.presets)))


def _add_arguments(
    parser: ArgumentParser,
    member: Member,
    preset: str,
    settings: MemberSettings,
    texts: Mapping[str, str],
    shown: Sequence[str],
) -> None:
    """Declares the options of a member, with the values that will be used as defaults.

    Args:
        parser: of the command.
        member: whose options.
        preset: that the settings are, for the help; "" for none.
        settings: the defaults.
        texts: configuration files by name.
        shown: words whose values are defaults too, because they are to be shown.
    """
    parser.add_argument("--out", type=Path, default=None, metavar="RUN", help="a new folder for the run")
    parser.add_argument("--resume", type=Path, default=None, metavar="RUN", help="go on with an interrupted run")
    add_seeds(parser)
    parser.add_argument(
        "--member",
        type=str,
        default=member.name,
        metavar="NAME",
        help=f"which network of the family: {', '.join(MEMBERS)} (`pixpnet members` says more); the options below are "
        "its own",
    )
    parser.add_argument(
        "--preset",
        type=str,
        default=SUPPRESS,
        metavar="NAME",
        help=f"the settings to begin with, which all other options change: {', '.join(member.presets)}. By default "
        + ", ".join(f"{name} {use}" for name, use in _USES.items() if name in member.presets)
        + (f" (used here: {preset})" if preset else ""),
    )

    class ConfigFile(_ConfigFile):
        checked = texts

    parser.add_argument(
        "--config",
        action=ConfigFile,
        metavar="FILE",
        help="a configuration file, such as RUN/config.yaml or what --print-config prints; what it does not say is the "
        "member's default",
    )
    parser.add_argument(
        "--trust-code",
        action="store_true",
        help="call the code that the configuration file, or the run to go on with, names as its backbone; naming it "
        "with --backbone in this command allows it too",
    )
    parser.add_class_arguments(RunConfig, skip={"member", "settings", "read_from"})
    parser.add_class_arguments(member.config)
    parser.set_defaults(dict(member.backbones.get(preset, {})))
    parser.set_defaults(flat(to_plain(settings)))
    spell(parser)
    if shown:
        names = [field.name for field in (*plain_fields(RunConfig), *plain_fields(member.config))]
        values = parser.parse_args(list(shown)).as_dict()
        parser.set_defaults(flat({name: values[name] for name in names}))


class _ConfigFile(ActionConfigFile):
    """Parses the text of a file that was read and checked before."""

    checked: Mapping[str, str] = {}

    def __call__(self, parser: Any, cfg: Any, values: Any, option_string: str | None = None) -> None:
        # The text, so that what is parsed is what was checked; with an end that makes it no name of any file.
        text = f"{self.checked[values]}\n#{'-' * 2**13}"
        super().__call__(parser, cfg, text, option_string)  # type: ignore[no-untyped-call]
        cfg[self.dest][-1] = str(values)


# The words of the command -------------------------------------------------------------------------------------------


def _split(words: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """The options that decide about others, with their values, and all other words.

    >>> _split(["--seed=7", "--member", "protopnet", "--config=a.yaml"])
    ([('--member', 'protopnet'), ('--config', 'a.yaml')], ['--seed=7'])
    """
    first: list[tuple[str, str]] = []
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        option, equals, value = word.partition("=")
        if option not in _FIRST or not (equals or left):
            rest.append(word)
        else:
            first.append((option, value if equals else left.pop(0)))
    return first, rest


def _fitting_warm_up(
    words: Sequence[str], settings: MemberSettings, files: "Sequence[_File]", quiet: bool
) -> tuple[str, ...]:
    """A warm-up that fits into fewer epochs than it was made for, in the same proportion, where none is named."""
    asked = value_in(words, "--epochs", "")
    if not asked.isdecimal() or any(word.partition("=")[0] == "--warm-up-epochs" for word in words):
        return ()
    optim = settings.optimization
    values: dict[str, Any] = {"epochs": optim.epochs, "warm_up_epochs": optim.warm_up_epochs}
    for file in files:
        named = file.values.get("optimization") if isinstance(file.values, dict) and not file.gives_way else None
        values |= named if isinstance(named, dict) else {}
    try:
        epochs, of, warm_up = int(asked), int(values["epochs"]), int(values["warm_up_epochs"])
    except (TypeError, ValueError):
        return ()  # whoever reads the file says what is wrong with it
    if warm_up <= epochs or of < 1:
        return ()
    fitting = min(epochs, epochs * warm_up // of)
    if not quiet:
        sys.stderr.write(f"warm-up: {fitting} of {epochs} epochs, instead of {warm_up} of {of} (--warm-up-epochs)\n")
    return "--warm-up-epochs", str(fitting)


def _renamed(option: str, value: str) -> list[tuple[str, str]]:
    """Today's words for a recipe of an earlier version, with a hint; a recipe could be a file too."""
    if option not in ("--recipe", "--config"):
        return [(option, value)]
    if value not in RECIPES:
        return [("--config", value)]
    today = RECIPES[value]
    sys.stderr.write(f"{option} {value} is now {' '.join(today)}\n")
    return list(zip(today[::2], today[1::2], strict=True))


def _refuse_beside_resume(words: Sequence[str]) -> None:
    options = [word for word in words if word.startswith("--") and not word.startswith("--resume")]
    others = [word for word in options if word not in ("--trust-code", "--help")]
    if others:
        _refuse(
            f"a run goes on as it began, so --resume takes no other options, and {others[0]} came: begin a new run "
            "with --config RUN/config.yaml and what is to change",
            2,
        )


def _refuse(message: str, code: int) -> NoReturn:
    """Ends the command with one line."""
    sys.stderr.write(f"error: {message}\n")
    raise SystemExit(code)


# Configuration files ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _File:
    """A configuration file.

    Attributes:
        name: as it was given.
        text: what is in it.
        values: the same, loaded.
        gives_way: whether a preset comes behind it, and takes the place of its settings.
        renamed: names of earlier versions in it, to today's, which text and values have.
    """

    name: str
    text: str
    values: Any
    gives_way: bool
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def member(self) -> str | None:
        """The member that it says it configures."""
        named = self.values.get("member") if isinstance(self.values, dict) else None
        return None if named is None else str(named)


def _read_file(name: str, gives_way: bool) -> _File:
    try:
        text = read_yaml_text(Path(name))
        values = load_yaml(text)
        if isinstance(values, dict) and (translation := translate(values)).renamed:
            text = yaml.safe_dump(translation.values, sort_keys=False, allow_unicode=True)
            return _File(name, text, translation.values, gives_way, translation.renamed)
        return _File(name, text, values, gives_way)
    except FileNotFoundError:
        _refuse(f"there is no configuration file {name}; settings under a name are presets: --preset NAME", 2)
    except yaml.YAMLError as error:
        _refuse(f"{name} is damaged: {error}", 1)
    except OSError as error:
        _refuse(str(error), 1)
    except ValueError as error:
        _refuse(f"{name}: {error}" if name not in str(error) else str(error), 1)


def _started(run: str) -> "list[_File]":
    """The run that another one starts from, as a file that comes before all others."""
    if not run:
        return []
    try:
        return [_File(str(Path(run) / "config.yaml"), "", taken_over(Path(run).expanduser()), gives_way=True)]
    except ValueError as error:
        _refuse(str(error), 1)


def _member_of(first: Sequence[tuple[str, str]], files: Sequence[_File]) -> Member:
    """The member that the command names, or else the last file; without any, the default."""
    named = list(dict.fromkeys(value for option, value in first if option == "--member"))
    if len(named) > 1:
        _refuse(f"a run trains one member of the family, and {len(named)} came: {', '.join(named)}", 2)
    in_files = [(file, file.member) for file in files if file.member is not None and not file.gives_way]
    name = next(iter(named), None) or next((name for _, name in reversed(in_files)), None)
    name = name or next((file.member for file in reversed(files) if file.member is not None), DEFAULT)
    try:
        member = member_named(name)
    except UnknownMember as error:
        where = next((file.name for file in files if file.member == name and name not in named), None)
        _refuse(f"{where}: {error}" if where else str(error), 1 if where else 2)
    for file, other in in_files:
        if other != name:
            _refuse(
                f"{file.name} configures {other}, and the run is to train {name}: name a preset behind the file "
                f"(--config {file.name} --preset NAME) to take only data, backbone and the like from it",
                2,
            )
    return member


def _checked_text(file: _File, member: Member) -> str:
    """A configuration file that holds options and nothing else: no other files, no classes, no permissions.

    jsonargparse would import a class that a file names (`class_path`), and read files that a file names.
    """
    values, text = file.values, file.text
    if isinstance(values, dict):
        if values.get("trust_code"):
            _refuse(f"{file.name} cannot allow code: allow it in the command, --trust-code, if you trust the file", 1)
        # What `--print-config` prints of the command itself.
        values = {name: value for name, value in values.items() if name not in _OWN}
        if file.gives_way:
            settings = {field.name for name in MEMBERS for field in plain_fields(member_named(name).config)}
            values = {name: value for name, value in values.items() if name not in {*settings, "member"}}
            text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    try:
        refuse_foreign((RunConfig, member.config), values, file.name)
    except ValueError as error:
        unsaid = file.member is None and member.name != DEFAULT
        _refuse(f"{error} (a file that names no member configures {DEFAULT})" if unsaid else str(error), 1)
    if file.renamed:
        pairs = ", ".join(f"{old} is now {new}" for old, new in file.renamed.items())
        sys.stderr.write(f"{file.name} has names of an earlier version: {pairs}\n")
    return text
