"""The loss of factor models on a fixed sample of pairs, from tables that are on other machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.lab.ray.dataset import Dataset, rows_of, stacked
from whyrank.lab.ray.positives import Columns, kind_of
from whyrank.lab.ray.session import Cluster
from whyrank.lab.ray.shard_worker import FactorJob
from whyrank.lab.ray.store import Arrays
from whyrank.training.loss import Sample, SampleLoss, chosen_triplets, key_of_pass, negatives_of
from whyrank.training.storage import Storage

Floats = NDArray[np.float32]


class ClusterLoss:
    """What `SampleLoss` says here, if records lie user by user, as they do unless files number them otherwise."""

    def __init__(self, cluster: Cluster, job: FactorJob) -> None:
        parts = range(job.data.parts)
        sizes = cluster.gather([cluster.submit(triplets_of, job.data, part) for part in parts])
        self.cluster, self.job, self.starts = cluster, job, np.cumsum([0, *sizes]).tolist()
        samples = [self._sample(number) for number in range(len(job.passes))]
        self.rows = {name: _rows(samples, name) for name in job.tables}
        small = {name: replace(table, rows=len(self.rows[name]), bias_start=None) for name, table in job.tables.items()}
        self.loss = SampleLoss(Storage(small), job.passes, [self._renumbered(*sample) for sample in samples])

    def take(self, found: Sequence[dict[str, tuple[Any, Floats]]]) -> None:
        """The rows of the sample as every machine has them after an epoch."""
        for tables in found:
            for name, (places, values) in tables.items():
                self.loss.storage.whole(name)[places] = values

    def mean(self) -> float:
        """The loss of the rows that were taken last."""
        return self.loss.mean()

    def _sample(self, number: int) -> Sample:
        """A pass's sample; a negative's table is the pass's last."""
        job, one, key = self.job, self.job.passes[number], key_of_pass(self.job.settings.seed, number)
        chosen = chosen_triplets(key, job.data.triplets)
        pieces = []
        for part, first in enumerate(self.starts[:-1]):
            mine = np.flatnonzero((chosen >= first) & (chosen < self.starts[part + 1]))
            pieces.append((mine, self.cluster.submit(triplets_at, job.data, part, chosen[mine] - first)))
        found = {kind: np.empty(len(chosen), np.int32) for kind in ("user", "item", "explanation")}
        own: list[NDArray[np.int32]] = [np.empty(0, np.int32)] * len(chosen)
        for (mine, _), (entries, said) in zip(pieces, self.cluster.gather([r for _, r in pieces]), strict=True):
            for kind in found:
                found[kind][mine] = entries[kind]
            for place, entry in enumerate(mine.tolist()):
                own[entry] = said.row(place)
        take = Columns.of(one)
        if not take.three_way:
            rows, at = np.unique(found[take.rows], return_inverse=True)
            pieces_of = [
                self.cluster.submit(rows_of, job.data, take.rows, take.columns[0], part, rows)
                for part in range(job.data.parts)
            ]
            known = stacked(self.cluster.gather(pieces_of)).take(at)
        else:
            sizes = np.array([len(each) for each in own])
            known = CSR(np.concatenate([[0], np.cumsum(sizes)]), np.concatenate(own), np.concatenate(own))
        columns = job.tables[one.column_tables[-1]].rows
        negatives = negatives_of(np.arange(len(chosen), dtype=np.int32), known, columns, key)
        return {name: found[kind_of(name)] for name in one.tables}, negatives

    def _renumbered(self, numbers: dict[str, NDArray[np.int32]], negatives: NDArray[np.int32]) -> Sample:
        """By places among the rows that are asked for; tables of one kind have them in common."""
        places = {name: np.searchsorted(self.rows[name], rows).astype(np.int32) for name, rows in numbers.items()}
        last = list(numbers)[-1]
        at = np.searchsorted(self.rows[last], negatives).astype(np.int32)
        return places, np.where(negatives >= 0, at, np.int32(-1))


def _rows(samples: list[Sample], name: str) -> NDArray[np.int32]:
    """All rows of a table's kind that samples ask for."""
    wanted = [np.empty(0, np.int32)]
    for numbers, negatives in samples:
        wanted += [rows for table, rows in numbers.items() if kind_of(table) == kind_of(name)]
        if kind_of(list(numbers)[-1]) == kind_of(name):
            wanted.append(negatives[negatives >= 0])
    return np.unique(np.concatenate(wanted))


# -- what machines do --------------------------------------------------------------------------------------------------


def triplets_of(data: Dataset, part: int) -> int:
    return len(data.part("user", part)["record"])


def triplets_at(data: Dataset, part: int, places: NDArray[np.int64]) -> tuple[Arrays, CSR]:
    """Some triplets of a part, and for each all explanations of its user and item."""
    entries = data.part("user", part)
    pair_of = entries["user"].astype(np.int64) * data.item_count + entries["item"]
    pairs, place = np.unique(pair_of[places], return_inverse=True)
    at = np.minimum(np.searchsorted(pairs, pair_of), max(len(pairs) - 1, 0))
    mine = np.flatnonzero(pairs[at] == pair_of) if len(pairs) else np.empty(0, np.int64)
    said = CSR.from_pairs(at[mine], entries["explanation"][mine], len(pairs), data.explanation_count)
    return {kind: entries[kind][places] for kind in ("user", "item", "explanation")}, said.take(place)
