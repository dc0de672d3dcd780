"""Runs the notebooks again and keeps their outputs: ``python examples/run.py``, or with names for some of them."""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent


def executed(path: Path, timeout: float = 600) -> nbformat.NotebookNode:
    """A notebook with the outputs of this run, without what changes from run to run.

    Args:
        path: of the notebook; the file stays as it is.
        timeout: seconds for one cell.

    Raises:
        nbclient.exceptions.CellExecutionError: if a cell raises.
    """
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=timeout, kernel_name="python3", startup_timeout=300, record_timing=False).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            if "text/html" in output.get("data", {}):
                output["data"].pop("text/plain", None)  # the record in full, with paths of this machine
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def main(names: list[str]) -> None:
    """Runs some notebooks, or all."""
    for path in sorted(HERE.glob("*.ipynb")):
        if not names or path.stem in names:
            nbformat.write(executed(path), path)
            sys.stdout.write(f"{path.name}: {path.stat().st_size / 1000:.0f} kB\n")


if __name__ == "__main__":
    main(sys.argv[1:])
