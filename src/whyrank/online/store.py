"""Where exposures, events, experiments and studies are: SQLite (synced on commit) or PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from whyrank.errors import MissingExtra, ParameterError

try:
    import sqlalchemy as sa
except ImportError as missing:
    raise MissingExtra("serve", "the store") from missing

from whyrank.online.erased import ErasedUsers
from whyrank.online.tables import create_tables, metadata

WAIT = 10  # seconds that a writer waits for another one
DATABASES = ("sqlite", "postgresql")  # those it is tested with; MySQL cannot index our keys
Result = TypeVar("Result")


class StoreDamaged(Exception):  # noqa: N818
    """The store holds what was never stored there."""


class NotInStore(ParameterError):  # noqa: N818
    """What is asked for is not in the store. The message does not name the store."""


class Store:
    """A database with our tables. Every write is committed, and on disk, before the call returns.

    Args:
        place: the path of a SQLite file, or a URL such as postgresql+psycopg://user@host/name.
    """

    def __init__(self, place: str) -> None:
        self.url = place if "://" in place else f"sqlite:///{place}"
        self.damaged = self.untidy = False
        self.erased = ErasedUsers()
        shown = shown_url(self.url)
        try:
            parsed = sa.make_url(self.url)
            if parsed.get_backend_name() not in DATABASES:
                raise ParameterError(f"the store {shown} is not one of {' and '.join(DATABASES)}")
            sqlite = parsed.get_backend_name() == "sqlite"
            extra: dict[str, Any] = {"connect_args": {"timeout": WAIT}} if sqlite else {}
            # Parameters hold tokens of participants and do not belong into messages, which are logged.
            self.engine = sa.create_engine(parsed, pool_pre_ping=True, hide_parameters=True, **extra)
            if sqlite:
                sa.event.listen(self.engine, "connect", _prepare_sqlite)
                sa.event.listen(self.engine, "begin", _begin)
        except ModuleNotFoundError as error:
            what = f"the store {shown} needs the package {error.name!r}"
            hint = "for PostgreSQL: pip install 'whyrank[postgres]'"
            raise ParameterError(f"{what}; {hint}") from error
        except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError) as error:
            hint = "use a path such as whyrank.db, or postgresql+psycopg://user@host/name"
            raise ParameterError(f"the store {shown} is not a database URL; {hint}") from error

    @property
    def writers(self) -> int:
        """How many may write at once; more would only wait for each other."""
        return 1 if self.engine.dialect.name == "sqlite" else 4

    @property
    def exists(self) -> bool:
        """Whether there is something to read: a SQLite file that is not there would be made."""
        file = self.engine.url.database
        return self.engine.dialect.name != "sqlite" or bool(file and Path(file).is_file())

    def create(self) -> Store:
        """Make the tables that are not there yet."""
        try:
            with self.writing() as connection:
                if self.engine.dialect.name == "postgresql":  # two workers may start at once
                    connection.execute(sa.text("SELECT pg_advisory_xact_lock(7769987)"))
                create_tables(connection)
        except (sa.exc.SQLAlchemyError, ValueError) as error:  # ValueError: not even the driver reads it
            problem = first_line(getattr(error, "orig", None) or error)
            raise ParameterError(f"the store {shown_url(self.url)} cannot be used: {problem}") from error
        return self

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Open a transaction: all of it is committed, or nothing."""
        with self.engine.begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Open a transaction that sees one state of the database and changes nothing."""
        with self.engine.connect() as connection:
            yield connection.execution_options(only_reads=True)

    def guarded(self, work: Callable[[], Result]) -> Result:
        """Call what uses the store, and remember a damaged one.

        Damage shows as an error of the database, or as values that nobody stored.
        """
        try:
            return work()
        except (sa.exc.OperationalError, sa.exc.IntegrityError, sa.exc.TimeoutError):
            raise  # a lock, no room, a repetition
        except sa.exc.SQLAlchemyError:
            self.damaged = True
            raise
        except (ValueError, TypeError, LookupError) as error:
            self.damaged = True
            raise StoreDamaged(f"{type(error).__name__} in what it holds") from error

    def check(self) -> None:
        """Raise unless every table can be read; look through all of a SQLite file after damage."""
        with self.reading() as connection:
            for table in metadata.sorted_tables:
                connection.execute(sa.select(table).limit(1)).all()
            if self.damaged and self.engine.dialect.name == "sqlite":
                found = connection.execute(sa.text("PRAGMA quick_check(1)")).scalar()
                if found != "ok":
                    raise StoreDamaged(str(found))
        self.damaged = False

    def tidy(self) -> bool:
        """Remove what was overwritten from SQLite's log; False where somebody uses it just then.

        It waits for nobody, since writers would wait with it; `untidy` says that it is still to do.
        """
        if self.engine.dialect.name != "sqlite":
            return True
        self.untidy = True
        with suppress(sqlite3.Error), closing(self.engine.raw_connection()) as connection:
            cursor = connection.cursor()
            try:
                cursor.execute("PRAGMA busy_timeout=0")
                self.untidy = bool(cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
            finally:
                cursor.execute(f"PRAGMA busy_timeout={1000 * WAIT}")
                cursor.close()
        return not self.untidy

    def close(self) -> None:
        self.engine.dispose()


def first_line(error: object) -> str:
    """Say what is wrong, without the lines in which PostgreSQL quotes values, such as tokens."""
    return (str(error).strip().splitlines() or ["unknown"])[0]


def now() -> str:
    """Return the time, in UTC, as it is stored and shown."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def shown_url(url: str) -> str:
    """Return a URL without its password."""
    if "://" not in url:
        return url
    try:
        return sa.make_url(url).render_as_string(hide_password=True)
    except sa.exc.ArgumentError:
        return repr(url)


def _prepare_sqlite(connection: Any, _record: object) -> None:
    """Readers never wait for the writer; a commit is on disk; what is deleted is overwritten."""
    connection.isolation_level = None  # transactions are begun below, not by the driver
    for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
        connection.execute(f"PRAGMA {setting}").close()


def _begin(connection: sa.Connection) -> None:
    """Writers queue from the start; one that upgrades midway would fail instead of waiting."""
    only_reads = connection.get_execution_options().get("only_reads")
    connection.exec_driver_sql("BEGIN" if only_reads else "BEGIN IMMEDIATE")
