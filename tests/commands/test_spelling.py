"""One spelling of options in all commands, and commands in help and README that can be parsed."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from pixpnet import cli
from pixpnet.cli import COMMANDS, Command, build_parser, main
from pixpnet.earlier_names import KEYS
from pixpnet.family import MEMBERS, member_named
from pixpnet.option_names import option_of, renamed_option
from pixpnet.records import plain_fields

README = (Path(__file__).parents[2] / "README.md").read_text()
CHANGELOG = (Path(__file__).parents[2] / "CHANGELOG.md").read_text()


def code_of(words: list[str]) -> int:
    try:
        return main(words)
    except SystemExit as end:
        return int(end.code or 0)


def parsers() -> dict[tuple[str, ...], set[str]]:
    made: dict[tuple[str, ...], object] = {}
    build_parser(made=made)  # type: ignore[arg-type]
    return {words: set(parser._option_string_actions) for words, parser in made.items()}  # type: ignore[attr-defined]


def test_options_are_written_with_hyphens_in_every_command() -> None:
    result = parsers()
    assert ("data", "check") in result
    for words, options in result.items():
        assert not [option for option in options if "_" in option], words


def test_what_several_commands_have_is_called_the_same() -> None:
    result = parsers()
    for option, commands in {
        "--device": ("train", "evaluate", "predict", "explain", "report", "audit", "measure", "goldilocks"),
        "--trust-code": ("train", "evaluate", "predict", "explain", "report", "audit", "measure"),
        "--batch-size": ("train", "evaluate", "predict", "goldilocks"),
        "--num-workers": ("train", "evaluate", "goldilocks"),
        "--epochs": ("train", "goldilocks"),
        "--weights": ("train", "goldilocks"),
        "--data": ("train", "evaluate", "report", "audit", "measure", "goldilocks"),
    }.items():
        for command in commands:
            assert option in result[command,], (option, command)


@pytest.mark.parametrize(
    ("words", "today"),
    [
        (["train", "--own_code"], "--trust-code"),
        (["train", "--workers", "2"], "--num-workers"),
        (["train", "--judge_on_test", "false"], "--evaluate-on-test"),
        (["train", "--judge-on-test", "false"], "--evaluate-on-test"),
        (["train", "--trainer.accelerator", "cpu"], "--device"),
        (["train", "--split_rule=quota"], "--split-rule"),
        (["train", "--optimisation.backbone_rate", "1e-3"], "--lr-backbone"),
        (["train", "--optimisation.epochs=3"], "--epochs"),
        (["train", "--trainer.devices", "2"], "--num-devices"),
        (["train", "--replacement.head_epochs", "2"], "--replacement.head-epochs"),
        (["train", "--member", "protopool", "--architecture.prototypes_per_class", "2"], None),
        (["measure", "run", "--part_samples", "3"], "--part-samples"),
        (["predict", "run", "a.png", "--own_code"], "--trust-code"),
        (["evaluate", "run", "--batch_size", "3"], "--batch-size"),
        (["goldilocks", "--batch", "3"], "--batch-size"),
    ],
)
def test_an_option_of_an_earlier_version_names_todays(
    words: list[str], today: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of(words) == 2
    output = capsys.readouterr().err
    assert output.count("\n") == 1
    old = next(word for word in words if word.startswith("--") and word != "--member").partition("=")[0]
    assert (f"{old} is now {today}\n" if today else f"there is no option {old}") in output


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["train", "--epoch", "3"], "--epochs"),
        (["train", "--lr-backbne=1"], "--lr-backbone"),
        (["data", "check", "--sede", "1", "photos"], "--seed"),
        (["measure", "run", "--mapping", "field"], "--mappings"),
        (["audit", "run", "--treshold", "1"], "--threshold"),
    ],
)
def test_a_near_miss_of_an_option_is_answered_with_the_option(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of(words) == 2
    assert f"did you mean {meant}?" in capsys.readouterr().err


def test_every_renamed_option_is_in_the_table_of_the_changelog() -> None:
    groups = {today: old for old, today in KEYS[""].items()}
    for group, names in KEYS.items():
        for old, new in names.items():
            if new in KEYS:  # a group
                continue
            name, today = (f"{groups.get(group, group)}.{old}", option_of(new)) if group else (old, option_of(new))
            assert renamed_option(f"--{name}") == today
            assert re.search(rf"\| `--{re.escape(name)}`.*\| `{today}` \|", CHANGELOG), name


def config(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    with pytest.raises(SystemExit) as end:
        main(["train", *words, "--print-config"])
    assert end.value.code in (None, 0)
    values: dict[str, object] = yaml.safe_load(capsys.readouterr().out)
    return values


@pytest.mark.parametrize("member", MEMBERS)
def test_one_epoch_needs_no_second_option(member: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for preset in member_named(member).presets:
        optim = config(capsys, "--member", member, "--preset", preset, "--epochs", "1")["optimization"]
        assert isinstance(optim, dict)
        assert (optim["epochs"], optim["warm_up_epochs"]) == (1, min(1, optim["warm_up_epochs"]))
    file = tmp_path / "mine.yaml"
    file.write_text(f"member: {member}\noptimization:\n  epochs: 40\n  warm_up_epochs: 20\n")
    optim = config(capsys, "--config", str(file), "--epochs", "10")["optimization"]
    assert isinstance(optim, dict)
    assert (optim["epochs"], optim["warm_up_epochs"]) == (10, 5)  # the same half


def test_the_defaults_that_help_shows_are_those_that_will_be_used(capsys: pytest.CaptureFixture[str]) -> None:
    for weights in ("none", "imagenet"):
        with pytest.raises(SystemExit):
            main(["train", "--weights", weights, "--help"])
        shown = " ".join(capsys.readouterr().out.split())
        used = config(capsys, "--weights", weights)
        for group in ("optimization", "architecture", "replacement"):
            values = used[group]
            assert isinstance(values, dict)
            for field, value in values.items():
                if value is None or value == "":
                    continue
                option = option_of(f"{group}.{field}")
                output = re.search(rf"{re.escape(option)} .*?\(default: (.*?)\)", shown)
                assert output is not None and output[1].lower() == str(value).lower(), option


def examples() -> Iterator[str]:
    """Every command in the help of commands and in the README, without what is said about it."""
    texts = [README, *(text for command in _all(COMMANDS) for text in (command.examples,))]
    for text in texts:
        whole = re.sub(r"\s*\\\n\s+", " ", text)
        for line in re.findall(r"^ *(pixpnet [a-z-].*)$", whole, flags=re.MULTILINE):
            yield re.split(r"\s{2,}| +#", line)[0]
    for line in re.findall(r"`(pixpnet [a-z]+ [^`]+)`", README):
        yield " ".join(line.split())


def _all(commands: Mapping[str, Command | Mapping[str, Command]]) -> Iterator[Command]:
    for command in commands.values():
        if isinstance(command, Command):
            yield command
        else:
            yield from _all(command)


@pytest.mark.parametrize("line", sorted(set(examples())))
def test_a_command_that_is_printed_can_be_parsed(
    line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(line)[1:]
    words = words[: words.index(">")] if ">" in words else words
    for index, word in enumerate(words[:-1]):
        if word == "--config":  # a file that an earlier command wrote
            file = tmp_path / "mine.yaml"
            file.write_text("seed: 1\n")
            words[index + 1] = str(file)
    done = {
        name: replace(command, run=lambda args: 0)
        if isinstance(command, Command)
        else {inner: replace(item, run=lambda args: 0) for inner, item in command.items()}
        for name, command in COMMANDS.items()
    }
    monkeypatch.setattr(cli, "COMMANDS", done)
    assert code_of(words) == 0, capsys.readouterr().err


def test_fields_of_all_members_have_options_of_their_own() -> None:
    for name in MEMBERS:
        options = [option_of(field.name) for field in plain_fields(member_named(name).config)]
        assert len(set(options)) == len(options)
