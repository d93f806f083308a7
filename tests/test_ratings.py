"""The scale of ratings: recognised from the data, not stretched by a few odd values, and what polarity makes of it."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whyrank as wr
from whyrank.data import Triplets, read, read_split, write
from whyrank.data.catalog import Catalog
from whyrank.data.describe import describe
from whyrank.data.ratings import SCALES, count_outside, count_scales, on_scale, scale_of, within
from whyrank.data.sentiment import from_ratings, sentiment_of
from whyrank.errors import DataError, ParameterError

STARS = [5.0, 4.0, 1.0, 2.0, 5.0, 4.0, 3.0, 5.0, 1.0, 5.0, 4.0, 5.0]


def rated(ratings: list[float], explanations: list[str] | None = None, **settings: object) -> Triplets:
    """A record each; explanations `e0`, `e1` that no word tells, in turn, unless given."""
    said = explanations or [f"e{place % 2}" for place in range(len(ratings))]
    users = [f"u{place}" for place in range(len(ratings))]
    table = {"user": users, "item": ["i"] * len(ratings), "explanation": said, "rating": ratings}
    return Triplets.from_frame(pl.DataFrame(table), **settings)


@pytest.mark.parametrize(
    ("ratings", "scale"),
    [
        (STARS, (1, 5)),
        ([*STARS, 26.0], (1, 5)),
        ([*STARS, float("inf"), float("-inf")], (1, 5)),
        ([*STARS, 0.5], (1, 5)),
        ([*STARS, 0.5, 1.5, 0.5], (0, 5)),
        ([1.0] * 9 + [5.0], (1, 5)),
        ([0.0, 1.0] * 10, (0, 1)),
        ([0.0, 1.0] * 10 + [99.0], (0, 1)),
        ([each * 2 for each in STARS], (1, 10)),
        ([*(each * 2 for each in STARS), 26.0], (1, 10)),
        ([each * 20 for each in STARS], (0, 100)),
        ([-40.0, 300.0, 20.0], None),
        ([1.0, 50.0], (0, 100)),
        ([], None),
    ],
)
def test_the_scale_is_the_narrowest_common_one_that_holds_nearly_all(
    ratings: list[float], scale: tuple[float, float] | None
) -> None:
    assert scale_of(count_scales(np.array(ratings, np.float64))) == scale


@given(st.lists(st.floats(width=32), max_size=60), st.integers(0, 60))
def test_counts_of_parts_tell_the_scale_of_the_whole(ratings: list[float], cut: int) -> None:
    values = np.array(ratings, np.float64)
    counts = count_scales(values)
    assert (count_scales(values[:cut]) + count_scales(values[cut:]) == counts).all()
    scale = scale_of(counts)
    kept = within(values, scale)
    assert np.isfinite(kept[~np.isnan(kept)]).all()
    assert int((np.isnan(kept) & ~np.isnan(values)).sum()) == count_outside(counts, scale)
    assert scale is None or scale in SCALES


@pytest.mark.parametrize("odd", [26.0, float("inf"), float("-inf"), -3.0, 1e39])
def test_a_rating_outside_of_the_scale_changes_nothing_but_its_own_record(
    odd: float, caplog: pytest.LogCaptureFixture
) -> None:
    kinds = ["praise" if each > 3 else "blame" for each in STARS]
    plain, stretched = rated(STARS, kinds), rated([*STARS, odd], [*kinds, "praise"])
    assert "1 rating outside of the scale 1 to 5, taken as unknown" in caplog.text
    assert stretched.rating is not None
    assert np.isnan(stretched.rating).sum() == 1
    one, other = Catalog.of(plain), Catalog.of(stretched)
    np.testing.assert_array_equal(np.sign(one.sentiment), np.sign(other.sentiment))
    json.dumps(describe(stretched).as_dict(), allow_nan=False)
    json.dumps(other.sentiment.tolist(), allow_nan=False)


def test_a_named_scale_is_kept_in_splits_and_models(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Ratings that look like stars, but are out of ten: none of them is praise."""
    path = write(rated([*STARS, 11.0]), tmp_path / "t.csv")
    caplog.clear()
    named = read(path, rating_range=(1, 10))
    assert named.rating_range == (1, 10)
    assert "outside" not in caplog.text  # 11 was dropped when the table was made
    assert (from_ratings(*_ratings(Catalog.of(named))) < 0).all()
    assert not (from_ratings(*_ratings(Catalog.of(read(path)))) < 0).all()
    split = read_split(named.split(seed=0).write(tmp_path / "split"))
    assert split.data.rating_range == (1, 10)
    model = wr.load(wr.POP().fit(split).save(tmp_path / "pop"))
    assert model.catalog_.rating_range == (1, 10)
    assert named.filtered().rating_range == (1, 10)


