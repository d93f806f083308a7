"""Reviews out of files, a few thousand at a time: JSON lines, CSV, TSV and Parquet, plain or compressed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from whyrank.data.columns import parse_times, text_column
from whyrank.data.compressed import EXPANSION
from whyrank.data.foreign import trimmed
from whyrank.data.problems import Problems, located
from whyrank.data.ratings import LARGEST, Range
from whyrank.data.tables import table_batches
from whyrank.errors import DataError

Sources = str | Path | pl.DataFrame | Sequence[str | Path | pl.DataFrame]

CHUNK = 2000  # reviews that are looked at together
# Names of the fields in well-known sets of reviews (Amazon 2014, 2018 and 2023, Yelp, Google, Goodreads), best first.
FIELDS = {
    "user": ("user", "user_id", "reviewerID", "userId", "reviewer_id", "customer_id", "author_id", "author"),
    "item": (
        "item",
        "item_id",
        "asin",
        "business_id",
        "parent_asin",
        "product_id",
        "hotel_id",
        "book_id",
        "gmap_id",
        "itemId",
    ),
    "text": ("text", "reviewText", "review_text", "review_body", "review", "body", "content", "comment"),
    "title": ("title", "summary", "review_title", "review_headline", "headline"),
    "rating": ("rating", "overall", "stars", "star_rating", "score"),
    "source": ("review_id", "reviewId", "id"),
    "time": ("time", "unixReviewTime", "timestamp", "date", "review_date", "reviewTime", "date_added"),
}
REQUIRED = ("user", "item", "text")
WRITTEN = r"(?i)^\s*(\d+(?:[.,]\d+)?)\s*(?:(?:/|out of|of)\s*\d+(?:[.,]\d+)?|stars?|\*+)?\s*$"


@dataclass
class Reading:
    """What is counted while reviews are read."""

    problems: Problems
    rating_range: Range | None = None  # ratings outside of it are unknown
    max_expansion: float = EXPANSION
    trim: bool = False  # remove blanks around ids
    reviews: int = 0  # rows of the sources
    odd_ratings: int = 0
    unread_ratings: int = 0
    unread_times: int = 0
    unread_time: str = ""  # an example of them
    rejected: dict[str, int] = field(default_factory=dict)  # by cause

    def reject_broken(self) -> None:
        """Count rows that could not be read at all, which were no reviews yet."""
        for cause, count in self.problems.counts.items():
            new = count - self.rejected.get(cause, 0)
            self.reviews += new
            self.reject(cause, new)

    def reject(self, cause: str, count: int) -> None:
        if count:
            self.rejected[cause] = self.rejected.get(cause, 0) + count


def read_reviews(
    sources: Sources, columns: Mapping[str, str] | None, reading: Reading, *, several: bool = False
) -> Iterator[pl.DataFrame]:
    """Tables of reviews: user, item, title, text, rating and time (missing ones null), in the order of the sources.

    `columns` maps our names to the source's: `columns={"user": "reviewer"}`. Other names are found by themselves.
    `several`: others are read elsewhere, so that rows are named with their file, as they are where several are read.
    """
    unknown = set(columns or ()) - set(FIELDS)
    if unknown:
        raise DataError(f"columns names {min(unknown)!r}", expected=f"a mapping from some of {', '.join(FIELDS)}")
    listed = [sources] if isinstance(sources, str | Path | pl.DataFrame) else list(sources)
    several |= len(listed) > 1
    for source in listed:
        path = None if isinstance(source, pl.DataFrame) else Path(source)
        mapping: dict[str, str] | None = None
        row = 1
        for table in _tables(source, columns, reading):
            if mapping is None:
                mapping = find_fields(table.columns, columns, path)
            found = _reviews(table, mapping, path, row, reading)
            if several and "source" not in mapping and path is not None:
                found = found.with_columns(source=pl.concat_str(pl.lit(f"{path.name}:"), "source"))
            yield found
            row += table.height
        reading.reject_broken()


def find_fields(names: Sequence[str], columns: Mapping[str, str] | None, path: Path | None) -> dict[str, str]:
    """Which of the source's fields is which of ours."""
    found = {}
    for ours, theirs in FIELDS.items():
        if columns and ours in columns:
            if columns[ours] not in names:
                raise DataError("no such field", path=path, column=columns[ours], expected=f"one of {', '.join(names)}")
            found[ours] = columns[ours]
        else:
            known = [name for name in theirs if name in names]
            found |= {ours: known[0]} if known else {}
    for ours in REQUIRED:
        if ours not in found:
            expected = f"columns={{{ours!r}: ...}} with one of {', '.join(names)}"
            raise DataError(f"no field for the {ours} of a review", path=path, expected=expected)
    return found


