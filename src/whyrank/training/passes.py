"""What a model declares: the tables that it learns, and passes, which are losses over the training triplets.

A pass is a loss -ln sigma(r) over the training triplets, one positive for each, against drawn negatives. It owns all
that depends on its form: its positives, what must not be drawn as a negative, its update of a block of positives and
its score difference. Solvers, the loss and the cluster ask it and never look which kind it is.

`tables[0]` is the table of its rows: its shards own their positives during a whole fit. `column_tables` are cut anew
every epoch; negatives come from the last of them. The bias of `bias_tables` takes part in the score. `known` has what
is never drawn, `known_rows` the row of each triplet there. `roles` and `kind` are for the paper's loop, see
`sequential`. `weight` scales the gradient of the loss and not the regularization.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.errors import ParameterError
from whyrank.training._negatives import Known
from whyrank.training._pairwise import BlockPositives, Rates, RowLayout, pairwise_task
from whyrank.training._sequential import CD, PAIRWISE, PITF
from whyrank.training._triple import Entries, TripleRates, triple_task
from whyrank.training.settings import FactorSettings
from whyrank.training.storage import Storage, Table

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]
Counts = tuple[int, int]  # updates, and score differences out of range


class RowShard(NamedTuple):
    """The positives of a shard of rows, sorted by row once.

    `other` is empty in a two-way pass; `column` and `other` are the items and explanations of a three-way one.
    `record` has the record of every positive where epochs draw one of each; `known_row` its row in `known`.
    """

    row: Ints
    column: Ints
    other: Ints
    record: NDArray[np.int64]
    known_row: Ints
    known: Known

    @property
    def entries(self) -> Entries:
        """The positives as three-way kernels take them."""
        return Entries(self.row, self.column, self.other, self.known_row)


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

    most_shards: ClassVar[int] = 16

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.rows, self.columns)

    @property
    def column_tables(self) -> tuple[str, ...]:
        return (self.columns,)

    @property
    def bias_tables(self) -> tuple[str, ...]:
        return (self.columns,)

    @property
    def triplets(self) -> int:
        return len(self.positive_columns)

    @property
    def positives(self) -> dict[str, Ints]:
        return {self.rows: self.positive_rows, self.columns: self.positive_columns}

    @property
    def known_rows(self) -> Ints:
        return self.positive_rows

    @property
    def kind(self) -> int:
        return PAIRWISE

    @property
    def roles(self) -> tuple[str, ...]:
        return (self.rows, "", self.columns, self.columns, "", "")

    def rates(self, passes: Sequence[Pass], settings: FactorSettings, epoch: int) -> Rates:
        row, positive = (settings.decay(epoch, sharing(passes, name)) for name in self.tables)
        bias = settings.decay(epoch, sum(self.columns in one.bias_tables for one in passes))
        return Rates(settings.step(epoch, self.weight), row, positive, bias, settings.decay(epoch))

    def update(
        self, tables: Sequence[Floats], shard: RowShard, block: BlockPositives, layout: RowLayout, rates: Any, key: Any
    ) -> Counts:
        """Learn from the positives of a block, in place."""
        return pairwise_task(tables[0], tables[1], block, shard.known, layout, rates, key)

    def differences(self, tables: Storage, numbers: Mapping[str, Ints], negatives: Ints) -> NDArray[np.float32]:
        width, columns = tables.width, tables.whole(self.columns)
        gaps = columns[numbers[self.columns]] - columns[negatives]
        row = tables.whole(self.rows)[numbers[self.rows], :width]
        return np.asarray((row * gaps[:, :width]).sum(1) + gaps[:, width])


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

    most_shards: ClassVar[int] = 4  # an epoch has shards**2 strata

    def __post_init__(self) -> None:
        if len(self.explanations) != {"cd": 1, "pitf": 2}.get(self.form):
            raise ParameterError(
                f"form {self.form!r} with {len(self.explanations)} explanation tables: use cd with 1, pitf with 2"
            )

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.users, self.items, *self.explanations)

    @property
    def column_tables(self) -> tuple[str, ...]:
        return (self.items, self.explanations[0])

    @property
    def bias_tables(self) -> tuple[str, ...]:
        return ()

    @property
    def triplets(self) -> int:
        return len(self.record_explanations.indices)

    @property
    def positives(self) -> dict[str, Ints]:
        records = self.known_rows
        found = {self.users: self.record_user[records], self.items: self.record_item[records]}
        return found | dict.fromkeys(self.explanations, self.record_explanations.indices)

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

    @property
    def known_rows(self) -> Ints:
        return self.record_explanations.rows_of_entries()

    @property
    def kind(self) -> int:
        return CD if self.form == "cd" else PITF

    @property
    def roles(self) -> tuple[str, ...]:
        first, *second = self.explanations
        return (self.users, self.items, first, first, *(second * 2 or ("", "")))

    def rates(self, passes: Sequence[Pass], settings: FactorSettings, epoch: int) -> TripleRates:
        user, item, positive = (settings.decay(epoch, sharing(passes, name)) for name in self.tables[:3])
        return TripleRates(settings.step(epoch, self.weight), user, item, positive, settings.decay(epoch))

    def update(
        self, tables: Sequence[Floats], shard: RowShard, block: BlockPositives, layout: RowLayout, rates: Any, key: Any
    ) -> Counts:
        """Learn from the positives of a block, in place."""
        four = (*tables[:3], tables[-1])
        return triple_task(four, self.form == "cd", shard.entries, block, shard.known, layout, rates, key)

    def differences(self, tables: Storage, numbers: Mapping[str, Ints], negatives: Ints) -> NDArray[np.float32]:
        width = tables.width
        user, item = (tables.whole(name)[numbers[name], :width] for name in (self.users, self.items))
        gaps = [(t := tables.whole(name)[:, :width])[numbers[name]] - t[negatives] for name in self.explanations]
        if self.form == "cd":
            return np.asarray((user * item * gaps[0]).sum(1))
        return np.asarray((user * gaps[0] + item * gaps[1]).sum(1))


Pass = PairwisePass | TriplePass


def check(tables: Mapping[str, Table], passes: Sequence[Pass]) -> None:
    """Raise ParameterError unless passes and tables fit together."""
    _require(len(passes) > 0, "passes", 0, "at least one pass")
    _require(len({table.factors for table in tables.values()}) == 1, "factors", "mixed", "the same in every table")
    _require(all(table.factors >= 1 for table in tables.values()), "factors", 0, "a whole number of at least 1")
    for one in passes:
        missing = [name for name in one.tables if name not in tables]
        _require(len(set(one.tables)) == len(one.tables), "tables", one.tables, "different tables in a pass")
        _require(not missing, "tables", missing, "declared tables only")
        same = one.triplets == passes[0].triplets
        _require(same, "passes", one.triplets, "one positive per triplet in every pass")
        _require(0 <= one.weight < math.inf, "weight", one.weight, "a number of at least 0")
        for name, numbers in one.positives.items():
            if len(numbers):
                low, high, rows = int(numbers.min()), int(numbers.max()), tables[name].rows
                _require(low >= 0 and high < rows, name, (low, high), f"numbers below {rows}")


def sharing(passes: Sequence[Pass], table: str) -> int:
    """In how many passes a triplet's own row of this table takes part.

    The paper's joint update regularizes such a row once a draw; separate passes give each its share.
    """
    return sum(table in one.tables for one in passes)


def _require(holds: bool, name: str, value: object, expected: str) -> None:
    if not holds:
        raise ParameterError(f"{name} = {value!r}: expected {expected}")
