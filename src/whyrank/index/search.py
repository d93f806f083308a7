"""Exact top-n explanations of a linear form: `score(query, e) = query . key(e)` plus a sparse bonus."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whyrank.data.csr import CSR
from whyrank.errors import ParameterError
from whyrank.index import _kernels as kernels
from whyrank.index._grounded import ItemRules, ListRules, item_lists
from whyrank.index._kernels import Base, Batch, Groups, Keys, Lists
from whyrank.index.bounds import UpperBounds
from whyrank.index.form import Bonus, Floats, Numbers, Rows
from whyrank.simd import BLOCK, LANES
from whyrank.thread_pool import shared_thread_pool

LARGEST = 1e37  # of each of the few parts that add up to a score
NEARNESS = 0.25  # how much norms count beside bases in the order of the pool
CACHED = 32  # vectors that scores begin from
TASK = 128  # queries that are worth a task of their own
CORES = os.cpu_count() or 1
MEMORY = 256 << 20  # bytes for upper bounds of parts
EVERYTHING = np.empty(0, np.bool_)
NOTHING, NO_NUMBERS = np.empty(0, np.float32), np.empty(0, np.int32)
TYPES = (np.int64, np.int32, np.float32)  # of a bonus

Result = TypeVar("Result")
Answer = tuple[Numbers, Floats]


class Search:
    """Exact search over the keys of a pool; prepares itself in the first call.

    `tie_order` decides among equal scores: the lower wins. The last `constant` columns of every query are few
    distinct constants (BPER: `mu, 1 - mu` against both biases). Of the other columns, those before `split` are the
    user's part of a query and the rest the item's. `typical` queries decide in which order the pool is searched.
    Upper bounds of parts take at most `memory` bytes. No answer depends on the last two, on threads, or on which
    queries share a call or came before.

    >>> search = Search(np.eye(3, dtype=np.float32), [0, 1, 2])
    >>> search.top(np.array([[0.5, 2.0, 0.5]], np.float32), 2)[0].tolist()
    [[1, 0]]
    """

    def __init__(
        self,
        keys: Floats,
        tie_order: ArrayLike,
        *,
        constant: int = 0,
        split: int | None = None,
        typical: Floats | None = None,
        memory: int = MEMORY,
    ) -> None:
        keys, ties = np.ascontiguousarray(keys, np.float32), np.asarray(tie_order)
        if keys.ndim != 2 or ties.shape != keys.shape[:1]:
            raise ParameterError(f"keys {keys.shape} and tie_order {ties.shape} do not match: give one row each")
        if not 0 <= constant <= keys.shape[1] or keys.shape[1] - constant > 8192:
            raise ParameterError(f"constant must be 0..{keys.shape[1]} and leave at most 8192 columns")
        if not np.isfinite(keys).all():
            raise ParameterError("keys hold NaN or infinity: the model has diverged, fit it again")
        columns = keys.shape[1] - constant
        if split is not None and not 0 <= split <= columns:
            raise ParameterError(f"split is {split}: it must be one of the {columns} columns before the constants")
        self.keys, self._memory = keys, memory
        self._typical = np.ones((1, keys.shape[1]), np.float32) if typical is None or not len(typical) else typical
        by_rank = np.argsort(ties, kind="stable").astype(np.int32)
        ranks = np.empty(len(keys), np.int32)
        ranks[by_rank] = np.arange(len(keys), dtype=np.int32)
        rows = np.zeros((len(keys), max(LANES, -(-columns // LANES) * LANES)), np.float32)
        rows[:, :columns] = keys[:, :columns]
        self._keys = Keys(rows, ranks, by_rank, columns, columns if split is None else split)
        self._longest = float(_norms(rows).max(initial=0.0))
        self._cache: OrderedDict[tuple[str, bytes], object] = OrderedDict()
        self._prepared: tuple[Groups, UpperBounds] | None = None
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self.keys)

    def top(
        self,
        queries: Floats,
        n: int,
        *,
        pairs: tuple[Numbers, Numbers] | None = None,
        bonus: Bonus | None = None,
        allowed: NDArray[np.bool_] | None = None,
        boost: Floats | None = None,
        excluded: CSR | None = None,
        threads: int | None = None,
    ) -> Answer:
        """Find the best `n` explanations of each query: numbers and scores, best first; -1 and -inf where fewer.

        `pairs` are the numbers of each query's user and item (-1: unknown), which make it faster when they come again.
        `bonus` adds to some scores of a query; `allowed` and `boost` (a value per explanation, added) hold for all
        queries; `excluded` has a row for each query of what it must not have, and goes without a bonus.
        """
        if excluded is not None and bonus is not None:
            raise ParameterError("excluded goes without a bonus")
        queries = self._queries(queries, n)
        batch, alike = self._batch(queries, self._bonus(bonus, len(queries)))
        if excluded is not None:
            batch = batch._replace(bonus=self._without(excluded, len(queries)))
        pairs = None if pairs is None else self._pairs(pairs, len(queries))
        shape = len(queries), min(n, len(self))
        lists = Lists(np.empty(shape, np.float32), np.empty(shape, np.int32))
        (groups, bounds), share = self._prepare(), partial(_share, threads=threads)
        for constants, rows in self._by_constants(queries, alike):
            base = self._base(constants, groups, allowed, boost)
            work = partial(kernels.search, self._keys, groups, base)
            # One after another, the pairs of a user share bounds that are at hand.
            rows = rows if pairs is None else rows[np.argsort(pairs[0][rows], kind="stable")]
            while len(rows):
                piece = len(rows) if pairs is None else bounds.piece
                some, rows = batch._replace(rows=rows[:piece]), rows[piece:]
                tables = bounds.tables if pairs is None else bounds.look_up(some, pairs, share)
                bounds.count(len(some.rows), share(partial(work, some, tables, lists), len(some.rows)))
        return _filled_up(lists, n)

    def among(
        self,
        queries: Floats,
        items: Numbers,
        n: int,
        rules: tuple[ItemRules, ListRules],
        *,
        bonus: Bonus | None = None,
        boost: Floats | None = None,
        threads: int | None = None,
    ) -> Answer:
        """Make lists of `n` of what may be ranked for the item of each query (-1: none), as `top` ranks it.

        Nothing is prepared for it.
        """
        queries = self._queries(queries, n)
        if items.shape != (len(queries),) or int(items.max(initial=-1)) >= len(rules[0].indptr) - 1:
            raise ParameterError(f"items: give the number of an item for each of {len(queries)} queries")
        given, added = self._bonus(bonus, len(queries)), self._boost(boost)
        lists = Lists(np.empty((len(items), n), np.float32), np.empty((len(items), n), np.int32))
        _, _, alike = self._measured(queries)
        for constants, rows in self._by_constants(queries, alike):
            asked = (rows, items, given, added)
            work = partial(item_lists, self._keys, self._values(constants), queries, asked, rules, lists)
            _share(work, len(rows), threads)
        return lists.numbers, lists.scores

    def scores(self, queries: Floats, explanations: Numbers, *, boost: Floats | None = None) -> Floats:
        """Return the scores without bonus of the explanations (queries x k) given per query, with the bits of `top`."""
        queries, given = self._queries(queries, 1), np.ascontiguousarray(explanations, np.int32)
        if given.ndim != 2 or len(given) != len(queries):
            raise ParameterError(f"explanations {given.shape} must hold one row for each of {len(queries)} queries")
        if given.size and not 0 <= given.min() <= given.max() < len(self):
            raise ParameterError(f"explanations must be numbers from 0 to {len(self) - 1}")
        result, added = np.empty(given.shape, np.float32), self._boost(boost)
        for constants, rows in self._by_constants(queries, self._measured(queries)[2]):
            values = self._values(constants) + added if len(added) else self._values(constants)
            result[rows] = kernels.scores_of(self._keys, values, queries[rows], given[rows])
        return result

    def bounds(
        self, queries: Floats, *, allowed: NDArray[np.bool_] | None = None, boost: Floats | None = None
    ) -> Floats:
        """Return for each query a number that no explanation's score without bonus exceeds, found without a search."""
        queries, (groups, _) = self._queries(queries, 1), self._prepare()
        norms, margins, alike = self._measured(queries)
        result = np.full(len(queries), -np.inf, np.float32)
        for constants, rows in self._by_constants(queries, alike):
            tops = self._base(constants, groups, allowed, boost).tops
            result[rows] = kernels.highest_bounds(norms[rows], margins[rows], tops, groups.norms)
        return result

    def scored(self) -> float:
        """Return the share of the pool that has been scored for pairs so far."""
        groups, bounds = self._prepare()
        return bounds.groups_scored() / len(groups.leaders)

    def _prepare(self) -> tuple[Groups, UpperBounds]:
        """Put the pool in the order in which it is searched, once: near the top what has high bounds."""
        with self._lock:
            if self._prepared is None:
                groups = self._grouped()
                self._prepared = groups, UpperBounds(self._keys, groups, self._memory)
            return self._prepared

    def _grouped(self) -> Groups:
        rows, ranks, _, columns, split = self._keys
        norms = np.stack([_norms(rows[:, :split]), _norms(rows[:, split:])])
        typical = [np.median(_norms(part)) for part in (self._typical[:, :split], self._typical[:, split:columns])]
        expected = self._values(self._typical[0, columns:].tobytes()) + NEARNESS * (np.array(typical) @ norms)
        order = np.lexsort((ranks, -expected)).astype(np.int32)
        shape = max(1, -(-len(rows) // BLOCK)), BLOCK

        def placed(values: NDArray[Any], missing: float) -> NDArray[Any]:
            result = np.full((shape[0] * BLOCK, *values.shape[1:]), missing, values.dtype)
            result[: len(order)] = values[order]
            return result.reshape(*shape, *values.shape[1:])

        numbers = placed(np.arange(len(rows), dtype=np.int32), -1).ravel()
        keys = np.ascontiguousarray(placed(rows[:, :columns], 0.0).transpose(0, 2, 1))
        leaders = placed(ranks, np.iinfo(np.int32).max).min(1)
        largest = np.stack([placed(part, 0.0).max(1) for part in norms]) * (1.0 + 1e-6)  # rounded up
        return Groups(numbers, keys, leaders, largest.astype(np.float32))

    def _queries(self, queries: Floats, n: int) -> Floats:
        queries = np.ascontiguousarray(queries, np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.keys.shape[1]:
            raise ParameterError(f"queries {queries.shape} must be a table with {self.keys.shape[1]} columns")
        if n < 1:
            raise ParameterError(f"n is {n}: ask for at least one explanation")
        return queries

    def _measured(self, queries: Floats) -> tuple[Floats, Floats, bool]:
        """Return norms of parts and margins of queries, and whether their constants agree; refuse what overflows."""
        norms, margins = np.empty((len(queries), 2), np.float32), np.empty(len(queries), np.float32)
        columns, split = self._keys.columns, self._keys.split
        # Twice the rounding errors of both ways to add up products, and some for adding up bounds.
        rounding = self._longest * (2 * columns + 32) * 2.0**-24
        alike, largest = kernels.measure(queries, columns, split, rounding, norms, margins)
        if largest != largest:
            row = int(np.flatnonzero(np.isnan(margins))[0])
            raise ParameterError(f"query {row} holds NaN or infinity: the model has diverged, fit it again")
        _check_size(largest * self._longest)
        return norms, margins, alike

    def _batch(self, queries: Floats, bonus: Bonus) -> tuple[Batch, bool]:
        norms, margins, alike = self._measured(queries)
        slots = np.full((2, len(queries)), -1, np.int32)
        return Batch(queries, np.arange(len(queries)), norms, margins, slots, bonus), alike

    def _pairs(self, pairs: tuple[Numbers, Numbers], count: int) -> tuple[Numbers, Numbers]:
        users, items = (np.ascontiguousarray(numbers, np.int32) for numbers in pairs)
        if users.shape != (count,) or items.shape != (count,):
            raise ParameterError(f"pairs: give the numbers of a user and an item for each of {count} queries")
        return users, items

    def _by_constants(self, queries: Floats, alike: bool) -> Iterator[tuple[bytes, Rows]]:
        """Yield constants and the queries that share them."""
        constants = queries[:, self._keys.columns :]
        if len(queries) == 0 or len(self) == 0:
            return
        if alike:
            yield constants[0].tobytes(), np.arange(len(queries))
            return
        distinct, inverse = np.unique(constants, axis=0, return_inverse=True)
        for number, row in enumerate(distinct):
            yield row.tobytes(), np.flatnonzero(inverse.reshape(-1) == number)

    def _values(self, constants: bytes) -> Floats:
        """Return what scores begin from: constants times the last columns of keys, from left to right."""

        def made() -> Floats:
            values = np.zeros(len(self), np.float32)
            for column, constant in enumerate(np.frombuffer(constants, np.float32), self._keys.columns):
                values += constant * self.keys[:, column]
            _check_size(float(np.abs(values).max(initial=0.0)))
            return values

        return self._cached(("values", constants), made)

    def _base(self, constants: bytes, groups: Groups, allowed: NDArray[np.bool_] | None, boost: Floats | None) -> Base:
        """Return what scores begin from, filtered and boosted, in the order of groups."""
        if allowed is None and boost is None:
            return self._cached(("base", constants), lambda: _base_of(self._values(constants), groups))
        values: Floats = self._values(constants)
        added, some = self._boost(boost), self._allowed(allowed)
        values = values + added if len(added) else values
        return _base_of(np.where(some, values, np.float32(-np.inf)) if len(some) else values, groups)

    def _cached(self, key: tuple[str, bytes], make: Callable[[], Result]) -> Result:
        """Make something for constants unless it was made of late."""
        with self._lock:
            known = self._cache.pop(key, None)
            found = make() if known is None else cast(Result, known)
            self._cache[key] = found
            while len(self._cache) > CACHED:
                self._cache.popitem(last=False)
        return found

    def _boost(self, boost: Floats | None) -> Floats:
        if boost is None:
            return NOTHING
        boost = np.ascontiguousarray(boost, np.float32)
        if boost.shape != (len(self),) or not np.isfinite(boost).all():
            raise ParameterError(f"boost must hold one finite value for each of {len(self)} explanations")
        _check_size(float(np.abs(boost).max(initial=0.0)))
        return boost

    def _allowed(self, allowed: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        if allowed is None:
            return EVERYTHING
        if np.shape(allowed) != (len(self),) or np.asarray(allowed).dtype != np.bool_:
            raise ParameterError(f"allowed must hold True or False for each of {len(self)} explanations")
        return allowed

    def _bonus(self, bonus: Bonus | None, count: int) -> Bonus:
        if bonus is None:
            return Bonus(np.zeros(count + 1, np.int64), NO_NUMBERS, NOTHING)
        checked = self._rows_of("bonus", bonus, count)
        largest = kernels.largest_value(checked.values)
        if largest != largest:
            raise ParameterError("bonus: give one finite value of at least 0 for each explanation")
        _check_size(largest)
        return checked

    def _without(self, excluded: CSR, count: int) -> Bonus:
        """Return what excludes explanations: a bonus of -inf."""
        values = np.full(len(excluded.indices), -np.inf, np.float32)
        return self._rows_of("excluded", Bonus(excluded.indptr, excluded.indices, values), count)

    def _rows_of(self, name: str, given: Bonus, count: int) -> Bonus:
        """Refuse lists of explanations that are not one per query, sorted and known."""
        rows = Bonus(*(np.ascontiguousarray(part, kind) for part, kind in zip(given, TYPES, strict=True)))
        if rows.indptr.shape != (count + 1,) or rows.values.shape != rows.explanations.shape:
            raise ParameterError(f"{name}: give a list of explanations, each with a value, for each of {count} queries")
        if not kernels.rising(rows.indptr, rows.explanations, len(self)):
            raise ParameterError(f"{name}: explanations of a query must rise and be numbers from 0 to {len(self) - 1}")
        return rows


def _norms(rows: Floats) -> NDArray[np.float64]:
    return np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))


def _base_of(values: Floats, groups: Groups) -> Base:
    starts = np.append(values, np.float32(-np.inf))[groups.explanations]
    return Base(values, starts, starts.reshape(-1, BLOCK).max(1))


def _check_size(largest: float) -> None:
    """Refuse parts of scores that could make float32 overflow."""
    if not largest <= LARGEST:
        raise ParameterError(f"scores can reach {largest:.1e}, beyond {LARGEST:.0e}: scale queries or keys down")


def _filled_up(lists: Lists, n: int) -> Answer:
    """Return lists with n columns, -1 and -inf in those that were missing."""
    scores, numbers = lists
    missing = ((0, 0), (0, n - numbers.shape[1]))
    if missing[1][1] == 0:
        return numbers, scores
    return np.pad(numbers, missing, constant_values=-1), np.pad(scores, missing, constant_values=-np.inf)


def _share(work: Callable[[int, int], Result], count: int, threads: int | None = None) -> list[Result]:
    """Do work(first, last) over pieces of 0..count in threads; the kernels release the interpreter."""
    threads = threads or CORES
    pieces = 1 if threads == 1 else max(1, min(8 * threads, count // TASK))
    if pieces == 1:
        return [work(0, count)]
    cuts = np.linspace(0, count, pieces + 1).astype(int).tolist()
    return shared_thread_pool(threads).run([partial(work, first, last) for first, last in pairwise(cuts)])
