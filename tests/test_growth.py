"""Users, items and explanations that come after the fit, and the models' algebra."""

from __future__ import annotations

import copy
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from whyrank.cli import main
from whyrank.data import Split, Triplets
from whyrank.data.catalog import Catalog
from whyrank.errors import ParameterError
from whyrank.evaluation import evaluate
from whyrank.explain.options import Options
from whyrank.explain.rank import rank
from whyrank.models import BPER, BPERJ, CD, COUNTS, PITF, BPERPlus, Model, Profile, ProfileJ, load

PLAIN = vars(Options.plain())  # the whole pool, as evaluation ranks it


@pytest.fixture(scope="module")
def old_and_new(data: Triplets) -> tuple[Triplets, Triplets, Triplets]:
    """Triplets of most users, and those of ten others: what they said first, and what they said later."""
    frame = data.frame()
    busiest = frame.group_by("user").agg(pl.col("item").n_unique()).sort("item", "user", descending=True)["user"][5:15]
    theirs = frame.filter(pl.col("user").is_in(busiest.to_list()))
    pairs = theirs.select("user", "item").unique(maintain_order=True).with_row_index("place")
    first = pairs.filter(pl.col("place") % 2 == 0).drop("place")
    early = theirs.join(first, on=["user", "item"], how="semi")
    late = theirs.join(first, on=["user", "item"], how="anti")
    old = frame.join(theirs, on=["user", "item"], how="anti")
    known = old["explanation"].unique().to_list()
    return (
        Triplets.from_frame(old),
        Triplets.from_frame(early.filter(pl.col("explanation").is_in(known))),
        Triplets.from_frame(late),
    )


@pytest.mark.parametrize(
    "model",
    [BPER(epochs=200), PITF(epochs=200), BPERJ(epochs=100), COUNTS(), Profile(), ProfileJ()],
    ids=lambda m: m.id,
)
def test_new_users_are_folded_in_and_get_reasons_of_their_own(
    model: Model, old_and_new: tuple[Triplets, Triplets, Triplets], tmp_path: Path
) -> None:
    old, early, late = old_and_new
    model.fit(old)
    user = early.users.ids[0]
    assert {each.fallback for each in model.explain(user, old.items.ids[0])} == {"unknown_user"}
    before = rank(model, np.arange(20, dtype=np.int32), np.arange(20, dtype=np.int32), 10)
    unknown = evaluate(model, late, items=False).explanation["ndcg_paper"]
    model.fold_in(early)
    after = rank(model, np.arange(20, dtype=np.int32), np.full(20, -1, np.int32), 10)
    assert len(after.numbers) == 20
    assert evaluate(model, late, items=False).explanation["ndcg_paper"] >= unknown
    assert {each.fallback for each in model.explain(user, old.items.ids[0], n=3)} == {None}
    back = load(model.save(tmp_path / "grown"))
    assert [each.explanation for each in back.explain(user, old.items.ids[0])] == [
        each.explanation for each in model.explain(user, old.items.ids[0])
    ]
    if model.id in ("bper", "pitf"):  # factors of the old ones are untouched
        again = rank(model, np.arange(20, dtype=np.int32), np.arange(20, dtype=np.int32), 10)
        assert np.array_equal(before.numbers, again.numbers)


def test_partial_fit_learns_new_explanations_and_keeps_old_numbers(data: Triplets) -> None:
    frame = data.frame()
    rare = frame["explanation"].value_counts(sort=True).tail(20)["explanation"].to_list()
    old = Triplets.from_frame(frame.filter(~pl.col("explanation").is_in(rare)))
    new = Triplets.from_frame(frame.filter(pl.col("explanation").is_in(rare)))
    for model in (BPER(epochs=30), CD(epochs=5), BPERJ(epochs=10)):
        model.fit(old)
        users = model.catalog_.users.ids
        model.partial_fit(new, epochs=10)
        assert model.catalog_.users.ids[: len(users)].to_list() == users.to_list()
        assert len(model.catalog_.explanations) == len(data.explanations)
        assert set(rare) <= {
            each.explanation for each in model.explain(data.users.ids[0], data.items.ids[0], n=500, **PLAIN)
        }


