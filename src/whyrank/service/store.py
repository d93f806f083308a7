"""Where feedback and studies are kept: SQLite (write-ahead log, synced on every commit), or any SQLAlchemy URL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from whyrank.errors import MissingExtra, ParameterError

try:
    import sqlalchemy as sa
except ImportError as missing:
    raise MissingExtra("serve", "the service") from missing

WAIT = 10  # seconds that a writer waits for another one
metadata = sa.MetaData()

feedback = sa.Table(
    "whyrank_feedback",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("key", sa.Text, unique=True),  # chosen by the client, so that a retry counts once
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("user", sa.Text, nullable=False),
    sa.Column("item", sa.Text, nullable=False),
    sa.Column("explanation", sa.Text),
    sa.Column("model", sa.Text),
    sa.Column("rank", sa.Integer),
)
studies = sa.Table(
    "whyrank_study",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("a", sa.Text, nullable=False),
    sa.Column("b", sa.Text, nullable=False),
    sa.Column("n", sa.Integer, nullable=False),
    sa.Column("agreement", sa.Integer, nullable=False),
    sa.Column("ties", sa.Boolean, nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("question", sa.Text, nullable=False),
    sa.Column("created", sa.Text, nullable=False),
)
cases = sa.Table(
    "whyrank_study_case",
    metadata,
    sa.Column("study", sa.ForeignKey(studies.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("user", sa.Text, nullable=False),
    sa.Column("item", sa.Text, nullable=False),
    sa.Column("title", sa.Text),
    sa.Column("truth", sa.JSON, nullable=False),
    sa.Column("a", sa.JSON, nullable=False),
    sa.Column("b", sa.JSON, nullable=False),
)
participants = sa.Table(
    "whyrank_participant",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("study", sa.ForeignKey(studies.c.id, ondelete="CASCADE"), nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("token", sa.Text, nullable=False, unique=True),
    sa.Column("seed", sa.BigInteger, nullable=False),  # of the order and the sides
    sa.UniqueConstraint("study", "number"),
)
study_answers = sa.Table(
    "whyrank_answer",
    metadata,
    sa.Column("participant", sa.ForeignKey(participants.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),  # of the case: one answer each, whatever is sent twice
    sa.Column("choice", sa.Text, nullable=False),  # a, b or tie
    sa.Column("side", sa.Text, nullable=False),  # left, right or tie, as it was shown
    sa.Column("at", sa.Text, nullable=False),
)


class Store:
    """A database with our tables. Every write is committed, and on disk, before the call returns."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            parsed = sa.make_url(url)
            extra: dict[str, Any] = {"connect_args": {"timeout": WAIT}} if parsed.get_backend_name() == "sqlite" else {}
            self.engine = sa.create_engine(parsed, pool_pre_ping=True, **extra)
            if self.engine.dialect.name == "sqlite":
                sa.event.listen(self.engine, "connect", _prepare_sqlite)
                sa.event.listen(self.engine, "begin", _begin)
        except ModuleNotFoundError as error:
            what = f"the store {_shown(url)} needs the package {error.name!r}"
            raise ParameterError(f"{what}; for PostgreSQL: pip install 'whyrank[postgres]'") from error
        except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError) as error:
            hint = "use a URL such as sqlite:///whyrank.db or postgresql+psycopg://user@host/name"
            raise ParameterError(f"the store {_shown(url)} is not a database URL; {hint}") from error

    def create(self) -> Store:
        """Make the tables that are not there yet."""
        try:
            with self.writing() as connection:
                if self.engine.dialect.name == "postgresql":  # two workers that start at once would both create
                    connection.execute(sa.text("SELECT pg_advisory_xact_lock(7769987)"))
                metadata.create_all(connection)
        except sa.exc.DBAPIError as error:
            problem = str(error.orig).strip().splitlines()[0] if error.orig else "unknown"
            raise ParameterError(f"the store {_shown(self.url)} cannot be used: {problem}") from error
        return self

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction: all of it, committed, or nothing."""
        with self.engine.begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that sees one state of the database and changes nothing."""
        with self.engine.connect() as connection:
            yield connection.execution_options(only_reads=True)

    def close(self) -> None:
        self.engine.dispose()


def now() -> str:
    """The time, in UTC, as it is stored and shown."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _shown(url: str) -> str:
    """A URL without its password."""
    try:
        return sa.make_url(url).render_as_string(hide_password=True)
    except sa.exc.ArgumentError:
        return repr(url)


def _prepare_sqlite(connection: Any, _record: object) -> None:
    """Readers never wait for the writer, and a commit is on disk when it returns."""
    connection.isolation_level = None  # transactions are begun below, not by the driver
    for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {setting}").close()


def _begin(connection: sa.Connection) -> None:
    """Writers queue from the start; one that upgrades midway would fail instead of waiting."""
    only_reads = connection.get_execution_options().get("only_reads")
    connection.exec_driver_sql("BEGIN" if only_reads else "BEGIN IMMEDIATE")
