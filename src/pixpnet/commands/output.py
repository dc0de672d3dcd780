"""Files that a command will write, looked at before it computes for minutes."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile

from pixpnet.extras import require

_WITHOUT_VIEWS = (".csv", ".json")


def check_output(path: Path, endings: Sequence[str]) -> None:
    """Makes the folder of a file, and refuses a file that could not be written there.

    Raises:
        ValueError: with the reason.
        MissingExtra: if figures and pages cannot be made here.
    """
    if path.suffix.lower() not in endings:
        raise ValueError(f"--out {path} should end in {'' if len(endings) == 1 else 'one of '}{', '.join(endings)}")
    if path.suffix.lower() not in _WITHOUT_VIEWS:
        require(f"--out {path}", "views")
    if path.is_dir():
        raise ValueError(f"--out {path} is a folder: name a file in it, {path / f'x{endings[0]}'}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise ValueError(f"--out {path} cannot be written: {error.strerror}: choose another folder") from error
