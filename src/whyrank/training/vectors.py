"""Tables of vectors that softmax training learns, with the moments of their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.kernels import profile as kernels
from whyrank.training.records import PARTS

Floats = NDArray[np.float32]
# How many rows there are, and what is to be done with first..last of them; stretches never touch each other's.
Job = tuple[int, Callable[[int, int], object]]

CACHE_LINE = 16  # of float32
# Of entries without words: the words, their gradients, and which have one.
NO_WORDS = (
    *(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32)),
    *(np.empty((0, 0), np.float32), np.empty(0, np.uint8)),
)


@dataclass(frozen=True, eq=False)
class Words:
    """The words of the entries of a vocabulary, each entry's weights having length one together."""

    rows: CSR
    count: int

    @property
    def weights(self) -> Floats:
        sizes = self.rows.sizes()
        return np.repeat(1 / np.sqrt(np.maximum(sizes, 1)), sizes).astype(np.float32)


class Vectors:
    """A table of vectors, an entry's being its own plus those of its words, under Adam on touched rows."""

    def __init__(self, rows: int, width: int, words: Words | None, rng: np.random.Generator) -> None:
        self.words, self.step_count = words, 0
        self.own = Learned(rng.standard_normal((rows, width), dtype=np.float32) * np.float32(0.05))
        self.grads = _zeros(PARTS, rows, width)
        self.touched = np.zeros((PARTS, rows), np.uint8)
        self.value = self.own.x
        if words is not None:
            self.word = Learned(rng.standard_normal((words.count, width), dtype=np.float32) * np.float32(0.05))
            self.value = _zeros(rows, width)
            self.flat = (words.rows.indptr, words.rows.indices, words.weights)
            self.word_grads, self.word_touched = _zeros(words.count, width), np.zeros(words.count, np.uint8)

    def refreshing(self, needed: NDArray[np.uint8]) -> list[Job]:
        """Make the vectors anew that are needed."""
        if self.words is None:
            return []
        compose = partial(kernels.compose, needed, self.own.x, *self.flat, self.word.x, self.value)
        return [(len(self.value), compose)]

    def step(self, rate: float, penalty: float, word_penalty: float, scale: float) -> None:
        """One step of Adam; the marks of its rows stay, for others that share them."""
        self.step_count += 1
        own, by = self.own, (self.step_count, scale)
        flat = NO_WORDS if self.words is None else (*self.flat, self.word_grads, self.word_touched)
        kernels.step_entries(self.grads, self.touched, own.x, own.m, own.v, *flat, rate, penalty, *by)
        if self.words is not None:
            word = self.word
            kernels.step_words(self.word_grads, self.word_touched, word.x, word.m, word.v, rate, word_penalty, *by)

    def snapshot(self) -> Floats:
        for rows, work in self.refreshing(np.ones(len(self.value), np.uint8)):
            work(0, rows)
        return self.value.copy()

    def arrays(self) -> dict[str, NDArray[Any]]:
        found = {f"own.{name}": array for name, array in self.own.arrays().items()}
        if self.words is not None:
            found |= {f"word.{name}": array for name, array in self.word.arrays().items()}
        return found | {"steps": np.array([self.step_count])}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.own.restore(part_of(arrays, "own"))
        if self.words is not None:
            self.word.restore(part_of(arrays, "word"))
        self.step_count = int(arrays["steps"][0])


class Learned:
    """Numbers to learn with the moments of their gradients."""

    def __init__(self, start: Floats) -> None:
        self.x, self.m, self.v = (_zeros(*start.shape) for _ in range(3))
        self.x[:] = start

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"x": self.x, "m": self.m, "v": self.v}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.x[:], self.m[:], self.v[:] = (arrays[name] for name in ("x", "m", "v"))


def part_of(arrays: Mapping[str, NDArray[Any]], name: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names start with `name.`, without it."""
    return {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}


def _zeros(*shape: int) -> Floats:
    """A table that begins with a cache line, so that its rows do not straddle more of them than they need."""
    room = np.zeros(math.prod(shape) + CACHE_LINE, np.float32)
    first = -room.ctypes.data // room.itemsize % CACHE_LINE
    return room[first : first + math.prod(shape)].reshape(shape)
