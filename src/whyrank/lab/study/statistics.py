"""What a study says: who won which case, how sure that is, and how far participants agree."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence


def exact_interval(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's interval of a share: it covers the true one at least as often as it says.

    >>> [round(bound, 3) for bound in exact_interval(6, 10)]
    [0.262, 0.878]
    """
    tail = (1 - confidence) / 2
    low = 0.0 if successes == 0 else _solve(lambda p: _upper_tail(successes, trials, p) - tail)
    high = 1.0 if successes == trials else _solve(lambda p: tail - (1 - _upper_tail(successes + 1, trials, p)))
    return low, high


def fleiss_kappa(votes: Sequence[Sequence[int]]) -> float | None:
    """Agreement beyond chance; a row per case with the votes of each option.

    Cases with fewer than two votes say nothing of agreement. Rows may have different numbers of votes: the agreement of
    a case is that of its own pairs of voters. None when there is nothing to compare, or when all voted for one option.

    >>> fleiss_kappa([[2, 0], [0, 2]])
    1.0
    """
    rows = [row for row in votes if sum(row) >= 2]
    if not rows:
        return None
    total = sum(map(sum, rows))
    chance = sum((sum(row[option] for row in rows) / total) ** 2 for option in range(len(rows[0])))
    if chance >= 1:
        return None
    agreement = [sum(count * (count - 1) for count in row) / (sum(row) * (sum(row) - 1)) for row in rows]
    return (math.fsum(agreement) / len(rows) - chance) / (1 - chance)


def winner(votes: Sequence[int], agreement: int) -> int | None:
    """The option with most votes, if at least `agreement` participants chose it and no other has as many."""
    most = max(votes)
    if most < agreement or list(votes).count(most) > 1:
        return None
    return list(votes).index(most)


def _upper_tail(successes: int, trials: int, p: float) -> float:
    """The chance of at least so many successes."""
    if p <= 0 or p >= 1:
        return float(p >= 1 or successes <= 0)
    logs = (
        math.lgamma(trials + 1)
        - math.lgamma(k + 1)
        - math.lgamma(trials - k + 1)
        + k * math.log(p)
        + (trials - k) * math.log1p(-p)
        for k in range(successes, trials + 1)
    )
    return math.fsum(map(math.exp, logs))


def _solve(rising: Callable[[float], float]) -> float:
    """Where a rising function of a share crosses zero, by halving."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return (low + high) / 2
