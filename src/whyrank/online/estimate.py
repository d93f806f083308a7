"""What a model or an option would have got, from a log of what was shown; or why it cannot tell."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from whyrank.errors import ParameterError
from whyrank.online import estimators
from whyrank.online.estimators import Value, Values
from whyrank.online.log import Log
from whyrank.online.propensity import DEEPEST, Policy, along, anywhere
from whyrank.online.rewards import Goal, ShownLists, lists_of

VERDICT, PESSIMIST = "dr", "cascade"  # the estimators of verdicts and of lower bounds
FEW_PEOPLE = 30
FEW_LISTS = 200  # effective ones
MISSING = 0.05  # of what a policy would show may be unknown to the log
SURE = 2.0  # standard errors by which more than that must be missing
AGREE = 1e-3  # by which recomputed chances may differ from logged ones
NOT_DRAWN = "nothing was drawn while it was written (all propensities are 1); show lists with --explore first"


@dataclass(frozen=True)
class Line:
    """One estimator's answer: rewards per list, and the share by which they exceed the baseline."""

    estimator: str
    value: float
    low: float
    high: float
    baseline: float
    uplift: float
    uplift_low: float
    uplift_high: float
    ess: float


@dataclass(frozen=True)
class Estimate:
    """What a policy would have got; `refusals` say why the log cannot tell, where it cannot."""

    lists: int
    users: int
    logged: float  # rewards per list, as they were
    confidence: float
    lines: tuple[Line, ...]
    refusals: tuple[str, ...]
    notes: tuple[str, ...]
    at_least: bool  # only support is missing, and rewards are never negative: there is a lower bound
    unseen: float  # share of what the candidate would show that the log surely lacks

    @property
    def line(self) -> Line:
        """The line of the verdict; for a lower bound, what was never shown counts as nothing."""
        wanted = PESSIMIST if self.at_least else VERDICT
        return next(each for each in self.lines if each.estimator == wanted)

    @property
    def refused(self) -> bool:
        """Whether the log cannot tell, not even a lower bound; figures then say nothing."""
        return bool(self.refusals) and not self.at_least

    @property
    def bounds(self) -> tuple[float, float]:
        """The uplift of the verdict at least and at most.

        No log knows how people like what was never shown: from not at all to twice as much as the
        rest, say these bounds, beyond the interval of the estimator.
        """
        line = self.line
        reach = 0.0 if self.at_least else self.unseen * (1 + line.uplift)
        return line.uplift_low - reach, line.uplift_high + reach

    def not_worse(self, margin: float = 0.01) -> bool:
        """Whether the uplift is above minus `margin`, one-sided at (1 + confidence) / 2."""
        return not self.refused and self.bounds[0] > -margin

    def verdict(self) -> str:
        """Return one plain sentence."""
        level, bounds = f"{100 * self.confidence:g}%", self.bounds
        low, uplift, high = (f"{100 * each:+.1f}%" for each in (bounds[0], self.line.uplift, bounds[1]))
        if self.at_least:
            least = f"If that got nothing at all, the candidate would get {uplift}"
            return f"{self.refusals[0].capitalize()}. {least} ({level}: at least {low})."
        if self.refusals:
            return f"The log cannot tell: {'; '.join(self.refusals)}."
        if bounds[0] > 0 or bounds[1] < 0:
            amount = f"{uplift[1:]} {'more' if self.line.uplift > 0 else 'less'}"
            return f"It would get {amount} ({level}: {low} to {high}); enough to decide."
        return f"It would get {uplift} ({level}: {low} to {high}); not enough to decide."

    def as_dict(self) -> dict[str, object]:
        return asdict(self) | {"verdict": self.verdict()}


def estimate(
    log: Log | ShownLists,
    candidate: Policy,
    baseline: Policy | None = None,
    *,
    goal: Goal | None = None,
    clip: float = 50.0,
    confidence: float = 0.95,
) -> Estimate:
    """Estimate what a candidate would have got in place of what was shown.

    Args:
        log: exposures with propensities, and reactions.
        candidate: the model and options in question.
        baseline: what it is compared with; what was shown, unless given. If it is what was shown,
            the independent estimator is computed as well.
        goal: what is rewarded; clicks unless given.
        clip: no weight is larger than this.
        confidence: of the intervals, which count people and not lists.

    Returns:
        An estimate by every estimator, the verdict, and refusals where the log cannot tell.

    Raises:
        ParameterError: clip or confidence out of range.
        DataError: a log that cannot be, such as propensities above 1.
    """
    if not 1 <= clip < float("inf"):
        raise ParameterError(f"clip is {clip!r}; use a number of at least 1")
    if not 0.5 <= confidence < 1:
        raise ParameterError(f"confidence is {confidence!r}; use a number from 0.5 to below 1")
    lists = lists_of(log, goal) if isinstance(log, Log) else log
    new, weights = _values(candidate, lists, clip)
    shown = estimators.ips(np.ones(lists.reward.shape), lists.reward)
    old, notes = dict.fromkeys(estimators.ESTIMATORS, shown), []
    missing, refusals = _missing(weights, lists, "candidate"), _refusals(lists, weights)
    if baseline is None:
        notes.append("independent is left out: give the model that was shown as the baseline")
    else:
        values, its_weights = _values(baseline, lists, clip)
        old |= values
        # A baseline that lacks support would count for too little, and any candidate seem better.
        refusals += _missing(its_weights, lists, "baseline")
        if reason := _not_independent(baseline, lists):
            notes.append(f"independent is left out: {reason}")
        else:
            new["independent"] = _independent(candidate, baseline, lists, clip)
    z = float(ndtri((1 + confidence) / 2))
    names = [name for name in estimators.ESTIMATORS if name in new]
    return Estimate(
        lists=len(lists.reward),
        users=len(np.unique(lists.cluster)),
        logged=float(lists.reward.sum(1).mean()),
        confidence=confidence,
        lines=tuple(_line(name, new[name], old[name], lists.cluster, z) for name in names),
        refusals=tuple(missing + refusals),
        notes=tuple(notes),
        at_least=bool(missing) and not refusals and bool((lists.reward >= 0).all()),
        unseen=max([0.0, *(1 - mean - error for mean, error in _means(weights, lists))]),
    )


