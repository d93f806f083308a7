"""Estimates from logs: against plain sums, against known values, and refused where logs cannot tell."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whyrank as wr
from whyrank.cli import main
from whyrank.cli.learn import uplift_of
from whyrank.errors import DataError, ParameterError
from whyrank.explain.rank import rank
from whyrank.lab.simulate import SimulatedPeople, simulate_people
from whyrank.lab.simulate.log import simulate_log, together
from whyrank.online import estimators
from whyrank.online.estimate import Estimate, Line, estimate
from whyrank.online.log import Log
from whyrank.online.propensity import Policy
from whyrank.online.rewards import Goal, lists_of

DRAWN = wr.Options(explore=1.0, epsilon=0.2, distinctive=1.0, support=1)


@pytest.fixture(scope="module")
def people() -> SimulatedPeople:
    return simulate_people(users=120, items=15, explanations=60, records=900, seed=5)


@pytest.fixture(scope="module")
def shown(people: SimulatedPeople) -> wr.Model:
    return wr.COUNTS().fit(people.triplets)


@pytest.fixture(scope="module")
def log(people: SimulatedPeople, shown: wr.Model) -> Log:
    return simulate_log(people, shown, 6000, DRAWN, seed=1)


@given(st.integers(0, 2**32 - 1))
def test_estimators_are_the_sums_that_they_are_defined_by(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lists, n, clip = 12, 3, 4.0
    chance, logged = rng.uniform(0, 1, (lists, n)), rng.uniform(0.2, 1, (lists, n))
    reward, guess, expected = rng.random((3, lists, n))
    weights = estimators.list_weights(chance, logged, clip)
    ips = cascade = top = bottom = 0.0
    corrections, guesses = np.zeros((2, n)), np.zeros((2, n))  # sums, and sums of their weights
    for row in range(lists):
        before = product = 1.0
        for k in range(n):
            product *= chance[row, k] / logged[row, k]
            weight = min(product, clip)
            cascade += weight * reward[row, k] / lists
            corrections[:, k] += weight * (reward[row, k] - guess[row, k]), weight
            guesses[:, k] += before * expected[row, k], before
            before = weight
        ips += before * reward[row].sum() / lists
        top, bottom = top + before * reward[row].sum(), bottom + before
    dr = sum(corrections[0] / corrections[1] + guesses[0] / guesses[1])
    assert estimators.ips(weights, reward).mean == pytest.approx(ips)
    assert estimators.cascade(weights, reward).mean == pytest.approx(cascade)
    assert estimators.snips(weights, reward).mean == pytest.approx(top / bottom)
    assert estimators.doubly_robust(weights, reward, guess, expected).mean == pytest.approx(dr)
    by_hand = sum((chance[:, k] / logged[:, k]).clip(max=clip) @ reward[:, k] for k in range(n)) / lists
    assert estimators.independent(chance, logged, reward, clip).mean == pytest.approx(by_hand)


def test_errors_count_people_and_not_lists() -> None:
    value = np.repeat([1.0, -1.0, 2.0, -2.0], 25)
    alone, together = np.arange(100), np.repeat(np.arange(4), 25)
    assert estimators.clustered_error(value, together) > 4 * estimators.clustered_error(value, alone)
    assert estimators.clustered_error(value, alone) == pytest.approx(value.std(ddof=1) / 10)


def test_intervals_of_a_verdict_cover_what_was_never_logged() -> None:
    """A ninth of what the candidate shows, people like it as they like the rest; lists of two."""
    rng, runs, lists, pool, unseen = np.random.default_rng(8), 200, 4000, 60, 12
    likes = rng.uniform(0.1, 0.5, pool)
    logging, candidate = rng.dirichlet(np.ones(pool)) + 1 / pool, rng.dirichlet(np.ones(pool))
    logging[-unseen:] = 0.0
    logging /= logging.sum()
    candidate[-unseen:] *= 0.11 / candidate[-unseen:].sum()
    candidate[:-unseen] *= 0.89 / candidate[:-unseen].sum()
    look = np.array([1.0, 0.5])
    truth = candidate @ likes * look.sum()
    covered = {"dr": 0, "cascade": 0}
    for _ in range(runs):
        shown = rng.choice(pool, (lists, 2), p=logging)
        reward = (rng.random((lists, 2)) < likes[shown] * look).astype(float)
        weights = estimators.list_weights(candidate[shown], logging[shown], 50.0)
        table = estimators.guesses(shown.astype(np.int32), reward, pool)
        expected = np.tile(candidate @ table, (lists, 1))
        found = {
            "dr": estimators.doubly_robust(weights, reward, table[shown, [0, 1]], expected),
            "cascade": estimators.cascade(weights, reward),
        }
        for name, value in found.items():
            error = estimators.clustered_error(value.influence, np.arange(lists))
            covered[name] += abs(value.mean - truth) <= 1.96 * error
    assert covered["dr"] >= 0.9 * runs
    assert covered["cascade"] < 0.8 * runs


def test_more_than_a_twentieth_that_was_never_logged_is_refused_and_less_is_not(
    people: SimulatedPeople, shown: wr.Model
) -> None:
    """A tenth and a twentieth of the candidate's lists hold a reason that was excluded while the log was written."""
    users, items = people.visits(20_000, np.random.default_rng(3))
    lists = rank(shown, users, items, 3, DRAWN).numbers
    for id_, holding, refused in (("e00027", 0.107, True), ("e00035", 0.04, False)):
        number = shown.catalog_.explanations.ids.index_of(id_)
        assert (lists == number).any(1).mean() == pytest.approx(holding, abs=0.005)
        log = simulate_log(people, shown, 4000, replace(DRAWN, exclude=(id_,)), seed=4)
        found = estimate(log, Policy(shown, DRAWN), confidence=0.98)
        assert bool(found.refusals) == refused
        assert found.line.estimator == ("cascade" if refused else "dr")  # what was never shown counts as nothing


