"""A model of clicks, fitted by Fisher scoring: who looks at a reason, and who likes what they look at.

P(click) = attention[cell] x sigmoid(z)
z = intercept + slope x score + bias[e] + (users[u] + items[i]) . units[a(e)]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel

LEAST = 1e-9


@kernel
def slopes(
    user: NDArray[np.int32],
    item: NDArray[np.int32],
    explanation: NDArray[np.int32],
    unit: NDArray[np.int32],
    score: NDArray[np.float32],
    cell: NDArray[np.int32],
    label: NDArray[np.float32],
    weight: NDArray[np.float32],
    intercept: float,
    slope: float,
    bias: NDArray[np.float64],
    users: NDArray[np.float64],
    items: NDArray[np.float64],
    units: NDArray[np.float64],
    attention: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float]:
    """Per row the slope of the log-likelihood in z and its expected curvature; per cell the labels and what would have
    been clicked if everybody looked; the log-likelihood.

    User and item -1 are unknown and add nothing. In the cell -1 everybody looks.
    """
    rows, factors = len(user), units.shape[1]
    gradient, curvature = np.empty(rows), np.empty(rows)
    sums = np.zeros((2, len(attention)))
    likelihood = 0.0
    for row in range(rows):
        a = unit[row]
        z = intercept + slope * score[row] + bias[explanation[row]]
        if user[row] >= 0:
            for d in range(factors):
                z += users[user[row], d] * units[a, d]
        if item[row] >= 0:
            for d in range(factors):
                z += items[item[row], d] * units[a, d]
        liked = min(max(1.0 / (1.0 + np.exp(-z)), LEAST), 1.0 - LEAST)
        looked = attention[cell[row]] if cell[row] >= 0 else 1.0
        chance = min(looked * liked, 1.0 - LEAST)
        gradient[row] = weight[row] * (label[row] - chance) * (1.0 - liked) / (1.0 - chance)
        curvature[row] = weight[row] * chance * (1.0 - liked) ** 2 / (1.0 - chance)
        likelihood += weight[row] * (label[row] * np.log(chance) + (1.0 - label[row]) * np.log(1.0 - chance))
        if cell[row] >= 0:
            sums[0, cell[row]] += weight[row] * label[row]
            sums[1, cell[row]] += weight[row] * liked
    return gradient, curvature, sums, likelihood


@kernel
def step_rows(
    indptr: NDArray[np.int64],
    order: NDArray[np.int64],
    left: NDArray[np.int32],
    left_table: NDArray[np.float64],
    right: NDArray[np.int32],
    right_table: NDArray[np.float64],
    gradient: NDArray[np.float64],
    curvature: NDArray[np.float64],
    precision: float,
    table: NDArray[np.float64],
) -> None:
    """One step of Fisher scoring for every row of `table`, which owns the data rows order[indptr[k] : indptr[k + 1]].

    Its part of z is table[k] . (left_table[left] + right_table[right]), where -1 adds nothing; `precision` draws it to
    zero.
    """
    factors = table.shape[1]
    matrix, vector, feature = np.empty((factors, factors)), np.empty(factors), np.empty(factors)
    for owner in range(len(indptr) - 1):
        if indptr[owner] == indptr[owner + 1]:
            continue
        matrix[:] = 0.0
        for d in range(factors):
            matrix[d, d] = precision
            vector[d] = -precision * table[owner, d]
        for at in range(indptr[owner], indptr[owner + 1]):
            row = order[at]
            for d in range(factors):
                feature[d] = 0.0
                if left[row] >= 0:
                    feature[d] += left_table[left[row], d]
                if right[row] >= 0:
                    feature[d] += right_table[right[row], d]
            for d in range(factors):
                vector[d] += gradient[row] * feature[d]
                heavy = curvature[row] * feature[d]
                for other in range(d + 1):
                    matrix[d, other] += heavy * feature[other]
        _solve(matrix, vector)
        for d in range(factors):
            table[owner, d] += vector[d]


@kernel
def _solve(matrix: NDArray[np.float64], vector: NDArray[np.float64]) -> None:
    """The solution of a positive definite system, of which the lower half is given, in place of `vector` (Cholesky)."""
    size = len(vector)
    for d in range(size):
        for other in range(d + 1):
            rest = matrix[d, other]
            for k in range(other):
                rest -= matrix[d, k] * matrix[other, k]
            matrix[d, other] = np.sqrt(max(rest, LEAST)) if d == other else rest / matrix[other, other]
    for d in range(size):
        for k in range(d):
            vector[d] -= matrix[d, k] * vector[k]
        vector[d] /= matrix[d, d]
    for d in range(size - 1, -1, -1):
        for k in range(d + 1, size):
            vector[d] -= matrix[k, d] * vector[k]
        vector[d] /= matrix[d, d]
