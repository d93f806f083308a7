"""A small world with people who react, a model of their reviews, and logs of drawn lists."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

import whyrank as wr
from whyrank.data.simulate_people import SimulatedPeople
from whyrank.online.log import EVENTS, EXPOSURES, Log
from whyrank.ranking.rank import rank


def shown_lists(
    people: SimulatedPeople, model: wr.Model, count: int, options: wr.Options, seed: int, n: int = 3
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.float64], NDArray[np.bool_]]:
    """Visits, what is shown, with which chances, and what is clicked."""
    rng = np.random.default_rng(seed)
    users, items = people.visits(count, rng)
    found = rank(model, users, items, n, options)
    chances = np.ones(found.numbers.shape) if found.propensities is None else found.propensities
    return users, items, found.numbers, chances, people.react(users, items, found.numbers, rng)


def log_of(
    model: wr.Model,
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    lists: NDArray[np.int32],
    chances: NDArray[np.float64],
    clicked: NDArray[np.bool_],
    prefix: str = "x",
    start: int = 0,
) -> Log:
    """A log as the service writes it."""
    catalog = model.catalog_
    shown = lists >= 0
    empty = ~shown.any(1)
    row, place = np.nonzero(shown)
    every = np.concatenate([row, np.flatnonzero(empty)])
    position = np.concatenate([place + 1, np.zeros(int(empty.sum()), np.int64)])
    said = catalog.explanations.terms(lists[row, place])
    exposures = pl.DataFrame(
        {
            "exposure": pl.Series([f"{prefix}{k:07d}" for k in range(len(users))]).gather(every),
            "time": every + start,
            "user": catalog.users.terms(users[every]),
            "item": catalog.items.terms(items[every]),
            "position": position,
            "explanation": pl.concat([said, pl.Series([None] * int(empty.sum()), dtype=pl.String)]),
            "propensity": np.concatenate([chances[row, place], np.ones(int(empty.sum()))]),
            "experiment": None,
            "arm": None,
            "model": "m",
            "route": "explain",
        }
    ).select(pl.col(name).cast(kind) for name, kind in EXPOSURES.items())
    row, place = np.nonzero(clicked)
    events = pl.DataFrame(
        {
            "exposure": pl.Series([f"{prefix}{k:07d}" for k in range(len(users))]).gather(row),
            "position": place + 1,
            "event": pl.Series(["clicked"] * len(row), dtype=pl.String),
            "value": np.ones(len(row)),
            "time": row + start,
            "user": catalog.users.terms(users[row]),
        }
    ).select(pl.col(name).cast(kind) for name, kind in EVENTS.items())
    return Log(exposures, events)
