"""What softmax training learns from: what records say, and what is known of both of their sides without them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.training._softmax import RecordLists, Side, other_entries

ALL = 1 << 62  # longer than any profile


@dataclass(frozen=True, eq=False)
class SoftmaxRecords:
    """What each record says, and its two sides; of longer profiles, `longest` entries stand for all."""

    targets: CSR
    sides: tuple[Side, Side]
    longest: int = ALL

    @property
    def count(self) -> int:
        return self.targets.rows

    @property
    def entries(self) -> int:
        return len(self.targets.indices)

    def lists(self, order: NDArray[np.int64], batch: int) -> Iterator[RecordLists]:
        """Batch after batch of the records in an order."""
        return (self.of(order[start : start + batch]) for start in range(0, len(order), batch))

    def of(self, records: NDArray[np.int64]) -> RecordLists:
        said = self.targets.take(records)
        return RecordLists(said.indptr, said.indices, *other_entries(records, *self.sides, True, self.longest))
