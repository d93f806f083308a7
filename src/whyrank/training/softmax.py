"""Softmax training of profile models: a loss over the whole pool, where the engine's is over pairs."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from whyrank.crew import Crew
from whyrank.errors import TrainingError
from whyrank.kernels import profile as kernels
from whyrank.training.records import PARTS, Lists, Source
from whyrank.training.vectors import NO_WORDS, Job, Learned, Vectors, Words, part_of

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

FULL = 3000  # pools up to this size are summed whole; larger ones by a weighted sample, one for every batch
# Strengths of evidence, of one side and of the other: log scale, power of popularity, power of activity.
START = (-3.0, 0.6, 0.1, -3.0, 0.6, 0.3)


@dataclass(frozen=True, eq=False)
class Task:
    """What is predicted (targets) from what (two sides)."""

    source: Source
    popularity: NDArray[np.int64]
    inputs: tuple[int, int]  # sizes of the sides' vocabularies; 0: the side says nothing
    evidence: bool  # whether sides hold targets, so that their counts speak for themselves
    words: Words | None = None  # of the targets
    input_words: tuple[Words | None, Words | None] = (None, None)


@dataclass(frozen=True)
class State:
    """What was learned."""

    keys: Floats  # target x d for each side that speaks
    bias: Floats
    inputs: tuple[Floats, Floats]  # entry x d
    theta: NDArray[np.float64]

    def arrays(self) -> dict[str, NDArray[Any]]:
        named = {"keys": self.keys, "bias": self.bias, "first": self.inputs[0], "second": self.inputs[1]}
        return named | {"theta": self.theta}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> State:
        inputs = (arrays["first"], arrays["second"])
        return cls(arrays["keys"], arrays["bias"], inputs, arrays["theta"])


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


@dataclass
class SoftmaxTraining:
    """One configuration in training, an epoch or a part of one at a time, so that configurations can race."""

    task: Task
    settings: SoftmaxSettings
    epochs: int = 0
    steps: int = 0
    done: int = 0  # records of an epoch under way
    theta: NDArray[np.float64] = field(default_factory=lambda: np.array(START))

    def __post_init__(self) -> None:
        task, settings = self.task, self.settings
        self.rng = np.random.default_rng([settings.seed, 7])
        self.crew = Crew(max(1, min(settings.threads or os.cpu_count() or 1, PARTS)))
        d, pool = settings.factors, len(task.popularity)
        share = (task.popularity + 0.5) / max(task.popularity.sum(), 1)
        self.log_share: NDArray[np.float64] = np.log(share)
        widths = [d if size else 0 for size in task.inputs]
        self.width = sum(widths)
        self.keys = Vectors(pool, self.width, task.words, self.rng)
        self.inputs = [
            Vectors(size, width, words, self.rng)
            for size, width, words in zip(task.inputs, widths, task.input_words, strict=True)
        ]
        self.bias = Learned(self.log_share.astype(np.float32)[:, None].copy())
        self.bias_grads = np.zeros((PARTS, pool, 1), np.float32)
        self.theta_moments = np.zeros((2, 6))
        weight = (task.popularity + 1.0) ** 0.75
        self.chance = weight / weight.sum()
        self.cumulative = np.cumsum(self.chance)
        self.cumulative[-1] = 2.0
        self.began, self.loss = _random_words(self.rng), np.zeros(2)

    @property
    def full(self) -> bool:
        return len(self.task.popularity) <= FULL

    def epoch(self, steps: int | None = None) -> float:
        """The rest of a pass over all records in random order, or so many steps of it; answers its mean loss so far."""
        settings, source = self.settings, self.task.source
        rate = settings.learning_rate * settings.decay**self.epochs
        if self.done == 0:
            self.began, self.loss = _random_words(self.rng), np.zeros(2)
            self.order = self.rng.permutation(source.records)
        order = self.order
        stop = len(order) if steps is None else min(self.done + steps * settings.batch, len(order))
        with threadpool_limits(limits=1, user_api="blas"), np.errstate(over="ignore", invalid="ignore"):
            pieces = source.lists(order[self.done : stop], settings.batch)
            for lists in pieces if self.crew.threads == 1 else _ahead(pieces):
                for start in range(0, len(lists.indptr) - 1, settings.batch):
                    batch = lists.cut(start, min(start + settings.batch, len(lists.indptr) - 1))
                    self.loss += (self._batch(batch, rate), len(batch.targets))
        loss, entries = self.loss
        if not math.isfinite(loss):
            raise TrainingError(f"the loss is no longer a number; lower learning_rate (it is {settings.learning_rate})")
        self.done = stop
        if stop == len(order):
            self.epochs, self.done = self.epochs + 1, 0
        return float(loss / max(entries, 1))

    def state(self) -> State:
        inputs = (self.inputs[0].snapshot(), self.inputs[1].snapshot())
        return State(self.keys.snapshot(), self.bias.x[:, 0].copy(), inputs, self.theta.copy())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that another training of the same task and settings needs to go on from here."""
        found = {"theta": self.theta, "theta_moments": self.theta_moments, "random": _random_words(self.rng)}
        found |= {"counts": np.array([self.epochs, self.steps, self.done]), "began": self.began, "loss": self.loss}
        for name, part in self._parts().items():
            found |= {f"{name}.{key}": array for key, array in part.arrays().items()}
        return found

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `arrays` gave."""
        self.theta[:], self.theta_moments[:] = arrays["theta"], arrays["theta_moments"]
        self.epochs, self.steps, self.done = (int(count) for count in arrays["counts"])
        self.began, self.loss = arrays["began"], arrays["loss"].copy()
        if self.done:
            _set_random_words(self.rng, self.began)
            self.order = self.rng.permutation(self.task.source.records)
        _set_random_words(self.rng, arrays["random"])
        for name, part in self._parts().items():
            part.restore(part_of(arrays, name))

    def _parts(self) -> dict[str, Vectors | Learned]:
        return {"keys": self.keys, "first": self.inputs[0], "second": self.inputs[1], "bias": self.bias}

    def _batch(self, batch: Lists, rate: float) -> float:
        self.steps += 1
        rate *= min(1.0, self.steps / 30)
        parts = batch.in_parts()
        drawn = None if self.full else self._draw()
        self._refresh(batch, drawn)
        keys, bias = self.keys.value, self.bias.x[:, 0]
        if drawn is None:
            sample_keys, offset = keys, bias
        else:
            correction = np.log(self.settings.sample * self.chance[drawn]).astype(np.float32)
            sample_keys, offset = keys[drawn], bias[drawn] - correction
        transposed = np.ascontiguousarray(sample_keys.T)
        powers = np.exp(-self.theta[[1, 4], None] * self.log_share)
        shared = (drawn, sample_keys, transposed, offset, powers)
        results = self.crew.run([partial(self._part, h, part, *shared) for h, part in enumerate(parts)])
        self._update(sum(results, np.zeros(7))[1:], rate, 1 / (len(batch.indptr) - 1))
        return float(sum(result[0] for result in results))

    def _draw(self) -> Ints:
        places = self.rng.random(self.settings.sample)
        return np.searchsorted(self.cumulative, places, side="right").astype(np.int32)

    def _refresh(self, batch: Lists, drawn: Ints | None) -> None:
        """Make the vectors anew that this batch will read."""
        needed = np.zeros(len(self.task.popularity), np.uint8)
        if drawn is None:
            needed[:] = 1
        else:
            kernels.mark(drawn, needed)
            kernels.mark(batch.targets, needed)
        asked = [np.zeros(size, np.uint8) for size in self.task.inputs]
        kernels.mark_sides(batch.numbers, batch.places, *asked)
        if self.task.evidence:
            needed |= asked[0] | asked[1]
        jobs = self.keys.refreshing(needed)
        for vectors, marks in zip(self.inputs, asked, strict=True):
            jobs += vectors.refreshing(marks)
        self._share(jobs)

    def _part(
        self,
        h: int,
        part: Lists,
        drawn: Ints | None,
        sample_keys: Floats,
        transposed: Floats,
        offset: Floats,
        powers: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Gradients of one part of a batch, into buffers of its own; answers the loss and the gradient of theta."""
        indptr, targets, numbers, counts, places = part
        first, second = self.inputs
        records = np.arange(len(indptr) - 1)
        x = np.zeros((len(records), self.width), np.float32)
        weights = kernels.profile_weights(counts, places)
        kernels.gather_profiles(numbers, weights, places, first.value, second.value, x)
        mass = x @ transposed
        mass += offset
        np.exp(np.minimum(mass, 60, out=mass), out=mass)
        dx, result = np.zeros_like(x), np.zeros(7)
        dkeys, dbias, touched = self.keys.grads[h], self.bias_grads[h, :, 0], self.keys.touched[h]
        result[0] = kernels.softmax_step(
            drawn is None, self.task.evidence, records, indptr, targets, numbers, counts, places, x,
            self.keys.value, self.bias.x[:, 0], self.log_share, powers, self.theta, mass, dx, dkeys, dbias, touched,
            result[1:],
        )  # fmt: skip
        dx += mass @ sample_keys
        if drawn is None:
            dkeys += mass.T @ x
            dbias += mass.sum(0)
            touched[:] = 1
        else:
            kernels.add_rows(drawn, (mass.T @ x).astype(np.float32), mass.sum(0), dkeys, dbias, touched)
        kernels.spread_gradients(
            numbers, weights, places, dx, first.grads[h], first.touched[h], second.grads[h], second.touched[h]
        )
        return result

    def _update(self, dtheta: NDArray[np.float64], rate: float, scale: float) -> None:
        rates = (rate, self.settings.penalty, self.settings.word_penalty, scale)
        bias, tables = self.bias, (self.keys, *self.inputs)
        kernels.step_entries(
            self.bias_grads, self.keys.touched, bias.x, bias.m, bias.v, *NO_WORDS, rate, 0.0, self.steps, scale
        )
        # A table a thread: halves of one would share its cache lines.
        self.crew.run([partial(vectors.step, *rates) for vectors in tables])
        for vectors in tables:
            vectors.touched[:] = 0
        if self.task.evidence:
            m, v = self.theta_moments
            gradient = dtheta * scale
            m += 0.1 * (gradient - m)
            v += 0.01 * (gradient * gradient - v)
            bounded = np.sqrt(v / (1 - 0.99**self.steps)) + 1e-8
            self.theta -= 5 * rate * (m / (1 - 0.9**self.steps)) / bounded

    def _share(self, jobs: list[Job]) -> None:
        """Do jobs that do not need each other, each thread its stretch of every one."""
        threads = self.crew.threads

        def stretches(k: int) -> None:
            for rows, work in jobs:
                work(rows * k // threads, rows * (k + 1) // threads)

        if jobs:
            self.crew.run([partial(stretches, k) for k in range(threads)])


def _ahead(pieces: Iterator[Lists]) -> Iterator[Lists]:
    """The same pieces, each made by a thread of its own while the one before is worked on."""
    with ThreadPoolExecutor(1) as other:
        coming = other.submit(next, pieces, None)
        while (piece := coming.result()) is not None:
            coming = other.submit(next, pieces, None)
            yield piece


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
