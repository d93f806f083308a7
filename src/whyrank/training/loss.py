"""The loss on a fixed sample of pairs, to see a run go down."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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
        return cls(
            storage, passes, [_sample(storage, one, key_of(seed, SAMPLE_DOMAIN, n)) for n, one in enumerate(passes)]
        )

    def rows(self) -> dict[str, NDArray[np.int32]]:
        """The rows of each table that the loss is measured on."""
        wanted: dict[str, list[NDArray[np.int32]]] = {name: [] for name in self.storage.tables}
        for one, (numbers, negatives) in zip(self.passes, self.samples, strict=True):
            for name, rows in numbers.items():
                wanted[name].append(rows)
            for name in one.tables[len(one.column_tables) :]:
                wanted[name].append(negatives[negatives >= 0])
        return {name: np.unique(np.concatenate(rows)) for name, rows in wanted.items() if rows}

    def mean(self) -> float:
        total = 0.0
        for one, (numbers, negatives) in zip(self.passes, self.samples, strict=True):
            drawn = negatives >= 0
            if drawn.any():
                r = one.differences(self.storage, {k: v[drawn] for k, v in numbers.items()}, negatives[drawn])
                total += one.weight * float(np.logaddexp(0, -r.astype(np.float64)).mean())
        return total


def _sample(storage: Storage, one: Pass, key: np.uint64) -> Sample:
    chosen = draw_many(key, min(SAMPLE, one.triplets), one.triplets)
    columns = np.arange(storage.tables[one.column_tables[-1]].rows, dtype=np.int32)
    negatives = draw_negatives(one.known_rows[chosen], columns, known_of(one.known.indptr, one.known.indices), key)
    return {name: array[chosen] for name, array in one.positives.items()}, negatives
