"""Weights from files, read without running any code in them."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from pixpnet.messages import first_line

_SHOWN = 5
# Counts batches while training; files written by other libraries often lack it, and nothing depends on it.
_OPTIONAL = "num_batches_tracked"
_WRAPPINGS = ("state_dict", "model_state_dict", "model")


class WeightsError(ValueError):
    """A file of weights that cannot be used; the message says why and what to do."""


def read_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a ``.safetensors`` file, or of a file written by ``torch.save`` that holds nothing else.

    Raises:
        WeightsError: if there is no such file or it is not of that kind.
    """
    if not path.is_file():
        raise WeightsError(f"there is no file of weights {path}")
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except (SafetensorError, OSError) as error:
            raise WeightsError(f"{path} is damaged or no safetensors file: {error}") from error
    try:
        # Any protocol is read safely or refused; which one a file has is nothing to tell a person about.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Detected pickle protocol", UserWarning)
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # what a damaged pickle raises is anything from IndexError to AssertionError
        raise WeightsError(
            f"{path} cannot be read as plain tensors, and nothing else is read, since a pickle can run any code: "
            f"save a state dict, torch.save(model.state_dict(), path) ({first_line(error)})"
        ) from error
    return _tensors_in(state, path)


def load_weights(
    network: nn.Module, path: Path, convert: Callable[[dict[str, Tensor]], dict[str, Tensor]] | None = None
) -> None:
    """Fills a network, which may be cut, from a file whose tensors have the same names; further ones may be there.

    Args:
        network: to be filled.
        path: of the file.
        convert: from the file's tensors to the network's, where they do not fit as they are: other names, or a position
            embedding for another size.

    Raises:
        WeightsError: if a tensor is missing or has another shape.
    """
    state = read_state(path)
    wanted = network.state_dict()
    missing, shapes = _misfits(state, wanted)
    if (missing or shapes) and convert is not None:
        try:
            converted = convert(state)
        except (LookupError, AttributeError, RuntimeError, ValueError):
            converted = state  # a file of another network, which is what the message below says
        if not any(_misfits(converted, wanted)):
            state, missing, shapes = converted, [], []
    if missing or shapes:
        raise WeightsError(_mismatch(path, missing, shapes, state, wanted))
    fitting = {name: state[name] for name in wanted if name in state}
    network.load_state_dict(fitting, strict=False)


def _misfits(state: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> tuple[list[str], list[str]]:
    """Names of tensors that are missing, and of those with other shapes what differs."""
    missing = [name for name in wanted if name not in state and not name.endswith(_OPTIONAL)]
    shapes = [
        f"{name} is {_shape(state[name])} there and {_shape(tensor)} here"
        for name, tensor in wanted.items()
        if name in state and state[name].shape != tensor.shape
    ]
    return missing, shapes


def on_their_own(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors for a file, which holds each once: cloned, because a module may be registered under two names."""
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.items()}


def _tensors_in(state: object, path: Path) -> dict[str, Tensor]:
    if isinstance(state, Mapping):
        inner = next((state[name] for name in _WRAPPINGS if isinstance(state.get(name), Mapping)), state)
        tensors = {name: value for name, value in inner.items() if isinstance(name, str) and isinstance(value, Tensor)}
        if tensors:
            return tensors
    raise WeightsError(f"{path} holds no state dict, but a {type(state).__name__} without named tensors")


def _mismatch(
    path: Path, missing: list[str], shapes: list[str], state: Mapping[str, Tensor], wanted: Mapping[str, Tensor]
) -> str:
    lines = [f"{path} does not fit this backbone:"]
    if missing:
        lines.append(f"{len(missing)} of {len(wanted)} tensors are missing: {_some(missing)}")
        unknown = [name for name in state if name not in wanted]
        lines.append(f"it holds {len(state)}, such as {_some(unknown or list(state))}")
        for name in missing[:1]:
            longer = [known for known in unknown if known.endswith(f".{name}")]
            if longer:
                prefix = longer[0].removesuffix(name)
                lines.append(f"its names begin with {prefix!r}: save it without that prefix")
    if shapes:
        lines.append(f"{len(shapes)} have other shapes: {_some(shapes)}")
    return "\n  ".join(lines)


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "a number"
