"""The paper's loop (Algorithms 1 and 2), one triplet after the other: the oracle of the parallel solver.

It follows the algorithms as printed: within a draw, tables are updated in the order in which the model declares them,
and later ones see the new values of what came before. Training triplets are visited in random order, each once an
epoch, where the paper draws with replacement.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.errors import ParameterError
from whyrank.rng import key_of, shuffled
from whyrank.training._negatives import draw_negatives, known_of
from whyrank.training._sequential import ROLES, SequentialPlan, sequential_epoch
from whyrank.training._start import draw_one_per_run
from whyrank.training.passes import Pass
from whyrank.training.settings import FactorSettings
from whyrank.training.shards import RECORD_DOMAIN
from whyrank.training.storage import Storage

VISIT_DOMAIN, NEGATIVE_DOMAIN = 4, 5


class SequentialSolver:
    """Runs epochs over `storage` in place, on one thread."""

    def __init__(
        self,
        storage: Storage,
        passes: tuple[Pass, ...],
        settings: FactorSettings,
        records: NDArray[np.int64] | None = None,
    ) -> None:
        self.storage, self.passes, self.settings = storage, passes, settings
        self.records = records if settings.epoch_unit == "records" else None
        names, roles = list(storage.tables), [one.roles for one in passes]
        self.plan = SequentialPlan(
            kinds=np.array([one.kind for one in passes], np.int64),
            tables=np.array([[names.index(name) if name else -1 for name in row] for row in roles], np.int64),
            biases=np.array([storage.tables[row[2]].bias for row in roles]),
            weights=np.array([one.weight for one in passes], np.float32),
            numbers=_numbers(passes, roles),
            starts=np.array(list(storage.starts.values()), np.int64),
        )
        self.known = [known_of(one.known.indptr, one.known.indices) for one in passes]
        self.pools = [np.arange(storage.tables[row[2]].rows, dtype=np.int32) for row in roles]

    def draws(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The triplets of an epoch in order, and for every pass (row) and draw the negative, -1 where there is none."""
        seed, triplets = self.settings.seed, self.passes[0].triplets
        order = shuffled(triplets, key_of(seed, VISIT_DOMAIN, epoch)).astype(np.int64)
        if self.records is not None:
            order = order[draw_one_per_run(self.records, key_of(seed, RECORD_DOMAIN, epoch))[order]]
        negatives = np.empty((len(self.passes), len(order)), np.int32)
        for index, one in enumerate(self.passes):
            key = key_of(seed, NEGATIVE_DOMAIN, epoch, index)
            negatives[index] = draw_negatives(one.known_rows[order], self.pools[index], self.known[index], key)
        return order, negatives

    def epoch(self, number: int) -> tuple[int, int]:
        """One epoch; the number of pair updates and of scores out of range."""
        rates = self.settings.rate(number), np.float32(self.settings.regularization)
        return sequential_epoch(self.storage.values, self.storage.width, self.plan, *self.draws(number), *rates)

    def gather(self) -> None:
        """Everything is in the storage already."""


def _numbers(passes: tuple[Pass, ...], roles: list[tuple[str, ...]]) -> NDArray[np.int32]:
    """numbers[pass, role, triplet]; a table's row must be the same in every pass, as the joint update moves it once."""
    numbers = np.zeros((len(passes), ROLES, passes[0].triplets), np.int32)
    seen: dict[str, NDArray[np.int32]] = {}
    for index, one in enumerate(passes):
        found = one.positives
        for name, array in found.items():
            if not np.array_equal(seen.setdefault(name, array), array):
                raise ParameterError(
                    f"table {name!r}: the sequential solver needs the same row per triplet in every pass"
                )
        for role, name in enumerate(roles[index]):
            if name:
                numbers[index, role] = found[name]
    return numbers
