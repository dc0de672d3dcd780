"""Stanford Cars from its official folder: 196 kinds of cars with boxes.

Expected, as torchvision's `StanfordCars` does: `devkit/cars_meta.mat`, `devkit/cars_train_annos.mat`,
`cars_test_annos_withlabels.mat`, `cars_train/` and `cars_test/`. Boxes are given as first and last pixel,
counted from 1.
"""

from math import isfinite, prod
from pathlib import Path
from typing import Any

from pixpnet.data import statistics
from pixpnet.data.augmentation import Augmentation
from pixpnet.data.catalog import Catalog, Entry, Split
from pixpnet.data.confined import listed_file
from pixpnet.data.errors import DataError
from pixpnet.data.folder import existing_folder
from pixpnet.data.preprocessing import Preprocessing
from pixpnet.data.reader import FileReader
from pixpnet.data.sample import NO_ANNOTATION, Annotation
from pixpnet.data.splits import stable_id
from pixpnet.extras import wanted_by
from pixpnet.messages import first_line
from pixpnet.whole_file import refuse_irregular

META = "devkit/cars_meta.mat"
TRAIN = "devkit/cars_train_annos.mat"
TEST = "cars_test_annos_withlabels.mat"
# The official files have less than a megabyte and 8144 entries.
_LARGEST, _MOST_ENTRIES = 2**26, 10**6


def cars_catalog(root: Path, crop_to_box: bool = False) -> Catalog:
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
    class_names = tuple(str(name) for name in _variable(root, META, "class_names").tolist())
    entries = (
        *_entries(root, TRAIN, "cars_train", "train", len(class_names)),
        *_entries(root, TEST, "cars_test", "test", len(class_names)),
    )
    return Catalog(
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
    for line, row in enumerate(_variable(root, annotations, "annotations"), start=1):
        try:
            name, number = str(row["fname"]), int(row["class"])
            x1, y1, x2, y2 = (float(row[corner]) for corner in ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2"))
        except (ValueError, TypeError, LookupError, OverflowError) as error:
            raise DataError(
                f"{annotations}, entry {line}: expected fname, class and bbox_x1 to bbox_y2, got {str(row)[:100]!r}"
            ) from error
        if not 1 <= number <= classes:
            raise DataError(f"{annotations}: {name} has class {number}, but there are {classes}")
        if not all(map(isfinite, (x1, y1, x2, y2))):
            raise DataError(f"{annotations}: the box of {name} is not made of numbers")
        annotation = Annotation(NO_ANNOTATION.keypoints, NO_ANNOTATION.visible, (x1 - 1, y1 - 1, x2, y2))
        path = listed_file(root / folder, name, annotations)
        entries.append(Entry(stable_id(f"{folder}/{name}"), number - 1, split, path, annotation=annotation))
    return entries


def _variable(root: Path, name: str, variable: str) -> Any:
    """One variable of a MATLAB file, as a flat array."""
    # Imported here: only this data set needs it.
    import numpy as np

    with wanted_by("reading the annotations of Stanford Cars (.mat)"):
        from scipy.io import loadmat, whosmat  # type: ignore[import-untyped]

    path = root / name
    try:
        refuse_irregular(path)
        if (size := path.stat().st_size) > _LARGEST:
            raise ValueError(f"it has {size} bytes, at most {_LARGEST} are read")
        shapes = {key: shape for key, shape, _ in whosmat(path)}
        if variable not in shapes:
            raise ValueError(f"it has no {variable!r}, but {', '.join(map(repr, shapes)) or 'nothing'}")
        if prod(shapes[variable]) > _MOST_ENTRIES:
            raise ValueError(f"{variable!r} has {prod(shapes[variable])} entries, at most {_MOST_ENTRIES} are read")
        return np.asarray(loadmat(path, squeeze_me=True, variable_names=[variable])[variable]).reshape(-1)
    except NotImplementedError as error:
        raise DataError(f"{path} is a file of MATLAB 7.3, which is not read: save it with -v7") from error
    except Exception as error:  # what a damaged file raises is anything from IndexError to zlib.error
        raise DataError(
            f"{root} is not a Stanford Cars folder: {name} cannot be read ({first_line(error)}). "
            f"Expected {META}, {TRAIN}, {TEST}, cars_train and cars_test."
        ) from error
