"""The paper's loop: draw after draw, every parameter with its joint gradient, in the order of Algorithms 1 and 2.

All tables lie in one array `storage`, one after the other. A pass has up to six roles, each a row of some table:
FIRST (its row, or the user), SECOND (three-way: the item), POSITIVE and NEGATIVE (the column e and e'), and for PITF
also POSITIVE_2 and NEGATIVE_2 (the same e and e' in the item side's table).
"""

from __future__ import annotations

from typing import NamedTuple

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


class SequentialPlan(NamedTuple):
    """The passes of a fit: of each its kind, the table of every role (-1: none), whether a bias takes part, its weight.

    `numbers[pass, role, triplet]` are the rows in the role's table, `starts[table]` is its first row in the storage.
    """

    kinds: NDArray[np.int64]
    tables: NDArray[np.int64]
    biases: NDArray[np.bool_]
    weights: NDArray[np.float32]
    numbers: NDArray[np.int32]
    starts: NDArray[np.int64]


class SequentialDraw(NamedTuple):
    """The row of every role of every pass (FIRST is NONE where a pass sits it out), and the slopes of the losses."""

    at: NDArray[np.int64]
    x: NDArray[np.float32]


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
    plan: SequentialPlan,
    one: int,
    role: int,
    draw: SequentialDraw,
) -> None:
    """Add the derivative of a pass's loss by the row in `role`."""
    x, at, kind, factors = draw.x[one], draw.at[one], plan.kinds[one], len(gradient) - 1
    for k in range(factors):
        gradient[k] += x * slope(storage, kind, role, at, k)
    if plan.biases[one] and role == POSITIVE:
        gradient[factors] += x
    if plan.biases[one] and role == NEGATIVE:
        gradient[factors] -= x


@kernel
def descend_row(
    storage: NDArray[np.float32], row: int, gradient: NDArray[np.float32], rate: np.float32, regularization: np.float32
) -> None:
    """theta <- theta - rate * (gradient + lambda * theta), and clear the gradient."""
    for k in range(len(gradient)):
        storage[row, k] -= rate * (gradient[k] + regularization * storage[row, k])
        gradient[k] = ZERO


@kernel
def update_table(
    storage: NDArray[np.float32], table: int, plan: SequentialPlan, draw: SequentialDraw,
    gradient: NDArray[np.float32], rate: np.float32, regularization: np.float32,
) -> None:  # fmt: skip
    """Move a table's rows of this draw: the drawn one by the sum over passes, then every negative by itself."""
    drawn = NONE
    for m in range(len(plan.kinds)):
        for role in (FIRST, SECOND, POSITIVE, POSITIVE_2):
            if plan.tables[m, role] == table and draw.at[m, FIRST] != NONE:
                drawn = int(draw.at[m, role])
                add_gradient(gradient, storage, plan, m, role, draw)
    if drawn != NONE:
        descend_row(storage, drawn, gradient, rate, regularization)
    for m in range(len(plan.kinds)):
        for role in (NEGATIVE, NEGATIVE_2):
            if plan.tables[m, role] == table and draw.at[m, FIRST] != NONE:
                add_gradient(gradient, storage, plan, m, role, draw)
                descend_row(storage, draw.at[m, role], gradient, rate, regularization)


@kernel
def sequential_epoch(
    storage: NDArray[np.float32], factors: int, plan: SequentialPlan, positions: NDArray[np.int64],
    negatives: NDArray[np.int32], rate: np.float32, regularization: np.float32,
) -> tuple[int, int]:  # fmt: skip
    """Make the draws `positions` of triplets, with the given negatives of every pass; a pass without one sits it out.

    Gives the number of pair updates and of score differences out of range.
    """
    draw = SequentialDraw(np.zeros((len(plan.kinds), ROLES), np.int64), np.zeros(len(plan.kinds), np.float32))
    gradient = np.zeros(factors + 1, np.float32)
    updates, trouble = 0, 0
    for place in range(len(positions)):
        for m in range(len(plan.kinds)):
            draw.at[m, FIRST] = NONE
            if negatives[m, place] == NONE:
                continue
            for role in range(ROLES):
                if plan.tables[m, role] >= 0:
                    is_negative = role in (NEGATIVE, NEGATIVE_2)
                    number = negatives[m, place] if is_negative else plan.numbers[m, role, positions[place]]
                    draw.at[m, role] = plan.starts[plan.tables[m, role]] + number
            r = score_difference(storage, plan.kinds[m], draw.at[m], factors)
            draw.x[m] = -plan.weights[m] * sigmoid_of_minus(r)
            updates += 1
            trouble += not abs(r) < LIMIT
        for table in range(len(plan.starts)):
            update_table(storage, table, plan, draw, gradient, rate, regularization)
    return updates, trouble
