"""Mini-batch learning of BPER+: gradients of the pairwise loss, a linear layer, and AdamW on the rows of a batch."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel
from whyrank.training._sigmoid import sigmoid_of_minus

Floats = NDArray[np.float32]
BETA_1, BETA_2 = np.float32(0.9), np.float32(0.999)
ONE = np.float32(1)


@kernel
def product(a: Floats, b: Floats) -> Floats:
    """a @ b, summed from left to right: the same bits whatever BLAS and however many threads there are."""
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
def pairwise_gradients(
    p: Floats,
    o: Floats,
    b: Floats,
    row: NDArray[np.int64],
    positive: NDArray[np.int64],
    negative: NDArray[np.int64],
    weight: np.float32,
    grad_p: Floats,
    grad_o: Floats,
    grad_b: Floats,
) -> float:
    """Add the gradients of weight * -ln sigma(r) for r = p . (o_e - o_e') + b_e - b_e'; returns the unweighted loss.

    p, o (fused) and b (a column) are the paper's symbols for one side. A negative of -1 leaves its pair out.
    """
    loss = 0.0
    for pair in range(len(row)):
        u, e, f = row[pair], positive[pair], negative[pair]
        if f < 0:
            continue
        r = b[e, 0] - b[f, 0]
        for k in range(p.shape[1]):
            r += p[u, k] * (o[e, k] - o[f, k])
        loss += math.log1p(math.exp(-min(max(r, -80.0), 80.0)))
        x = -weight * sigmoid_of_minus(r)
        for k in range(p.shape[1]):
            grad_p[u, k] += x * (o[e, k] - o[f, k])
            grad_o[e, k] += x * p[u, k]
            grad_o[f, k] -= x * p[u, k]
        grad_b[e, 0] += x
        grad_b[f, 0] -= x
    return loss


@kernel
def adamw_rows(
    values: Floats,
    first: Floats,
    second: Floats,
    updates: NDArray[np.int32],
    rows: NDArray[np.int64],
    gradient: Floats,
    rate: np.float32,
    decay: np.float32,
    centre: np.float32,
    epsilon: np.float32,
) -> None:
    """AdamW for the given rows only; moments are corrected by each row's own number of updates.

    `decay` pulls towards `centre`, which is 0 in plain AdamW.
    """
    for place in range(len(rows)):
        row = rows[place]
        updates[row] += 1
        step = rate / (ONE - BETA_1 ** np.float32(updates[row]))
        widen = ONE / (ONE - BETA_2 ** np.float32(updates[row]))
        shrink = rate * decay
        for k in range(values.shape[1]):
            g = gradient[place, k]
            m = BETA_1 * first[row, k] + (ONE - BETA_1) * g
            v = BETA_2 * second[row, k] + (ONE - BETA_2) * g * g
            first[row, k], second[row, k] = m, v
            values[row, k] -= step * m / (np.sqrt(v * widen) + epsilon) + shrink * (values[row, k] - centre)
