"""The configuration of a run as YAML: it comes back as it was, and what is wrong with a file is said."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pixpnet.config import RunConfig, TrainerOptions, config_text, read_config
from pixpnet.family import MEMBERS, member_named
from pixpnet.members.pixpnet import Architecture


def read_back(config: RunConfig, folder: Path) -> RunConfig:
    (folder / "config.yaml").write_text(config_text(config), encoding="utf-8")
    return read_config(folder / "config.yaml")


PRESETS = [(name, preset) for name in MEMBERS for preset in member_named(name).presets]


@pytest.mark.parametrize(("member", "preset"), PRESETS)
def test_every_preset_of_every_member_comes_back_from_its_file(member: str, preset: str, tmp_path: Path) -> None:
    run = {"data": "cub:/data/CUB", "backbone": "resnet50", "at": "layer3", "weights": "w.pth", "size": 224}
    config = RunConfig.of(member, preset, **run)
    assert read_back(config, tmp_path) == config
    assert read_back(config, tmp_path).settings == member_named(member).presets[preset]


# Words that YAML would take for something else, were they not quoted.
tricky = st.sampled_from(
    ["null", "~", "yes", "no", "1", "1e-6", "0x1f", "2020-01-01", "", " a", "a: b", "#", "[", "!x"]
)
# No lone surrogates: no file can hold them.
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | tricky


@given(
    data=names,
    at=names,
    edits=st.lists(names, max_size=3).map(tuple),
    weights=st.none() | names,
    size=st.none() | st.integers(1, 4096),
    seed=st.integers(0, 2**64 - 1),
    fraction=st.floats(0, 1, exclude_min=True, exclude_max=True),
    num_devices=names,
    epsilon=st.floats(1e-30, 1),
)
def test_every_configuration_comes_back_from_its_file(
    tmp_path_factory: pytest.TempPathFactory,
    data: str,
    at: str,
    edits: tuple[str, ...],
    weights: str | None,
    size: int | None,
    seed: int,
    fraction: float,
    num_devices: str,
    epsilon: float,
) -> None:
    config = RunConfig(
        data=data,
        at=at,
        edits=edits,
        weights=weights,
        size=size,
        seed=seed,
        validation_fraction=fraction,
        trainer=TrainerOptions(num_devices=num_devices),
    ).with_settings(architecture=Architecture(epsilon=epsilon))
    assert read_back(config, tmp_path_factory.mktemp("run")) == config


def test_the_file_is_complete_and_readable() -> None:
    text = config_text(RunConfig(data="folder:Grünfinken"))
    assert "data: folder:Grünfinken\n" in text
    values = yaml.safe_load(text)
    assert values["architecture"]["epsilon"] == 1e-6
    assert values["optimization"]["epochs"] == 20
    assert list(values) == [
        *("member", "data", "backbone", "at", "edits", "window", "window_stride", "window_from", "weights", "size"),
        *(
            "seed",
            "num_workers",
            "birds",
            "confounder",
            "validation_fraction",
            "split_rule",
            "on_bad",
            "crop_to_box",
            "evaluate_on_test",
            "calibrate_by_folds",
        ),
        *("start", "start_model", "teacher", "teacher_model"),
        *("feedback", "feedback_hash", "forget_weight", "remember_weight"),
        *("trainer", "architecture", "losses", "optimization", "replacement", "frame"),
    ]


def test_other_settings_change_nothing_else() -> None:
    config = RunConfig(data="cars:/cars", seed=7, trainer=TrainerOptions(precision="bf16-mixed"))
    other = config.with_settings(architecture=Architecture(dim=7))
    assert other.settings.architecture.dim == 7
    assert replace(other, settings=config.settings) == config


def test_a_file_without_a_member_is_of_an_earlier_version_and_a_pixpnet(tmp_path: Path) -> None:
    values = yaml.safe_load(config_text(RunConfig.of("pixpnet", "frozen")))
    for name in ("member", "frame"):
        del values[name]
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values))
    assert read_config(tmp_path / "config.yaml") == RunConfig.of("pixpnet", "frozen").with_settings(frame=None)


def test_settings_of_another_member_are_refused() -> None:
    with pytest.raises(ValueError, match=r"settings of protopnet are a ProtoPNetConfig, got PixPNetConfig"):
        RunConfig(member="protopnet", settings=RunConfig().settings)
    with pytest.raises(LookupError, match="did you mean protopnet"):
        RunConfig(member="protopnetz")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": "0"}, r"configuration\.seed: expected a value of type int, got '0'"),
        ({"edits": "drop:layer3.1"}, r"configuration\.edits: expected a list, got 'drop:layer3\.1'"),
        ({"edits": ["drop:layer3.1", 1]}, r"configuration\.edits\[1\]: expected a value of type str, got 1"),
        ({"size": 1.5}, r"configuration\.size: expected a value of type int, got 1\.5"),
        ({"size": 0}, r"configuration: size is a number of pixels above 0, got 0"),
        ({"seed": -1}, r"configuration: seed is not negative, got -1"),
        (
            {"num_workers": -2},
            r"configuration: num_workers is at most 512, at least 0, or auto; got -2: choose another --num-workers",
        ),
        ({"validation_fraction": 0}, r"configuration: validation_fraction is between 0 and 1, got 0\.0"),
        ({"validation_fraction": 1}, r"configuration: validation_fraction is between 0 and 1, got 1\.0"),
        ({"on_bad": "weep"}, r"configuration\.on_bad: expected one of 'stop', 'skip', got 'weep'"),
        ({"evaluate_on_test": "yes"}, r"configuration\.evaluate_on_test: expected a value of type bool, got 'yes'"),
        ({"architecture": None}, r"configuration\.architecture: expected the fields dim, .*got None"),
        ({"surprise": 1}, r"configuration: expected the fields .*'surprise'"),
        ({"member": "nobody"}, r"configuration: the family has no member 'nobody': there are pixpnet, protopnet"),
        ({"member": "protopnet"}, r"configuration\.architecture: expected the fields dim, "),
        ({"trainer": {"num_devices": 2}}, r"configuration\.trainer: expected the fields device, "),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_its_file_and_field(
    change: dict[str, object], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(config_text(RunConfig())) | change))
    with pytest.raises(ValueError, match=message) as caught:
        read_config(path)
    assert str(caught.value).startswith(f"{path} is damaged: ")


@pytest.mark.parametrize("name", ["seed", "trainer", "architecture"])
def test_a_missing_field_is_refused(name: str, tmp_path: Path) -> None:
    values = yaml.safe_load(config_text(RunConfig()))
    del values[name]
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(ValueError, match=r"expected the fields (member, data|architecture, losses)"):
        read_config(tmp_path / "config.yaml")


def test_the_file_of_a_version_without_edits_has_none(tmp_path: Path) -> None:
    values = yaml.safe_load(config_text(RunConfig(edits=("drop:layer3.1",))))
    del values["edits"]
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values))
    assert read_config(tmp_path / "config.yaml") == RunConfig()


def test_a_new_run_splits_by_pixels_and_the_file_of_a_version_without_rules_means_quota(tmp_path: Path) -> None:
    values = yaml.safe_load(config_text(RunConfig()))
    assert values.pop("split_rule") == "pixels"
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values))
    assert read_config(tmp_path / "config.yaml") == RunConfig(split_rule="quota")


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"- a\n- b", b"seed: [", b"\x80\xff", b"a: b: c", b"!!python/object/apply:os.getcwd []", b"\x00"),
        b"seed: 2020-13-45",  # no such date, which YAML finds out itself
        b"seed: " + b"9" * 5000,  # longer than int() takes
        b"[" * 10**4,
    ],
)
def test_a_damaged_file_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is damaged: ") as caught:
        read_config(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no .*config\.yaml: is it a run folder"):
        read_config(tmp_path / "config.yaml")
