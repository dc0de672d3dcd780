"""TorchScript: compiled code asks tensors for their device where no Python code can answer for them.

The operations of a scripted function or module pass by the trace like any other. What does not is ``x.is_cuda`` or
``x.device == ...``, which the compiled code answers by itself, from tensors on the meta device. So its graph is looked
at before it is run: a device may be handed on to an operation that makes a tensor there, and nothing else.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

_QUESTIONS = tuple(
    f"prim::is_{name}" for name in ("cuda", "cpu", "meta", "mps", "xpu", "xla", "vulkan", "mtia", "maia")
)
_CALLABLES: tuple[Any, ...] = (torch._C.ScriptFunction, torch._C.ScriptMethod)


def asks_for_the_device(graph: Any) -> str | None:
    """How a compiled graph looks at the device of a tensor; None where it does not.

    >>> def double(x: torch.Tensor) -> torch.Tensor:
    ...     return x + x
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     asks_for_the_device(torch.jit.script(double).inlined_graph)
    """
    for kind in (*_QUESTIONS, "aten::get_device"):
        if graph.findAllNodes(kind):
            return str(kind)
    for node in graph.findAllNodes("prim::device"):
        for use in node.output().uses():
            if not _takes_a_device(use.user, use.offset):
                return f"prim::device in {use.user.kind()}"
    return None


def _takes_a_device(node: Any, position: int) -> bool:
    """Whether an operation has its argument called ``device`` at this position, to make a tensor there."""
    if node.schema() == "(no schema)":
        return False
    arguments = torch._C.parse_schema(node.schema()).arguments
    return position < len(arguments) and arguments[position].name == "device"


class _Watch:
    """Who is told of the scripts that the current thread calls, and how many traces are under way in all threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.traces = 0
        self.original: dict[Any, Any] = {}
        self.local = threading.local()


_watch = _Watch()


@contextmanager
def watching_scripts(refuse: Callable[[str], None]) -> Iterator[None]:
    """Calls ``refuse`` with what a script does, before it is run, if it looks at the device of a tensor."""
    outer = getattr(_watch.local, "refuse", None)
    _watch.local.refuse = refuse
    with _watch.lock:
        _watch.traces += 1
        if _watch.traces == 1:
            _install()
    try:
        yield
    finally:
        _watch.local.refuse = outer
        with _watch.lock:
            _watch.traces -= 1
            if _watch.traces == 0:
                for kind, call in _watch.original.items():
                    kind.__call__ = call


def _install() -> None:
    """Looks at scripts when they are called, since Python code may call them from anywhere."""
    for kind in _CALLABLES:
        _watch.original[kind] = call = kind.__call__

        def checked(script: Any, *args: Any, call: Any = call, **kwargs: Any) -> Any:
            refuse = getattr(_watch.local, "refuse", None)
            if refuse is not None and (question := asks_for_the_device(script.inlined_graph)) is not None:
                refuse(
                    f"calls the TorchScript code '{script.name}', which looks at the device of a tensor ({question})"
                )
            return call(script, *args, **kwargs)

        kind.__call__ = checked
