"""The pool of explanations: ids that last, one text each, and what is known of each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import polars as pl

from whyrank.data.sentiment import from_words
from whyrank.errors import DataError
from whyrank.mining.report import MiningReport
from whyrank.mining.rules import MiningRules

Progress = Callable[[str, int, int | None], None]


class Pool(NamedTuple):
    """Tables that belong together."""

    triplets: pl.DataFrame  # user, item, explanation, rating, time, sentence; each triplet once
    wordings: pl.DataFrame  # explanation, count, text, normalized; explanation is null for wordings rejected by hand
    explanations: pl.DataFrame  # id, text, aspect, and after `described` the rest


def explanation_id(normalized: str) -> str:
    """The id of an explanation: 16 hexadecimal digits that depend on its normalized text only.

    >>> explanation_id("great location")
    'ffdf065ab956ff53'
    """
    return hashlib.blake2b(normalized.encode(), digest_size=8).hexdigest()


def build(
    mentions: pl.DataFrame,
    wordings: pl.DataFrame,
    old: Pool | None,
    rules: MiningRules,
    report: MiningReport,
    tell: Progress,
) -> Pool:
    """Name the groups, put them to those of an earlier pool, and keep those that the rules keep."""
    wordings = named(wordings)
    named_mentions = mentions.with_columns(explanation=wordings["explanation"].gather(mentions["wording"]))
    centers = wordings.filter(~pl.col("known") & (pl.col("center") == pl.int_range(pl.len())))
    pool = Pool(
        named_mentions.drop("wording").drop_nulls("explanation"),
        wordings.select("explanation", pl.col("count").cast(pl.Int64), "text", "normalized"),
        centers.select(pl.col("explanation").alias("id"), "text", "aspect").drop_nulls("id"),
    )
    if old:
        pool = Pool(
            pl.concat([old.triplets, pool.triplets.select(old.triplets.columns)]),
            _joined_wordings(old.wordings, pool.wordings),
            pl.concat([old.explanations.select("id", "text", "aspect"), pool.explanations]),
        )
    if pool.explanations["id"].n_unique() < pool.explanations.height:
        raise DataError("two explanations have the same id", expected="other rules, or fewer reviews")
    return choose(pool._replace(triplets=unique_triplets(pool.triplets)), rules, report, tell)


def named(wordings: pl.DataFrame) -> pl.DataFrame:
    """The explanation of every wording: its own where an earlier pool has it, otherwise that of its center."""
    new = pl.Series([explanation_id(text) for text in wordings["normalized"]], dtype=pl.String)
    own = wordings.with_columns(new=new).select(pl.when("known").then("explanation").otherwise("new"))
    center = own.to_series().gather(wordings["center"])
    return wordings.with_columns(explanation=pl.when("known").then("explanation").otherwise(center))


def _joined_wordings(old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """The wordings of an earlier pool and the new ones; of a known one the larger count."""
    both = pl.concat([old, new]).group_by("normalized", maintain_order=True)
    return both.agg(pl.col("explanation", "text").first(), pl.col("count").max()).select(old.columns)


def unique_triplets(mentions: pl.DataFrame) -> pl.DataFrame:
    """Each triplet once, in the order of its ids, with its first sentence; a record has one rating and one time."""
    order = mentions.sort("user", "item", "explanation", "time", "sentence", nulls_last=True)
    more = ["source"] if "source" in mentions.columns else []
    pair = ("user", "item")
    opinions = order.select(*pair, "rating", "time").unique()
    per_record = opinions.group_by(pair).agg(rating=pl.col("rating").mean(), time=pl.col("time").max())
    triplets = order.unique((*pair, "explanation"), keep="first", maintain_order=True).drop("rating", "time")
    joined = triplets.join(per_record, on=pair, how="left", maintain_order="left")
    return joined.select("user", "item", "explanation", pl.col("rating").cast(pl.Float32), "time", "sentence", *more)


def choose(pool: Pool, rules: MiningRules, report: MiningReport, tell: Progress) -> Pool:
    """The explanations that are said often enough, merged and specific if the rules ask for it, described."""
    for rule, what, least in (
        ("min_count", pl.len(), rules.min_count),
        ("min_users", pl.col("user").n_unique(), rules.min_users),
        ("min_items", pl.col("item").n_unique(), rules.min_items),
    ):
        if rule == "min_count" or least > 1:
            enough = pool.triplets.group_by("explanation").agg(n=what).filter(pl.col("n") >= least)
            pool = dropped(pool, rule, set(enough["explanation"]), report)
    tell("describing explanations", 0, pool.explanations.height)
    pool = described(pool)
    if rules.merge_paraphrases is not None and pool.explanations.height:
        from whyrank.mining.paraphrases import paraphrases

        into = paraphrases(pool.explanations, rules.merge_paraphrases, tell)
        report.add_wordings("merge_paraphrases", pool.explanations.filter(pl.col("id").is_in(list(into))))
        pool = described(merged(pool, into))
    if rules.min_specificity is not None:
        enough = pool.explanations.filter(pl.col("specificity") >= rules.min_specificity)
        pool = described(dropped(pool, "min_specificity", set(enough["id"]), report))
    return pool


def dropped(pool: Pool, rule: str, keep: Iterable[str], report: MiningReport) -> Pool:
    """The pool with only the explanations to keep; what goes is put down under the rule."""
    kept = pl.Series(sorted(keep), dtype=pl.String).implode()
    counts = pool.triplets.group_by("explanation").agg(count=pl.len())
    gone = pool.explanations.filter(~pl.col("id").is_in(kept)).select("id", "text")
    report.add_wordings(rule, gone.join(counts, left_on="id", right_on="explanation"))
    stays = pl.col("explanation").is_in(kept)
    return Pool(
        pool.triplets.filter(stays),
        pool.wordings.filter(stays | pl.col("explanation").is_null()),
        pool.explanations.filter(pl.col("id").is_in(kept)),
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
    own = [name for name in ("sense", "polarity", "opposite") if name in pool.explanations.columns]
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
    words = pl.col("polarity").cast(pl.Float32) if own else pl.Series(from_words(table["text"]), dtype=pl.Float32)
    table = table.with_columns(sentiment=words)
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
