"""How a person calls this program again, as it can be typed into a fresh shell in the same folder."""

import os
import shutil
import sys
from pathlib import Path
from shlex import join


def command(*words: object) -> str:
    """A command of this program, quoted for a shell.

    It begins with `pixpnet` where a shell finds that, and it is this one; otherwise with the path of the script that
    runs now (as after `make demo`, whose environment nobody has activated), or with the interpreter.
    """
    return join([*_program(Path(sys.argv[0])), *map(str, words)])


def _program(called: Path) -> list[str]:
    on_path = shutil.which("pixpnet")
    if called.name == "pixpnet" and called.exists():
        if on_path is not None and Path(on_path).samefile(called):
            return ["pixpnet"]
        return [_from_here(called)]
    return [_from_here(Path(sys.executable)), "-m", "pixpnet"]


def _from_here(path: Path) -> str:
    """A path as it is shortest from here; links stay, because an environment is known by that of its interpreter."""
    absolute = os.path.abspath(path)  # noqa: PTH100  resolve() would follow the links
    near = os.path.relpath(absolute)
    return absolute if near.startswith("..") else near