def test_partial_fit_counts_what_is_known_once(split: Split) -> None:
    model = BPER(epochs=2).fit(split)
    before = model.catalog_
    model.partial_fit(split.train, epochs=1)
    for name in ("popularity", "mean_rating"):
        assert np.array_equal(getattr(model.catalog_, name), getattr(before, name), equal_nan=True)
    for name in ("user_explanations", "item_explanations", "user_items"):
        for one, other in zip(getattr(model.catalog_, name), getattr(before, name), strict=True):
            assert np.array_equal(one, other), name
    user, item = split.train.users.ids[int(split.train.user[0])], split.train.items.ids[int(split.train.item[0])]
    said = Triplets.from_frame({"user": [user] * 2, "item": [item] * 2, "explanation": ["quite new", "newer"]})
    grown = model.partial_fit(said, epochs=1).catalog_
    assert grown.popularity.tolist() == [*before.popularity.tolist(), 1, 1]
    assert grown.user_items.counts.max() == 1
    assert len(grown.user_items.indices) == split.training.records


def test_a_model_says_that_it_has_taken_in_further_data(split: Split, data: Triplets) -> None:
    model, twin = BPER(epochs=1).fit(split.train), BPER(epochs=1).fit(split.train)
    assert model.data_digest_ == split.train.digest()
    seen = {model.data_digest_}
    model.fold_in(split.train)  # nothing new
    assert model.data_digest_ in seen
    for one in (model, twin):
        one.fold_in(split.validation)
    assert model.data_digest_ == twin.data_digest_ not in seen
    seen.add(model.data_digest_)
    model.partial_fit(split.test, epochs=1)
    assert model.data_digest_ not in seen
    features = np.random.default_rng(0).normal(size=(len(data.explanations), 4))
    plus = BPERPlus(features=features, epochs=1).fit(data)
    plus.add_explanations(["quite new"], features=features[:1])
    assert plus.data_digest_ != data.digest()


@pytest.mark.parametrize("model", [COUNTS(), BPERJ(epochs=5)], ids=lambda m: m.id)
def test_a_table_is_folded_in_and_what_is_unknown_is_skipped_and_counted(model: Model, split: Split) -> None:
    model.fit(split.train)
    said, known = split.train.explanations.ids[:3].to_list(), split.train.frame().row(0)
    rows = [("ann", "new inn", said[0]), ("ann", "new inn", "never heard"), ("bob", "new inn", "never heard")]
    rows += [("ann", known[1], each) for each in said] + [(known[0], known[1], said[0])]
    table = pl.DataFrame(rows, schema=["user", "item", "explanation"], orient="row")
    size = len(model.catalog_.users)
    assert model.fold_in(table).folded_in_ == (4, 1, 1, 2, 1)
    assert len(model.catalog_.users) == size + 1
    assert model.catalog_.users.numbers(["bob"], missing="negative") == [-1]
    assert {each.fallback for each in model.explain("ann", known[1])} == {None}
    digest = model.digest()
    assert model.fold_in(table).folded_in_ == (0, 0, 0, 2, 3)
    assert model.digest() == digest