def test_bounds_of_a_verdict_hold_where_people_like_what_was_never_logged_more_than_the_rest(
    people: SimulatedPeople, shown: wr.Model
) -> None:
    """6% of the candidate's lists hold a reason that was excluded; the estimator cannot know how it is liked."""

    def clicks(options: wr.Options) -> float:
        users, items = people.visits(40_000, np.random.default_rng(99))
        return float(people.expected_clicks(users, items, rank(shown, users, items, 3, options).numbers).mean())

    logged = replace(DRAWN, exclude=("e00029",))
    truth, told, covered, by_estimator = clicks(DRAWN) / clicks(logged) - 1, 0, 0, 0
    for seed in range(100, 112):
        found = estimate(simulate_log(people, shown, 4000, logged, seed=seed), Policy(shown, DRAWN))
        if not found.refusals:
            told += 1
            covered += found.bounds[0] <= truth <= found.bounds[1]
            by_estimator += found.line.uplift_low <= truth <= found.line.uplift_high
    assert told >= 3
    assert covered == told
    assert by_estimator == 0


def test_what_was_shown_is_estimated_as_what_it_got(log: Log, shown: wr.Model) -> None:
    found = estimate(log, Policy(shown, DRAWN), Policy(shown, DRAWN))
    assert [each.estimator for each in found.lines] == list(estimators.ESTIMATORS)
    for each in found.lines:
        if each.estimator != "dr":  # its guesses add noise around the same value
            assert each.value == pytest.approx(found.logged)
        assert each.uplift == pytest.approx(0, abs=1e-9)
    assert not found.refusals


