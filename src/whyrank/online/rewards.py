"""What is rewarded, and every shown list with its rewards."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.errors import DataError, ParameterError
from whyrank.online.log import Log

EVENTS = ("shown", "clicked", "dismissed", "helpful", "converted")
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Goal:
    """What a reaction is worth; a negative number is a cost. An event's own value multiplies it.

    >>> Goal.parse("clicked=1,dismissed=-0.5").weights["dismissed"]
    -0.5
    """

    weights: Mapping[str, float] = field(default_factory=lambda: {"clicked": 1.0})

    def __post_init__(self) -> None:
        for name, weight in self.weights.items():
            if name not in EVENTS[1:]:
                raise ParameterError(f"no reaction {name!r}; use {', '.join(EVENTS[1:])}")
            if not math.isfinite(weight):
                raise ParameterError(f"{name} is worth {weight!r}; use a finite number")
        if not any(weight > 0 for weight in self.weights.values()):
            raise ParameterError("nothing is worth more than 0; give a reaction a positive number")

    @classmethod
    def parse(cls, text: str) -> Goal:
        """`clicked=1,helpful=2,dismissed=-1` as a goal."""
        weights = {}
        for part in text.split(","):
            name, _, number = part.partition("=")
            try:
                weights[name.strip()] = float(number)
            except ValueError:
                raise ParameterError(f"a goal is REACTION=NUMBER,... such as clicked=1, not {part!r}") from None
        return cls(weights)


class ShownLists(NamedTuple):
    """Shown lists, oldest first: one row each, one column per position; what is beyond the end of a list is empty."""

    users: pl.Series
    items: pl.Series
    explanations: pl.DataFrame  # columns list, place, explanation: where there is one
    length: NDArray[np.int64]
    asked: NDArray[np.int64]  # how long they might have been
    propensity: Values  # 1 beyond the end
    reward: Values
    liked: Values  # the positive part of the reward, as a share of the largest weight, at most 1
    disliked: Values  # the negative part, in the same units
    cluster: NDArray[np.int64]  # the number of the user

    def numbers(self, catalog: Catalog) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Explanations by number, -1 beyond the end; lists are cut at what a catalog does not know, and marked."""
        found = np.full(self.reward.shape, -1, np.int32)
        list_, place = (self.explanations[name].to_numpy() for name in ("list", "place"))
        known = catalog.explanations.numbers(self.explanations["explanation"], missing="negative")
        found[list_, place] = known
        bad = np.zeros(found.shape, np.bool_)
        bad[list_, place] = known < 0
        cut = np.logical_or.accumulate(bad, axis=1)
        return np.where(cut, np.int32(-1), found), cut

    def take(self, rows: NDArray[np.integer]) -> ShownLists:
        """Some of the lists, in the given order."""
        place = np.full(len(self.length), -1, np.int64)
        place[rows] = np.arange(len(rows))
        moved = self.explanations.with_columns(pl.Series("list", place[self.explanations["list"].to_numpy()]))
        arrays = (each[rows] for each in (self.propensity, self.reward, self.liked, self.disliked, self.cluster))
        users, items = self.users.gather(rows), self.items.gather(rows)
        return ShownLists(users, items, moved.filter(pl.col("list") >= 0), self.length[rows], self.asked[rows], *arrays)


def lists_of(log: Log, goal: Goal | None = None) -> ShownLists:
    """Join exposures with reactions, list by list; the same reaction to the same reason counts once.

    A reaction without a position belongs to the list as a whole, that is to its last reason. Lists of pairs, whose
    items and reasons were ranked together, say nothing about the reasons of one item, and are left out.
    """
    goal = goal or Goal()
    rows = log.exposures.filter(pl.col("route") != "pairs")
    rows = rows.sort("time", "exposure", "item", "position", maintain_order=True)
    if not rows.height:
        raise DataError("the log holds no exposures of reasons of an item", expected="at least one")
    longest = pl.col("position").max().over("route")
    rows = rows.with_columns(pl.coalesce("asked", longest).cast(pl.Int64).alias("asked"))
    bad = rows.filter((pl.col("position") > 0) & ~pl.col("propensity").is_between(0, 1, closed="right"))
    if bad.height:
        raise DataError(
            f"propensity is {bad['propensity'][0]} in exposure {bad['exposure'][0]}",
            column="propensity",
            expected="above 0 and at most 1",
        )
    fresh = (pl.col("exposure") != pl.col("exposure").shift(1)) | (pl.col("item") != pl.col("item").shift(1))
    rows = rows.with_columns((fresh.fill_null(True).cast(pl.Int64).cum_sum() - 1).alias("list"))
    rows = rows.with_columns((pl.int_range(pl.len()).over("list")).alias("place"))
    rows = rows.join(_reactions(log, rows, goal), on=["exposure", "position"], how="left", maintain_order="left")
    first = rows.filter(pl.col("place") == 0)
    some = rows.filter(pl.col("position") > 0)
    asked = first["asked"].to_numpy()
    at = (some["list"].to_numpy(), some["place"].to_numpy())
    lists = first.height
    length = np.bincount(at[0], minlength=lists)
    # A column after the longest list, where more was asked for, says that nothing more was shown; further ones would
    # be empty, however many reasons somebody asks for.
    width = max(min(int(asked.max()), int(length.max()) + 1), 1)

    def table(name: str, fill: float) -> Values:
        made = np.full((lists, width), fill)
        made[at] = some[name].fill_null(fill).to_numpy()
        return made

    return ShownLists(
        first["user"],
        first["item"],
        some.select("list", "place", "explanation"),
        length,
        asked,
        table("propensity", 1.0),
        table("reward", 0.0),
        np.minimum(table("liked", 0.0), 1.0),
        table("disliked", 0.0),
        first["user"].rank("dense").to_numpy().astype(np.int64) - 1,
    )


def _reactions(log: Log, rows: pl.DataFrame, goal: Goal) -> pl.DataFrame:
    """Reward, liking and dislike of every shown reason that people reacted to."""
    weights = pl.DataFrame(
        {"event": list(goal.weights), "weight": list(goal.weights.values())},
        schema={"event": pl.String, "weight": pl.Float64},
    )
    last = rows.group_by("exposure").agg(pl.col("position").max().alias("last"))
    found = (
        log.events.join(weights, on="event")
        .join(last, on="exposure")
        .with_columns(pl.coalesce("position", "last").alias("position"))
        .sort("time", maintain_order=True)
        .unique(["exposure", "position", "event"], keep="last", maintain_order=True)
        .with_columns((pl.col("weight") * pl.col("value").fill_null(1.0)).alias("worth"))
    )
    largest = max(goal.weights.values())
    worth = pl.col("worth")
    return found.group_by("exposure", "position").agg(
        worth.sum().alias("reward"),
        (worth.clip(lower_bound=0).sum() / largest).alias("liked"),
        (-worth.clip(upper_bound=0).sum() / largest).alias("disliked"),
    )
