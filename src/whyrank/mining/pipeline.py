"""From reviews to explanations: read, cut, count, group, tag, choose."""

from __future__ import annotations

import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.atomic import writing
from whyrank.data.compressed import EXPANSION
from whyrank.data.problems import OnError, Problems
from whyrank.data.ratings import Range, checked_range, warn_outside
from whyrank.errors import DataError, ParameterError
from whyrank.mining.groups import Wordings, count_wordings, find_pairs, group, promising
from whyrank.mining.mined import Mined
from whyrank.mining.pool import build
from whyrank.mining.report import MiningReport
from whyrank.mining.reviews import Reading, Sources, read_reviews
from whyrank.mining.rules import MiningRules
from whyrank.mining.sentences import CAUSES, KEPT, Cut, Cutter, Spool, normalize
from whyrank.mining.tags import tag_texts
from whyrank.mining.words import LITTLE

Progress = Callable[[str, int, int | None], None]
LITTLE_WORDS = rf"\b(?:{'|'.join(LITTLE)})\b"


def mine_clauses(
    sources: Sources,
    *,
    columns: Mapping[str, str] | None = None,
    rules: MiningRules | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    on_error: OnError = "raise",
    pool: Mined | None = None,
    rating_range: Range | None = None,
    max_expansion: float = EXPANSION,
    trim: bool = False,
    **settings: object,
) -> Mined:
    """Mine whole clauses that come back word for word, as version 0.1 did; `mine` with unit="clauses".

    Every setting of `MiningRules` is a keyword: `mine_clauses(table, min_count=10)`. The result depends on the set of
    reviews and the rules only, not on their order or on `threads`. `progress(stage, done, total)` is called now and
    then. `on_error="skip"` counts broken rows instead of raising. Ratings outside of `rating_range` are unknown. A
    compressed file that grows more than `max_expansion` times is refused. `trim` removes blanks around ids.

    `pool`, an earlier result or its folder, is carried on: its explanations keep ids and texts, its triplets stay, its
    rules hold unless changed, what was rejected by hand stays rejected; new explanations need `min_count` records in
    these reviews. Mining all reviews again into the pool counts what was too rare before; no triplet comes twice.

    >>> reviews = pl.DataFrame({"user": list("abc"), "item": list("xyx"), "text": ["Great location!"] * 3})
    >>> mine_clauses(reviews, min_count=2).explanations["text"].to_list()
    ['Great location']
    """
    old = pool
    base = old.rules if old and isinstance(old.rules, MiningRules) else MiningRules()
    rules = (rules or base).changed(settings)
    tell = progress or (lambda stage, done, total: None)
    started = time.perf_counter()
    with writing(tempfile.gettempdir()), tempfile.TemporaryDirectory(prefix="whyrank-mine-") as folder:
        reading = Reading(Problems(on_error), checked_range(rating_range), max_expansion, trim)
        spool, cutter = Spool(Path(folder)), Cutter.of(rules)
        if old:
            spool.add_known(old.wordings["text"], cutter)
        cut_reviews(read_reviews(sources, columns, reading), cutter, spool, threads, tell)
        if spool.reviews == spool.known:
            raise DataError("no reviews", expected="at least one review with user, item and text")
        report = MiningReport()
        report.add_cut(
            {CAUSES[code]: int(spool.counts[code]) for code in CAUSES}, int(spool.counts[KEPT]) - spool.known
        )
        report.add_examples({CAUSES[code]: shown for code, shown in spool.examples.items()})
        mentions, wordings = find_wordings(spool, cutter, old.wordings if old else None, report, tell)
    reading.reject("not English", spool.foreign)
    warn_outside(reading.odd_ratings, reading.rating_range, reading.rating_range)
    found = build(mentions, wordings, old.pool if old else None, rules, report, tell)
    return Mined.of(found, rules, report, reading, time.perf_counter() - started)


def cut_reviews(
    reviews: Iterator[pl.DataFrame], cutter: Cutter, spool: Spool, threads: int | None, tell: Progress
) -> None:
    """Cut every table of reviews, several at a time, and spool them in their order."""
    workers = threads if threads is not None else min(8, os.cpu_count() or 1)
    if workers < 1:
        raise ParameterError(f"threads is {threads}; use a whole number of at least 1")
    waiting: deque[tuple[pl.DataFrame, Future[Cut]]] = deque()

    def finish() -> None:
        table, cut = waiting.popleft()
        spool.add(table, cut.result())
        tell("cutting reviews", spool.reviews - spool.known, None)

    with ThreadPoolExecutor(workers) as pool:
        for table in reviews:
            if table.height:
                waiting.append((table, pool.submit(cutter.cut, table)))
            if len(waiting) > workers + 1:
                finish()
        while waiting:
            finish()


