"""Reviews out of files of every kind: which fields are meant, what is broken, what is cleaned."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from whyrank.data.columns import parse_times
from whyrank.data.problems import Problems
from whyrank.errors import DataError
from whyrank.mining.clean import clean_texts
from whyrank.mining.reviews import Reading, Sources, read_reviews


def reviews(count: int = 120) -> pl.DataFrame:
    stars = np.random.default_rng(0).integers(1, 6, count)
    rows = [
        (f"u{k % 20}", f"i{k % 7}", "Good value", f"Great pool, number {k}", float(stars[k]), 1_500_000_000 + k)
        for k in range(count)
    ]
    return pl.DataFrame(rows, ["user", "item", "title", "text", "rating", "time"], orient="row")


def read(sources: Sources, on_error: str = "raise", **settings: Any) -> tuple[pl.DataFrame, Reading]:
    """All reviews of some sources without the column that says where they are from, and what was counted."""
    columns = settings.pop("columns", None)
    reading = Reading(Problems(on_error), **settings)  # type: ignore[arg-type]
    return pl.concat(read_reviews(sources, columns, reading)).drop("source"), reading


KNOWN = read(reviews())[0]
AMAZON = {
    "user": "reviewerID",
    "item": "asin",
    "text": "reviewText",
    "title": "summary",
    "rating": "overall",
    "time": "unixReviewTime",
}
WRITERS: dict[str, Callable[[pl.DataFrame, Path], object]] = {
    "r.csv": lambda table, path: table.write_csv(path),
    "r.jsonl": lambda table, path: table.write_ndjson(path),
    "r.jsonl.gz": lambda table, path: table.write_ndjson(path, compression="gzip", check_extension=False),
    "r.json.zst": lambda table, path: table.write_ndjson(path, compression="zstd", check_extension=False),
    "r.parquet": lambda table, path: table.write_parquet(path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_files_of_every_kind_give_the_same(name: str, tmp_path: Path) -> None:
    WRITERS[name](reviews().rename(AMAZON), tmp_path / name)
    assert read(tmp_path / name)[0].equals(KNOWN)


def test_chunks_make_no_difference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("whyrank.mining.reviews.CHUNK", 7)
    reviews().write_csv(tmp_path / "r.csv")
    assert read(tmp_path / "r.csv")[0].equals(KNOWN)


def test_yelp_is_recognized_and_columns_can_be_mapped(tmp_path: Path) -> None:
    theirs = {"user": "user_id", "item": "business_id", "rating": "stars", "time": "date"}
    yelp = reviews().drop("title").rename(theirs).with_columns(date=pl.lit("2016-03-09 22:12:11"))
    yelp.write_ndjson(tmp_path / "yelp.jsonl")
    found = read(str(tmp_path / "yelp.jsonl"))[0]
    assert found.select("user", "item", "text", "rating").equals(KNOWN.select("user", "item", "text", "rating"))
    assert found["time"].unique().to_list() == [1457561531]
    own = {"user": "who", "text": "words"}
    assert read(reviews().rename(own), columns=own)[0].equals(KNOWN)


def test_several_sources_are_one(tmp_path: Path) -> None:
    reviews().head(50).write_ndjson(tmp_path / "a.jsonl")
    assert read([tmp_path / "a.jsonl", reviews().tail(70)])[0].equals(KNOWN)


def test_times_are_seconds_whatever_they_were() -> None:
    for times in (["1457561531"], [1457561531], [1457561531000], ["2016-03-09 22:12:11"], ["2016-03-09T22:12:11Z"]):
        assert parse_times(pl.Series("t", times)).to_list() == [1457561531]
    odd = ["2016-03-09", "03 9, 2016", "nonsense", None]
    assert parse_times(pl.Series("t", odd)).to_list() == [1457481600, 1457481600, None, None]
    zoned = read(reviews().with_columns(time=pl.lit("2016-03-09T23:12:11+01:00")))[0]
    assert zoned["time"].unique().to_list() == [1457561531]


def test_bad_rows_are_named_or_counted(tmp_path: Path) -> None:
    good = [json.dumps(row) for row in reviews().to_dicts()]
    path = tmp_path / "bad.jsonl"
    bad = ["{broken", '{"user": "", "item": "x", "text": "t"}', "[1]", ""]
    path.write_text("\n".join([*good[:3], *bad, *good[3:]]), "utf-8")
    with pytest.raises(DataError, match=r"bad.jsonl, row 4: broken JSON"):
        read(path)
    found, reading = read(path, "skip")
    assert reading.rejected == {"broken JSON": 1, "not a JSON object": 1, "no user": 1}
    assert reading.reviews == 123
    assert found.equals(KNOWN)


def test_a_ragged_csv_is_named_by_its_row_or_skipped_over(tmp_path: Path) -> None:
    path = tmp_path / "ragged.csv"
    path.write_text('user,item,text\na,x,"Great\npool"\nb,x,Great pool,more,more\nc,x,Great pool\nd,x,Fine\n', "utf-8")
    with pytest.raises(DataError, match=r"ragged.csv, row 4: wrong number of columns: 5"):
        read(path)
    found, reading = read(path, "skip")
    assert found["text"].to_list() == ["Great\npool", "Great pool", "Fine"]
    assert (reading.reviews, reading.rejected) == (4, {"wrong number of columns": 1})


@pytest.mark.parametrize(
    ("source", "message"),
    [(pl.DataFrame({"user": ["a"], "item": ["x"]}), "no field for the text"), ("nowhere.jsonl", "no such file")],
)
def test_unusable_sources_say_why(source: pl.DataFrame | str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(source)


def test_a_cut_gzip_and_an_open_quote_cost_their_own_rows_alone(tmp_path: Path) -> None:
    rows = "".join(f"u{n},i{n},Great pool number {n}\n" for n in range(3000))
    opened = tmp_path / "open.csv"
    opened.write_text(f'user,item,text\na,x,"Great pool\n{rows}', "utf-8")
    with pytest.raises(DataError, match=r"open.csv, row 2: broken row"):
        read(opened)
    assert read(opened, "skip")[1].rejected == {"broken row": 1}
    lines = "".join(json.dumps({"user": f"u{n}", "item": "x", "text": f"Great pool {n}"}) + "\n" for n in range(3000))
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(lines.encode())[:-3000])
    with pytest.raises(DataError, match="cut short or damaged"):
        read(cut)
    kept, reading = read(cut, "skip")
    assert 1000 < kept.height < 3000
    assert reading.rejected == {"cut short or damaged": 1}


def test_odd_columns_and_ratings_are_typed_errors_or_unknown() -> None:
    with pytest.raises(DataError, match=r"column 'text': a column of type List"):
        read(reviews().with_columns(text=pl.lit([["a"]]).first()))
    odd = reviews().with_columns(rating=pl.Series([float("inf"), 7.0, *[4.0] * 118]))
    found, reading = read(odd, rating_range=(1, 5))
    assert found["rating"].drop_nulls().unique().to_list() == [4.0]
    assert reading.odd_ratings == 2


def test_a_bomb_of_reviews_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = tmp_path / "bomb.jsonl.gz"
    bomb.write_bytes(gzip.compress(b'{"user":"a","item":"b","text":"' + b"a " * (1 << 20) + b'"}\n'))
    monkeypatch.setattr("whyrank.data.compressed.SMALL", 1 << 20)
    with pytest.raises(DataError, match="grows to more than 1 MB"):
        read(bomb)


def test_a_mark_before_utf_8_is_no_part_of_the_first_review(tmp_path: Path) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in reviews().to_dicts())
    (tmp_path / "marked.jsonl").write_text(f"\ufeff{lines}", "utf-8")
    assert read(tmp_path / "marked.jsonl")[0].equals(KNOWN)


def test_texts_are_cleaned_as_people_meant_them() -> None:
    dirty = [
        "The hotelâ€™s â€œpoolâ€\ufffd",
        "didn\ufffdt",
        "“Great” café – nice",
        "Fish &amp; chips",
        "<b>Nice</b> room<br>Big bed",
        "a•b",
    ]
    clean = ['The hotel\'s "pool"', "didn't", '"Great" café - nice', "Fish & chips", " Nice  room\nBig bed", "a\nb"]
    assert clean_texts(pl.Series(dirty)).to_list() == clean
