"""Is one model better than another, or is it chance?

Pairs of one user are alike, so that a test that takes them for independent finds differences that are none. All tests
here cluster by user: what is independent of each other are users, not pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Users = NDArray[np.integer]
ENOUGH_SPLITS = 5  # fewer say too little of how figures vary over splits


class Mean(NamedTuple):
    """A mean, its standard error, and the degrees of freedom of that error."""

    value: float
    error: float
    freedom: float

    def p_value(self) -> float:
        """Return the two-sided p-value of Student's t-test of no mean."""
        if self.value == 0 or self.freedom <= 0:
            return 1.0
        if self.error <= 1e-15 * abs(self.value):
            return 0.0  # all values the same leave no doubt
        from scipy.special import stdtr

        return float(2 * stdtr(self.freedom, -abs(self.value) / self.error))

    def half(self, level: float = 0.95) -> float:
        """Return half the width of the interval; infinite where nothing is known of the error."""
        if self.freedom <= 0:
            return math.inf
        from scipy.special import stdtrit

        return float(stdtrit(self.freedom, (1 + level) / 2)) * self.error


def clustered_mean(values: Values, users: Users | None = None) -> Mean:
    """Return the mean over pairs, with an error that holds where pairs of one user are alike and users differ in size.

    The variance is that of leaving out one user after the other (the jackknife): with G users, (G - 1) / G x the sum of
    the squared distances of the G means without a user from the mean. A few users with many pairs say as little as
    few users do, whatever the number of others: the degrees of freedom are the effective number of users, the squared
    number of pairs over the sum of the users' squared numbers, less one. With as many pairs of every user that is
    Student's test of the users' means; `users=None` takes every pair for a user of its own.

    >>> clustered_mean(np.array([1.0, 1.0, 3.0, 3.0]), np.array([0, 0, 1, 1]))
    Mean(value=2.0, error=1.0, freedom=1.0)
    """
    sums, sizes = _by_user(values, users)
    mean, groups, count = float(values.mean()), len(sums), len(values)
    if groups < 2:
        return Mean(mean, math.inf, 0.0)
    without = (sizes * mean - sums) / (count - sizes)  # how far the mean moves if a user is left out
    variance = (groups - 1) / groups * float((without**2).sum())
    return Mean(mean, math.sqrt(variance), effective_users(sizes) - 1)


def effective_users(sizes: NDArray[np.integer]) -> float:
    """Return how many users of equal size would tell as much as users with these numbers of pairs.

    >>> effective_users(np.array([5, 5, 5])), round(effective_users(np.array([100, 1, 1])), 2)
    (3.0, 1.04)
    """
    return float(sizes.sum()) ** 2 / float((sizes.astype(np.float64) ** 2).sum())


def user_means(values: Values, users: Users | None) -> Values:
    """Return the mean of every user, in the order of the users' numbers."""
    sums, sizes = _by_user(values, users)
    return sums / sizes


def student(ours: Values, theirs: Values, users: Users | None = None) -> float:
    """Return the two-sided p-value of the paired t-test of the mean over pairs, clustered by user.

    >>> round(student(np.array([1.0, 1.0, 0.0, 0.0]), np.zeros(4), np.array([7, 7, 8, 8])), 4)
    0.5
    """
    return clustered_mean(ours - theirs, users).p_value()


def wilcoxon(ours: Values, theirs: Values, users: Users | None = None) -> float:
    """Return the two-sided p-value of Wilcoxon's signed-rank test over the users' means.

    Normal approximation with tie correction; users without a difference are dropped.
    """
    difference = np.round(user_means(ours - theirs, users), 12)
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
    """Return the two-sided p-value of the paired randomization test: how often random signs give a mean as far from 0.

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


def combined(differences: Sequence[float], p_values: Sequence[float]) -> float:
    """Return one two-sided p-value from those of several splits, whose users are partly the same.

    Twice the mean of p-values is a p-value however they depend on each other (Vovk and Wang, 2020). That is taken of
    each side, "better" and "worse", and the smaller one is doubled, so that splits which contradict each other prove
    nothing. Splits that agree in sign give twice the mean of their p-values.

    >>> round(combined([0.1, 0.2], [0.01, 0.03]), 9), combined([0.1, -0.2], [0.01, 0.03]), combined([0.1], [0.01])
    (0.04, 1.0, 0.01)
    """
    signs, p = np.sign(differences), np.asarray(p_values, np.float64)
    better, worse = (float(np.where(signs == side, p / 2, 1 - p / 2).mean()) for side in (1, -1))
    return min(1.0, 2 * (2 if len(p) > 1 else 1) * min(better, worse))


def resampled_mean(values: Values, ratio: float) -> Mean:
    """Return the mean over splits with the corrected error of Nadeau and Bengio (2003).

    Splits of the same data share records, so that their figures vary less than those of fresh data would: the variance
    of the mean of J values is (1 / J + ratio) times theirs instead of 1 / J, where `ratio` is the number of test
    records over that of training records. J - 1 degrees of freedom.
    """
    n = len(values)
    if n < 2:
        return Mean(float(values.mean()), math.inf, 0.0)
    return Mean(float(values.mean()), float(values.std(ddof=1)) * math.sqrt(1 / n + ratio), n - 1)


def resampled(ours: Values, theirs: Values, ratio: float) -> float:
    """Return the two-sided p-value of the corrected resampled t-test over the means of splits.

    >>> round(resampled(np.array([0.30, 0.31, 0.29]), np.array([0.28, 0.28, 0.28]), 3 / 7), 4)
    0.149
    """
    return resampled_mean(ours - theirs, ratio).p_value()


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values of several tests, corrected so that one false finding among all is as unlikely as asked for.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected, so_far = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        so_far = max(so_far, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = so_far
    return corrected


def p_text(p: float) -> str:
    """Return a p-value as it is printed.

    >>> p_text(0.0004), p_text(0.004), p_text(0.237)
    ('p < 0.001', 'p < 0.01', 'p = 0.24')
    """
    for level in (0.001, 0.01):
        if p < level:
            return f"p < {level}"
    return f"p = {p:.2f}"


def _by_user(values: Values, users: Users | None) -> tuple[Values, NDArray[np.int64]]:
    """Return the sum of every user's values, and their number."""
    if users is None:
        return values, np.ones(len(values), np.int64)
    _, group = np.unique(users, return_inverse=True)
    sums: Values = np.bincount(group, values).astype(np.float64)
    return sums, np.bincount(group).astype(np.int64)
