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
from whyrank.render import markdown_table

LEVEL = 0.95
FEWEST = 100  # users of each arm, below which sums are not normal enough for an interval
FEWEST_ACTIVE = 20  # of them who did what is counted
NAMES = ("lists seen", "clicks", "dismissals", "helpful votes", "conversions")
NOUNS = dict(zip(KINDS, NAMES, strict=True))
GUARDRAIL = "dismissed"  # the event of which more is worse
ARMS = ("arm", "users", "lists", "events", "per 100 lists", "interval")
COMPARED = (
    *("arm", "against", "events", "uplift", "interval"),
    *("per 100 lists", "interval", "decided"),
)


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

    def row(self) -> list[str]:
        """Return the cells of `ARMS`."""
        figures = (self.rate, self.low, self.high)
        shown, *bounds = ("" if each is None else f"{100 * each:.2f}" for each in figures)
        counts = (f"{self.users:,}", f"{self.lists:,}", f"{self.events:,.6g}")
        return [self.arm, *counts, shown, " to ".join(filter(None, bounds))]


@dataclass(frozen=True)
class ArmComparison:
    """An arm against the first one; None where there is too little to say anything."""

    arm: str
    against: str
    event: str
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    uplift: float | None = None
    uplift_low: float | None = None
    uplift_high: float | None = None
    decided: bool = False  # the interval of the difference excludes 0

    def row(self) -> list[str]:
        """Return the cells of `COMPARED`."""
        uplift, difference = _signed("%", 1, self.uplift), _signed("", 2, self.difference)
        of_uplift = _signed("%", 1, self.uplift_low, self.uplift_high)
        of_difference = _signed("", 2, self.low, self.high)
        decided = "yes" if self.decided else "no"
        noun = NOUNS[self.event]
        return [self.arm, self.against, noun, uplift, of_uplift, difference, of_difference, decided]

    def sentence(self, level: float) -> str:
        """Return `b gets 8% more clicks than a (95%: +3% to +13%)`.

        Where a ratio has no bounds, it says the difference per 100 lists.
        """
        figures = (self.uplift, self.uplift_low, self.uplift_high)
        if None not in figures:
            unit, per = "%", ""
            digits = int(max(abs(each) for each in figures if each is not None) < 0.1)
        else:
            figures = (self.difference, self.low, self.high)
            unit, digits, per = "", 2, " per 100 lists"
        value, low, high = (100 * each for each in figures if each is not None)
        amount = f"{abs(value):.{digits}f}{unit} {'more' if value >= 0 else 'fewer'}"
        bounds = f"{low:+.{digits}f}{unit} to {high:+.{digits}f}{unit}"
        noun = NOUNS[self.event]
        return f"{self.arm} gets {amount} {noun}{per} than {self.against} ({level:.0%}: {bounds})"


def _signed(unit: str, digits: int, *shares: float | None) -> str:
    """Write a share or an interval; empty where nothing is known."""
    known = [f"{100 * each:+.{digits}f}{unit}" for each in shares if each is not None]
    return " to ".join(known) if len(known) == len(shares) else ""


def rows_of(found: Sequence[ArmComparison]) -> list[list[str]]:
    """Return the rows of the comparisons that say something yet."""
    return [each.row() for each in found if each.difference is not None]


@dataclass(frozen=True)
class Results:
    """Everything about an experiment at one time. `as_dict` is its JSON, `markdown` its page."""

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
        """Write a page: the sentence, the arms, and every comparison."""
        page = [f"# Experiment {self.experiment}", self.verdict]
        page.append(markdown_table(ARMS, [each.row() for each in self.arms]))
        parts = (("Metric", self.comparisons), ("Guardrails", self.guardrails), ("Others", self.others))
        page += [f"## {name}\n\n{markdown_table(COMPARED, rows_of(each))}" for name, each in parts if rows_of(each)]
        page.append("\n".join(f"- {each}" for each in self.notes()))
        return "\n\n".join(each.strip() for each in page) + "\n"

    def notes(self) -> list[str]:
        """Say what has to be known to read the figures."""
        total = sum(each.users for each in self.arms)
        digits = 0 if total >= 100 else 1
        expected = ", ".join(f"{each:,.{digits}f}" for each in self.ratio.expected)
        judged = "ALARM: not by chance" if self.ratio.alarm else "as it should be"
        found = ", ".join(f"{each.users:,}" for each in self.arms)
        notes = [f"users per arm: {found}; expected about {expected}: {judged}"] if total else []
        if any(each.low is not None for each in self.arms):
            units = "take users as units and hold however often you look"
            notes.append(f"intervals ({self.level:.0%}) {units}")
        if self.adjusted > 0:
            share = f"{self.adjusted:.0%} of the variance (CUPED)"
            notes.append(f"behaviour before the experiment takes off {share}")
        if self.mixed:
            notes.append(f"{self.mixed:,} users saw lists of several arms and are left out")
        return notes


