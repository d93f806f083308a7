"""Softmax training of profile models: a loss over the whole pool, where factor models have one over pairs."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from whyrank.errors import TrainingError
from whyrank.thread_pool import ThreadPool
from whyrank.training import _softmax as kernels
from whyrank.training._softmax import AdamMove, Grouped, RecordLists, ScoreParts, SoftmaxSlopes, Strengths
from whyrank.training.checkpoint import Arrays, part_of, set_arrays
from whyrank.training.records import SoftmaxRecords
from whyrank.training.vectors import EntryWords, Floats, Ints, LearnedTable, RowWork, Vectors, share_rows

FULL = 3000  # pools up to this size are summed whole; larger ones by a weighted sample, one for every batch
# A batch is cut into so many parts, whatever the number of threads, and so many records each if it has enough.
LEAST_PARTS, MOST_PARTS, PART = 4, 16, 128
# Strengths of evidence, of one side and of the other: log scale, power of popularity, power of activity.
START = (-3.0, 0.6, 0.1, -3.0, 0.6, 0.3)
WARM_UP = 30  # steps in which the rate rises to what it is set to


@dataclass(frozen=True, eq=False)
class SoftmaxTask:
    """What is predicted (targets) from what (two sides)."""

    source: SoftmaxRecords
    popularity: NDArray[np.int64]
    inputs: tuple[int, int]  # sizes of the sides' vocabularies; 0: the side says nothing
    evidence: bool  # whether sides hold targets, so that their counts speak for themselves
    words: EntryWords | None = None  # of the targets
    input_words: tuple[EntryWords | None, EntryWords | None] = (None, None)
    among_second: bool = False  # whether targets compete with what stands on the second side alone, not with the pool
    theta: NDArray[np.float64] | None = None  # strengths of evidence to start from


@dataclass(frozen=True)
class SoftmaxSettings:
    """How to train; `penalty` pulls vectors of entries, `word_penalty` those of words to zero."""

    factors: int = 32
    learning_rate: float = 0.01
    decay: float = 0.75
    batch: int = 512
    penalty: float = 1e-4
    word_penalty: float = 1e-4
    sample: int = 512  # of a large pool
    seed: int = 0
    threads: int | None = None


class SoftmaxBatch(NamedTuple):
    """Some records, the weights of what stands in their profiles, and the gradients of both sides by profiles."""

    lists: RecordLists
    weights: Floats
    sides: tuple[Grouped, Grouped]

    @property
    def records(self) -> int:
        return len(self.lists.indptr) - 1


class SoftmaxStep(NamedTuple):
    """What a batch shares among its parts, each of which has its own rows of `x`, `dx` and `mass`.

    `sample` are the keys of what stands for the pool, `turned` the same by columns, `offset` what is added to scores.
    """

    batch: SoftmaxBatch
    by_score: Grouped
    strengths: Strengths
    x: Floats
    dx: Floats
    mass: Floats
    sample: Floats
    turned: Floats
    offset: Floats


class SoftmaxGradient(NamedTuple):
    """The gradient of a batch: of keys and bias by dense rows beside the sparse `by_score`, of theta."""

    keys: Floats
    bias: Floats
    theta: NDArray[np.float64]


class SoftmaxTraining:
    """One configuration in training, an epoch or a part of one at a time."""

    def __init__(self, task: SoftmaxTask, settings: SoftmaxSettings) -> None:
        self.task, self.settings = task, settings
        self.epochs = self.steps = self.done = 0  # `done`: records of an epoch under way
        self.theta = np.array(START if task.theta is None else task.theta)
        self.theta_moments = np.zeros((2, 6))
        self.rng = np.random.default_rng([settings.seed, 7])
        self.threads = ThreadPool(max(1, min(settings.threads or os.cpu_count() or 1, MOST_PARTS)))
        d, pool = settings.factors, len(task.popularity)
        self.log_share = np.log((task.popularity + 0.5) / max(task.popularity.sum(), 1))
        widths = [d if size else 0 for size in task.inputs]
        self.width = sum(widths)
        self.keys = Vectors(pool, self.width, task.words, self.rng)
        self.inputs = [
            Vectors(size, width, words, self.rng)
            for size, width, words in zip(task.inputs, widths, task.input_words, strict=True)
        ]
        self.bias = LearnedTable(self.log_share.astype(np.float32)[:, None].copy())
        weight = (task.popularity + 1.0) ** 0.75
        self.chance = weight / weight.sum()
        self.cumulative = np.cumsum(self.chance)
        self.cumulative[-1] = 2.0
        self.places_of = np.zeros((MOST_PARTS, pool), np.int32)
        self.mass = np.empty((0, 0), np.float32)
        self.began, self.loss = _random_words(self.rng), np.zeros(2)

    @property
    def full(self) -> bool:
        return len(self.task.popularity) <= FULL and not self.task.among_second

    def epoch(self, steps: int | None = None) -> float:
        """The rest of a pass over all records in random order, or so many steps of it; answers its mean loss so far."""
        settings, source = self.settings, self.task.source
        rate = settings.learning_rate * settings.decay**self.epochs
        if self.done == 0:
            self.began, self.loss = _random_words(self.rng), np.zeros(2)
            self.order = self.rng.permutation(source.count)
        order = self.order
        stop = len(order) if steps is None else min(self.done + steps * settings.batch, len(order))
        with threadpool_limits(limits=1, user_api="blas"), np.errstate(over="ignore", invalid="ignore"):
            batches = map(self.batch, source.lists(order[self.done : stop], settings.batch))
            for batch in batches if self.threads.threads == 1 else _ahead(batches):
                self.loss += (self._learn(batch, rate), len(batch.lists.targets))
        loss, entries = self.loss
        if not math.isfinite(loss):
            raise TrainingError(f"the loss is no longer a number; lower learning_rate (it is {settings.learning_rate})")
        self.done = stop
        if stop == len(order):
            self.epochs, self.done = self.epochs + 1, 0
        return float(loss / max(entries, 1))

    def learned(self) -> Arrays:
        """Vectors of targets (d for each side that speaks), their bias, vectors of both sides' entries, strengths."""
        first, second = (inputs.snapshot() for inputs in self.inputs)
        found: Arrays = {"keys": self.keys.snapshot(), "bias": self.bias.x[:, 0].copy(), "theta": self.theta.copy()}
        return found | {"first": first, "second": second}

    def state(self) -> Arrays:
        """Everything that another training of the same task and settings needs to go on from here."""
        found = {"theta": self.theta, "theta_moments": self.theta_moments, "random": _random_words(self.rng)}
        found |= {"counts": np.array([self.epochs, self.steps, self.done]), "began": self.began, "loss": self.loss}
        for name, part in self._parts().items():
            found |= {f"{name}.{key}": array for key, array in part.state().items()}
        return found

    def restore(self, arrays: Arrays) -> None:
        """Go on from a state."""
        set_arrays({"theta": self.theta, "theta_moments": self.theta_moments, "loss": self.loss}, arrays)
        self.epochs, self.steps, self.done = (int(count) for count in arrays["counts"])
        self.began = arrays["began"]
        if self.done:
            _set_random_words(self.rng, self.began)
            self.order = self.rng.permutation(self.task.source.count)
        _set_random_words(self.rng, arrays["random"])
        for name, part in self._parts().items():
            part.restore(part_of(arrays, name))

    def _parts(self) -> dict[str, Vectors | LearnedTable]:
        return {"keys": self.keys, "first": self.inputs[0], "second": self.inputs[1], "bias": self.bias}

    def batch(self, lists: RecordLists) -> SoftmaxBatch:
        """Some records with all that does not depend on what is learned."""
        weights = kernels.profile_weights(lists.counts, lists.places)
        sides = []
        for side, inputs in enumerate(self.inputs):
            numbers, by, records = kernels.side_entries(lists.numbers, weights, lists.places, side)
            sides.append(Grouped(*kernels.group(numbers, inputs.room), records, by))
        return SoftmaxBatch(lists, weights, (sides[0], sides[1]))

    def _learn(self, batch: SoftmaxBatch, rate: float) -> float:
        """Learn from a batch; answers its loss.

        Parts of its records give their profiles, losses and gradients by scores; then stretches of rows of every table
        add up their own gradients from these, in order, and move.
        """
        self.steps += 1
        step = self._prepared(batch)
        loss, gradient = self.gradient(step)
        self._move(step, gradient, rate * min(1.0, self.steps / WARM_UP))
        return loss

    def _prepared(self, batch: SoftmaxBatch) -> SoftmaxStep:
        records, pool = batch.records, len(self.task.popularity)
        drawn = np.arange(pool, dtype=np.int32) if self.full else self._draw()
        by_score = self._by_score(batch.lists, drawn)
        works = [self.keys.composing(by_score.rows)]
        works += [table.composing(by.rows) for table, by in zip(self.inputs, batch.sides, strict=True)]
        share_rows(self.threads, [work for each in works for work in each])
        offset, sample = self.bias.x[:, 0], self.keys.value
        if not self.full:
            sample, offset = sample[drawn], offset[drawn]
            offset -= np.log(self.settings.sample * self.chance[drawn]).astype(np.float32)
        if self.mass.shape[0] < records or self.mass.shape[1] != len(drawn):
            self.mass = np.empty((records, len(drawn)), np.float32)
        x, dx = np.zeros((2, records, self.width), np.float32)
        strengths = Strengths(self.theta, self.log_share, np.exp(-self.theta[[1, 4], None] * self.log_share))
        turned = np.ascontiguousarray(sample.T)
        return SoftmaxStep(batch, by_score, strengths, x, dx, self.mass[:records], sample, turned, offset)

    def _by_score(self, lists: RecordLists, drawn: Ints) -> Grouped:
        """The gradient of keys: by scores of profiles' entries (filled in later), of targets, and of what was drawn."""
        records = len(lists.indptr) - 1
        dense = records + np.arange(len(drawn), dtype=np.int32)
        if self.full:
            return Grouped(drawn, np.arange(len(drawn) + 1), drawn, dense, np.ones(len(drawn), np.float32))
        everyone = np.arange(records, dtype=np.int32)
        entries = np.repeat(everyone, np.diff(lists.places[::2])) if self.task.evidence else everyone[:0]
        sources = np.concatenate([entries, np.repeat(everyone, np.diff(lists.indptr)), dense])
        numbers = np.concatenate([lists.numbers[: len(entries)], lists.targets, drawn])
        coefficients = np.zeros(len(numbers), np.float32)
        coefficients[len(entries) : len(entries) + len(lists.targets)] = -1
        coefficients[len(entries) + len(lists.targets) :] = 1
        return Grouped(*kernels.group(numbers, self.keys.room), sources, coefficients)

    def _draw(self) -> Ints:
        if self.task.among_second:
            return np.empty(0, np.int32)
        places = self.rng.random(self.settings.sample)
        return np.searchsorted(self.cumulative, places, side="right").astype(np.int32)

    def gradient(self, step: SoftmaxStep) -> tuple[float, SoftmaxGradient]:
        """The loss of a step and its gradient; that by profiles and by scores of entries is in the step."""
        cuts, columns = _cuts(len(step.x)), _cuts(len(step.sample))
        parts = [partial(self._part, h, step, *cut) for h, cut in enumerate(pairwise(cuts))]
        result = np.sum(self.threads.run(parts), axis=0)
        keys, bias = np.empty((len(step.sample), self.width), np.float32), np.empty((len(step.sample), 1), np.float32)

        def dense(first: int, end: int) -> None:
            np.matmul(step.mass[:, first:end].T, step.x, out=keys[first:end])
            bias[first:end, 0] = step.mass[:, first:end].sum(0)

        self.threads.run([partial(dense, *cut) for cut in pairwise(columns)])
        return float(result[0]), SoftmaxGradient(keys, bias, result[1:])

    def _part(self, h: int, step: SoftmaxStep, first: int, end: int) -> NDArray[np.float64]:
        """Profiles and gradients of some records; answers the loss and the gradient of theta."""
        whole, coefficients = step.batch.lists, step.by_score.coefficients
        lists, inside = whole.cut(first, end), slice(whole.places[2 * first], whole.places[2 * end])
        x, dx, mass = (array[first:end] for array in (step.x, step.dx, step.mass))
        one, other = (inputs.value for inputs in self.inputs)
        kernels.gather_profiles(lists.numbers, step.batch.weights[inside], lists.places, one, other, x)
        np.matmul(x, step.turned, out=mass)
        mass += step.offset
        np.exp(np.minimum(mass, 60, out=mass), out=mass)
        result = np.zeros(7)
        targets = coefficients[len(whole.numbers) :][whole.indptr[first] : whole.indptr[end]]
        slopes = SoftmaxSlopes(mass, dx, coefficients[inside], targets, result[1:])
        scores = ScoreParts(x, self.keys.value, self.bias.x[:, 0])
        if self.task.among_second:
            result[0] = kernels.item_softmax_step(lists, scores, step.strengths, slopes, self.places_of[h])
            return result
        ways = self.full, self.task.evidence
        result[0] = kernels.softmax_step(*ways, lists, scores, step.strengths, slopes, self.places_of[h])
        dx += mass @ step.sample
        return result

    def _move(self, step: SoftmaxStep, gradient: SoftmaxGradient, rate: float) -> None:
        """A step of Adam on all that is learned."""
        settings, scale, (first, second) = self.settings, 1 / len(step.x), self.inputs
        move = AdamMove(rate, settings.penalty, self.steps, scale)
        ones, none, dx, sides = np.ones((len(step.x), 1), np.float32), step.dx[:0], step.dx, step.batch.sides
        works = [
            self.keys.own.stepping(step.by_score, step.x, 0, gradient.keys, move),
            self.bias.stepping(step.by_score, ones, 0, gradient.bias, move._replace(penalty=0.0)),
            first.own.stepping(sides[0], dx, 0, none, move),
            second.own.stepping(sides[1], dx, first.value.shape[1], none, move),
        ]
        share_rows(self.threads, works)
        of_words: list[RowWork] = []
        for table, by in zip((self.keys, *self.inputs), (step.by_score, *sides), strict=True):
            of_words += table.stepping_words(by, move._replace(penalty=settings.word_penalty))
        share_rows(self.threads, of_words)
        if self.task.evidence:
            m, v = self.theta_moments
            slope = gradient.theta * scale
            m += 0.1 * (slope - m)
            v += 0.01 * (slope * slope - v)
            bounded = np.sqrt(v / (1 - 0.99**self.steps)) + 1e-8
            self.theta -= 5 * rate * (m / (1 - 0.9**self.steps)) / bounded


