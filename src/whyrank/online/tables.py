"""The tables of the store, their version, and the way from an older version to this one."""

from __future__ import annotations

import hashlib
import secrets

import sqlalchemy as sa

from whyrank.errors import ParameterError

# 1: version 0.1, which had no table of versions and stored feedback without exposures; 2: exposures without `asked`;
# 3: SQLite could give the number of a row that was deleted to another one, and hashes of erased users had no salt
VERSION = 4
metadata = sa.MetaData()

schema = sa.Table(
    "whyrank_schema",
    metadata,
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("salt", sa.Text),  # of the hashes of erased users, so that two stores cannot be compared
)
exposures = sa.Table(
    "whyrank_exposure",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),  # rises with time, so that an index grows at its end
    sa.Column("time", sa.BigInteger, nullable=False),
    sa.Column("user", sa.Text, nullable=False, index=True),
    sa.Column("route", sa.Text, nullable=False),
    sa.Column("served", sa.Text, nullable=False),  # the id of the model in the service
    sa.Column("model", sa.Text, nullable=False),  # the digest of the model
    sa.Column("experiment", sa.Text),
    sa.Column("arm", sa.Text),
    sa.Column("options", sa.Text, nullable=False),  # JSON: what the request asked for beyond the defaults
    sa.Column("slate", sa.Text, nullable=False),  # JSON: a list of {i: item, e: explanation, p: propensity}, in order
    sa.Column("asked", sa.Integer),  # reasons that were asked for, of each item; null: not known
)
events = sa.Table(
    "whyrank_event",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),  # rises, and is never used again: results follow it
    sa.Column(
        "key", sa.Text, unique=True
    ),  # chosen by the client, or made of the exposure, so that a retry counts once
    sa.Column("time", sa.BigInteger, nullable=False),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("exposure", sa.Text, index=True),
    sa.Column("position", sa.Integer),
    sa.Column("value", sa.Float, nullable=False),
    sa.Column("user", sa.Text, index=True),  # where no exposure says it
    sa.Column("item", sa.Text),
    sa.Column("explanation", sa.Text),
    sa.Column("model", sa.Text),
    sqlite_autoincrement=True,
)
erased = sa.Table(
    "whyrank_erased",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),  # rises, and is never used again: writers follow it
    sa.Column("hash", sa.Text, nullable=False),  # of the user, with the salt of the store
    sa.Column("mark", sa.Text, nullable=False),  # exposures with smaller ids must not be written any more
    sa.Column("time", sa.BigInteger, nullable=False),
    sqlite_autoincrement=True,
)
experiments = sa.Table(
    "whyrank_experiment",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("salt", sa.Text, nullable=False),
    sa.Column("created", sa.BigInteger, nullable=False),
    sa.Column("stopped", sa.BigInteger),
    sa.Column("ramp", sa.Float, nullable=False),  # share of users who take part
    sa.Column("metric", sa.Text, nullable=False),
    sa.Column("planned", sa.BigInteger, nullable=False),  # lists for which intervals are narrowest
    sa.Column("arms", sa.Text, nullable=False),  # JSON
)
versions = sa.Table(
    "whyrank_version",
    metadata,
    sa.Column("served", sa.Text, primary_key=True),  # the id of the model in the service
    sa.Column("number", sa.Integer, primary_key=True),  # rises; two workers cannot both take one
    sa.Column("time", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("problem", sa.Text),  # why a newer folder could not be loaded; null: it is served
    sa.Column("about", sa.Text, nullable=False),  # JSON: kind, data, sizes, parameters, evaluation
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


def migrate(connection: sa.Connection) -> None:
    """Make all tables in the caller's transaction; feedback of version 0.1 becomes events, exposures of version 2 get
    the length that was asked for, and numbers of version 3 are not used again any more."""
    there = set(sa.inspect(connection).get_table_names())
    found = connection.scalar(sa.select(sa.func.max(schema.c.version))) if schema.name in there else None
    if found is not None and found > VERSION:
        raise ParameterError(f"the store has schema version {found}; this whyrank knows up to {VERSION}: update it")
    metadata.create_all(connection)
    if found is None:
        if "whyrank_feedback" in there:
            _from_first(connection)
        connection.execute(schema.insert(), {"version": VERSION, "salt": secrets.token_hex(16)})
    elif found < VERSION:
        if found < 3:
            _from_second(connection)
        _from_third(connection)
        connection.execute(schema.update().values(version=VERSION))


def _from_first(connection: sa.Connection) -> None:
    """Copy the feedback of version 0.1, whose times were texts, and drop its table."""
    at = 'CAST(EXTRACT(EPOCH FROM CAST("at" AS TIMESTAMPTZ)) AS BIGINT)'
    if connection.dialect.name == "sqlite":
        at = """COALESCE(CAST(strftime('%s', "at") AS INTEGER), 0)"""
    columns = 'event, "user", item, explanation, model'
    copied = f'SELECT "key", {at}, {columns}, "rank", 1.0 FROM whyrank_feedback ORDER BY number'
    connection.execute(sa.text(f'INSERT INTO whyrank_event ("key", time, {columns}, position, value) {copied}'))
    connection.execute(sa.text("DROP TABLE whyrank_feedback"))


def _from_second(connection: sa.Connection) -> None:
    """Add how many reasons were asked for, which was among the options."""
    connection.execute(sa.text("ALTER TABLE whyrank_exposure ADD COLUMN asked INTEGER"))
    n, reasons = (f"CAST(CAST(options AS json) ->> '{name}' AS INTEGER)" for name in ("n", "reasons"))
    if connection.dialect.name == "sqlite":
        n, reasons = (f"json_extract(options, '$.{name}')" for name in ("n", "reasons"))
    found = f"CASE route WHEN 'recommend' THEN {reasons} ELSE {n} END"
    connection.execute(sa.text(f"UPDATE whyrank_exposure SET asked = {found}"))


def _from_third(connection: sa.Connection) -> None:
    """Give the store its salt and the hashes of erased users theirs; in SQLite, make anew what counts its rows."""
    salt = secrets.token_hex(16)
    connection.execute(sa.text("ALTER TABLE whyrank_schema ADD COLUMN salt TEXT"))
    connection.execute(schema.update().values(salt=salt))
    for number, plain in connection.execute(sa.select(erased.c.number, erased.c.hash)).all():
        changed = erased.update().where(erased.c.number == number)
        connection.execute(changed.values(hash=salted(plain, salt)))
    if connection.dialect.name != "sqlite":
        return
    for table in (events, erased):
        for index in table.indexes:
            index.drop(connection, checkfirst=True)
        old = f"{table.name}_before"
        connection.execute(sa.text(f"ALTER TABLE {table.name} RENAME TO {old}"))
        table.create(connection)
        names = ", ".join(f'"{column.name}"' for column in table.columns)
        connection.execute(sa.text(f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {old}"))
        connection.execute(sa.text(f"DROP TABLE {old}"))


def salted(hash_: str, salt: str) -> str:
    """The hash of a user as one store has it."""
    return hashlib.sha256(f"{salt}\0{hash_}".encode()).hexdigest()