def _tables(
    source: str | Path | pl.DataFrame, columns: Mapping[str, str] | None, reading: Reading
) -> Iterator[pl.DataFrame]:
    if isinstance(source, pl.DataFrame):
        return source.iter_slices(CHUNK)
    path = Path(source)
    return table_batches(
        path,
        lambda names: dict.fromkeys(find_fields(names, columns, path).values()),
        reading.problems,
        CHUNK,
        reading.max_expansion,
    )


def _reviews(
    table: pl.DataFrame, mapping: Mapping[str, str], path: Path | None, row: int, reading: Reading
) -> pl.DataFrame:
    """Our columns in our types; rows without user, item or text are counted and left out."""
    with located(path):
        texts = {
            name: text_column(table, mapping[name])
            for name in (*REQUIRED, "title", "rating", "source")
            if name in mapping
        }
        time = _times(table[mapping["time"]], reading) if "time" in mapping else pl.lit(None, pl.Int64)
    rating = _ratings(texts.pop("rating"), reading) if "rating" in texts else pl.lit(None, pl.Float32)
    title = texts.pop("title").fill_null("") if "title" in texts else pl.lit("")
    required = (texts[name].alias(name) for name in REQUIRED)
    rows = pl.int_range(row, row + table.height, eager=True).cast(pl.String)
    source = pl.coalesce(texts["source"], rows) if "source" in texts else rows
    reviews = table.select(*required, source=source, title=title, rating=rating, time=time)
    reviews = trimmed(reviews) if reading.trim else reviews
    reading.reviews += reviews.height
    good = pl.repeat(True, reviews.height, eager=True)
    for name in REQUIRED:
        missing = (reviews[name].fill_null("").str.strip_chars() == "") & good
        if missing.any():
            reading.reject(f"no {name}", int(missing.sum()))
            if name != "text":  # an empty text is no mistake
                for at in missing.arg_true():
                    reading.problems.add(DataError(f"no {name}", path=path, row=row + at, column=mapping[name]))
            good &= ~missing
    return reviews if good.all() else reviews.filter(good)


def _ratings(texts: pl.Series, reading: Reading) -> pl.Series:
    """Ratings as numbers; what is none, infinite or outside of a named scale is unknown."""
    ratings = texts.cast(pl.Float64, strict=False).fill_nan(None)
    written = ratings.is_null() & (texts.fill_null("").str.strip_chars() != "")
    if written.any():  # 4/5, 4 out of 5, 4 stars, 4,5
        number = texts.str.extract(WRITTEN).str.replace(",", ".", literal=True).cast(pl.Float64, strict=False)
        ratings = pl.select(pl.coalesce(ratings, number)).to_series()
        reading.unread_ratings += int((written & ratings.is_null()).sum())
    low, high = reading.rating_range or (-LARGEST, LARGEST)
    odd = ~ratings.is_between(low, high).fill_null(True)
    reading.odd_ratings += int(odd.sum())
    return ratings.set(odd, None).cast(pl.Float32)


def _times(times: pl.Series, reading: Reading) -> pl.Series:
    """Times as seconds; those that cannot be read are counted."""
    found = parse_times(times)
    lost = found.is_null() & times.is_not_null()
    if lost.any():
        texts = text_column(times.to_frame(), times.name).filter(lost)
        texts = texts.filter(texts.str.strip_chars() != "")
        reading.unread_times += len(texts)
        reading.unread_time = reading.unread_time or str(texts.first() or "")
    return found
