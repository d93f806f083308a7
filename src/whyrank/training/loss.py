"""The loss on a fixed sample of pairs, to see a run go down."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.rng import draw_many, key_of
from whyrank.training._negatives import draw_negatives, known_of
from whyrank.training.passes import Pass
from whyrank.training.storage import Storage

SAMPLE_DOMAIN = 7
SAMPLE = 1000  # triplets per pass
Sample = tuple[dict[str, NDArray[np.int32]], NDArray[np.int32]]  # some triplets' rows by table, a negative for each


class SampleLoss:
    """Mean of -ln sigma(r) over the same pairs whenever asked, summed over the passes with their weights."""

    def __init__(self, storage: Storage, passes: tuple[Pass, ...], samples: Sequence[Sample]) -> None:
        self.storage, self.passes, self.samples = storage, passes, samples

    @classmethod
    def of(cls, storage: Storage, passes: tuple[Pass, ...], seed: int) -> SampleLoss:
        return cls(storage, passes, [_sample(storage, one, key_of_pass(seed, n)) for n, one in enumerate(passes)])

    def mean(self) -> float:
        total = 0.0
        for one, (numbers, negatives) in zip(self.passes, self.samples, strict=True):
            drawn = negatives >= 0
            if drawn.any():
                r = one.differences(self.storage, {k: v[drawn] for k, v in numbers.items()}, negatives[drawn])
                total += one.weight * float(np.logaddexp(0, -r.astype(np.float64)).mean())
        return total


def key_of_pass(seed: int, number: int) -> np.uint64:
    return key_of(seed, SAMPLE_DOMAIN, number)


def chosen_triplets(key: np.uint64, triplets: int) -> NDArray[np.int64]:
    """The numbers of the triplets that the loss is measured on."""
    return draw_many(key, min(SAMPLE, triplets), triplets)


def negatives_of(rows: NDArray[np.int32], known: CSR, columns: int, key: np.uint64) -> NDArray[np.int32]:
    """A column for each row that it does not know."""
    return draw_negatives(rows, np.arange(columns, dtype=np.int32), known_of(known.indptr, known.indices), key)


def _sample(storage: Storage, one: Pass, key: np.uint64) -> Sample:
    chosen = chosen_triplets(key, one.triplets)
    columns = storage.tables[one.column_tables[-1]].rows
    negatives = negatives_of(one.known_rows[chosen], one.known, columns, key)
    return {name: array[chosen] for name, array in one.positives.items()}, negatives
