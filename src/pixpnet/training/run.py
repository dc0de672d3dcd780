"""A run on disk: plain files, each written whole or not at all.

```
config.yaml         everything that decided the run; `pixpnet train --config` takes it
location.json       where they were: absolute, and from this folder; decides nothing
environment.json    what it began with: threads, versions, instructions of the processor; decides nothing
images.csv          its images when it began: split, class, name, and a hash of the pixels
model.safetensors   the model kept so far (`settings.kept_epoch`), with all that it needs to answer
prototypes.json     for each prototype: class, source image, cell, exact field, distance
prototypes/         two pictures of each prototype: what its cell saw (.png), and the training image around it (.jpg)
metrics.json        accuracies of the model that was kept
answers.csv         what it answered for each test and validation image: file, class, logits of the best classes
log.csv             one line for each epoch
manifest.json       digests of the files above, so that parts of another run are not taken for this one's
scores.safetensors  the logits of all classes for each image that it was evaluated on, and signs of doubt
openings.jsonl      one line for each time the test split was opened
checkpoints/        where to go on after an interruption; and the prototypes as they were learnt, before replacement
```
"""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from pixpnet.config import RunConfig, config_text, read_config
from pixpnet.data import DataSet, OwnImages
from pixpnet.data.listed import ImageList
from pixpnet.data.locked import Recorder, record_in
from pixpnet.file_lock import try_lock
from pixpnet.manifest import Manifest, digest_of
from pixpnet.model import PixPNet
from pixpnet.model.file import MODEL_FILE, PICTURES_FOLDER, PROTOTYPES_FILE, class_names_in, prototypes_listing
from pixpnet.model.weights import on_their_own
from pixpnet.progress import Progress
from pixpnet.records import from_plain, to_json, to_plain
from pixpnet.training.answers import ANSWERS_FILE, AnswerLine, answers_from_text, answers_text
from pixpnet.training.location import keep_location
from pixpnet.training.log import LogLine, log_text

IMAGES_FILE = "images.csv"
# In the header of the file of what was learnt before replacement.
_ARCHITECTURE = "architecture"


class RunError(ValueError):
    """A run folder that cannot be used like that; the message says what to do."""


@dataclass(frozen=True)
class OpeningLine:
    """One line of a run's `openings.jsonl`.

    Attributes:
        time: when the test split was opened (UTC).
        data: name of the data set.
        reason: why.
        images: how many there were.
        fingerprint: of their names.
        model: fingerprint of the run's model at that moment (`Run.fingerprint`); None where the line does not say,
            as those of earlier versions.
    """

    time: str
    data: str
    reason: str
    images: int
    fingerprint: str
    model: str | None


