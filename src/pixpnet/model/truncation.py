"""Truncation: what a network runs between two of its layers, as a function that holds no state.

The code of those modules that contain a layer is run once with symbols in place of tensors (``torch.fx`` proxies); all
other modules stay whole, and a call of one is one step. What was written down becomes a plain Python function of the
network and its input. It ends at the layer, so nothing has to be stopped; it keeps nothing between calls, so threads
can share it; it takes parameters, modes and submodules from the network when it is called.

Symbols know neither values nor shapes, so code that branches on either is refused (`Untraceable`), and what is left
holds for all images. So are code that reads differently in training and in eval mode, that switches gradients or
autocast, draws random numbers, makes tensors of its own, or writes to its module. Two things are not seen here, a
question like ``isinstance(x, Tensor)`` and ``x += 1`` where another name stands for the same tensor: for these
`pixpnet.model.segments` compares results with those of the network.

``torch.fx.Tracer`` is not used because it replaces ``nn.Module.__call__`` for the whole process, other threads too.
"""

import copy
import importlib
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from torch import Tensor, nn
from torch.fx import Graph, Node, Proxy
from torch.fx.proxy import GraphAppendingTracer

from pixpnet.messages import first_line

_HOOKS = (
    *("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"),
    *("_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs", "_forward_hooks_always_called"),
)


class Untraceable(Exception):
    """Code that cannot be written down as one sequence of steps that is right for all images."""


class Inseparable(Exception):
    """Code in which more than a layer's output goes on behind that layer."""


class LayerCall(NamedTuple):
    """The output of a module: its path, and which of its calls in one forward pass, from 1."""

    path: str
    call: int = 1


class Truncated:
    """The code of a network between two layers.

    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(4, 2), nn.ReLU())
    >>> first = truncate(network, None, LayerCall("0"))
    >>> first(network, torch.zeros(3, 2, 2)).shape
    torch.Size([3, 4])
    >>> print(first.source.strip())
    def forward(self, values):
        _0 = getattr(self, "0")(values);  values = None
        return _0
    """

    def __init__(self, source: str, names: dict[str, Any]) -> None:
        """Compiles the code.

        Args:
            source: defines ``forward(self, values)``, where ``self`` is the network.
            names: what the code calls by name.
        """
        self.source = source
        scope = dict(names)
        code = compile(source, "<truncated network>", "exec")
        exec(code, scope)  # noqa: S102 (written by torch.fx, from the names of modules and operations)
        self._forward: Callable[[nn.Module, Any], Any] = scope["forward"]
        used = self._forward.__code__.co_names
        self._names = {name: value for name, value in names.items() if name in used}

    def __call__(self, network: nn.Module, values: Any) -> Any:
        """What the network makes of images, or of what the first layer gave."""
        return self._forward(network, values)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Truncated":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Modules, unlike functions, do not pickle by their names.
        names = {
            name: _Imported(value.__name__) if isinstance(value, ModuleType) else value
            for name, value in self._names.items()
        }
        return _unpickled, (self.source, names)


class _Imported(NamedTuple):
    name: str


def _unpickled(source: str, names: dict[str, Any]) -> Truncated:
    namespace = {k: importlib.import_module(v.name) if isinstance(v, _Imported) else v for k, v in names.items()}
    return Truncated(source, namespace)


def truncate(network: nn.Module, start: LayerCall | None, stop: LayerCall | None) -> Truncated:
    """What a network runs from one layer to another.

    Args:
        network: stays as it is; neither its weights nor its mode matter.
        start: the layer whose output it takes; None for the images.
        stop: the layer whose output it gives; None for the network's own output.

    Raises:
        Untraceable: if the code in between is not the same sequence of steps for all images, in both modes.
        Inseparable: if more than the output of `start` is needed behind it.
    """
    segments: list[tuple[str, dict[str, Any]]] = []
    for training in (False, True):
        for enabled in (False, True):
            code = _traced(network, start, stop, training, enabled).python_code("self")
            segments.append((_plain(code.src), code.globals))
    if any(other != segments[0] for other in segments[1:]):
        raise Untraceable("its code reads differently in training and in eval mode")
    return Truncated(*segments[0])


def _plain(source: str) -> str:
    """Without the comments that torch.fx writes into the code."""
    return "\n".join(line for line in source.splitlines() if line.strip() and not line.lstrip().startswith("#")) + "\n"