def test_another_policy_is_estimated_near_what_it_truly_gets(
    people: SimulatedPeople, log: Log, shown: wr.Model
) -> None:
    other = Policy(wr.POP().fit(people.triplets), DRAWN)
    users, items = people.visits(20_000, np.random.default_rng(9))
    truth = people.expected_clicks(users, items, rank(other.model, users, items, 3, DRAWN).numbers).mean()
    found = estimate(log, other, Policy(shown, DRAWN), confidence=0.999)
    assert not found.refusals
    for each in found.lines:
        assert each.low < truth < each.high, each
        assert each.high - each.low < truth


def test_the_gate_asks_the_lower_bound_and_where_support_is_missing_that_of_the_pessimist() -> None:
    def found(
        dr: float, cascade: float, refusals: tuple[str, ...] = (), at_least: bool = False, unseen: float = 0.0
    ) -> Estimate:
        lines = [Line(n, 1, 1, 1, 1, 0.5, low, 1, 500) for n, low in (("dr", dr), ("cascade", cascade))]
        return Estimate(900, 90, 1.0, 0.98, tuple(lines), refusals, (), at_least, unseen)

    assert found(-0.005, -0.5).not_worse()
    assert not found(-0.02, 0.5).not_worse()
    assert not found(0.02, 0.5, unseen=0.03).not_worse()  # if that got nothing
    assert not found(0.5, 0.5, ("nobody reacted to anything",)).not_worse()
    assert found(-0.5, -0.005, ("some of it was never shown",), at_least=True).not_worse()
    assert not found(0.5, -0.02, ("some of it was never shown",), at_least=True).not_worse()


def test_reactions_are_joined_counted_once_and_weighed(log: Log) -> None:
    exposure = log.exposures.filter(pl.col("position") == 2)["exposure"][0]
    rows = log.exposures.filter(pl.col("exposure") == exposure)
    events = pl.DataFrame(
        {
            "exposure": [exposure] * 4,
            "position": [1, 1, 1, None],
            "event": ["clicked", "clicked", "dismissed", "converted"],
            "value": [1.0, 1.0, 1.0, 2.0],
            "time": [1, 2, 3, 4],
            "user": ["u"] * 4,
        },
        schema=dict(log.events.schema),
    )
    found = lists_of(Log(rows, events), Goal.parse("clicked=1,dismissed=-0.25,converted=3"))
    assert found.reward[0, 0] == 0.75
    assert found.reward[0, rows.height - 1] == 6.0
    assert found.reward.sum() == 6.75


def part_of(log: Log, wanted: pl.Expr) -> Log:
    """Some exposures of a log, and the events that refer to them."""
    shown = log.exposures.filter(wanted)
    return Log(shown, log.events.join(shown, on="exposure", how="semi"))


def with_an_empty_list(log: Log, asked: int, **changed: str) -> Log:
    """A log and a list without reasons, for which some were asked."""
    none = {"exposure": "z", "position": 0, "explanation": None, "propensity": 1.0, "asked": asked} | changed
    head = log.exposures.filter(pl.col("position") == 1).head(1)
    kinds = log.exposures.schema
    row = head.with_columns(pl.lit(value, kinds[name]).alias(name) for name, value in none.items())
    return Log(pl.concat([log.exposures, row]), log.events)


def test_logs_that_cannot_tell_are_refused_with_the_reason(people: SimulatedPeople, log: Log, shown: wr.Model) -> None:
    best = simulate_log(people, shown, 300, wr.Options(), seed=2)
    pop = wr.POP().fit(people.triplets)
    assert "nothing was drawn" in estimate(best, Policy(pop)).verdict()
    few = pl.col("user").is_in(log.exposures["user"].unique().sort()[:9].implode())
    assert "9 people" in estimate(part_of(log, few), Policy(shown, DRAWN)).verdict()
    cold = simulate_log(people, shown, 3000, wr.Options(explore=0.02, distinctive=1.0), seed=3)
    unlike = estimate(cold, Policy(wr.RAND().fit(people.triplets), wr.Options(distinctive=1.0)))
    assert "was never shown" in unlike.verdict()
    assert unlike.at_least or "are worth" in unlike.verdict()
    silent = estimate(Log(log.exposures, log.events.clear()), Policy(pop, DRAWN))
    assert "nobody reacted" in silent.verdict()