def _ratings(catalog: Catalog) -> tuple[object, object, object]:
    return catalog.mean_rating, catalog.popularity, catalog.rating_range


@pytest.mark.parametrize("named", [(5, 1), (1, float("inf")), (1,), "1:5", 5])
def test_a_range_that_is_none_is_refused(named: object) -> None:
    with pytest.raises(ParameterError, match="rating_range"):
        rated(STARS, rating_range=named)


def test_a_split_is_not_cleaned_twice(tmp_path: Path) -> None:
    """94% are stars, 96% on a scale of ten: once the rest is unknown, 98% are stars."""
    ratings = [4.0] * 94 + [9.0] * 2 + [50.0] * 4
    data = rated(ratings)
    assert read_split(data.split(seed=0).write(tmp_path / "split")).data.digest() == data.digest()
    with pytest.raises(ParameterError, match="is split already"):
        read(tmp_path / "split", rating_range=(1, 5))


def test_no_scale_of_ones_own_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    odd = np.array([-40.0, 300.0, 20.0, np.inf, np.nan])
    with caplog.at_level(logging.WARNING):
        assert on_scale(odd, None).tolist()[:3] == [-40.0, 300.0, 20.0]
    assert "1 rating not finite" in caplog.text


def test_words_and_ratings_are_combined() -> None:
    texts = pl.Series(["awful rude staff", "great clean rooms", "room 12", "lovely pool"])
    ratings = np.array([4.4, 4.4, 4.6, np.nan], np.float32)
    mixed = sentiment_of(texts, np.append(ratings, np.float32(1))[:4], np.array([50, 50, 50, 1]))
    alone = from_ratings(ratings, np.array([50, 50, 50, 1]))
    assert alone[0] > 0 > mixed[0]  # the words outweigh a mild rating
    assert mixed[1] > alone[1]
    assert mixed[2] == alone[2]  # no word tells
    assert mixed[3] > 0  # no rating tells
    equal = sentiment_of(texts, np.full(4, 1, np.float32), np.ones(4, np.int64))
    assert equal[1] > 0 > equal[0]  # ratings that are all the same tell nothing


def test_positive_keeps_what_is_neutral_and_negative_does_not() -> None:
    texts = ["great pool", "room 12", "awful noise"]
    rows = {"user": list("abc"), "item": ["i"] * 3, "explanation": list("def"), "text": texts}
    model = wr.POP().fit(Triplets.from_frame(pl.DataFrame(rows)))
    shown = {
        polarity: [each.text for each in model.explain("a", "i", polarity=polarity, support=1)]
        for polarity in ("positive", "negative")
    }
    assert sorted(shown["positive"]) == ["great pool", "room 12"]
    assert shown["negative"] == ["awful noise"]


def test_a_model_with_ratings_that_are_not_finite_still_gives_numbers() -> None:
    """As version 0.1 saved them."""
    sentiment = from_ratings(np.array([4.0, np.inf, 2.0, np.nan], np.float32), np.array([3, 1, 3, 0]))
    assert np.isnan(sentiment[[1, 3]]).all()
    assert sentiment[0] > 0 > sentiment[2]


def test_a_rating_column_of_another_type_is_named() -> None:
    rows = pl.DataFrame({"user": ["a"], "item": ["b"], "explanation": ["c"], "rating": [[5]]})
    with pytest.raises(DataError, match=r"column 'rating': a column of type List"):
        Triplets.from_frame(rows)