def _cuts(count: int) -> list[int]:
    """Where a fixed number of parts start, and the end: products of matrices depend on how they are cut."""
    parts = min(max(LEAST_PARTS, count // PART), MOST_PARTS)
    return [count * part // parts for part in range(parts + 1)]


def _ahead(batches: Iterator[SoftmaxBatch]) -> Iterator[SoftmaxBatch]:
    """The same batches, each made by a thread of its own while the one before is worked on."""
    with ThreadPoolExecutor(1) as other:
        coming = other.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = other.submit(next, batches, None)
            yield batch


def _random_words(rng: np.random.Generator) -> NDArray[np.uint64]:
    """The state of a PCG64 generator: two numbers of 128 bits, and half a draw that may be left over."""
    about = rng.bit_generator.state
    large = [about["state"]["state"], about["state"]["inc"]]
    words = [part for number in large for part in (number >> 64, number & (1 << 64) - 1)]
    return np.array([*words, about["has_uint32"], about["uinteger"]], np.uint64)


def _set_random_words(rng: np.random.Generator, words: NDArray[np.uint64]) -> None:
    a, b, c, d, left, rest = (int(word) for word in words)
    about = {"state": {"state": a << 64 | b, "inc": c << 64 | d}, "has_uint32": left, "uinteger": rest}
    rng.bit_generator.state = about | {"bit_generator": "PCG64"}
