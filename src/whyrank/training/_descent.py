"""Steps of mini-batch training: products, the gradient of the BPR loss, Adam. No bit depends on BLAS or on threads."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inlined, kernel
from whyrank.training._vectors import sigmoid_of_minus

Floats = NDArray[np.float32]
Longs = NDArray[np.int64]
MOMENTUM = np.float32(0.1)  # 1 - beta of the first moment
ONE = np.float32(1)
LARGE = 80.0  # score differences beyond count as this in a loss


class Scored(NamedTuple):
    """Rows and columns whose products are scores, and a bias for each column; or the gradients by these."""

    rows: Floats
    columns: Floats
    bias: Floats

    def zeros(self) -> Scored:
        return Scored(*(np.zeros_like(table) for table in self))


class Pairs(NamedTuple):
    """Rows, a column that each has and one that it has not; a negative of -1 leaves its pair out."""

    row: Longs
    positive: Longs
    negative: Longs


class AdamStep(NamedTuple):
    """How far Adam goes: its rate, its floor under the second moment, and a weight decay towards a centre (AdamW)."""

    rate: np.float32
    epsilon: np.float32
    decay: np.float32
    centre: np.float32

    @classmethod
    def of(cls, rate: float, epsilon: float = 1e-8, decay: float = 0.0, centre: float = 0.0) -> AdamStep:
        return cls(*(np.float32(number) for number in (rate, epsilon, decay, centre)))


class AdamMoments(NamedTuple):
    """What Adam remembers of a table: means of gradients and of their squares, and the number of steps of each row."""

    first: Floats
    second: Floats
    steps: NDArray[np.int32]

    @classmethod
    def of(cls, table: Floats) -> AdamMoments:
        return cls(np.zeros_like(table), np.zeros_like(table), np.zeros(len(table), np.int32))


@kernel
def product(a: Floats, b: Floats) -> Floats:
    """a @ b, summed from left to right."""
    out = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for row in range(a.shape[0]):
        for inner in range(a.shape[1]):
            factor = a[row, inner]
            for column in range(b.shape[1]):
                out[row, column] += factor * b[inner, column]
    return out


@kernel
def product_with_transposed(a: Floats, b: Floats) -> Floats:
    """a.T @ b, summed from the first row to the last."""
    out = np.zeros((a.shape[1], b.shape[1]), np.float32)
    for row in range(a.shape[0]):
        for inner in range(a.shape[1]):
            factor = a[row, inner]
            for column in range(b.shape[1]):
                out[inner, column] += factor * b[row, column]
    return out


@kernel
def bpr_gradients(values: Scored, pairs: Pairs, weight: np.float32, gradients: Scored) -> float:
    """Add the gradients of weight * -ln sigma(r), r = row . (positive - negative) + their biases; return the loss.

    The loss is the sum over the pairs, without the weight.
    """
    p, o, b = values
    grad_p, grad_o, grad_b = gradients
    loss = 0.0
    for pair in range(len(pairs.row)):
        u, e, f = pairs.row[pair], pairs.positive[pair], pairs.negative[pair]
        if f < 0:
            continue
        r = b[e, 0] - b[f, 0]
        for k in range(p.shape[1]):
            r += p[u, k] * (o[e, k] - o[f, k])
        loss += math.log1p(math.exp(-min(max(r, -LARGE), LARGE)))
        x = -weight * sigmoid_of_minus(r)
        for k in range(p.shape[1]):
            grad_p[u, k] += x * (o[e, k] - o[f, k])
            grad_o[e, k] += x * p[u, k]
            grad_o[f, k] -= x * p[u, k]
        grad_b[e, 0] += x
        grad_b[f, 0] -= x
    return loss


@kernel
def add_rows(table: Floats, rows: NDArray[np.int32], added: Floats) -> None:
    """Add a row to each of some rows of a table, which may come more than once."""
    for place in range(len(rows)):
        for k in range(table.shape[1]):
            table[rows[place], k] += added[place, k]


@inlined
def adam(
    value: np.float32, first: np.float32, second: np.float32, slope: np.float32, rates: tuple[np.float32, ...]
) -> tuple[np.float32, np.float32, np.float32]:
    """A number and its moments after a step; `rates` are those of `adam_rates`."""
    rate, widen, forget, epsilon = rates
    first += MOMENTUM * (slope - first)
    second += forget * (slope * slope - second)
    return value - rate * first / (np.sqrt(second * widen) + epsilon), first, second


@inlined
def adam_rates(
    rate: float | np.float32, beta: float, step: int, epsilon: np.float32
) -> tuple[np.float32, np.float32, np.float32, np.float32]:
    """The rate and the scale of the second moment, corrected for the number of the step, from 1."""
    return np.float32(rate / (1 - 0.9**step)), np.float32(1 / (1 - beta**step)), np.float32(1 - beta), epsilon


@kernel
def adam_rows(table: Floats, moments: AdamMoments, rows: Longs, slopes: Floats, by: AdamStep) -> None:
    """Move some rows of a table by AdamW; moments are corrected by each row's own number of steps."""
    firsts, seconds, steps = moments
    rate, epsilon, decay, centre = by
    for place in range(len(rows)):
        row = rows[place]
        steps[row] += 1
        rates = adam_rates(rate, 0.999, steps[row], epsilon)
        for k in range(table.shape[1]):
            shrunk = rate * decay * (table[row, k] - centre)
            moved = adam(table[row, k], firsts[row, k], seconds[row, k], slopes[place, k], rates)
            table[row, k], firsts[row, k], seconds[row, k] = moved[0] - shrunk, moved[1], moved[2]
