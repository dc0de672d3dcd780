"""Files that a list names: only those in the list's own folder, whatever the list says."""

from pathlib import Path

from pixpnet.data.errors import DataError


def listed_file(folder: Path, name: str, listing: str) -> Path:
    """The file of this name below a folder.

    Args:
        folder: where the files of the list are; may itself be a link.
        name: as the list has it.
        listing: name of the list, for the message.

    Raises:
        DataError: if the name, or a link behind it, leads out of the folder.
    """
    try:
        inside = (folder / name).resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError) as error:  # a null character, a name too long, links in a circle
        raise DataError(f"{listing} names {name!r}, which is no file name ({error})") from error
    if not inside:
        raise DataError(
            f"{listing} names {name!r}, which leads out of {folder}: a list names files in its own folder only; copy "
            "the file there, or remove the line"
        )
    return folder / name
