from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest

from whyrank.data import Split, Triplets
from whyrank.errors import DataError, NotFitted, ParameterError
from whyrank.evaluation import compare, evaluate
from whyrank.index.form import Floats, Numbers
from whyrank.models import POP, RAND
from whyrank.models.base import Model
from whyrank.training import Run


@dataclass(kw_only=True, eq=False)
class Oracle(Model):
    """Knows the test set by heart, for items and explanations."""

    id = "oracle"
    ranks_items = True
    truth: Triplets | None = None

    def _fit(self, train: Triplets, run: Run, validation: Triplets | None) -> None:
        assert self.truth is not None
        users, items = self.truth.record_user, self.truth.record_item
        self.pairs_ = {pair: row for row, pair in enumerate(zip(users.tolist(), items.tolist(), strict=True))}

    def keys(self) -> Floats:
        return np.eye(len(self.catalog_.explanations), dtype=np.float32)

    def queries(self, users: Numbers, items: Numbers) -> Floats:
        assert self.truth is not None
        queries = np.zeros((len(users), len(self.catalog_.explanations)), np.float32)
        for row, pair in enumerate(zip(users.tolist(), items.tolist(), strict=True)):
            if pair in self.pairs_:
                queries[row, self.truth.record_explanations.row(self.pairs_[pair])] = 1
        return queries

    def item_keys(self) -> Floats:
        return np.eye(len(self.catalog_.items), dtype=np.float32)

    def item_queries(self, users: Numbers) -> Floats:
        assert self.truth is not None
        queries = np.zeros((len(users), len(self.catalog_.items)), np.float32)
        for row, user in enumerate(users):
            queries[row, self.truth.user_items.row(user)] = 1
        return queries


def test_a_model_that_knows_the_truth_is_perfect(split: Split) -> None:
    result = evaluate(Oracle(truth=split.test).fit(split.train), split, k=12)
    assert result.explanation["ndcg"] == pytest.approx(1)
    assert result.explanation["recall"] == pytest.approx(1)
    assert result.recommendation is not None
    assert result.recommendation["ndcg"] == pytest.approx(1)
    assert result.explanation_on_recommended is not None
    assert result.explanation_on_recommended["ndcg"] == pytest.approx(1)


def test_explanations_are_measured_on_recommended_pairs_only_for_joint_models(split: Split) -> None:
    result = evaluate(Oracle(truth=split.test).fit(split.train), split, k=1)
    users = len(np.unique(split.test.record_user))
    assert result.explanation_on_recommended is not None
    assert result.explanation_on_recommended["pairs"] == users  # one item each fits a list of one
    assert evaluate(POP().fit(split.train), split).recommendation is None


def test_popularity_beats_chance_and_per_pair_values_explain_the_mean(split: Split) -> None:
    popular, chance = (evaluate(model.fit(split.train), split) for model in (POP(), RAND()))
    assert popular.explanation["ndcg_paper"] > 2 * chance.explanation["ndcg_paper"]
    assert popular.per_pair["f1"].mean() == popular.explanation["f1"]
    assert len(popular.per_pair["f1"]) == popular.pairs == split.test.records
    assert popular.explanation["personalization"] == 0
    assert chance.explanation["personalization"] > 0.5


def test_means_by_user_count_everybody_once_and_served_lists_stand_beside(split: Split) -> None:
    found = evaluate(POP().fit(split), split)
    users, values = split.test.record_user, found.per_pair["ndcg"]
    assert found.by_user["ndcg"] == pytest.approx(np.mean([values[users == user].mean() for user in np.unique(users)]))
    alone = evaluate(POP().fit(split), split, candidates="served", beyond_accuracy=False)
    assert found.served is not None
    assert alone.served is None
    assert np.array_equal(found.served.per_pair["ndcg"], alone.per_pair["ndcg"])
    assert found.pairs == alone.pairs
    document = found.as_dict()["served"]
    assert document == {name: alone.as_dict()[name] for name in ("explanation", "by_user", "without_reason")}


def test_pairs_without_a_reason_are_misses_and_counted(tiny: Triplets) -> None:
    spa = tiny.take(np.array([2, 3]))  # nothing is known of it
    found = evaluate(POP().fit(tiny.take(np.array([0, 1]))), spa.joined(tiny.take(np.array([1]))), k=4)
    assert found.served is not None
    assert (found.without_reason, found.served.without_reason) == (0, 2 / 3)
    assert found.served.explanation["recall"] == pytest.approx(1 / 3)


def test_a_random_split_hands_no_times_to_models_and_one_by_time_does(data: Triplets) -> None:
    @dataclass(kw_only=True, eq=False)
    class Clock(Model):
        id = "clock"
        uses_validation = True

        def _fit(self, train: Triplets, run: Run, validation: Triplets | None) -> None:
            assert validation is not None
            self.times_ = (train.time is not None, validation.time is not None)

    assert data.time is not None
    for method, told in (("random", False), ("hash", False), ("time", True), ("leave-last", True)):
        shares: dict[str, object] = {} if method == "leave-last" else {"validation": 0.2}
        assert Clock().fit(data.split(method=method, **shares)).times_ == (told, told)  # type: ignore[arg-type]


def test_a_k_beyond_the_pool_is_padded(split: Split) -> None:
    result = evaluate(POP().fit(split.train), split, k=200)
    assert result.explanation["recall"] == pytest.approx(1)
    assert result.explanation["precision"] == pytest.approx(len(split.test) / split.test.records / 200)