def _traced(
    network: nn.Module, start: LayerCall | None, stop: LayerCall | None, training: bool, enabled: bool
) -> Graph:
    draws = _random_states()
    with _switched(enabled):
        tracer = _CodeTracer(network, start, stop, training)
        try:
            graph = tracer.trace()
        except (Untraceable, Inseparable):
            raise
        except Exception as error:  # the code is anybody's and runs on symbols: whatever it raises, it cannot be traced
            raise Untraceable(
                f"its code cannot be run on symbols ({type(error).__name__}: {first_line(error)})"
            ) from error
    if _random_states() != draws:
        raise Untraceable("its code draws random numbers")
    return graph


class _Stopped(BaseException):
    """Leaves the code that is traced; nothing is raised when what was traced is run."""

    def __init__(self, output: Any) -> None:
        super().__init__()
        self.output = output


class _CodeTracer(GraphAppendingTracer):
    """Runs a network's code on symbols, with copies of its modules that share no state with them."""

    def __init__(self, network: nn.Module, start: LayerCall | None, stop: LayerCall | None, training: bool) -> None:
        super().__init__(Graph())
        self._start, self._stop, self._training = start, stop, training
        self._start_node: Node | None = None
        self._calls: dict[str, int] = {}
        self._copies: dict[int, nn.Module] = {}
        self._contents: list[tuple[nn.Module, dict[str, Any]]] = []
        self._switches = _switches()
        self._network = self._copied(network, "")

    def trace(self) -> Graph:
        """The steps from `start` to `stop`.

        Raises:
            Untraceable, Inseparable: see `truncate`.
        """
        images = self.create_proxy("placeholder", "values", (), {})
        try:
            output = self._network(images)
        except _Stopped as stopped:
            output = stopped.output
        else:
            if self._stop is not None:
                raise Untraceable(f"'{self._stop.path}' is not called {self._stop.call} times")
        for module, contents in self._contents:
            if _contents(module) != contents:
                raise Untraceable(f"the code of {type(module).__name__} writes to its module")
        result = self.create_arg(output)
        if self._start is None:
            self.graph.output(result)
            return self.graph
        if self._start_node is None:
            raise Untraceable(f"'{self._start.path}' is not called before")
        return _behind(self.graph, self._start_node, images.node, result, self._start.path)

    def create_node(self, *args: Any, **kwargs: Any) -> Node:
        """A step, if it is taken in the state that the caller of the network was in."""
        if _switches() != self._switches:
            raise Untraceable("its code switches gradients, inference mode or autocast")
        return super().create_node(*args, **kwargs)

    def create_arg(self, a: Any) -> Any:
        """What a step is given: symbols and constants."""
        if isinstance(a, (Tensor, nn.Module)):
            raise Untraceable(f"its code hands over a {type(a).__name__} that is neither a parameter nor a result")
        return super().create_arg(a)

    def _copied(self, module: nn.Module, path: str) -> nn.Module:
        if id(module) in self._copies:  # registered twice: it has its first path
            return self._copies[id(module)]
        compiled = isinstance(module, torch.jit.ScriptModule)
        made: nn.Module = nn.Module() if compiled else object.__new__(type(module))
        self._copies[id(module)] = made
        prefix = f"{path}." if path else ""
        state: dict[str, Any] = {}
        if not compiled:
            # What code appends to a list of its module's must not end up there.
            state = {name: copy.copy(v) if type(v) in (list, dict, set) else v for name, v in vars(module).items()}
            children = {
                name: None if child is None else self._copied(child, prefix + name)
                for name, child in module._modules.items()
            }
            lend = partial(self._lent, prefix)
            state |= {name: type(state[name])() for name in _HOOKS if name in state}
            state["_modules"] = children
            state["_parameters"] = _Lent(module._parameters, lend)
            state["_buffers"] = _Lent(module._buffers, lend)
            state["_compiled_call_impl"] = None
            state["training"] = self._training
        contains = (
            any(
                layer is not None and layer.path.startswith(prefix) and layer.path != path
                for layer in (self._start, self._stop)
            )
            or not path
        )
        if contains and (compiled or "forward" in state or any(vars(module).get(name) for name in _HOOKS)):
            state["forward"] = partial(_refuse, f"'{path or 'the network'}' has hooks, or is compiled")
        else:
            state["forward"] = partial(self._called, path, made if contains else None)
        if not compiled and type(module).__call__ is not nn.Module.__call__:
            state["forward"] = partial(_refuse, f"'{path or 'the network'}' has a __call__ of its own")
        made.__dict__.update(state)
        self._contents.append((made, _contents(made)))
        return made

    def _called(self, path: str, opened: nn.Module | None, *args: Any, **kwargs: Any) -> Any:
        """A module is called: one step, or, where it contains the layer, its own code."""
        if opened is None:
            output: Any = self.create_proxy("call_module", path, args, kwargs)
        else:
            output = type(opened).forward(opened, *args, **kwargs)
            if self._stop is not None and path and self._stop.path.startswith(f"{path}."):
                # Somebody may have hooks on it, which its code alone does not run.
                raise Untraceable(f"'{path}' is called before '{self._stop.path}' is reached in it")
        self._calls[path] = self._calls.get(path, 0) + 1
        if self._start == (path, self._calls[path]):
            assert isinstance(output, Proxy)
            self._start_node = output.node
        if self._stop == (path, self._calls[path]):
            raise _Stopped(output)
        return output

    def _lent(self, prefix: str, name: str) -> Proxy:
        """A parameter or a buffer, as the network has it when the code is run."""
        return self.create_proxy("get_attr", f"{prefix}{name}", (), {})


