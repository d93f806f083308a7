"""Training of ExpGCN: vectors before a graph convolution, learned by BPR with several negatives and Adam."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.data.triplets import Triplets
from whyrank.errors import TrainingError
from whyrank.rng import draw_many, key_of, shuffled
from whyrank.thread_pool import ThreadPool
from whyrank.training._graph import adam, gather, pairwise_gradients
from whyrank.training._start import fill_uniform
from whyrank.training.checkpoint import Arrays, set_arrays
from whyrank.training.loop import EarlyStopping, Trained, Trainer

LOOK = 2  # epochs between looks at validation
PATIENCE = 5  # looks without a better ranking after which it is enough
START = 0.1  # vectors start uniformly within plus or minus this
PARTS = 8  # of a table that threads share; every row is summed by one of them, so that they change nothing
BASE = ("users", "items", "pool")
TABLES = ("user_factors", "explanation_by_user", "item_factors", "explanation_by_item")
Floats = NDArray[np.float32]
Tables = tuple[Floats, Floats, Floats, Floats]  # in the order of TABLES


class GraphSettings(NamedTuple):
    """What the vectors depend on beside the data."""

    factors: int
    layers: int
    learning_rate: float
    regularization: float
    negatives: int
    batch: int
    epochs: int
    seed: int


class GraphSide(NamedTuple):
    """One graph, from both sides; weights are counts over the roots of both degrees."""

    rows: CSR
    row_weights: Floats
    columns: CSR
    column_weights: Floats

    @classmethod
    def of(cls, relation: CSR, pool: int) -> GraphSide:
        row, counts = relation.rows_of_entries(), relation.counts.astype(np.float64)
        degrees = np.bincount(row, counts, relation.rows), np.bincount(relation.indices, counts, pool)
        weights = (counts / np.sqrt(degrees[0][row] * degrees[1][relation.indices])).astype(np.float32)
        order = np.argsort(relation.indices, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(relation.indices, minlength=pool))]).astype(np.int64)
        columns = CSR(indptr, row[order], relation.counts[order])
        return cls(relation, weights, columns, np.ascontiguousarray(weights[order]))


class GraphTrainer(Trainer):
    """Learns the vectors before convolution; stops when `measure` of the convolved ones has not risen for long."""

    def __init__(
        self, learn: Triplets, settings: GraphSettings, measure: Callable[[Tables], float], threads: ThreadPool
    ) -> None:
        self.settings, self.measure, self.threads = settings, measure, threads
        self.of, self.done, self.steps = settings.epochs, 0, 0
        pool, d = len(learn.explanations), settings.factors
        self.user, self.item, self.said = learn.user, learn.item, learn.explanation
        self.record, self.records = learn.record_explanations.rows_of_entries(), learn.record_explanations.indptr
        self.sides = (GraphSide.of(learn.user_explanations, pool), GraphSide.of(learn.item_explanations, pool))
        self.base = [np.empty((size, d), np.float32) for size in (len(learn.users), len(learn.items), pool)]
        for place, table in enumerate(self.base):
            fill_uniform(table, 0, d, np.float32(START), key_of(settings.seed, 0, place))
        self.moments = [(np.zeros_like(table), np.zeros_like(table)) for table in self.base]
        self.stopping, self.looked = EarlyStopping(patience=LOOK * PATIENCE), 0

    def epoch(self) -> Trained:
        """Every triplet once, in an order of the seed's; the mean loss."""
        number, size, seed = self.done + 1, self.settings.batch, self.settings.seed
        order = shuffled(len(self.said), key_of(seed, number)).astype(np.int64)
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        losses = [len(batch) * self._step(batch, key_of(seed, number, n)) for n, batch in enumerate(batches, 1)]
        loss = sum(losses) / len(order)
        if not math.isfinite(loss):
            raise TrainingError(f"ExpGCN diverged in epoch {number}; use a smaller learning_rate")
        self.done = number
        if number % LOOK == 0:
            self._look()
        return Trained(loss, len(order))

    @property
    def finished(self) -> bool:
        return self.done >= self.of or self.stopping.enough

    def best(self) -> Arrays:
        """The tables that ranked best; the last ones count, too, wherever training ended."""
        if self.looked != self.done:
            self._look()
        return self.stopping.best

    def _look(self) -> None:
        tables = self.convolved()
        self.stopping.look(self.done, self.measure(tables), dict(zip(TABLES, tables, strict=True)))
        self.looked = self.done

    def state(self) -> Arrays:
        noted = np.array([self.done, self.steps, self.looked, self.stopping.when])
        best = {f"best.{name}": table for name, table in self.stopping.best.items()}
        return {**self._tables(), **best, "noted": noted, "score": np.array([self.stopping.score])}

    def restore(self, arrays: Arrays) -> None:
        set_arrays(self._tables(), arrays)
        self.done, self.steps, self.looked, self.stopping.when = arrays["noted"].tolist()
        self.stopping.score = float(arrays["score"][0])
        if self.looked:
            self.stopping.best = {name: arrays[f"best.{name}"] for name in TABLES}
            self.stopping.enough = self.looked >= self.stopping.when + LOOK * PATIENCE

    def _tables(self) -> Arrays:
        moments = {
            f"{name}.{part}": moment
            for name, pair in zip(BASE, self.moments, strict=True)
            for part, moment in zip(("first", "second"), pair, strict=True)
        }
        return dict(zip(BASE, self.base, strict=True)) | moments

    def convolved(self) -> Tables:
        """The vectors that score."""
        users, items, pool = self.base
        return (*self._convolve(self.sides[0], users, pool), *self._convolve(self.sides[1], items, pool))

    def _convolve(self, side: GraphSide, left: Floats, right: Floats) -> tuple[Floats, Floats]:
        """The mean over all layers; as the graph's matrix is symmetric, also the way back for gradients."""
        sums, layers = (left.copy(), right.copy()), self.settings.layers
        for _ in range(layers):
            left, right = (
                self._gathered(side.rows, side.row_weights, right),
                self._gathered(side.columns, side.column_weights, left),
            )
            for total, layer in zip(sums, (left, right), strict=True):
                total += layer
        return sums[0] / np.float32(layers + 1), sums[1] / np.float32(layers + 1)

    def _gathered(self, joined: CSR, weights: Floats, others: Floats) -> Floats:
        out = np.empty((joined.rows, others.shape[1]), np.float32)
        self._shared(partial(gather, joined.indptr, joined.indices, weights, others, out), len(out))
        return out

    def _shared(self, work: Callable[[int, int], None], count: int) -> None:
        edges = np.linspace(0, count, PARTS + 1).astype(int).tolist()
        self.threads.run([partial(work, first, last) for first, last in pairwise(edges)])

    def _step(self, batch: NDArray[np.int64], key: np.uint64) -> float:
        drawn = draw_many(key, len(batch) * self.settings.negatives, len(self.base[2])).reshape(len(batch), -1)
        tables = self.convolved()
        users, by_user, items, by_item = (np.zeros_like(table) for table in tables)
        data = (self.user, self.item, self.said, self.record, self.records)
        loss = pairwise_gradients(batch, *data, drawn, tables, (users, by_user, items, by_item))
        users, by_user = self._convolve(self.sides[0], users, by_user)
        items, by_item = self._convolve(self.sides[1], items, by_item)
        self._update((users, items, by_user + by_item))
        return loss

    def _update(self, slopes: Sequence[Floats]) -> None:
        self.steps += 1
        rate = self.settings.learning_rate * math.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        for values, slope, (first, second) in zip(self.base, slopes, self.moments, strict=True):
            step = (values, slope, first, second, np.float32(rate), np.float32(self.settings.regularization))
            self._shared(partial(adam, *step), len(values))
