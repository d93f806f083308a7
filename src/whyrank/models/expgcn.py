"""ExpGCN: vectors that are averaged over the graphs of users and items with explanations (Wei et al., 2023)."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.data.triplets import Triplets
from whyrank.errors import ParameterError, TrainingError
from whyrank.kernels.graph import adam, gather, pairwise_gradients
from whyrank.kernels.rng import draw_many, key_of, shuffled
from whyrank.kernels.start import fill_uniform
from whyrank.models.base import Model, Shape
from whyrank.models.counts import held_out, quality, sampled
from whyrank.models.parameters import parameter, seed_parameter
from whyrank.ranking.form import Block, Floats, Numbers, rows
from whyrank.thread_pool import ThreadPool
from whyrank.training import Epoch, Run

LOOK = 2  # epochs between looks at validation
PATIENCE = 5  # looks without a better ranking after which it is enough
START = 0.1  # vectors start uniformly within plus or minus this
PARTS = 8  # of a table that threads share; every row is summed by one of them, so that they change nothing
Tables = tuple[Floats, Floats, Floats, Floats]  # users, explanations beside them, items, explanations beside them


@dataclass(kw_only=True, eq=False)
class ExpGCN(Model):
    """p_u . oU_e + q_i . oI_e, where vectors are means over the layers of a graph convolution.

    The graph of users, items and explanations is divided by the kind of its edges: users with what they said, items
    with what was said about them. In each, a node's vector in the next layer is the sum of its neighbours', divided by
    the roots of both degrees (LightGCN); explanations start from the same vectors in both. Trained by BPR with several
    negatives and Adam; it stops when validation no longer rises. The task of ranking items is left out.
    """

    id = "expgcn"
    summary = "graph convolution over user-explanation and item-explanation"
    uses_validation = True
    fitted: ClassVar[tuple[str, ...]] = ("user_factors", "item_factors", "explanation_by_user", "explanation_by_item")

    factors: int = parameter(64, "d: length of a vector", at_least=1, at_most=4096)
    layers: int = parameter(2, "how far the convolution reaches", at_least=0, at_most=8)
    learning_rate: float = parameter(0.005, "of Adam", above=0)
    regularization: float = parameter(1e-6, "weight of the squared vectors", at_least=0)
    negatives: int = parameter(20, "drawn for every triplet", at_least=1, at_most=1000)
    batch: int = parameter(4096, "triplets a step", at_least=1)
    epochs: int = parameter(200, "passes over the training data at most", at_least=1)
    seed: int = seed_parameter()

    def shapes(self) -> dict[str, Shape]:
        catalog, d = self.catalog_, self.factors
        sizes = (catalog.users, catalog.items, catalog.explanations, catalog.explanations)
        return {name: (len(size), d) for name, size in zip(self.fitted, sizes, strict=True)}

    def _fit(self, train: Triplets, run: Run, validation: Triplets | None) -> None:
        learn, check = held_out(train, validation)
        check = sampled(check)
        catalog, self.catalog_ = self.catalog_, Catalog.of(learn, quotes=False)
        best, score, since = None, -1.0, 0
        with ThreadPool(run.threads or os.cpu_count() or 1) as threads:
            training = _Training(self, learn, threads)
            for monitor in run.monitors:
                monitor.on_start(0, self.epochs)
            for number in range(1, self.epochs + 1):
                told = self._epoch(training, number)
                stopped = max((monitor.on_epoch(told, None) for monitor in run.monitors), default=False)  # asks all
                if number % LOOK == 0 or number == self.epochs or stopped:
                    self._take(training.convolved())
                    found = quality(self, check)
                    since = 0 if found > score else since + 1
                    best, score = (training.convolved(), found) if found > score else (best, score)
                if stopped or since >= PATIENCE:
                    break
        assert best is not None
        self.catalog_ = catalog
        self._take(best)

    def _epoch(self, training: _Training, number: int) -> Epoch:
        begin = time.perf_counter()
        loss = training.epoch(number)
        seconds = time.perf_counter() - begin
        if not math.isfinite(loss):
            raise TrainingError(f"ExpGCN diverged in epoch {number}; use a smaller learning_rate")
        speed = len(training.said) / max(seconds, 1e-9)
        return Epoch(number, self.epochs, loss, speed, seconds, seconds * (self.epochs - number))

    def _take(self, tables: Tables) -> None:
        self.user_factors_, self.explanation_by_user_, self.item_factors_, self.explanation_by_item_ = tables
        self._forget()

    def keys(self) -> Floats:
        return np.hstack([self.explanation_by_user_, self.explanation_by_item_])

    def queries(self, users: Numbers, items: Numbers, mu: float | None = None) -> Floats:
        return np.hstack([rows(self.user_factors_, users), rows(self.item_factors_, items)])

    def blocks(self) -> tuple[Block, ...]:
        return (Block("user", self.factors), Block("item", self.factors))

    def _grow(self, catalog: Catalog) -> None:
        raise ParameterError("ExpGCN cannot fold in: its vectors come from the whole graph; fit it again")


class _Side(NamedTuple):
    """One graph, from both sides; weights are counts over the roots of both degrees."""

    rows: CSR
    row_weights: Floats
    columns: CSR
    column_weights: Floats

    @classmethod
    def of(cls, relation: CSR, pool: int) -> _Side:
        row, counts = relation.rows_of_entries(), relation.counts.astype(np.float64)
        degrees = np.bincount(row, counts, relation.rows), np.bincount(relation.indices, counts, pool)
        weights = (counts / np.sqrt(degrees[0][row] * degrees[1][relation.indices])).astype(np.float32)
        order = np.argsort(relation.indices, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(relation.indices, minlength=pool))]).astype(np.int64)
        columns = CSR(indptr, row[order], relation.counts[order])
        return cls(relation, weights, columns, np.ascontiguousarray(weights[order]))


class _Training:
    """Vectors before convolution, their moments, and the graphs."""

    def __init__(self, model: ExpGCN, learn: Triplets, threads: ThreadPool) -> None:
        self.model, self.threads, self.steps = model, threads, 0
        pool, d = len(learn.explanations), model.factors
        self.user, self.item, self.said = learn.user, learn.item, learn.explanation
        self.record, self.records = learn.record_explanations.rows_of_entries(), learn.record_explanations.indptr
        self.sides = (_Side.of(learn.user_explanations, pool), _Side.of(learn.item_explanations, pool))
        self.base = [np.empty((size, d), np.float32) for size in (len(learn.users), len(learn.items), pool)]
        for place, table in enumerate(self.base):
            fill_uniform(table, 0, d, np.float32(START), key_of(model.seed, 0, place))
        self.moments = [(np.zeros_like(table), np.zeros_like(table)) for table in self.base]

    def convolved(self) -> Tables:
        """The vectors that score."""
        users, items, pool = self.base
        return (*self._convolve(self.sides[0], users, pool), *self._convolve(self.sides[1], items, pool))

    def _convolve(self, side: _Side, left: Floats, right: Floats) -> tuple[Floats, Floats]:
        """The mean over all layers; as the graph's matrix is symmetric, also the way back for gradients."""
        sums, layers = (left.copy(), right.copy()), self.model.layers
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

    def epoch(self, number: int) -> float:
        """Every triplet once, in an order of the seed's; the mean loss."""
        model = self.model
        order = shuffled(len(self.said), key_of(model.seed, number)).astype(np.int64)
        batches = [order[start : start + model.batch] for start in range(0, len(order), model.batch)]
        losses = [len(batch) * self._step(batch, key_of(model.seed, number, n)) for n, batch in enumerate(batches, 1)]
        return sum(losses) / len(order)

    def _step(self, batch: NDArray[np.int64], key: np.uint64) -> float:
        pool, model = len(self.base[2]), self.model
        drawn = draw_many(key, len(batch) * model.negatives, pool).reshape(len(batch), model.negatives)
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
        rate = self.model.learning_rate * math.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        for values, slope, (first, second) in zip(self.base, slopes, self.moments, strict=True):
            step = (values, slope, first, second, np.float32(rate), np.float32(self.model.regularization))
            self._shared(partial(adam, *step), len(values))
