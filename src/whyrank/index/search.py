"""Exact top-n explanations of a linear form: `score(query, e) = query . key(e)` plus a sparse bonus."""

from __future__ import annotations

import hashlib
import math
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whyrank.data.csr import CSR
from whyrank.errors import ParameterError
from whyrank.index import _layout as kernels
from whyrank.index import _sums as sums
from whyrank.index import _topn as topn
from whyrank.index._grounded import grounded_lists
from whyrank.index.ceilings import Ceilings
from whyrank.index.form import Bonus
from whyrank.index.layout import Keys, Layout, Share, View
from whyrank.index.request import (
    LARGEST,
    Backed,
    Candidates,
    Request,
    check_rows,
    check_size,
    filled_up,
    jobs_of,
    typed_bonus,
)
from whyrank.simd import BLOCK
from whyrank.thread_pool import shared_thread_pool

USUAL = 10  # explanations that are asked for, as far as speed is concerned
MANY = 1024  # queries of one call that are worth a layout of their own for a filter or a boost
CORES = os.cpu_count() or 1
PIECE = 128  # queries that are worth a task of their own
KEPT = 16  # base vectors kept for later calls
LIKE_A_CELL = 128  # blocks whose order, for one cell, takes as long as a query
CHUNK = 16_384  # queries that are looked up at once
FAR = 64  # blocks that queries go through if it is worth knowing the ceilings of their parts
CHOSEN = 4  # times as many as a list takes are looked at first, where not all of the best may be in it
ENOUGH = 256  # queries that show whether it was
NO_JOBS = np.empty((0, 3), np.int64)
ONE_ROW = np.zeros(1, np.int64)
NO_FLOORS = np.empty(0, np.float32)
NO_BONUS = Bonus(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))

Result = TypeVar("Result")


class SearchedShares(NamedTuple):
    """Shares of the pool that a search looked at: through 8-bit codes, and with float32 scores."""

    filtered: float
    scored: float


