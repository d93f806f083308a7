"""Intervals that may be looked at any time, for what users in two arms do per list.

A rate is the sum of events over the sum of lists of an arm. Its variance takes the user as the unit
(whoever sees ten lists is one person, not ten), by linearizing the ratio. Intervals are asymptotic
confidence sequences (Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas, 2021) with a normal mixture; the
time of the sequence is the number of lists. Functions take arrays as well as numbers, so that
thousands of experiments can be simulated with the code that is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

Real = NDArray[np.float64]


class Moments(NamedTuple):
    """Sums over the users of an arm: events c, lists n, and x, what is known of a user from before."""

    users: Real
    c: Real
    n: Real
    cc: Real
    cn: Real
    nn: Real
    x: Real
    xx: Real
    cx: Real
    nx: Real

    @classmethod
    def of(cls, c: Real, n: Real, x: Real) -> Moments:
        """Sum up the values of the users of one arm."""
        parts = (np.ones(len(c)), c, n, c * c, c * n, n * n, x, x * x, c * x, n * x)
        return cls(*(np.asarray(part.sum()) for part in parts))


class Rate(NamedTuple):
    """Events per list, and the variance of that estimate."""

    value: Real
    variance: Real


class Compared(NamedTuple):
    """How far a rate is from another one: difference and ratio - 1, each with an interval that always holds."""

    difference: Real
    low: Real
    high: Real
    uplift: Real
    uplift_low: Real  # NaN where the interval of the ratio has no bounds yet
    uplift_high: Real


def rate(arm: Moments) -> Rate:
    """Return the rate of an arm."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = arm.c / arm.n
        spread = arm.cc - 2 * value * arm.cn + value**2 * arm.nn
        return Rate(value, spread / arm.n**2 * arm.users / (arm.users - 1))


def adjusted_rates(arms: Sequence[Moments]) -> tuple[list[Rate], Real]:
    """Take off what users' earlier behaviour explains (CUPED); also the share of variance it takes.

    One slope for all arms, from the spread within arms. Arms differ in x by chance only, since
    nobody was in an arm before the experiment, so taking the difference off changes no expectation.
    """
    spreads = [arm.xx - arm.x**2 / arm.users for arm in arms]
    # Of the linearized ratio, whose sum is 0.
    covariances = [(arm.cx - arm.c / arm.n * arm.nx) * arm.users / arm.n for arm in arms]
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(sum(spreads) > 0, sum(covariances) / sum(spreads), 0.0)
    everybody = sum(arm.x for arm in arms) / sum(arm.users for arm in arms)
    rates, plain = [], [rate(arm) for arm in arms]
    for arm, before, spread, covariance in zip(arms, plain, spreads, covariances, strict=True):
        less = (slope**2 * spread - 2 * slope * covariance) / (arm.users * (arm.users - 1))
        value = before.value - slope * (arm.x / arm.users - everybody)
        rates.append(Rate(value, np.maximum(before.variance + less, 0.0)))
    total = sum(each.variance for each in plain)
    with np.errstate(divide="ignore", invalid="ignore"):
        return rates, np.where(total > 0, 1 - sum(each.variance for each in rates) / total, 0.0)


def widening(lists: Real | float, planned: float, alpha: float) -> Real:
    """Return squared half-width / variance of an interval that holds at all times.

    It is about narrowest when `planned` lists were shown; it holds before and after, too.
    """
    wide = -2 * math.log(alpha)
    time = np.asarray(lists, np.float64) * (wide + math.log(wide + 1)) / planned
    with np.errstate(divide="ignore", invalid="ignore"):
        return (time + 1) / time * (wide + np.log(time + 1))


def compared(control: Rate, other: Rate, factor: Real | float) -> Compared:
    """Return difference and uplift with intervals of squared half-width `factor` x variance.

    The interval of the ratio is that of Fieller: all k for which `other - k control` may be 0. So
    it excludes "no change" exactly when the interval of the difference excludes 0.
    """
    (a, va), (b, vb) = control, other
    with np.errstate(divide="ignore", invalid="ignore"):
        half = np.sqrt(factor * (va + vb))
        square, product, rest = a**2 - factor * va, a * b, b**2 - factor * vb
        root = np.sqrt(np.maximum(product**2 - square * rest, 0.0))
        low, high = ((product + sign * root) / square - 1 for sign in (-1, 1))
        bounded = (square > 0) & (a > 0)
        return Compared(
            difference=b - a,
            low=b - a - half,
            high=b - a + half,
            uplift=np.where(a > 0, b / a - 1, np.nan),
            uplift_low=np.where(bounded, low, np.nan),
            uplift_high=np.where(bounded, high, np.nan),
        )


def interval(given: Rate, factor: Real | float) -> tuple[Real, Real]:
    """Return the interval of one rate."""
    half = np.sqrt(factor * given.variance)
    return given.value - half, given.value + half


@dataclass(frozen=True)
class RatioCheck:
    """Whether arms got as many users as their shares say."""

    expected: tuple[float, ...]
    evidence: float  # how many times better a mixture of other shares explains the counts
    alarm: bool


MISMATCH = 0.001  # chance of an alarm, ever, where all is well
STRENGTH = 1000.0  # imaginary users behind the mixture: it finds deviations of a few percent


def check_ratio(users: Sequence[int], shares: Sequence[float]) -> RatioCheck:
    """Test the numbers of users sequentially (Lindon, Malek, 2020): 1 in 1,000 alarms is wrong.

    >>> check_ratio([5000, 5100], [0.5, 0.5]).alarm, check_ratio([5000, 5600], [0.5, 0.5]).alarm
    (False, True)
    """
    counts, share, total = np.asarray(users), np.asarray(shares), sum(users)
    mixed = gammaln(STRENGTH * share + counts) - gammaln(STRENGTH * share) - counts * np.log(share)
    log = gammaln(STRENGTH) - gammaln(STRENGTH + total) + mixed.sum()
    evidence = math.exp(min(log, 700.0))
    expected = tuple(total * share for share in shares)
    return RatioCheck(expected, evidence, evidence >= 1 / MISMATCH)
