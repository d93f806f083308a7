from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from needs import module
from whyrank.data import CSR
from whyrank.evaluation import beyond
from whyrank.evaluation.metrics import per_list
from whyrank.evaluation.significance import randomization, student, wilcoxon


def relevant(sets: list[set[int]]) -> CSR:
    rows = np.repeat(np.arange(len(sets)), [len(each) for each in sets])
    columns = np.array([number for each in sets for number in sorted(each)], np.int64)
    return CSR.from_pairs(rows, columns, len(sets), 1000)


def lists(*ranked: list[int]) -> NDArray[np.int32]:
    return np.array(ranked, np.int32)


def test_a_list_worked_by_hand() -> None:
    """Hits at places 1 and 3 of 4; three relevant ones, one of them not listed."""
    values = {name: value[0] for name, value in per_list(lists([7, 1, 9, 2]), relevant([{7, 9, 4}])).items()}
    dcg = 1 + 1 / math.log2(4)
    full = 1 + 1 / math.log2(3) + 1 / math.log2(4) + 1 / math.log2(5)
    assert values["ndcg_paper"] == pytest.approx(dcg / full)
    assert values["ndcg"] == pytest.approx(dcg / (1 + 1 / math.log2(3) + 1 / math.log2(4)))
    assert values["precision"] == pytest.approx(2 / 4)
    assert values["recall"] == pytest.approx(2 / 3)
    assert values["f1"] == pytest.approx(2 * (2 / 4) * (2 / 3) / (2 / 4 + 2 / 3))
    assert values["hit"] == 1
    assert values["mrr"] == 1
    assert values["map"] == pytest.approx((1 / 1 + 2 / 3) / 3)


def test_the_papers_ndcg_cannot_reach_one_with_a_single_relevant_explanation() -> None:
    values = per_list(lists([5, 1, 2, 3, 4, 6, 7, 8, 9, 0]), relevant([{5}]))
    assert values["ndcg"][0] == 1
    assert values["ndcg_paper"][0] == pytest.approx(1 / sum(1 / math.log2(p + 1) for p in range(1, 11)))


def test_padding_never_hits_and_counts_as_a_place() -> None:
    values = per_list(lists([3, -1, -1]), relevant([{3}]))
    assert values["precision"][0] == pytest.approx(1 / 3)
    assert values["recall"][0] == 1


def test_nothing_relevant_scores_nothing() -> None:
    assert all(value[0] == 0 for value in per_list(lists([3, 2, 1]), relevant([set()])).values())


ranked_lists = st.lists(st.permutations(list(range(20))), min_size=1, max_size=8)
truth = st.sets(st.integers(0, 19), min_size=1, max_size=12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::Warning")  # ranx's own kernels warn while they compile
@given(ranked_lists, st.data())
def test_textbook_metrics_agree_with_ranx(ranked: list[list[int]], draw: st.DataObject) -> None:
    ranx = module("ranx", "rare")
    Qrels, Run, evaluate = ranx.Qrels, ranx.Run, ranx.evaluate

    sets = [draw.draw(truth) for _ in ranked]
    ours = per_list(lists(*[each[:10] for each in ranked]), relevant(sets))
    qrels = Qrels({str(q): {str(n): 1 for n in each} for q, each in enumerate(sets)})
    run = Run({str(q): {str(n): 20.0 - p for p, n in enumerate(each)} for q, each in enumerate(ranked)})
    names = {"ndcg": "ndcg@10", "precision": "precision@10", "recall": "recall@10", "mrr": "mrr@10", "map": "map@10"}
    theirs = evaluate(qrels, run, [*names.values(), "hit_rate@10"], make_comparable=True)
    for name, other in names.items():
        assert ours[name].mean() == pytest.approx(theirs[other]), name
    assert ours["hit"].mean() == pytest.approx(theirs["hit_rate@10"])


def test_significance_agrees_with_scipy() -> None:
    from scipy import stats

    rng = np.random.default_rng(0)
    for shift in (0.0, 0.1, 0.5):
        ours, theirs = rng.normal(shift, 1, 200).round(1), rng.normal(0, 1, 200).round(1)
        assert student(ours, theirs) == pytest.approx(stats.ttest_rel(ours, theirs).pvalue, rel=1e-9)
        difference = (ours - theirs).round(12)  # 0.3 - 0.1 and 0.2 are a tie
        expected = stats.wilcoxon(difference, zero_method="wilcox", correction=False, method="approx").pvalue
        assert wilcoxon(ours, theirs) == pytest.approx(expected, rel=1e-9)
        assert randomization(ours, theirs) == pytest.approx(student(ours, theirs), abs=0.05)


def test_equal_models_do_not_differ() -> None:
    same = np.array([0.1, 0.2, 0.3])
    assert student(same, same) == wilcoxon(same, same) == randomization(same, same) == 1.0


def test_beyond_accuracy_worked_by_hand() -> None:
    ranked, users = lists([0, 1], [0, 1], [2, 3]), np.array([0, 0, 1], np.int32)
    assert beyond.coverage(ranked, 8) == 0.5
    assert beyond.novelty(lists([0, 1]), np.array([1, 3])) == pytest.approx((2 + math.log2(4 / 3)) / 2)
    assert beyond.personalization(ranked, users) == 1.0
    assert beyond.personalization(lists([0, 1], [1, 2]), np.array([0, 1], np.int32)) == 0.5
    words = [frozenset("ab"), frozenset("bc")]
    assert beyond.redundancy(lists([0, 1]), words) == pytest.approx(1 / 3)
