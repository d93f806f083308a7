"""Is one model better than another on the same pairs, or is it chance?"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def student(ours: Values, theirs: Values) -> float:
    """Two-sided p-value of the paired Student's t-test (the paper's)."""
    difference = ours - theirs
    n = len(difference)
    if n < 2 or not difference.any():
        return 1.0
    deviation = difference.std(ddof=1)
    if deviation == 0:
        return 0.0
    t = difference.mean() / deviation * math.sqrt(n)
    return student_tail(abs(float(t)), n - 1)


def wilcoxon(ours: Values, theirs: Values) -> float:
    """Two-sided p-value of Wilcoxon's signed-rank test (normal approximation with tie correction; zeros dropped)."""
    difference = (ours - theirs)[ours != theirs]
    n = len(difference)
    if n == 0:
        return 1.0
    _, inverse, counts = np.unique(np.abs(difference), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    statistic = ranks[difference > 0].sum()
    variance = n * (n + 1) * (2 * n + 1) / 24 - ((counts**3 - counts).sum() / 48)
    if variance <= 0:
        return 1.0
    return math.erfc(abs(statistic - n * (n + 1) / 4) / math.sqrt(2 * variance))


def randomization(ours: Values, theirs: Values, rounds: int = 2000, seed: int = 0) -> float:
    """Two-sided p-value of the paired randomization test: how often random signs give a mean as far from zero."""
    difference = (ours - theirs)[ours != theirs]
    if not len(difference):
        return 1.0
    rng = np.random.default_rng(seed)
    observed = abs(difference.sum())
    extreme = 0
    for start in range(0, rounds, 100):
        count = min(100, rounds - start)
        signs = rng.integers(0, 2, (count, len(difference)), dtype=np.int8) * 2 - 1
        extreme += int((np.abs(signs @ difference) >= observed - 1e-12).sum())
    return (extreme + 1) / (rounds + 1)


TESTS: dict[str, Callable[[Values, Values], float]] = {
    "student": student,
    "wilcoxon": wilcoxon,
    "randomization": randomization,
}


def student_tail(t: float, freedom: int) -> float:
    """P(|T| >= t) of Student's t: a regularized incomplete beta function by its continued fraction."""
    x = freedom / (freedom + t * t)
    a, b = freedom / 2, 0.5
    if x >= 1:
        return 1.0
    if x <= 0:
        return 0.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1) / (a + b + 2):
        return math.exp(log_front) * _fraction(a, b, x) / a
    return 1 - math.exp(log_front) * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """Lentz's evaluation of the continued fraction of the incomplete beta function."""
    tiny = 1e-300
    c, d = 1.0, 1 / max(1 - (a + b) * x / (a + 1), tiny)
    value = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / (_away_from_zero(1 + term * d, tiny))
            c = _away_from_zero(1 + term / c, tiny)
            value *= c * d
        if abs(c * d - 1) < 1e-12:
            break
    return value


def _away_from_zero(value: float, tiny: float) -> float:
    return value if abs(value) > tiny else tiny
