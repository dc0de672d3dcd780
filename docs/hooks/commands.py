"""Writes the reference of the command line from the parsers: a page for each command, whenever the site is built."""

import re
from argparse import SUPPRESS, Action, HelpFormatter, _ArgumentGroup
from collections.abc import Iterator
from textwrap import dedent, fill

from jsonargparse import ArgumentParser
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from pixpnet.cli import COMMANDS, Command, build_parser

_FOLDER = "reference/commands"
_JOINED = "\N{NO-BREAK SPACE}"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    parsers: dict[tuple[str, ...], ArgumentParser] = {}
    build_parser(made=parsers)
    commands = dict(_commands())
    for words, parser in parsers.items():
        name = f"{_FOLDER}/{'-'.join(words)}.md"
        files.append(File.generated(config, name, content=page(words, commands[words], parser)))
    files.append(File.generated(config, f"{_FOLDER}/index.md", content=_index(commands)))
    return files


def page(words: tuple[str, ...], command: Command, parser: ArgumentParser) -> str:
    """The page of one command: what it does, how it is called, examples, and every option with its default."""
    usage = command.usage or parser.format_usage().removeprefix("usage: ").strip()
    start = f"pixpnet {' '.join(words)}"
    usage = usage.replace("pixpnet [options] ", "pixpnet ")
    usage = re.sub(r"\[[^]]*\]", lambda match: match[0].replace(" ", _JOINED), " ".join(usage.split()))
    usage = fill(usage, 84, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False).replace(
        _JOINED, " "
    )
    lines = [f"# {start}", "", f"{command.summary[0].upper()}{command.summary[1:]}.", "", *_block("text", usage)]
    if command.examples:
        lines += ["## Examples", "", *_block("text", _examples(command.examples))]
    for group in parser._action_groups:
        if actions := [action for action in group._group_actions if action.help is not SUPPRESS]:
            lines += _options(parser, group, actions)
    return "\n".join(lines)


def _commands() -> Iterator[tuple[tuple[str, ...], Command]]:
    for name, command in COMMANDS.items():
        if isinstance(command, Command):
            yield (name,), command
        else:
            for second, inner in command.items():
                if isinstance(inner, Command):
                    yield (name, second), inner


def _index(commands: dict[tuple[str, ...], Command]) -> str:
    lines = [
        "# Command line",
        "",
        "Made from the parsers when this site was built, so it says what `--help` says. Every command answers wrong "
        "options with one line that says what to do. Exit codes: 0 done, 1 failed, 2 wrong usage, above 128 stopped by "
        "a signal; `audit` answers by its code too.",
        "",
        "| command | what it does |",
        "|---|---|",
    ]
    lines += [
        f"| [`{' '.join(words)}`]({'-'.join(words)}.md) | {command.summary} |" for words, command in commands.items()
    ]
    lines += [
        "",
        "`pixpnet --print-completion shtab-bash` prints completion for your shell (also zsh, fish, tcsh, powershell).",
    ]
    return "\n".join(lines)


def _examples(text: str) -> str:
    """The examples of a help text; what is said about one behind two spaces stands above it."""
    lines = []
    for line in dedent(text.removeprefix("examples:").strip("\n")).splitlines():
        command, *about = re.split(r"\s{2,}", line, maxsplit=1) if line.startswith("pixpnet ") else [line]
        lines += [*(f"# {words}" for words in about), command]
    return "\n".join(lines)


def _options(parser: ArgumentParser, group: _ArgumentGroup, actions: list[Action]) -> list[str]:
    title = (group.title or "options").strip()
    lines = [f"## {title[0].upper()}{title[1:]}", "", "| option | what it is | default |", "|---|---|---|"]
    formatter = parser._get_formatter()
    for action in actions:
        called = HelpFormatter._format_action_invocation(formatter, action)
        default = (
            ""
            if action.default in (None, "", (), SUPPRESS, False) or not action.option_strings
            else str(action.default)
        )
        text = formatter._expand_help(action).removesuffix(f"(default: {default})") if action.help else ""
        lines.append(f"| {_code(called)} | {_cell(text)} | {_code(default)} |")
    return [*lines, ""]


def _cell(text: str) -> str:
    """Text within a table: on one line, with nothing that the table or HTML would take for its own."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def _code(text: str) -> str:
    return f"`{' '.join(text.split())}`".replace("|", "\\|") if text else ""


def _block(language: str, text: str) -> list[str]:
    return [f"```{language}", text, "```", ""]
