"""The pool of explanations: ids that last, one text each, and what is known of each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

COUNTED = ("said", "rule", "chance", "worth", "copy_group")  # of a triplet: the clause, what found it, how sure it is


class Pool(NamedTuple):
    """Tables that belong together."""

    triplets: pl.DataFrame  # user, item, explanation, rating, time, sentence, source, COUNTED; each triplet once
    wordings: pl.DataFrame  # explanation, count, text, normalized; explanation is null for wordings rejected by hand
    explanations: pl.DataFrame  # id, text, aspect, and after `described` the rest


def unique_triplets(mentions: pl.DataFrame) -> pl.DataFrame:
    """Each triplet once, in the order of its ids, with its first sentence; a record has one rating and one time."""
    counted = [name for name in COUNTED if name in mentions.columns]
    keys = {"user": False, "item": False, "explanation": False, "chance": True, "sentence": False}  # descending or not
    keys |= {"said": False, "copy_group": False, "source": False}
    known = [name for name in keys if name in mentions.columns]
    order = mentions.sort(known, descending=[keys[name] for name in known], nulls_last=True)
    pair = ("user", "item")
    opinions = order.select(*pair, "rating", "time").unique()
    per_record = opinions.group_by(pair).agg(rating=pl.col("rating").mean(), time=pl.col("time").max())
    triplets = order.unique((*pair, "explanation"), keep="first", maintain_order=True).drop("rating", "time")
    joined = triplets.join(per_record, on=pair, how="left", maintain_order="left")
    return joined.select(
        *("user", "item", "explanation"), pl.col("rating").cast(pl.Float32), "time", "sentence", "source", *counted
    )


def merged(pool: Pool, into: dict[str, str]) -> Pool:
    """The pool with each explanation of `into` become part of another one."""
    if not into:
        return pool
    renamed = pl.col("explanation").replace(into)
    return Pool(
        unique_triplets(pool.triplets.with_columns(renamed)),
        pool.wordings.with_columns(renamed),
        pool.explanations.filter(~pl.col("id").is_in(list(into))),
    )


def described(pool: Pool) -> Pool:
    """Fill in the table of explanations: counts, sentiment, mean rating, specificity, and wordings per group."""
    own = ("sense", "polarity", "opposite")
    table = pool.explanations.select("id", "text", "aspect", *own)
    said = pool.triplets.group_by("explanation").agg(
        count=pl.len(),
        users=pl.col("user").n_unique(),
        items=pl.col("item").n_unique(),
        rating=pl.col("rating").mean(),
    )
    sizes = pool.wordings.drop_nulls("explanation").group_by("explanation").agg(wordings=pl.len())
    table = table.join(said, left_on="id", right_on="explanation").join(
        sizes, left_on="id", right_on="explanation", how="left"
    )
    table = table.join(specificity(pool.triplets), left_on="id", right_on="explanation", how="left")
    table = table.with_columns(sentiment=pl.col("polarity").cast(pl.Float32))
    order = (
        "id",
        "text",
        "count",
        "users",
        "items",
        "rating",
        "sentiment",
        "aspect",
        "specificity",
        "wordings",
        *own,
    )
    return pool._replace(explanations=table.select(order).sort("count", "id", descending=[True, False]))


def specificity(triplets: pl.DataFrame) -> pl.DataFrame:
    """How much more often than by chance two records with the same explanation are about the same item, in bits.

    0: it is said about anything (boilerplate); 1: it meets itself on an item twice as often as chance would have it.
    One imaginary pair steadies rare explanations.
    """
    cells = triplets.group_by("explanation", "item").len()
    items = triplets.group_by("item").len()["len"].cast(pl.Float64).to_numpy()
    chance = float(np.sum((items / max(items.sum(), 1)) ** 2))
    n = pl.col("len").cast(pl.Float64)
    met = cells.group_by("explanation").agg(same=(n * (n - 1) / 2).sum(), n=n.sum())
    expected = pl.col("n") * (pl.col("n") - 1) / 2 * chance
    bits = ((pl.col("same") + 1) / (expected + 1)).log(2).cast(pl.Float32)
    return met.select("explanation", specificity=bits)
