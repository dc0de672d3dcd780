"""`pixpnet train`, `evaluate` and `predict` on a finished run."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from pixpnet.cli import main
from pixpnet.commands.train_options import prepare
from pixpnet.config import RunConfig, config_from_plain, plain_config
from pixpnet.family import MEMBERS, member_named
from tests.training.conftest import Trained


def test_train_end_to_end_with_the_configuration_of_another_run(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "again"
    assert main(["train", "--config", str(trained.path / "config.yaml"), "--out", str(out)]) == 0
    output = capsys.readouterr()
    assert (
        f"kept: epoch {trained.metrics.chosen_epoch} of 3, the last epoch whose validation accuracy after replacement "
        "is within one standard error of the best so far\n"
    ) in output.out
    assert str(out) in output.out
    assert output.err.count("validation") >= 3
    for name in ("config.yaml", "model.safetensors", "metrics.json"):
        assert (out / name).read_bytes() == (trained.path / name).read_bytes()
    assert main(["train", "--config", str(trained.path / "config.yaml"), "--out", str(out)]) == 1
    assert "--resume" in capsys.readouterr().err


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """What `--print-config` prints."""
    with pytest.raises(SystemExit) as end:
        main(["train", *words, "--print-config"])
    assert end.value.code in (None, 0)
    values: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
    return values


def configured(capsys: pytest.CaptureFixture[str], *words: str) -> RunConfig:
    """The configuration that `--print-config` prints."""
    values = printed(capsys, *words)
    return config_from_plain(
        {name: value for name, value in values.items() if name not in ("out", "resume", "seeds", "trust_code")}
    )


PRESETS = [(name, preset) for name in MEMBERS for preset in member_named(name).presets]


@pytest.mark.parametrize(("member", "preset"), PRESETS)
def test_a_printed_configuration_is_the_preset_and_reads_back(
    member: str, preset: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configured(capsys, "--member", member, "--preset", preset, "--seed", "5")
    assert config.settings == member_named(member).presets[preset]
    assert (config.member, config.seed) == (member, 5)
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(plain_config(config)))
    assert configured(capsys, "--config", str(file)) == config
    changed = configured(capsys, "--config", str(file), "--lr-add-on", "0.25")
    assert changed == config.with_settings(optimization=replace(config.optimization, lr_add_on=0.25))
    # What comes before the file on the command line changes it as well.
    assert configured(capsys, "--lr-add-on", "0.25", "--config", str(file)) == changed
    # And so does what was printed, as it was printed.
    file.write_text(yaml.safe_dump(printed(capsys, "--member", member, "--preset", preset, "--seed", "5")))
    assert configured(capsys, "--config", str(file)) == config


def test_edits_pass_through_the_command_line_and_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edits = ("unstride:layer3.0", "pointwise:layer3.1.conv2")

    def passed(*words: str) -> list[str]:
        values = printed(capsys, *words)
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(values))
        result: list[str] = values["edits"]
        return result

    assert passed() == []
    assert passed("--edits", f"[{', '.join(edits)}]") == list(edits)
    assert passed("--config", str(tmp_path / "mine.yaml")) == list(edits)
    assert passed("--config", str(tmp_path / "mine.yaml"), "--edits", "[]") == []


@pytest.mark.parametrize(
    "words",
    [
        ["--recipe", "protopnetz", "--out", "run"],
        ["--config", "no-such-file.yaml", "--out", "run"],
        ["--epochs", "many", "--out", "run"],
        ["--architecture.head", "sum", "--out", "run"],
    ],
)
def test_wrong_usage_of_train_exits_with_2(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["train", *words])
    assert end.value.code == 2
    assert not (tmp_path / "run").exists()


def test_train_wants_to_know_where(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train"]) == 2
    assert "--out RUN" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        main(["train", "--out", "a", "--resume", "b"])
    assert end.value.code == 2
    assert "--resume takes no other options, and --out came" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "member", "preset"),
    [
        # Where nothing is named, data, backbone and weights decide, wherever they stand.
        ([], "pixpnet", "birds"),
        (["--weights", "none", "--seed", "1"], "pixpnet", "birds"),
        (["--weights=none"], "pixpnet", "birds"),
        (["--backbone", "small-61"], "pixpnet", "scratch"),
        (["--seed", "1", "--weights=imagenet"], "pixpnet", "photos"),
        (["--weights", "a.pth", "--seed", "1"], "pixpnet", "photos"),
        (["--data", "folder:photos"], "pixpnet", "photos"),
        (["--weights", "a.pth", "--data=cub:birds"], "pixpnet", "photos"),
        (["--weights", "a.pth", "--backbone=vgg16", "--at", "maxpool4"], "pixpnet", "laptop"),
        (["--weights", "a.pth", "--at=layer3"], "pixpnet", "laptop"),
        (["--data", "folder:photos", "--backbone", "small-45"], "pixpnet", "scratch"),
        (["--member=protopnet", "--data", "folder:photos"], "protopnet", "scratch"),
        (["--member=protopnet", "--weights", "imagenet"], "protopnet", "laptop"),
        (["--seed=7", "--member", "protopnet"], "protopnet", "scratch"),
        # What is named counts, in either spelling and anywhere.
        (["--weights=imagenet", "--preset=paper"], "pixpnet", "paper"),
        (["--preset", "frozen", "--seed=7", "--member", "protopnet"], "protopnet", "frozen"),
    ],
)
def test_member_and_preset_decide_what_an_option_is(
    words: list[str], member: str, preset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configured(capsys, *words)
    assert (config.member, config.settings) == (member, member_named(member).presets[preset])


def test_photographs_get_windows_of_less_than_a_tenth_of_the_image_and_any_part_of_that_can_be_changed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--data", "folder:photos", "--weights", "imagenet"]
    config = configured(capsys, *words)
    assert config == RunConfig.of("pixpnet", "photos", data="folder:photos", weights="imagenet")
    assert (config.backbone, config.at, config.size) == ("resnet18", "layer4", 384)
    # 72 pixels are 18 cells of layer1, 4 pixels apart, which see 43 pixels each: 43 + 17 * 4 = 111 = 72 + 39.
    windows = config.windows(384)
    assert windows is not None
    assert ((windows.size + 39) / 384) ** 2 < 0.09
    assert config.settings.architecture.pooling == "distinct"
    assert config.optimization.frozen == "all"
    assert configured(capsys, *words, "--window-stride", "56", "--size", "512") == replace(
        config, window_stride=56.0, size=512
    )
    shown = helped(capsys, *words)
    assert "its cells see N x N pixels (default: resnet18)" in shown
    assert "prototypes are shared out among them (default: 72.0)" in shown
    assert "(used here: photos)" in shown


@pytest.mark.parametrize("member", MEMBERS)
def test_what_a_preset_chooses_beside_its_members_settings_are_fields_of_a_run(member: str) -> None:
    for preset, chosen in member_named(member).backbones.items():
        config = RunConfig.of(member, preset)
        assert {name: getattr(config, name) for name in chosen} == chosen
        assert config.settings == member_named(member).presets[preset]
        assert RunConfig.of(member, preset, backbone="vgg16").backbone == "vgg16"


@pytest.mark.parametrize(
    ("recipe", "today"),
    [
        ("laptop", "--preset laptop"),
        ("scratch", "--preset scratch"),
        ("frozen", "--preset frozen"),
        ("tail", "--preset tail"),
        ("pixpnet", "--preset paper"),
        ("protopnet", "--member protopnet --preset paper"),
    ],
)
def test_recipes_of_earlier_versions_work_with_a_hint(
    recipe: str, today: str, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = configured(capsys, *today.split())
    for words in (["--recipe", recipe], [f"--recipe={recipe}"], ["--config", recipe]):
        with pytest.raises(SystemExit):
            main(["train", *words, "--print-config"])
        output = capsys.readouterr()
        assert output.err == f"{words[0].partition('=')[0]} {recipe} is now {today}\n"
        values = {name: value for name, value in yaml.safe_load(output.out).items() if name in plain_config(expected)}
        assert config_from_plain(values) == expected


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--member", "protopnetz"], "the family has no member 'protopnetz': did you mean protopnet?"),
        (["--member=unheard-of"], "there are pixpnet, protopnet"),
        (["--preset", "labtop"], "pixpnet has no preset 'labtop': did you mean laptop? There are paper, laptop"),
        (["--member", "protopnet", "--preset", "nonesuch"], "protopnet has no preset 'nonesuch'"),
        (["--member", "protopnet", "--member", "pixpnet"], "trains one member"),
        (["--member", "pixpnet", "--recipe", "protopnet"], "trains one member"),
    ],
)
def test_a_member_or_preset_that_does_not_exist_is_one_line_that_lists_them(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["train", *words, "--out", "run"])
    assert end.value.code == 2
    *hints, error = capsys.readouterr().err.splitlines()
    assert len(hints) == ("--recipe" in words)
    assert error.startswith("error: ")
    assert says in error


def test_options_are_those_of_the_member(capsys: pytest.CaptureFixture[str]) -> None:
    assert configured(capsys, "--architecture.head", "frozen").settings.architecture.head == "frozen"
    with pytest.raises(SystemExit) as end:
        main(["train", "--member", "protopnet", "--architecture.head", "frozen", "--out", "run"])
    assert end.value.code == 2
    assert "--architecture.head" in capsys.readouterr().err


def helped(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(["train", *words, "--help"])
    assert end.value.code in (None, 0)
    return " ".join(capsys.readouterr().out.split())


def test_help_shows_the_values_that_will_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    epochs = "stages of the head alone come on top (default: {})"
    assert epochs.format(8) in helped(capsys)
    assert epochs.format(11) in helped(capsys, "--backbone", "small-61")
    assert epochs.format(12) in helped(capsys, "--weights", "imagenet", "--backbone", "resnet18")
    assert epochs.format(16) in helped(capsys, "--weights", "imagenet")
    assert epochs.format(16) in helped(capsys, "--preset=frozen")
    published = helped(capsys, "--member", "protopnet", "--preset", "paper")
    assert epochs.format(50) in published
    assert "--architecture.head" not in published
    assert "(used here: paper)" in published
    file = tmp_path / "mine.yaml"
    file.write_text("seed: 5\noptimisation:\n  epochs: 7\n  lr_backbone: 1e-5\n")
    shown = helped(capsys, "--config", str(file))
    assert epochs.format(7) in shown
    assert "the validation split (default: 5)" in shown
    assert "learning rate of the backbone (default: 1e-05)" in shown
    assert epochs.format(7) in helped(capsys, "--member", "protopnet", "--preset", "laptop", "--config", str(file))


def test_the_later_of_a_file_and_a_preset_changes_the_earlier_and_options_change_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("seed: 5\noptimisation:\n  epochs: 7\n")
    for words in (
        ["--recipe=protopnet", "--config", str(file)],
        ["--member", "protopnet", "--preset", "paper", f"--config={file}"],
    ):
        values = printed(capsys, *words)
        assert (values["seed"], values["member"], values["replacement"]["head_epochs"]) == (5, "protopnet", 20)
        assert values["optimization"]["epochs"] == 7
    behind = [f"--config={file}", "--member=protopnet", "--preset=paper"]
    values = printed(capsys, "--epochs=9", *behind)
    assert (values["seed"], values["optimization"]["epochs"]) == (5, 9)
    assert printed(capsys, *behind)["optimization"]["epochs"] == 50
    # What a file does not say is the paper's.
    assert printed(capsys, f"--config={file}")["optimization"]["batch_size"] == 64


def test_a_file_of_another_member_gives_data_and_backbone_to_a_preset_behind_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    config = RunConfig.of("pixpnet", "laptop", data="folder:photos", backbone="resnet18", at="layer3", seed=3)
    file.write_text(yaml.safe_dump(plain_config(config)))
    with pytest.raises(SystemExit) as end:
        main(["train", "--config", str(file), "--member", "protopnet", "--out", "run"])
    assert end.value.code == 2
    output = capsys.readouterr().err
    assert output.count("\n") == 1
    assert f"{file} configures pixpnet, and the run is to train protopnet: name a preset behind the file" in output
    result = configured(capsys, "--config", str(file), "--member", "protopnet", "--preset", "laptop")
    assert result == replace(config, member="protopnet", settings=member_named("protopnet").presets["laptop"])
    # The member of a file is that of the run.
    file.write_text("member: protopnet\nseed: 4\n")
    assert configured(capsys, "--config", str(file)) == RunConfig(member="protopnet", seed=4)
    file.write_text("member: nobody\n")
    with pytest.raises(SystemExit) as end:
        main(["train", "--config", str(file), "--out", "run"])
    assert end.value.code == 1
    assert f"{file}: the family has no member 'nobody'" in capsys.readouterr().err


def test_code_named_here_is_allowed() -> None:
    assert prepare(["--trust-code", "--resume", "r"]).words == ("--resume", "r", "--trust-code")
    assert prepare(["--resume=r"]).words == ("--resume", "r")
    for words in (["--backbone", "mine:build"], ["--backbone=mine:build"]):
        assert prepare(words).words[-1] == "--trust-code"
    assert "--trust-code" not in prepare(["--backbone", "timm:resnet18"]).words


def test_the_family_is_listed_for_people_and_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["members"]) == 0
    table = capsys.readouterr().out
    assert main(["members", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [member["name"] for member in record["members"]] == list(MEMBERS)
    assert record["default"] == "pixpnet"
    assert "needs --start RUN, of protopnet" in table
    assert {member["name"]: member["taught_by"] for member in record["members"]}["proto2proto"]
    for member in record["members"]:
        assert member["title"] in table
        assert member["summary"].split()[-1] in table
        assert ", ".join(member["presets"]) in table


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--resume", "RUN", "--seed", "1"], "--seed"),
        (["--seed=1", "--resume=RUN"], "--seed=1"),
        (["--resume=RUN", "--config", "a.yaml"], "--config"),
        (["--recipe=pixpnet", "--resume", "RUN"], "--recipe=pixpnet"),
        (["--resume", "RUN", "--trust-code", "--weights=none"], "--weights=none"),
        (["--out=x", "--resume", "RUN"], "--out=x"),
    ],
)
def test_a_run_goes_on_as_it_began(
    trained: Trained, words: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(trained.path.rglob("*"))
    with pytest.raises(SystemExit) as end:
        main(["train", *(word.replace("RUN", str(trained.path)) for word in words)])
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert f"--resume takes no other options, and {named} came" in error
    assert sorted(trained.path.rglob("*")) == before
