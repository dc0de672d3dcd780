"""The command line: ``pixpnet COMMAND``. Each command lives in its own file in ``commands``."""

import os
import re
import signal
import sys
import warnings
from argparse import SUPPRESS, Action
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TextIO

from jsonargparse import ArgumentParser, DefaultHelpFormatter, Namespace, get_loader, set_loader, set_parsing_settings
from yaml import YAMLError

from pixpnet.commands import (
    audit,
    calibrate,
    compare,
    convert,
    data,
    demo,
    doubt,
    edit,
    evaluate,
    explain,
    fields,
    goldilocks,
    measure,
    members,
    predict,
    report,
    review,
    serve,
    train,
    train_options,
    tree,
    verdicts,
)
from pixpnet.commands.spelling import misspelt
from pixpnet.extras import missing_extra
from pixpnet.messages import first_line
from pixpnet.safe_yaml import check_yaml
from pixpnet.views.console import visible_output


@dataclass(frozen=True)
class Command:
    """What a command says of itself, takes and does; it returns an exit code.

    Attributes:
        summary: for the list of commands.
        add_arguments: declares what it takes.
        run: does it.
        examples: for its help.
        usage: where the one that argparse would make is too long.
        prepare: for a command whose options depend on the words that came.
    """

    summary: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]
    examples: str = ""
    usage: str | None = None
    prepare: Callable[[Sequence[str]], train_options.Prepared] | None = None


# A group of commands is a mapping again: `pixpnet data check`.
COMMANDS: Mapping[str, Command | Mapping[str, Command]] = {
    "fields": Command(
        "show the receptive fields of any layer of any network", fields.add_arguments, fields.run, fields.EXAMPLES
    ),
    "goldilocks": Command(
        "find the layer to cut a network at: accuracy against receptive field",
        goldilocks.add_arguments,
        goldilocks.run,
        goldilocks.EXAMPLES,
    ),
    "data": {
        "check": Command(
            "read every image of a data set and say what is wrong with it",
            data.add_check_arguments,
            lambda args: data.check(args.path, args.seed, args.everything),
        ),
        "show": Command(
            "draw a contact sheet: images with their parts, before and after augmentation",
            data.add_show_arguments,
            lambda args: data.show(args.path, args.out, args.images, args.views, args.seed),
        ),
    },
    "train": Command(
        "train a network on your images",
        train_options.add_arguments,
        train.run,
        train.EXAMPLES,
        train.USAGE,
        train_options.prepare,
    ),
    "members": Command("list the networks of the family, and their presets", members.add_arguments, members.run),
    "evaluate": Command(
        "evaluate a trained network on images it has not seen", evaluate.add_arguments, evaluate.run, evaluate.EXAMPLES
    ),
    "predict": Command("classify pictures", predict.add_arguments, predict.run, predict.EXAMPLES),
    "explain": Command(
        "explain predictions, part by part, and prove it", explain.add_arguments, explain.run, explain.EXAMPLES
    ),
    "tree": Command(
        "draw the tree by which a network decides, and the paths of pictures",
        tree.add_arguments,
        tree.run,
        tree.EXAMPLES,
    ),
    "convert": Command(
        "convert a trained network without training it, such as a soft tree into a hard one",
        convert.add_arguments,
        convert.run,
        convert.EXAMPLES,
    ),
    "report": Command(
        "make one page about a run: accuracy, prototypes, explained examples with proofs",
        report.add_arguments,
        report.run,
        report.EXAMPLES,
    ),
    "serve": Command(
        "open a run as a page on this computer: ask, look at the evidence, mend",
        serve.add_arguments,
        serve.run,
        serve.EXAMPLES,
    ),
    "audit": Command(
        "check a trained network against the paper's three desiderata, with evidence",
        audit.add_arguments,
        audit.run,
        audit.EXAMPLES,
    ),
    "review": Command(
        "list prototypes that deserve a look, the most suspicious first, with reasons",
        review.add_arguments,
        review.run,
        review.EXAMPLES,
    ),
    "verdicts": {
        "list": Command(
            "list what was said of prototypes",
            verdicts.add_list_arguments,
            verdicts.list_verdicts,
            verdicts.LIST_EXAMPLES,
        ),
        "add": Command(
            "say something of prototypes: keep, remove, require, forbid, remember or name",
            verdicts.add_add_arguments,
            verdicts.add,
            verdicts.ADD_EXAMPLES,
        ),
        "undo": Command("take a verdict back", verdicts.add_undo_arguments, verdicts.undo, verdicts.UNDO_EXAMPLES),
    },
    "edit": Command(
        "remove prototypes from a trained network, without retraining", edit.add_arguments, edit.run, edit.EXAMPLES
    ),
    "calibrate": Command(
        "measure how certain a finished model may say to be, without any test image",
        calibrate.add_arguments,
        calibrate.run,
        calibrate.EXAMPLES,
    ),
    "doubt": Command(
        "see how well a model tells images of its own kind from others", doubt.add_arguments, doubt.run, doubt.EXAMPLES
    ),
    "measure": Command(
        "measure the quality of explanations: the paper's Table 2 for a run",
        measure.add_arguments,
        measure.run,
        measure.EXAMPLES,
    ),
    "compare": Command(
        "compare trained runs: the paper's Table 1, mean and deviation over seeds",
        compare.add_arguments,
        compare.run,
        compare.EXAMPLES,
    ),
    "demo": Command(
        "train and explain a network on drawn birds, with no data of your own", demo.add_arguments, demo.run
    ),
}
_PLAIN_LOADER = get_loader("yaml")
_SIGPIPE = 13  # which not every system has a name for
_COMPLETION = "--print_completion"  # as the library that adds it spells it
_GROUPS = {"data": "check data sets before training on them", "verdicts": "say what is right and wrong with prototypes"}


