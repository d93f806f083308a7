"""Intervals that may be looked at any time, for what users in two arms do per list.

A rate is the sum of events over the sum of lists of an arm. Its variance takes the user as the unit (whoever sees ten
lists is one person, not ten), by linearizing the ratio. Intervals are asymptotic confidence sequences (Waudby-Smith,
Arbour, Sinha, Kennedy, Ramdas, 2021) with a normal mixture; the time of the sequence is the number of lists. Functions
take arrays as well as numbers, so that thousands of experiments can be simulated with the code that is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
        """The sums of one arm from the values of its users."""
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
    """The rate of an arm."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = arm.c / arm.n
        spread = arm.cc - 2 * value * arm.cn + value**2 * arm.nn
        return Rate(value, spread / arm.n**2 * arm.users / (arm.users - 1))


def adjusted_rates(arms: Sequence[Moments]) -> tuple[list[Rate], Real]:
    """Rates without what users' earlier behaviour explains (CUPED), and the share of the variance that this takes off.

    One slope for all arms, from the spread within arms; arms differ in x by chance only, since nobody was in an arm
    before the experiment, so taking the difference off changes no expectation.
    """
    total_xx = sum(arm.xx - arm.x**2 / arm.users for arm in arms)
    covariances = []
    for arm in arms:
        value, mean_n = arm.c / arm.n, arm.n / arm.users
        covariances.append((arm.cx - value * arm.nx) / mean_n)  # of the linearized ratio, whose sum is 0
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(total_xx > 0, sum(covariances) / total_xx, 0.0)
    everybody = sum(arm.x for arm in arms) / sum(arm.users for arm in arms)
    rates, before, after = [], np.asarray(0.0), np.asarray(0.0)
    for arm, covariance in zip(arms, covariances, strict=True):
        plain, pairs = rate(arm), arm.users * (arm.users - 1)
        spread = arm.xx - arm.x**2 / arm.users
        variance = plain.variance + (slope**2 * spread - 2 * slope * covariance) / pairs
        rates.append(Rate(plain.value - slope * (arm.x / arm.users - everybody), np.maximum(variance, 0.0)))
        before, after = before + plain.variance, after + rates[-1].variance
    with np.errstate(divide="ignore", invalid="ignore"):
        return rates, np.where(before > 0, 1 - after / before, 0.0)


def widening(lists: Real | float, planned: float, alpha: float) -> Real:
    """By how much the squared half-width of an interval exceeds the variance, so that it holds at all times.

    The interval is about narrowest when `planned` lists were shown; it holds before and after, too.
    """
    wide = -2 * math.log(alpha)
    time = np.asarray(lists, np.float64) * (wide + math.log(wide + 1)) / planned
    with np.errstate(divide="ignore", invalid="ignore"):
        return (time + 1) / time * (wide + np.log(time + 1))


def compared(control: Rate, other: Rate, factor: Real | float) -> Compared:
    """Difference and uplift with intervals of squared half-width `factor` x variance.

    The interval of the ratio is that of Fieller: all k for which `other - k control` may be 0. So it excludes "no
    change" exactly when the interval of the difference excludes 0.
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
    """The interval of one rate."""
    half = np.sqrt(factor * given.variance)
    return given.value - half, given.value + half


@dataclass(frozen=True)
class RatioCheck:
    """Whether arms got as many users as their shares say."""

    expected: tuple[float, ...]
    evidence: float  # how many times better a mixture of other shares explains the counts
    alarm: bool


MISMATCH = 0.001  # chance of an alarm, ever, where all is well
STRENGTH = 1000.0  # imaginary users behind the mixture: deviations of a few percent are found soonest


def check_ratio(users: Sequence[int], shares: Sequence[float]) -> RatioCheck:
    """A sequential test of the numbers of users (Lindon, Malek, 2020): an alarm at any time is wrong once in 1,000.

    >>> check_ratio([5000, 5100], [0.5, 0.5]).alarm, check_ratio([5000, 5600], [0.5, 0.5]).alarm
    (False, True)
    """
    total = sum(users)
    log = math.lgamma(STRENGTH) - math.lgamma(STRENGTH + total)
    for count, share in zip(users, shares, strict=True):
        log += math.lgamma(STRENGTH * share + count) - math.lgamma(STRENGTH * share) - count * math.log(share)
    evidence = math.exp(min(log, 700.0))
    return RatioCheck(tuple(total * share for share in shares), evidence, evidence >= 1 / MISMATCH)
