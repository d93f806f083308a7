"""What came of an experiment: rates, intervals, checks, and one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import polars as pl

from whyrank.errors import ParameterError
from whyrank.online.assignment import Experiment
from whyrank.online.log import KINDS, Log
from whyrank.online.statistics import (
    Compared,
    Moments,
    RatioCheck,
    adjusted_rates,
    check_ratio,
    compared,
    interval,
    rate,
    widening,
)
from whyrank.online.visits import Visits

LEVEL = 0.95
FEWEST = 100  # users of each arm, below which sums are not normal enough for an interval
FEWEST_ACTIVE = 20  # of them who did what is counted
NOUNS = dict(zip(KINDS, ("lists seen", "clicks", "dismissals", "helpful votes", "conversions"), strict=True))
GUARDRAILS = ("dismissed",)  # events of which more is worse


@dataclass(frozen=True)
class ArmResult:
    """One arm: who took part, and the events per list of the metric."""

    arm: str
    users: int
    active: int  # users with at least one event of the metric
    lists: int
    events: float
    rate: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class ArmComparison:
    """An arm against the first one; None where there is too little to say anything."""

    arm: str
    against: str
    event: str
    difference: float | None
    low: float | None
    high: float | None
    uplift: float | None
    uplift_low: float | None
    uplift_high: float | None
    decided: bool  # the interval of the difference excludes 0


@dataclass(frozen=True)
class Results:
    """Everything about an experiment at one time. `as_dict` is its JSON, `markdown` a page of it."""

    experiment: str
    metric: str
    level: float
    verdict: str
    arms: list[ArmResult]
    comparisons: list[ArmComparison]
    guardrails: list[ArmComparison]
    others: list[ArmComparison]
    ratio: RatioCheck
    adjusted: float  # share of the variance that behaviour before the experiment explains
    mixed: int  # users left out because they saw lists of several arms

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    def markdown(self) -> str:
        """A page: the sentence, the arms, and every comparison."""
        shown = [f"# Experiment {self.experiment}", self.verdict, _table(ARMS, [arm_row(each) for each in self.arms])]
        parts = (("Metric", self.comparisons), ("Guardrails", self.guardrails), ("Others", self.others))
        for title, rows in ((title, known_of(each)) for title, each in parts):
            if rows:
                shown += [f"## {title}", _table(COMPARED, [compared_row(each) for each in rows])]
        return "\n\n".join([*shown, "\n".join(f"- {each}" for each in self.notes())]) + "\n"

    def notes(self) -> list[str]:
        """What has to be known to read the figures."""
        total = sum(each.users for each in self.arms)
        expected = ", ".join(f"{each:,.{0 if total >= 100 else 1}f}" for each in self.ratio.expected)
        told = "ALARM: not by chance" if self.ratio.alarm else "as it should be"
        found = ", ".join(f"{each.users:,}" for each in self.arms)
        notes = [f"users per arm: {found}; expected about {expected}: {told}"] if total else []
        if any(each.low is not None for each in self.arms):
            notes.append(f"intervals ({self.level:.0%}) take users as units and hold however often you look")
        if self.adjusted > 0:
            notes.append(f"behaviour before the experiment takes off {self.adjusted:.0%} of the variance (CUPED)")
        if self.mixed:
            notes.append(f"{self.mixed:,} users saw lists of several arms and are left out")
        return notes


def results(log: Log | Visits, experiment: Experiment, *, level: float = LEVEL) -> Results:
    """What came of an experiment.

    Args:
        log: exposures and events, or as much of them as `Followed` reads; those before the experiment adjust for how
            users behaved anyway (CUPED).
        experiment: whose lists are compared; its first arm is what the others are compared with.
        level: of all intervals of one metric together.

    Returns:
        Rates, comparisons with intervals that may be looked at any time, checks, and a verdict.

    Raises:
        ParameterError: the level is not between 0.5 and 1.
    """
    if not 0.5 <= level < 1:
        raise ParameterError(f"level is {level}; use a share from 0.5 to below 1, such as 0.95")
    table, mixed = user_table(Visits.of(log) if isinstance(log, Log) else log, experiment)
    names = [arm.name for arm in experiment.arms]
    alpha = (1 - level) / (len(names) - 1)
    lists = float(table["lists"].sum())
    factor = float(widening(lists, experiment.planned, alpha)) if lists else float("nan")
    made: dict[str, tuple[list[ArmResult], list[ArmComparison], float]] = {
        event: _of_event(table, names, event, factor) for event in KINDS if event != "shown"
    }
    arms, comparisons, adjusted = made.get(experiment.metric) or _of_event(table, names, experiment.metric, factor)
    ratio = check_ratio([arm.users for arm in arms], [arm.share for arm in experiment.arms])
    guarded = [each for event in GUARDRAILS if event != experiment.metric for each in made[event][1]]
    rest = [e for event, (_, each, _) in made.items() if event not in (*GUARDRAILS, experiment.metric) for e in each]
    told = verdict(arms, comparisons, guarded, ratio, experiment.metric, level)
    parts = (arms, comparisons, guarded, rest, ratio, adjusted, mixed)
    return Results(experiment.name, experiment.metric, level, told, *parts)


def trend(
    log: Log | Visits, experiment: Experiment, points: int = 30, *, level: float = LEVEL
) -> list[dict[str, object]]:
    """The comparisons of the metric as they were at `points` times from the start to the last exposure."""
    visits = Visits.of(log) if isinstance(log, Log) else log
    own = visits.lists.filter(pl.col("experiment").eq_missing(pl.lit(experiment.name)))["time"]
    if not len(own):
        return []
    first, last = int(own.min()), int(own.max()) + 1  # type: ignore[arg-type]
    times = sorted({int(each) for each in np.linspace(first, last, points + 1)[1:]})
    return [
        {
            "time": time,
            "comparisons": [asdict(each) for each in found.comparisons],
            "users": [a.users for a in found.arms],
        }
        for time in times
        for found in [results(visits.until(time), experiment, level=level)]
    ]


def user_table(visits: Visits, experiment: Experiment) -> tuple[pl.DataFrame, int]:
    """One row per user: arm, lists, the sum of every kind of event, and of each (as `before_...`) what was known of
    them before; and how many users are left out because they saw several arms."""
    lists = visits.lists
    own = lists.filter(pl.col("experiment").eq_missing(pl.lit(experiment.name)) & pl.col("arm").is_not_null())
    users = own.group_by("user").agg(
        pl.len().alias("lists"), pl.col("arm").first(), pl.col("arm").n_unique().alias("k")
    )
    known = pl.col("arm").is_in([arm.name for arm in experiment.arms])
    single = users.filter((pl.col("k") == 1) & known).drop("k")
    earlier = lists.filter(pl.col("time") < experiment.created).join(single.select("user"), on="user", how="semi")
    table = single.join(_sums(visits, own, ""), on="user", how="left").join(
        _before(visits, earlier), on="user", how="left"
    )
    return table.fill_null(0).sort("user"), len(users) - len(single)


def _sums(visits: Visits, lists: pl.DataFrame, prefix: str) -> pl.DataFrame:
    """The sums of all kinds of events on these lists, by the user who saw them."""
    done = visits.events.join(lists.select("exposure", "user"), on="exposure", how="inner")
    sums = [pl.col("value").filter(pl.col("event") == kind).sum().alias(f"{prefix}{kind}") for kind in KINDS]
    return done.group_by("user").agg(sums)


def _before(visits: Visits, lists: pl.DataFrame) -> pl.DataFrame:
    """How many more events than others each user had on earlier lists, in a form whose mean is 0."""
    counted = lists.group_by("user").agg(pl.len().alias("earlier"))
    table = counted.join(_sums(visits, lists, "before_"), on="user", how="left").fill_null(0)
    n = pl.col("earlier")
    more = [(pl.col(f"before_{k}") - pl.col(f"before_{k}").sum() / n.sum() * n) / n.mean() for k in KINDS]
    return table.select("user", *more)


def _of_event(
    table: pl.DataFrame, names: Sequence[str], event: str, factor: float
) -> tuple[list[ArmResult], list[ArmComparison], float]:
    """Arms and comparisons for one kind of event."""
    arms, moments = [], []
    for name in names:
        rows = table.filter(pl.col("arm") == name)
        c, n, x = (rows[column].cast(pl.Float64).to_numpy() for column in (event, "lists", f"before_{event}"))
        moments.append(Moments.of(c, n, x))
        plain, active = rate(moments[-1]), int((c != 0).sum())
        enough = len(rows) >= FEWEST and active >= FEWEST_ACTIVE
        bounds = (_number(each) for each in interval(plain, factor)) if enough else (None, None)
        shown = _number(plain.value) if len(rows) else None
        arms.append(ArmResult(name, len(rows), active, int(n.sum()), float(c.sum()), shown, *bounds))
    if any(arm.low is None for arm in arms):
        nothing = (None,) * 6
        return arms, [ArmComparison(arm.arm, names[0], event, *nothing, False) for arm in arms[1:]], 0.0
    rates, share = adjusted_rates(moments)
    found = [compared(rates[0], each, factor) for each in rates[1:]]
    comparisons = [_comparison(name, names[0], event, each) for name, each in zip(names[1:], found, strict=True)]
    return arms, comparisons, float(share)


def _comparison(name: str, against: str, event: str, found: Compared) -> ArmComparison:
    difference, low, high, uplift, uplift_low, uplift_high = (_number(each) for each in found)
    decided = bool(found.low > 0 or found.high < 0)
    return ArmComparison(name, against, event, difference, low, high, uplift, uplift_low, uplift_high, decided)


def verdict(
    arms: Sequence[ArmResult],
    comparisons: Sequence[ArmComparison],
    guardrails: Sequence[ArmComparison],
    ratio: RatioCheck,
    metric: str,
    level: float = LEVEL,
) -> str:
    """The result in words that need no statistics."""
    if ratio.alarm:
        return (
            "The arms did not get the numbers of users that they should have; find out why before you believe a figure."
        )
    small = min(arms, key=lambda arm: (arm.users >= FEWEST, arm.active, arm.users))
    if small.low is None:
        needed = f"{FEWEST} users, and {FEWEST_ACTIVE} with {NOUNS[metric]}, are needed in each arm"
        users = "1 user" if small.users == 1 else f"{small.users or 'no'} users"
        active = f", {small.active or 'none'} with {NOUNS[metric]}" if small.users else ""
        return f"Too early to say: arm {small.arm} has {users}{active}; {needed}."
    said = [_sentence(each, level) for each in comparisons]
    worse = [each for each in guardrails if each.decided and (each.difference or 0) > 0]
    said += [f"But {_amount(each, level)}." for each in worse]
    return " ".join(said)


def _sentence(found: ArmComparison, level: float) -> str:
    enough = "enough to decide" if found.decided else "not enough to decide yet"
    return f"{_amount(found, level)}; {enough}."


def _amount(found: ArmComparison, level: float) -> str:
    """`b gets 8% more clicks than a (95%: +3% to +13%)`, or per 100 lists where a ratio has no bounds."""
    noun = NOUNS[found.event]
    value, low, high = found.uplift, found.uplift_low, found.uplift_high
    unit, digits, per = "%", 0, ""
    if value is None or low is None or high is None:
        value, low, high = found.difference, found.low, found.high
        unit, digits, per = "", 2, " per 100 lists"
    assert value is not None
    assert low is not None
    assert high is not None
    if unit and max(abs(value), abs(low), abs(high)) < 0.1:
        digits = 1
    direction = "more" if value >= 0 else "fewer"
    bounds = " to ".join(f"{100 * each:+.{digits}f}{unit}" for each in (low, high))
    amount = f"{abs(100 * value):.{digits}f}{unit} {direction} {noun}{per}"
    return f"{found.arm} gets {amount} than {found.against} ({level:.0%}: {bounds})"


def _number(value: object) -> float | None:
    number = float(value)  # type: ignore[arg-type]
    return number if np.isfinite(number) else None


ARMS = ("arm", "users", "lists", "events", "per 100 lists", "interval")
COMPARED = ("arm", "against", "events", "uplift", "interval", "per 100 lists", "interval", "decided")


def known_of(found: Sequence[ArmComparison]) -> list[ArmComparison]:
    """The comparisons that say something yet."""
    return [each for each in found if each.difference is not None]


def arm_row(arm: ArmResult) -> list[str]:
    shown = "" if arm.rate is None else f"{100 * arm.rate:.2f}"
    bounds = "" if arm.low is None or arm.high is None else f"{100 * arm.low:.2f} to {100 * arm.high:.2f}"
    return [arm.arm, f"{arm.users:,}", f"{arm.lists:,}", f"{arm.events:,.6g}", shown, bounds]


def compared_row(each: ArmComparison) -> list[str]:
    def span(low: float | None, high: float | None, unit: str, digits: int) -> str:
        return "" if low is None or high is None else f"{100 * low:+.{digits}f}{unit} to {100 * high:+.{digits}f}{unit}"

    uplift = "" if each.uplift is None else f"{100 * each.uplift:+.1f}%"
    difference = "" if each.difference is None else f"{100 * each.difference:+.2f}"
    spans = (span(each.uplift_low, each.uplift_high, "%", 1), span(each.low, each.high, "", 2))
    row = [each.arm, each.against, NOUNS[each.event], uplift, spans[0], difference, spans[1]]
    return [*row, "yes" if each.decided else "no"]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(each.replace('|', chr(92) + '|') for each in line)} |" for line in lines)