def test_a_baseline_that_the_log_does_not_have_makes_no_candidate_better(log: Log, shown: wr.Model) -> None:
    whole_pool = Policy(shown, wr.Options.plain(explore=1.0, epsilon=0.2))
    found = estimate(log, Policy(shown, DRAWN), whole_pool)
    assert "of what the baseline would show" in found.verdict()
    assert not found.not_worse()


def test_bad_logs_and_settings_are_named(log: Log, shown: wr.Model, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"propensity.*1\.5"):
        Log(log.exposures.with_columns(pl.lit(1.5).alias("propensity")), log.events)
    with pytest.raises(DataError, match="no exposures"):
        estimate(part_of(log, pl.lit(False)), Policy(shown))
    with pytest.raises(ParameterError, match="clip is 0"):
        estimate(log, Policy(shown), clip=0)
    with pytest.raises(ParameterError, match="no reaction 'liked'"):
        Goal.parse("liked=1")
    with pytest.raises(ParameterError, match="positive"):
        Goal.parse("clicked=-1")
    with pytest.raises(DataError, match=r"exposures\.parquet"):
        Log.read(tmp_path)


def test_lists_of_different_lengths_are_estimated_together(people: SimulatedPeople, log: Log, shown: wr.Model) -> None:
    short = simulate_log(people, shown, 6000, DRAWN, n=1, seed=2)
    short = Log(short.exposures.with_columns(route=pl.lit("recommend")), short.events)
    mixed = together([log, short])
    same = estimate(mixed, Policy(shown, DRAWN), Policy(shown, DRAWN))
    assert same.lists == 12_000
    for each in same.lines:
        assert each.uplift == pytest.approx(0, abs=1e-9)
        if each.estimator != "dr":  # its guesses add noise around the same value
            assert each.value == pytest.approx(same.logged)
    other = Policy(wr.POP().fit(people.triplets), DRAWN)
    parts = [{e.estimator: e.value for e in estimate(each, other).lines} for each in (log, short)]
    whole = {each.estimator: each.value for each in estimate(mixed, other).lines}
    for name in ("ips", "cascade"):  # which are means over lists
        assert whole[name] == pytest.approx((parts[0][name] + parts[1][name]) / 2)
    unknown = Log(mixed.exposures.drop("asked"), mixed.events)  # taken for the longest of each route
    assert [e.value for e in estimate(unknown, other).lines] == [e.value for e in estimate(mixed, other).lines]
    assert estimate(mixed.of_route("recommend"), other).lists == 6000


def test_lists_of_pairs_are_left_out_and_lists_of_no_reasons_that_were_wanted_count(log: Log, shown: wr.Model) -> None:
    kinds = pl.when(pl.col("exposure") < "x1-00003000").then(pl.lit("pairs")).otherwise(pl.lit("explain"))
    half = Log(log.exposures.with_columns(kinds.alias("route")), log.events)
    assert estimate(half, Policy(shown, DRAWN)).lists == 3000
    with pytest.raises(DataError, match="no exposures of reasons of an item"):
        lists_of(Log(log.exposures.with_columns(route=pl.lit("pairs")), log.events))
    policy = Policy(shown, DRAWN)
    for asked, lists in ((3, 6000), (0, 6001)):  # of what was asked for the model would have shown something
        found = estimate(with_an_empty_list(log, asked), policy)
        (ips,) = [each for each in found.lines if each.estimator == "ips"]
        assert ips.ess == pytest.approx(lists)


