"""Logs of simulated people, as a service would write them: for tests, benchmarks and trying things out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.explain.options import Options
from whyrank.explain.rank import Ranker, rank
from whyrank.lab.simulate import SimulatedPeople
from whyrank.online.log import EVENTS, EXPOSURES, Log

Numbers = NDArray[np.int32]


def simulate_log(
    people: SimulatedPeople, model: Ranker, lists: int, options: Options, *, n: int = 3, seed: int = 0
) -> Log:
    """Show simulated people so many lists of a model, and log what they click.

    Args:
        people: who come and react.
        model: fitted to their triplets.
        lists: how many lists are shown, each for one user and one item.
        options: how lists are chosen; with `explore` or `epsilon` they are drawn.
        n: reasons in a list at most.
        seed: of visits, draws and clicks; exposure ids and times follow from it, so that logs can be put together.

    Returns:
        A log; times rise with seeds and lists.

    Raises:
        ParameterError: lists longer than these people read.

    >>> import whyrank as wr
    >>> people = wr.simulate_people(users=20, items=10, explanations=24, records=60, seed=1)
    >>> model = wr.POP().fit(people.triplets)
    >>> simulate_log(people, model, 5, wr.Options(explore=1.0)).exposures["exposure"].n_unique()
    5
    """
    rng = np.random.default_rng(seed)
    users, items = people.visits(lists, rng)
    found = rank(model, users, items, n, replace(options, draw=seed))
    chances = np.ones(found.numbers.shape) if found.propensities is None else found.propensities
    clicked = people.react(users, items, found.numbers, rng)
    return log_of(model.catalog_, (users, items), found.numbers, chances, clicked, seed)


def log_of(
    catalog: Catalog,
    visits: tuple[Numbers, Numbers],
    lists: Numbers,
    chances: NDArray[np.float64],
    clicked: NDArray[np.bool_],
    seed: int = 0,
) -> Log:
    """A log of lists by number."""
    users, items = visits
    ids = pl.select(
        pl.format("x{}-{}", pl.lit(seed), pl.int_range(len(users)).cast(pl.String).str.zfill(8))
    ).to_series()
    start = seed * 100_000_000
    empty = np.flatnonzero((lists < 0).all(1))
    row, place = np.nonzero(lists >= 0)
    every = np.concatenate([row, empty])
    said = catalog.explanations.terms(lists[row, place]).cast(pl.String)
    exposures: dict[str, pl.Series | NDArray[np.generic]] = {
        "exposure": ids.gather(every),
        "time": start + every,
        "user": catalog.users.terms(users[every]),
        "item": catalog.items.terms(items[every]),
        "position": np.concatenate([place + 1, np.zeros(len(empty), np.int64)]),
        "explanation": pl.concat([said, pl.Series(said.name, [None] * len(empty), dtype=pl.String)]),
        "propensity": np.concatenate([chances[row, place], np.ones(len(empty))]),
    }
    constant: dict[str, str | float | None] = {
        "experiment": None,
        "arm": None,
        "model": "simulated",
        "route": "explain",
        "asked": lists.shape[1],
    }
    row, place = np.nonzero(clicked)
    events: dict[str, pl.Series | NDArray[np.generic]] = {
        "exposure": ids.gather(row),
        "position": place + 1,
        "time": start + row,
        "user": catalog.users.terms(users[row]),
    }
    return Log(_table(exposures, constant, EXPOSURES), _table(events, {"event": "clicked", "value": 1.0}, EVENTS))


def _table(
    columns: dict[str, pl.Series | NDArray[np.generic]],
    constant: dict[str, str | float | None],
    schema: Mapping[str, type[pl.DataType]],
) -> pl.DataFrame:
    made = pl.DataFrame(columns).with_columns(pl.lit(value).alias(name) for name, value in constant.items())
    return made.select(pl.col(name).cast(kind) for name, kind in schema.items())


def together(logs: list[Log]) -> Log:
    """Several logs as one."""
    return Log(pl.concat([each.exposures for each in logs]), pl.concat([each.events for each in logs]))
