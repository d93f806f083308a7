"""The loss on a fixed sample of pairs, to see a run go down."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.kernels.negatives import Known, build_filters, draw_negatives
from whyrank.kernels.rng import draw_many, key_of
from whyrank.training.passes import PairwisePass, Pass, positives
from whyrank.training.storage import Storage

SAMPLE_DOMAIN = 7
SAMPLE = 1000  # triplets per pass


class SampleLoss:
    """Mean of -ln sigma(r) over the same pairs whenever asked, summed over the passes with their weights."""

    def __init__(self, storage: Storage, passes: tuple[Pass, ...], seed: int) -> None:
        self.storage, self.passes = storage, passes
        self.samples = [_sample(storage, one, key_of(seed, SAMPLE_DOMAIN, n)) for n, one in enumerate(passes)]

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


def _sample(storage: Storage, one: Pass, key: np.uint64) -> tuple[dict[str, NDArray[np.int32]], NDArray[np.int32]]:
    """Some triplets' rows by table, and a negative for each."""
    chosen = draw_many(key, min(SAMPLE, one.triplets), one.triplets)
    pairwise = isinstance(one, PairwisePass)
    csr = one.known if isinstance(one, PairwisePass) else one.record_explanations
    rows = one.positive_rows if isinstance(one, PairwisePass) else csr.rows_of_entries()
    column = one.tables[1] if pairwise else one.tables[2]
    pool = np.arange(storage.tables[column].rows, dtype=np.int32)
    known = Known(build_filters(csr.indptr, csr.indices), csr.indptr, csr.indices)
    negatives = draw_negatives(rows[chosen], pool, known, key)
    return {name: array[chosen] for name, array in positives(one).items()}, negatives
