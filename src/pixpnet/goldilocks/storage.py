"""Where the trials of a search are kept: a SQLite file for one machine, a PostgreSQL server for several.

`Storage.exclusively` keeps all other workers of the storage out for a moment. Optuna alone does not: its way of taking
a waiting trial locks a row, which SQLite has no notion of, and its `enqueue_trial` says itself that two processes may
enqueue one trial twice. `Storage.now` is one clock for all workers.
"""

import logging
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pixpnet.file_lock import lock
from pixpnet.goldilocks.errors import SearchError
from pixpnet.messages import first_line

if TYPE_CHECKING:
    from optuna.storages import RDBStorage
    from sqlalchemy import Engine

_LOCK = 0x676F6C64  # one number for all searches of a server; it is held for moments
_PATIENCE = 60  # seconds that a process waits for another to finish writing


@dataclass(frozen=True)
class Storage:
    """An open storage.

    Attributes:
        trials: optuna's, to be handed to its studies.
        engine: connections of our own, for what optuna has no notion of.
    """

    trials: "RDBStorage"
    engine: "Engine"

    @property
    def address(self) -> str:
        """Without its password."""
        return self.engine.url.render_as_string(hide_password=True)

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """No two workers are inside at a time; the lock of one that dies is freed by the system or the server."""
        import sqlalchemy

        if self._is_file:
            with _file_lock(self.engine.url):
                yield
        else:
            with self.engine.connect() as connection, connection.begin():
                connection.execute(sqlalchemy.text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
                yield

    def now(self) -> float:
        """Seconds, by the one clock that all workers of this storage see: the server's, or that of the machine."""
        import sqlalchemy

        if self._is_file:
            return time.time()
        with self.engine.connect() as connection:
            return float(
                connection.execute(sqlalchemy.text("SELECT EXTRACT(EPOCH FROM clock_timestamp())")).scalar_one()
            )

    def close(self) -> None:
        """Gives all connections back."""
        self.trials.remove_session()
        self.trials.engine.dispose()
        self.engine.dispose()

    @property
    def _is_file(self) -> bool:
        return self.engine.dialect.name == "sqlite"


def open_storage(url: str) -> Storage:
    """Opens or makes a storage.

    Args:
        url: ``sqlite:///FILE`` or ``postgresql://USER:PASSWORD@HOST/DATABASE``.

    Raises:
        SearchError: if it cannot be reached or is damaged, or a package is missing.
    """
    for package in ("optuna", "sqlalchemy"):
        if find_spec(package) is None:
            raise SearchError(f"a search needs {package}: pip install 'pixpnet[search]'")
    import sqlalchemy
    from optuna.storages import RDBStorage

    try:
        address = sqlalchemy.make_url(url)
    except sqlalchemy.exc.ArgumentError as error:
        # It is not shown: what cannot be taken apart may have a password anywhere in it.
        raise SearchError(
            "what --storage says is no address: write sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"
        ) from error
    kind = address.get_backend_name()
    if kind not in ("sqlite", "postgresql") or (kind == "sqlite" and address.database in (None, "", ":memory:")):
        raise SearchError(f"--storage {address} should be sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE")
    if kind == "postgresql":
        if find_spec("psycopg") is None:
            raise SearchError("a search on PostgreSQL needs psycopg: pip install 'pixpnet[search]'")
        address = address.set(drivername="postgresql+psycopg")
    else:
        Path(str(address.database)).parent.mkdir(parents=True, exist_ok=True)
    arguments = {"connect_args": {"timeout": _PATIENCE}} if kind == "sqlite" else {"pool_pre_ping": True}
    with answering(str(address)), quiet(), _file_lock(address):
        trials = RDBStorage(address.render_as_string(hide_password=False), engine_kwargs=arguments)
        return Storage(trials, sqlalchemy.create_engine(address, **arguments))


@contextmanager
def answering(address: str) -> Iterator[None]:
    """Turns what a storage raises into words.

    Raises:
        SearchError: with what to do.
    """
    import sqlalchemy
    from optuna.exceptions import StorageInternalError

    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, StorageInternalError) as error:
        cause = error.__cause__ if isinstance(error, StorageInternalError) and error.__cause__ else error
        raise SearchError(
            f"the storage {address} cannot be used ({first_line(cause)}). What is finished is kept there: when the "
            "cause is gone, the same command goes on. A damaged SQLite file has to be deleted, and the search begins "
            "anew"
        ) from error


@contextmanager
def _file_lock(address: "object") -> Iterator[None]:
    import sqlalchemy

    assert isinstance(address, sqlalchemy.URL)
    if address.get_backend_name() != "sqlite":
        yield
        return
    with Path(f"{address.database}.lock").open("w") as file:
        lock(file)
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Optuna says which of its features are experimental, and what it creates."""
    from optuna.exceptions import ExperimentalWarning

    logger = logging.getLogger("optuna")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore", category=ExperimentalWarning):
            yield
    finally:
        logger.setLevel(level)
