"""The paper's loop (Algorithms 1 and 2), one triplet after the other: the oracle of the parallel solver.

It follows the algorithms as printed: within a draw, tables are updated in the order in which the model declares them,
and later ones see the new values of what came before. Training triplets are visited in random order, each once an
epoch, where the paper draws with replacement.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.errors import ParameterError
from whyrank.kernels.negatives import Known, build_filters, draw_negatives
from whyrank.kernels.rng import key_of, shuffled
from whyrank.kernels.sequential import CD, PAIRWISE, PITF, ROLES, sequential_epoch
from whyrank.training.passes import PairwisePass, Pass, Settings, positives
from whyrank.training.storage import Storage

VISIT_DOMAIN, NEGATIVE_DOMAIN = 4, 5


class SequentialSolver:
    """Runs epochs over `storage` in place, on one thread."""

    def __init__(self, storage: Storage, passes: tuple[Pass, ...], settings: Settings) -> None:
        self.storage, self.passes, self.settings = storage, passes, settings
        self.starts = np.array(list(storage.starts.values()), np.int64)
        self.kinds = np.array([_kind(one) for one in passes], np.int64)
        self.weights = np.array([one.weight for one in passes], np.float32)
        names = list(storage.tables)
        roles = [_roles(one) for one in passes]
        self.tables = np.array([[names.index(name) if name else -1 for name in row] for row in roles], np.int64)
        self.biases = np.array([storage.tables[row[2]].bias for row in roles])
        self.numbers = _numbers(passes, roles)
        self.known = [_known(one) for one in passes]
        self.pools = [np.arange(storage.tables[row[2]].rows, dtype=np.int32) for row in roles]

    def draws(self, epoch: int, active: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The triplets of an epoch in order, and for every pass (row) and draw the negative, -1 where there is none."""
        seed, triplets = self.settings.seed, self.passes[0].triplets
        order = shuffled(triplets, key_of(seed, VISIT_DOMAIN, epoch)).astype(np.int64)
        if len(active):
            order = order[active[order]]
        negatives = np.empty((len(self.passes), len(order)), np.int32)
        for index, one in enumerate(self.passes):
            of = one.positive_rows if isinstance(one, PairwisePass) else one.record_explanations.rows_of_entries()
            key = key_of(seed, NEGATIVE_DOMAIN, epoch, index)
            negatives[index] = draw_negatives(of[order], self.pools[index], self.known[index], key)
        return order, negatives

    def epoch(self, number: int, active: NDArray[np.bool_]) -> tuple[int, int]:
        """One epoch over the active triplets; the number of pair updates and of scores out of range."""
        positions, negatives = self.draws(number, active)
        updates, trouble = sequential_epoch(
            self.storage.values, self.starts, self.kinds, self.tables, self.biases, self.weights, self.numbers,
            positions, negatives, self.storage.width, self.settings.rate(number),
            np.float32(self.settings.regularization),
        )  # fmt: skip
        return updates, trouble


def _kind(one: Pass) -> int:
    return PAIRWISE if isinstance(one, PairwisePass) else {"cd": CD, "pitf": PITF}[one.form]


def _roles(one: Pass) -> tuple[str, ...]:
    """The table of each role, in the order of `kernels.sequential`; empty where a pass has no such role."""
    if isinstance(one, PairwisePass):
        return (one.rows, "", one.columns, one.columns, "", "")
    first, *second = one.explanations
    return (one.users, one.items, first, first, *(second * 2 or ("", "")))


def _numbers(passes: tuple[Pass, ...], roles: list[tuple[str, ...]]) -> NDArray[np.int32]:
    """numbers[pass, role, triplet]; a table's row must be the same in every pass, as the joint update moves it once."""
    numbers = np.zeros((len(passes), ROLES, passes[0].triplets), np.int32)
    seen: dict[str, NDArray[np.int32]] = {}
    for index, one in enumerate(passes):
        found = positives(one)
        for name, array in found.items():
            if not np.array_equal(seen.setdefault(name, array), array):
                raise ParameterError(
                    f"table {name!r}: the sequential solver needs the same row per triplet in every pass"
                )
        for role, name in enumerate(roles[index]):
            if name:
                numbers[index, role] = found[name]
    return numbers


def _known(one: Pass) -> Known:
    return Known(build_filters(one.known.indptr, one.known.indices), one.known.indptr, one.known.indices)
