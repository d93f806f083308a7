"""The one form in which models score: a dot product for every explanation, plus a bonus for a few of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray

from whyrank.index._lookup import values_at, weighed_sides

Numbers = NDArray[np.int32]
Floats = NDArray[np.float32]
Rows = NDArray[np.int64]


class Bonus(NamedTuple):
    """Sparse additions to the scores of given pairs, never negative: row `m` belongs to the `m`-th pair.

    Explanation numbers rise within a row.
    """

    indptr: NDArray[np.int64]
    explanations: Numbers
    values: Floats


class Block(NamedTuple):
    """Columns of queries and keys that belong together, and whose part of a score they carry."""

    name: str  # "user", "item", "popularity" or "interaction"
    width: int


class Scorer(Protocol):
    """What ranking knows of a model: score(user, item, explanation) = query . key + bonus.

    User and item numbers may be -1 for unknown ones; their part of the query is then zero. `mu` weighs the user's part
    in models that have one; None: as the model does. Keys never depend on it, so one search serves every value.
    """

    def keys(self) -> Floats: ...

    def queries(self, users: Numbers, items: Numbers, mu: float | None = None) -> Floats: ...

    def bonus(self, users: Numbers, items: Numbers, n: int, mu: float | None = None) -> Bonus | None: ...

    def bonus_parts(self, users: Numbers, items: Numbers, mu: float | None = None) -> Mapping[str, Bonus]: ...

    def bonus_at(
        self, users: Numbers, items: Numbers, row: Rows, explanations: Numbers, mu: float | None = None
    ) -> Mapping[str, Floats]: ...

    def blocks(self) -> tuple[Block, ...]: ...


class Weight(TypedDict, total=False):
    """The argument `mu`, or nothing."""

    mu: float


def given_mu(mu: float | None) -> Weight:
    """The argument `mu` where it is given, so that models without one need not take it."""
    return {} if mu is None else {"mu": mu}


def bonus_of(bonus: Bonus, row: Rows, explanations: Numbers) -> Floats:
    """What a bonus adds to an explanation of a row, 0 where it has none."""
    found = np.empty(len(row), np.float32)
    values_at(*bonus, row, explanations, found)
    return found


def rows(table: Floats, numbers: Numbers) -> Floats:
    """Rows of a table by number, zeros for -1."""
    taken, unknown = table[numbers], numbers < 0
    if unknown.any():
        taken[unknown] = 0
    return taken


def two_sides(user_factors: Floats, users: Numbers, item_factors: Floats, items: Numbers, mu: float) -> Floats:
    """The queries of models with a side for the user and one for the item: [mu p_u, (1 - mu) q_i, mu, 1 - mu]."""
    return weighed_sides(user_factors, users, item_factors, items, np.float32(mu), np.float32(1 - mu))


def constant_and_split(blocks: tuple[Block, ...]) -> tuple[int, int | None]:
    """Return how many last columns are constants, and where the item's part begins if the others are two parts."""
    constant = blocks[-1].width if blocks and blocks[-1].name == "popularity" else 0
    parts = blocks[:-1] if constant else blocks
    return constant, parts[0].width if len(parts) == 2 else None
