"""Everything that decides a training run, as one record that reads and writes `config.yaml`."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

import yaml

from pixpnet.earlier_names import translate
from pixpnet.family import DEFAULT, UnknownMember, member_named
from pixpnet.network_names import GIVEN as GIVEN
from pixpnet.network_names import is_given as is_given
from pixpnet.network_names import is_user_code as is_user_code
from pixpnet.records import (
    ADDED_LATER,
    IN_MEMORY,
    BadRecord,
    added_later,
    from_plain,
    plain_fields,
    refuse_above,
    to_plain,
)
from pixpnet.safe_yaml import load_yaml, read_yaml_text
from pixpnet.settings import MemberSettings, Optimization
from pixpnet.windows import Windows, lengths, resolve_windows

# Of one machine.
_MOST_DEVICES = 256
# The largest that model files are read for; and what a loader, torch's seeds and a search through birds still take.
_LARGEST = {"size": 4096, "seed": 2**64 - 1, "birds": 1_000_000}
_LARGEST_WEIGHT = 1_000_000
NumWorkers = int | Literal["auto"]
_MOST_WORKERS = 512


def refuse_other_workers(num_workers: NumWorkers) -> None:
    """Refuses what is no number of processes.

    Raises:
        ValueError: with what is possible.
    """
    if num_workers != "auto" and not 0 <= num_workers <= _MOST_WORKERS:
        raise ValueError(
            f"num_workers is at most {_MOST_WORKERS}, at least 0, or auto; got {num_workers}: "
            "choose another --num-workers"
        )


@dataclass(frozen=True)
class TrainerOptions:
    """What it runs on; the values are those of Lightning's Trainer.

    Attributes:
        device: cpu, gpu, mps, ... or auto for the best available
        num_devices: how many devices of each machine, or auto for all
        num_nodes: how many machines
        strategy: how several devices work together; auto is DDP
        precision: of the backbone and the add-on; bf16-mixed is twice as fast on new processors. Distances have 32
            bits, and so have kept features of plain views, which become patches and answers
    """

    device: str = "auto"
    num_devices: str = "1"
    num_nodes: int = 1
    strategy: str = "auto"
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"

    def __post_init__(self) -> None:
        if self.num_nodes < 1:
            raise ValueError(f"num_nodes is at least 1, got {self.num_nodes}")
        refuse_above(self, {"num_nodes": 4096}, "trainer.")
        if self.num_devices.isdecimal() and (len(self.num_devices) > 4 or int(self.num_devices) > _MOST_DEVICES):
            raise ValueError(
                f"num_devices is at most {_MOST_DEVICES}, got {self.num_devices[:20]}: choose a smaller --num-devices"
            )


@dataclass(frozen=True)
class RunConfig:
    """A training run: the same configuration gives the same model on the same kind of CPU with as many threads.

    In `config.yaml` the settings of the member stand beside the fields of this record, under their own names.

    Attributes:
        member: which network of the family
        data: birds, cub:PATH, cars:PATH, imagenette:PATH or folder:PATH
        backbone: a torchvision network, timm:NAME, module.path:callable for your own code, or small-N: built in, for
            small images, its cells see N x N pixels
        at: the layer to cut it at, a module path or the paper's name (maxpool4); by default its end. Several layers,
            with commas (layer2,layer3), make a grid of cells each, and prototypes are shared out among them
        edits: changes of the backbone that make the fields of its cells smaller, as a list in brackets:
            [pointwise:layer3.1.conv2] (a convolution becomes 1 x 1), unstride:layer3.0, drop:layer3.1
        window: run the backbone on overlapping windows of this side, in pixels or, below 1, as a fraction of the
            image's side. A cell is then the pooled output of one window, and sees that window and nothing else.
            Several sizes, with commas (72,144), make a grid of cells each, and prototypes are shared out among them
        window_stride: largest step between windows, in pixels or as a fraction, one for all sizes or one for each
            (40,80); by default half a window
        window_from: run the layers up to this one once on the whole image and cut windows from its map: cheaper, and
            a cell sees its window and the margin that those layers see
        weights: a file of its weights (.pth or .safetensors), imagenet to download them, or none for random ones;
            may be left out for the small backbone only
        size: side of the network's input in pixels; by default what suits the data set
        seed: of initial weights, order, augmentation and the validation split
        num_workers: processes that load images; auto is none on a CPU or where features are kept, and for each GPU its
            share of the cores less one, 1 to 8
        birds: how many birds to draw to learn from, where the data are birds
        confounder: share of the drawn birds to learn from, and to choose by, that carry the mark of their species in a
            corner: a shortcut that is no bird. No test bird has one
        validation_fraction: of the training images, where the data set has no validation split
        split_rule: which images are held out: pixels (each by its own pixels, so that files that come, go or are
            renamed move no other, and copies stay together), or quota (an exact share of each class, by file name,
            as in runs of earlier versions). Drawn birds always go by quota
        on_bad: stop at unusable images, or skip them
        crop_to_box: show only the annotated boxes (CUB and Cars)
        evaluate_on_test: open the test split at the end, once the model is fixed; without it, only validation is used
        calibrate_by_folds: where features are kept and validation images are few, train five more networks on folds of
            the training images, so that probabilities are calibrated on more images; without it, which is six times as
            fast, the validation images alone say how certain answers are
        start: the folder of a finished run whose weights this one starts from, for members that do; a PixPNet may, say
            to fine-tune a tail after a frozen fit
        start_model: hash of the model there, filled in when training begins; another model is then refused
        teacher: the folder of a finished run that this one learns from, for members that do
        teacher_model: hash of the model there, filled in when training begins; another model is then refused
        feedback: a log of verdicts (RUN/verdicts.jsonl): patches that a person forbade are penalised and never become
            prototypes, and those to be remembered are rewarded
        feedback_hash: hash of that file, filled in when training begins; another one is then refused
        forget_weight: of forbidden patches in the loss, where there is feedback. At 1, nothing else was learnt
        remember_weight: of remembered patches in the loss, where there is feedback
        trainer: hardware
        settings: of the member: what it is made of and how it is trained; by default its paper's
        read_from: the file that it was read from, None where the caller made it; `train` calls user code that a file
            names only where that is allowed
    """

    member: str = field(default=DEFAULT, metadata=ADDED_LATER)
    data: str = "birds"
    backbone: str = "small"
    at: str = ""
    edits: tuple[str, ...] = field(default=(), metadata=ADDED_LATER)
    window: float | str | None = field(default=None, metadata=ADDED_LATER)
    window_stride: float | str | None = field(default=None, metadata=ADDED_LATER)
    window_from: str = field(default="", metadata=ADDED_LATER)
    weights: str | None = None
    size: int | None = None
    seed: int = 0
    num_workers: NumWorkers = "auto"
    birds: int = 4800
    confounder: float = field(default=0.0, metadata=ADDED_LATER)
    validation_fraction: float = 0.1
    split_rule: Literal["pixels", "quota"] = field(default="pixels", metadata=added_later(absent="quota"))
    on_bad: Literal["stop", "skip"] = "stop"
    crop_to_box: bool = False
    evaluate_on_test: bool = True
    calibrate_by_folds: bool = field(default=True, metadata=ADDED_LATER)
    start: str = field(default="", metadata=ADDED_LATER)
    start_model: str = field(default="", compare=False, metadata=ADDED_LATER)
    teacher: str = field(default="", metadata=ADDED_LATER)
    teacher_model: str = field(default="", compare=False, metadata=ADDED_LATER)
    feedback: str = field(default="", metadata=ADDED_LATER)
    feedback_hash: str = field(default="", compare=False, metadata=ADDED_LATER)
    forget_weight: float = field(default=0.1, metadata=ADDED_LATER)
    remember_weight: float = field(default=0.01, metadata=ADDED_LATER)
    trainer: TrainerOptions = field(default_factory=TrainerOptions)
    settings: MemberSettings = field(default=None, metadata=IN_MEMORY)  # type: ignore[assignment]
    read_from: str | None = field(default=None, compare=False, repr=False, metadata=IN_MEMORY)

    def __post_init__(self) -> None:
        kind = member_named(self.member).config
        settings: Any = self.settings
        if settings is None:
            settings = kind()
            object.__setattr__(self, "settings", settings)
        if not isinstance(settings, kind):
            raise ValueError(
                f"the settings of {self.member} are a {kind.__name__}, got {type(settings).__name__}: see "
                f"pixpnet.members.{self.member}"
            )
        if self.size is not None and self.size < 1:
            raise ValueError(f"size is a number of pixels above 0, got {self.size}")
        if self.window is None and (self.window_stride is not None or self.window_from):
            raise ValueError("a window stride, or a layer to cut windows from, needs the size of a window: --window")
        for name, value in (("window", self.window), ("window stride", self.window_stride)):
            if value is not None:
                lengths(value, name)
        refuse_other_workers(self.num_workers)
        if self.seed < 0:
            raise ValueError(f"seed is not negative, got {self.seed}")
        refuse_above(self, _LARGEST)
        if not 0 <= self.confounder <= 1:
            raise ValueError(f"confounder is a share of the birds, 0 to 1, got {self.confounder}")
        for name in ("forget_weight", "remember_weight"):
            if not 0 <= getattr(self, name) <= _LARGEST_WEIGHT:
                raise ValueError(f"{name} is at least 0 and at most {_LARGEST_WEIGHT}, got {getattr(self, name)}")
        if not 0 < self.validation_fraction < 1:
            raise ValueError(f"validation_fraction is between 0 and 1, got {self.validation_fraction}")

    @classmethod
    def of(cls, member: str = DEFAULT, preset: str = "paper", **options: Any) -> "RunConfig":
        """A run of a member with one of its presets; a preset may choose the backbone too, where no option does.

        >>> RunConfig.of("protopnet", "laptop", data="folder:photos").settings.optimization.epochs
        12
        >>> RunConfig.of(preset="photos", data="folder:photos", weights="imagenet").backbone
        'resnet18'
        """
        chosen = member_named(member)
        settings = chosen.preset(preset)
        return cls(member=member, settings=settings, **{**chosen.backbones.get(preset, {}), **options})

    def with_settings(self, **changes: Any) -> "RunConfig":
        """The same run with other settings of its member.

        >>> RunConfig().with_settings(optimization=Optimization(epochs=7)).optimization.epochs
        7
        """
        return replace(self, settings=replace(cast(Any, self.settings), **changes))

    @property
    def optimization(self) -> Optimization:
        """The optimization settings of the member."""
        return self.settings.optimization

    def windows(self, image_size: int) -> Windows | None:
        """The windows that the backbone runs on, in pixels of an image of this side; None for the whole image."""
        if self.window is None:
            return None
        return resolve_windows(self.window, self.window_stride, self.window_from, image_size)


def plain_config(config: RunConfig) -> dict[str, Any]:
    """The configuration as plain values: the run's fields, and the member's settings beside them."""
    values: dict[str, Any] = to_plain(config)
    return {"member": values.pop("member"), **values, **to_plain(config.settings)}


def config_from_plain(values: object) -> RunConfig:
    """The configuration that `plain_config` gave; one without a member is of an earlier version, and a PixPNet.

    Raises:
        BadRecord: if something does not fit.
    """
    if not isinstance(values, dict):
        raise BadRecord(f"configuration: expected options, got {str(values)[:100]!r}")
    try:
        values = translate(values).values
    except ValueError as error:
        raise BadRecord(f"configuration: {error}") from error
    try:
        kind = member_named(str(values.get("member", DEFAULT))).config
    except UnknownMember as error:
        raise BadRecord(f"configuration: {error}") from error
    own = {name.name for name in plain_fields(kind)}
    settings = from_plain(kind, {name: value for name, value in values.items() if name in own}, "configuration")
    run = from_plain(RunConfig, {name: value for name, value in values.items() if name not in own}, "configuration")
    try:
        return replace(run, settings=settings)
    except ValueError as error:
        raise BadRecord(f"configuration: {error}") from error


def config_text(config: RunConfig) -> str:
    """The configuration as YAML, complete; `--config` takes it as it is."""
    text: str = yaml.safe_dump(plain_config(config), sort_keys=False, allow_unicode=True)
    return text


def read_config(path: Path) -> RunConfig:
    """Reads what `config_text` wrote; the record remembers where it was read from.

    Raises:
        ValueError: if the file is missing, is no YAML, or does not hold exactly a configuration.
    """
    try:
        values = load_yaml(read_yaml_text(path))
    except FileNotFoundError as error:
        raise ValueError(f"there is no {path}: is it a run folder of pixpnet train?") from error
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    try:
        config = config_from_plain(values)
    except (BadRecord, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    return replace(config, read_from=str(path))
