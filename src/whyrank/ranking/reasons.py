"""Reasons: ranked explanations with their texts, their evidence and the parts of their scores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.tables import as_table
from whyrank.errors import DataError
from whyrank.ranking.evidence import Evidence, evidence
from whyrank.ranking.form import Bonus, Floats, Numbers
from whyrank.ranking.options import Options
from whyrank.ranking.rank import Ranked, Ranker, rank

Pairs: TypeAlias = pl.DataFrame | Iterable[tuple[object, object]]


@dataclass(frozen=True)
class Reason:
    """An explanation as ranked for a pair."""

    explanation: str
    text: str
    score: float
    parts: dict[str, float]  # the score's parts: user, item, popularity (or interaction); they add up to the score
    evidence: Evidence

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def explain(model: Ranker, user: object, item: object, n: int, options: Options) -> list[Reason]:
    """The reasons of one pair, best first."""
    catalog = model.catalog_
    users, items = catalog.users.numbers([user]), catalog.items.numbers([item])
    return reasons(model, users, items, rank(model, users, items, n, options))[0]


def reasons(model: Ranker, users: Numbers, items: Numbers, ranked: Ranked) -> list[list[Reason]]:
    """Ranked explanations as reasons, pair by pair."""
    catalog = model.catalog_
    row, place = np.nonzero(ranked.numbers >= 0)
    numbers = ranked.numbers[row, place]
    parts = score_parts(model, users, items, row, numbers, ranked.scores[row, place])
    said = evidence(catalog, users[row], items[row], numbers)
    made = [
        Reason(id_, text, float(score), {name: float(values[at]) for name, values in parts.items()}, said.one(at))
        for at, (id_, text, score) in enumerate(
            zip(
                catalog.explanations.terms(numbers).to_list(),
                catalog.text_of(numbers).to_list(),
                ranked.scores[row, place],
                strict=True,
            )
        )
    ]
    bounds = np.searchsorted(row, np.arange(len(users) + 1))
    return [made[bounds[pair] : bounds[pair + 1]] for pair in range(len(users))]


def explain_many(model: Ranker, pairs: Pairs, n: int, options: Options) -> pl.DataFrame:
    """One row per reason: user, item, rank, explanation, text, score and its evidence."""
    frame = pair_table(pairs)
    catalog = model.catalog_
    users, items = catalog.users.numbers(frame["user"]), catalog.items.numbers(frame["item"])
    return reason_table(model, frame, users, items, rank(model, users, items, n, options))


def pair_table(pairs: Pairs) -> pl.DataFrame:
    """Pairs in any form as a table of texts with columns user and item."""
    if hasattr(pairs, "columns"):
        pairs = as_table(pairs)
    if not isinstance(pairs, pl.DataFrame):
        listed = [tuple(pair) for pair in pairs]
        if any(len(pair) != 2 for pair in listed):
            raise DataError("not a pair", expected="(user, item)")
        pairs = pl.DataFrame({"user": [str(u) for u, _ in listed], "item": [str(i) for _, i in listed]})
    for name in ("user", "item"):
        if name not in pairs.columns:
            raise DataError("missing column", column=name, expected="user and item")
    return pairs.select(pl.col("user", "item").cast(pl.String))


def reason_table(
    model: Ranker,
    pairs: pl.DataFrame,
    users: Numbers,
    items: Numbers,
    ranked: Ranked,
    *,
    similar: bool = True,
) -> pl.DataFrame:
    """Ranked explanations of pairs as a table; `similar` counts what was said of similar items, which takes longest."""
    catalog = model.catalog_
    row, place = np.nonzero(ranked.numbers >= 0)
    numbers = ranked.numbers[row, place]
    said = evidence(catalog, users[row], items[row], numbers, similar=similar)
    return pl.DataFrame(
        {
            "user": pairs["user"].gather(row),
            "item": pairs["item"].gather(row),
            "rank": (place + 1).astype(np.int32),
            "explanation": catalog.explanations.terms(numbers),
            "text": catalog.text_of(numbers),
            "score": ranked.scores[row, place],
            "said_of_item": said.item,
            "said_of_similar_items": said.similar_items,
            "said_by_user": said.user,
        }
    )


def score_parts(
    model: Ranker, users: Numbers, items: Numbers, row: NDArray[np.int64], explanations: Numbers, scores: Floats
) -> dict[str, NDArray[np.float32]]:
    """Whose part of each score is how large: of the dot product block by block, of the bonus as the model divides it.

    `row` says to which pair each explanation belongs. What is left over has the name "bonus".
    """
    products = model.queries(users, items)[row] * model.search().keys[explanations]
    parts: dict[str, NDArray[np.float32]] = {}
    start, rest = 0, scores
    for block in model.blocks():
        part = products[:, start : start + block.width].sum(1)
        parts[block.name] = parts[block.name] + part if block.name in parts else part
        start, rest = start + block.width, rest - part
    for name, bonus in model.bonus_parts(users, items).items():
        part = bonus_of(bonus, row, explanations)
        parts[name] = parts[name] + part if name in parts else part
        rest = rest - part
    if np.abs(rest).max(initial=0) > 1e-4 * (1 + np.abs(scores).max(initial=0)):
        parts["bonus"] = rest
    return parts


def bonus_of(bonus: Bonus, row: NDArray[np.int64], explanations: Numbers) -> NDArray[np.float32]:
    """What a bonus adds to an explanation of a row, 0 where it has none."""
    if not len(bonus.values):
        return np.zeros(len(row), np.float32)
    pool = np.int64(max(bonus.explanations.max(), explanations.max(initial=0)) + 1)
    there = np.repeat(np.arange(len(bonus.indptr) - 1), np.diff(bonus.indptr)) * pool + bonus.explanations
    wanted = row * pool + explanations
    place = np.minimum(np.searchsorted(there, wanted), len(there) - 1)
    return np.where(there[place] == wanted, bonus.values[place], np.float32(0))
