from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyrank.data import Triplets
from whyrank.data.catalog import Catalog
from whyrank.data.describe import describe
from whyrank.errors import DataError

rows = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz"), st.sampled_from("12345")), min_size=1, max_size=60
)


def frame(triplets: list[tuple[str, str, str]]) -> pl.DataFrame:
    return pl.DataFrame(triplets, schema=["user", "item", "explanation"], orient="row")


@given(rows, st.randoms())
def test_the_order_and_repeats_of_rows_do_not_matter(triplets: list[tuple[str, str, str]], random: object) -> None:
    shuffled = triplets + triplets[:3]
    random.shuffle(shuffled)
    one, other = Triplets.from_frame(frame(triplets)), Triplets.from_frame(frame(shuffled))
    assert one.digest() == other.digest()
    assert sorted(one.frame().rows()) == sorted(set(triplets))


@given(rows)
def test_views_agree_with_plain_sets(triplets: list[tuple[str, str, str]]) -> None:
    made = Triplets.from_frame(frame(triplets))
    for number, user in enumerate(made.users.ids):
        said = {e for u, _, e in triplets if u == user}
        seen = {i for u, i, _ in triplets if u == user}
        assert set(made.explanations.terms(made.user_explanations.row(number))) == said
        assert set(made.items.terms(made.user_items.row(number))) == seen
    for number, item in enumerate(made.items.ids):
        assert set(made.explanations.terms(made.item_explanations.row(number))) == {
            e for _, i, e in triplets if i == item
        }
    for number, explanation in enumerate(made.explanations.ids):
        assert made.popularity[number] == len({(u, i) for u, i, e in triplets if e == explanation})


def test_ratings_and_times_belong_to_records(tiny: Triplets) -> None:
    assert tiny.records == 4
    assert tiny.rating is not None
    assert tiny.time is not None
    assert tiny.rating.tolist() == [5, 4, 3, 1]
    assert tiny.time.tolist() == [1577836800, 1580515200, 1583020800, 1585699200]


def test_texts_belong_to_explanations(tiny: Triplets) -> None:
    assert dict(zip(tiny.explanations.ids, tiny.text_of(np.arange(4)), strict=True))["rude"] == "Rude staff"


def test_taken_records_share_vocabularies(tiny: Triplets) -> None:
    taken = tiny.take(np.array([3, 0]))
    assert taken.users is tiny.users
    assert taken.frame()["user"].to_list() == ["cat", "ann", "ann"]
    assert taken.rating is not None
    assert taken.rating.tolist() == [1, 5]


def test_filtering_repeats_until_stable() -> None:
    chain = [("a", "x", "1"), ("a", "y", "1"), ("b", "x", "2"), ("b", "y", "2"), ("c", "x", "1"), ("c", "z", "3")]
    kept = Triplets.from_frame(frame(chain)).filtered(user_pairs=2, explanation_uses=2)
    assert set(kept.frame().rows()) == set(chain[:4])  # c loses z's only reason, hence a pair, hence all


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"user": ["a"], "item": ["b"]}, "missing column"),
        ({"user": ["a", ""], "item": ["b", "b"], "explanation": ["c", "c"]}, "row 2, column 'user': empty id"),
        ({"user": ["a"], "item": [None], "explanation": ["c"]}, "column 'item': empty id"),
        ({"user": ["a"], "item": ["b"], "explanation": ["c"], "rating": ["good"]}, "not a number"),
        ({"user": ["a"], "item": ["b"], "explanation": ["c"], "time": ["soon"]}, "not a time"),
    ],
)
def test_bad_tables_are_refused_by_name(columns: dict[str, list[str]], problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        Triplets.from_frame(pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String)))


def test_describe_counts_as_table_2_does(tiny: Triplets) -> None:
    description = describe(tiny)
    assert (description.users, description.items, description.explanations) == (3, 2, 4)
    assert (description.pairs, description.triplets) == (4, 5)
    assert description.explanations_per_pair == 1.25
    assert description.density == pytest.approx(5 / 24)
    assert description.most_said[0] == ("Quiet rooms", 2)
    assert description.per_user.once == 2


def test_sentiment_follows_ratings(tiny: Triplets) -> None:
    catalog = Catalog.of(tiny)
    sentiment = dict(zip(catalog.explanations.ids, catalog.sentiment, strict=True))
    assert sentiment["clean"] > 0 > sentiment["rude"]


def test_sentiment_follows_words_without_ratings() -> None:
    words = frame([("a", "x", "1"), ("a", "x", "0")]).with_columns(text=pl.Series(["Great breakfast", "Awful noise"]))
    catalog = Catalog.of(Triplets.from_frame(words))
    assert catalog.sentiment[0] < 0 < catalog.sentiment[1]


def test_tables_of_other_libraries_are_taken_as_they_are() -> None:
    pandas = pytest.importorskip("pandas")  # comes with ranx
    columns = {"user": ["a", "b"], "item": ["1", "2"], "explanation": ["x", "y"], "rating": [4.0, None]}
    expected = Triplets.from_frame(pl.DataFrame(columns)).digest()
    for table in (columns, pandas.DataFrame(columns), pl.LazyFrame(columns)):
        assert Triplets.from_frame(table).digest() == expected
    with pytest.raises(DataError, match="int is not a table"):
        Triplets.from_frame(3)
