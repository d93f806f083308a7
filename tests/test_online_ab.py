"""Experiments: who gets which arm, what the figures mean, and what is said of them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from test_online_log import Counted
from whyrank.errors import ParameterError
from whyrank.online import ab, events, tables, visits
from whyrank.online.assignment import Arm, Experiment, parse_arms
from whyrank.online.erasure import erase
from whyrank.online.log import Log
from whyrank.online.results import Results, results, trend, user_table
from whyrank.online.statistics import Moments, adjusted_rates, check_ratio, compared, rate, widening
from whyrank.online.store import Store
from whyrank.online.visits import Followed, Visits
from whyrank.online.writer import Exposure, Writer, new_id

SLATE = '[{"i":"inn","e":"quiet","p":1.0}]'
TWO = (Arm("a", "bper", 0.5), Arm("b", "pop", 0.5))
USERS = [f"u{at}" for at in range(4000)]


def test_shares_are_met_and_arms_do_not_depend_on_the_ramp() -> None:
    test = Experiment("t", parse_arms(["a=bper", "b=pop", "c=none"], "50:30:20"), salt="s", created=0)
    found = [test.arm_of(user).name for user in USERS]
    for name, share in (("a", 0.5), ("b", 0.3), ("c", 0.2)):
        assert abs(found.count(name) / len(USERS) - share) < 4 * math.sqrt(share / len(USERS))
    before: set[str] = set()
    for ramp in (0.0, 0.1, 0.5, 0.5, 1.0):
        ramped = Experiment("t", test.arms, salt="s", created=0, ramp=ramp)
        arms = {user: ramped.arm_of(user) for user in USERS}
        inside = {user for user, arm in arms.items() if arm is not None}
        assert inside >= before
        assert abs(len(inside) / len(USERS) - ramp) < 0.05
        assert all(arms[user] == test.arm_of(user) for user in inside)
        first = sum(arms[user] == test.arms[0] for user in inside)  # also among the first who take part
        assert abs(first - len(inside) / 2) <= 2 * math.sqrt(len(inside))
        before = inside


def test_another_salt_deals_anew_and_independently() -> None:
    one, two = (Experiment("t", TWO, salt=salt, created=0) for salt in ("x", "y"))
    same = sum(one.arm_of(user) == two.arm_of(user) for user in USERS) / len(USERS)
    assert abs(same - 0.5) < 0.04


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: parse_arms(["a=x", "b"], None), "name=model"),
        (lambda: parse_arms(["a=x", "b=y"], "1:2:3"), "3 numbers for 2 arms"),
        (lambda: parse_arms(["a=x", "b=y"], "half"), "50:50"),
        (lambda: parse_arms(["a=x,diverse=1"], None), "no option 'diverse'"),
        (lambda: parse_arms(["a=x,diversity=2"], None), "from 0 to 1"),
        (lambda: parse_arms(["a=none,diversity=0.2"], None), "leave them out"),
        (lambda: Experiment("t", TWO[:1]), "2 to 20"),
        (lambda: Experiment("t", (TWO[0], TWO[0])), "same name"),
        (lambda: Experiment("../t", TWO), "letters"),
        (lambda: Experiment("t", TWO, ramp=1.5), "from 0 to 1"),
        (lambda: Experiment("t", TWO, metric="looked"), "one of"),
    ],
)
def test_what_cannot_be_an_experiment_is_refused(make: object, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        make()  # type: ignore[operator]


def test_an_arm_may_have_goals_of_recommended_lists() -> None:
    arm = parse_arms(["a=x", "b=x,serendipity=0.3,diversity=0.5"], None)[1]
    assert (arm.goals, arm.ranking) == ({"serendipity": 0.3}, {"diversity": 0.5})
    with pytest.raises(ParameterError, match="no option 'shares'"):
        parse_arms(["a=x", "b=x,shares=0.3"], None)


def test_who_changes_the_ramp_starts_nothing_that_was_stopped_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(f"sqlite:///{tmp_path}/s.db").create()
    made = ab.create(store, Experiment("t", parse_arms(["a=bper", "b=none"], None)))
    stopped = ab.stop(store, "t")
    monkeypatch.setattr(ab, "found", lambda store, name: made)  # as it was read before
    with pytest.raises(ParameterError, match="is stopped"):
        ab.ramp(store, "t", 0.5)
    assert ab.listed(store) == [stopped]
    store.close()


def test_experiments_are_stored_ramped_and_stopped(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/s.db").create()
    made = ab.create(store, Experiment("t", parse_arms(["a=bper", "b=bper,diversity=0.5,personal=false"], "1:3")))
    assert ab.found(store, "t") == made
    assert [arm.share for arm in made.arms] == [0.25, 0.75]
    assert made.arms[1].options == {"diversity": 0.5, "personal": False}
    assert ab.ramp(store, "t", 0.25).ramp == 0.25
    assert ab.stop(store, "t").stopped is not None
    assert ab.listed(store)[0] == ab.found(store, "t")
    for wrong in (lambda: ab.create(store, made), lambda: ab.ramp(store, "t", 1), lambda: ab.stop(store, "t")):
        with pytest.raises(ParameterError):
            wrong()
    with pytest.raises(ab.NoSuchExperiment, match="there is t"):
        ab.found(store, "other")
    store.close()


# -- statistics --------------------------------------------------------------------------------------------------------

values = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9), st.floats(-3, 3)), min_size=3, max_size=40)


@settings(max_examples=50, deadline=None)
@given(values, values)
def test_rates_and_adjustment_are_those_of_users_one_by_one(one: object, two: object) -> None:
    """An oracle that goes through users: linearize, regress within arms, take the slope off."""
    arms = [[np.array(column, float) for column in zip(*each, strict=True)] for each in (one, two)]  # type: ignore[call-overload]
    moments = [Moments.of(c, n, x) for n, c, x in arms]
    lines = [(c - c.sum() / n.sum() * n) / n.mean() for n, c, x in arms]
    centred = [x - x.mean() for _, _, x in arms]
    power = sum(float((x**2).sum()) for x in centred)
    slope = sum(float((z * x).sum()) for z, x in zip(lines, centred, strict=True)) / power if power > 1e-9 else 0.0
    everybody = np.concatenate([x for _, _, x in arms]).mean()
    found, _ = adjusted_rates(moments)
    for (n, c, x), line, away, moment, adjusted in zip(arms, lines, centred, moments, found, strict=True):
        plain = rate(moment)
        assert plain.value == pytest.approx(c.sum() / n.sum())
        assert plain.variance == pytest.approx(line.var(ddof=1) / len(n), abs=1e-9)
        if power > 1e-9:
            assert adjusted.value == pytest.approx(plain.value - slope * (x.mean() - everybody), abs=1e-6)
            assert adjusted.variance == pytest.approx((line - slope * away).var(ddof=1) / len(n), abs=1e-6)


def test_the_interval_of_the_ratio_excludes_one_exactly_when_that_of_the_difference_excludes_nought() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        moments = [Moments.of(rng.poisson(p, 50).astype(float), np.ones(50), np.zeros(50)) for p in (0.5, 0.8)]
        found = compared(*map(rate, moments), float(rng.uniform(1, 10)))
        if np.isfinite(found.uplift_low):
            assert bool((found.low > 0) | (found.high < 0)) == bool((found.uplift_low > 0) | (found.uplift_high < 0))
            assert found.uplift_low <= found.uplift <= found.uplift_high


def test_intervals_are_about_narrowest_where_planned_and_always_wider_than_usual_ones() -> None:
    lists = np.geomspace(10, 1e7, 200)
    for planned in (1e3, 1e5):
        wide = widening(lists, planned, 0.05)
        assert (wide > 1.96**2).all()
        assert widening(planned, planned, 0.05) <= min(
            widening(planned, other, 0.05) for other in (planned / 10, planned * 10)
        )


def test_a_look_after_every_user_raises_few_false_alarms() -> None:
    """400 tests of arms that are alike, 50 looks each; the interval that is meant for one look fails far more often."""
    rng, alarms, usual = np.random.default_rng(0), 0, 0
    for _ in range(400):
        clicks = rng.binomial(1, 0.3, (2, 2000)).astype(float)
        sums = np.cumsum(clicks, axis=1)[:, 199::36]
        n = np.arange(200, 2001, 36)[: sums.shape[1]].astype(float)
        zero = np.zeros(len(n))
        arms = [Moments(n, c, n, c, c, n, zero, zero, zero, zero) for c in sums]
        for factor, name in ((widening(2 * n, 10_000, 0.05), "ours"), (np.full(len(n), 1.96**2), "usual")):
            found = compared(*map(rate, arms), factor)
            alarm = bool(((found.low > 0) | (found.high < 0)).any())
            alarms += alarm and name == "ours"
            usual += alarm and name == "usual"
    assert alarms <= 20
    assert usual > 60


def test_counts_that_do_not_fit_their_shares_are_an_alarm() -> None:
    """The evidence is the ratio of two probabilities of the counts, worked out with logarithms of factorials."""
    assert not check_ratio([0, 0], [0.5, 0.5]).alarm
    assert check_ratio([0, 0], [0.5, 0.5]).evidence == pytest.approx(1)
    assert not check_ratio([4900, 5100], [0.5, 0.5]).alarm
    assert check_ratio([4500, 5500], [0.5, 0.5]).alarm
    assert not check_ratio([9000, 1000], [0.9, 0.1]).alarm
    assert check_ratio([1, 0], [0.5, 0.5]).evidence == pytest.approx(1)  # one user says nothing


# -- results -----------------------------------------------------------------------------------------------------------


def simulated(
    uplift: float, users: int = 3000, *, history: int = 0, dismissed: float = 0.0, seed: int = 0
) -> tuple[Log, Experiment]:
    """People with rates of their own, two lists each, and maybe lists from before the experiment."""
    rng = np.random.default_rng(seed)
    test = Experiment("t", TWO, salt="s", created=1000, planned=6000)
    shown, done = [], []
    for at in range(users):
        user, person = f"u{at}", rng.beta(2, 6)
        arm = test.arm_of(user)
        assert arm is not None
        for visit in range(history + 2):
            early = visit < history
            id_ = f"{user}.{visit}"
            shown.append((id_, 10 if early else 2000 + at, user, None if early else "t", None if early else arm.name))
            more = 1 + uplift * (arm.name == "b" and not early)
            if rng.random() < person * more:
                done.append((id_, "clicked", 2000 + at, user))
            if (arm.name == "b" and not early and rng.random() < dismissed) or rng.random() < 0.02:
                done.append((id_, "dismissed", 2000 + at, user))
    exposures = pl.DataFrame(
        shown, ["exposure", "time", "user", "experiment", "arm"], orient="row", infer_schema_length=None
    )
    same = {"item": "i", "position": 1, "explanation": "e", "propensity": 1.0, "model": "d", "route": "explain"}
    exposures = exposures.with_columns(**{name: pl.lit(value) for name, value in same.items()})
    return Log(exposures, pl.DataFrame(done, ["exposure", "event", "time", "user"], orient="row")), test


def test_a_clear_difference_is_decided_and_said_in_one_sentence() -> None:
    log, test = simulated(0.5)
    found = results(log, test)
    (only,) = found.comparisons
    assert only.decided
    assert only.uplift_low < 0.5 < only.uplift_high  # type: ignore[operator]
    assert found.verdict.startswith("b gets ")
    assert found.verdict.endswith("; enough to decide.")
    assert "% more clicks than a (95%: +" in found.verdict
    assert [arm.users for arm in found.arms] == [
        sum(test.arm_of(f"u{at}") == arm for at in range(3000)) for arm in test.arms
    ]
    page = found.markdown()
    assert page.startswith("# Experiment t\n\nb gets ")
    assert page.count("| b | a | clicks |") == 1
    assert not found.ratio.alarm


def test_no_difference_and_few_users_decide_nothing() -> None:
    log, test = simulated(0.0)
    assert results(log, test).verdict.endswith("; not enough to decide yet.")
    log, test = simulated(0.5, users=120)
    small = results(log, test)
    assert small.verdict.startswith("Too early to say: arm ")
    assert small.comparisons[0].low is None
    empty = Log(log.exposures.clear(), log.events.clear())
    assert results(empty, test).verdict.startswith("Too early")
    assert trend(empty, test) == []


def test_what_people_dismiss_more_often_is_said_as_well() -> None:
    log, test = simulated(0.5, dismissed=0.2)
    found = results(log, test)
    assert found.guardrails[0].decided
    assert "But b gets" in found.verdict
    assert "more dismissals than a" in found.verdict


def test_history_narrows_intervals_and_changes_the_estimate_little() -> None:
    log, test = simulated(0.2, history=8)
    after = log.between(since=1000)
    (plain,), (adjusted,) = results(after, test).comparisons, results(log, test).comparisons
    assert results(after, test).adjusted == 0
    assert results(log, test).adjusted > 0.1
    assert adjusted.high - adjusted.low < plain.high - plain.low  # type: ignore[operator]
    assert abs(adjusted.difference - plain.difference) < plain.high - plain.low  # type: ignore[operator]


def test_an_arm_that_lost_users_is_an_alarm_before_any_figure() -> None:
    log, test = simulated(0.5)
    lost = log.exposures.filter((pl.col("arm") == "a") | (pl.col("user").str.tail(1) < "8"))
    found = results(Log(lost, log.events.join(lost, on="exposure", how="semi")), test)
    assert found.ratio.alarm
    assert found.verdict.startswith("The arms did not get")


def test_users_are_the_units_and_those_in_two_arms_are_left_out() -> None:
    log, test = simulated(0.0, users=300)
    table, mixed = user_table(Visits.of(log), test)
    assert (table["lists"] == 2).all()
    assert mixed == 0
    both = pl.when(pl.col("exposure") == "u7.1").then(pl.lit("b" if test.arm_of("u7") == TWO[0] else "a"))
    table, mixed = user_table(Visits.of(Log(log.exposures.with_columns(arm=both.otherwise("arm")), log.events)), test)
    assert (len(table), mixed) == (299, 1)


def test_the_last_point_of_a_trend_is_the_result() -> None:
    log, test = simulated(0.5, users=1000)
    points = trend(log, test, 4)
    assert len(points) == 4
    assert points[0]["users"][0] < points[-1]["users"][0]  # type: ignore[index]
    found: Results = results(log.between(until=int(points[-1]["time"])), test)  # type: ignore[call-overload]
    assert points[-1]["comparisons"][0]["low"] == found.comparisons[0].low  # type: ignore[index]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(f"sqlite:///{tmp_path}/store.db").create()
    yield store
    store.close()


def test_looks_read_what_is_new_and_find_what_a_whole_reading_finds(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = Experiment("test", parse_arms(["a=x", "b=y"], None), created=int(time.time()))
    followed, read = Followed(store, test), []
    whole = visits.read_rows

    def counted(*given: object) -> pl.DataFrame:
        found = whole(*given)  # type: ignore[arg-type]
        read.append(len(found))
        return found

    monkeypatch.setattr(visits, "read_rows", counted)

    def show(user: str, late: int, experiment: str | None = "test") -> str:
        """A list that was shown so many seconds ago."""
        arm = test.arm_of(user)
        id_, named = new_id(), (experiment, arm.name if arm and experiment else None)
        id_ = f"{int(id_[:12], 16) - 1000 * late:012x}{id_[12:]}"
        writer = Writer(store, Counted())
        writer.put([Exposure(id_, int(time.time()) - late, user, "explain", "x", "d", *named, "{}", SLATE, 3)])
        writer.close(60)
        return id_

    def look() -> list[int]:
        read.clear()
        found, fresh = followed.poll(), Followed(store, test).poll()
        for one, two in zip(found, fresh, strict=True):
            assert one.sort(pl.all()).equals(two.sort(pl.all()))
        assert results(found, test) == results(fresh, test)
        return read[:2]

    first = show("ann", 0)
    show("ann", 1000, None)  # before the experiment
    show("bob", 0, "other")
    events.add(store, [{"event": "clicked", "exposure": first}])
    assert look() == [2, 1]
    show("bob", 60)  # written after one that was shown later
    events.add(store, [{"event": "clicked", "exposure": first, "position": 1}])
    assert look() == [2, 1]
    monkeypatch.setattr(visits, "LATE", 30)
    assert look() == [1, 0]
    erase(store, "ann")
    assert look() == [1, 0]
    assert followed.poll().lists["user"].to_list() == ["bob"]
    last = show("bob", 0)
    events.add(store, [{"event": "clicked", "exposure": last}])
    assert look() == [2, 1]
    with store.writing() as connection:  # the newest event goes, as retention may do; its number is not used again
        connection.execute(tables.events.delete())
    events.add(store, [{"event": "dismissed", "exposure": last}])
    assert followed.poll().events["event"].to_list() == ["clicked", "dismissed"]  # until all is read again


def test_a_single_user_is_told_in_plain_words() -> None:
    test = Experiment("test", parse_arms(["a=x", "b=y"], None), created=0)
    lists = {"exposure": ["x"], "user": ["u"], "time": [5], "experiment": ["test"], "arm": ["a"]}
    found = results(Visits(pl.DataFrame(lists), pl.DataFrame(schema=visits.EVENTS)), test)
    assert found.verdict.startswith("Too early to say: arm b has no users; 100 users, and 20 with clicks, are needed")
    assert found.notes() == ["users per arm: 1, 0; expected about 0.5, 0.5: as it should be"]
    assert "## Metric" not in found.markdown()
    nobody = Visits(*(each.clear() for each in (pl.DataFrame(lists), pl.DataFrame(schema=visits.EVENTS))))
    assert results(nobody, test).notes() == []


def test_a_level_that_is_none_is_refused() -> None:
    log, test = simulated(0.0, users=10)
    with pytest.raises(ParameterError, match=r"0\.95"):
        results(log, test, level=95)
