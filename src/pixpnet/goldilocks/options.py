"""What a person may choose about a search."""

from dataclasses import dataclass

from pixpnet.config import NumWorkers, refuse_other_workers
from pixpnet.records import refuse_above

# See the records of `settings.py` and `config.py`; a worker that is silent for a day is dead.
_LARGEST = {
    "size": 4096,
    "epochs": 100_000,
    "batch": 65536,
    "views": 10_000,
    "seed": 2**64 - 1,
    "birds": 1_000_000,
    "heartbeat": 86_400,
}
ZONE = (0.05, 0.6)
HEARTBEAT = 15


@dataclass(frozen=True)
class SearchOptions:
    """A search for a cut.

    Attributes:
        data: birds, cub:PATH, cars:PATH, imagenette:PATH or folder:PATH.
        backbones: names in the zoo; "paper" stands for the 21 architectures of the paper's table.
        layers: patterns of layers; by default those of the paper's table, for other networks the last of each field.
        zone: smallest and largest mean field, as shares of the image; only cuts inside are trained.
        want: the mean field that is wanted; by default the target, or the middle of the zone, as a ratio.
        target_field: look also for windows and modified cuts, whose cells see this share of the image.
        windows: sides of windows in pixels: each network is also tried on windows of each size, cut at its deepest
            layer.
        window_from: the layer that windows are cut from, "image" for the image itself; by default what suits the
            network and the size.
        method: probe, frozen, finetune or pixpnet; by default probe, with windows frozen.
        weights: imagenet, none, NAME=FILE or folders of files named after backbones.
        size: side of the network's input in pixels; by default what suits the data set.
        epochs: by default the paper's 10 for finetune and the preset's for pixpnet; a probe makes one pass.
        batch: images in a batch; by default the paper's 32, for pixpnet the preset's.
        views: augmented views of each image in an epoch; by default what suits the data set, for pixpnet the preset's.
        seed: of initial weights, order, augmentation and the validation split.
        birds: how many birds to draw to learn from, where the data are birds.
        storage: address of the study; by default a SQLite file in the folder of the search.
        device: where networks are: cpu, cuda, ...
        num_workers: processes that load images; auto is none on a CPU, and else the cores less one, 1 to 8.
        heartbeat: seconds between a worker's signs of life; after four without, it is taken for dead.
        retry_failed: try candidates once more that failed with an error.
    """

    data: str
    backbones: tuple[str, ...] = ("paper",)
    layers: tuple[str, ...] = ()
    zone: tuple[float, float] = ZONE
    want: float | None = None
    target_field: float | None = None
    windows: tuple[int, ...] = ()
    window_from: str | None = None
    method: str | None = None
    weights: tuple[str, ...] = ()
    size: int | None = None
    epochs: int | None = None
    batch: int | None = None
    views: int | None = None
    seed: int = 0
    birds: int = 4800
    storage: str | None = None
    device: str = "cpu"
    num_workers: NumWorkers = "auto"
    heartbeat: int = HEARTBEAT
    retry_failed: bool = False

    def __post_init__(self) -> None:
        for name in ("size", "epochs", "batch", "views", "heartbeat"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is at least 1, got {value}")
        refuse_other_workers(self.num_workers)
        if self.seed < 0:
            raise ValueError(f"seed is not negative, got {self.seed}")
        for window in self.windows:
            if not 1 <= window <= _LARGEST["size"]:
                raise ValueError(f"a window has 1 to {_LARGEST['size']} pixels, got {window}")
        if self.window_from is not None and not (self.windows or self.target_field):
            raise ValueError("a layer to cut windows from needs the sizes of windows: --windows, or --target-field")
        refuse_above(self, _LARGEST)
        low, high = self.zone
        if low > high:
            raise ValueError(f"the zone {low:g} {high:g} is reversed: write --zone {high:g} {low:g}")
        if not 0 <= low <= high <= 1:
            raise ValueError(f"the zone is two shares of the image from 0 to 1, got {low:g} {high:g}: 20 % is 0.2")
        if self.want is not None and not 0 < self.want <= 1:
            raise ValueError(f"the wanted field is a share of the image from 0 to 1, got {self.want:g}: 20 % is 0.2")
        if self.target_field is not None and not low <= self.target_field <= high:
            raise ValueError(
                f"the target field {self.target_field:g} lies outside the zone {low:g} {high:g}, where nothing is "
                "trained: widen --zone (fields are shares of the image: 15 % is 0.15)"
            )

    @property
    def chosen_method(self) -> str:
        """How candidates are evaluated.

        >>> SearchOptions("birds").chosen_method, SearchOptions("birds", windows=(64,)).chosen_method
        ('probe', 'frozen')
        """
        return self.method or ("frozen" if self.windows else "probe")

    @property
    def wanted(self) -> float:
        """The mean field that is wanted.

        >>> SearchOptions("birds", zone=(0.1, 0.4)).wanted
        0.2
        """
        given = self.target_field if self.want is None else self.want
        low, high = self.zone
        # Fields differ by ratios (the figure has a log axis); a zone from 0 has no middle of that kind.
        return round((low * high) ** 0.5 if low else high / 2, 12) if given is None else given
