"""Factors for rows that came after the fit, with everything else frozen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.rng import draw, key_of
from whyrank.training._negatives import known_of
from whyrank.training._pairwise import Rates, fold_in_rows
from whyrank.training.settings import FactorSettings
from whyrank.training.storage import Storage

FOLD_DOMAIN = 8


def fold_in(
    storage: Storage, columns: str, positives: CSR, settings: FactorSettings, epochs: int = 50
) -> NDArray[np.float32]:
    """(rows, factors) for new rows, each given by its positive columns in the table `columns` (counts are repeats).

    The row's own part of Algorithm 1 for `epochs` epochs, from zero. A row's factors depend on its positives, the
    tables and the seed, not on the other rows asked for.
    """
    repeats = np.concatenate([[0], np.cumsum(positives.counts, dtype=np.int64)])
    repeated = np.repeat(positives.indices, positives.counts)
    table = storage.whole(columns)
    rows = np.zeros((positives.rows, table.shape[1]), np.float32)
    keys = np.array([draw(key_of(settings.seed, FOLD_DOMAIN), epoch) for epoch in range(epochs)], np.uint64)
    rates = Rates(settings.rate(1), *[settings.decay(1)] * 4)
    layout, known = storage.layout(storage.tables[columns].bias), known_of(positives.indptr, positives.indices)
    fold_in_rows(rows, table, repeats[positives.indptr], repeated, known, layout, rates, keys)
    return rows[:, : storage.width]
