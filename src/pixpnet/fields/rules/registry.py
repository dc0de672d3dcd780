"""The table of rules, and what a rule gets to see of the call that it explains.

A rule answers one question for one operation: which elements of its inputs does each element of its output
read? It is written in terms of `Sources` and never looks at the architecture around it. To add one:

>>> import torch
>>> from pixpnet.fields import Call, Sources, rule
>>> with torch.library._scoped_library("example", "DEF") as library:
...     _ = library.define("blur_rows(Tensor x) -> Tensor")  # reads the row above, the row and the row below
...     @rule(torch.ops.example.blur_rows.default)
...     def blur_rows(call: Call) -> Sources:
...         sources = call.sources("x")
...         return sources.take(2, window_taps(sources.shape[2], sources.shape[2], kernel=3, padding=1))
>>> from pixpnet.fields.rules.taps import window_taps
>>> RULES.pop(blur_rows.operations[0]).__name__
'blur_rows'
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from pixpnet.fields.rules.taps import Reach
from pixpnet.fields.sources import Sources

# What a rule returns: the sources of the result, or of each of several results (None: of no use to anyone).
Answer = Sources | Sequence[Sources | None]


@dataclass(frozen=True)
class View:
    """How a view reads its base and, where it can be written through, what the base reads afterwards."""

    read: Callable[[Sources], Sources]
    write: Callable[[Sources, Sources], Sources] | None = None


@dataclass(frozen=True)
class Call:
    """One call of an operation: its arguments by name, their sources, and the shapes of its results."""

    operation: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shapes: tuple[tuple[int, ...], ...]
    space: tuple[int, ...]
    read: Callable[[Tensor], Sources]
    constant: Callable[[Tensor], Tensor | None]
    reach: Callable[[Tensor], Reach | None]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the (first) result."""
        return self.shapes[0]

    def __getitem__(self, name: str) -> Any:
        """The argument called ``name`` in the operation's schema, or its default."""
        position, default = _parameters(self.operation)[name]
        if position < len(self.args):
            return self.args[position]
        return self.kwargs.get(name, default)

    def get(self, name: str, default: Any = None) -> Any:
        """The argument called ``name``, or ``default`` where the operation has none of that name."""
        if name not in self:
            return default
        return self[name]

    def __contains__(self, name: str) -> bool:
        """Whether the operation's schema has an argument of that name."""
        return name in _parameters(self.operation)

    def sources(self, name: str) -> Sources:
        """The sources of the tensor argument ``name``; nothing for None and for numbers."""
        return self.sources_of(self[name])

    def sources_of(self, argument: Any) -> Sources:
        """The sources of an argument; nothing for None and for numbers."""
        return self.read(argument) if isinstance(argument, Tensor) else self.nothing(())

    def every_source(self) -> list[Sources]:
        """The sources of all tensor arguments, lists included, in order."""
        sources = []
        for argument in (*self.args, *self.kwargs.values()):
            for item in argument if isinstance(argument, (list, tuple)) else (argument,):
                if isinstance(item, Tensor):
                    sources.append(self.read(item))
        return sources

    def nothing(self, shape: Sequence[int]) -> Sources:
        """Sources of a result that does not depend on the input."""
        return Sources.nothing(shape, self.space)


class Rule:
    """A function that answers for some operations; what ``@rule(...)`` makes of it."""

    def __init__(self, answer: Callable[[Call], Answer], operations: tuple[OpOverload, ...]) -> None:
        self.answer = answer
        self.operations = operations
        self.__name__ = answer.__name__
        self.__doc__ = answer.__doc__

    def __call__(self, call: Call) -> Answer:
        """What the operation reads."""
        return self.answer(call)


RULES: dict[OpOverload, Rule] = {}
VIEWS: dict[OpOverload, Callable[[Call], View | list[View]]] = {}


def rule(*operations: Any) -> Callable[[Callable[[Call], Answer]], Rule]:
    """Registers a receptive-field rule for operations such as ``torch.ops.aten.relu.default``.

    The in-place form of an operation needs no rule of its own. A later rule replaces an earlier one.

    Args:
        operations: overloads (``torch.ops.aten.sum.dim_IntList``) or packets, which stand for all of theirs.
    """
    overloads = tuple(overload for operation in operations for overload in _overloads(operation))

    def register(answer: Callable[[Call], Answer]) -> Rule:
        made = Rule(answer, overloads)
        RULES.update(dict.fromkeys(overloads, made))
        return made

    return register


def view(*operations: Any) -> Callable[[Callable[[Call], View | list[View]]], Callable[[Call], Any]]:
    """Registers how operations that return views read (and write through to) their base."""

    def register(answer: Callable[[Call], View | list[View]]) -> Callable[[Call], View | list[View]]:
        VIEWS.update(
            dict.fromkeys((overload for operation in operations for overload in _overloads(operation)), answer)
        )
        return answer

    return register


def find_rule(operation: OpOverload) -> tuple[Rule, OpOverload] | None:
    """The rule for an operation, and the operation it answers for: for ``relu_`` that is ``relu``."""
    for form in (operation, functional_form(operation)):
        if form in RULES:
            return RULES[form], form
        if form is not None and torch.Tag.pointwise in form.tags:
            return pointwise, form
    return None


@cache
def functional_form(operation: OpOverload) -> OpOverload | None:
    """``relu`` for ``relu_``; None where there is none."""
    namespace, name = operation._schema.name.split("::")
    if not name.endswith("_") or name.endswith("__"):
        return None
    packet = getattr(getattr(torch.ops, namespace), name.removesuffix("_"), None)
    if packet is None:
        return None
    # The names of overloads need not agree (transpose_.default, transpose.int); what they take does.
    forms = [getattr(packet, overload) for overload in packet.overloads()]
    takes = [argument.name for argument in operation._schema.arguments]
    same = [form for form in forms if [argument.name for argument in form._schema.arguments] == takes]
    return next((form for form in same if form._overloadname == operation._overloadname), next(iter(same), None))


def _pointwise(call: Call) -> Sources:
    """Every element reads the same element of each argument, broadcast."""
    union = Sources.union([*call.every_source(), call.nothing(())])
    return union.expand(call.shape)


pointwise = Rule(_pointwise, ())


def _overloads(operation: Any) -> list[OpOverload]:
    if isinstance(operation, OpOverload):
        return [operation]
    return [
        getattr(operation, name)
        for name in operation.overloads()
        if not name.endswith("out") and "Tensor" in str(getattr(operation, name)._schema)
    ]


@cache
def _parameters(operation: OpOverload) -> dict[str, tuple[int, Any]]:
    arguments = operation._schema.arguments
    return {
        argument.name: (position, argument.default_value if argument.has_default_value() else None)
        for position, argument in enumerate(arguments)
    }
