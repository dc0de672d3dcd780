"""The fields of all layers of a network, by name (FunctionalRF, paper Sec. 4 and App. C)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from torch import nn

from pixpnet import zoo
from pixpnet.fields.errors import UnknownValue
from pixpnet.fields.field import Field
from pixpnet.fields.table import FieldTable, Row
from pixpnet.fields.trace import Layer, trace


class UnknownLayer(KeyError):
    """A name that is no layer of the network; the message names the nearest ones."""

    def __str__(self) -> str:
        return str(self.args[0])


class Fields(Mapping[str, Field]):
    """A mapping from the path of each module to the field of its output, in the order of execution.

    - ``fields[""]`` is the model's own output.
    - A module that is called several times has one field for each call: ``fields["relu#1"]`` is the first,
      ``fields["relu#2"]`` the second and so on; plain ``fields["relu"]`` is the last.
    - A module that returns several tensors has one field for each: ``fields["branch[0]"]``, or
      ``fields["branch[out]"]`` where it returns a dictionary.
    - The paper's layer names (``"maxpool4"``) work as well for torchvision's models.
    """

    def __init__(
        self,
        layers: list[Layer],
        input_shape: tuple[int, ...],
        names: Mapping[str, str],
        twins: Mapping[str, str],
    ) -> None:
        """Fields of traced layers.

        Args:
            layers: what the trace saw, in order.
            input_shape: channels, then the size of the input.
            names: other names that people use for paths, such as the paper's.
            twins: further paths of modules that are registered more than once, each with the path that is used here.
        """
        self.input_shape = input_shape
        self.names = dict(names)
        self._twins = dict(twins)
        last = {layer.path: layer.call for layer in layers}
        self._fields: dict[str, Field] = {}
        self._calls: dict[str, Field] = {}
        self._parts: dict[tuple[str, int], list[str]] = {}
        made: dict[int, Field] = {}
        for layer in layers:
            sources = layer.sources
            if len(sources.shape) > 1 and sources.shape[0] == 1:
                sources = sources.squeeze([0])
            field = made.setdefault(id(layer.sources), Field(sources))
            numbered = f"{layer.path}#{layer.call}{layer.part}"
            self._calls[numbered] = field
            self._parts.setdefault((layer.path, layer.call), []).append(numbered)
            self._fields[layer.path + layer.part if layer.call == last[layer.path] else numbered] = field

    def __getitem__(self, layer: str) -> Field:
        for name in (layer, self.names.get(layer), self._twins.get(layer)):
            if name in self._fields:
                return self._fields[name]
            if name in self._calls:
                return self._calls[name]
        raise UnknownLayer(self._why_unknown(layer))

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def names_of_call(self, path: str, call: int) -> list[str]:
        """The names of the tensors that one call of a module returned, calls counted from 1; none if it was not run."""
        return self._parts.get((path, call), [])

    def calls(self) -> set[tuple[str, int]]:
        """The modules that were run, and the number of the call."""
        return set(self._parts)

    def table(self) -> FieldTable:
        """The layers in order with output shape, mean fields, stride, field size and solidity."""
        by_path = {path: name for name, path in self.names.items()}
        return FieldTable(
            tuple(
                Row(
                    name or "(output)",
                    by_path.get(name, ""),
                    field.shape,
                    field.mean_fraction,
                    field.mean_fraction_union,
                    field.stride,
                    field.size,
                    field.is_solid,
                )
                for name, field in self._fields.items()
            )
        )

    def _repr_html_(self) -> str:
        from pixpnet.fields.notebook import html_of_fields

        return html_of_fields(self)

    def _why_unknown(self, layer: str) -> str:
        parts = [name for name in self._fields if name.startswith(f"{layer}[")]
        if parts:
            return f"'{layer}' returns {len(parts)} tensors; choose one of {', '.join(map(repr, parts))}"
        candidates = [*self._fields, *self._calls, *self.names]
        near = get_close_matches(layer, candidates, n=5, cutoff=0.4)
        hint = f"the nearest are {', '.join(map(repr, near))}" if near else "print(fields.table()) lists them all"
        return f"no layer '{layer}' was run; {hint}"


def receptive_fields(model: nn.Module | str, input_shape: tuple[int, ...], verify: int = 0) -> Fields:
    """Computes the exact set of input pixels of every neuron of every layer of a network.

    The network's code runs once on tensors without data: no weight is copied or used, and the model stays
    exactly as it was. It is taken in the mode it is in: batch normalisation in training mode reads the
    whole image, so call ``model.eval()`` first for the fields at inference. A name is built in eval mode.

    Args:
        model: any module without control flow that depends on the image, or a name: a torchvision model,
            ``"timm:NAME"``, ``"small"`` (or ``"small-61"``, by the side of its field) or ``"module.path:callable"``.
        input_shape: channels, then the size of the input: ``(3, 224, 224)``. One to three axes may follow
            the channels.
        verify: at how many pixels to check every layer against the real network with the NaN probe: corners and
            centre first, then random ones. One forward pass in double precision on the CPU for each. A network that
            is given by its name is built with random weights for that.

    Raises:
        FieldMismatch: the probe saw other fields than those that were computed (an `UnsupportedOperation`).
        UnsupportedOperation: the network uses an operation whose dependence on its input is not known. There
            is no fallback; ``pixpnet.rule`` teaches a new one.

    Example:
        >>> import pixpnet as px
        >>> fields = px.receptive_fields("vgg16", (3, 224, 224))
        >>> f"{fields['maxpool4'].mean_fraction:.1%}"
        '15.7%'
        >>> fields["features.23"].boxes(0, 0)
        [Box(y0=0, x0=0, y1=58, x1=58)]

        Code of your own, checked at 8 pixels:

        >>> own = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU())
        >>> px.receptive_fields(own, (3, 9, 9), verify=8)["0"].boxes(1, 1)
        [Box(y0=2, x0=2, y1=5, x1=5)]
    """
    if not isinstance(model, (nn.Module, str)):
        raise TypeError(f"the model is a torch.nn.Module, or the name of one, got {type(model).__name__}")
    input_shape = tuple(input_shape)
    if not 2 <= len(input_shape) <= 4 or any(not isinstance(n, int) or n < 1 for n in input_shape):
        raise ValueError(
            f"input_shape {input_shape} should be channels followed by the size of the input, such as (3, 224, 224)"
        )
    if verify < 0:
        raise ValueError(f"verify={verify}: the number of pixels to check cannot be negative")
    if isinstance(model, str):
        if not verify:
            return traced_by_name(model, input_shape).fields
        name, model = model, zoo.build(model, input_size=_sides(input_shape))
    else:
        name = type(model).__name__
    fields = Fields(trace(model, input_shape), input_shape, zoo.paper_names(model), _twins(model))
    if verify:
        from pixpnet.fields.verify import refuse_unless_verified, verify_fields  # which computes fields itself

        refuse_unless_verified(verify_fields(model, input_shape, verify, fields=fields), name)
    return fields


@dataclass(frozen=True)
class TracedByName:
    """A network from the zoo, as cheap as it can be had to look at its fields, and these."""

    network: nn.Module
    fields: Fields


def traced_by_name(name: str, input_shape: tuple[int, ...]) -> TracedByName:
    """Builds a network without values where that will do, and computes its fields."""
    network = zoo.build(name, device="meta", input_size=_sides(input_shape))
    try:
        return TracedByName(network, receptive_fields(network, input_shape))
    except UnknownValue:
        # A few networks index with tables in their buffers, which have no values on the meta device.
        network = zoo.build(name, input_size=_sides(input_shape))
        return TracedByName(network, receptive_fields(network, input_shape))


def _sides(input_shape: tuple[int, ...]) -> tuple[int, int]:
    """Height and width."""
    return input_shape[-2], input_shape[-1]


def _twins(model: nn.Module) -> dict[str, str]:
    first: dict[int, str] = {}
    paths = [(path, first.setdefault(id(m), path)) for path, m in model.named_modules(remove_duplicate=False)]
    return {path: known for path, known in paths if path != known}
