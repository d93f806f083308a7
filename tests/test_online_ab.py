"""Experiments: who gets which arm, what the figures mean, and what is said of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from test_online_log import opened, put
from whyrank.errors import ParameterError
from whyrank.online import ab, events, tables, visits
from whyrank.online.assignment import Arm, Experiment, parse_arms
from whyrank.online.erasure import erase
from whyrank.online.log import Log
from whyrank.online.results import results, trend, user_table
from whyrank.online.statistics import Moments, adjusted_rates, check_ratio, compared, rate, widening
from whyrank.online.visits import Followed, Visits
from whyrank.online.writer import Exposure, new_id

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
        arms = {user: arm for user in USERS if (arm := ramped.arm_of(user)) is not None}
        assert arms.keys() >= before
        assert abs(len(arms) / len(USERS) - ramp) < 0.05
        assert all(arm == test.arm_of(user) for user, arm in arms.items())
        first = sum(arm == test.arms[0] for arm in arms.values())  # also of the first who take part
        assert abs(first - len(arms) / 2) <= 2 * math.sqrt(len(arms))
        before = set(arms)
    other = Experiment("t", test.arms, salt="another", created=0)  # deals anew and independently
    same = sum(test.arm_of(user) == other.arm_of(user) for user in USERS) / len(USERS)
    assert abs(same - (0.5**2 + 0.3**2 + 0.2**2)) < 0.04


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: parse_arms(["a=x", "b"], None), "name=model"),
        (lambda: parse_arms(["a=x", "b=y"], "1:2:3"), "3 numbers for 2 arms"),
        (lambda: parse_arms(["a=x", "b=y"], "half"), "50:50"),
        (lambda: parse_arms(["a=x,diverse=1"], None), "no option 'diverse'"),
        (lambda: parse_arms(["a=x,shares=0.3"], None), "no option 'shares'"),
        (lambda: parse_arms(["a=x,diversity=2"], None), "from 0 to 1"),
        (lambda: parse_arms(["a=none,diversity=0.2"], None), "leave them out"),
        (lambda: Experiment("t", TWO[:1]), "2 to 20"),
        (lambda: Experiment("t", (TWO[0], TWO[0])), "same name"),
        (lambda: Experiment("../t", TWO), "letters"),
        (lambda: Experiment("t", TWO, ramp=1.5), "from 0 to 1"),
        (lambda: Experiment("t", TWO, metric="looked"), "one of"),
        (lambda: results(simulated()[0], simulated()[1], level=95), r"0\.95"),
    ],
)
def test_what_cannot_be_an_experiment_is_refused(make: Callable[[], object], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        make()


def test_experiments_are_stored_ramped_and_stopped_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arms = parse_arms(["a=bper", "b=bper,serendipity=0.3,diversity=0.5,personal=false"], "1:3")
    assert [arm.options for arm in arms] == [{}, {"serendipity": 0.3, "diversity": 0.5, "personal": False}]
    assert (arms[1].goals, set(arms[1].ranking)) == ({"serendipity": 0.3}, {"diversity", "personal"})
    with opened(tmp_path / "s.db") as store:
        made = ab.create(store, Experiment("t", arms))
        assert ab.found(store, "t") == made
        assert [arm.share for arm in made.arms] == [0.25, 0.75]
        assert ab.ramp(store, "t", 0.25).ramp == 0.25
        stopped = ab.stop(store, "t")
        assert ab.listed(store) == [stopped]
        assert stopped.stopped is not None
        for wrong in (lambda: ab.create(store, made), lambda: ab.stop(store, "t")):
            with pytest.raises(ParameterError):
                wrong()
        with pytest.raises(ab.NoSuchExperiment, match="there is t"):
            ab.found(store, "other")
        monkeypatch.setattr(ab, "found", lambda store, name: made)  # as it was before it was stopped
        with pytest.raises(ParameterError, match="is stopped"):
            ab.ramp(store, "t", 0.5)
        assert ab.listed(store) == [stopped]


# -- statistics ------------------------------------------------------------------------------------

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
    covariance = sum(float((z * x).sum()) for z, x in zip(lines, centred, strict=True))
    slope = covariance / power if power > 1e-9 else 0.0
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
            decided = bool((found.low > 0) | (found.high < 0))
            assert decided == bool((found.uplift_low > 0) | (found.uplift_high < 0))
            assert found.uplift_low <= found.uplift <= found.uplift_high


def test_intervals_are_about_narrowest_where_planned_and_always_wider_than_usual_ones() -> None:
    lists = np.geomspace(10, 1e7, 200)
    for planned in (1e3, 1e5):
        assert (widening(lists, planned, 0.05) > 1.96**2).all()
        others = [widening(planned, other, 0.05) for other in (planned / 10, planned * 10)]
        assert widening(planned, planned, 0.05) <= min(others)


def test_a_look_after_every_user_raises_few_false_alarms() -> None:
    """400 tests of arms that are alike, 50 looks each; usual intervals are meant for one look."""
    rng, alarms = np.random.default_rng(0), {"ours": 0, "usual": 0}
    for _ in range(400):
        clicks = rng.binomial(1, 0.3, (2, 2000)).astype(float)
        sums = np.cumsum(clicks, axis=1)[:, 199::36]
        n = np.arange(200, 2001, 36)[: sums.shape[1]].astype(float)
        zero = np.zeros(len(n))
        arms = [Moments(n, c, n, c, c, n, zero, zero, zero, zero) for c in sums]
        for name, factor in (("ours", widening(2 * n, 10_000, 0.05)), ("usual", np.full(len(n), 1.96**2))):
            found = compared(*map(rate, arms), factor)
            alarms[name] += bool(((found.low > 0) | (found.high < 0)).any())
    assert alarms["ours"] <= 20
    assert alarms["usual"] > 60


def test_counts_that_do_not_fit_their_shares_are_an_alarm() -> None:
    assert check_ratio([0, 0], [0.5, 0.5]).evidence == pytest.approx(1)
    assert check_ratio([1, 0], [0.5, 0.5]).evidence == pytest.approx(1)  # one user says nothing
    for users, share, alarm in (([4900, 5100], 0.5, False), ([4500, 5500], 0.5, True), ([9000, 1000], 0.9, False)):
        assert check_ratio(users, [share, 1 - share]).alarm == alarm


# -- results ---------------------------------------------------------------------------------------


@cache
def simulated(
    uplift: float = 0.0, users: int = 3000, *, history: int = 0, dismissed: float = 0.0
) -> tuple[Log, Experiment]:
    """People with rates of their own, two lists each, and maybe lists from before the experiment."""
    rng = np.random.default_rng(0)
    test = Experiment("t", TWO, salt="s", created=1000, planned=6000)
    shown, done = [], []
    for at in range(users):
        user, person = f"u{at}", rng.beta(2, 6)
        arm = test.arm_of(user)
        assert arm is not None
        for visit in range(history + 2):
            early, id_ = visit < history, f"{user}.{visit}"
            treated = arm.name == "b" and not early
            shown.append((id_, 10 if early else 2000 + at, user, *((None, None) if early else ("t", arm.name))))
            if rng.random() < person * (1 + uplift * treated):
                done.append((id_, "clicked", 2000 + at, user))
            if (treated and rng.random() < dismissed) or rng.random() < 0.02:
                done.append((id_, "dismissed", 2000 + at, user))
    names = ["exposure", "time", "user", "experiment", "arm"]
    exposures = pl.DataFrame(shown, names, orient="row", infer_schema_length=None)
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
    assert "% more clicks than a (95%: +" in found.verdict
    assert found.verdict.endswith("; enough to decide.")
    assert [arm.users for arm in found.arms] == [sum(test.arm_of(u) == arm for u in USERS[:3000]) for arm in TWO]
    assert found.markdown().startswith("# Experiment t\n\nb gets ")
    assert found.markdown().count("| b | a | clicks |") == 1
    assert not found.ratio.alarm
    points = trend(log, test, 4)  # its last point is the result
    last = results(log.between(until=int(points[-1]["time"])), test)  # type: ignore[call-overload]
    assert points[0]["users"][0] < points[-1]["users"][0]  # type: ignore[index]
    assert points[-1]["comparisons"][0]["low"] == last.comparisons[0].low  # type: ignore[index]


def test_no_difference_and_few_users_decide_nothing() -> None:
    assert results(*simulated()).verdict.endswith("; not enough to decide yet.")
    log, test = simulated(0.5, users=120)
    small = results(log, test)
    assert small.verdict.startswith("Too early to say: arm ")
    assert small.comparisons[0].low is None
    empty = Log(log.exposures.clear(), log.events.clear())
    assert results(empty, test).verdict.startswith("Too early")
    assert results(empty, test).notes() == trend(empty, test) == []
    one = Visits.of(Log(log.exposures.filter(pl.col("exposure") == "u0.0"), log.events.clear()))
    found, named = results(one, test), test.arm_of("u0").name  # type: ignore[union-attr]
    other = "b" if named == "a" else "a"
    needed = "has no users; 100 users, and 20 with clicks, are needed"
    assert found.verdict.startswith(f"Too early to say: arm {other} {needed}")
    counts = "1, 0" if named == "a" else "0, 1"
    assert found.notes() == [f"users per arm: {counts}; expected about 0.5, 0.5: as it should be"]
    assert "## Metric" not in found.markdown()


def test_what_people_dismiss_more_often_is_said_as_well() -> None:
    log, test = simulated(0.5, dismissed=0.2)
    found = results(log, test)
    assert found.guardrails[0].decided
    assert "But b gets" in found.verdict
    assert "more dismissals than a" in found.verdict


def test_history_narrows_intervals_and_changes_the_estimate_little() -> None:
    log, test = simulated(0.2, history=8)
    without, known = results(log.between(since=1000), test), results(log, test)
    (plain,), (adjusted,) = without.comparisons, known.comparisons
    assert (without.adjusted == 0, known.adjusted > 0.1) == (True, True)
    width = plain.high - plain.low  # type: ignore[operator]
    assert adjusted.high - adjusted.low < width  # type: ignore[operator]
    assert abs(adjusted.difference - plain.difference) < width  # type: ignore[operator]


def test_an_arm_that_lost_users_is_an_alarm_before_any_figure() -> None:
    log, test = simulated(0.5)
    lost = log.exposures.filter((pl.col("arm") == "a") | (pl.col("user").str.tail(1) < "8"))
    found = results(Log(lost, log.events.join(lost, on="exposure", how="semi")), test)
    assert found.ratio.alarm
    assert found.verdict.startswith("The arms did not get")


def test_users_are_the_units_and_those_in_two_arms_are_left_out() -> None:
    log, test = simulated(users=300)
    table, mixed = user_table(Visits.of(log), test)
    assert (set(table["lists"]), mixed) == ({2}, 0)
    moved = pl.when(pl.col("exposure") == "u7.1").then(pl.lit("b" if test.arm_of("u7") == TWO[0] else "a"))
    both = log.exposures.with_columns(arm=moved.otherwise("arm"))
    table, mixed = user_table(Visits.of(Log(both, log.events)), test)
    assert (len(table), mixed) == (299, 1)


def test_polls_read_what_is_new_and_find_what_a_whole_reading_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test, read, whole = Experiment("test", TWO, created=int(time.time())), list[int](), visits.read_rows

    def counted(*given: object) -> pl.DataFrame:
        found = whole(*given)  # type: ignore[arg-type]
        read.append(len(found))
        return found

    monkeypatch.setattr(visits, "read_rows", counted)
    with opened(tmp_path / "store.db") as store:
        followed = Followed(store, test)

        def show(user: str, late: int, experiment: str | None = "test") -> str:
            """Show a list so many seconds ago."""
            arm, id_ = test.arm_of(user), new_id()
            assert arm is not None
            id_ = f"{int(id_[:12], 16) - 1000 * late:012x}{id_[12:]}"
            named = (experiment, arm.name if experiment else None)
            slate = '[{"i":"inn","e":"quiet","p":1.0}]'
            head = (id_, int(time.time()) - late, user, "explain", "x", "d")
            put(store, Exposure(*head, *named, "{}", slate, 3))
            return id_

        def poll() -> list[int]:
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
        assert poll() == [2, 1]
        show("bob", 60)  # written after one that was shown later
        events.add(store, [{"event": "clicked", "exposure": first, "position": 1}])
        assert poll() == [2, 1]
        monkeypatch.setattr(visits, "LATE", 30)
        assert poll() == [1, 0]
        erase(store, "ann")
        assert poll() == [1, 0]
        assert followed.poll().lists["user"].to_list() == ["bob"]
        last = show("bob", 0)
        events.add(store, [{"event": "clicked", "exposure": last}])
        assert poll() == [2, 1]
        with store.writing() as connection:  # as retention may do; a number is not used again
            connection.execute(tables.events.delete())
        events.add(store, [{"event": "dismissed", "exposure": last}])
        assert followed.poll().events["event"].to_list() == ["clicked", "dismissed"]  # for an hour
