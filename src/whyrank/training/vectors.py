"""Tables of vectors that softmax training learns, with the moments of their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.simd import LANES
from whyrank.thread_pool import ThreadPool
from whyrank.training import _softmax as kernels
from whyrank.training._softmax import AdamMove, AdamTable, Grouped, WordRows
from whyrank.training.checkpoint import Arrays, set_arrays

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
# How much work stands before each of some rows (or columns) and in all, and what does it for first..last of them.
RowWork = tuple[NDArray[np.int64], Callable[[int, int], object]]

CACHE_LINE = 16  # of float32


@dataclass(frozen=True, eq=False)
class EntryWords:
    """The words of the entries of a vocabulary, each entry's weights having length one together."""

    rows: CSR
    count: int

    def weighted(self) -> WordRows:
        sizes = self.rows.sizes()
        weights = np.repeat(1 / np.sqrt(np.maximum(sizes, 1)), sizes).astype(np.float32)
        return WordRows(self.rows.indptr, self.rows.indices, weights)


class LearnedTable:
    """Numbers to learn, by Adam on touched rows."""

    def __init__(self, start: Floats) -> None:
        self.x, self.m, self.v = (_zeros(*start.shape) for _ in range(3))
        self.x[:] = start
        self.totals = _zeros(0, start.shape[1])

    def stepping(self, by: Grouped, near: Floats, column: int, far: Floats, move: AdamMove) -> RowWork:
        """A step on the rows of a gradient, which comes from the columns of one matrix and from another."""
        if len(self.totals) < len(by.rows):
            self.totals = _zeros(min(2 * len(by.rows), len(self.x)), self.x.shape[1])
        return by.indptr, partial(kernels.step_rows, by, near, column, far, self.arrays(), move)

    def arrays(self) -> AdamTable:
        return AdamTable(self.x, self.m, self.v, self.totals)

    def state(self) -> Arrays:
        return {"x": self.x, "m": self.m, "v": self.v}

    def restore(self, arrays: Arrays) -> None:
        set_arrays(self.state(), arrays)


class Vectors:
    """A table of vectors, an entry's being its own plus those of its words."""

    def __init__(self, rows: int, width: int, words: EntryWords | None, rng: np.random.Generator) -> None:
        self.own, self.room, self.word = LearnedTable(_start(rng, rows, width)), np.zeros(rows, np.int32), None
        self.value = self.own.x
        if words is not None:
            self.word, self.word_grads = LearnedTable(_start(rng, words.count, width)), _zeros(words.count, width)
            self.value, self.words = _zeros(rows, width), words.weighted()

    def composing(self, rows: Ints) -> list[RowWork]:
        """Make the vectors of some rows anew from their words."""
        if self.word is None:
            return []
        work = partial(kernels.compose, rows, self.own.x, self.words, self.word.x, self.value)
        return [(np.arange(len(rows) + 1), work)]

    def stepping_words(self, by: Grouped, move: AdamMove) -> list[RowWork]:
        """A step on the words of the rows that `own` has just moved."""
        if self.word is None:
            return []
        table = self.word.arrays()
        work = partial(kernels.step_words, by.rows, self.own.totals, self.words, self.word_grads, table, move)
        return [(np.arange(-(-table.x.shape[1] // LANES) + 1), work)]

    def snapshot(self) -> Floats:
        everything = np.arange(len(self.value), dtype=np.int32)
        for _, work in self.composing(everything):
            work(0, len(everything))
        return self.value.copy()

    def state(self) -> Arrays:
        own = {f"own.{name}": array for name, array in self.own.state().items()}
        return own | ({} if self.word is None else {f"word.{k}": array for k, array in self.word.state().items()})

    def restore(self, arrays: Arrays) -> None:
        set_arrays(self.state(), arrays)


def share_rows(threads: ThreadPool, works: Sequence[RowWork]) -> None:
    """Do works that do not need each other, each cut for the threads into stretches of rows with equal work."""
    tasks = []
    for before, work in works:
        shares = before[-1] * np.arange(1, threads.threads) // threads.threads
        cuts = [0, *np.searchsorted(before, shares).tolist(), len(before) - 1]
        tasks += [partial(work, cuts[k], cuts[k + 1]) for k in range(threads.threads)]
    threads.run(tasks)


def _start(rng: np.random.Generator, rows: int, width: int) -> Floats:
    return rng.standard_normal((rows, width), dtype=np.float32) * np.float32(0.05)


def _zeros(*shape: int) -> Floats:
    """A table that begins with a cache line, so that its rows do not straddle more of them than they need."""
    room = np.zeros(math.prod(shape) + CACHE_LINE, np.float32)
    first = -room.ctypes.data // room.itemsize % CACHE_LINE
    return room[first : first + math.prod(shape)].reshape(shape)
