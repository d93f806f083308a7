"""The paper's loop: draw after draw, every parameter with its joint gradient, in the order of Algorithms 1 and 2.

All tables lie in one array `storage`, one after the other. A pass has up to six roles, each a row of some table:
FIRST (its row, or the user), SECOND (three-way: the item), POSITIVE and NEGATIVE (the column e and e'), and for PITF
also POSITIVE_2 and NEGATIVE_2 (the same e and e' in the item side's table).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel
from whyrank.training._negatives import NONE
from whyrank.training._pairwise import LIMIT
from whyrank.training._vectors import sigmoid_of_minus

PAIRWISE, CD, PITF = 0, 1, 2
ROLES = 6
FIRST, SECOND, POSITIVE, NEGATIVE, POSITIVE_2, NEGATIVE_2 = range(ROLES)
ZERO = np.float32(0)


@kernel
def score_difference(storage: NDArray[np.float32], kind: int, at: NDArray[np.int64], factors: int) -> np.float32:
    """r for the rows `at` of one pass, in float32 and from left to right."""
    r = ZERO
    for k in range(factors):
        difference = storage[at[POSITIVE], k] - storage[at[NEGATIVE], k]
        if kind == CD:
            r += storage[at[FIRST], k] * storage[at[SECOND], k] * difference
        else:
            r += storage[at[FIRST], k] * difference
        if kind == PITF:
            r += storage[at[SECOND], k] * (storage[at[POSITIVE_2], k] - storage[at[NEGATIVE_2], k])
    if kind == PAIRWISE:  # a table without bias has zeros there
        r += storage[at[POSITIVE], factors] - storage[at[NEGATIVE], factors]
    return r


@kernel
def slope(storage: NDArray[np.float32], kind: int, role: int, at: NDArray[np.int64], k: int) -> np.float32:
    """Derivative of r by factor k of the row in `role`, at the present values of the other rows."""
    if role == FIRST or (role == SECOND and kind == CD):
        difference = storage[at[POSITIVE], k] - storage[at[NEGATIVE], k]
        if kind == CD:
            return storage[at[SECOND if role == FIRST else FIRST], k] * difference
        return difference
    if role == SECOND:
        return storage[at[POSITIVE_2], k] - storage[at[NEGATIVE_2], k]
    if role >= POSITIVE_2:
        value = storage[at[SECOND], k]
    elif kind == CD:
        value = storage[at[FIRST], k] * storage[at[SECOND], k]
    else:
        value = storage[at[FIRST], k]
    return -value if role in (NEGATIVE, NEGATIVE_2) else value


@kernel
def add_gradient(
    gradient: NDArray[np.float32],
    storage: NDArray[np.float32],
    kind: int,
    role: int,
    at: NDArray[np.int64],
    x: np.float32,
    factors: int,
    bias: bool,
) -> None:
    """Add x times the derivative of r by the row in `role`."""
    for k in range(factors):
        gradient[k] += x * slope(storage, kind, role, at, k)
    if bias and role == POSITIVE:
        gradient[factors] += x
    if bias and role == NEGATIVE:
        gradient[factors] -= x


@kernel
def descend(
    storage: NDArray[np.float32],
    row: int,
    gradient: NDArray[np.float32],
    rate: np.float32,
    regularization: np.float32,
) -> None:
    """theta <- theta - rate * (gradient + lambda * theta), and clear the gradient."""
    for k in range(len(gradient)):
        storage[row, k] -= rate * (gradient[k] + regularization * storage[row, k])
        gradient[k] = ZERO


@kernel
def update_table(
    storage: NDArray[np.float32],
    table: int,
    kinds: NDArray[np.int64],
    tables: NDArray[np.int64],
    biases: NDArray[np.bool_],
    at: NDArray[np.int64],
    x: NDArray[np.float32],
    factors: int,
    gradient: NDArray[np.float32],
    rate: np.float32,
    regularization: np.float32,
) -> None:
    """Move a table's rows of this draw: the drawn one by the sum over passes, then every negative by itself."""
    drawn = NONE
    for m in range(len(kinds)):
        for role in (FIRST, SECOND, POSITIVE, POSITIVE_2):
            if tables[m, role] == table and at[m, FIRST] != NONE:
                drawn = int(at[m, role])
                add_gradient(gradient, storage, kinds[m], role, at[m], x[m], factors, biases[m])
    if drawn != NONE:
        descend(storage, drawn, gradient, rate, regularization)
    for m in range(len(kinds)):
        for role in (NEGATIVE, NEGATIVE_2):
            if tables[m, role] == table and at[m, FIRST] != NONE:
                add_gradient(gradient, storage, kinds[m], role, at[m], x[m], factors, biases[m])
                descend(storage, at[m, role], gradient, rate, regularization)


@kernel
def sequential_epoch(
    storage: NDArray[np.float32],
    starts: NDArray[np.int64],
    kinds: NDArray[np.int64],
    tables: NDArray[np.int64],
    biases: NDArray[np.bool_],
    weights: NDArray[np.float32],
    numbers: NDArray[np.int32],
    positions: NDArray[np.int64],
    negatives: NDArray[np.int32],
    factors: int,
    rate: np.float32,
    regularization: np.float32,
) -> tuple[int, int]:
    """Make the draws `positions` of the triplets `numbers[pass, role, triplet]` with the given negatives.

    `tables[pass, role]` is the table of a role or -1, `starts[table]` its first row in `storage`. A pass without a
    negative (NONE) sits out the draw. Gives the number of pair updates and of score differences out of range.
    """
    at = np.zeros((len(kinds), ROLES), np.int64)
    x = np.zeros(len(kinds), np.float32)
    gradient = np.zeros(factors + 1, np.float32)
    updates, trouble = 0, 0
    for draw in range(len(positions)):
        for m in range(len(kinds)):
            at[m, FIRST] = NONE
            if negatives[m, draw] == NONE:
                continue
            for role in range(ROLES):
                if tables[m, role] >= 0:
                    is_negative = role in (NEGATIVE, NEGATIVE_2)
                    number = negatives[m, draw] if is_negative else numbers[m, role, positions[draw]]
                    at[m, role] = starts[tables[m, role]] + number
            r = score_difference(storage, kinds[m], at[m], factors)
            x[m] = -weights[m] * sigmoid_of_minus(r)
            updates += 1
            trouble += not abs(r) < LIMIT
        for table in range(len(starts)):
            update_table(storage, table, kinds, tables, biases, at, x, factors, gradient, rate, regularization)
    return updates, trouble
