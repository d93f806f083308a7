"""What a model says to the engine: its tables, its passes over the training triplets, and the settings of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.errors import ParameterError

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Table:
    """A matrix to learn: one row of factors for each user, item or explanation, with a bias if wanted.

    `bias_start` holds one starting bias per row; without it biases start at zero.
    """

    rows: int
    factors: int
    bias: bool = False
    bias_start: NDArray[np.float32] | None = None


@dataclass(frozen=True, eq=False)
class PairwisePass:
    """A two-way relation: `row . column + bias of the column` under the BPR loss, one positive per training triplet.

    `known[row]` are the columns never drawn as negatives. `weight` is the paper's alpha: it scales the gradient of the
    loss and not the regularization.
    """

    rows: str
    columns: str
    positive_rows: Ints
    positive_columns: Ints
    known: CSR
    weight: float = 1.0

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.rows, self.columns)

    @property
    def triplets(self) -> int:
        return len(self.positive_columns)


@dataclass(frozen=True, eq=False)
class TriplePass:
    """A three-way relation with one score per triplet, negatives outside the explanations of the record's pair.

    `form="cd"`: `(p_u * q_i) . o_e` with one table of explanations. `form="pitf"`: `p_u . oU_e + q_i . oI_e` with two.
    """

    form: Literal["cd", "pitf"]
    users: str
    items: str
    explanations: tuple[str, ...]
    record_user: Ints
    record_item: Ints
    record_explanations: CSR
    weight: float = 1.0

    def __post_init__(self) -> None:
        if len(self.explanations) != {"cd": 1, "pitf": 2}.get(self.form):
            raise ParameterError(
                f"form {self.form!r} with {len(self.explanations)} explanation tables: use cd with 1, pitf with 2"
            )

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.users, self.items, *self.explanations)

    @property
    def triplets(self) -> int:
        return len(self.record_explanations.indices)

    @cached_property
    def known(self) -> CSR:
        """Record -> the explanations of its user and item, in this record or another: never drawn as negatives."""
        said = self.record_explanations
        pairs = self.record_user * (np.int64(self.record_item.max(initial=0)) + 1) + self.record_item
        distinct, pair_of = np.unique(pairs, return_inverse=True)
        if len(distinct) == said.rows:
            return said
        pool = int(said.indices.max(initial=0)) + 1
        return CSR.from_pairs(pair_of[said.rows_of_entries()], said.indices, len(distinct), pool).take(pair_of)


Pass = PairwisePass | TriplePass


@dataclass(frozen=True)
class Settings:
    """How to train. The defaults of `learning_rate`, `regularization` and `epochs` are the paper's.

    - `epoch_unit`: "triplets" visits every training triplet once an epoch, in random order (the paper draws as many
      with replacement); "records" draws one explanation of every record an epoch, as the published code does.
    - `schedule`: how the learning rate falls over the epochs: "constant", "linear" to zero, or "cosine" to zero.
    - `factor_range`: factors start uniformly in +-factor_range.
    - `solver`: "blocks", parallel; or "sequential", the paper's loop.
    - `shards`: into how many parts "blocks" cuts each table; None: by table size. The result depends on it.
    - `threads`: None: all processors. The result does not depend on it.
    """

    learning_rate: float = 0.01
    regularization: float = 0.01
    epochs: int = 500
    seed: int = 0
    solver: Literal["blocks", "sequential"] = "blocks"
    epoch_unit: Literal["triplets", "records"] = "triplets"
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    factor_range: float = 0.1
    shards: int | None = None
    threads: int | None = None
    checkpoint_seconds: float = 30.0

    def __post_init__(self) -> None:
        _require(0 < self.learning_rate < math.inf, "learning_rate", self.learning_rate, "a number above 0")
        _require(
            0 <= self.regularization < math.inf,
            "regularization",
            self.regularization,
            "a number of at least 0",
        )
        _require(
            self.learning_rate * self.regularization < 1,
            "regularization",
            self.regularization,
            "below 1 / learning_rate",
        )
        _require(self.epochs >= 0, "epochs", self.epochs, "a whole number of at least 0")
        _require(0 <= self.factor_range < math.inf, "factor_range", self.factor_range, "a number of at least 0")
        _require(self.shards is None or 1 <= self.shards <= 256, "shards", self.shards, "1 to 256")
        _require(self.threads is None or self.threads >= 1, "threads", self.threads, "a whole number of at least 1")
        for name, allowed in _CHOICES.items():
            _require(getattr(self, name) in allowed, name, getattr(self, name), " or ".join(allowed))

    def rate(self, epoch: int) -> np.float32:
        """The learning rate of an epoch; epochs count from 1."""
        done = (epoch - 1) / max(self.epochs, 1)
        share = {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 + 0.5 * math.cos(math.pi * done)}[self.schedule]
        return np.float32(self.learning_rate * share)


_CHOICES = {
    "solver": ("blocks", "sequential"),
    "epoch_unit": ("triplets", "records"),
    "schedule": ("constant", "linear", "cosine"),
}


def _require(holds: bool, name: str, value: object, expected: str) -> None:
    if not holds:
        raise ParameterError(f"{name} = {value!r}: expected {expected}")


def check(tables: Mapping[str, Table], passes: tuple[Pass, ...]) -> None:
    """Raise ParameterError unless passes and tables fit together."""
    _require(len(passes) > 0, "passes", 0, "at least one pass")
    _require(len({table.factors for table in tables.values()}) == 1, "factors", "mixed", "the same in every table")
    _require(all(table.factors >= 1 for table in tables.values()), "factors", 0, "a whole number of at least 1")
    for one in passes:
        missing = [name for name in one.tables if name not in tables]
        _require(len(set(one.tables)) == len(one.tables), "tables", one.tables, "different tables in a pass")
        _require(not missing, "tables", missing, "declared tables only")
        _require(
            one.triplets == passes[0].triplets,
            "passes",
            one.triplets,
            "one positive per triplet in every pass",
        )
        _require(0 <= one.weight < math.inf, "weight", one.weight, "a number of at least 0")
        for name, numbers in positives(one).items():
            if len(numbers):
                low, high = int(numbers.min()), int(numbers.max())
                _require(
                    low >= 0 and high < tables[name].rows,
                    name,
                    (low, high),
                    f"numbers below {tables[name].rows}",
                )


def positives(one: Pass) -> dict[str, Ints]:
    """Table name -> the row of it that each training triplet stands for."""
    if isinstance(one, PairwisePass):
        return {one.rows: one.positive_rows, one.columns: one.positive_columns}
    records = one.record_explanations.rows_of_entries()
    found = {one.users: one.record_user[records], one.items: one.record_item[records]}
    return found | dict.fromkeys(one.explanations, one.record_explanations.indices)


def sharing(passes: tuple[Pass, ...], table: str) -> int:
    """In how many passes a triplet's own row of this table takes part.

    The paper's joint update regularizes such a row once a draw; separate passes give each its share.
    """
    return sum(table in one.tables for one in passes)


def sharing_bias(passes: tuple[Pass, ...], table: str) -> int:
    """In how many passes a triplet's own bias of this table takes part: those whose columns the table has."""
    return sum(isinstance(one, PairwisePass) and one.columns == table for one in passes)
