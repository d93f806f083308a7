"""One call of the search: what was asked, checked, and where the answer grows."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.errors import ParameterError
from whyrank.index import _layout as kernels
from whyrank.index._topn import TILE, Batch, Best
from whyrank.index.form import Bonus
from whyrank.index.layout import Keys

LARGEST = 1e37  # of each of the few parts that add up to a score
Jobs = NDArray[np.int64]


class Candidates(NamedTuple):
    """What may be ranked for each query: a stretch of `explanations`, where numbers rise."""

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    explanations: NDArray[np.int32]

    @classmethod
    def of_rows(cls, relation: CSR, rows: NDArray[np.integer]) -> Candidates:
        """Those of the given rows of a relation, without a copy; row -1 has none."""
        known = np.maximum(rows, 0)
        starts = relation.indptr[known]
        return cls(starts, np.where(rows < 0, starts, relation.indptr[1:][known]), relation.indices)


class Backed(NamedTuple):
    """What people say about items, which of it is backed, and what a list takes of it, as kernels take it."""

    indptr: NDArray[np.int64]
    explanations: NDArray[np.int32]
    supporting: NDArray[np.int32]
    opposing: NDArray[np.int32]
    standing: NDArray[np.float32]
    backing: float
    support: int
    distinctive: float
    allowed: NDArray[np.bool_]  # empty: every one
    groups: NDArray[np.int32]
    signs: NDArray[np.int8]
    per_aspect: int
    consistent: bool


class Request:
    """Queries with their norms, bonuses and floors, and a heap for each."""

    def __init__(
        self,
        queries: NDArray[np.float32],
        n: int,
        keys: Keys,
        width: int,
        by_rank: NDArray[np.int32],
        bonus: Bonus | None = None,
        floors: NDArray[np.float32] | None = None,
    ) -> None:
        self.queries, self.n = np.ascontiguousarray(queries, np.float32), n
        if self.queries.ndim != 2 or self.queries.shape[1] != width:
            raise ParameterError(f"queries {self.queries.shape} must be a table with {width} columns")
        if n < 1:
            raise ParameterError(f"n is {n}: ask for at least one explanation")
        count, kept = len(self.queries), min(n, len(keys.padded))
        self.measures, self.alike = kernels.measure(self.queries, keys.columns, keys.split)
        largest = float(self.measures[:, 2].max(initial=0.0))
        if math.isnan(largest):
            row = int(np.flatnonzero(np.isnan(self.measures[:, 2]))[0])
            raise ParameterError(f"query {row} holds NaN or infinity: the model has diverged, fit it again")
        check_size(largest * keys.longest)
        self.floors = np.full(count, -np.inf, np.float32) if floors is None else _floors(floors, count)
        self.bonus = _no_bonus(count) if bonus is None else _checked(bonus, count, len(keys.padded))
        self.levels, self.slots = np.zeros(count, np.int64), np.empty((count, 2), np.int32)
        self.best = Best(np.empty((count, kept), np.float32), np.empty((count, kept), np.int32), by_rank)

    def exclude(self, excluded: CSR, pool: int) -> None:
        """Leave out what each query must not have: for the kernels, a bonus of -inf."""
        rows = Candidates(excluded.indptr[:-1], excluded.indptr[1:], excluded.indices)
        check_rows(rows, len(self.queries), pool, "excluded")
        values = np.full(len(excluded.indices), -np.inf, np.float32)
        self.bonus = Bonus(excluded.indptr, excluded.indices, values)

    def batch(self, rows: NDArray[np.int64], jobs: Jobs) -> Batch:
        """What the kernel reads for these rows and jobs."""
        return Batch(
            self.queries,
            rows,
            jobs,
            self.levels,
            np.ascontiguousarray(self.measures[:, 2]),
            self.floors,
            *self.bonus,
        )

    def answer(self) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Numbers and scores, filled up to n columns."""
        return filled_up(self.best.numbers, self.best.scores, self.n)


def filled_up(
    numbers: NDArray[np.int32], scores: NDArray[np.float32], n: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Lists with n columns, -1 and -inf in those that were missing."""
    if numbers.shape[1] == n:
        return numbers, scores
    missing = ((0, 0), (0, n - numbers.shape[1]))
    return np.pad(numbers, missing, constant_values=-1), np.pad(scores, missing, constant_values=-np.inf)


def check_size(largest: float) -> None:
    """Refuse parts of scores that could make float32 overflow."""
    if not largest <= LARGEST:
        raise ParameterError(f"scores can reach {largest:.1e}, beyond {LARGEST:.0e}: scale queries or keys down")


def jobs_of(cells: NDArray[np.int64], counts: NDArray[np.int64]) -> Jobs:
    """Tiles (cell, first, last) over queries that are sorted by cell, none of which crosses cells."""
    if len(cells) == 1 and counts[0] <= TILE:
        return np.array([[cells[0], 0, counts[0]]], np.int64)
    tiles = -(-counts // TILE)
    first = np.repeat(np.cumsum(counts) - counts, tiles)
    inside = np.arange(tiles.sum()) - np.repeat(np.cumsum(tiles) - tiles, tiles)
    start = first + inside * TILE
    stop = np.minimum(start + TILE, np.repeat(np.cumsum(counts), tiles))
    return np.stack([np.repeat(cells, tiles), start, stop], axis=1).astype(np.int64)


def check_rows(rows: Candidates, count: int, pool: int, name: str) -> None:
    """Refuse lists of explanations that are not one per query, sorted and known."""
    if len(rows.starts) != count or len(rows.stops) != count:
        raise ParameterError(f"{name}: give a list of explanations for each of {count} queries")
    if not kernels.ascending(*rows, pool):
        raise ParameterError(f"{name}: explanations of a query must rise and be numbers from 0 to {pool - 1}")


def typed_bonus(bonus: Bonus) -> Bonus:
    """A bonus in the types that kernels take."""
    types = (np.int64, np.int32, np.float32)
    return Bonus(*(np.ascontiguousarray(part, kind) for part, kind in zip(bonus, types, strict=True)))


def _checked(bonus: Bonus, count: int, pool: int) -> Bonus:
    indptr, explanations, values = typed_bonus(bonus)
    ends = indptr.shape == (count + 1,) and indptr[0] == 0 and indptr[-1] == len(explanations)
    if not ends or (np.diff(indptr) < 0).any():
        raise ParameterError(f"bonus: indptr must rise from 0 to {len(explanations)} in {count + 1} steps")
    check_rows(Candidates(indptr[:-1], indptr[1:], explanations), count, pool, "bonus")
    if values.shape != explanations.shape or not (np.isfinite(values) & (values >= 0)).all():
        raise ParameterError("bonus: give one finite value of at least 0 for each explanation")
    check_size(float(values.max(initial=0.0)))
    return Bonus(indptr, explanations, values)


def _no_bonus(count: int) -> Bonus:
    return Bonus(np.zeros(count + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))


def _floors(floors: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    floors = np.array(floors, np.float32)
    if floors.shape != (count,) or np.isnan(floors).any():
        raise ParameterError(f"floors must hold one number for each of {count} queries")
    return floors
