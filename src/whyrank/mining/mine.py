"""Mining: reviews are parsed, mentions found, statements proposed, their people counted, their best words quoted."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from whyrank.data.compressed import EXPANSION
from whyrank.data.names import read_titles
from whyrank.data.problems import OnError, Problems
from whyrank.data.ratings import Range, checked_range
from whyrank.errors import DataError, ParameterError
from whyrank.mining.corpus import Corpus
from whyrank.mining.language import language_of
from whyrank.mining.mined import Mined
from whyrank.mining.pool import Pool, described, unique_triplets
from whyrank.mining.records import read_records
from whyrank.mining.report import MiningReport
from whyrank.mining.reviews import Reading, Sources, read_reviews
from whyrank.mining.rules import MiningRules
from whyrank.mining.said import Reader
from whyrank.mining.tables import Found, Tables
from whyrank.render import number_of

Progress = Callable[[str, int, int | None], None]
log = logging.getLogger("whyrank")


def mine(
    sources: Sources,
    *,
    columns: Mapping[str, str] | None = None,
    rules: MiningRules | None = None,
    titles: Mapping[str, str] | str | Path | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    on_error: OnError = "raise",
    pool: Mined | str | Path | None = None,
    rating_range: Range | None = None,
    max_expansion: float = EXPANSION,
    trim: bool = False,
    **settings: Any,
) -> Mined:
    """Mine statements from reviews: files (JSON lines, CSV, TSV, Parquet; .gz, .zst) or tables with user, item, text.

    A statement says one thing: "comfortable bed", "good for families", "leaves hair soft". Everybody who says it
    counts, in whatever words. The result depends on the set of reviews and the rules only, not on their order or on
    `threads`.

    Args:
        sources: One or several files or tables of reviews.
        columns: Which of the source's fields is which of ours, where that is not recognized: `{"user": "reviewer"}`.
        rules: The rules; each can also be given as a keyword.
        titles: Names of items by id, or a file with columns item and title; words of an item's own name are no aspects
            of it. A pool remembers its titles.
        threads: How many threads read and count; all cores unless given.
        progress: Called now and then as `progress(stage, done, total)`.
        on_error: "skip" counts broken rows instead of raising.
        pool: An earlier result or its folder to carry on: its statements keep their ids, its triplets stay, what was
            rejected by hand stays rejected, and what it has learned of the reviews' words holds.
        rating_range: The lowest and the highest rating; recognized from the ratings unless given. Others are unknown.
        max_expansion: A compressed file that grows more than so many times is refused.
        trim: Whether to remove blanks around ids.

    Returns:
        The statements, the triplets with quotes, and an account of what was left out.

    Raises:
        DataError: No review could be read, or nothing was found in them.

    Examples:
        >>> reviews = pl.DataFrame({"user": list("abc"), "item": list("xyx"), "text": ["The bed was comfortable."] * 3})
        >>> "comfortable bed" in mine(reviews).explanations["text"].to_list()
        True
    """
    old = Mined.read(pool) if isinstance(pool, str | Path) else pool
    base = rules or (old.rules if old else MiningRules())
    tell = progress or (lambda stage, done, total: None)
    reading = Reading(Problems(on_error), checked_range(rating_range), max_expansion, trim)
    started = time.perf_counter()
    chosen = base.changed(settings)
    named = read_titles(titles, trim=trim) if isinstance(titles, str | Path) else dict(titles or {})
    corpus = Corpus()
    fill(corpus, sources, columns, chosen, reading, threads, tell)
    return mined_of(corpus, chosen, named, old, reading, started, threads, tell)


def fill(
    corpus: Corpus,
    sources: Sources,
    columns: Mapping[str, str] | None,
    rules: MiningRules,
    reading: Reading,
    threads: int | None,
    tell: Progress,
    *,
    several: bool = False,
) -> None:
    """Read and parse all reviews of the sources into a corpus."""
    if threads is not None and threads < 1:
        raise ParameterError(f"threads is {threads}; use a whole number of at least 1")
    common = language_of(rules.language).has("common")
    for table in read_reviews(sources, columns, reading, several=several):
        if table.height:
            corpus.read(table, rules, common, threads)
            tell("reading reviews", corpus.size, None)


def mined_of(
    corpus: Corpus,
    rules: MiningRules,
    titles: Mapping[str, str],
    old: Mined | None,
    reading: Reading,
    started: float,
    threads: int | None,
    tell: Progress,
) -> Mined:
    """Return what a corpus says, beside what an earlier pool holds."""
    if not corpus.size:
        raise DataError("no reviews", expected="at least one review with user, item and text")
    names = (old.titles if old else {}) | {item: title for item, title in titles.items() if title}
    report = MiningReport()
    records = read_records(corpus, reading, old.keys if old else None)
    reader = Reader(corpus, records.table, rules, names, old, report, tell)
    tell("finding mentions", 0, None)
    parsed = reader.parsed()
    items = reader.counted(parsed, threads)
    tell("choosing reasons", 0, None)
    found = Tables(reader, parsed, items).made()
    if not found.triplets.height and old is None:
        raise DataError(
            "no statement was found",
            expected="more reviews, or lower thresholds (min_count, min_items), in English, with the review's text",
        )
    _warn(reading)
    found = _decided(found, old)
    pool = _joined(found.triplets, found.wordings, found.explanations, old)
    seconds = time.perf_counter() - started
    keys = records.keys if old is None else pl.concat([old.keys, records.keys])
    made = Mined.of(pool, rules, report, reading, seconds, found.coverage)
    learned = old.learned if old is not None and old.learned is not None else found.learned
    return replace(made, titles=names, keys=keys.unique().sort(), learned=learned)


def _decided(found: Found, old: Mined | None) -> Found:
    """Return what was found under what was decided by hand: rejected statements stay away, merged ones stay merged."""
    if old is None:
        return found
    told = old.wordings.filter(pl.col("explanation").is_null() | (pl.col("explanation") != pl.col("normalized")))
    into = dict(told.select("normalized", "explanation").iter_rows())
    if not into:
        return found
    name = pl.col("explanation").replace_strict(into, default=pl.col("explanation"), return_dtype=pl.String)
    return found._replace(
        triplets=found.triplets.with_columns(name).drop_nulls("explanation"),
        wordings=found.wordings.filter(~pl.col("normalized").is_in(list(into))),
        explanations=found.explanations.filter(~pl.col("id").is_in(list(into))),
    )


def _joined(triplets: pl.DataFrame, wordings: pl.DataFrame, explanations: pl.DataFrame, old: Mined | None) -> Pool:
    """Return the tables of the result, those of an earlier pool included."""
    if old is not None:
        before = old.pool
        triplets = pl.concat([before.triplets.select(triplets.columns), triplets])
        wordings = (
            pl.concat([before.wordings.select(wordings.columns), wordings])
            .group_by("normalized", maintain_order=True)
            .agg(pl.col("explanation", "text").first(), pl.col("count").sum())
            .select(wordings.columns)
        )
        known = before.explanations.select(explanations.columns)
        explanations = pl.concat([known, explanations.filter(~pl.col("id").is_in(known["id"].implode()))])
    return described(Pool(unique_triplets(triplets), wordings, explanations))


def _warn(reading: Reading) -> None:
    """Say what could not be read."""
    if reading.unread_ratings:
        log.warning("%s could not be read: taken as unknown", number_of(reading.unread_ratings, "rating"))
    if reading.unread_times:
        log.warning(
            "%s could not be read: taken as unknown, such as %r; write times as 2023-08-18 or as seconds",
            number_of(reading.unread_times, "time"),
            reading.unread_time[:40],
        )
