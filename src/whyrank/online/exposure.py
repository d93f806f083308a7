"""A list of reasons as it was shown: one row of the log."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

BYTES, DRAWN = 10, 256  # of an id that are random, and ids whose random numbers are drawn at once
_drawn: list[str] = []
_ahead = 0  # nanoseconds by which the wall clock is ahead of the steady one, at most until now


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
    """Return an id that nobody else has and nobody can guess; later ones of a process are larger.

    Its time follows the wall clock, but not backwards: what is shown after an erasure must not seem to be from before.
    """
    global _ahead
    try:
        drawn = _drawn.pop()
    except IndexError:  # each draw takes the system as long as many numbers of one draw
        block = os.urandom(DRAWN * BYTES).hex()
        _drawn.extend(block[at : at + 2 * BYTES] for at in range(2 * BYTES, len(block), 2 * BYTES))
        drawn = block[: 2 * BYTES]
    steady = time.monotonic_ns()
    _ahead = max(_ahead, time.time_ns() - steady)
    return f"{(_ahead + steady) // 1_000_000:012x}{drawn}"


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_drawn.clear)  # two processes must not use the same numbers
