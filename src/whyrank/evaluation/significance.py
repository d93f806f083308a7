"""Is one model better than another, or is it chance?

Pairs of one user are alike, so that a test that takes them for independent finds differences that are none. All tests
here cluster by user: what is independent of each other are users, not pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Users = NDArray[np.integer]


def student(ours: Values, theirs: Values, users: Users | None = None) -> float:
    """Two-sided p-value of the paired t-test of the mean over pairs, robust to clusters of pairs of one user.

    The variance of the mean D of N differences is G / (G - 1) x the sum over the G users of (the sum of the user's
    differences - their number x D)^2 / N^2, with G - 1 degrees of freedom. With one pair for every user that is
    Student's paired test; `users=None` takes every pair for a user of its own.

    >>> round(student(np.array([1.0, 1.0, 0.0, 0.0]), np.zeros(4), np.array([7, 7, 8, 9])), 4)
    0.314
    """
    difference = ours - theirs
    sums, sizes = _by_user(difference, users)
    groups = len(sums)
    if groups < 2 or not difference.any():
        return 1.0
    mean = difference.mean()
    squares = float(((sums - sizes * mean) ** 2).sum())
    return _tail(float(mean), math.sqrt(squares * groups / (groups - 1)) / len(difference), groups - 1)


def wilcoxon(ours: Values, theirs: Values, users: Users | None = None) -> float:
    """Two-sided p-value of Wilcoxon's signed-rank test over the users' means.

    Normal approximation with tie correction; users without a difference are dropped.
    """
    sums, sizes = _by_user(ours - theirs, users)
    difference = np.round(sums / sizes, 12)
    difference = difference[difference != 0]
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


def randomization(ours: Values, theirs: Values, users: Users | None = None, rounds: int = 2000, seed: int = 0) -> float:
    """Two-sided p-value of the paired randomization test: how often random signs give a mean as far from zero.

    A sign is drawn for each user, for all pairs of the user alike.
    """
    sums, _ = _by_user(ours - theirs, users)
    sums = sums[sums != 0]
    if not len(sums):
        return 1.0
    rng = np.random.default_rng(seed)
    observed = abs(sums.sum())
    extreme = 0
    for start in range(0, rounds, 100):
        count = min(100, rounds - start)
        signs = rng.integers(0, 2, (count, len(sums)), dtype=np.int8) * 2 - 1
        extreme += int((np.abs(signs @ sums) >= observed - 1e-12).sum())
    return (extreme + 1) / (rounds + 1)


TESTS: dict[str, Callable[[Values, Values, Users | None], float]] = {
    "student": student,
    "wilcoxon": wilcoxon,
    "randomization": randomization,
}


def resampled(ours: Values, theirs: Values, ratio: float) -> float:
    """Two-sided p-value of the corrected resampled t-test (Nadeau and Bengio, 2003) over the means of splits.

    Splits of the same data share records, so that their figures vary less than those of fresh data would: the variance
    of the mean of J differences is (1 / J + ratio) times theirs instead of 1 / J, where `ratio` is the number of test
    records over that of training records. J - 1 degrees of freedom.

    >>> round(resampled(np.array([0.30, 0.31, 0.29]), np.array([0.28, 0.28, 0.28]), 3 / 7), 4)
    0.149
    """
    difference = ours - theirs
    n = len(difference)
    if n < 2 or not difference.any():
        return 1.0
    return _tail(float(difference.mean()), float(difference.std(ddof=1)) * math.sqrt(1 / n + ratio), n - 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values of several tests, corrected so that one false finding among all of them is as unlikely as asked for.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected, so_far = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        so_far = max(so_far, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = so_far
    return corrected


def _by_user(difference: Values, users: Users | None) -> tuple[Values, NDArray[np.int64]]:
    """The sum of every user's differences, and their number."""
    if users is None:
        return difference, np.ones(len(difference), np.int64)
    _, group = np.unique(users, return_inverse=True)
    sums: Values = np.bincount(group, difference).astype(np.float64)
    return sums, np.bincount(group).astype(np.int64)


def _tail(mean: float, error: float, freedom: int) -> float:
    """The two-sided p-value of a mean with a standard error; all differences the same leave no doubt, but for none."""
    if mean == 0:
        return 1.0
    return student_tail(abs(mean) / error, freedom) if error > 1e-15 * abs(mean) else 0.0


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
