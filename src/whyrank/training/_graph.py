"""Convolution over a graph of two kinds of nodes, and the pairwise loss of what comes out."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel

Table = NDArray[np.float32]


@kernel
def gather(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    weights: NDArray[np.float32],
    others: Table,
    out: Table,
    first: int,
    last: int,
) -> None:
    """For rows first ... last - 1: the weighted sum of the other side's rows that they are joined to, in order."""
    for row in range(first, last):
        for k in range(out.shape[1]):
            out[row, k] = 0
        for at in range(indptr[row], indptr[row + 1]):
            other, weight = indices[at], weights[at]
            for k in range(out.shape[1]):
                out[row, k] += weight * others[other, k]


@kernel
def pairwise_gradients(
    triplets: NDArray[np.int64],
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    said: NDArray[np.int32],
    record: NDArray[np.int32],
    records: NDArray[np.int64],
    negatives: NDArray[np.int64],
    tables: tuple[Table, Table, Table, Table],
    gradients: tuple[Table, Table, Table, Table],
) -> float:
    """Add the gradients of -log sigmoid(score of what was said - score of a negative), a mean; the loss is answered.

    Tables are those of users, explanations beside users, items, explanations beside items; a score is the sum of two
    dot products. Negatives that the record itself says do not count.
    """
    p, zu, q, zi = tables
    gp, gzu, gq, gzi = gradients
    d, count = p.shape[1], negatives.shape[1]
    scale = np.float32(1.0 / (len(triplets) * count))
    loss = 0.0
    for at in range(len(triplets)):
        t = triplets[at]
        u, i, e = users[t], items[t], said[t]
        positive = np.float32(0)
        for k in range(d):
            positive += p[u, k] * zu[e, k] + q[i, k] * zi[e, k]
        for draw in range(count):
            n = negatives[at, draw]
            own = False
            for place in range(records[record[t]], records[record[t] + 1]):
                own = own or said[place] == n
            if own:
                continue
            negative = np.float32(0)
            for k in range(d):
                negative += p[u, k] * zu[n, k] + q[i, k] * zi[n, k]
            x = positive - negative
            loss += math.log1p(math.exp(-abs(x))) + max(-float(x), 0.0)
            pull = scale / np.float32(1 + math.exp(x))
            for k in range(d):
                gp[u, k] -= pull * (zu[e, k] - zu[n, k])
                gq[i, k] -= pull * (zi[e, k] - zi[n, k])
                gzu[e, k] -= pull * p[u, k]
                gzu[n, k] += pull * p[u, k]
                gzi[e, k] -= pull * q[i, k]
                gzi[n, k] += pull * q[i, k]
    return loss / (len(triplets) * count)


@kernel
def adam(
    values: Table,
    gradient: Table,
    first_moment: Table,
    second_moment: Table,
    rate: np.float32,
    penalty: np.float32,
    start: int,
    stop: int,
) -> None:
    """A step of Adam for rows start ... stop - 1; `rate` is already corrected for the number of steps."""
    keep, keep_square = np.float32(0.9), np.float32(0.999)
    for row in range(start, stop):
        for k in range(values.shape[1]):
            slope = gradient[row, k] + penalty * values[row, k]
            first_moment[row, k] = keep * first_moment[row, k] + (1 - keep) * slope
            second_moment[row, k] = keep_square * second_moment[row, k] + (1 - keep_square) * slope * slope
            values[row, k] -= rate * first_moment[row, k] / (np.float32(math.sqrt(second_moment[row, k])) + 1e-8)