def _values(policy: Policy, lists: ShownLists, clip: float) -> tuple[dict[str, Value], Values]:
    """Compute all estimators that need nothing but logged propensities, and their weights.

    What is guessed of one half of the people is learned from the other half.
    """
    mixed = lists.cluster.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    fold = ((mixed >> np.uint64(40)) & np.uint64(1)).astype(np.int64)
    catalog, reward = policy.model.catalog_, lists.reward
    numbers, _ = lists.numbers(catalog)
    first, second = (
        estimators.guesses(numbers[fold != side], reward[fold != side], len(catalog.explanations)) for side in (0, 1)
    )
    found = along(policy, lists, (first, second), fold)
    weights = estimators.list_weights(found.chance, lists.propensity, clip)
    place = np.arange(numbers.shape[1])[None, :]
    guess = np.where(fold[:, None] == 0, first[numbers, place], second[numbers, place])
    guess = np.where(numbers >= 0, guess, 0.0)
    values = {
        "ips": estimators.ips(weights, reward),
        "snips": estimators.snips(weights, reward),
        "cascade": estimators.cascade(weights, reward),
        "sncascade": estimators.sncascade(weights, reward),
        "dr": estimators.doubly_robust(weights, reward, guess, found.expected),
    }
    return values, weights


def _not_independent(baseline: Policy, lists: ShownLists) -> str | None:
    """Say why the independent estimator cannot be computed; None where it can."""
    n, longest = lists.reward.shape[1], int(lists.length.max())
    if longest > DEEPEST:
        return f"it is computed for lists of up to {DEEPEST} reasons, and the longest here has {longest}"
    nothing = np.zeros((len(baseline.model.catalog_.explanations), n))
    chance = along(baseline, lists, (nothing, nothing), np.zeros(len(lists.reward), np.int64)).chance
    apart = np.abs(np.where(_inside(lists), chance - lists.propensity, 0.0)).max(initial=0.0)
    return "the baseline with these options is not what was shown" if apart > AGREE else None


def _independent(candidate: Policy, baseline: Policy, lists: ShownLists, clip: float) -> Value:
    chance = np.where(_inside(lists), anywhere(candidate, lists), 0.0)
    return estimators.independent(chance, anywhere(baseline, lists), lists.reward, clip)


def _inside(lists: ShownLists) -> NDArray[np.bool_]:
    return np.asarray(np.arange(lists.reward.shape[1])[None, :] < lists.length[:, None])


def _line(name: str, new: Value, old: Value, cluster: NDArray[np.int64], z: float) -> Line:
    error = z * estimators.clustered_error(new.influence, cluster)
    uplift, influence = estimators.relative(new, old)
    wide = z * estimators.clustered_error(influence, cluster)
    ends = (new.mean - error, new.mean + error)
    return Line(name, new.mean, *ends, old.mean, uplift, uplift - wide, uplift + wide, new.ess)


def _refusals(lists: ShownLists, weights: Values) -> list[str]:
    """Say why the log cannot tell anything, if it cannot."""
    if (lists.propensity == 1).all() and not (weights == 1).all():
        return [NOT_DRAWN]
    found = []
    people, ess = len(np.unique(lists.cluster)), estimators.effective(weights[:, -1])
    if people < FEW_PEOPLE:
        found.append(f"it holds {people} people; at least {FEW_PEOPLE} are needed")
    if ess < FEW_LISTS:
        worth = f"its {len(weights):,} lists are worth {ess:,.0f} of the candidate's"
        found.append(f"{worth}; {FEW_LISTS} are needed")
    if not lists.reward.any():
        found.append("nobody reacted to anything")
    return found


def _means(weights: Values, lists: ShownLists) -> list[tuple[float, float]]:
    """Return the mean weight up to each position, which is 1 if nothing is missing, and its error."""
    errors = (estimators.clustered_error(column - column.mean(), lists.cluster) for column in weights.T)
    return list(zip(weights.mean(0).tolist(), errors, strict=True))


def _missing(weights: Values, lists: ShownLists, whose: str) -> list[str]:
    """Say what a policy would show and the log does not have."""
    for place, (mean, error) in enumerate(_means(weights, lists), 1):
        if mean < 1 - MISSING - SURE * error:
            share = f"about {100 * (1 - mean):.0f}% of what the {whose} would show"
            never = "was never shown, or so rarely that its weight is clipped"
            return [f"{share} up to position {place} {never}"]
    return []
