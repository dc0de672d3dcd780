"""Other runs that a run builds on: the one that it starts from (`--start`), and the one that teaches it (`--teacher`).

Everything is checked before training begins. The model that was found is copied into the new run's folder and its hash
is written into `config.yaml`: the run can be resumed bit for bit when the other one has moved, changed or gone, and a
new run from that `config.yaml` is refused another model in place of the one that it names.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pixpnet.config import RunConfig
from pixpnet.data import Preprocessing
from pixpnet.family import member_named
from pixpnet.manifest import digest_of
from pixpnet.model import PixPNet
from pixpnet.model.file import MODEL_FILE, backbone_in
from pixpnet.option_names import option_of
from pixpnet.training.run import Run, RunError
from pixpnet.whole_file import written_whole

Role = Literal["start", "teacher"]
ROLES: tuple[Role, ...] = ("start", "teacher")


@dataclass(frozen=True)
class OtherModels:
    """Trained models that a run builds on, in eval mode.

    Attributes:
        start: whose weights it starts from.
        teacher: that it learns from.
    """

    start: PixPNet | None = None
    teacher: PixPNet | None = None


def copy_of(run: Run, role: Role) -> Path:
    """Where a run keeps the model of another run; may not be there."""
    return run.path / "checkpoints" / f"{role}.safetensors"


def with_hashes(config: RunConfig, run: Run) -> RunConfig:
    """The configuration with the hash of each model that the run builds on, as its `config.yaml` says it.

    Raises:
        RunError: if there is none, or not the one that the configuration names.
    """
    hashes: dict[str, Any] = {
        f"{role}_model": digest_of(_model_file(config, role, run)) for role in ROLES if getattr(config, role)
    }
    return replace(config, **hashes) if hashes else config


def keep_copies(config: RunConfig, run: Run) -> None:
    """Copies the models that a new run builds on into its folder."""
    for role in ROLES:
        if getattr(config, role):
            with written_whole(copy_of(run, role)) as temporary:
                shutil.copyfile(_model_file(config, role, run), temporary)


def open_others(config: RunConfig, run: Run, class_names: tuple[str, ...], preprocessing: Preprocessing) -> OtherModels:
    """The models that a run builds on.

    Args:
        config: of the run.
        run: whose own copies come first, where it has any.
        class_names: of the run's data.
        preprocessing: of the run.

    Raises:
        RunError: if the member needs another run and none is named, or is named one that it cannot use; with what to
            do.
    """
    member = member_named(config.member)
    models: dict[Role, PixPNet] = {}
    needed: dict[Role, tuple[str, ...]] = {"start": member.starts_from, "teacher": member.taught_by}
    optional: dict[Role, tuple[str, ...]] = {"start": member.may_start_from, "teacher": ()}
    for role in ROLES:
        kind, named = (*needed[role], *optional[role]), getattr(config, role)
        if named and not kind:
            raise RunError(_unwanted(member.title, role))
        if not named and needed[role]:
            raise RunError(_missing(member.title, role, kind))
        if not named:
            continue
        file = _model_file(config, role, run)
        # Code was allowed for the name in the configuration, and for no other.
        model = PixPNet.load(file, trust_code=backbone_in(file) == config.backbone)
        if model.member not in kind:
            raise RunError(
                f"{member.title} takes a run of {' or '.join(kind)} as its {role}, and {named} is one of {model.member}"
            )
        if model.class_names != class_names:
            raise RunError(f"the {role} {named} has other classes than the data: {_difference(model, class_names)}")
        if model.preprocessing.size != preprocessing.size:
            raise RunError(
                f"the {role} {named} sees images of {model.preprocessing.size} pixels a side, and this run of "
                f"{preprocessing.size}: choose --size {model.preprocessing.size}"
            )
        models[role] = model
    others = OtherModels(**models)
    if others.start is not None:
        _refuse_other_backbone(config, others.start, preprocessing.size)
    return others


def refuse_other_architecture(role: Role, theirs: Any, ours: Any, names: tuple[str, ...]) -> None:
    """Refuses another model whose architecture differs in any of these fields; for `Member.begin`.

    Raises:
        RunError: with the options that would make them agree.
    """
    differing = [name for name in names if getattr(theirs, name) != getattr(ours, name)]
    if differing:
        options = " ".join(f"{option_of(f'architecture.{name}')} {getattr(theirs, name)}" for name in differing)
        raise RunError(f"the {role} is of another make than this network: choose {options}, as it has")


def _model_file(config: RunConfig, role: Role, run: Run) -> Path:
    """The file of a model that a run builds on: its own copy, where it is named, or the copy of a run it is read from.

    Raises:
        RunError: if there is none, or none with the hash that the configuration says.
    """
    wanted: str = getattr(config, f"{role}_model")
    others: list[Path] = []
    for file in _places(config, role, run):
        if not file.is_file():
            continue
        if not wanted or digest_of(file) == wanted:
            return file
        others.append(file)
    named = getattr(config, role)
    if others:
        raise RunError(
            f"{others[0]} is not the model that the configuration names as its {role}, whose hash is {wanted}: put it "
            f"back, or leave {option_of(f'{role}_model')} empty to take this one"
        )
    folder = Path(named).expanduser()
    if (folder / "config.yaml").exists():
        raise RunError(f"{named} has no model yet, so it cannot be the {role}: pixpnet train --resume {named}")
    raise RunError(f"there is no run {named} to be the {role}: name its folder, --{role} RUN")


def _places(config: RunConfig, role: Role, run: Run) -> Iterator[Path]:
    yield copy_of(run, role)
    named = Path(getattr(config, role)).expanduser()
    yield named / MODEL_FILE if named.is_dir() else named
    if config.read_from is not None:
        yield copy_of(Run(Path(config.read_from).parent), role)


def _missing(title: str, role: Role, kinds: tuple[str, ...]) -> str:
    if role == "start":
        return f"{title} starts from a trained {' or '.join(kinds)}: name its run, --start RUN"
    return f"{title} learns from a trained {' or '.join(kinds)}: name its run, --teacher RUN"


def _unwanted(title: str, role: Role) -> str:
    return f"{title} takes no other run as its {role}: leave out --{role} (`pixpnet members` says which do)"


def _difference(model: PixPNet, class_names: tuple[str, ...]) -> str:
    theirs, ours = set(model.class_names), set(class_names)
    parts = [
        f"{words} {', '.join(sorted(names)[:3])}{' ...' if len(names) > 3 else ''}"
        for words, names in (("it has", theirs - ours), ("the data have", ours - theirs))
        if names
    ]
    return "; ".join(parts) or "they are in another order"


def _refuse_other_backbone(config: RunConfig, start: PixPNet, size: int) -> None:
    theirs = (start.backbone_name, start.backbone.at, start.backbone.edits, start.backbone.windows)
    if theirs != (config.backbone, config.at, config.edits, config.windows(size)):
        cut = f" --at {start.backbone.at}" if start.backbone.at else ""
        raise RunError(
            f"a run goes on with the backbone that it starts from, {start.backbone_name}{cut}, with its edits and "
            f"windows: leave these options out of the command (--start takes them over), or choose --backbone "
            f"{start.backbone_name}{cut}"
        )
