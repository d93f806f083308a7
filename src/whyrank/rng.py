"""Random numbers from counters: a draw depends on its key and its position only, never on what was drawn before."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
U11, U27, U30, U31, U32 = (np.uint64(shift) for shift in (11, 27, 30, 31, 32))


@kernel
def mix(z: np.uint64) -> np.uint64:
    """64 well-mixed bits from 64 bits (SplitMix64's finalizer)."""
    z = (z ^ (z >> U30)) * MIX_1
    z = (z ^ (z >> U27)) * MIX_2
    return z ^ (z >> U31)


@kernel
def draw(key: np.uint64, position: int) -> np.uint64:
    """64 random bits for a position of the stream `key`."""
    return mix(key + np.uint64(position + 1) * GOLDEN)


@kernel
def below(bits: np.uint64, n: int) -> int:
    """A whole number in [0, n) from the upper half of `bits`, for n < 2**32, without a division."""
    return int(((bits >> U32) * np.uint64(n)) >> U32)


@kernel
def draw_many(key: np.uint64, count: int, n: int) -> NDArray[np.int64]:
    """`count` whole numbers in [0, n), with replacement."""
    numbers = np.empty(count, np.int64)
    for position in range(count):
        numbers[position] = below(draw(key, position), n)
    return numbers


@kernel
def shuffled(count: int, key: np.uint64) -> NDArray[np.int32]:
    """The numbers 0 ... count - 1 in random order."""
    order = np.arange(count).astype(np.int32)
    for last in range(count - 1, 0, -1):
        other = below(draw(key, last), last + 1)
        order[last], order[other] = order[other], order[last]
    return order


@kernel
def hash_records(user: NDArray[np.uint64], item: NDArray[np.uint64], key: np.uint64) -> NDArray[np.float64]:
    """Two random numbers in [0, 1) for every record, which its ids' hashes and the key decide."""
    drawn = np.empty((2, len(user)), np.float64)
    for record in range(len(user)):
        stream = mix(mix(user[record] + key) ^ item[record])
        for which in range(2):
            drawn[which, record] = float(draw(stream, which) >> U11) * 2.0**-53
    return drawn


def key_of(*parts: int) -> np.uint64:
    """One key from several whole numbers, such as (seed, epoch, pass, stratum, task)."""
    mask, state = (1 << 64) - 1, 0
    for part in parts:
        z = (state + (part & mask) + int(GOLDEN)) & mask
        z = ((z ^ (z >> 30)) * int(MIX_1)) & mask
        z = ((z ^ (z >> 27)) * int(MIX_2)) & mask
        state = z ^ (z >> 31)
    return np.uint64(state)
