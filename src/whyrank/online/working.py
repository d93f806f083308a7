"""Which reasons work: how often each is reacted to where it was shown."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl
import sqlalchemy as sa

from whyrank.online.log import EVENTS
from whyrank.online.reading import read_lists, read_rows
from whyrank.online.store import Store
from whyrank.online.tables import events, exposures

LISTS = 100_000  # the latest ones that figures come from: bounds the cost of an answer
QUANTILE = 1.959964  # of the normal distribution, for 95%
SHOWN = ("user", "arm", "served", "explanation", "position", "hit")
FIGURES = ("shown", "users", "events", "rate", "low", "high", "expected")


class ShownReasons(NamedTuple):
    """Reasons as they were shown, one row each, and how many lists they come from."""

    rows: pl.DataFrame  # columns `SHOWN`
    lists: int
    more: bool  # whether there are older lists that are not among them


def read_shown(
    store: Store,
    event: str,
    *,
    experiment: str | None = None,
    arm: str | None = None,
    lists: int = LISTS,
) -> ShownReasons:
    """Read the reasons of the latest lists, each with whether such an event was reported of it.

    Args:
        store: where exposures and events are.
        event: one of `KINDS`; counts where it names the place of the reason, and once for each.
        experiment: only lists of this experiment.
        arm: only lists of this arm.
        lists: at most so many, the latest ones.
    """
    given = {"experiment": experiment, "arm": arm}
    wanted = [exposures.c[name] == value for name, value in given.items() if value]
    with store.reading() as connection:  # one state of the database for both
        latest = sa.select(exposures.c.id).where(*wanted).order_by(exposures.c.id.desc())
        edge = list(connection.scalars(latest.offset(lists - 1).limit(2)))
        first = [exposures.c.id >= edge[0]] if edge else []  # ids rise with time
        found = read_lists(connection, [*wanted, *first])
        query = sa.select(*(events.c[name] for name in EVENTS)).where(
            events.c.event == event,
            events.c.position.is_not(None),
            events.c.exposure >= found["exposure"].min() if len(found) else sa.false(),
        )
        done = read_rows(connection, query, EVENTS)
    hits = done.select("exposure", "position", hit=pl.lit(True)).unique()
    rows = found.filter(pl.col("position") > 0).join(hits, on=["exposure", "position"], how="left")
    rows = rows.with_columns(pl.col("hit").fill_null(False)).select(*SHOWN)
    return ShownReasons(rows, found["exposure"].n_unique(), len(edge) > 1)


def working(shown: pl.DataFrame, key: str, *, minimum: int = 20) -> pl.DataFrame:
    """Count how often each explanation, or each aspect, is reacted to.

    Args:
        shown: columns `user`, `position`, `hit` and the key.
        key: the column that names what is compared; rows where it is null are left out.
        minimum: how often something must have been shown to be compared.

    Returns:
        One row per key: `shown`, `users`, `events`, `rate`; `low` and `high`, a 95% interval that
        takes users as units; and `expected`, the rate of all reasons at the same places of lists.
        In the order of the keys.

    >>> rows = {"user": ["ann", "bob"], "position": [1, 1], "hit": [True, False], "aspect": ["food", "food"]}
    >>> working(pl.DataFrame(rows), "aspect", minimum=1).row(0)
    ('food', 2, 2, 1, 0.5, 0.05462, 0.94538, 0.5)
    """
    usual = pl.col("hit").mean().over("position")
    people = (
        shown.with_columns(usual=usual)
        .filter(pl.col(key).is_not_null())
        .group_by(key, "user")
        .agg(n=pl.len().cast(pl.Int64), c=pl.col("hit").sum().cast(pl.Int64), usual=pl.col("usual").sum())
    )
    n, c = pl.col("n"), pl.col("c")
    rate = (c.sum() / n.sum()).over(key)
    people = people.with_columns(square=(c - rate * n) ** 2)
    sums = people.group_by(key).agg(
        shown=n.sum(),
        users=pl.len().cast(pl.Int64),
        events=c.sum(),
        rate=c.sum() / n.sum(),
        squares=pl.col("square").sum(),
        expected=pl.col("usual").sum() / n.sum(),
    )
    low, high = _interval()
    table = sums.filter(pl.col("shown") >= minimum)
    table = table.with_columns(low=low.round(5), high=high.round(5))
    return table.select(key, *FIGURES).sort(key)


def _interval() -> tuple[pl.Expr, pl.Expr]:
    """Make Wilson's interval of as many observations as independent ones would tell as much.

    The delta method gives the variance of a rate of people who saw different numbers of lists;
    where it is larger than that of independent observations, there are fewer of them.
    """
    n, k, p = pl.col("shown"), pl.col("users"), pl.col("rate")
    independent = n * p * (1 - p)
    clustered = pl.col("squares") * k / (k - 1)
    several = (k > 1) & (independent > 0)
    larger = pl.max_horizontal(clustered / independent, pl.lit(1.0))
    size, z = n / pl.when(several).then(larger).otherwise(n / k), QUANTILE
    middle = (p + z**2 / (2 * size)) / (1 + z**2 / size)
    half = z / (1 + z**2 / size) * (p * (1 - p) / size + z**2 / (4 * size**2)).sqrt()
    return pl.max_horizontal(middle - half, pl.lit(0.0)), pl.min_horizontal(middle + half, pl.lit(1.0))


def ordered(table: pl.DataFrame, order: str) -> pl.DataFrame:
    """Sort by what surely works (its lower bound), surely does not (upper), or was shown most."""
    column, descending = {"best": ("low", True), "worst": ("high", False), "shown": ("shown", True)}[order]
    return table.sort(column, descending=descending, maintain_order=True)
