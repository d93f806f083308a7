"""What a model or an option would have got, from a log of what was shown; or why the log cannot tell."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from whyrank.errors import ParameterError
from whyrank.online import estimators
from whyrank.online.estimators import Value, Values
from whyrank.online.log import Log
from whyrank.online.propensity import DEEPEST, Policy, along, anywhere
from whyrank.online.rewards import Goal, ShownLists, lists_of

VERDICT, PESSIMIST = "dr", "cascade"  # the estimators that verdicts and lower bounds come from
FEW_PEOPLE = 30
FEW_LISTS = 200  # effective ones
MISSING = 0.05  # of what a policy would show may be unknown to the log
SURE = 2.0  # standard errors by which more than that must be missing
AGREE = 1e-3  # by which recomputed chances may differ from logged ones


@dataclass(frozen=True)
class Line:
    """One estimator's answer: rewards per list, and by which share they are above the baseline's."""

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
    at_least: bool  # no more than support is missing, and rewards are never negative: a lower bound can be told

    @property
    def line(self) -> Line:
        """The line that the verdict comes from; where support is missing, what was never shown counts as nothing."""
        wanted = PESSIMIST if self.at_least else VERDICT
        return next(each for each in self.lines if each.estimator == wanted)

    @property
    def refused(self) -> bool:
        """Whether the log cannot tell, not even a lower bound; the figures of `lines` then say nothing."""
        return bool(self.refusals) and not self.at_least

    def not_worse(self, margin: float = 0.01) -> bool:
        """Whether the lower bound of the uplift is above minus `margin`, one-sided at (1 + confidence) / 2."""
        return not self.refused and self.line.uplift_low > -margin

    def verdict(self) -> str:
        """One plain sentence."""
        line, level = self.line, f"{100 * self.confidence:g}%"
        if self.at_least:
            least = f"If that got nothing at all, the candidate would get {100 * line.uplift:+.1f}%"
            return f"{self.refusals[0].capitalize()}. {least} ({level}: at least {100 * line.uplift_low:+.1f}%)."
        if self.refusals:
            return f"The log cannot tell: {'; '.join(self.refusals)}."
        range_ = f"({level}: {100 * line.uplift_low:+.1f}% to {100 * line.uplift_high:+.1f}%)"
        if line.uplift_low > 0 or line.uplift_high < 0:
            word = "more" if line.uplift > 0 else "less"
            return f"It would get {abs(100 * line.uplift):.1f}% {word} {range_}; enough to decide."
        return f"It would get {100 * line.uplift:+.1f}% {range_}; not enough to decide."

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
        baseline: what it is compared with; what was shown, unless given. If it is what was shown, the independent
            estimator is computed as well.
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
    fold = _folds(lists.cluster)
    new, weights = _values(candidate, lists, fold, clip)
    ones = np.ones(lists.reward.shape)
    old = {name: estimators.ips(ones, lists.reward) for name in estimators.ESTIMATORS}
    people = len(np.unique(lists.cluster))
    missing, refusals = _missing(weights, lists.cluster, "candidate"), _refusals(lists, weights, people)
    notes: list[str] = []
    if baseline is not None:
        values, shown = _values(baseline, lists, fold, clip)
        old |= values
        # A baseline that lacks support would count for too little, and any candidate seem better.
        refusals += _missing(shown, lists.cluster, "baseline")
        _independent(candidate, baseline, lists, clip, new, notes)
    else:
        notes.append("independent is left out: give the model that was shown as the baseline")
    lines = [
        _line(name, new[name], old[name], lists.cluster, confidence) for name in estimators.ESTIMATORS if name in new
    ]
    return Estimate(
        len(lists.reward),
        people,
        float(lists.reward.sum(1).mean()),
        confidence,
        tuple(lines),
        tuple(missing + refusals),
        tuple(notes),
        bool(missing) and not refusals and bool((lists.reward >= 0).all()),
    )


def _folds(cluster: NDArray[np.int64]) -> NDArray[np.int64]:
    """Two halves of the people; what is guessed of one is learned from the other."""
    mixed = cluster.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return ((mixed >> np.uint64(40)) & np.uint64(1)).astype(np.int64)


def _values(policy: Policy, lists: ShownLists, fold: NDArray[np.int64], clip: float) -> tuple[dict[str, Value], Values]:
    """The answers of all estimators that need nothing but logged propensities, and the weights."""
    numbers, _ = lists.numbers(policy.model.catalog_)
    pool = len(policy.model.catalog_.explanations)
    tables = [estimators.guesses(numbers[fold != side], lists.reward[fold != side], pool) for side in (0, 1)]
    found = along(policy, lists, (tables[0], tables[1]), fold)
    weights = estimators.list_weights(found.chance, lists.propensity, clip)
    place = np.arange(numbers.shape[1])[None, :]
    guess = np.where(fold[:, None] == 0, tables[0][numbers, place], tables[1][numbers, place])
    guess = np.where(numbers >= 0, guess, 0.0)
    values = {
        "ips": estimators.ips(weights, lists.reward),
        "snips": estimators.snips(weights, lists.reward),
        "cascade": estimators.cascade(weights, lists.reward),
        "sncascade": estimators.sncascade(weights, lists.reward),
        "dr": estimators.doubly_robust(weights, lists.reward, guess, found.expected),
    }
    return values, weights


def _independent(
    candidate: Policy, baseline: Policy, lists: ShownLists, clip: float, new: dict[str, Value], notes: list[str]
) -> None:
    """Add the independent estimator where the baseline is what was shown, and lists are short enough."""
    n, longest = lists.reward.shape[1], int(lists.length.max())
    if longest > DEEPEST:
        told = f"it is computed for lists of up to {DEEPEST} reasons, and the longest here has {longest}"
        notes.append(f"independent is left out: {told}")
        return
    nothing = np.zeros((len(baseline.model.catalog_.explanations), n))
    chance = along(baseline, lists, (nothing, nothing), np.zeros(len(lists.reward), np.int64)).chance
    inside = np.arange(n)[None, :] < lists.length[:, None]
    if np.abs(np.where(inside, chance - lists.propensity, 0.0)).max(initial=0.0) > AGREE:
        notes.append("independent is left out: the baseline with these options is not what was shown")
        return
    new["independent"] = estimators.independent(
        np.where(inside, anywhere(candidate, lists), 0.0), anywhere(baseline, lists), lists.reward, clip
    )


def _line(name: str, new: Value, old: Value, cluster: NDArray[np.int64], confidence: float) -> Line:
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    error = z * estimators.clustered_error(new.influence, cluster)
    uplift, influence = estimators.relative(new, old)
    wide = z * estimators.clustered_error(influence, cluster)
    ends = (new.mean - error, new.mean + error)
    return Line(name, new.mean, *ends, old.mean, uplift, uplift - wide, uplift + wide, new.ess)


def _refusals(lists: ShownLists, weights: Values, people: int) -> list[str]:
    """Why the log cannot tell anything, if it cannot."""
    found = []
    if (lists.propensity == 1).all() and not (weights == 1).all():
        return ["nothing was drawn while it was written (all propensities are 1); show lists with --explore first"]
    if people < FEW_PEOPLE:
        found.append(f"it holds {people} people; at least {FEW_PEOPLE} are needed")
    ess = float(weights[:, -1].sum() ** 2 / max((weights[:, -1] ** 2).sum(), 1e-300))
    if ess < FEW_LISTS:
        found.append(f"its {len(weights):,} lists are worth {ess:,.0f} of the candidate's; {FEW_LISTS} are needed")
    if not lists.reward.any():
        found.append("nobody reacted to anything")
    return found


def _missing(weights: Values, cluster: NDArray[np.int64], whose: str) -> list[str]:
    """What a policy would show and the log does not have; weights are 1 on average where nothing is missing."""
    for place in range(weights.shape[1]):
        mean = float(weights[:, place].mean())
        error = estimators.clustered_error(weights[:, place] - mean, cluster)
        if mean < 1 - MISSING - SURE * error:
            share = f"about {100 * (1 - mean):.0f}% of what the {whose} would show up to position {place + 1}"
            return [f"{share} was never shown, or so rarely that its weight is clipped"]
    return []