def results(log: Log | Visits, experiment: Experiment, *, level: float = LEVEL) -> Results:
    """Say what came of an experiment.

    Args:
        log: exposures and events, or as much of them as `Followed` reads; those before the
            experiment adjust for how users behaved anyway (CUPED).
        experiment: whose lists are compared; the other arms are compared with its first one.
        level: of all intervals of one metric together.

    Returns:
        Rates, comparisons with intervals that may be looked at any time, checks, and a verdict.

    Raises:
        ParameterError: the level is not between 0.5 and 1.
    """
    if not 0.5 <= level < 1:
        raise ParameterError(f"level is {level}; use a share from 0.5 to below 1, such as 0.95")
    table, mixed = user_table(Visits.of(log) if isinstance(log, Log) else log, experiment)
    names, metric = [arm.name for arm in experiment.arms], experiment.metric
    lists = float(table["lists"].sum())
    alpha = (1 - level) / (len(names) - 1)
    factor = float(widening(lists, experiment.planned, alpha)) if lists else float("nan")
    events = dict.fromkeys((metric, *KINDS[1:]))  # that a list was shown is counted where asked for
    of_event = {event: _of_event(table, names, event, factor) for event in events}
    arms, comparisons, adjusted = of_event.pop(metric)
    guardrails = of_event.pop(GUARDRAIL)[1] if GUARDRAIL in of_event else []
    others = [each for _, found, _ in of_event.values() for each in found]
    ratio = check_ratio([arm.users for arm in arms], [arm.share for arm in experiment.arms])
    return Results(
        experiment=experiment.name,
        metric=metric,
        level=level,
        verdict=_verdict(arms, comparisons, guardrails, ratio, (metric, level)),
        arms=arms,
        comparisons=comparisons,
        guardrails=guardrails,
        others=others,
        ratio=ratio,
        adjusted=adjusted,
        mixed=mixed,
    )


def trend(
    log: Log | Visits, experiment: Experiment, points: int = 30, *, level: float = LEVEL
) -> list[dict[str, object]]:
    """Compute the comparisons as they were at `points` times from the first to the last list."""
    visits = Visits.of(log) if isinstance(log, Log) else log
    own = visits.lists.filter(_is_of(experiment))["time"]
    if not len(own):
        return []
    times = np.linspace(int(own.min()), int(own.max()) + 1, points + 1)[1:]  # type: ignore[arg-type]
    made = []
    for time in sorted({int(each) for each in times}):
        found = results(visits.until(time), experiment, level=level)
        comparisons = [asdict(each) for each in found.comparisons]
        users = [each.users for each in found.arms]
        made.append({"time": time, "comparisons": comparisons, "users": users})
    return made


def user_table(visits: Visits, experiment: Experiment) -> tuple[pl.DataFrame, int]:
    """Make one row per user, and count users who are left out because they saw several arms.

    Columns are the arm, the number of lists, the sum of every kind of event, and of each (as
    `before_...`) what was known of the user before.
    """
    lists = visits.lists
    own = lists.filter(_is_of(experiment) & pl.col("arm").is_not_null())
    arm = pl.col("arm")
    users = own.group_by("user").agg(lists=pl.len(), arm=arm.first(), arms=arm.n_unique())
    known = pl.col("arm").is_in([arm.name for arm in experiment.arms])
    single = users.filter((pl.col("arms") == 1) & known).drop("arms")
    earlier = lists.filter(pl.col("time") < experiment.created)
    earlier = earlier.join(single.select("user"), on="user", how="semi")
    table = single.join(_sums(visits, own, ""), on="user", how="left")
    table = table.join(_before(visits, earlier), on="user", how="left")
    return table.fill_null(0).sort("user"), len(users) - len(single)


