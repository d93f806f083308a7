"""Reasons as objects and as tables: the columns of `explain`, formatted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.datatypes import DataType, DataTypeClass

from whyrank.explain.evidence import Evidence
from whyrank.explain.rank import fallback_of
from whyrank.explain.result import STATUSES, Explained

TABLE: dict[str, DataType | DataTypeClass] = {
    "user": pl.String,
    "item": pl.String,
    "status": pl.String,
    "fallback": pl.String,
    "rank": pl.Int32,
}
TABLE |= {"explanation": pl.String, "text": pl.String, "sentence": pl.String, "score": pl.Float32}
TABLE |= {each.name: pl.Int64 for each in Evidence.declared()} | {"aspect": pl.String, "polarity": pl.Int8}
QUOTES = pl.List(pl.Struct({"text": pl.String, "source": pl.String, "time": pl.Int64}))


@dataclass(frozen=True, slots=True)
class Reason:
    """An explanation as ranked for a pair."""

    rank: int
    explanation: str
    text: str
    sentence: str  # what can be shown to people; all of it follows from the evidence and the quotes
    score: float
    parts: dict[str, float]  # the score's parts: user, item, popularity (or interaction); they add up to the score
    evidence: Evidence
    aspect: str | None  # what it is about
    polarity: int  # 1: speaks for the item, -1: against it, 0: neither, or unknown
    quotes: list[dict[str, object]]  # what people wrote: text, source, time; never who
    fallback: str | None  # unknown_user, not_personal: ranked by the item and popularity alone
    propensity: float | None = None  # of a drawn list: the chance of this reason at its rank, given those above it

    @property
    def quote(self) -> str | None:
        """The first quote, unless the sentence has it."""
        text = str(self.quotes[0]["text"]) if self.quotes else None
        return None if text is None or text in self.sentence else text

    def as_dict(self) -> dict[str, object]:
        """All fields by name; `propensity` only where a list is drawn."""
        values: dict[str, object] = {name: getattr(self, name) for name in Reason.__slots__}
        if self.propensity is None:
            del values["propensity"]
        return values | {"evidence": self.evidence.as_dict()}


class Reasons(list[Reason]):
    """The reasons of one pair; a notebook shows them as a card."""

    def _repr_html_(self) -> str:
        lines = []
        for reason in self:
            counts = ", ".join(reason.evidence.shown())
            quote = f"<br><i>“{escape(reason.quote)}”</i>" if reason.quote else ""
            lines.append(f"<li>{escape(reason.sentence)} <small>({counts})</small>{quote}</li>")
        return f"<ol>{''.join(lines)}</ol>" if lines else "<p>No reason passes these options.</p>"


def reasons(found: Explained) -> list[list[Reason]]:
    """Reasons as objects, pair by pair."""
    made: list[list[Reason]] = [[] for _ in found.users]
    names = list(found.parts)
    for row, rank, (id_, text, aspect, polarity), sentence, score, parts, counts, quotes, *rest in rows_of(found):
        said = (sentence, score, dict(zip(names, parts, strict=True)), counts)
        made[row].append(Reason(rank, id_, text, *said, aspect, polarity, quotes, *rest))
    return made


def rows_of(found: Explained) -> Iterator[tuple[Any, ...]]:
    """Reason by reason: the number of its pair, rank, what is shown of it, sentence, score, parts in their order,
    evidence, quotes, fallback and propensity."""
    rows, numbers = found.row.tolist(), found.explanation.tolist()
    shown, fallbacks, parts = found.catalog.shown, found.fallbacks(), found.parts
    shares = zip(*(values.tolist() for values in parts.values()), strict=True) if parts else [()] * len(numbers)
    chances = [None] * len(rows) if found.chances is None else found.propensity.tolist()
    return zip(
        *(rows, found.rank.tolist(), [shown[number] for number in numbers], found.sentences(), found.score.tolist()),
        *(shares, found.reasons.evidence(), found.quotes, [fallbacks[row] for row in rows], chances),
        strict=True,
    )


def table(found: Explained, *, quotes: bool = False, sentences: bool = True) -> pl.DataFrame:
    """One row per reason, in the order of the pairs; one row without a reason for a pair that has none.

    `status` says what came of a pair: ok, no_reason or unknown_item; `fallback` is unknown_user where the user is.
    Where lists are drawn, `propensity` is the chance of each reason at its rank, given those above it.
    """
    catalog = found.catalog
    columns: dict[str, object] = {
        "rank": found.rank,
        "explanation": catalog.explanations.terms(found.explanation),
        "text": catalog.text_of(found.explanation),
        "score": found.score,
        **found.reasons.frame().to_dict(),
        "aspect": pl.Series(catalog.aspects_listed, dtype=pl.String).gather(
            catalog.aspect[found.explanation] % (len(catalog.aspects) + 1)
        ),
        "polarity": found.polarity,
    }
    schema = {name: kind for name, kind in TABLE.items() if sentences or name != "sentence"}
    if sentences:
        columns["sentence"] = found.sentence_column()
    if found.chances is not None:
        columns["propensity"], schema["propensity"] = found.propensity, pl.Float64
    if quotes:
        columns["quotes"], schema["quotes"] = pl.Series(found.quotes, dtype=QUOTES), QUOTES
    row, place = _with_the_rest(found)
    alone = (found.users < 0) & (found.items >= 0)
    pairs = pl.DataFrame(
        {
            "user": pl.Series(found.user_ids, dtype=pl.String),
            "item": pl.Series(found.item_ids, dtype=pl.String),
            "status": pl.Series(STATUSES, dtype=pl.String).gather(found.status_numbers()),
            "fallback": pl.Series([None, fallback_of(found.options)], dtype=pl.String).gather(alone.astype(np.int8)),
        }
    )
    listed = pl.DataFrame(columns)
    whole = pairs[row].hstack(listed if place is None else listed.select(pl.all().gather(place)))
    return whole.select(pl.col(name).cast(kind) for name, kind in schema.items())


def _with_the_rest(found: Explained) -> tuple[NDArray[np.int64], pl.Series | None]:
    """The pair of every row of a table, and its reason: null for pairs without one; None: all have one."""
    without = np.flatnonzero(np.diff(found.starts) == 0)
    if not len(without):
        return found.row, None
    row = np.insert(found.row, found.starts[without], without)
    place = pl.Series(np.cumsum(np.isin(row, without, invert=True)) - 1, dtype=pl.Int64)
    return row, place.set(pl.Series(np.isin(row, without)), None)
