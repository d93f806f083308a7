"""Statements: explanations with one aspect, one sense of an opinion and one polarity; which of them are opposites."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.csr import CSR

GENERAL = ("great", "bad", "average")  # senses that judge without saying why
ABSENT = ("missing", "excessive")  # senses of what is not there, or too much of it
ITSELF = "it"  # the aspect of what is said about the item itself: fun game, easy to learn
SIGNS = {-1: "-", 0: "0", 1: "+"}


def statement_id(aspect: str, sense: str, polarity: int) -> str:
    """Return the id of a statement.

    >>> statement_id("bed", "comfortable", 1)
    'bed|comfortable|+'
    """
    return f"{aspect}|{sense}|{SIGNS[polarity]}"


class Positions(NamedTuple):
    """What explanations say, whatever their words: position by position, and which positions are opposites.

    `of` has the position of every explanation, which is the number of the first explanation that has it, so that
    positions keep their numbers when explanations are added; -1 is none. `opposites` has a row for every number.
    """

    of: NDArray[np.int32]
    opposites: CSR

    @classmethod
    def none(cls, explanations: int) -> Positions:
        """Return the positions of explanations of which nothing is known: there are none."""
        return cls(np.full(explanations, -1, np.int32), CSR.empty(explanations))


def positions(
    aspect: pl.Series, polarity: NDArray[np.int8], sense: pl.Series | None = None, opposite: pl.Series | None = None
) -> Positions:
    """Find what explanations say, and which of it is the opposite of what.

    Two explanations of one aspect are opposites if they have the same sense and one praises where the other blames, or
    if the sense of one is the `opposite` of the other's. Where an explanation has no sense, only its praise or blame of
    the aspect is known: that is a position like any other, but for what is said about the item itself, which may be
    anything.

    Args:
        aspect: What each explanation is about, null where unknown.
        polarity: Whether it praises (1), blames (-1) or neither (0).
        sense: What it says about the aspect (comfortable), null where unknown.
        opposite: The sense that says the opposite (uncomfortable), null where there is none.

    >>> senses, opposites = pl.Series(["soft", "hard", "soft"]), pl.Series(["hard", None, "hard"])
    >>> found = positions(pl.Series(["bed"] * 3), np.array([1, -1, -1], np.int8), senses, opposites)
    >>> found.opposites.row(0).tolist(), found.opposites.row(1).tolist()
    ([1, 2], [0, 2])
    """
    unknown = pl.repeat(None, len(aspect), dtype=pl.String, eager=True)
    told = pl.DataFrame(
        {
            "number": np.arange(len(aspect), dtype=np.int32),
            "aspect": aspect,
            "sign": polarity,
            "sense": unknown if sense is None else sense,
            "opposite": unknown if opposite is None else opposite,
        }
    )
    itself = (pl.col("aspect") == ITSELF) & pl.col("sense").is_null()
    told = told.filter(pl.col("aspect").is_not_null() & ~itself).with_columns(pl.col("sense").fill_null(""))
    key = ["aspect", "sense", "sign"]
    told = told.with_columns(position=pl.col("number").min().over(key))
    of = np.full(len(aspect), -1, np.int32)
    of[told["number"].to_numpy()] = told["position"].to_numpy()
    distinct = told.select("position", *key, "opposite").unique()
    turned = distinct.join(distinct, on=["aspect", "sense"]).filter(pl.col("sign") * pl.col("sign_right") == -1)
    named = distinct.join(distinct, left_on=["aspect", "opposite"], right_on=["aspect", "sense"])
    pairs = pl.concat(each.select("position", "position_right") for each in (turned, named))
    pairs = pairs.filter(pl.col("position") != pl.col("position_right"))
    one, other = (pairs[name].to_numpy() for name in pairs.columns)
    both = np.concatenate([one, other]), np.concatenate([other, one])
    return Positions(of, CSR.from_pairs(*both, len(aspect), len(aspect)))