def _is_of(experiment: Experiment) -> pl.Expr:
    return pl.col("experiment").eq_missing(pl.lit(experiment.name))


def _sums(visits: Visits, lists: pl.DataFrame, prefix: str) -> pl.DataFrame:
    """Sum up all kinds of events on these lists, by the user who saw them."""
    done = visits.events.join(lists.select("exposure", "user"), on="exposure", how="inner")
    value, kind = pl.col("value"), pl.col("event")
    sums = [value.filter(kind == each).sum().alias(f"{prefix}{each}") for each in KINDS]
    return done.group_by("user").agg(sums)


def _before(visits: Visits, lists: pl.DataFrame) -> pl.DataFrame:
    """Count how many more events than others each user had on earlier lists; the mean is 0."""
    counted = lists.group_by("user").agg(pl.len().alias("earlier"))
    table = counted.join(_sums(visits, lists, "before_"), on="user", how="left").fill_null(0)
    n, events = pl.col("earlier"), [pl.col(f"before_{kind}") for kind in KINDS]
    return table.select("user", *[(each - each.sum() / n.sum() * n) / n.mean() for each in events])


def _of_event(
    table: pl.DataFrame, names: Sequence[str], event: str, factor: float
) -> tuple[list[ArmResult], list[ArmComparison], float]:
    """Return arms, comparisons and the share that was adjusted for one kind of event."""
    arms, moments = [], []
    for name in names:
        rows = table.filter(pl.col("arm") == name)
        columns = (event, "lists", f"before_{event}")
        c, n, x = (rows[column].cast(pl.Float64).to_numpy() for column in columns)
        moments.append(Moments.of(c, n, x))
        plain, active = rate(moments[-1]), int((c != 0).sum())
        enough = len(rows) >= FEWEST and active >= FEWEST_ACTIVE
        low, high = map(_number, interval(plain, factor)) if enough else (None, None)
        sizes = (name, len(rows), active, int(n.sum()), float(c.sum()))
        arms.append(ArmResult(*sizes, _number(plain.value), low, high))
    if any(arm.low is None for arm in arms):
        return arms, [ArmComparison(name, names[0], event) for name in names[1:]], 0.0
    (first, *rest), share = adjusted_rates(moments)
    comparisons = []
    for name, other in zip(names[1:], rest, strict=True):
        found = compared(first, other, factor)
        decided = bool(found.low > 0 or found.high < 0)
        figures = {key: _number(value) for key, value in found._asdict().items()}
        comparisons.append(ArmComparison(name, names[0], event, **figures, decided=decided))
    return arms, comparisons, float(share)


def _number(value: object) -> float | None:
    number = float(value)  # type: ignore[arg-type]
    return number if np.isfinite(number) else None


def _verdict(
    arms: Sequence[ArmResult],
    comparisons: Sequence[ArmComparison],
    guardrails: Sequence[ArmComparison],
    ratio: RatioCheck,
    asked: tuple[str, float],
) -> str:
    """Say the result in words that need no statistics; `asked` are the metric and the level."""
    metric, level = asked
    if ratio.alarm:
        alarm = "The arms did not get the numbers of users that they should have"
        return f"{alarm}; find out why before you believe a figure."
    small = min(arms, key=lambda arm: (arm.users >= FEWEST, arm.active, arm.users))
    if small.low is None:
        noun = NOUNS[metric]
        needed = f"{FEWEST} users, and {FEWEST_ACTIVE} with {noun}, are needed in each arm"
        users = "1 user" if small.users == 1 else f"{small.users or 'no'} users"
        active = f", {small.active or 'none'} with {noun}" if small.users else ""
        return f"Too early to say: arm {small.arm} has {users}{active}; {needed}."
    enough = {True: "enough to decide", False: "not enough to decide yet"}
    said = [f"{each.sentence(level)}; {enough[each.decided]}." for each in comparisons]
    worse = [each for each in guardrails if each.decided and (each.difference or 0) > 0]
    return " ".join([*said, *(f"But {each.sentence(level)}." for each in worse)])
