"""Beartype that looks at a function when it is called for the first time.

The hook of jaxtyping decorates every function of the package twice when it is imported: some ten seconds of CPU time in
each process of the tests, most of it for functions that the process never calls.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from beartype import BeartypeConf, beartype

_CONF = BeartypeConf(is_pep484_tower=True)


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its annotations checked in every call.

    >>> def half(number: int) -> float: return number / 2
    >>> checked(half)(3)
    1.5
    >>> checked(half)("3")
    Traceback (most recent call last):
    beartype.roar.BeartypeCallHintParamViolation: ...
    """
    decorated: Callable[..., Any] | None = None

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal decorated
        if decorated is None:
            decorated = beartype(function, conf=_CONF)
        return decorated(*args, **kwargs)

    return call
