"""YAML from anywhere ends in values or in one line, never in a crash and never never."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.cli import main
from pixpnet.config import RunConfig, config_text
from pixpnet.safe_yaml import BadYaml, load_yaml

BOMB = "a: &a [x, x]\n" + "\n".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]" for n in range(20)
)
DAMAGED = {
    "deep lists": "[" * 100_000,
    "deep tables": "{a: " * 100_000,
    "deep indentation": "\n".join(f"{' ' * n}a:" for n in range(300)),
    "aliases": BOMB,
    "an alias to itself": "&a [*a]",
    "half a table": "architecture: {dim: 8",
    "a tag of Python": "data: !!python/object/apply:os.abort []",
    "a number of 5000 digits": f"seed: {'9' * 5000}",
    "no such day": "data: 2024-99-99",
    "a control character": "data: \x00",
    "a list": "[1, 2]",
    "a word": "laptop",
    "nothing": "",
    "too much": "# " + "x" * 10**6,
    "an unknown option": "dat: birds",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_configuration_ends_in_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "damaged.yaml"
    path.write_text(DAMAGED[name])
    with pytest.raises(SystemExit) as end:
        main(["train", "--config", str(path), "--out", str(tmp_path / "run")])
    assert end.value.code == 1
    output = capsys.readouterr().err
    assert output.startswith(f"error: {path}")
    assert output.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", [name for name in DAMAGED if name not in ("an unknown option", "a list", "a word")])
def test_a_damaged_configuration_of_a_run_ends_in_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.yaml").write_text(DAMAGED[name])
    assert main(["evaluate", str(tmp_path)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@given(st.text())
def test_any_text_is_values_or_one_line(text: str) -> None:
    try:
        load_yaml(text)
    except BadYaml as error:
        assert "\n" not in str(error)


def test_a_complete_configuration_is_far_from_the_limits() -> None:
    edits = tuple(f"pointwise:layer{n}.conv" for n in range(200))
    assert load_yaml(config_text(RunConfig(edits=edits)))["edits"] == list(edits)
