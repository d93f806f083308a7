"""The tables of the store, and their version."""

from __future__ import annotations

import secrets

import sqlalchemy as sa

from whyrank.errors import ParameterError

VERSION = 5
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
    sa.Column("number", sa.Integer, primary_key=True),  # rises, and is never used again
    sa.Column("hash", sa.Text, nullable=False),  # of the user, with the salt of the store
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


def create_tables(connection: sa.Connection) -> None:
    """Make the tables that are missing, in the caller's transaction.

    Raises:
        ParameterError: the store was made by another version.
    """
    there = set(sa.inspect(connection).get_table_names())
    found = connection.scalar(sa.select(sa.func.max(schema.c.version))) if schema.name in there else None
    if found not in (None, VERSION) or (found is None and any(name.startswith("whyrank_") for name in there)):
        raise ParameterError(
            f"the store has schema version {found or 1}, this whyrank has {VERSION}: use another store"
        )
    metadata.create_all(connection)
    if found is None:
        connection.execute(schema.insert(), {"version": VERSION, "salt": secrets.token_hex(16)})