def find_wordings(
    spool: Spool,
    cutter: Cutter,
    known: pl.DataFrame | None,
    report: MiningReport,
    tell: Progress,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The mentions (wording, sentence, user, item, rating, time) of wordings worth keeping, and the wordings.

    A wording: how many records say it, its text as most people write it, its normalized text, its aspect, its center
    (the wording its group is named after), and for wordings of an earlier pool `known` and their explanation.
    """
    rules = cutter.rules
    tell("counting sentences", 0, None)
    wordings = count_wordings(spool)
    tell("finding near-duplicates", 0, None)
    pairs = find_pairs(spool, cutter, wordings)
    earlier = known_wordings(spool, wordings, known)
    extra = earlier["weight"].fill_null(0).to_numpy()
    kept = promising(wordings.counts + extra, pairs, rules.min_count)
    sentences, wording = mentions_of(spool, wordings, kept)
    wordings = wordings._replace(counts=count_records(spool, wordings, sentences, wording))
    weights = wordings.counts + extra
    kept &= promising(weights, pairs, rules.min_count)
    report.add_rare(spool, wordings, kept)
    stays, place = kept[wording], np.cumsum(kept) - 1
    sentences, wording = sentences[stays], place[wording[stays]]
    pairs, wordings, earlier = pairs.among(kept), wordings.take(kept), earlier.filter(pl.Series(kept))
    mentions = pl.DataFrame({"wording": wording, "sentence": spool.texts(sentences)})
    table = pl.concat([spellings(mentions, wordings, rules), earlier], how="horizontal")
    tell("tagging sentences", 0, table.height)
    table = judge(table, rules, report)
    good = table["good"].to_numpy()
    table = table.filter("good").drop("good")
    center = group(weights[kept][good], table["normalized"], pairs.among(good))
    said = good[wording] & (sentences >= spool.known)
    who = spool.who(spool.review_numbers[sentences[said]]).drop("review")
    place = np.cumsum(good) - 1
    found = mentions.filter(pl.Series(said)).with_columns(wording=pl.Series(place[wording[said]]))
    return pl.concat([found, who], how="horizontal"), table.with_columns(center=pl.Series(center))


def known_wordings(spool: Spool, wordings: Wordings, known: pl.DataFrame | None) -> pl.DataFrame:
    """Per wording: whether an earlier pool has it, its explanation there (null: rejected), and a weight.

    The weight puts wordings of the pool before all new ones when groups are made.
    """
    columns = {"explanation": pl.String, "weight": pl.Int64}
    if known is None:
        empty = [pl.lit(None, kind).alias(name) for name, kind in columns.items()]
        return pl.select(pl.repeat(False, len(wordings.keys)).alias("known"), *empty)
    table = known.select("explanation", "text", weight=pl.col("count").cast(pl.Int64) + (1 << 40), known=pl.lit(True))
    table = table.with_columns(place=np.searchsorted(wordings.keys, spool.keys[: spool.known]))
    first = table.sort("weight", "text", descending=[True, False]).unique("place", keep="first")
    places = pl.DataFrame({"place": np.arange(len(wordings.keys))})
    joined = places.join(first, on="place", how="left", maintain_order="left")
    return joined.select(pl.col("known").fill_null(False), *columns)


def mentions_of(
    spool: Spool, wordings: Wordings, kept: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers of all sentences that say a kept wording, and the place of the wording among all."""
    numbers, places = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    kept_places, kept_keys = np.flatnonzero(kept), wordings.keys[kept]
    for block in spool.blocks() if len(kept_keys) else ():
        keys = np.asarray(spool.keys[block])
        place = np.minimum(np.searchsorted(kept_keys, keys), len(kept_keys) - 1)
        found = np.flatnonzero(kept_keys[place] == keys)
        numbers.append(found + block.start)
        places.append(kept_places[place[found]])
    return np.concatenate(numbers), np.concatenate(places)


def count_records(
    spool: Spool, wordings: Wordings, sentences: NDArray[np.int64], wording: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The counts of the wordings, now of records: several reviews of one user about one item count once."""
    said = sentences >= spool.known
    pair = spool.pairs[spool.review_numbers[sentences[said]]]
    distinct = pl.DataFrame({"wording": wording[said], "pair": pair}).unique()
    records = np.bincount(distinct["wording"].to_numpy(), minlength=len(wordings.counts))
    return np.where(records > 0, records, wordings.counts)


def spellings(mentions: pl.DataFrame, wordings: Wordings, rules: MiningRules) -> pl.DataFrame:
    """Each wording as most people write it (of equals the first by bytes), in the order of the wordings.

    `name` says how often it is written with a capital letter on every word but little ones.
    """
    spelled = mentions.group_by("wording", "sentence").len()
    words = pl.col("sentence").str.replace_all(LITTLE_WORDS, "")
    named = ~words.str.contains(r"\b[a-z]") & words.str.contains("[a-z]")
    best = (
        spelled.with_columns(named=named * pl.col("len"))
        .sort("wording", "len", "sentence", descending=[False, True, False])
        .group_by("wording", maintain_order=True)
        .agg(pl.col("sentence").first(), name=pl.col("named").sum() / pl.col("len").sum())
    )
    articles = frozenset(rules.articles)
    normalized = pl.Series([normalize(text, articles) for text in best["sentence"]], dtype=pl.String)
    return pl.DataFrame(
        {
            "count": wordings.counts,
            "text": best["sentence"],
            "normalized": normalized,
            "name": best["name"],
        }
    )


def judge(table: pl.DataFrame, rules: MiningRules, report: MiningReport) -> pl.DataFrame:
    """Add `good`, whether the rules for single wordings keep it, and `aspect`, its head noun."""
    first = pl.col("normalized").str.extract(r"^(\S+)")
    last = pl.col("normalized").str.extract(r"(\S+)$")
    fragment = first.is_in(rules.fragment_starts) | last.is_in(rules.fragment_ends)
    known = table["known"]
    tags = tag_texts(table["normalized"], rules)
    table = pl.concat([table, tags], how="horizontal").with_columns(fragment=fragment)
    good = pl.repeat(True, table.height, eager=True)
    named = table["name"] >= rules.names if rules.names is not None else ~good
    rules_and_bad = (
        ("fragment", table["fragment"]),
        ("nouns", ~table["nouns"]),
        ("adjectives", ~table["adjectives"]),
        ("names", named),
    )
    for rule, bad in rules_and_bad:
        report.add_wordings(rule, table.filter(good & bad & ~known))
        good &= ~bad | known
    return table.with_columns(good=good).drop("nouns", "adjectives", "fragment", "name")