def test_the_command_folds_in_a_file(split: Split, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    COUNTS().fit(split).save(tmp_path / "model")
    said = split.train.explanations.ids[0]
    pl.DataFrame({"user": ["ann"] * 2, "item": ["new"] * 2, "explanation": [said, "?"]}).write_csv(tmp_path / "new.csv")
    asked = ["fold-in", str(tmp_path / "model"), str(tmp_path / "new.csv"), "-o", str(tmp_path / "larger")]
    with pytest.raises(SystemExit) as leaving:
        main([*asked, "--json"])
    assert not leaving.value.code
    found = json.loads(capsys.readouterr().out)
    assert found.items() >= {"triplets": 1, "users": 1, "items": 1, "unknown_explanations": 1}.items()
    assert load(tmp_path / "larger").explain("ann", "new", grounded=False)[0].fallback is None


def test_cd_says_that_it_cannot_fold_in(split: Split) -> None:
    with pytest.raises(ParameterError, match="use partial_fit"):
        CD(epochs=1).fit(split).fold_in(split.test)


def test_a_grown_catalog_counts_as_one_of_all_triplets(split: Split) -> None:
    grown = Catalog.of(split.train).grown(split.test)
    whole = Catalog.of(split.data.take(np.sort(np.concatenate([split.train_records, split.test_records]))))
    assert grown.popularity.tolist() == whole.popularity.tolist()
    for name in ("user_explanations", "item_explanations", "user_items"):
        for one, other in zip(getattr(grown, name), getattr(whole, name), strict=True):
            assert np.array_equal(one, other), name
    assert np.allclose(grown.mean_rating, whole.mean_rating, equal_nan=True, atol=1e-5)


def dense(model: Model, users: np.ndarray, items: np.ndarray) -> np.ndarray:
    scores = model.queries(users, items).astype(np.float64) @ model.keys().T.astype(np.float64)
    bonus = model.bonus(users, items, 1)
    if bonus is not None:
        scores[np.repeat(np.arange(len(users)), np.diff(bonus.indptr)), bonus.explanations] += bonus.values
    return scores


@pytest.mark.parametrize("mu", [0.0, 0.3, 0.7, 1.0])
def test_bper_is_a_cd_with_the_mended_embedding(split: Split, mu: float) -> None:
    bper = BPER(epochs=3, mu=mu, factors=5).fit(split)
    cd = bper.as_cd()
    users, items = split.test.record_user[:50], split.test.record_item[:50]
    assert cd.factors == 2 * 5 + 2
    assert np.allclose(dense(bper, users, items), dense(cd, users, items), atol=1e-5)
    ours, theirs = rank(bper, users, items, 10), rank(cd, users, items, 10)
    assert np.allclose(ours.scores, theirs.scores, atol=1e-5)


def test_the_printed_embedding_would_weigh_both_sides_by_mu_times_one_minus_mu(split: Split) -> None:
    bper = BPER(epochs=3, mu=0.7, factors=5).fit(split)
    user, item, keys = bper.user_factors_[0], bper.item_factors_[0], bper.keys()[0]
    p = np.concatenate([0.7 * user, np.full(5, 0.7), [0.7, 0.7]])
    q = np.concatenate([np.full(5, 0.3), 0.3 * item, [0.3, 0.3]])
    printed = (p * q) @ keys
    expected = 0.21 * (user @ keys[:5] + item @ keys[5:10] + keys[10] + keys[11])
    assert printed == pytest.approx(expected, abs=1e-6)


def test_pitf_is_bper_with_mu_a_half_and_no_biases(split: Split) -> None:
    pitf = PITF(epochs=3).fit(split)
    users, items = split.test.record_user[:50], split.test.record_item[:50]
    assert np.allclose(dense(pitf, users, items), 2 * dense(pitf.as_bper(), users, items), atol=1e-5)


def test_mu_changes_a_fitted_model_without_refitting(split: Split) -> None:
    bper = BPER(epochs=20, mu=1.0).fit(split)
    user = split.data.users.ids[0]
    by_user = [bper.explain(user, item, **PLAIN)[0].explanation for item in split.data.items.ids[:5]]
    assert len(set(by_user)) == 1  # with mu = 1 the item does not matter
    same = [bper.explain(user, item, **PLAIN | {"mu": 0.3}) for item in split.data.items.ids[:5]]
    bper.mu = 0.3
    assert [bper.explain(user, item, **PLAIN) for item in split.data.items.ids[:5]] == same
    bper.mu = 0.0
    item = split.data.items.ids[0]
    by_item = [bper.explain(user, item, **PLAIN)[0].explanation for user in split.data.users.ids[:5]]
    assert len(set(by_item)) == 1


def test_exact_pairs_agree_with_brute_force(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST", "CHUNK"):  # one item at a time, so that a bound that is too low is found out
        monkeypatch.setattr(f"whyrank.explain.recommend.{name}", 1)
    everything = np.arange(len(split.data.items), dtype=np.int32)
    for model, user in product((BPERJ(epochs=30).fit(split), ProfileJ(epochs=2, item_epochs=2).fit(split)), (3, 4, 7)):
        number = np.full(len(everything), user, np.int32)
        scores = dense(model, number, everything) + (model.item_keys() @ model.item_queries(number[:1])[0])[:, None]
        scores[model.catalog_.user_items.row(user)] = -np.inf
        best = np.sort(scores.ravel())[::-1][:7]
        pairs = model.recommend_pairs(split.data.users.ids[user], n=7, **PLAIN)
        assert np.allclose([pair.score for pair in pairs], best, atol=1e-4)
        assert all(pair.score == pytest.approx(pair.item_score + pair.reason.score, abs=1e-4) for pair in pairs)


@pytest.mark.parametrize(
    "options",
    [
        {"grounded": True},
        {"polarity": "negative"},
        {"specificity": 0.7},
        {"grounded": True, "polarity": "positive", "specificity": -0.3},
    ],
)
def test_exact_pairs_obey_options_as_brute_force_does(
    split: Split, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FIRST", "CHUNK"):
        monkeypatch.setattr(f"whyrank.explain.recommend.{name}", 1)
    everything = np.arange(len(split.data.items), dtype=np.int32)
    for model in (BPERJ(epochs=20).fit(split), ProfileJ(epochs=1, item_epochs=1).fit(split)):
        catalog, wanted = model.catalog_, Options.plain(**options)
        number = np.full(len(everything), 5, np.int32)
        scores = dense(model, number, everything)
        scores += 0 if wanted.boost(catalog) is None else wanted.boost(catalog)
        scores = 0.5 * scores + (model.item_keys() @ model.item_queries(number[:1])[0])[:, None]
        scores[catalog.user_items.row(5)] = -np.inf
        if wanted.allowed(catalog) is not None:
            scores[:, ~wanted.allowed(catalog)] = -np.inf
        if wanted.grounded:
            said = np.zeros(scores.shape, bool)
            said[catalog.item_explanations.rows_of_entries(), catalog.item_explanations.indices] = True
            scores[~said] = -np.inf
        best = np.sort(scores.ravel())[::-1][:9]
        pairs = model.recommend_pairs(split.data.users.ids[5], 9, 0.5, **vars(wanted))
        assert np.allclose([pair.score for pair in pairs], best[np.isfinite(best)], atol=1e-4)


def test_what_is_known_counts_once_when_it_is_folded_in_again(split: Split) -> None:
    model, train = COUNTS().fit(split), split.train
    user, item = train.users.ids[int(train.user[0])], train.items.ids[int(train.item[0])]
    before = model.explain(user, item)
    assert model.fold_in(split.train).explain(user, item) == before
    grown = model.fold_in(split.training).catalog_
    assert grown.user_items.counts.max() == 1
    assert len(grown.user_items.indices) == split.training.records


@pytest.mark.parametrize("model", [BPERJ(epochs=30), ProfileJ(epochs=2, item_epochs=3)], ids=lambda m: m.id)
def test_a_new_item_is_ranked_near_those_it_is_like(model: Model, data: Triplets, tmp_path: Path) -> None:
    model.fit(data)
    said = data.frame().filter(pl.col("item") == data.items.ids[3]).select("explanation").unique(maintain_order=True)
    like = said.with_columns(user=pl.lit("a newcomer"), item=pl.lit("a new item"))
    model.fold_in(Triplets.from_frame(like))
    user = data.users.ids[0]
    everything = model.recommend(user, len(model.catalog_.items))
    assert "a new item" in [each.item for each in everything]
    assert len(model.recommend_pairs(user, 5)) == 5
    back = load(model.save(tmp_path / "grown"))
    assert [each.item for each in back.recommend(user, 9)] == [each.item for each in everything[:9]]
    if isinstance(model, ProfileJ):
        vectors = model.item_vectors_ / np.maximum(np.linalg.norm(model.item_vectors_, axis=1, keepdims=True), 1e-9)
        assert vectors[-1] @ vectors[3] > np.median(vectors[:-1] @ vectors[3])


def test_a_model_that_has_answered_is_copied_like_one_that_has_not(split: Split) -> None:
    for model in (BPER(epochs=3).fit(split), ProfileJ(epochs=1, item_epochs=1).fit(split)):
        pair = split.data.users.ids[0], split.data.items.ids[0]
        expected = model.explain(*pair)
        assert copy.deepcopy(model).explain(*pair) == expected


def test_a_digest_changes_with_all_that_answers_come_from(split: Split) -> None:
    model = BPER(epochs=2).fit(split)
    seen = {model.digest(), copy.copy(model).digest()}
    assert len(seen) == 1
    model.mu = 0.1
    seen.add(model.digest())
    model.item_factors_ = model.item_factors_ + np.float32(1)
    seen.add(model.digest())
    model.fold_in(split.test)
    seen.add(model.digest())
    assert len(seen) == 4


def test_scores_of_pairs_are_those_of_their_reasons_at_any_weight(split: Split) -> None:
    model, user = ProfileJ(epochs=1, item_epochs=1).fit(split), split.data.users.ids[2]
    for weight in (1e-8, 1.0, 1e8):
        for pair in model.recommend_pairs(user, 3, weight, **PLAIN):
            alone = {each.explanation: each for each in model.explain(user, pair.item, 300, **PLAIN)}
            assert pair.reason.score == pytest.approx(alone[pair.reason.explanation].score, rel=1e-6)
            assert sum(pair.reason.parts.values()) == pytest.approx(pair.reason.score, abs=1e-4)
    for weight in (0.0, 1e-50, 1e50, float("nan")):
        with pytest.raises(ParameterError, match="weight"):
            model.recommend_pairs(user, 3, weight)
