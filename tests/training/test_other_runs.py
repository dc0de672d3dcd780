"""Runs that build on others: found from anywhere, checked before training, and what was not meant is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pixpnet.cli import main
from pixpnet.config import RunConfig, read_config
from pixpnet.model import PixPNet
from pixpnet.training import Run, train
from tests.members.tiny import run_config, tiny_config
from tests.training.material import draw_pictures


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw_pictures(tmp_path_factory.mktemp("others") / "squares")


@pytest.fixture(scope="module")
def sharing(squares: Path, tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    return run_config("protopshare", "laptop", squares, tmp_path_factory.mktemp("share"))


def refused(config: RunConfig, out: Path, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        train(config, out)
    assert not out.exists() or not list(out.iterdir())


def test_a_member_that_needs_another_run_says_so(sharing: RunConfig, squares: Path, tmp_path: Path) -> None:
    refused(replace(sharing, start=""), tmp_path / "run", "starts from a trained protopnet: name its run, --start RUN")
    student = tiny_config("proto2proto", "laptop", squares)
    refused(student, tmp_path / "run", "learns from a trained protopnet or proto2proto: name its run, --teacher RUN")


def test_a_member_that_needs_none_refuses_it(sharing: RunConfig, squares: Path, tmp_path: Path) -> None:
    config = tiny_config("tesnet", "laptop", squares)
    refused(replace(config, start=sharing.start), tmp_path / "run", "TesNet takes no other run as its start")
    refused(replace(config, teacher=sharing.start), tmp_path / "run", "TesNet takes no other run as its teacher")


def test_a_run_of_another_member_is_refused(sharing: RunConfig, squares: Path, tmp_path: Path) -> None:
    other = tmp_path / "np"
    assert train(tiny_config("npprotopnet", "laptop", squares), other) is not None
    refused(
        replace(sharing, start=str(other)),
        tmp_path / "run",
        "takes a run of protopnet as its start, and .* is one of np",
    )
    student = tiny_config("proto2proto", "laptop", squares, teacher=str(other))
    refused(student, tmp_path / "run", "as its teacher, and .* is one of npprotopnet")


def test_a_run_with_other_classes_is_refused(sharing: RunConfig, squares: Path, tmp_path: Path) -> None:
    renamed = draw_pictures(tmp_path / "renamed")
    for folder in list(renamed.glob("*/red")):
        folder.rename(folder.with_name("violet"))
    refused(replace(sharing, data=f"folder:{renamed}"), tmp_path / "run", "it has red; the data have violet")
    student = tiny_config("proto2proto", "laptop", renamed, teacher=sharing.start)
    refused(student, tmp_path / "run", "the teacher .* has other classes")


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"backbone": "small-9"}, "goes on with the backbone that it starts from, small-21"),
        ({"at": "stage2"}, "goes on with the backbone"),
        ({"size": 48}, "choose --size 32"),
        ({"start": "nowhere"}, "there is no run nowhere to be the start"),
        ({"start_model": "0" * 32}, "is not the model that the configuration names as its start"),
    ],
)
def test_what_does_not_fit_is_refused_before_training(
    sharing: RunConfig, changes: dict[str, Any], match: str, tmp_path: Path
) -> None:
    refused(replace(sharing, **changes), tmp_path / "run", match)


def test_another_make_is_refused_with_the_options_that_would_fit(
    sharing: RunConfig, squares: Path, tmp_path: Path
) -> None:
    settings: Any = sharing.settings
    longer = replace(settings, architecture=replace(settings.architecture, dim=6, prototypes_per_class=3))
    match = r"choose --architecture.dim 8 --architecture.prototypes-per-class 4"
    refused(replace(sharing, settings=longer), tmp_path / "run", match)
    student = tiny_config("proto2proto", "laptop", squares, teacher=sharing.start)
    taught: Any = student.settings
    wider = replace(taught, architecture=replace(taught.architecture, dim=5))
    refused(
        replace(student, settings=wider), tmp_path / "run", "the teacher is of another make .* --architecture.dim 8"
    )


def test_a_run_that_has_no_model_yet_is_refused(sharing: RunConfig, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()
    (begun / "config.yaml").write_text((Path(sharing.start) / "config.yaml").read_text())
    refused(replace(sharing, start=str(begun)), tmp_path / "run", "has no model yet")


def test_the_command_takes_over_data_and_backbone_from_anywhere(
    sharing: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["train", "--member", "protopshare", "--start", sharing.start, "--preset", "laptop", "--out", "run"]
    words += ["--architecture.dim", "8", "--architecture.prototypes-per-class", "4", "--epochs", "1", "--views", "1"]
    words += ["--replacement.head-epochs", "1", "--evaluate-on-test", "false"]
    assert main(words) == 0
    config = read_config(tmp_path / "run" / "config.yaml")
    assert (config.backbone, config.size, config.data) == (sharing.backbone, sharing.size, sharing.data)
    assert config.start_model
    # And its own configuration finds the copy where the other run is gone.
    again = replace(config, start="gone", read_from=str(tmp_path / "run" / "config.yaml"))
    assert train(again, tmp_path / "again") is not None
    assert Run(tmp_path / "again").fingerprint() == Run(tmp_path / "run").fingerprint()


def test_a_pixpnet_may_go_on_from_another_one(squares: Path, tmp_path: Path) -> None:
    frozen = tiny_config("pixpnet", "frozen", squares)
    assert train(frozen, tmp_path / "frozen") is not None
    tail: Any = tiny_config("pixpnet", "tail", squares, start=str(tmp_path / "frozen"))
    rates = {"lr_backbone": 0.0, "lr_add_on": 0.0, "lr_prototypes": 0.0, "epochs": 1, "warm_up_epochs": 0}
    still = replace(tail, settings=replace(tail.settings, optimization=replace(tail.settings.optimization, **rates)))
    assert train(still, tmp_path / "still") is not None
    before, after = (PixPNet.load(tmp_path / name).state_dict() for name in ("frozen", "still"))
    # Nothing moves at rates of 0, so this is what it began with; patches stay the nearest ones.
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, msg=lambda text, name=name: f"{name}: {text}")
    assert train(tail, tmp_path / "tail") is not None
    learnt = PixPNet.load(tmp_path / "tail").state_dict()
    changed = {name for name in before if not torch.equal(learnt[name], before[name])}
    assert any(name.startswith("backbone.network.stage3") for name in changed)
    assert not any(name.startswith("backbone.network.stage1") for name in changed)


def test_a_pixpnet_of_another_make_is_no_start(squares: Path, tmp_path: Path) -> None:
    start = tmp_path / "frozen"
    assert train(tiny_config("pixpnet", "frozen", squares), start) is not None
    tail: Any = tiny_config("pixpnet", "tail", squares, start=str(start))
    nearest = replace(tail.settings, architecture=replace(tail.settings.architecture, pooling="max"))
    refused(replace(tail, settings=nearest), tmp_path / "run", "choose --architecture.pooling distinct, as it has")


def test_a_start_that_is_no_run_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--member", "protopshare", "--start", str(tmp_path), "--out", str(tmp_path / "run")])
    assert "is it a run folder" in capsys.readouterr().err
