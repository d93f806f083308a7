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
from whyrank.evaluation.significance import TESTS, holm, randomization, resampled, student, wilcoxon
from whyrank.models import COUNTS, POP, RAND


def test_the_clustered_test_worked_by_hand() -> None:
    # Users' sums 2, 0, 0 of 2, 1, 1 pairs; mean 1/2; squares of sum - size x mean: 1, 1/4, 1/4; error sqrt(9/4) / 4.
    t = 0.5 / (math.sqrt(1.5 * 3 / 2) / 4)
    expected = 2 * stats.t.sf(t, 2)
    found = student(np.array([1.0, 1.0, 0.0, 0.0]), np.zeros(4), np.array([7, 7, 8, 9]))
    assert found == pytest.approx(expected, rel=1e-9)


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


def test_a_comparison_clusters_by_user_corrects_for_its_models_and_for_overlapping_splits(data: Triplets) -> None:
    models = {"POP": POP(), "COUNTS": COUNTS(), "RAND": RAND()}
    one = compare(models, data.split(seed=1), baseline="POP")
    pairs = {row.name: row.evaluations[0] for row in one.rows}
    users = pairs["POP"].users
    assert users is not None
    raw = [student(pairs[n].per_pair["ndcg"], pairs["POP"].per_pair["ndcg"], users) for n in ("COUNTS", "RAND")]
    assert list(one.p_values("ndcg").values()) == pytest.approx(holm(raw))
    document = one.as_dict()
    assert document["models"][0]["deviation"]["ndcg"] is None  # nothing was measured twice
    assert document["models"][1]["p_value"]["ndcg"] == pytest.approx(raw[0])
    several = compare(models, splits(data, 3), baseline="POP")
    values = [several.row(name).values("ndcg") for name in ("COUNTS", "POP")]
    assert several.p_value("COUNTS", "ndcg") == pytest.approx(resampled(*values, 0.3 / 0.7), rel=1e-6)
    assert several.row("POP").deviation("ndcg") == pytest.approx(values[1].std(ddof=1))
    assert several.as_dict()["test"] == "resampled"


def test_no_figure_stands_where_nothing_was_measured(data: Triplets) -> None:
    found = compare({"POP": POP(), "RAND": RAND()}, data.split(seed=1), k=1)
    assert found.row("POP").evaluations[0].explanation["redundancy"] != 0  # a list of one has no two reasons
    assert "nan" not in found.markdown(("ndcg", "redundancy"))
    assert found.as_dict()["models"][0]["explanation"]["redundancy"] is None
