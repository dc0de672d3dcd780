"""Names of earlier versions: translated where a file of an earlier version is read, and told to people who use them."""

import shutil
from pathlib import Path

import pytest
import yaml

from pixpnet.cli import main
from pixpnet.config import RunConfig, config_from_plain, plain_config, read_config
from pixpnet.earlier_names import KEYS, VALUES, in_earlier_names, translate
from pixpnet.family import MEMBERS, member_named
from pixpnet.model import PixPNet
from pixpnet.records import BadRecord, plain_fields

EARLIER = Path(__file__).parent / "fixtures" / "earlier-run"
CHANGELOG = (Path(__file__).parents[1] / "CHANGELOG.md").read_text()


def test_every_new_name_is_a_field_and_no_old_one_is() -> None:
    for group, names in KEYS.items():
        kinds = [RunConfig, *(member_named(name).config for name in MEMBERS)]
        if group:
            kinds = [
                type(getattr(kind(), group)) for kind in kinds if group in {field.name for field in plain_fields(kind)}
            ]
        fields = {field.name for kind in kinds for field in plain_fields(kind)} | {"trust_code"}
        assert set(names.values()) <= fields, group
        assert not set(names) & fields, group


@pytest.mark.parametrize("member", MEMBERS)
def test_a_configuration_in_earlier_names_is_read_as_the_same(member: str) -> None:
    for preset in member_named(member).presets:
        config = RunConfig.of(member, preset)
        earlier = in_earlier_names(plain_config(config))
        assert "optimisation" in earlier and "lr_backbone" not in str(earlier)
        assert config_from_plain(earlier) == config
        assert translate(plain_config(config)).renamed == {}


def test_a_run_and_a_model_with_normalized_cells_open_with_normalized_ones(tmp_path: Path) -> None:
    run = Path(shutil.copytree(EARLIER / "windows", tmp_path / "run"))
    assert "cells: normalised" in (run / "config.yaml").read_text()
    assert read_config(run / "config.yaml").settings.architecture.cells == "normalized"
    assert PixPNet.load(run).architecture.cells == "normalized"


def test_a_key_under_both_names_is_refused() -> None:
    with pytest.raises(BadRecord, match=r"optimization\.rise and optimization\.lr_rise are the same"):
        config_from_plain({"optimization": {"rise": 1.0, "lr_rise": 2.0}})


def test_a_configuration_file_with_old_keys_is_answered_in_one_line_and_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("workers: 2\noptimisation:\n  backbone_rate: 1e-5\narchitecture:\n  cells: normalised\n")
    with pytest.raises(SystemExit) as end:
        main(["train", "--config", str(file), "--print-config"])
    assert end.value.code in (None, 0)
    output = capsys.readouterr()
    assert output.err == (
        f"{file} has names of an earlier version: workers is now num_workers, optimisation is now optimization, "
        "optimization.backbone_rate is now optimization.lr_backbone, "
        "architecture.cells: normalised is now architecture.cells: normalized\n"
    )
    values = yaml.safe_load(output.out)
    assert (values["num_workers"], values["optimization"]["lr_backbone"]) == (2, 1e-5)
    assert values["architecture"]["cells"] == "normalized"


def test_a_value_of_an_earlier_version_on_the_command_line_is_answered_with_todays(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["train", "--architecture.cells", "normalised", "--print-config"])
    assert end.value.code == 2
    assert "normalized" in capsys.readouterr().err


def test_every_key_and_value_that_was_renamed_is_in_the_changelog() -> None:
    groups = {today: old for old, today in KEYS[""].items()}
    for group, names in KEYS.items():
        for old, new in names.items():
            before, now = (f"{groups.get(group, group)}.{old}", f"{group}.{new}") if group else (old, new)
            assert f"| `{before}` | `{now}` |" in CHANGELOG
    for key, values in VALUES.items():
        for old, new in values.items():
            assert f"| `{key}: {old}` | `{key}: {new}` |" in CHANGELOG
