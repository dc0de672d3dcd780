"""A Python in which some packages are not installed: code that is put in front of a script."""

import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Where the module has another name than the distribution.
MODULES = {
    "opencv-python-headless": "cv2",
    "pillow": "PIL",
    "pytorch-lightning": "pytorch_lightning",
    "pyyaml": "yaml",
}
BLOCKER = """
import sys
BLOCKED = frozenset({blocked!r})
class Filtered:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in BLOCKED else self.finder.find_spec(name, path, target)
    def __getattr__(self, name):
        return getattr(self.finder, name)
sys.meta_path[:] = [Filtered(finder) for finder in sys.meta_path]
"""


def declared(extra: str | None = None) -> set[str]:
    """The modules of the distributions that pyproject.toml names: the core's, or those of one extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = project["dependencies"] if extra is None else project["optional-dependencies"][extra]
    names = {line.partition(">")[0].partition("[")[0].strip() for line in lines}
    return {MODULES.get(name, name) for name in names} - {"pixpnet"}


def run_without(blocked: Iterable[str], code: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """Runs code in a process of its own, where importing one of these packages fails."""
    script = BLOCKER.format(blocked=sorted(blocked)) + code
    return subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True)


CLI = "from pixpnet.cli import main\nsys.exit(main(sys.argv[1:]))"
