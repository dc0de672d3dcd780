"""Stanford Cars from its official folder: 196 kinds of cars with boxes.

Expected, as torchvision's `StanfordCars` does: `devkit/cars_meta.mat`, `devkit/cars_train_annos.mat`,
`cars_test_annos_withlabels.mat`, `cars_train/` and `cars_test/`. Boxes are given as first and last pixel,
counted from 1.
"""

from pathlib import Path
from typing import Any

from pixpnet.data import statistics
from pixpnet.data.augmentation import Augmentation
from pixpnet.data.catalogue import Catalogue, Entry, Split
from pixpnet.data.errors import DataError
from pixpnet.data.folder import existing_folder
from pixpnet.data.preprocessing import Preprocessing
from pixpnet.data.reader import FileReader
from pixpnet.data.sample import NO_ANNOTATION, Annotation
from pixpnet.data.splits import stable_id

META = "devkit/cars_meta.mat"
TRAIN = "devkit/cars_train_annos.mat"
TEST = "cars_test_annos_withlabels.mat"


def cars_catalogue(root: Path, crop_to_box: bool = False) -> Catalogue:
    """Lists Stanford Cars.

    Args:
        root: the folder that holds `devkit`, or the one above it (`stanford_cars` below it).
        crop_to_box: show only the cars' boxes.

    Raises:
        DataError: if a file of the layout is missing or damaged.
    """
    root = existing_folder(root)
    if not (root / META).exists() and (root / "stanford_cars" / META).exists():
        root = root / "stanford_cars"
    class_names = tuple(str(name) for name in _matlab(root, META)["class_names"].reshape(-1).tolist())
    entries = (
        *_entries(root, TRAIN, "cars_train", "train", len(class_names)),
        *_entries(root, TEST, "cars_test", "test", len(class_names)),
    )
    return Catalogue(
        name="Stanford Cars",
        class_names=class_names,
        part_names=(),
        point_parts=(),
        entries=entries,
        reader=FileReader(upright=False, crop_to_box=crop_to_box),
        preprocessing=Preprocessing(mean=statistics.CARS.mean, std=statistics.CARS.std),
        augmentation=Augmentation(),
        statistics_known=True,
        decided=frozenset({"train", "test"}),
        root=root,
    )


def _entries(root: Path, annotations: str, folder: str, split: Split, classes: int) -> list[Entry]:
    entries = []
    for row in _matlab(root, annotations)["annotations"].reshape(-1):
        name, number = str(row["fname"]), int(row["class"])
        if not 1 <= number <= classes:
            raise DataError(f"{annotations}: {name} has class {number}, but there are {classes}")
        box = (
            float(row["bbox_x1"]) - 1,
            float(row["bbox_y1"]) - 1,
            float(row["bbox_x2"]),
            float(row["bbox_y2"]),
        )
        annotation = Annotation(NO_ANNOTATION.keypoints, NO_ANNOTATION.visible, box)
        path = root / folder / name
        entries.append(Entry(stable_id(f"{folder}/{name}"), number - 1, split, path, annotation=annotation))
    return entries


def _matlab(root: Path, name: str) -> dict[str, Any]:
    # Imported here: only this data set needs it.
    from scipy.io import loadmat  # type: ignore[import-untyped]
    from scipy.io.matlab import MatReadError  # type: ignore[import-untyped]

    try:
        content: dict[str, Any] = loadmat(root / name, squeeze_me=True)
    except (OSError, ValueError, TypeError, MatReadError) as error:
        raise DataError(
            f"{root} is not a Stanford Cars folder: {name} cannot be read ({error}). "
            f"Expected {META}, {TRAIN}, {TEST}, cars_train and cars_test."
        ) from error
    return content
