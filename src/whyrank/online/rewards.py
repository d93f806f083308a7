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
from whyrank.online.log import KINDS, Log

REACTIONS = KINDS[1:]
Values = NDArray[np.float64]
Numbers = NDArray[np.int32]


@dataclass(frozen=True)
class Goal:
    """What a reaction is worth; a negative number is a cost. An event's own value multiplies it.

    >>> Goal.parse("clicked=1,dismissed=-0.5").weights["dismissed"]
    -0.5
    """

    weights: Mapping[str, float] = field(default_factory=lambda: {"clicked": 1.0})

    def __post_init__(self) -> None:
        for name, weight in self.weights.items():
            if name not in REACTIONS:
                raise ParameterError(f"no reaction {name!r}; use {', '.join(REACTIONS)}")
            if not math.isfinite(weight):
                raise ParameterError(f"{name} is worth {weight!r}; use a finite number")
        if not any(weight > 0 for weight in self.weights.values()):
            raise ParameterError("nothing is worth more than 0; give a reaction a positive number")

    @classmethod
    def parse(cls, text: str) -> Goal:
        """Read a goal from `clicked=1,helpful=2,dismissed=-1`."""
        weights = {}
        for part in text.split(","):
            name, _, number = part.partition("=")
            try:
                weights[name.strip()] = float(number)
            except ValueError:
                what = "a goal is REACTION=NUMBER,... such as clicked=1"
                raise ParameterError(f"{what}, not {part!r}") from None
        return cls(weights)


class ShownLists(NamedTuple):
    """Shown lists, oldest first: one row each, one column per position, empty beyond the end."""

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

    def pairs(self, catalog: Catalog) -> tuple[Numbers, Numbers]:
        """Number users and items as a catalog does; -1: unknown."""
        users = catalog.users.numbers(self.users, missing="negative")
        return users, catalog.items.numbers(self.items, missing="negative")

    def numbers(self, catalog: Catalog) -> tuple[Numbers, NDArray[np.bool_]]:
        """Number explanations, -1 beyond the end; cut lists at what is unknown, and mark the cut."""
        found = np.full(self.reward.shape, -1, np.int32)
        at = tuple(self.explanations[name].to_numpy() for name in ("list", "place"))
        found[at] = catalog.explanations.numbers(self.explanations["explanation"], missing="negative")
        unknown = np.zeros(found.shape, np.bool_)
        unknown[at] = found[at] < 0
        cut = np.logical_or.accumulate(unknown, axis=1)
        return np.where(cut, np.int32(-1), found), cut

    def take(self, rows: NDArray[np.integer]) -> ShownLists:
        """Take some of the lists, in the given order."""
        place = np.full(len(self.length), -1, np.int64)
        place[rows] = np.arange(len(rows))
        moved = pl.Series("list", place[self.explanations["list"].to_numpy()])
        left = self.explanations.with_columns(moved).filter(pl.col("list") >= 0)
        users, items = self.users.gather(rows), self.items.gather(rows)
        return ShownLists(users, items, left, *(each[rows] for each in self[3:]))


def lists_of(log: Log, goal: Goal | None = None) -> ShownLists:
    """Join exposures with reactions, list by list; the same reaction to a reason counts once.

    A reaction without a position belongs to the list as a whole, that is to its last reason. Lists
    of pairs, whose items and reasons were ranked together, say nothing about the reasons of one
    item, and are left out.
    """
    rows = log.exposures.filter(pl.col("route") != "pairs")
    rows = rows.sort("time", "exposure", "item", "position", maintain_order=True)
    if not rows.height:
        raise DataError("the log holds no exposures of reasons of an item", expected="at least one")
    longest = pl.col("position").max().over("route")
    rows = rows.with_columns(
        asked=pl.coalesce("asked", longest).cast(pl.Int64),
        list=pl.struct("exposure", "item").rle_id().cast(pl.Int64),
    ).with_columns(place=pl.int_range(pl.len()).over("list"))
    worth = _worth(log, rows, goal or Goal())
    rows = rows.join(worth, on=["exposure", "position"], how="left", maintain_order="left")
    first, some = rows.filter(pl.col("place") == 0), rows.filter(pl.col("position") > 0)
    at = (some["list"].to_numpy(), some["place"].to_numpy())
    asked, length = first["asked"].to_numpy(), np.bincount(at[0], minlength=first.height)
    # A column after the longest list, where more was asked for, says that nothing more was shown;
    # further ones would be empty, however many reasons somebody asks for.
    width = max(min(int(asked.max()), int(length.max()) + 1), 1)

    def table(name: str, fill: float) -> Values:
        made = np.full((first.height, width), fill)
        made[at] = some[name].fill_null(fill).to_numpy()
        return made

    return ShownLists(
        users=first["user"],
        items=first["item"],
        explanations=some.select("list", "place", "explanation"),
        length=length,
        asked=asked,
        propensity=table("propensity", 1.0),
        reward=table("reward", 0.0),
        liked=np.minimum(table("liked", 0.0), 1.0),
        disliked=table("disliked", 0.0),
        cluster=first["user"].rank("dense").to_numpy().astype(np.int64) - 1,
    )


def _worth(log: Log, rows: pl.DataFrame, goal: Goal) -> pl.DataFrame:
    """Compute reward, liking and dislike of every shown reason that people reacted to."""
    weights = {"event": list(goal.weights), "weight": [float(each) for each in goal.weights.values()]}
    last = rows.group_by("exposure").agg(last=pl.col("position").max())
    found = (
        log.events.join(pl.DataFrame(weights), on="event")
        .join(last, on="exposure")
        .with_columns(position=pl.coalesce("position", "last"))
        .sort("time", maintain_order=True)
        .unique(["exposure", "position", "event"], keep="last", maintain_order=True)
    )
    worth, largest = pl.col("weight") * pl.col("value"), max(goal.weights.values())
    return found.group_by("exposure", "position").agg(
        reward=worth.sum(),
        liked=worth.clip(lower_bound=0).sum() / largest,
        disliked=-worth.clip(upper_bound=0).sum() / largest,
    )