@dataclass(frozen=True, init=False)
class Run:
    """The folder of a run, and what belongs to it that no file can hold.

    Attributes:
        path: the folder.
        backbone: the network that it was trained on, where that was an object of the caller's; any weights will do.
        dataset: the images that it was trained on, where they were.
    """

    path: Path
    backbone: nn.Module | None = field(default=None, repr=False, compare=False)
    dataset: OwnImages | None = field(default=None, repr=False, compare=False)

    def __init__(self, path: Path | str, backbone: nn.Module | None = None, dataset: OwnImages | None = None) -> None:
        if not isinstance(path, (Path, str)):
            raise TypeError(f"a run is the path of its folder, got {type(path).__name__}")
        for name, value in (("path", Path(path)), ("backbone", backbone), ("dataset", dataset)):
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, run: "Run | Path | str") -> "Run":
        """A run, given as itself or by its folder.

        Raises:
            TypeError: if it is neither.
        """
        if not isinstance(run, (Run, Path, str)):
            raise TypeError(f"a run is the path of its folder, or a Run, got {type(run).__name__}")
        return run if isinstance(run, Run) else cls(run)

    @classmethod
    def create(cls, path: Path, config: RunConfig, images: ImageList, backbone: nn.Module | None = None) -> "Run":
        """A new folder with its configuration, the list of its images, and the weights of a backbone that was given.

        Raises:
            RunError: if there is something already.
        """
        cls.refuse_if_used(path)
        path.mkdir(parents=True, exist_ok=True)
        run = cls(path, backbone)
        run.checkpoint.parent.mkdir(exist_ok=True)
        run.write_images(images)  # first: where there is a configuration there is a list
        if backbone is not None:
            with run.manifest.replacing(str(run.first_weights.relative_to(path))) as temporary:
                temporary.write_bytes(save(on_their_own(backbone.state_dict())))
        keep_location(path, config)
        run.write("config.yaml", config_text(config))
        return run

    @staticmethod
    def refuse_if_used(path: Path) -> None:
        """Nothing is ever overwritten.

        Raises:
            RunError: if there is something already.
        """
        if (path / "config.yaml").exists():
            raise RunError(
                f"{path} is a run already: go on with it (pixpnet train --resume {path}), or choose another --out"
            )
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise RunError(f"{path} exists and is not empty: choose another --out")

    @property
    def config(self) -> RunConfig:
        """The configuration that the run was made with."""
        return read_config(self.path / "config.yaml")

    def model(self, trust_code: bool = False) -> PixPNet:
        """The model that the run keeps, in eval mode.

        Args:
            trust_code: import and call a backbone that is the user's code (``module.path:callable``); only for runs
                that you trust.

        Raises:
            ModelFileError, ManifestError: if there is none, or it is damaged or another run's.
        """
        return PixPNet.load(self.path, trust_code, self.backbone)

    def data(self, progress: Progress | None = None, moved_to: str | None = None) -> DataSet:
        """The data set that the run was trained on, with its images in the splits that they were in.

        Args:
            progress: told how many of how many files have been looked at.
            moved_to: where it is now (`folder:PATH`), if it is not where it was.

        Raises:
            DataError: if it is not at hand, or has none of the images that the run learnt from.
            RunError: if it has other classes than the run's model.
        """
        from pixpnet.training.run_data import open_data_of, refuse_other_classes

        data = open_data_of(self, progress, moved_to=moved_to)
        if (self.path / MODEL_FILE).exists():
            refuse_other_classes(class_names_in(self.path), data)
        return data

    @property
    def manifest(self) -> Manifest:
        """Which files belong to the run."""
        return Manifest(self.path, PICTURES_FOLDER)

    def check(self) -> None:
        """Refuses a folder that holds files of another run. Whoever opens a run calls this, or `PixPNet.load`.

        Raises:
            ManifestError: with the file that does not belong.
        """
        self.manifest.check()

    def check_for_resuming(self) -> None:
        """Like `check`, but for pictures, which are written again; a run of an earlier version gets a manifest."""
        if not self.manifest.path.exists():
            self.manifest.check()  # warns
            self.manifest.settle(pictures=False)
        self.manifest.check(pictures=False)

    @property
    def checkpoint(self) -> Path:
        """Where to go on from; may not be there yet."""
        return self.path / "checkpoints" / "last.ckpt"

    @property
    def openings(self) -> Path:
        """The record of openings of the test split."""
        return self.path / "openings.jsonl"

    def recorder(self) -> Recorder:
        """Writes down openings of the test split, each with the model that it was opened for."""
        return record_in(self.openings, self.fingerprint)

    def read_openings(self) -> tuple[OpeningLine, ...]:
        """What was written down, in that order.

        Raises:
            RunError: if the file is damaged.
        """
        if not self.openings.exists():
            return ()
        try:
            # Not `splitlines`: a reason may hold what it takes for the end of a line, such as U+2028.
            lines = [json.loads(line) for line in self.openings.read_bytes().decode().split("\n") if line.strip()]
            plain = [{"model": None, **line} if isinstance(line, dict) else line for line in lines]
            return tuple(from_plain(OpeningLine, line, "opening") for line in plain)
        except (ValueError, RecursionError) as error:
            raise RunError(f"{self.openings} is damaged: {error}") from error

    def write_images(self, images: ImageList) -> None:
        """Keeps the list of the run's images."""
        self.write(IMAGES_FILE, images.text)

    def read_images(self) -> ImageList | None:
        """The images that the run had when it began; None in runs of earlier versions, which kept no list.

        Raises:
            RunError: if the list is damaged, or is missing although the run had one.
        """
        path = self.path / IMAGES_FILE
        try:
            return ImageList.from_text(path.read_bytes().decode())
        except FileNotFoundError as error:
            if self.manifest.lists(IMAGES_FILE):
                raise RunError(
                    f"{path} is missing, and the run had one. Without it nobody knows what the run learnt from: put a "
                    "copy back, or train anew"
                ) from error
            return None
        except (ValueError, csv.Error) as error:
            raise RunError(
                f"{path} is damaged: {error}. Without it nobody knows what the run learnt from: put a copy back, or "
                "train anew"
            ) from error

    def fingerprint(self) -> str:
        """A hash of the run's model as it is now, "none" where there is no model yet."""
        try:
            return digest_of(self.path / MODEL_FILE)
        except FileNotFoundError:
            return "none"

    @property
    def crops(self) -> Path:
        """Pictures of the prototypes."""
        return self.path / PICTURES_FOLDER

    @property
    def finished(self) -> bool:
        """Whether training came to its end and the model was evaluated."""
        return (self.path / "metrics.json").exists()

    def write(self, name: str, text: str) -> None:
        """Writes one of the run's text files, whole or not at all, and lists it in the manifest."""
        with self.manifest.replacing(name) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="")

    @property
    def first_weights(self) -> Path:
        """Of a backbone that was given as an object, as they were when the run began."""
        return self.path / "checkpoints" / "given_backbone.safetensors"

    @property
    def learnt(self) -> Path:
        """Prototypes, and weights of the head, of the kept model as they were before replacement."""
        return self.path / "checkpoints" / "before_replacement.safetensors"

    def keep(self, model: PixPNet, learnt: dict[str, Tensor], architecture: Any) -> None:
        """Makes this the run's model.

        Args:
            model: after replacement.
            learnt: what was in the places of its prototypes (and head) before.
            architecture: of the network then, which had more prototypes where some were pruned or merged.
        """
        with self.manifest.replacing(str(self.learnt.relative_to(self.path))) as temporary:
            tensors = {name: tensor.contiguous() for name, tensor in learnt.items()}
            temporary.write_bytes(save(tensors, {_ARCHITECTURE: json.dumps(to_plain(architecture))}))
        with self.manifest.replacing(MODEL_FILE) as temporary:
            model.save(temporary)
        self.write(PROTOTYPES_FILE, prototypes_listing(model))

    def keep_calibrated(self, model: PixPNet, announce: Callable[[str], None] | None = None) -> None:
        """Writes the run's model again, with what has been measured of its certainty since.

        Args:
            model: with its new calibration.
            announce: told the hash of the new file before it takes the place of the old one.
        """
        with self.manifest.replacing(MODEL_FILE) as temporary:
            model.save(temporary)
            if announce is not None:
                announce(digest_of(temporary))

    def learnt_architecture(self) -> Any:
        """Of the network before replacement; runs of earlier versions do not say, and it was the configuration's.

        Raises:
            RunError: if the file is damaged.
        """
        configured = self.config.settings.architecture
        try:
            with safe_open(self.learnt, framework="pt") as opened:
                text = (opened.metadata() or {}).get(_ARCHITECTURE)
            return configured if text is None else from_plain(type(configured), json.loads(text), "architecture")
        except (SafetensorError, OSError, ValueError, RecursionError) as error:
            raise RunError(f"{self.learnt} is damaged: {error}: put a copy back, or train anew") from error

    def write_log(self, lines: Sequence[LogLine]) -> None:
        """Writes the whole log."""
        self.write("log.csv", log_text(lines))

    def write_answers(self, lines: Sequence[AnswerLine]) -> None:
        """Keeps what the chosen model answered for each image that it is evaluated on."""
        self.write(ANSWERS_FILE, answers_text(lines))

    def read_answers(self) -> tuple[AnswerLine, ...] | None:
        """What `write_answers` wrote; None in runs of earlier versions, which kept no answers.

        Raises:
            RunError: if the file is damaged.
        """
        path = self.path / ANSWERS_FILE
        try:
            return answers_from_text(path.read_bytes().decode())
        except FileNotFoundError:
            return None
        except (ValueError, csv.Error) as error:
            raise RunError(f"{path} is damaged: {error}: put a copy back, or train anew") from error

    def write_metrics(self, metrics: object) -> None:
        """Writes the accuracies of the chosen model; this ends the run, and nothing that is listed changes any more."""
        self.manifest.settle(pictures=True)
        self.write("metrics.json", to_json(to_plain(metrics)))

    def read_metrics(self) -> dict[str, Any]:
        """What `write_metrics` wrote.

        Raises:
            RunError: if the run is not finished or the file is damaged.
        """
        try:
            metrics = json.loads((self.path / "metrics.json").read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise RunError(f"{self.path} is not finished: pixpnet train --resume {self.path}") from error
        except (ValueError, RecursionError) as error:
            raise RunError(f"{self.path / 'metrics.json'} is damaged: {error}") from error
        if not isinstance(metrics, dict):
            raise RunError(f"{self.path / 'metrics.json'} is damaged: it holds no table of figures")
        return metrics

    def sweep(self) -> None:
        """Removes what a process that was killed had begun to write."""
        for folder in (self.path, self.checkpoint.parent, self.crops):
            for left in folder.glob(".*.part"):
                left.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps a second process from training the same run; the system frees it however the first one ends."""
        with (self.path / ".lock").open("w") as file:
            if not try_lock(file):
                raise RunError(f"{self.path} is being trained by another process")
            yield
