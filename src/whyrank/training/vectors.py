"""Tables of vectors that softmax training learns, with the moments of their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.simd import LANES
from whyrank.thread_pool import ThreadPool
from whyrank.training import _profile as kernels
from whyrank.training.checkpoint import Arrays, set_arrays

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
# How much work stands before each of some rows (or columns) and in all, and what does it for first..last of them.
RowWork = tuple[Longs, Callable[[int, int], object]]

CACHE_LINE = 16  # of float32
NO_FAR = np.empty((0, 0), np.float32)


@dataclass(frozen=True, eq=False)
class EntryWords:
    """The words of the entries of a vocabulary, each entry's weights having length one together."""

    rows: CSR
    count: int

    @property
    def weights(self) -> Floats:
        sizes = self.rows.sizes()
        return np.repeat(1 / np.sqrt(np.maximum(sizes, 1)), sizes).astype(np.float32)


class Grouped(NamedTuple):
    """A sparse gradient: the rows that it touches, and for each the list of what is added up.

    Entry j of a list adds coefficients[order[j]] times the row sources[order[j]] of some matrix.
    """

    rows: Ints
    indptr: Longs
    order: Ints
    sources: Ints
    coefficients: Floats

    @classmethod
    def of(cls, numbers: Ints, sources: Ints, coefficients: Floats, room: Ints) -> Grouped:
        return cls(*kernels.group(numbers, room), sources, coefficients)


class Vectors:
    """A table of vectors, an entry's being its own plus those of its words, under Adam on touched rows."""

    def __init__(self, rows: int, width: int, words: EntryWords | None, rng: np.random.Generator) -> None:
        self.own, self.room, self.word = AdamTable(_start(rng, rows, width)), np.zeros(rows, np.int32), None
        self.value = self.own.x
        if words is not None:
            self.word, self.word_grads = AdamTable(_start(rng, words.count, width)), _zeros(words.count, width)
            self.value = _zeros(rows, width)
            self.words = (words.rows.indptr, words.rows.indices, words.weights)

    def composing(self, rows: Ints) -> list[RowWork]:
        """Make the vectors of some rows anew from their words."""
        if self.word is None:
            return []
        work = partial(kernels.compose, rows, self.own.x, *self.words, self.word.x, self.value)
        return [(np.arange(len(rows) + 1), work)]

    def stepping(
        self, by: Grouped, near: Floats, column: int, far: Floats, rate: float, penalty: float, step: int, scale: float
    ) -> list[RowWork]:
        """A step of Adam on touched rows."""
        return self.own.stepping(by, near, column, far, rate, penalty, step, scale)

    def stepping_words(self, by: Grouped, rate: float, penalty: float, step: int, scale: float) -> list[RowWork]:
        """A step of Adam on the words of touched rows, after those."""
        if self.word is None:
            return []
        word = self.word
        work = partial(
            kernels.step_words, by.rows, self.own.totals, *self.words, self.word_grads, word.x, word.m, word.v,
            rate, penalty, step, scale,
        )  # fmt: skip
        return [(np.arange(-(-word.x.shape[1] // LANES) + 1), work)]

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


class AdamTable:
    """Numbers to learn with the moments of their gradients; `totals` are the last gradients of touched rows."""

    def __init__(self, start: Floats) -> None:
        self.x, self.m, self.v = (_zeros(*start.shape) for _ in range(3))
        self.x[:] = start
        self.totals = _zeros(0, start.shape[1])

    def stepping(
        self, by: Grouped, near: Floats, column: int, far: Floats, rate: float, penalty: float, step: int, scale: float
    ) -> list[RowWork]:
        if len(self.totals) < len(by.rows):
            self.totals = _zeros(min(2 * len(by.rows), len(self.x)), self.x.shape[1])
        work = partial(
            kernels.step_rows, by.rows, by.indptr, by.order, by.sources, by.coefficients, near, column,
            far if far.size else near, self.totals, self.x, self.m, self.v, rate, penalty, step, scale,
        )  # fmt: skip
        return [(by.indptr, work)]

    def state(self) -> Arrays:
        return {"x": self.x, "m": self.m, "v": self.v}

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
