"""The pool as the search walks it: a layout in blocks, and views of it for one `base` vector."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from whyrank.index import _layout as kernels
from whyrank.index._topn import QUERY_CODE, QUERY_OFFSET, TILE, SearchPool
from whyrank.simd import BLOCK, GROUP, LANES

if TYPE_CHECKING:
    from whyrank.index.ceilings import Ceilings

# Norms of queries are rounded up to this many steps per doubling: finer cells bound tighter but share less.
CELLS_PER_DOUBLING = 8
NEARNESS = 0.25  # how much norms count beside bases in the order of a pool whose queries have two parts
GROUPS = 512  # of blocks, at most, that parts of queries have ceilings for
TINY = np.float32(1e-36)

Share = Callable[[Callable[[int, int], Any], int], list[Any]]  # work(first, last) over pieces of 0..count


class Keys:
    """The keys, padded and encoded once, whatever the order of the pool.

    Columns before `split` are one part and those up to `columns` the other, which begins at an even column, `second`.
    """

    def __init__(self, keys: NDArray[np.float32], columns: int, split: int) -> None:
        count = len(keys)
        self.columns, self.split, self.second = columns, split, split + split % 2
        self.shape, self.paired = np.array([columns, split, self.second]), 0 < split < columns
        used = self.second + columns - split
        width = max(LANES, -(-used // LANES) * LANES)
        self.padded = np.zeros((count, width), np.float32)
        self.padded[:, :split], self.padded[:, self.second : used] = keys[:, :split], keys[:, split:columns]
        # One rounding error per product and sum, and a few for the bound itself.
        self.slack = (width + 16) * 2.0**-23
        norms = np.zeros((2, count), np.float64)
        norms[0] = _lengths(self.padded[:, : self.second])
        norms[1] = _lengths(self.padded[:, self.second :])
        whole = np.sqrt(norms[0] ** 2 + norms[1] ** 2)
        self.norms = np.nextafter((norms * (1.0 + self.slack)).astype(np.float32), np.float32(np.inf))
        self.longest = float(whole.max(initial=0.0))
        self.rounding = self.longest * self.slack
        self.reach = 126.0 - 0.5 * math.sqrt(max(columns, 1))  # of a code vector, before it is rounded
        longest = float(np.quantile(whole, 0.999)) if count else 0.0
        self.scale = longest / self.reach if longest > 0.0 else 1.0
        self.codes = np.empty((count, max(2, used + used % 2)), np.int8)
        self.code_norms, self.code_gaps = np.empty((2, count)), np.empty((2, count))
        kernels.encode(
            self.padded, whole, self.scale, longest, self.second, self.codes, self.code_norms, self.code_gaps
        )  # fmt: skip


def _lengths(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))


class Tally:
    """How many blocks queries went through."""

    def __init__(self) -> None:
        self.queries, self.visited = 0, 0

    def add(self, queries: int, visited: int) -> None:
        self.queries, self.visited = self.queries + queries, self.visited + visited

    @property
    def mean(self) -> float:
        return self.visited / max(self.queries, 1)


class Layout:
    """Blocks of 32 explanations with near bounds, so that whole blocks can be left out."""

    def __init__(
        self, keys: Keys, base: NDArray[np.float32], lengths: NDArray[np.float64], ranks: NDArray[np.int32]
    ) -> None:
        """`lengths` is what the two parts of a query typically measure; only speed depends on it.

        `ranks` says who wins among equals; near bounds stand by it, so that what cannot win a tie is left out, too.
        """
        count = len(base)
        lengths = lengths * (NEARNESS if keys.paired else 1.0)
        bound = base + lengths[0] * keys.norms[0] + lengths[1] * keys.norms[1]
        span = GROUP
        while count > GROUPS * span * BLOCK:
            span *= 2
        self.keys, self.groups = keys, max(1, -(-count // (span * BLOCK)))
        self.explanations = np.full(self.groups * span * BLOCK, -1, np.int32)
        self.explanations[:count] = np.lexsort((ranks, -bound))
        self.codes = kernels.pack(keys.codes, self.explanations)
        whole = [np.sqrt((each**2).sum(0)) for each in (keys.code_norms, keys.code_gaps)]
        losses = [self.spread(each, 0.0).reshape(-1, BLOCK).max(1) for each in whole]
        self.allowances = np.stack(losses, axis=1) * np.float32(1 + 1e-6)
        self.norms = np.stack([self.spread(part, 0.0) for part in keys.norms])
        self.ranks = ranks
        leaders = np.append(ranks, np.iinfo(np.int32).max).astype(np.int32)[self.explanations]
        self.leaders = leaders.reshape(-1, BLOCK).min(1)
        self.by_leader = np.argsort(self.leaders).astype(np.int32)
        self.places = np.empty_like(self.by_leader)
        self.places[self.by_leader] = np.arange(len(self.by_leader), dtype=np.int32)
        self.ceilings: Ceilings | None = None
        self.by_norms, self.by_ceilings = Tally(), Tally()

    def spread(self, values: NDArray[np.floating], missing: float) -> NDArray[np.float32]:
        """Values per explanation by position in the blocks."""
        result = np.full(len(self.explanations), missing, np.float32)
        result[: len(values)] = values[self.explanations[: len(values)]]
        return result


class View:
    """A layout seen with one base: starts per level of query scale, block orders per cell of query norms."""

    def __init__(self, layout: Layout, base: NDArray[np.float32], memory: int) -> None:
        self.layout, self.base = layout, base
        keys, spread = layout.keys, layout.spread(base, -np.inf)
        # Rounded up; the constant covers products too small for float32.
        self._base = spread + np.where(np.isfinite(spread), np.abs(spread) * np.float32(keys.slack) + TINY, 0)
        finite = base[np.isfinite(base)]
        self._top = float(self._base.max(initial=-np.inf)) if len(finite) else 0.0
        middle = float(np.median(finite)) if len(finite) else 0.0
        self._coarse = max((self._top - middle) / 16000.0, abs(self._top) * 2.0**-30, 1e-30)
        # Below this norm a query moves scores so little that cells need not grow finer with it.
        self._near = min(max(0.1 * (self._top - middle) / max(keys.longest, 1e-30), 1e-12), 1e30)
        blocks = len(layout.explanations) // BLOCK
        self.capacity = max(16, memory // (8 * max(blocks, 1)))
        self._levels: list[int] = []
        self._pool: SearchPool | None = None
        self._starts = np.empty((0, len(spread)), np.int16)
        self._cells: dict[tuple[int, int], int] = {}
        self._order, self._bounds = np.empty((0, blocks), np.int32), np.empty((0, blocks), np.float32)
        self.tops = self._base.reshape(layout.groups, -1).max(1)

    @property
    def nbytes(self) -> int:
        """What the view and its layout take."""
        layout = self.layout
        arrays = (layout.explanations, layout.codes, layout.norms, self.base, self._base)
        known = 0 if layout.ceilings is None else layout.ceilings.nbytes
        return known + sum(each.nbytes for each in (*arrays, self._starts, self._order, self._bounds))

    def levels(self, measures: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The level of each of these queries: the step of its codes, from a grid with two steps per doubling."""
        keys = self.layout.keys
        wanted = kernels.levels(measures, rows, keys.scale / keys.reach, keys.scale / QUERY_CODE, self._coarse)
        lowest, highest = (int(wanted.min()), int(wanted.max())) if len(wanted) else (0, 0)
        places = np.zeros(highest - lowest + 1, np.int64)
        present = np.flatnonzero(np.bincount(wanted - lowest)).tolist() if lowest < highest else [0]
        for place in present:
            if place + lowest not in self._levels:
                self._add_level(place + lowest)
            places[place] = self._levels.index(place + lowest)
        return places[wanted - lowest]

    def _add_level(self, level: int) -> None:
        starts = np.empty((1, len(self._base)), np.int16)
        kernels.begin(self._base, 2.0 ** (level / 2), self._centre(level), self.layout.codes, QUERY_OFFSET, starts[0])
        self._starts, self._levels, self._pool = np.concatenate([self._starts, starts]), [*self._levels, level], None

    def _centre(self, level: int) -> float:
        return self._top - 16383.0 * 2.0 ** (level / 2)

    def cells(self, wanted: list[tuple[int, int]], share: Share) -> list[int]:
        """Where the orders of these cells stand; at most `capacity` at a time."""
        new = [cell for cell in wanted if cell not in self._cells]
        if len(self._cells) + len(new) > self.capacity:
            new, self._cells = wanted, {}
            self._order, self._bounds = self._order[:0], self._bounds[:0]
        if new:
            lengths = np.array([[self._length(a), self._length(b)] for a, b in new], np.float32)
            known, count = len(self._cells), len(self._cells) + len(new)
            shape = count, self._order.shape[1]
            order, bounds = np.empty(shape, np.int32), np.empty(shape, np.float32)
            order[:known], bounds[:known] = self._order[:known], self._bounds[:known]
            nothing = new.index((0, 0)) if (0, 0) in new else -1

            def arrange(first: int, last: int) -> None:
                part, some = slice(known + first, known + last), lengths[first:last]
                highest = kernels.bound(self._base, self.layout.norms, some)
                if first <= nothing < last:  # what is asked with nothing scores its base, to the bit
                    highest[nothing - first] = self.layout.spread(self.base, -np.inf).reshape(-1, BLOCK).max(1)
                keys = kernels.walks(highest, self.layout.places)
                keys.sort(axis=1)
                kernels.walked(keys, self.layout.by_leader, order[part], bounds[part])

            share(arrange, len(new))
            self._order, self._bounds, self._pool = order, bounds, None
            self._cells.update({cell: known + k for k, cell in enumerate(new)})
        return [self._cells[cell] for cell in wanted]

    def pool(self) -> SearchPool:
        """What the kernel reads; it stays valid when the view grows."""
        if self._pool is None:
            self._pool = self._packed()
        return self._pool

    def _packed(self) -> SearchPool:
        layout, keys = self.layout, self.layout.keys
        steps = np.array([2.0 ** (level / 2) for level in self._levels])
        centres = np.array([self._centre(level) for level in self._levels])
        margins = 2.0 * keys.slack * (np.abs(centres) + 65536.0 * steps) + 4.0 * TINY
        return SearchPool(
            keys.padded, keys.shape, self.base, layout.ranks, layout.explanations, layout.leaders, layout.codes,
            keys.scale, layout.allowances, self._starts, steps, centres, margins, keys.rounding, self._order,
            self._bounds,
        )  # fmt: skip

    def cells_of(
        self, measures: NDArray[np.float64]
    ) -> tuple[list[tuple[int, int]], NDArray[np.int64], NDArray[np.int64]]:
        """Cells of the queries (steps of a grid of both norms, rounded up), their sizes, and queries by cell.

        Steps are twice as wide if tiles would not be half full: queries that walk together read the pool once.
        """
        norms = measures[:, :2]
        if len(norms) == 1:
            alone = [self._step(norm) for norm in norms[0].tolist()]
            return [(alone[0], alone[1])], np.ones(1, np.int64), np.zeros(1, np.int64)
        fine = np.ceil(np.log2(norms / self._near + 1.0) * CELLS_PER_DOUBLING + 1e-6 * (norms > 0)).astype(np.int64)
        for width in (1, 2):
            steps = -(-fine // width)
            across = int(steps[:, 1].max(initial=0)) + 1
            joined = steps[:, 0] * across + steps[:, 1]
            counts = np.bincount(joined)
            present = np.flatnonzero(counts)
            if (-(-counts[present] // TILE)).sum() <= 2 * -(-len(joined) // TILE):
                break
        cells = [(width * (cell // across), width * (cell % across)) for cell in present.tolist()]
        if len(counts) <= 1 << 16:
            joined = joined.astype(np.uint16)  # sorted by digits, which is faster
        return cells, counts[present], np.argsort(joined, kind="stable")

    def highest(self, measures: NDArray[np.float64]) -> NDArray[np.float32]:
        """What no score of each query exceeds: the largest bound over all blocks, from its norms alone."""
        cells, counts, order = self.cells_of(measures)
        lengths = np.array([[self._length(a), self._length(b)] for a, b in cells], np.float32).reshape(-1, 2)
        result = np.empty(len(measures), np.float32)
        result[order] = np.repeat(kernels.bound(self._base, self.layout.norms, lengths).max(1), counts)
        return result

    def _step(self, norm: float) -> int:
        """The cell of a norm."""
        return math.ceil(math.log2(norm / self._near + 1.0) * CELLS_PER_DOUBLING + 1e-6 * (norm > 0))

    def _length(self, step: int) -> float:
        """The largest norm of a cell's queries."""
        return self._near * float(2.0 ** (step / CELLS_PER_DOUBLING) - 1.0)
