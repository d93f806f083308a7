"""A list of reasons as it was shown: one row of the log."""

from __future__ import annotations

import os
import time
from typing import NamedTuple


class Exposure(NamedTuple):
    """A list of reasons as it was shown to somebody, with the columns of its table."""

    id: str
    time: int
    user: str
    route: str
    served: str
    model: str
    experiment: str | None
    arm: str | None
    options: str
    slate: str
    asked: int | None = None


def new_id() -> str:
    """An id that nobody else has and nobody can guess; later ones are larger."""
    return f"{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}"
