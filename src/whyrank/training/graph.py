"""Training of ExpGCN: vectors before a graph convolution, learned by BPR with several negatives and Adam."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel
from whyrank.data.csr import CSR
from whyrank.data.triplets import Triplets
from whyrank.errors import TrainingError
from whyrank.rng import draw_many, key_of, shuffled
from whyrank.thread_pool import ThreadPool
from whyrank.training._descent import AdamMoments, AdamStep, Pairs, Scored, adam_rows, add_rows, bpr_gradients
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


class Edges(NamedTuple):
    """Row -> the rows of the other side that it is joined to, with weights."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    weights: Floats


class GraphSide(NamedTuple):
    """One graph, from both sides; weights are counts over the roots of both degrees."""

    rows: Edges
    columns: Edges

    @classmethod
    def of(cls, relation: CSR, pool: int) -> GraphSide:
        row, counts = relation.rows_of_entries(), relation.counts.astype(np.float64)
        degrees = np.bincount(row, counts, relation.rows), np.bincount(relation.indices, counts, pool)
        weights = (counts / np.sqrt(degrees[0][row] * degrees[1][relation.indices])).astype(np.float32)
        order = np.argsort(relation.indices, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(relation.indices, minlength=pool))]).astype(np.int64)
        columns = Edges(indptr, row[order], np.ascontiguousarray(weights[order]))
        return cls(Edges(relation.indptr, relation.indices, weights), columns)


class GraphTrainer(Trainer):
    """Learns the vectors before convolution; stops when `measure` of the convolved ones has not risen for long."""

    def __init__(
        self, learn: Triplets, settings: GraphSettings, measure: Callable[[Tables], float], threads: ThreadPool
    ) -> None:
        self.settings, self.measure, self.threads = settings, measure, threads
        self.of, self.done = settings.epochs, 0
        pool, d = len(learn.explanations), settings.factors
        self.user, self.item, self.said = learn.user, learn.item, learn.explanation
        self.record, self.records = learn.record_explanations.rows_of_entries(), learn.record_explanations
        self.sides = (GraphSide.of(learn.user_explanations, pool), GraphSide.of(learn.item_explanations, pool))
        self.base = [np.empty((size, d), np.float32) for size in (len(learn.users), len(learn.items), pool)]
        for place, table in enumerate(self.base):
            fill_uniform(table, 0, d, np.float32(START), key_of(settings.seed, 0, place))
        self.moments = [AdamMoments.of(table) for table in self.base]
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
        noted = np.array([self.done, self.looked, self.stopping.when])
        best = {f"best.{name}": table for name, table in self.stopping.best.items()}
        return {**self._tables(), **best, "noted": noted, "score": np.array([self.stopping.score])}

    def restore(self, arrays: Arrays) -> None:
        set_arrays(self._tables(), arrays)
        self.done, self.looked, self.stopping.when = arrays["noted"].tolist()
        self.stopping.score = float(arrays["score"][0])
        if self.looked:
            self.stopping.best = {name: arrays[f"best.{name}"] for name in TABLES}
            self.stopping.enough = self.looked >= self.stopping.when + LOOK * PATIENCE

    def _tables(self) -> Arrays:
        moments = {
            f"{name}.{part}": array
            for name, moments in zip(BASE, self.moments, strict=True)
            for part, array in moments._asdict().items()
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
                self._gathered(side.rows, right),
                self._gathered(side.columns, left),
            )
            for total, layer in zip(sums, (left, right), strict=True):
                total += layer
        return sums[0] / np.float32(layers + 1), sums[1] / np.float32(layers + 1)

    def _gathered(self, edges: Edges, others: Floats) -> Floats:
        out = np.empty((len(edges.indptr) - 1, others.shape[1]), np.float32)
        self._shared(partial(gather, edges, others, out), len(out))
        return out

    def _shared(self, work: Callable[[int, int], None], count: int) -> None:
        ends = np.linspace(0, count, PARTS + 1).astype(int).tolist()
        self.threads.run([partial(work, first, last) for first, last in pairwise(ends)])

    def _step(self, batch: NDArray[np.int64], key: np.uint64) -> float:
        """Learn from some triplets; their mean loss."""
        loss, slopes = self.gradients(batch, draw_many(key, len(batch) * self.settings.negatives, len(self.base[2])))
        users, items = self._convolve(self.sides[0], *slopes[:2]), self._convolve(self.sides[1], *slopes[2:])
        by = AdamStep.of(self.settings.learning_rate)
        for table, moments, slope in zip(
            self.base, self.moments, (users[0], items[0], users[1] + items[1]), strict=True
        ):
            slope += np.float32(self.settings.regularization) * table
            self._shared(partial(_move, table, moments, slope, by), len(table))
        return loss

    def gradients(self, batch: NDArray[np.int64], drawn: NDArray[np.int64]) -> tuple[float, Tables]:
        """The mean loss of some triplets against drawn explanations, so many for each, and its gradients by the tables.

        What a triplet's record itself says does not count. A score is the product of [user, item] with [explanation
        beside users, explanation beside items].
        """
        by_user, pool_by_user, by_item, pool_by_item = tables = self.convolved()
        users, items, d, count = self.user[batch], self.item[batch], by_user.shape[1], len(drawn) // len(batch)
        place, said = np.repeat(np.arange(len(batch)), count), self.records.take(self.record[batch])
        pairs = Pairs(place, self.said[batch][place].astype(np.int64), np.where(said.holds(place, drawn), -1, drawn))
        columns = np.hstack([pool_by_user, pool_by_item])
        values = Scored(np.hstack([by_user[users], by_item[items]]), columns, np.zeros((len(columns), 1), np.float32))
        slopes = values.zeros()
        loss = bpr_gradients(values, pairs, np.float32(1 / len(drawn)), slopes) / len(drawn)
        of_users, of_items = np.zeros_like(tables[0]), np.zeros_like(tables[2])
        add_rows(of_users, users, slopes.rows[:, :d])
        add_rows(of_items, items, slopes.rows[:, d:])
        return loss, (of_users, slopes.columns[:, :d].copy(), of_items, slopes.columns[:, d:].copy())


def _move(table: Floats, moments: AdamMoments, slope: Floats, by: AdamStep, first: int, last: int) -> None:
    adam_rows(table, moments, np.arange(first, last), slope[first:last], by)


@kernel
def gather(edges: Edges, others: Floats, out: Floats, first: int, last: int) -> None:
    """Write for rows first ... last - 1 the weighted sum of the other side's rows that they are joined to, in order."""
    indptr, indices, weights = edges
    for row in range(first, last):
        for k in range(out.shape[1]):
            out[row, k] = 0
        for at in range(indptr[row], indptr[row + 1]):
            other, weight = indices[at], weights[at]
            for k in range(out.shape[1]):
                out[row, k] += weight * others[other, k]
