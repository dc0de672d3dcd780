"""Packages that not everybody needs, and how to get them: the extras of ``pip install 'pixpnet[...]'``.

The package itself looks at fields, opens models, predicts, explains and proves. What trains, draws, searches or serves
is imported when it is used; where it is missing, the error says who wanted it, what it wanted, and what to type.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec

# The packages that are imported for each extra, first the one whose lack is reported first; as in pyproject.toml.
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "train": ("pytorch_lightning", "lightning_fabric", "torchmetrics", "scipy"),
    "views": ("matplotlib", "jinja2"),
    "web": ("starlette", "uvicorn"),
    "search": ("optuna", "sqlalchemy", "psycopg"),
    "timm": ("timm",),
}


class MissingExtra(ModuleNotFoundError):
    """A package that is not installed, of an extra; the message says who wanted it and how to get it."""


def missing_extra(error: ModuleNotFoundError, who: str) -> MissingExtra | None:
    """The error to report instead, where a module of an extra is what was not found; else None.

    >>> print(missing_extra(ModuleNotFoundError(name="matplotlib.figure"), "pixpnet fields --figure"))
    pixpnet fields --figure needs matplotlib, which is not installed: pip install 'pixpnet[views]'
    >>> missing_extra(ModuleNotFoundError(name="mine"), "pixpnet fields")
    """
    if isinstance(error, MissingExtra):
        return error
    package = (error.name or "").partition(".")[0]
    for extra, packages in EXTRAS.items():
        if package in packages:
            return _missing(package, extra, who)
    return None


@contextmanager
def wanted_by(who: str) -> Iterator[None]:
    """Around imports that an extra is needed for.

    Args:
        who: the function or command that wants it, as a user calls it.

    Raises:
        MissingExtra: if a package of an extra is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = missing_extra(error, who)
        if missing is None or missing is error:
            raise
        raise missing from error


def require(who: str, *extras: str) -> None:
    """Says at once, before any work is done, that a package will be missing.

    Args:
        who: the function or command that wants it, as a user calls it.
        extras: their names.

    Raises:
        MissingExtra: if a package of one of them is not installed.
    """
    for extra in extras:
        for package in EXTRAS[extra]:
            if find_spec(package) is None:
                raise _missing(package, extra, who)


def _missing(package: str, extra: str, who: str) -> MissingExtra:
    return MissingExtra(f"{who} needs {package}, which is not installed: pip install 'pixpnet[{extra}]'", name=package)