class _Lent(dict[str, Any]):
    """Parameters or buffers of a module, of which code on symbols gets symbols."""

    def __init__(self, tensors: Mapping[str, Tensor | None], lend: Callable[[str], Proxy]) -> None:
        super().__init__(tensors)
        self._lend = lend

    def __getitem__(self, name: str) -> Proxy | None:
        return None if super().__getitem__(name) is None else self._lend(name)

    def items(self) -> NoReturn:
        """Not on symbols: what code finds out about tensors by going through all of them may change."""
        raise Untraceable("its code goes through all parameters or buffers of a module")

    values = items


def _behind(graph: Graph, start: Node, images: Node, result: Any, path: str) -> Graph:
    """The steps behind a layer, as a function of its output alone."""
    steps = list(graph.nodes)
    position = steps.index(start)
    from_images = {images}
    for node in steps[:position]:
        if any(used in from_images for used in node.all_input_nodes):
            from_images.add(node)
    behind = Graph()
    copies: dict[Node, Node] = {start: behind.placeholder("values")}

    def copied(node: Node) -> Node:
        if node not in copies:
            if node in from_images:
                raise Inseparable(f"what goes around '{path}' is needed behind it")
            copies[node] = behind.node_copy(node, copied)  # a parameter, or made of nothing else
        return copies[node]

    for node in steps[position + 1 :]:
        copies[node] = behind.node_copy(node, copied)
    behind.output(torch.fx.map_arg(result, copied))
    return behind


def _refuse(why: str, *args: Any, **kwargs: Any) -> NoReturn:
    raise Untraceable(why)


def _contents(module: nn.Module) -> dict[str, Any]:
    """What a module's attributes are, and what lists, dictionaries and sets among them hold; by identity."""
    return {
        name: (id(value), [*map(id, value.values() if type(value) is dict else value)])
        if type(value) in (list, dict, set)
        else id(value)
        for name, value in vars(module).items()
    }


def _switches() -> tuple[Any, ...]:
    """What a `with` statement can change for every operation inside it; torch keeps it for each thread."""
    devices = ("cpu", "cuda")
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        *(torch.is_autocast_enabled(device) for device in devices),
        *(torch.get_autocast_dtype(device) for device in devices),
    )


@contextmanager
def _switched(enabled: bool) -> Iterator[None]:
    """Gradients and autocast all on, or all off: code that sets either to one value is found out by the other."""
    before = {device: torch.is_autocast_enabled(device) for device in ("cpu", "cuda")}
    try:
        for device in before:
            torch.set_autocast_enabled(device, enabled)
        with torch.inference_mode(not enabled), torch.set_grad_enabled(enabled):
            yield
    finally:
        for device, was in before.items():
            torch.set_autocast_enabled(device, was)


def _random_states() -> tuple[Any, ...]:
    numpy = np.random.get_state(legacy=False)["state"]  # noqa: NPY002 (looked at, not used)
    return random.getstate(), bytes(numpy["key"]), numpy["pos"], bytes(torch.get_rng_state().numpy())