def test_a_long_length_that_was_asked_for_changes_nothing_but_what_could_have_been_shown(
    log: Log, shown: wr.Model
) -> None:
    policy, found = Policy(shown, DRAWN), {}
    for asked in (3, 4, 100_000):
        lists = lists_of(with_an_empty_list(log, asked, item="an item without any reasons"))
        assert lists.reward.shape[1] == min(asked, 4)  # a place for "nothing more", and no further ones
        found[asked] = estimate(lists, policy, policy)
    assert [each.estimator for each in found[100_000].lines] == list(estimators.ESTIMATORS)
    assert found[3].lines == found[4].lines == found[100_000].lines
    assert found[3].lists == 6001


def test_lists_too_long_for_the_independent_estimator_are_named(people: SimulatedPeople, shown: wr.Model) -> None:
    deep = simulate_log(people, shown, 600, DRAWN, n=5, seed=4)
    found = estimate(deep, Policy(shown, DRAWN), Policy(shown, DRAWN))
    assert "independent" not in [each.estimator for each in found.lines]
    longest = int(lists_of(deep).length.max())
    assert longest > 3
    assert [each for each in found.notes if f"up to 3 reasons, and the longest here has {longest}" in each]


@given(st.integers(0, 2**32 - 1))
def test_guesses_are_what_a_position_gets_times_how_an_explanation_fares(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lists, n, pool, prior = 15, 4, 6, 3.0
    numbers = rng.integers(0, pool, (lists, n)).astype(np.int32)
    numbers[np.arange(n)[None, :] >= rng.integers(0, n, lists)[:, None]] = -1  # the last position is never shown
    reward = np.where(numbers >= 0, rng.random((lists, n)), 0.0)
    seen = [[row for row in range(lists) if numbers[row, k] >= 0] for k in range(n)]
    usual = [sum(reward[rows, k]) / len(rows) if rows else 0.0 for k, rows in enumerate(seen)]
    steady = prior * sum(value for value, rows in zip(usual, seen, strict=True) if rows) / max(sum(map(bool, seen)), 1)
    found = estimators.guesses(numbers, reward, pool, prior)
    for e in range(pool):
        places = [(row, k) for k in range(n) for row in seen[k] if numbers[row, k] == e]
        got, fair = sum(reward[at] for at in places), sum(usual[k] for _, k in places)
        ratio = (got + max(steady, prior * 1e-12)) / (fair + max(steady, prior * 1e-12))
        assert found[e] == pytest.approx([ratio * each for each in usual])


def test_the_command_prints_a_table_a_verdict_and_json(
    log: Log, shown: wr.Model, people: SimulatedPeople, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(*more: str) -> tuple[int, str]:
        options = ["--explore", "1", "--epsilon", "0.2", "--distinctive", "1", "--support", "1"]
        models = ["--model", str(tmp_path / "pop"), "--baseline", str(tmp_path / "shown")]
        with pytest.raises(SystemExit) as done:
            main(["estimate", str(tmp_path / "log"), *models, *options, *more])
        return int(done.value.code or 0), capsys.readouterr().out

    log.write(tmp_path / "log")
    shown.save(tmp_path / "shown")
    wr.POP().fit(people.triplets).save(tmp_path / "pop")
    code, printed = call()
    assert code == 0
    assert printed.index("It would get") < printed.index("effective") < printed.index("independent")
    found = json.loads(call("--json")[1])
    assert (len(found["lines"]), found["users"]) == (6, 120)
    Log(log.exposures, log.events.clear()).write(tmp_path / "log")
    code, printed = call()
    assert (code, printed.startswith("The log cannot tell: nobody reacted"), "uplift" in printed) == (3, True, False)
    code, printed = call("--json")
    assert (code, json.loads(printed)["refusals"]) == (3, ["nobody reacted to anything"])


def test_a_ratio_to_nothing_is_left_empty() -> None:
    assert uplift_of(0.05, -0.01, 0.11) == ("+5.0%", "-1.0% to +11.0%")
    assert uplift_of(math.nan, math.nan, math.nan) == ("", "")
