"""The loss on a fixed sample of pairs, to see a run go down."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.kernels.negatives import Known, build_filters, draw_negatives
from whyrank.kernels.rng import draw_many, key_of
from whyrank.training.passes import PairwisePass, Pass, positives
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
            kept = negatives >= 0
            if kept.any():
                r = self._differences(one, {k: v[kept] for k, v in numbers.items()}, negatives[kept])
                total += one.weight * float(np.logaddexp(0, -r).mean())
        return total

    def _differences(
        self, one: Pass, numbers: dict[str, NDArray[np.int32]], negatives: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        def gap(name: str, width: int) -> NDArray[np.float32]:
            whole = self.storage.whole(name)[:, :width]
            return np.asarray(whole[numbers[name]] - whole[negatives])

        width = self.storage.width
        first = self.storage.factors(one.tables[0])[numbers[one.tables[0]]]
        if isinstance(one, PairwisePass):
            gaps = gap(one.columns, width + 1)
            return np.asarray((first * gaps[:, :width]).sum(1) + gaps[:, width], np.float64)
        second = self.storage.factors(one.items)[numbers[one.items]]
        if one.form == "cd":
            return np.asarray((first * second * gap(one.explanations[0], width)).sum(1), np.float64)
        by_user, by_item = (gap(name, width) for name in one.explanations)
        return np.asarray((first * by_user + second * by_item).sum(1), np.float64)


def key_of_pass(seed: int, number: int) -> np.uint64:
    return key_of(seed, SAMPLE_DOMAIN, number)


def chosen_triplets(key: np.uint64, triplets: int) -> NDArray[np.int64]:
    """The numbers of the triplets that the loss is measured on."""
    return draw_many(key, min(SAMPLE, triplets), triplets)


def negatives_of(rows: NDArray[np.int32], known: CSR, columns: int, key: np.uint64) -> NDArray[np.int32]:
    """A column for each row that it does not know."""
    filters = Known(build_filters(known.indptr, known.indices), known.indptr, known.indices)
    return draw_negatives(rows, np.arange(columns, dtype=np.int32), filters, key)


def _sample(storage: Storage, one: Pass, key: np.uint64) -> Sample:
    chosen = chosen_triplets(key, one.triplets)
    pairwise = isinstance(one, PairwisePass)
    rows = one.positive_rows if isinstance(one, PairwisePass) else one.record_explanations.rows_of_entries()
    column = one.tables[1] if pairwise else one.tables[2]
    negatives = negatives_of(rows[chosen], one.known, storage.tables[column].rows, key)
    return {name: array[chosen] for name, array in positives(one).items()}, negatives
