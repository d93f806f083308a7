"""Simulated data: exact counts, determinism, and the structure that was planted."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whyrank.data import Triplets
from whyrank.errors import ParameterError
from whyrank.lab.simulate import simulate_reviews
from whyrank.lab.simulate.draw import cover, make_distinct, spread, urn
from whyrank.lab.simulate.phrases import parse_aspects
from whyrank.lab.simulate.pool import sentences
from whyrank.lab.simulate.triplets import PRESETS, planted, resolve, simulate


def assert_exact(data: Triplets, users: int, items: int, explanations: int, records: int, triplets: int) -> None:
    assert (len(data.users), len(data.items), len(data.explanations)) == (users, items, explanations)
    assert (data.records, len(data)) == (records, triplets)
    for numbers, count in ((data.user, users), (data.item, items), (data.explanation, explanations)):
        assert len(np.unique(numbers)) == count
    assert len(set(zip(data.record_user.tolist(), data.record_item.tolist(), strict=True))) == records
    assert data.frame().select("user", "item", "explanation").n_unique() == triplets


@pytest.fixture(scope="module")
def small() -> Triplets:
    return simulate("small", seed=0)


def test_small_has_exactly_the_counts_of_its_preset(small: Triplets) -> None:
    assert_exact(small, *PRESETS["small"].sizes)


def test_the_large_presets_are_the_papers_table_2() -> None:
    assert PRESETS["amazon"].sizes == (109_121, 47_113, 33_767, 569_838, 793_481)
    assert PRESETS["tripadvisor"].sizes == (123_374, 200_475, 76_293, 1_377_605, 2_618_340)
    assert PRESETS["yelp"].sizes == (895_729, 164_779, 126_696, 2_608_860, 3_875_118)


@pytest.mark.parametrize("preset", ["amazon", "tripadvisor", "yelp"])
def test_a_scaled_preset_has_exactly_the_counts_asked_for(preset: str) -> None:
    counts = {"users": 1_000, "items": 1_500, "explanations": 900, "records": 4_000, "triplets": 6_100}
    assert_exact(simulate(preset, **counts, seed=3), **counts)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_feasible_counts_are_met_exactly(data: st.DataObject) -> None:
    users, items = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 12))
    records = data.draw(st.integers(max(users, items), users * items))
    explanations = data.draw(st.integers(2, min(40, 12 * records)))
    triplets = data.draw(st.integers(max(records, explanations), records * min(explanations, 12)))
    counts = (users, items, explanations, records, triplets)
    names = ("users", "items", "explanations", "records", "triplets")
    assert_exact(simulate(**dict(zip(names, counts, strict=True)), seed=data.draw(st.integers(0, 5))), *counts)


def test_counts_not_given_keep_the_proportions_of_the_preset() -> None:
    _, sizes = resolve("small", 1_200, None, None, None, None)
    assert sizes == (1_200, 120, 300, 12_000, 20_000)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"preset": "huge"}, "huge"),
        ({"users": 0}, "users"),
        ({"explanations": 1}, "explanations"),
        ({"records": 10}, "records"),
        ({"triplets": 5_999}, "triplets"),
        ({"explanations": 72_001}, "records hold at most"),
        ({"seed": -1}, "seed"),
    ],
)
def test_impossible_arguments_are_named(arguments: dict[str, int], word: str) -> None:
    with pytest.raises(ParameterError, match=word):
        simulate(**arguments)


def test_more_explanations_than_the_grammar_has_are_refused() -> None:
    with pytest.raises(ParameterError, match="sentences number only"):
        planted("small", explanations=10_000_000)


def test_a_seed_gives_the_same_data_and_another_seed_other_data(small: Triplets) -> None:
    assert simulate("small", seed=0).digest() == small.digest()
    assert simulate("small", seed=1).digest() != small.digest()


def test_ids_are_padded_so_that_they_sort_by_number(small: Triplets) -> None:
    assert small.users.ids[12] == "u000012"
    assert small.items.ids[12] == "i00012"
    assert small.explanations.ids[12] == "e00012"
    assert small.users.ids.is_sorted()


@pytest.mark.parametrize("domain", ["hotel", "movie", "restaurant"])
def test_every_sentence_is_a_clean_line_without_the_first_person(domain: str) -> None:
    cells = [(aspect, positive) for aspect in parse_aspects(domain) for positive in (True, False)]
    texts = pl.Series([each.text for cell in cells for each in sentences(domain, *cell, max_cost=2.0)])
    assert texts.str.contains(r"^[A-Z][a-z]+(-[a-z]+)?( [A-Za-z'-]+)+$").all()
    assert not texts.str.contains(r"(?i)\b(i|we|my|our|me|us)\b").any()
    assert texts.str.split(" ").list.len().max() <= 15


@pytest.mark.parametrize("domain", ["movie", "restaurant"])
def test_texts_are_distinct_even_without_case(domain: str) -> None:
    preset = next(name for name, preset in PRESETS.items() if preset.domain == domain)
    pool = planted(preset, explanations=20_000)
    assert len({text.lower() for text in pool.texts}) == 20_000


def test_the_truth_agrees_with_the_texts(small: Triplets) -> None:
    pool = planted("small", seed=0)
    assert small.texts is not None
    assert pool.texts == small.texts.to_list()
    assert ((pool.sentiment > 0) == pool.positive).all()
    bed = {pool.aspects[aspect] for aspect, text in zip(pool.aspect, pool.texts, strict=True) if "mattress" in text}
    assert bed == {"bed"}


def mutual_information(left: np.ndarray, right: np.ndarray) -> float:
    joint = np.zeros((left.max() + 1, right.max() + 1))
    np.add.at(joint, (left, right), 1 / len(left))
    outer = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    present = joint > 0
    return float((joint[present] * np.log(joint[present] / outer[present])).sum())


@pytest.mark.parametrize(("side", "times"), [("user", 1.7), ("item", 3.0)])
def test_users_and_items_have_aspects_of_their_own(small: Triplets, side: str, times: float) -> None:
    aspect = planted("small").aspect[small.explanation]
    shuffled = np.random.default_rng(0).permutation(aspect)
    numbers = getattr(small, side)
    assert mutual_information(numbers, aspect) > times * mutual_information(numbers, shuffled)


@pytest.mark.parametrize("side", ["user", "item"])
def test_users_and_items_have_wordings_of_their_own(small: Triplets, side: str) -> None:
    cell = planted("small").cell[small.explanation]
    swapped = np.empty_like(small.explanation)
    chance = np.random.default_rng(0).random(len(small))
    swapped[np.argsort(cell, kind="stable")] = small.explanation[np.lexsort((chance, cell))]
    numbers = getattr(small, side)
    assert mutual_information(numbers, small.explanation) > 1.01 * mutual_information(numbers, swapped)


def test_counts_of_user_and_item_rank_better_than_popularity(small: Triplets) -> None:
    split = np.random.default_rng(0).random(small.records) < 0.7
    train, test = small.take(np.flatnonzero(split)), small.take(np.flatnonzero(~split))
    shape = (len(small.users), len(small.explanations))
    by_user, by_item = np.zeros(shape), np.zeros((len(small.items), shape[1]))
    np.add.at(by_user, (train.user, train.explanation), 1)
    np.add.at(by_item, (train.item, train.explanation), 1)
    popular = np.broadcast_to(np.log1p(train.popularity), (test.records, shape[1]))
    spreading = 2 * np.sqrt(1 + train.popularity)
    by_user, by_item = np.log1p(by_user / spreading), np.log1p(by_item / spreading)
    personal = popular + by_user[test.record_user] + by_item[test.record_item]
    rows = test.record_explanations.rows_of_entries()

    def recall(scores: np.ndarray) -> float:
        tenth = np.sort(scores, axis=1)[:, -10]
        return float((scores[rows, test.explanation] >= tenth[rows]).mean())

    assert recall(personal) > 1.25 * recall(popular)


def test_ratings_are_stars_that_agree_with_the_sentiment(small: Triplets) -> None:
    csr = small.record_explanations
    tone = np.add.reduceat(planted("small").sentiment[csr.indices], csr.indptr[:-1]) / csr.sizes()
    assert small.rating is not None
    assert set(small.rating.tolist()) == {1.0, 2.0, 3.0, 4.0, 5.0}
    assert np.corrcoef(tone, small.rating)[0, 1] > 0.7


def test_popularity_and_activity_have_long_tails(small: Triplets) -> None:
    for counts in (small.popularity, np.bincount(small.user), np.bincount(small.item)):
        ordered = np.sort(counts)[::-1]
        assert ordered[: len(ordered) // 5].sum() > 0.45 * ordered.sum()


def test_times_span_years(small: Triplets) -> None:
    assert small.time is not None
    assert np.ptp(small.time) > 5 * 365 * 86_400


def test_reviews_are_one_per_record_and_hold_its_sentences(small: Triplets) -> None:
    reviews = simulate_reviews("small", seed=0)
    assert reviews.columns == ["user", "item", "rating", "time", "title", "text"]
    assert reviews["user"].equals(small.users.terms(small.record_user).alias("user"))
    assert reviews["time"].str.to_date("%Y-%m-%d").is_not_null().all()
    said = pl.DataFrame({"text": reviews["text"].gather(small.record_explanations.rows_of_entries())})
    said = said.with_columns(sentence=small.text_of(small.explanation))
    said = said.select(pl.all().str.to_lowercase())
    found = said.select(pl.col("text").str.contains(pl.col("sentence"), literal=True)).to_series()
    assert found.mean() > 0.85
    assert reviews["text"].str.len_chars().min() > 0


def test_reviews_have_noise_and_titles_of_both_kinds(small: Triplets) -> None:
    reviews = simulate_reviews("small", seed=0)
    assert small.texts is not None
    assert 0.5 < reviews["title"].is_in(small.texts.implode()).mean() < 0.95
    assert reviews["text"].str.contains(r"\b(I|We|My)\b").mean() > 0.5
    assert reviews.equals(simulate_reviews("small", seed=0))
    assert not reviews.equals(simulate_reviews("small", seed=1))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.data())
def test_spread_meets_the_total_within_the_caps(caps: list[int], data: st.DataObject) -> None:
    total = data.draw(st.integers(len(caps), sum(caps)))
    counts = spread(np.random.default_rng(0), total, np.linspace(1, 9, len(caps)), np.array(caps))
    assert counts.sum() == total
    assert (counts >= 1).all()
    assert (counts <= caps).all()


@given(st.integers(1, 8), st.integers(1, 6))
def test_make_distinct_deals_even_when_all_is_used(width: int, owners: int) -> None:
    owner = np.repeat(np.arange(owners), width)
    value = np.zeros(len(owner), np.int64)
    make_distinct(np.random.default_rng(0), owner, value, width, np.zeros_like)
    assert np.sort(value.reshape(owners, width), axis=1).tolist() == [list(range(width))] * owners


def test_cover_replaces_like_by_like() -> None:
    value = np.array([0, 0, 0, 3, 3, 3])
    cover(np.random.default_rng(0), value, np.array([0, 0, 1, 1]))
    assert sorted(value[:3].tolist()) == [0, 0, 1]
    assert sorted(value[3:].tolist()) == [2, 3, 3]


def test_an_urn_holds_numbers_by_weight() -> None:
    shares = np.bincount(urn(np.array([1.0, 0.0, 3.0])), minlength=3) / len(urn(np.array([1.0, 0.0, 3.0])))
    np.testing.assert_allclose(shares, [0.25, 0.0, 0.75], atol=1e-4)