class Search:
    """Exact search over the keys of a pool; prepares itself once per `constant` part and answers many calls.

    `tie_order` decides among equal scores: the lower wins. The last `constant` columns of every query are few
    distinct constants (BPER: `mu, 1 - mu` against both biases). `parts` splits the other columns into one or
    two parts with a norm each (BPER: user and item), which bounds tighter, and tighter still when a part comes
    again with others. `memory` limits in bytes what is kept for later calls. The answer does not depend on it,
    nor on threads, nor on which queries share a call or came before.

    >>> search = Search(np.eye(3, dtype=np.float32), [0, 1, 2])
    >>> search.top(np.array([[0.5, 2.0, 0.5]], np.float32), 2)[0].tolist()
    [[1, 0]]
    """

    def __init__(
        self,
        keys: NDArray[np.float32],
        tie_order: ArrayLike,
        *,
        constant: int = 0,
        parts: tuple[int, ...] | None = None,
        memory: int = 256 << 20,
    ) -> None:
        keys, ties = np.ascontiguousarray(keys, np.float32), np.asarray(tie_order)
        if keys.ndim != 2 or ties.shape != keys.shape[:1]:
            raise ParameterError(f"keys {keys.shape} and tie_order {ties.shape} do not match: give one row each")
        if not 0 <= constant <= keys.shape[1] or keys.shape[1] - constant > 8192:
            raise ParameterError(f"constant must be 0..{keys.shape[1]} and leave at most 8192 columns")
        if not np.isfinite(keys).all():
            raise ParameterError("keys hold NaN or infinity: the model has diverged, fit it again")
        columns = keys.shape[1] - constant
        parts = parts or (columns,)
        if len(parts) > 2 or sum(parts) != columns or min(parts) < 0:
            raise ParameterError(f"parts {parts} must be one or two widths that add up to {columns} columns")
        self.width, self.memory = keys.shape[1], memory
        self.keys, self._prepared = keys, Keys(keys, columns, parts[0])
        self._by_rank = np.argsort(ties, kind="stable").astype(np.int32)
        self._ranks = np.empty(len(keys), np.int32)
        self._ranks[self._by_rank] = np.arange(len(keys), dtype=np.int32)
        self._bases: OrderedDict[bytes, NDArray[np.float32]] = OrderedDict()
        self._boosts: OrderedDict[tuple[bytes, int], tuple[NDArray[np.float32], NDArray[np.float32]]] = OrderedDict()
        self._views: OrderedDict[bytes, View] = OrderedDict()
        self._borrowed: set[bytes] = set()  # constants whose view has the layout of others
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """What is kept for later calls."""
        with self._lock:
            return sum(view.nbytes for view in self._views.values())

    @property
    def by_parts(self) -> bool:
        """Whether queries so far went through enough of the pool for the ceilings of their parts to pay."""
        with self._lock:
            layouts = [view.layout for view in self._views.values()]
        return any(layout.keys.paired and _often(layout) < math.inf for layout in layouts)

    def top(
        self,
        queries: NDArray[np.float32],
        n: int,
        *,
        bonus: Bonus | None = None,
        allowed: NDArray[np.bool_] | None = None,
        boost: NDArray[np.float32] | None = None,
        candidates: Candidates | None = None,
        excluded: CSR | None = None,
        floors: NDArray[np.float32] | None = None,
        threads: int | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Numbers and scores of the best `n` explanations of each query, best first; -1 and -inf where fewer.

        `bonus` adds to some scores of a query; `allowed` and `boost` (a value per explanation, added) hold for
        all queries; `candidates` leaves only those given; `excluded` has a row for each query of what it must not
        have, and goes with neither `bonus` nor `candidates`; `floors` drops lower scores.
        """
        if excluded is not None and (bonus is not None or candidates is not None):
            raise ParameterError("excluded goes with neither bonus nor candidates")
        if candidates is not None:
            return self._among(queries, n, bonus, allowed, boost, candidates, floors, threads)
        request = self._request(queries, n, bonus, floors)
        if excluded is not None:
            request.exclude(excluded, len(self))
        for constants, rows in self._groups(request.queries, request.alike):
            base, plain = self._base(constants, allowed, boost), allowed is None and boost is None
            self._through(request, self._view(constants, base, plain, request, rows), rows, threads)
        return request.answer()

    def backed(
        self,
        queries: NDArray[np.float32],
        items: NDArray[np.int32],
        n: int,
        rules: Backed,
        *,
        bonus: Bonus | None = None,
        boost: NDArray[np.float32] | None = None,
        threads: int | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]] | None:
        """Lists of `n` of what is backed about the item of each query; None where `top` would refuse what is given."""
        keys, added = self._prepared, NO_BONUS if bonus is None else typed_bonus(bonus)
        queries = np.ascontiguousarray(queries, np.float32)
        constants = queries[:, keys.columns :]
        alike = len(queries) == 1 or bool((constants == constants[:1]).all())
        largest, shape = min(LARGEST, LARGEST / max(keys.longest, 1e-30)), (len(queries), n)
        scores, numbers = np.empty(shape, np.float32), np.empty(shape, np.int32)
        looked = n if not rules.per_aspect and not rules.consistent else CHOSEN * n
        for part, rows in self._groups(queries, alike):
            asked: tuple[Any, ...] = (
                keys.padded,
                keys.shape,
                self._base(part, None, boost),
                self._ranks,
                self._by_rank,
            )
            asked += (queries, largest, rows, *added, items, *rules, min(looked, len(self)), scores, numbers)
            work = partial(grounded_lists, *asked)
            if not all(_share(work, len(rows), threads=threads)):
                return None
        return numbers, scores

    def prepare(self, queries: NDArray[np.float32], *, threads: int | None = None) -> None:
        """Do now what a first call with queries like these would wait for; a few thousand of them show enough."""
        request = self._request(queries, USUAL)
        for constants, rows in self._groups(request.queries, request.alike):
            view = self._view(constants, self._base(constants), True, request, rows)
            for some in (rows, rows[::8]):  # the fewer there are, the wider are the steps of their norms
                with self._lock:
                    view.levels(request.measures, some)
                    view.cells(view.cells_of(request.measures[some])[0][: view.capacity], _for_cells(view, threads))
            rows = rows[:: max(1, len(rows) // ENOUGH)]
            self._through(request, view, rows, threads)
            if view.layout.keys.paired and _often(view.layout) < math.inf:
                self._by_sums(request, view, rows, 0.0, threads)

    def warm_up(self, queries: NDArray[np.float32], *, threads: int | None = None) -> None:
        """Find the ceilings of both parts of all these queries now, if `memory` has room for them and they pay."""
        request = self._request(queries, USUAL)
        for constants, rows in self._groups(request.queries, request.alike):
            layout = self._view(constants, self._base(constants), True, request, rows).layout
            if not layout.keys.paired or _often(layout) == math.inf:
                continue
            with self._lock:
                known = self._ceilings(layout)
                if len(rows) <= known.capacity:
                    known.find(request.queries, rows, request.slots, 0.0, partial(_share, threads=threads))

    def visits(self, queries: NDArray[np.float32], n: int, *, threads: int | None = None) -> SearchedShares:
        """How much of the pool `top` looks at for these queries."""
        request, filtered, scored = self._request(queries, n), 0, 0
        for constants, rows in self._groups(request.queries, request.alike):
            view = self._view(constants, self._base(constants), True, request, rows)
            counts = self._through(request, view, rows, threads)
            filtered, scored = filtered + counts[0], scored + counts[1]
        everything = max(1, len(request.queries) * len(self))
        return SearchedShares(min(1.0, BLOCK * filtered / everything), scored / everything)

    def bounds(
        self,
        queries: NDArray[np.float32],
        *,
        allowed: NDArray[np.bool_] | None = None,
        boost: NDArray[np.float32] | None = None,
    ) -> NDArray[np.float32]:
        """For every query a number that no explanation's score without bonus exceeds, found without a search."""
        request = self._request(queries, 1)
        result = np.full(len(request.queries), -np.inf, np.float32)
        for constants, rows in self._groups(request.queries, request.alike):
            base = self._base(constants, allowed, boost)
            view = self._view(constants, base, allowed is None and boost is None, request, rows)
            result[rows] = view.highest(request.measures[rows])
        return result

    def scores(
        self,
        queries: NDArray[np.float32],
        explanations: NDArray[np.int32],
        *,
        boost: NDArray[np.float32] | None = None,
    ) -> NDArray[np.float32]:
        """Scores without bonus of the explanations (queries x k) given per query, with the bits of `top`."""
        request, given = self._request(queries, 1), np.ascontiguousarray(explanations, np.int32)
        if given.ndim != 2 or len(given) != len(request.queries):
            raise ParameterError(f"explanations {given.shape} must hold one row for each of {len(queries)} queries")
        if given.size and not 0 <= given.min() <= given.max() < len(self):
            raise ParameterError(f"explanations must be numbers from 0 to {len(self) - 1}")
        result = np.empty(given.shape, np.float32)
        for constants, rows in self._groups(request.queries, request.alike):
            base = self._base(constants, None, boost)
            result[rows] = topn.score_given(
                request.queries[rows], self._prepared.padded, self._prepared.shape, base, given[rows]
            )
        return result

    def _request(
        self,
        queries: NDArray[np.float32],
        n: int,
        bonus: Bonus | None = None,
        floors: NDArray[np.float32] | None = None,
    ) -> Request:
        return Request(queries, n, self._prepared, self.width, self._by_rank, bonus, floors)

    def _groups(self, queries: NDArray[np.float32], alike: bool) -> Iterator[tuple[bytes, NDArray[np.int64]]]:
        """Queries that share their constants; `alike`: all do."""
        constants = queries[:, self._prepared.columns :]
        if len(constants) == 0:
            return
        if alike:
            yield constants[0].tobytes(), ONE_ROW if len(constants) == 1 else np.arange(len(constants))
            return
        distinct, inverse = np.unique(constants, axis=0, return_inverse=True)
        order = np.argsort(inverse.reshape(-1), kind="stable")
        ends = np.cumsum(np.bincount(inverse.reshape(-1)))
        for row, rows in zip(distinct, np.split(order, ends[:-1]), strict=True):
            yield row.tobytes(), rows

    def _base(
        self,
        constants: bytes,
        allowed: NDArray[np.bool_] | None = None,
        boost: NDArray[np.float32] | None = None,
    ) -> NDArray[np.float32]:
        """What the scores of this call begin from."""
        if allowed is None and boost is not None and (constants, id(boost)) in self._boosts:
            known = self._boosts.get((constants, id(boost)))  # another thread may have let it go
            if known is not None:
                return known[1]
        with self._lock:
            base = self._bases.pop(constants, None)
            if base is None:
                base = kernels.bases(self.keys, self._prepared.columns, np.frombuffer(constants, np.float32))
                check_size(float(np.abs(base).max(initial=0.0)))
            self._bases[constants] = base
            while len(self._bases) > KEPT:
                self._bases.popitem(last=False)
        if boost is not None:
            base = self._boosted(constants, base, boost)
        if allowed is not None:
            if np.shape(allowed) != base.shape or np.asarray(allowed).dtype != np.bool_:
                raise ParameterError(f"allowed must hold True or False for each of {len(self)} explanations")
            base = np.where(allowed, base, np.float32(-np.inf))
        return base

    def _boosted(self, constants: bytes, base: NDArray[np.float32], boost: NDArray[np.float32]) -> NDArray[np.float32]:
        """A base with a boost, cached for boosts that cannot change: adding one takes as long as many candidates."""
        key = constants, id(boost)
        with self._lock:
            known = self._boosts.get(key)
        if known is not None:
            return known[1]
        given = np.asarray(boost, np.float32)
        if given.shape != base.shape or not np.isfinite(given).all():
            raise ParameterError(f"boost must hold one finite value for each of {len(self)} explanations")
        check_size(float(np.abs(given).max(initial=0.0)))
        base = base + given
        if isinstance(boost, np.ndarray) and not boost.flags.writeable:
            with self._lock:
                self._boosts[key] = boost, base  # as long as the boost is here, no other array has its id
                while len(self._boosts) > KEPT:
                    self._boosts.popitem(last=False)
        return base

    def _view(
        self, constants: bytes, base: NDArray[np.float32], plain: bool, request: Request, rows: NDArray[np.int64]
    ) -> View:
        """The prepared view for a base: kept, but for a filter or boost that comes with few queries."""
        if not plain and len(rows) >= MANY:
            constants += hashlib.blake2b(base.tobytes()).digest()
            plain = True
        with self._lock:
            view = self._views.pop(constants, None)
            if view is not None and constants in self._borrowed and len(rows) >= MANY:
                view = None
            if view is None:
                own = base if plain else self._base(constants)
                if self._views and len(rows) < MANY:  # any layout serves: a new one takes as long as many queries
                    layout = next(reversed(self._views.values())).layout
                    self._borrowed.add(constants)
                else:
                    layout = Layout(self._prepared, own, np.median(request.measures[rows, :2], axis=0), self._ranks)
                    self._borrowed.discard(constants)
                view = View(layout, own, self.memory // 4)
            self._views[constants] = view
            while len(self._views) > 1 and self.nbytes > self.memory:
                self._borrowed.discard(self._views.popitem(last=False)[0])
        return view if plain else View(view.layout, base, self.memory // 4)

    def _through(self, request: Request, view: View, rows: NDArray[np.int64], threads: int | None) -> tuple[int, int]:
        """Search the pool for some rows of a request. Returns blocks visited and explanations scored."""
        counts: list[tuple[int, int]] = []
        if view.layout.keys.paired:
            if view.layout.by_norms.queries == 0:  # a few show how far queries go
                counts.append(self._by_cells(request, view, rows[:CHUNK], threads))
                rows = rows[CHUNK:]
            often = _often(view.layout)
            if often < math.inf:
                starts = range(0, len(rows), CHUNK)
                some = [self._by_sums(request, view, rows[k : k + CHUNK], often, threads) for k in starts]
                counts += [found for _, found in some]
                rows = np.concatenate([rows[:0], *(rest for rest, _ in some)])
        if len(rows):
            counts.append(self._by_cells(request, view, rows, threads))
        return _total(counts)

    def _by_sums(
        self, request: Request, view: View, rows: NDArray[np.int64], often: float, threads: int | None
    ) -> tuple[NDArray[np.int64], tuple[int, int]]:
        """Search for those of some rows whose parts have ceilings, and return the others."""
        layout, share = view.layout, partial(_share, threads=threads)
        slots = request.slots
        with self._lock:
            known = self._ceilings(layout)
            if len(rows) > known.capacity:
                return rows, (0, 0)
            ready = known.find(request.queries, rows, slots, often, share)
            ready &= request.measures[rows, 2] > 0
            some, rest = rows[ready], rows[~ready]
            if len(some) == 0:
                return rest, (0, 0)
            request.levels[some] = view.levels(request.measures, some)
            pool, tables = view.pool(), known.tables()
        batch = request.batch(some, NO_JOBS)
        work = partial(sums.search_sums, pool, batch, request.best, view.tops, *tables, slots)
        found = _total(share(work, len(some)))
        with self._lock:
            layout.by_ceilings.add(len(some), found[0])
        return rest, found

    def _ceilings(self, layout: Layout) -> Ceilings:
        if layout.ceilings is None:
            layout.ceilings = Ceilings(layout, self.memory // 2)
        return layout.ceilings

    def _by_cells(self, request: Request, view: View, rows: NDArray[np.int64], threads: int | None) -> tuple[int, int]:
        """Walk the blocks in the order of the bounds that norms give."""
        cells, counts, order = view.cells_of(request.measures[rows])
        rows, ends, done = rows[order], np.cumsum(counts), []
        for first in range(0, len(cells), view.capacity):
            part = slice(first, first + view.capacity)
            some = rows[ends[first] - counts[first] : ends[part][-1]]
            with self._lock:
                request.levels[some] = view.levels(request.measures, some)
                places = np.array(view.cells(cells[part], _for_cells(view, threads)), np.int64)
                pool = view.pool()
            batch = request.batch(some, jobs_of(places, counts[part]))
            work = partial(topn.search, pool, batch, request.best)
            done += _share(work, len(batch.jobs), len(some) / len(batch.jobs), threads)
        found = _total(done)
        with self._lock:
            view.layout.by_norms.add(len(rows), found[0])
        return found

    def _among(
        self,
        queries: NDArray[np.float32],
        n: int,
        bonus: Bonus | None,
        allowed: NDArray[np.bool_] | None,
        boost: NDArray[np.float32] | None,
        candidates: Candidates,
        floors: NDArray[np.float32] | None,
        threads: int | None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Rank only the candidates of each query, with few calls: one pair is asked for more often than many."""
        keys, added = self._prepared, NO_BONUS if bonus is None else typed_bonus(bonus)
        queries = np.ascontiguousarray(queries, np.float32)
        fine = queries.ndim == 2 and queries.shape[1] == self.width and n >= 1 and floors is None
        if fine:
            checks = kernels.check_given(queries, keys.columns, *candidates, *added, len(self))
            fine, alike, longest, largest = checks
            fine = fine and longest * keys.longest <= LARGEST and largest <= LARGEST
        if not fine:  # this says what is wrong
            request = self._request(queries, n, bonus, floors)
            check_rows(candidates, len(request.queries), len(self), "candidates")
            alike = request.alike
        shape = (len(queries), min(n, len(self)))
        numbers, scores = np.empty(shape, np.int32), np.empty(shape, np.float32)
        least = NO_FLOORS if floors is None else np.ascontiguousarray(floors, np.float32)
        for constants, rows in self._groups(queries, alike):
            asked = (
                keys.padded,
                keys.shape,
                self._base(constants, allowed, boost),
                self._ranks,
                self._by_rank,
                queries,
            )
            work = partial(topn.search_given, *asked, rows, least, *added, *candidates, scores, numbers)
            _share(work, len(rows), threads=threads)
        return filled_up(numbers, scores, n)


def _total(counts: list[tuple[int, int]]) -> tuple[int, int]:
    return sum(visited for visited, _ in counts), sum(scored for _, scored in counts)


def _often(layout: Layout) -> float:
    """How often a part of queries has to be asked with before its ceilings are found: as often as they will have paid.

    Finding them goes through all blocks once, with half of the columns. Infinity where queries go through few blocks
    without them, or through nearly as many with them: their blocks are looked at one by one.
    """
    usual, other = layout.by_norms.mean, layout.by_ceilings
    worth = usual > FAR and (other.queries < ENOUGH or usual > 3.0 * other.mean)
    return 1.0 + len(layout.codes) / usual if worth else math.inf


def _for_cells(view: View, threads: int | None) -> Share:
    """Threads that put blocks in order for the cells of a view."""
    return partial(_share, each=len(view.layout.codes) / LIKE_A_CELL, threads=threads)


def _share(
    work: Callable[[int, int], Result], count: int, each: float = 1.0, threads: int | None = None
) -> list[Result]:
    """Do work(first, last) over pieces of 0..count in threads; the kernels release the interpreter.

    `each` says how many queries take as long.
    """
    if threads == 1 or count * each < 2 * PIECE:
        return [work(0, count)]
    threads = threads or CORES
    pieces = min(8 * threads, int(count * each) // PIECE, count)
    if pieces < 2:
        return [work(0, count)]
    cuts = np.linspace(0, count, pieces + 1).astype(int).tolist()
    return shared_thread_pool(threads).run([partial(work, first, last) for first, last in pairwise(cuts)])
