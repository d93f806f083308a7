"""Machines that share the steps of softmax training: each does some parts, and all do the same with the results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Flat = NDArray[np.float32]


class Team(Protocol):
    """This machine is number `me` of `size`."""

    @property
    def me(self) -> int: ...
    @property
    def size(self) -> int: ...
    def swap(self, mine: Sequence[Flat]) -> list[Flat]:
        """Send mine[m] to machine m; what each machine has sent here. All machines call it in the same order."""
        ...


def share_of(cuts: Sequence[int], machine: int, machines: int) -> list[int]:
    """The cuts of the neighbouring parts that are a machine's, with their end.

    >>> share_of([0, 2, 4, 6], 0, 2), share_of([0, 2, 4, 6], 1, 2)
    ([0, 2], [2, 4, 6])
    """
    parts = len(cuts) - 1
    return list(cuts[parts * machine // machines : parts * (machine + 1) // machines + 1])
