"""Tests of differences: by hand, against scipy, and by simulation of users whose pairs are alike."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from whyrank.data import Triplets, splits
from whyrank.evaluation import compare
from whyrank.evaluation.significance import (
    TESTS,
    clustered_mean,
    combined,
    holm,
    randomization,
    resampled,
    resampled_mean,
    student,
    wilcoxon,
)
from whyrank.models import COUNTS, POP, RAND


def test_the_clustered_test_worked_by_hand() -> None:
    # Users' sums 2, 0, 0 of 2, 1, 1 pairs. Means without each: 0, 2/3, 2/3; squares from 1/2: 1/4, 1/36, 1/36. The
    # error is sqrt(2/3 x 11/36); 4^2 / (4 + 1 + 1) users tell as much.
    t = 0.5 / math.sqrt(2 / 3 * 11 / 36)
    found = student(np.array([1.0, 1.0, 0.0, 0.0]), np.zeros(4), np.array([7, 7, 8, 9]))
    assert found == pytest.approx(2 * stats.t.sf(t, 16 / 6 - 1), rel=1e-9)


def test_differences_that_cancel_out_for_every_user_prove_nothing() -> None:
    ours, users = np.array([1.0, 0.0, 1.0, 0.0]), np.array([7, 7, 8, 8])
    assert [test(ours, 1 - ours, users) for test in TESTS.values()] == [1.0, 1.0, 1.0]


def test_the_resampled_test_worked_by_hand() -> None:
    ours, theirs = np.array([0.30, 0.31, 0.29]), np.full(3, 0.28)
    t = 0.02 / (0.01 * math.sqrt(1 / 3 + 0.4))
    assert resampled(ours, theirs, 0.4) == pytest.approx(2 * stats.t.sf(t, 2), rel=1e-9)
    assert resampled(ours, theirs, 0.0) == pytest.approx(stats.ttest_rel(ours, theirs).pvalue, rel=1e-9)
    assert resampled(ours[:1], theirs[:1], 0.4) == 1.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holms_correction_is_that_of_its_definition(p_values: list[float]) -> None:
    order = np.argsort(p_values, kind="stable")
    stepped = np.array(p_values)[order] * np.arange(len(p_values), 0, -1)
    expected = np.empty(len(p_values))
    expected[order] = np.minimum(np.maximum.accumulate(stepped), 1)
    assert holm(p_values) == pytest.approx(expected.tolist())


def test_one_pair_for_every_user_is_the_usual_paired_test() -> None:
    rng = np.random.default_rng(1)
    ours, theirs = rng.normal(0.1, 1, 50), rng.normal(0, 1, 50)
    users = rng.permutation(50)
    assert student(ours, theirs, users) == pytest.approx(stats.ttest_rel(ours, theirs).pvalue, rel=1e-9)
    assert wilcoxon(ours, theirs, users) == pytest.approx(wilcoxon(ours, theirs), rel=1e-9)


def test_a_pair_that_is_repeated_proves_nothing_more() -> None:
    rng = np.random.default_rng(2)
    ours, theirs = rng.normal(0.3, 1, 40), rng.normal(0, 1, 40)
    for test in TESTS.values():
        once = test(ours, theirs, np.arange(40))
        assert test(ours.repeat(9), theirs.repeat(9), np.arange(40).repeat(9)) == pytest.approx(once, rel=1e-9)


def test_only_clustered_tests_keep_their_level_where_pairs_of_a_user_are_alike() -> None:
    rng, rounds, users = np.random.default_rng(3), 300, np.arange(40).repeat(10)
    found = {"student": 0, "wilcoxon": 0, "randomization": 0, "old": 0}
    for _ in range(rounds):
        difference = rng.normal(0, 1, 40).repeat(10) + rng.normal(0, 1, 400)  # no model is better
        nothing = np.zeros(400)
        found["student"] += student(difference, nothing, users) < 0.05
        found["wilcoxon"] += wilcoxon(difference, nothing, users) < 0.05
        found["randomization"] += randomization(difference, nothing, users, rounds=200) < 0.05
        found["old"] += stats.ttest_1samp(difference, 0).pvalue < 0.05
    bound = stats.binom.ppf(0.9999, rounds, 0.05)
    assert max(found[name] for name in TESTS) <= bound
    assert found["old"] > 3 * bound


def test_few_users_of_very_unequal_size_bring_no_false_findings() -> None:
    rng, rounds = np.random.default_rng(4), 1000
    sizes = np.maximum(200 // np.arange(1, 31), 1)  # 30 users that tell as much as 9.9
    users = np.arange(30).repeat(sizes)
    found = {"student": 0, "randomization": 0, "old": 0}
    nothing = np.zeros(len(users))
    for _ in range(rounds):
        difference = rng.normal(0, 1, 30).repeat(sizes) + rng.normal(0, 1, len(users))  # no model is better
        found["student"] += student(difference, nothing, users) < 0.05
        found["randomization"] += randomization(difference, nothing, users, rounds=200) < 0.05
        sums = np.bincount(users, difference - difference.mean())  # as many degrees of freedom as users
        t = difference.mean() * len(users) / math.sqrt((sums**2).sum() * 30 / 29)
        found["old"] += 2 * stats.t.sf(abs(t), 29) < 0.05
    bound = stats.binom.ppf(0.9999, rounds, 0.05)
    assert max(found["student"], found["randomization"]) <= bound
    assert found["old"] > bound


def test_intervals_of_a_mean_hold_for_users_of_unequal_size_and_are_students_for_equal_ones() -> None:
    rng, rounds, inside = np.random.default_rng(5), 1000, 0
    sizes = np.maximum(300 // np.arange(1, 61), 1)
    users = np.arange(60).repeat(sizes)
    for _ in range(rounds):
        found = clustered_mean(rng.normal(0.3, 1, 60).repeat(sizes) + rng.normal(0, 1, len(users)), users)
        inside += abs(found.value - 0.3) <= found.half()
    assert inside >= stats.binom.ppf(0.0001, rounds, 0.95)
    of_users = rng.normal(size=50)
    equal = clustered_mean(of_users.repeat(9), np.arange(50).repeat(9))
    low, high = stats.t.interval(0.95, 49, of_users.mean(), stats.sem(of_users))
    assert (equal.value - equal.half(), equal.value + equal.half()) == pytest.approx((low, high))
    assert clustered_mean(np.ones(3), np.zeros(3, np.int64)).half() == math.inf


def test_splits_that_share_their_users_prove_no_more_than_one_of_them() -> None:
    rng, rounds = np.random.default_rng(6), 1000
    users, found = np.arange(40).repeat(5), 0
    for _ in range(rounds):
        of_users = rng.normal(0, 1, 40).repeat(5)  # what all splits have in common
        splits_ = [of_users + rng.normal(0, 0.1, 200) for _ in range(4)]
        p_values = [student(each, np.zeros(200), users) for each in splits_]
        found += combined([each.mean() for each in splits_], p_values) < 0.05
    assert found <= stats.binom.ppf(0.9999, rounds, 0.05)
    assert combined([0.2, 0.1, 0.3], [0.001, 0.002, 0.003]) == pytest.approx(0.004)
    assert combined([0.2, -0.1], [1e-9, 1e-9]) == 1.0


def test_a_comparison_clusters_by_user_and_corrects_for_all_its_models_and_metrics(data: Triplets) -> None:
    models = {"POP": POP(), "COUNTS": COUNTS(), "RAND": RAND()}
    one = compare(models, data.split(seed=1), baseline="POP")
    pairs = {row.name: row.evaluations[0] for row in one.rows}
    users, others = pairs["POP"].users, ("COUNTS", "RAND")
    assert users is not None
    raw = [
        student(pairs[name].per_pair[metric], pairs["POP"].per_pair[metric], users)
        for metric in ("ndcg", "recall")
        for name in others
    ]
    shown = one.p_values(["ndcg", "recall", "personalization"])
    assert [shown[metric][name] for metric in ("ndcg", "recall") for name in others] == pytest.approx(holm(raw))
    document = one.as_dict()
    assert document["models"][0]["deviation"]["ndcg"] is None  # nothing was measured twice
    row = next(each for each in document["models"] if each["name"] == "COUNTS")
    assert row["p_value"]["ndcg"] == pytest.approx(raw[0])
    assert row["p_holm"] == {metric: values["COUNTS"] for metric, values in one.p_values().items()}
    values = pairs["COUNTS"].per_pair["ndcg"]
    of_users = [values[users == user].mean() for user in np.unique(users)]
    assert row["by_user"]["ndcg"] == pytest.approx(np.mean(of_users))
    low, high = stats.t.interval(0.95, len(of_users) - 1, np.mean(of_users), stats.sem(of_users))
    assert row["by_user_interval"]["ndcg"] == pytest.approx([low, high])


def test_less_than_five_splits_are_tested_within_each_and_five_over_their_means(data: Triplets) -> None:
    models = {"POP": POP(), "RAND": RAND()}
    two = compare(models, splits(data, 2), baseline="POP")
    ours, theirs = two.row("RAND").evaluations, two.row("POP").evaluations
    within = [student(a.per_pair["recall"], b.per_pair["recall"], a.users) for a, b in zip(ours, theirs, strict=True)]
    assert two.p_value("RAND", "recall") == pytest.approx(min(1, 2 * np.mean(within)))
    halves = [clustered_mean(each.per_pair["recall"], each.users).half() for each in ours]
    assert two.half("RAND", "recall") == pytest.approx(np.mean(halves))
    assert two.as_dict()["test"] == "student"
    assert "twice the mean p" in two.note()
    five = compare(models, splits(data, 5), baseline="POP")
    values = [five.row(name).values("recall") for name in ("RAND", "POP")]
    assert five.p_value("RAND", "recall") == pytest.approx(resampled(*values, 0.3 / 0.7), rel=1e-6)
    assert five.half("RAND", "recall") == pytest.approx(resampled_mean(values[0], five.ratio).half())
    assert five.row("POP").deviation("recall") == pytest.approx(values[1].std(ddof=1))
    assert five.as_dict()["test"] == "resampled"


def test_no_figure_stands_where_nothing_was_measured(data: Triplets) -> None:
    found = compare({"POP": POP(), "RAND": RAND()}, data.split(seed=1), k=1)
    assert found.row("POP").evaluations[0].explanation["redundancy"] != 0  # a list of one has no two reasons
    assert "nan" not in found.markdown(("ndcg", "redundancy"))
    assert found.as_dict()["models"][0]["explanation"]["redundancy"] is None