def test_test_data_with_other_vocabularies_is_matched_by_id(split: Split) -> None:
    model = POP().fit(split)
    again = Triplets.from_frame(split.test.frame(record=True), record="record")
    assert evaluate(model, again).explanation == pytest.approx(evaluate(model, split).explanation)


def test_unknown_explanations_of_the_test_data_are_misses(tiny: Triplets) -> None:
    model = POP().fit(tiny.take(np.array([0, 1])))
    frame = tiny.take(np.array([3])).frame().drop("text", "rating", "time")
    strange = Triplets.from_frame(frame.with_columns(explanation=frame["explanation"] + "!"))
    assert evaluate(model, strange).explanation["recall"] == 0


def test_evaluation_prints_the_promised_json(split: Split) -> None:
    document = json.loads(json.dumps(evaluate(POP().fit(split.train), split).as_dict()))
    assert {"model", "k", "pairs", "explanation", "recommendation", "seconds"} <= set(document)
    assert document["recommendation"] is None


def test_bad_calls_are_refused(split: Split) -> None:
    with pytest.raises(NotFitted):
        evaluate(POP(), split)
    with pytest.raises(ParameterError):
        evaluate(POP().fit(split.train), split, k=0)
    with pytest.raises(DataError, match="empty"):
        evaluate(POP().fit(split.train), split.test.take(np.array([], np.int64)))


def test_a_comparison_names_the_best_and_tests_the_rest(split: Split) -> None:
    result = compare({"POP": POP(), "RAND": RAND()}, split, baseline="RAND")
    assert result.best("ndcg_paper") == "POP"
    assert result.p_value("POP") < 0.01
    assert result.improvement("POP") > 1
    document = result.as_dict()
    assert document["baseline"] == "RAND"
    assert "**" in result.markdown()
    assert r"\textbf" in result.latex()
    assert len(result.table().rows) == 2
    hits, theirs = (f"{100 * result.row(name).mean('hit'):.0f}" for name in ("POP", "RAND"))
    change = (
        f"By ndcg_paper it is {100 * result.improvement('POP'):+.1f}% (p < 0.001, corrected for models and metrics)"
    )
    assert result.verdict() == f"POP finds a right reason in {hits} of 100 lists of 10, RAND in {theirs}. {change}."
    assert "<table>" in result._repr_html_()


def test_a_verdict_gives_the_corrected_p_of_the_metric_that_orders_the_table(split: Split) -> None:
    result = compare({"one": RAND(seed=1), "two": RAND(seed=2)}, split)
    p = result.p_values()["ndcg_paper"][next(row.name for row in result.rows if row.name != result.baseline)]
    assert f"(p = {p:.2f}, corrected" in result.verdict()


def test_the_baseline_of_a_record_is_that_of_the_popularity_model(split: Split) -> None:
    from whyrank.lab.experiments.record import baseline, missed

    fitted = RAND().fit(split)
    measured, wanted = evaluate(fitted, split), evaluate(POP().fit(split), split)
    found = baseline(fitted, split.test, measured)
    assert found["explanation"] == pytest.approx({name: wanted.explanation[name] for name in found["explanation"]})
    assert found["p_value"]["hit"] < 0.01
    sizes = [len(each["said"]) for each in missed(split.test, measured)]
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) == 20


def test_a_comparison_over_splits_fits_every_model_anew(data: Triplets) -> None:
    from whyrank.data import splits

    model = POP()
    result = compare({"POP": model, "RAND": RAND()}, splits(data, 2), test="wilcoxon")
    assert result.splits == 2
    assert not hasattr(model, "catalog_")
    assert "±" in result.markdown()
    assert result.pairs == 2 * round(0.3 * data.records)


def test_a_comparison_refuses_what_it_cannot_do(split: Split) -> None:
    with pytest.raises(ParameterError):
        compare({}, split)
    with pytest.raises(ParameterError):
        compare({"POP": POP()}, split, test="coin")
    with pytest.raises(ParameterError):
        compare({"POP": POP()}, split, baseline="BPER")


@dataclass(kw_only=True, eq=False)
class Favourites(Oracle):
    """Puts the items of `first` before all others, and those of the truth next."""

    first: Triplets | None = None

    def item_queries(self, users: Numbers) -> Floats:
        assert self.first is not None
        queries = super().item_queries(users)
        for row, user in enumerate(users):
            queries[row, self.first.user_items.row(user)] += 2
        return queries


def test_items_of_the_validation_part_are_no_misses(split: Split) -> None:
    model = Favourites(truth=split.test, first=split.validation).fit(split.train)
    for found in (evaluate(model, split, k=12), evaluate(model, split.test, k=12, known=split.validation)):
        assert found.recommendation is not None
        assert found.recommendation["ndcg"] == pytest.approx(1)
    blind = evaluate(model, split.test, k=12).recommendation
    assert blind is not None
    assert blind["ndcg"] < 1
    elsewhere = Triplets.from_frame(split.validation.frame())
    assert evaluate(model, split.test, k=12, known=elsewhere).recommendation == found.recommendation


def test_where_no_item_is_recommended_rightly_there_is_no_figure(split: Split) -> None:
    model = Oracle(truth=split.validation).fit(split.train)
    found = evaluate(model, split.test.take(np.arange(3)), k=1)
    assert found.explanation_on_recommended == {"pairs": 0.0}
    both = compare({"it": Oracle(truth=split.validation)}, split, k=1).as_dict()
    assert json.loads(json.dumps(both))["models"][0]["explanation_on_recommended"]["pairs"] >= 0
