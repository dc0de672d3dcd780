"""Which weights each backbone of a search begins with, and what makes them the same weights on another machine."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from pixpnet.goldilocks.errors import SearchError

RANDOM, DOWNLOADED = "none", "imagenet"
_ENDINGS = (".pth", ".pt", ".safetensors")
_SHOWN = 4


def weights_for(backbones: Sequence[str], given: Sequence[str]) -> dict[str, str | None]:
    """For each backbone a file, ``imagenet``, ``none``, or None for a small one, which needs no saying.

    Args:
        backbones: names in the zoo.
        given: ``imagenet`` or ``none`` for all that nothing else is said of, ``NAME=FILE`` for one, or a folder with
            files named after backbones (``vgg16.pth``, ``vgg16-397923af.pth``, ``vgg16_features.pth``).

    Raises:
        SearchError: if a backbone is left without, with its name and how to give them.
    """
    general: str | None = None
    named: dict[str, str] = {}
    folders: list[Path] = []
    for word in given:
        name, equals, file = word.partition("=")
        if word in (RANDOM, DOWNLOADED):
            general = word
        elif equals:
            named[name] = _file(name, Path(file).expanduser())
        elif Path(word).expanduser().is_dir():
            folders.append(Path(word).expanduser())
        else:
            raise SearchError(
                f"--weights {word} is no folder, nor imagenet or none, nor NAME=FILE, such as vgg16=vgg16.pth"
            )
    unknown = [name for name in named if name not in backbones]
    if unknown:
        raise SearchError(f"--weights names {', '.join(unknown)}, of which no cut is to be trained")
    files = {name: named.get(name) or _in_folders(name, folders) or general for name in backbones}
    missing = [name for name, weights in files.items() if weights is None and not _is_small(name)]
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
        raise SearchError(
            f"there are no weights for {shown}: give --weights {missing[0]}=FILE, a folder with {missing[0]}.pth in "
            "it, imagenet (downloads them) or none (random); or leave them out, --backbones ..."
        )
    return files


def identity(weights: str | None) -> str:
    """The same words for the same weights, wherever the file lies; random ones follow from the seed."""
    if weights in (None, RANDOM):
        return RANDOM
    if weights == DOWNLOADED:
        return DOWNLOADED
    with Path(str(weights)).expanduser().open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=8)).hexdigest()


def is_random(weights: str | None) -> bool:
    """Whether a backbone begins with weights that were never trained.

    >>> is_random(None), is_random("vgg16.pth")
    (True, False)
    """
    return weights in (None, RANDOM)


def identities(weights: Mapping[str, str | None]) -> dict[str, str]:
    """`identity` of each backbone's weights; a file that several share is read once."""
    known = {given: identity(given) for given in set(weights.values())}
    return {name: known[given] for name, given in weights.items()}


def _is_small(name: str) -> bool:
    return name == "small" or name.startswith("small-")


def _file(name: str, path: Path) -> str:
    if not path.is_file():
        raise SearchError(f"--weights {name}={path}: there is no such file")
    return str(path)


def _in_folders(name: str, folders: Sequence[Path]) -> str | None:
    plain = name.removeprefix("timm:")
    # vgg16_features is a file of vgg16; vgg16_bn is another network, and small-37 another than small.
    longer = () if _is_small(name) else (f"{plain}-", f"{plain}_features")
    for folder in folders:
        files = sorted(path for path in folder.iterdir() if path.suffix in _ENDINGS)
        exact = [path for path in files if path.stem == plain]
        for path in (*exact, *(path for path in files if path.stem.startswith(longer))):
            return str(path)
    return None