def build_parser(
    commands: Mapping[str, Command | Mapping[str, Command]] = COMMANDS,
    made: dict[tuple[str, ...], ArgumentParser] | None = None,
) -> ArgumentParser:
    """The parser of all commands; importing torch is none of its business.

    Args:
        commands: by name.
        made: filled with the parser of each command, by the words that name it.
    """
    # Options come from this command and the files that it names, not from variables that somebody once set.
    os.environ.pop("JSONARGPARSE_DEFAULT_ENV", None)
    set_loader("yaml", _load_checked, exceptions=(YAMLError,))
    set_parsing_settings(add_print_completion_argument=True)  # --print_completion shtab-bash and others
    parser = ArgumentParser(
        prog="pixpnet",
        description="Pixel-grounded prototypical part networks: image classifiers whose explanations show "
        "exactly the pixels that they looked at.",
        version=_version(),
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    _add_commands(parser, commands, {} if made is None else made)
    return parser


def _add_commands(
    parser: ArgumentParser,
    commands: Mapping[str, Command | Mapping[str, Command]],
    made: dict[tuple[str, ...], ArgumentParser],
    group_name: tuple[str, ...] = (),
) -> None:
    group = parser.add_subcommands(required=True, metavar="COMMAND", help="")
    for name, command in commands.items():
        summary = command.summary if isinstance(command, Command) else _GROUPS[name]
        own = ArgumentParser(
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=command.examples if isinstance(command, Command) else None,
            usage=command.usage if isinstance(command, Command) else None,
            formatter_class=_Formatter,
            print_config="--print-config",
            # An option has one spelling, so that `train.complete` knows which words name a file, and which name code.
            allow_abbrev=False,
        )
        group.add_subcommand(name, own, help=summary)
        if isinstance(command, Command):
            command.add_arguments(own)
            made[(*group_name, name)] = own
        else:
            _add_commands(own, command, made, (*group_name, name))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code: 0 done, 1 failed, 2 wrong usage, above 128 stopped by a signal."""
    with visible_output():
        return _main(sys.argv[1:] if argv is None else argv)


def _main(words: Sequence[str]) -> int:
    named = COMMANDS.get(words[0]) if words else None
    commands = dict(COMMANDS)
    if isinstance(named, Command):
        # The other commands are only listed, so their options cost no time.
        commands = {name: command if name == words[0] else _listed(command) for name, command in COMMANDS.items()}
        if named.prepare is not None:
            prepared = named.prepare(words[1:])
            commands[words[0]] = replace(named, add_arguments=prepared.add_arguments)
            words = [words[0], *prepared.words]
    made: dict[tuple[str, ...], ArgumentParser] = {}
    parser = build_parser(commands, made)
    chosen = made.get(tuple(words[:2])) or made.get(tuple(words[:1]))
    if chosen is not None and (wrong := misspelt(words, chosen._option_string_actions)) is not None:
        sys.stderr.write(f"error: {wrong}\n")
        raise SystemExit(2)
    args = parser.parse_args([re.sub("^--print-completion(?=$|=)", _COMPLETION, word) for word in words])
    command: Command | Mapping[str, Command] = COMMANDS[args.subcommand]
    args = args[args.subcommand]
    if not isinstance(command, Command):
        command, args = command[args.subcommand], args[args.subcommand]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _say_warning
            code = command.run(args)
            sys.stdout.flush()
            return code
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped\n")
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # Whoever reads (head, less) has seen enough. What is still to be flushed at exit has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + _SIGPIPE
    except (Exception, SystemExit) as error:
        # What a person can mend: the message says how. Anything else is a bug and keeps its traceback.
        message = _message(error, _command_name(words))
        if message is None:
            raise
        sys.stderr.write(f"error: {message}\n")
        return 1


def _listed(command: Command | Mapping[str, Command]) -> Command | Mapping[str, Command]:
    return replace(command, add_arguments=lambda parser: None) if isinstance(command, Command) else command


def _command_name(words: Sequence[str]) -> str:
    """The command as it was typed, without its options."""
    group = COMMANDS[words[0]]
    return f"pixpnet {words[0]}" if isinstance(group, Command) else f"pixpnet {words[0]} {words[1]}"


def _message(error: BaseException, command_name: str) -> str | None:
    """The line for an error that a person can mend, None where it is a bug of ours."""
    if isinstance(error, ModuleNotFoundError):
        missing = missing_extra(error, command_name)
        if missing is not None:
            return str(missing)
    zoo = sys.modules.get("pixpnet.zoo")  # without it, nobody's code was called
    if zoo is not None and not isinstance(error, zoo.UnknownModel) and (raised := zoo.raised_by_user_code(error)):
        return str(raised)
    notes = getattr(error, "__notes__", [])
    ours = type(error).__module__.partition(".")[0] == "pixpnet"
    if isinstance(error, MemoryError) or (type(error) is RuntimeError and "can't allocate memory" in str(error)):
        return f"there is not enough memory for this ({first_line(error)}): ask for smaller numbers, images or batches"
    mendable = isinstance(error, (ValueError, LookupError, RuntimeError, OSError)) and type(error) is not RuntimeError
    if not mendable and not notes:
        return None
    text = str(error) if ours or type(error) in (ValueError, LookupError) else _with_type(error)
    return " ".join([text, *notes])


def _with_type(error: BaseException) -> str:
    """With the kind of error where the message alone does not tell: that of KeyError('x') is 'x'."""
    return str(error) if isinstance(error, (OSError, ValueError)) else f"{type(error).__name__}: {error}"


class _Formatter(DefaultHelpFormatter):
    """Leaves the line breaks of examples alone, and says of each option what a person wants to know."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("examples:") else super()._fill_text(text, width, indent)

    def _get_help_string(self, action: Action) -> str:
        # A switch is off, and an option without a value, or with an empty one, says in its help what that means.
        is_switch = action.nargs == 0 and action.default is False
        has_default = action.option_strings and action.default not in (None, "", (), SUPPRESS) and not is_switch
        return (action.help or "") + (" (default: %(default)s)" if has_default else "")


def _say_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Like an error of a command: the message, not the line of code that it comes from."""
    sys.stderr.write(f"warning: {message}\n")


def _load_checked(text: str) -> Any:
    """Values of options and files, as jsonargparse reads them, but nothing that would crash or never end."""
    check_yaml(text)
    return _PLAIN_LOADER(text)


def _version() -> str:
    from importlib.metadata import version

    return version("pixpnet")


if __name__ == "__main__":
    sys.exit(main())
