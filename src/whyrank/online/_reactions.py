"""A model of clicks, fitted by Fisher scoring: who looks at a reason, and who likes what they see.

P(click) = attention[cell] x sigmoid(z)
z = intercept + slope x score + bias[e] + (users[u] + items[i]) . units[a(e)]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel

LEAST = 1e-9
Values = NDArray[np.float64]
Numbers = NDArray[np.int32]


class Rows(NamedTuple):
    """Shown reasons, one by one; user and item -1 are unknown and add nothing."""

    user: Numbers
    item: Numbers
    explanation: Numbers
    unit: Numbers  # the aspect, or the explanation itself where it has none
    score: NDArray[np.float32]
    cell: Numbers  # position and whether something above was clicked; -1: surely looked at
    label: NDArray[np.float32]
    weight: NDArray[np.float32]


class ClickModel(NamedTuple):
    """The parameters of the model of clicks."""

    intercept: float
    slope: float
    bias: Values
    users: Values
    items: Values
    units: Values
    attention: Values


class Slopes(NamedTuple):
    """What the rows say about the parameters."""

    gradient: Values  # per row, of the log-likelihood in z
    curvature: Values  # per row, expected
    sums: Values  # per cell: labels, and what would have been clicked if everybody looked
    likelihood: float


class Linked(NamedTuple):
    """For every row, a row of a table; -1: nothing."""

    numbers: Numbers
    table: Values


class Owners(NamedTuple):
    """Owner k has the rows order[starts[k] : starts[k + 1]]."""

    starts: NDArray[np.int64]
    order: NDArray[np.int64]


@kernel
def slopes(rows: Rows, now: ClickModel) -> Slopes:
    """Compute slopes and curvatures of the log-likelihood, and the log-likelihood."""
    count, factors = len(rows.user), now.units.shape[1]
    gradient, curvature = np.empty(count), np.empty(count)
    sums = np.zeros((2, len(now.attention)))
    likelihood = 0.0
    for row in range(count):
        user, item, unit, cell = rows.user[row], rows.item[row], rows.unit[row], rows.cell[row]
        label, weight = rows.label[row], rows.weight[row]
        z = now.intercept + now.slope * rows.score[row] + now.bias[rows.explanation[row]]
        if user >= 0:
            for d in range(factors):
                z += now.users[user, d] * now.units[unit, d]
        if item >= 0:
            for d in range(factors):
                z += now.items[item, d] * now.units[unit, d]
        liked = min(max(1.0 / (1.0 + np.exp(-z)), LEAST), 1.0 - LEAST)
        looked = now.attention[cell] if cell >= 0 else 1.0
        chance = min(looked * liked, 1.0 - LEAST)
        gradient[row] = weight * (label - chance) * (1.0 - liked) / (1.0 - chance)
        curvature[row] = weight * chance * (1.0 - liked) ** 2 / (1.0 - chance)
        likelihood += weight * (label * np.log(chance) + (1.0 - label) * np.log(1.0 - chance))
        if cell >= 0:
            sums[0, cell] += weight * label
            sums[1, cell] += weight * liked
    return Slopes(gradient, curvature, sums, likelihood)


@kernel
def step_rows(owners: Owners, left: Linked, right: Linked, found: Slopes, precision: float, table: Values) -> None:
    """Take one step of Fisher scoring for every row of `table`, which owns some of the data rows.

    Its part of z is table[k] . (left + right); `precision` draws it to zero.
    """
    factors = table.shape[1]
    matrix, vector, feature = np.empty((factors, factors)), np.empty(factors), np.empty(factors)
    for owner in range(len(owners.starts) - 1):
        if owners.starts[owner] == owners.starts[owner + 1]:
            continue
        matrix[:] = 0.0
        for d in range(factors):
            matrix[d, d] = precision
            vector[d] = -precision * table[owner, d]
        for at in range(owners.starts[owner], owners.starts[owner + 1]):
            row = owners.order[at]
            feature[:] = 0.0
            if left.numbers[row] >= 0:
                feature += left.table[left.numbers[row]]
            if right.numbers[row] >= 0:
                feature += right.table[right.numbers[row]]
            for d in range(factors):
                vector[d] += found.gradient[row] * feature[d]
                heavy = found.curvature[row] * feature[d]
                for other in range(d + 1):
                    matrix[d, other] += heavy * feature[other]
        _solve(matrix, vector)
        table[owner] += vector


@kernel
def _solve(matrix: Values, vector: Values) -> None:
    """Solve a positive definite system in place of `vector`, by Cholesky; the lower half is given.

    No LAPACK: the same log gives the same bits on every machine.
    """
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
