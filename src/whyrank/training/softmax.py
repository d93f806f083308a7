"""Softmax training of profile models: a loss over the whole pool, where the engine's is over pairs."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from whyrank.crew import Crew
from whyrank.data.csr import CSR
from whyrank.errors import TrainingError
from whyrank.kernels import profile as kernels

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
# How many rows there are, and what is to be done with first..last of them; stretches never touch each other's.
Job = tuple[int, Callable[[int, int], object]]

# A batch is cut into so many parts, whatever the number of threads: their gradients are added in order.
PARTS = 2
CACHE_LINE = 16  # of float32
FULL = 3000  # pools up to this size are summed whole; larger ones by a weighted sample, one for every batch
# Strengths of evidence, of one side and of the other: log scale, power of popularity, power of activity.
START = (-3.0, 0.6, 0.1, -3.0, 0.6, 0.3)
# Of entries without words: the words, their gradients, and which have one.
NO_WORDS = (
    *(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32)),
    *(np.empty((0, 0), np.float32), np.empty(0, np.uint8)),
)


class Lists(NamedTuple):
    """What some records say (record k: targets[indptr[k]] ...), and the entries of their sides as kernels take them."""

    indptr: NDArray[np.int64]
    targets: Ints
    numbers: Ints
    counts: Floats
    places: NDArray[np.int64]

    def cut(self, first: int, end: int) -> Lists:
        """Of the records first ... end - 1."""
        indptr, places = self.indptr[first : end + 1], self.places[2 * first : 2 * end + 1]
        inside = slice(places[0], places[-1])
        targets = self.targets[indptr[0] : indptr[-1]]
        return Lists(indptr - indptr[0], targets, self.numbers[inside], self.counts[inside], places - places[0])

    def in_parts(self) -> list[Lists]:
        """Cut into PARTS whose sizes differ by one at most, larger ones first."""
        bounds = [-(-(len(self.indptr) - 1) * part // PARTS) for part in range(PARTS + 1)]
        return [self.cut(first, end) for first, end in pairwise(bounds)]


class Source(Protocol):
    """Where training gets its records from."""

    @property
    def records(self) -> int: ...
    @property
    def entries(self) -> int: ...
    def lists(self, order: NDArray[np.int64], batch: int) -> Iterator[Lists]:
        """The records in an order; each piece has whole batches but for the last one."""
        ...


@dataclass(frozen=True, eq=False)
class Side:
    """A profile of every record: the entries of the record's row in a relation, without the record's own."""

    rows: Ints  # record -> row of the relation
    relation: CSR
    own: CSR  # record -> its own entries

    @classmethod
    def none(cls, records: int) -> Side:
        """A side that says nothing."""
        empty = CSR(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32))
        return cls(np.full(records, -1, np.int32), empty, empty)


@dataclass(frozen=True, eq=False)
class Records:
    """Records in memory: what each says, and its two sides."""

    targets: CSR
    sides: tuple[Side, Side]

    @property
    def records(self) -> int:
        return self.targets.rows

    @property
    def entries(self) -> int:
        return len(self.targets.indices)

    def lists(self, order: NDArray[np.int64], batch: int) -> Iterator[Lists]:
        return (self.of(order[start : start + batch]) for start in range(0, len(order), batch))

    def of(self, records: NDArray[np.int64]) -> Lists:
        first, second = ((side.rows, *side.relation, *side.own[:2]) for side in self.sides)
        said = self.targets.take(records)
        numbers, counts, places = kernels.other_entries(records, *first, *second, True)
        return Lists(said.indptr, said.indices, numbers, counts, places)


@dataclass(frozen=True, eq=False)
class Words:
    """The words of the entries of a vocabulary, each entry's weights having length one together."""

    rows: CSR
    count: int

    @property
    def weights(self) -> Floats:
        sizes = self.rows.sizes()
        return np.repeat(1 / np.sqrt(np.maximum(sizes, 1)), sizes).astype(np.float32)


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


class Vectors:
    """A table of vectors, an entry's being its own plus those of its words, under Adam on touched rows."""

    def __init__(self, rows: int, width: int, words: Words | None, rng: np.random.Generator) -> None:
        self.words, self.step_count = words, 0
        self.own = _Table(rng.standard_normal((rows, width), dtype=np.float32) * np.float32(0.05))
        self.grads = _zeros(PARTS, rows, width)
        self.touched = np.zeros((PARTS, rows), np.uint8)
        self.value = self.own.x
        if words is not None:
            self.word = _Table(rng.standard_normal((words.count, width), dtype=np.float32) * np.float32(0.05))
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


class _Table:
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
        self.bias = _Table(self.log_share.astype(np.float32)[:, None].copy())
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

    def _parts(self) -> dict[str, Vectors | _Table]:
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


def _zeros(*shape: int) -> Floats:
    """A table that begins with a cache line, so that its rows do not straddle more of them than they need."""
    room = np.zeros(math.prod(shape) + CACHE_LINE, np.float32)
    first = -room.ctypes.data // room.itemsize % CACHE_LINE
    return room[first : first + math.prod(shape)].reshape(shape)


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
