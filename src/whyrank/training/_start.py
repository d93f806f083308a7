"""Where training and an epoch start from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel
from whyrank.rng import below, draw

U40 = np.uint64(40)
STEP = np.float32(2.0**-23)
ONE = np.float32(1)


@kernel
def fill_uniform(rows: NDArray[np.float32], first: int, factors: int, limit: np.float32, key: np.uint64) -> None:
    """Fill the first `factors` columns uniformly from [-limit, limit); `first` is the number of the first row."""
    for row in range(len(rows)):
        for k in range(factors):
            bits = draw(key, (first + row) * factors + k) >> U40
            rows[row, k] = (np.float32(bits) * STEP - ONE) * limit


@kernel
def draw_one_per_run(records: NDArray[np.int64], key: np.uint64) -> NDArray[np.bool_]:
    """Mark one entry of every record; `records` has the record of every entry, equal ones side by side."""
    active = np.zeros(len(records), np.bool_)
    start = 0
    for entry in range(1, len(records) + 1):
        if entry == len(records) or records[entry] != records[start]:
            active[start + below(draw(key, records[start]), entry - start)] = True
            start = entry
    return active
