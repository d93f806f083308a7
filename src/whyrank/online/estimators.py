"""Estimators of what a policy would have got, from lists that another one has shown.

Arrays in, numbers out. w_k is the chance of the k-th reason given those above it under the policy,
over the same under the one that has shown it; W_k = w_1 ... w_k; r_k is the reward of the k-th
reason. Of every list:

    ips           W_n x (r_1 + ... + r_n)
    cascade       W_1 r_1 + ... + W_n r_n             what stands below does not change a reward
    independent   v_1 r_1 + ... + v_n r_n             nothing else in the list changes it; v_k does not depend on it
    dr            sum of W_k (r_k - q_k) + W_(k-1) E q_k   cascade, with a guess q of rewards, right or wrong

`snips`, `sncascade` and `dr` divide each of their means by the mean of its weights. Where the log
lacks some of what the policy would show, that mean is below 1: `sncascade` takes what is missing
for what is there, `dr` guesses it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
ESTIMATORS = ("ips", "snips", "independent", "cascade", "sncascade", "dr")


class Value(NamedTuple):
    """An estimate, and how far every list moves it (their mean is 0); `ess`: how many lists it is worth."""

    mean: float
    influence: Values
    ess: float


def list_weights(chance: Values, propensity: Values, clip: float) -> Values:
    """W_k of every list and position, no larger than `clip`."""
    return np.asarray(np.minimum(np.cumprod(chance / propensity, axis=1), clip))


def ips(weights: Values, reward: Values) -> Value:
    return _mean(weights[:, -1] * reward.sum(1), effective(weights[:, -1]))


def snips(weights: Values, reward: Values) -> Value:
    return _ratio(weights[:, -1] * reward.sum(1), weights[:, -1])


def cascade(weights: Values, reward: Values) -> Value:
    return _mean((weights * reward).sum(1), effective(weights[:, -1]))


def sncascade(weights: Values, reward: Values) -> Value:
    found = [_ratio(weights[:, k] * reward[:, k], weights[:, k]) for k in range(reward.shape[1])]
    return _sum(found, min(each.ess for each in found))


def independent(chance: Values, propensity: Values, reward: Values, clip: float) -> Value:
    """Weigh by chances at positions, whatever stands above."""
    ratios = np.divide(chance, propensity, out=np.zeros_like(chance), where=propensity > 0)
    weights = np.minimum(ratios, clip)
    used = [effective(weights[:, k]) for k in range(weights.shape[1]) if weights[:, k].any()]
    return _mean((weights * reward).sum(1), min(used, default=0.0))


def doubly_robust(weights: Values, reward: Values, guess: Values, expected: Values) -> Value:
    """Correct guesses: `guess` of what was shown, `expected` the mean of what would be shown."""
    before = np.hstack([np.ones((len(weights), 1)), weights[:, :-1]])
    parts = [
        _ratio(weight[:, k] * value[:, k], weight[:, k])
        for weight, value in ((weights, reward - guess), (before, expected))
        for k in range(reward.shape[1])
    ]
    return _sum(parts, effective(weights[:, -1]))


def guesses(numbers: NDArray[np.int32], reward: Values, pool: int, prior: float = 20.0) -> Values:
    """Guess rewards, explanation x position: what a position gets, times how an explanation fares.

    `prior` is a number of imaginary rewards at the average of the positions that were shown.
    """
    shown = numbers >= 0
    counts = shown.sum(0)
    by_position = np.where(shown, reward, 0.0).sum(0) / np.maximum(counts, 1)
    place = np.nonzero(shown)[1]
    got = np.bincount(numbers[shown], reward[shown], pool)
    usual = np.bincount(numbers[shown], by_position[place], pool)
    average = float(np.abs(by_position[counts > 0]).mean()) if counts.any() else 0.0
    added = prior * max(average, 1e-12)
    return np.asarray(((got + added) / (usual + added))[:, None] * by_position[None, :])


def clustered_error(influence: Values, cluster: NDArray[np.int64]) -> float:
    """Return the standard error of a mean over lists; those of one person are not independent."""
    sums, groups = np.bincount(cluster, influence), len(np.unique(cluster))
    return float(np.sqrt((sums**2).sum() * groups / max(groups - 1, 1)) / len(influence))


def relative(new: Value, old: Value) -> tuple[float, Values]:
    """Return by which share one value is above another, and how far every list moves that."""
    if old.mean <= 0:
        return float("nan"), np.full(len(new.influence), np.nan)
    ratio = new.mean / old.mean
    return ratio - 1, (new.influence - ratio * old.influence) / old.mean


def effective(weights: Values) -> float:
    """Return how many equal weights would vary as little."""
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def _mean(values: Values, ess: float) -> Value:
    found = float(values.mean())
    return Value(found, values - found, ess)


def _ratio(values: Values, weights: Values) -> Value:
    total = float(weights.mean())
    if total <= 0:
        return Value(float("nan"), np.full(len(values), np.nan), 0.0)
    found = float(values.mean()) / total
    return Value(found, (values - found * weights) / total, effective(weights))


def _sum(parts: list[Value], ess: float) -> Value:
    influence = np.asarray(np.sum([each.influence for each in parts], axis=0))
    return Value(sum(each.mean for each in parts), influence, ess)
