"""The notebooks of `examples/` run from beginning to end, and what they keep is small and of no machine."""

import importlib.util
import warnings
from pathlib import Path
from types import ModuleType

import nbformat
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
_LARGEST = 400_000


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    """`examples/run.py`, which is no package."""
    spec = importlib.util.spec_from_file_location("examples_run", EXAMPLES / "run.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def texts(notebook: nbformat.NotebookNode) -> str:
    """Everything that the cells of a notebook put out, as one text."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return "\n".join(output.get("text", "") or "\n".join(output.get("data", {}).values()) for output in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_a_notebook_keeps_is_whole_small_and_of_no_machine(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1)), "run it again: python examples/run.py"
    assert path.stat().st_size < _LARGEST
    for banned in ("/tmp" + "/", "/home" + "/", "/work" + "/", "/root" + "/", "Traceback"):
        assert banned not in texts(notebook)


@pytest.mark.parametrize(
    "name",
    [
        "fields-of-any-network",
        pytest.param("ten-minutes", marks=pytest.mark.slow),
        pytest.param("why-is-my-model-wrong", marks=pytest.mark.slow),
    ],
)
def test_a_notebook_runs_from_beginning_to_end(name: str, runner: ModuleType) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the kernel's own, about its sockets
        notebook = runner.executed(EXAMPLES / f"{name}.ipynb")
    kept = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    pieces = texts(notebook).count('<div class="pixpnet'), texts(kept).count('<div class="pixpnet')
    assert pieces[0] == pieces[1] >= 1


def test_every_notebook_is_run() -> None:
    assert {path.stem for path in NOTEBOOKS} == {"fields-of-any-network", "ten-minutes", "why-is-my-model-wrong"}
