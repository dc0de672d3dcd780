"""The command line: ``pixpnet COMMAND``. Each command lives in its own file in ``commands``."""

import sys
from argparse import SUPPRESS, Action
from collections.abc import Sequence

from jsonargparse import ArgumentParser, DefaultHelpFormatter

from pixpnet.commands import demo, fields

COMMANDS = {
    "fields": (fields, "see what any layer of any network looks at", fields.EXAMPLES),
    "demo": (demo, "try it with nothing at hand", ""),
}


def build_parser() -> ArgumentParser:
    """The parser of all commands; importing torch is none of its business."""
    parser = ArgumentParser(
        prog="pixpnet",
        description="Pixel-grounded prototypical part networks: image classifiers whose explanations show "
        "exactly the pixels that they looked at.",
        version=_version(),
        formatter_class=_Formatter,
    )
    commands = parser.add_subcommands(required=True, metavar="COMMAND", help="")
    for name, (module, summary, examples) in COMMANDS.items():
        command = ArgumentParser(
            description=f"{summary[0].upper()}{summary[1:]}.", epilog=examples, formatter_class=_Formatter
        )
        module.add_arguments(command)
        commands.add_subcommand(name, command, help=summary)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code: 0 done, 1 failed, 2 wrong usage."""
    args = build_parser().parse_args(argv)
    module = COMMANDS[args.subcommand][0]
    try:
        code: int = module.run(args[args.subcommand])
        return code
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped\n")
        return 130
    except (ValueError, LookupError, NotImplementedError, OSError) as error:
        # What a person can mend: the message says how. Anything else is a bug and keeps its traceback.
        sys.stderr.write(f"error: {error}\n")
        for note in getattr(error, "__notes__", ()):
            sys.stderr.write(f"{note}\n")
        return 1


class _Formatter(DefaultHelpFormatter):
    """Leaves the line breaks of examples alone, and says of each option what a person wants to know."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("examples:") else super()._fill_text(text, width, indent)

    def _get_help_string(self, action: Action) -> str:
        has_default = action.option_strings and action.default not in (None, False, SUPPRESS)
        return (action.help or "") + (" (default: %(default)s)" if has_default else "")


def _version() -> str:
    from importlib.metadata import version

    return version("pixpnet")


if __name__ == "__main__":
    sys.exit(main())
