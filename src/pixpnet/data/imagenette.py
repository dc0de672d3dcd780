"""ImageNette: ten classes of ImageNet that are easy to tell apart, to compare backbones quickly (App. F).

The data set has `train` and `val` only. Its `val` is what everybody reports, so here it is the *test* split,
and validation images are taken from train.
"""

from dataclasses import replace
from pathlib import Path

from pixpnet.data.catalog import Catalog, Entry
from pixpnet.data.errors import DataError
from pixpnet.data.folder import existing_folder, folder_catalog
from pixpnet.data.preprocessing import Preprocessing
from pixpnet.data.reader import FileReader

FOLDERS = ("imagenette2", "imagenette2-320", "imagenette2-160")
CLASS_NAMES = {
    "n01440764": "tench",
    "n02102040": "English springer",
    "n02979186": "cassette player",
    "n03000684": "chain saw",
    "n03028079": "church",
    "n03394916": "French horn",
    "n03417042": "garbage truck",
    "n03425413": "gas pump",
    "n03445777": "golf ball",
    "n03888257": "parachute",
}


def imagenette_catalog(root: Path) -> Catalog:
    """Lists ImageNette in any of its three sizes.

    Args:
        root: the folder that holds `train` and `val`, or the one above it.

    Raises:
        DataError: if the ten classes are not there.
    """
    root = existing_folder(root)
    root = next((root / name for name in FOLDERS if (root / name / "train").is_dir()), root)
    listed = folder_catalog(root)
    if set(listed.class_names) != set(CLASS_NAMES):
        raise DataError(
            f"{root} is not an ImageNette folder: expected the classes {', '.join(CLASS_NAMES)}, "
            f"found {', '.join(listed.class_names[:12])}. For other images use folder:PATH."
        )
    return replace(
        listed,
        name="ImageNette",
        class_names=tuple(CLASS_NAMES[name] for name in listed.class_names),
        entries=tuple(_val_is_test(entry) for entry in listed.entries),
        reader=FileReader(upright=False),
        # App. E: no first resizing, and a crop at the network's size.
        preprocessing=Preprocessing(shortest_side=None, crop=224, size=224),
        decided=frozenset({"train", "test"}),
    )


def _val_is_test(entry: Entry) -> Entry:
    return replace(entry, split="test") if entry.split == "val" else entry
