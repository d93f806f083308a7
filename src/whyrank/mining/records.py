"""ReviewRecords: which reviews count, with their ratings, and which are copies of others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from whyrank.data.ratings import on_scale
from whyrank.mining.clean import digests
from whyrank.mining.copies import LEAST, copy_groups
from whyrank.mining.corpus import Corpus
from whyrank.mining.reviews import Reading

EXACT = 8  # words from which on the very same text about an item is a copy


class ReviewRecords(NamedTuple):
    """Reviews in the order of the corpus."""

    table: pl.DataFrame  # review, user, item, rating, score, time, source, text, copy, words, copy_group, counts
    keys: pl.Series  # of the reviews that were read, so that none counts twice


def read_records(corpus: Corpus, reading: Reading, known: pl.Series | None) -> ReviewRecords:
    """Return the reviews: copies of a text about one item count once, whoever posted them.

    Args:
        corpus: What was read.
        reading: Where what is left out is counted.
        known: The keys of reviews that an earlier pool has counted.
    """
    table = corpus.table().with_row_index("review").with_columns(pl.col("review").cast(pl.Int32))
    ratings = on_scale(table["rating"].cast(pl.Float64).fill_null(np.nan).to_numpy(), reading.rating_range)
    table = table.with_columns(
        user=pl.col("user").cast(pl.String),
        item=pl.col("item").cast(pl.String),
        rating=pl.Series(ratings).fill_nan(None),
    )
    groups = copy_groups(table["words"].to_numpy(), table["sketch"].to_numpy(), table["text"].gather)
    least = pl.col("copy").min().over(pl.Series("group", groups))  # the same whatever the order of the reviews
    table = table.drop("sketch").with_columns(copy_group=least)
    order = table.sort("time", "user", "copy", "source", "review", nulls_last=True)

    def repeated(*columns: str) -> pl.Series:
        """Tell which reviews are not the first ones of their kind."""
        first = order.unique(columns, keep="first")["review"]
        return ~table["review"].is_in(first.implode())

    near = repeated("item", "copy_group") & (table["words"] >= LEAST)
    exact = repeated("item", "copy") & (table["words"] >= EXACT)
    copied = (near | exact | repeated("user", "item", "copy")).fill_null(False)
    reading.reject("copies of another review", int(copied.sum()))
    keys = digests(table.select(pl.concat_str("user", "item", "copy", separator="\n")).to_series())
    old = keys.is_in(known.implode()) if known is not None else pl.repeat(False, table.height, eager=True)
    reading.reject("already in the pool", int((old & ~copied).sum()))
    reading.reject("not English", int(table["foreign"].sum()))
    table = table.with_columns(counts=~(copied | old | table["foreign"]))
    rated = table.filter("counts")["rating"].drop_nulls()
    mean, spread = (rated.mean(), rated.std()) if len(rated) > 1 else (0.0, 1.0)
    score = ((pl.col("rating") - mean) / max(float(spread or 0), 1e-6)).fill_null(0.0).clip(-4, 4)  # type: ignore[arg-type]
    return ReviewRecords(table.with_columns(score=score), keys)
