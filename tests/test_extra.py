"""EXTRA's rules: which sentences of reviews become explanations, beside plain Python."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyrank.errors import DataError
from whyrank.lab.extra import find_extra
from whyrank.lab.extra.sentences import cut, grouped, near_pairs, with_wordings

LONG = "The friendly staff at the front desk went out of their way to make everyone feel very welcome"


def of(texts: list[str], **more: list[str]) -> pl.DataFrame:
    """Reviews of as many users of one item."""
    users = [f"u{k}" for k in range(len(texts))]
    return pl.DataFrame({"user": users, "item": ["x"] * len(texts), "text": texts} | more)


def found(reviews: pl.DataFrame, **settings: float) -> dict[str, int]:
    """The texts of explanations and their records."""
    triplets = find_extra(reviews, **settings).triplets  # type: ignore[arg-type]
    assert triplets.texts is not None
    return dict(zip(triplets.texts, triplets.popularity.tolist(), strict=True))


def test_sentences_that_come_back_are_explanations_with_their_records() -> None:
    said = ["Great location! We came by train", "great location, odd", "It was 3.5 stars: great location"]
    assert found(of(said), min_count=3) == {"great location": 3}
    with pytest.raises(DataError, match="often enough"):
        find_extra(of(said), min_count=4)


def test_one_user_and_item_are_one_record_however_often_they_say_it() -> None:
    twice = pl.DataFrame({"user": ["a", "a", "b"], "item": ["x"] * 3, "text": ["Nice pool"] * 3})
    assert found(twice, min_count=2) == {"Nice pool": 2}


def test_first_persons_single_words_and_sentences_without_noun_or_adjective_are_left_out() -> None:
    said = "I'm a happy guest. Our big room. Quiet. very clean. The staff. Sunny park. Quiet room"
    assert set(found(of([said] * 5))) == {"Sunny park", "Quiet room"}


def test_near_duplicates_join_the_most_frequent_wording() -> None:
    said = [LONG] * 4 + [f"{LONG} indeed"] * 2 + [f"{LONG} always"]
    assert found(of(said), min_count=7) == {LONG: 7}
    assert find_extra(of(said), min_count=2, similarity=1.0).triplets.popularity.tolist() in ([4, 2], [2, 4])


def test_titles_are_sentences_and_decimal_points_end_none() -> None:
    assert "Good value" in found(of(["odd"] * 5, title=["Good value"] * 5))
    pieces = cut(of(["A 3.5 star inn, open 7:30 to 9"], title=[""]).with_columns(rating=0.0, time=0, source=pl.lit("")))
    assert pieces["normalized"].to_list() == ["a 3.5 star inn", "open 7:30 to 9"]


def test_the_order_of_reviews_makes_no_difference() -> None:
    words = np.random.default_rng(0).choice(["nice", "big", "warm", "pool", "room", "old"], (300, 2))
    table = of([" ".join(pair) for pair in words])
    one, other = (find_extra(each, min_count=2).triplets for each in (table, table.reverse()))
    assert one.digest() == other.digest()


WORDINGS = st.lists(
    st.lists(st.sampled_from("abcd"), min_size=2, max_size=14).map(" ".join), min_size=1, max_size=12, unique=True
)


@given(WORDINGS, st.sampled_from([0.5, 0.7, 0.9]))
def test_near_pairs_are_those_of_brute_force(texts: list[str], similarity: float) -> None:
    mentions, sets = with_wordings(pl.DataFrame({"normalized": texts}))
    pairs = {tuple(pair) for pair in near_pairs(sets, similarity).iter_rows()}
    words = {
        number: set(zip(text.split(), text.split()[1:], strict=False))
        for number, text in mentions.select("wording", "normalized").iter_rows()
    }
    expected = {
        (a, b)
        for a, b in combinations(sorted(words), 2)
        if len(words[a] & words[b]) >= similarity * len(words[a] | words[b]) - 1e-9
    }
    assert pairs == expected


def test_a_group_has_a_center_and_no_chains() -> None:
    wordings = pl.DataFrame({"wording": [3, 1, 2], "text": ["C", "A", "B"], "normalized": ["c", "a", "b"]})
    pairs = pl.DataFrame({"left": [1, 1], "right": [3, 2]})  # 2 is near 1, which 3 takes
    assert dict(grouped(wordings, pairs).select("wording", "text").iter_rows()) == {3: "C", 1: "C", 2: "B"}
