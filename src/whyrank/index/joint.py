"""Exact joint ranking: the best (item, explanation) pairs of a user over all items and the whole pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.errors import ParameterError
from whyrank.index.form import Bonus, Candidates, Floats, Numbers
from whyrank.index.search import Search

FIRST = 64  # items of the first round; every round takes twice as many
MOST = 8192
# Times the size of a number: how far a few float32 operations on it can be off.
OFF = 2.0**-20


class TopPairs(NamedTuple):
    """Best first; fewer than asked for where there are fewer."""

    items: Numbers
    explanations: Numbers
    scores: Floats
    items_searched: int  # how many items had to be looked at


def top_pairs(
    item_scores: Floats,
    queries_of: Callable[[Numbers], Floats],
    search: Search,
    n: int,
    *,
    weight: float = 1.0,
    excluded: Numbers | None = None,
    bounds: Floats | None = None,
    bonus_of: Callable[[Numbers], Bonus | None] | None = None,
    allowed: NDArray[np.bool_] | None = None,
    boost: Floats | None = None,
    candidates_of: Callable[[Numbers], Candidates] | None = None,
    extra: Floats | None = None,
    threads: int | None = None,
) -> TopPairs:
    """The `n` pairs with the highest `item score + weight x explanation score`.

    `queries_of` gives the queries of the user with some items, `bonus_of` their bonuses. `bounds` says for every item
    what no explanation's score, bonus included, exceeds (see `PartBound`); without it, norms are used.
    `candidates_of` leaves only some explanations of each item, and may add to their scores, at most `extra` of each
    item. Equal scores go to the lower item number, then to the better explanation. Memory grows with n and not with
    items x pool.
    """
    item_scores = np.asarray(item_scores, np.float32)
    _check(item_scores, n, weight)
    wanted = np.ones(len(item_scores), np.bool_)
    if excluded is not None:
        wanted[excluded] = False
    items = np.flatnonzero(wanted).astype(np.int32)
    if bounds is None:
        bounds = _bounds(len(item_scores), items, queries_of, search, bonus_of, allowed, boost)
    if extra is not None:
        bounds = bounds + extra
    items = items[bounds[items] > -np.inf]
    own, most = item_scores[items].astype(np.float64), weight * bounds[items].astype(np.float64)
    reach = own + most + OFF * (np.abs(own) + np.abs(most))
    order = np.argsort(-reach, kind="stable")
    items, reach = items[order], reach[order]
    best, done, step = _Best(n), 0, FIRST
    while done < len(items) and reach[done] >= best.worst():
        some = items[done : done + step][reach[done : done + step] >= best.worst()]
        given: dict[str, Any] = {"bonus": bonus_of(some) if bonus_of else None, "allowed": allowed, "boost": boost}
        given |= {"floors": _floors(best.worst(), item_scores[some], weight), "threads": threads}
        if candidates_of:
            numbers, scores = search.among(queries_of(some), n, candidates_of(some), **given)
        else:
            numbers, scores = search.top(queries_of(some), n, **given)
        best.add(some, numbers, item_scores[some][:, None] + np.float32(weight) * scores)
        done, step = done + len(some), min(2 * step, MOST)
    return TopPairs(best.items, best.explanations, best.scores, done)


class PartBound:
    """What no explanation's score in some columns exceeds, and nearly reaches: the exact best, rounded up.

    A score that is a sum of a user's and an item's part is at most the best of the one plus the best of the other,
    and the item's does not depend on the user. The last `constant` of the columns are constant in all queries.
    """

    def __init__(self, keys: Floats, columns: Sequence[int], *, constant: int = 0) -> None:
        self._columns = np.asarray(columns, np.int64)
        part = keys[:, self._columns]
        self._search = Search(part, np.arange(len(keys)), constant=constant)
        self._largest = np.abs(part).max(0, initial=0.0).astype(np.float64)

    def __call__(self, queries: Floats, bonus: Bonus | None = None, *, threads: int | None = None) -> Floats:
        part = np.ascontiguousarray(queries[:, self._columns], np.float32)
        best = self._search.top(part, 1, bonus=bonus, threads=threads)[1][:, 0]
        sizes = np.abs(part).astype(np.float64) @ self._largest
        if bonus is not None:
            sizes += bonus.values.max(initial=0)
        return np.nextafter((best + OFF * sizes).astype(np.float32), np.float32(np.inf))


class _Best:
    """The best pairs so far, in order."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.items, self.explanations = np.empty(0, np.int32), np.empty(0, np.int32)
        self.scores, self._places = np.empty(0, np.float32), np.empty(0, np.int64)

    def worst(self) -> float:
        """What a pair has to reach."""
        return float(self.scores[-1]) if len(self.scores) == self.n else -np.inf

    def add(self, items: Numbers, explanations: Numbers, scores: Floats) -> None:
        """Merge ranked lists of some items: equal scores go by item, then by place in its list."""
        row, place = np.nonzero((explanations >= 0) & (scores >= self.worst()))
        item = np.concatenate([self.items, items[row]])
        explanation = np.concatenate([self.explanations, explanations[row, place]])
        score = np.concatenate([self.scores, scores[row, place]])
        places = np.concatenate([self._places, place])
        order = np.lexsort((places, item, -score))[: self.n]
        self.items, self.explanations = item[order], explanation[order]
        self.scores, self._places = score[order], places[order]


def _floors(worst: float, item_scores: Floats, weight: float) -> Floats:
    """What an explanation has to score with each item so that the pair can matter, a little less for rounding."""
    if worst == -np.inf:
        return np.full(len(item_scores), -np.inf, np.float32)
    exact = item_scores.astype(np.float64)
    return ((worst - exact - OFF * (abs(worst) + np.abs(exact))) / weight).astype(np.float32)


def _bounds(
    count: int,
    items: Numbers,
    queries_of: Callable[[Numbers], Floats],
    search: Search,
    bonus_of: Callable[[Numbers], Bonus | None] | None,
    allowed: NDArray[np.bool_] | None,
    boost: Floats | None,
) -> Floats:
    bounds = np.zeros(count, np.float32)
    for start in range(0, len(items), MOST):
        some = items[start : start + MOST]
        bounds[some] = search.bounds(queries_of(some), allowed=allowed, boost=boost)
        bonus = bonus_of(some) if bonus_of else None
        if bonus is not None:
            highest = np.zeros(len(some), np.float32)
            np.maximum.at(highest, np.repeat(np.arange(len(some)), np.diff(bonus.indptr)), bonus.values)
            size = np.where(np.isfinite(bounds[some]), np.abs(bounds[some]), 0) + highest
            bounds[some] += highest + np.float32(OFF) * size
    return bounds


def _check(item_scores: Floats, n: int, weight: float) -> None:
    if n < 1:
        raise ParameterError(f"n is {n}: ask for at least one pair")
    if not (weight > 0 and np.isfinite(weight)):
        raise ParameterError(f"weight is {weight}: it must be positive")
    if not np.isfinite(item_scores).all():
        raise ParameterError("item scores hold NaN or infinity: the model has diverged, fit it again")
