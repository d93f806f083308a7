"""Mining statements: opinions of every review, the statements they make, and the quotes behind them."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl

from whyrank.atomic import writing
from whyrank.data.compressed import EXPANSION
from whyrank.data.names import read_titles
from whyrank.data.problems import OnError, Problems
from whyrank.data.ratings import Range, checked_range, on_scale
from whyrank.errors import DataError, ParameterError
from whyrank.mining import statements as st
from whyrank.mining.aspects import LEVELS, aspects, learn_nouns
from whyrank.mining.clean import digests
from whyrank.mining.corpus import Corpus
from whyrank.mining.mined import Mined
from whyrank.mining.nouns import language_of
from whyrank.mining.opinions import Finder, find_all
from whyrank.mining.pool import Pool, described, unique_triplets
from whyrank.mining.quotes import pick, read_quotes
from whyrank.mining.report import MiningReport
from whyrank.mining.reviews import Reading, Sources, read_reviews
from whyrank.mining.rules import MiningRules
from whyrank.mining.senses import scores_of, senses
from whyrank.render import number_of

Progress = Callable[[str, int, int | None], None]
log = logging.getLogger("whyrank")
STRICTER = (4, 3, 2, 1)  # times the least number of records, if hardly a review and an item are lost by that
NEARLY = 0.98


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

    A statement is one aspect, one opinion, one polarity: "comfortable bed", found in every wording ("the bed was really
    comfy"). The result depends on the set of reviews and the rules only, not on their order or on `threads`.

    Args:
        sources: One or several files or tables of reviews.
        columns: Which of the source's fields is which of ours, where that is not recognized: `{"user": "reviewer"}`.
        rules: The rules; each can also be given as a keyword.
        titles: Names of items by id, or a file with columns item and title; words of an item's own name are no aspects
            of it. A pool remembers its titles.
        threads: How many threads read and search; all cores unless given.
        progress: Called now and then as `progress(stage, done, total)`.
        on_error: "skip" counts broken rows instead of raising.
        pool: An earlier result or its folder to carry on: its statements keep their ids, its triplets stay, what was
            rejected by hand stays rejected.
        rating_range: The lowest and the highest rating; recognized from the ratings unless given. Others are unknown.
        max_expansion: A compressed file that grows more than so many times is refused.
        trim: Whether to remove blanks around ids.

    Returns:
        The statements, the triplets with quotes, and an account of what was left out.

    Raises:
        DataError: No review could be read, or nothing was found in them.

    Examples:
        >>> reviews = pl.DataFrame({"user": list("abc"), "item": list("xyx"), "text": ["The bed was comfortable."] * 3})
        >>> mine(reviews).explanations["text"].to_list()
        ['comfortable bed']
    """
    old = Mined.read(pool) if isinstance(pool, str | Path) else pool
    base = rules or (old.rules if old else MiningRules())
    tell = progress or (lambda stage, done, total: None)
    reading = Reading(Problems(on_error), checked_range(rating_range), max_expansion, trim)
    started = time.perf_counter()
    chosen = base.changed(settings)
    named = read_titles(titles, trim=trim) if isinstance(titles, str | Path) else titles or {}
    with writing(tempfile.gettempdir()), tempfile.TemporaryFile(prefix="whyrank-mine-") as spool:
        corpus = collect(read_reviews(sources, columns, reading), chosen, spool, threads, tell)
        return Choice(chosen, named, old, reading, tell).mined(corpus, spool, started)


def collect(
    reviews: Iterator[pl.DataFrame], rules: MiningRules, spool: IO[bytes], threads: int | None, tell: Progress
) -> Corpus:
    """Find the opinions of all reviews; their texts go into the spool."""
    if threads is not None and threads < 1:
        raise ParameterError(f"threads is {threads}; use a whole number of at least 1")
    finder = Finder(language_of(rules.language), rules.english, rules.english_words, titles=rules.review_titles)
    corpus = Corpus(texts=finder.lexicon.texts)
    for found in find_all(reviews, finder, threads):
        spool.write(found.text)
        corpus.add(found)
        tell("reading reviews", corpus.size, None)
    spool.flush()
    return corpus


class Choice:
    """What becomes of the opinions that were found: one run of the second half of the miner."""

    def __init__(
        self, rules: MiningRules, titles: Mapping[str, str], old: Mined | None, reading: Reading, tell: Progress
    ) -> None:
        self.rules, self.old, self.reading, self.tell = rules, old, reading, tell
        self.titles = (old.titles if old else {}) | {item: title for item, title in titles.items() if title}
        self.language = language_of(rules.language)
        self.keys = pl.Series([], dtype=pl.UInt64)  # of the reviews that were read
        self.names: frozenset[str] = frozenset()  # of persons, places and brands, as learned
        self.report = MiningReport()

    def mined(self, corpus: Corpus, spool: IO[bytes], started: float) -> Mined:
        if not corpus.size:
            raise DataError("no reviews", expected="at least one review with user, item and text")
        self.tell("choosing statements", 0, None)
        records = self.records(corpus)
        taken, coverage = self.statements(corpus, records)
        self.tell("choosing quotes", 0, None)
        best = pick(taken.join(records.select("review", "copy"), on="review"))
        text = np.memmap(spool, np.uint8, mode="r")
        starts, lengths = best["start"].to_numpy(), best["length"].to_numpy()
        praise = best.select(pl.when(pl.col("polarity") > 0).then("spoken")).to_series()
        quotes = read_quotes(text, starts, lengths, self.language, self.rules.vulgar, self.names, praise)
        del text
        if self.reading.unread_ratings:
            log.warning("%s could not be read: taken as unknown", number_of(self.reading.unread_ratings, "rating"))
        if self.reading.unread_times:
            log.warning(
                "%s could not be read: taken as unknown, such as %r; write times as 2023-08-18 or as seconds",
                number_of(self.reading.unread_times, "time"),
                self.reading.unread_time[:40],
            )
        self.reading.reject("not English", int(records["foreign"].sum()))
        clear = pl.when(~best["mixed"]).then(quotes)
        known = records.select("review", "user", "item", "rating", "time", "source")
        best = best.select("review", "id", sentence=clear).join(known, on="review", maintain_order="left")
        pool = self.pool(taken, best)
        seconds = time.perf_counter() - started
        keys = self.keys if self.old is None else pl.concat([self.old.keys, self.keys])
        mined = Mined.of(pool, self.rules, self.report, self.reading, seconds, coverage)
        return replace(mined, titles=self.titles, keys=keys.unique().sort())

    def records(self, corpus: Corpus) -> pl.DataFrame:
        """The reviews with their ratings in standard deviations; copies of a text about one item count once."""
        table = pl.concat(corpus.reviews).with_row_index("review").with_columns(pl.col("review").cast(pl.Int32))
        table = table.with_columns(
            user=pl.col("user").cast(pl.String),
            item=pl.col("item").cast(pl.String),
            rating=pl.Series(
                on_scale(table["rating"].cast(pl.Float64).fill_null(np.nan).to_numpy(), self.reading.rating_range)
            ),
        ).with_columns(pl.col("rating").fill_nan(None))
        numbers = (pl.col(name).rank("dense").cast(pl.UInt32).alias(f"{name}_number") for name in ("user", "item"))
        table = table.with_columns(*numbers, score=scores_of(table["rating"]))
        first = table.sort("time", "user", "review", nulls_last=True).unique(("item", "copy"), keep="first")
        long_enough = table["words"] >= 20
        copied = (long_enough & ~table["review"].is_in(first["review"].implode())).fill_null(False)
        self.reading.reject("copies of another review", int(copied.sum()))
        self.keys = digests(table.select(pl.concat_str("user", "item", "copy", separator="\n")).to_series())
        known = self.keys.is_in(self.old.keys.implode()) if self.old else pl.repeat(False, table.height, eager=True)
        self.reading.reject("already in the pool", int((known & ~copied).sum()))
        return table.with_columns(copied=copied | known)

    def statements(self, corpus: Corpus, records: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, float | int]]:
        """The mentions that make a statement, with its id, and how much of the reviews they cover."""
        rules, language, texts = self.rules, self.language, corpus.texts
        fresh = records.filter(~pl.col("foreign") & ~pl.col("copied"))
        size = st.limits_for(fresh.height, fresh["item"].n_unique())
        limits = st.Limits(rules.min_count or size.records, rules.min_users, rules.min_items or size.items)
        who = fresh.select("review", "score", "words", user="user_number", item="item_number")
        mentions = pl.concat(corpus.mentions).with_row_index("place").join(who.drop("words"), on="review")
        corpus.mentions.clear()  # several copies of all mentions are what takes most memory
        self.report.sentences = mentions.height
        nouns = learn_nouns(corpus, language, rules.names)
        self.names = nouns.names
        mentions = senses(mentions, texts, language)
        mixed = pl.col("fixed").drop_nulls().n_unique().over("review", "start") > 1
        mentions = mentions.with_columns(mixed=mixed)
        mentions = aspects(mentions, texts, language, nouns, limits.records)
        mentions = self.drop("vulgar", mentions, self._vulgar(), not rules.vulgar)
        mentions = self.drop("titles", mentions, self._titled(records), bool(self.titles))
        overall = st.overall(nouns, language)
        judged = mentions.filter(overall)
        mentions = self.drop("judgements", mentions, overall, not rules.judgements)
        aliases = self.aliases()
        known = st.is_known(aliases)  # few new reviews cannot learn again what a pool has learned
        old, mentions = mentions.filter(known), mentions.filter(~known)
        mentions = self.kept("whole", mentions, st.of_items(mentions, language))
        mentions = self.kept("idioms", mentions, st.steady(mentions, limits.records, language))
        mentions = self.kept("odd", mentions, st.odd_pairs(mentions, language))
        mentions = self.kept("own_names", mentions, st.own_names(mentions))
        mentions = self.kept("place_names", mentions, st.place_names(mentions))
        mentions = self.kept("sorts", mentions, st.sorts(mentions, language))
        mentions = st.joined_twins(mentions, language)
        mentions = pl.concat([old, self.kept("absences", mentions, st.idle_absences(mentions))])
        taken, left = st.choose(mentions, limits, language, aliases)
        if rules.min_count is None:
            wide = reach(taken)
            for factor in STRICTER:
                del taken, left  # two choices at once would take the most memory of all
                stricter = limits._replace(records=factor * limits.records)
                taken, left = st.choose(mentions, stricter, language, aliases)
                if all(less >= NEARLY * much for less, much in zip(reach(taken), wide, strict=True)):
                    break
        del mentions
        self.count("rare", left)
        rejected = [key for key, explanation in aliases.items() if explanation is None]
        taken = taken.filter(~pl.col("id").is_in(rejected)).with_columns(key=pl.col("id"))
        renamed = {key: name for key, name in aliases.items() if name is not None and name != key}
        taken = taken.with_columns(id=pl.col("id").replace(renamed)) if renamed else taken
        if not taken.height and self.old is None:
            raise DataError(
                "no statement was found",
                expected="more reviews, or lower thresholds (min_count, min_items), in English, with the review's text",
            )
        return taken, coverage(who, taken, judged)

    def aliases(self) -> dict[str, str | None]:
        """Which statement of the earlier pool each key became; None for what was rejected by hand."""
        if self.old is None:
            return {}
        table = self.old.wordings.select(pl.col("normalized").str.split("#").list.first(), "explanation").unique()
        return dict(table.sort("normalized").iter_rows())

    def pool(self, taken: pl.DataFrame, best: pl.DataFrame) -> Pool:
        """The tables of the result, those of an earlier pool included."""
        newest = pl.col("time").max().over("user", "item")
        dated = pl.col("time").is_null() | (pl.col("time") == newest)  # a record has one time, that of its last review
        best = best.with_columns(pl.when(dated).then("sentence").alias("sentence"))
        triplets = best.select(
            "user",
            "item",
            pl.col("id").alias("explanation"),
            pl.col("rating").cast(pl.Float32),
            "time",
            "sentence",
            "source",
        )
        wordings, table = st.describe(taken, self.language)
        if self.old is not None:
            before = self.old.pool
            triplets = pl.concat([before.triplets.select(triplets.columns), triplets])
            wordings = (
                pl.concat([before.wordings, wordings])
                .group_by("normalized", maintain_order=True)
                .agg(pl.col("explanation", "text").first(), pl.col("count").max())
                .select(before.wordings.columns)
            )
            known = before.explanations.select(table.columns)
            table = pl.concat([known, table.filter(~pl.col("id").is_in(known["id"].implode()))])
        return described(Pool(unique_triplets(triplets), wordings, table))

    def _vulgar(self) -> pl.Expr:
        words = "|".join(sorted(self.language.vulgar))
        pattern = rf"\b(?:{words})\b"
        return pl.col("p0").str.contains(pattern) | pl.col("wording").str.contains(pattern)

    def _titled(self, records: pl.DataFrame) -> pl.Expr:
        """Whether the aspect of a mention is a part of the item's own name."""
        numbers = dict(records.select("item", "item_number").unique().iter_rows())
        names = {
            numbers[item]: f" {' '.join(self.language.lemma(word) for word in title.lower().split())} "
            for item, title in self.titles.items()
            if item in numbers
        }
        title = pl.col("item").replace_strict(names, default="", return_dtype=pl.String)
        return title.str.contains(pl.concat_str(pl.lit(" "), pl.col("p0"), pl.lit(" ")), literal=True)

    def drop(self, rule: str, mentions: pl.DataFrame, bad: pl.Expr, wanted: bool) -> pl.DataFrame:
        """Mentions without those that a rule drops, which are counted."""
        if not wanted:
            return mentions
        bad = bad.fill_null(False)
        self.count(rule, mentions.filter(bad))
        return mentions.filter(~bad)

    def kept(self, rule: str, before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
        """What a rule left over; what it dropped is counted."""
        self.count(rule, before.join(after.select("place"), on="place", how="anti"))
        return after

    def count(self, rule: str, dropped: pl.DataFrame) -> None:
        text = pl.concat_str("wording", f"s{LEVELS - 1}", separator=" ")
        self.report.add_wordings(rule, dropped.group_by(text=text).agg(count=pl.len()))


def reach(taken: pl.DataFrame) -> tuple[int, int]:
    """How many reviews hold a statement, and how many items have three and more."""
    items = taken.group_by("item").agg(n=pl.col("id").n_unique()).filter(pl.col("n") >= 3)
    return taken["review"].n_unique(), items.height


def coverage(reviews: pl.DataFrame, taken: pl.DataFrame, judged: pl.DataFrame) -> dict[str, float | int]:
    """How much of the reviews, users and items the statements reach."""
    with_words = reviews.filter(pl.col("words") >= 15)
    said = taken["review"].unique().implode()
    per_item = taken.group_by("item").agg(n=pl.col("id").n_unique())
    items = reviews.group_by("item").len().join(per_item, on="item", how="left").with_columns(pl.col("n").fill_null(0))
    often = items.filter(pl.col("len") >= 5)

    def share(part: float, whole: float) -> float:
        return round(part / whole, 4) if whole else 0.0

    return {
        "reviews": share(reviews.filter(pl.col("review").is_in(said)).height, reviews.height),
        "reviews_of_15_words": share(with_words.filter(pl.col("review").is_in(said)).height, with_words.height),
        "users": share(taken["user"].n_unique(), reviews["user"].n_unique()),
        "items_with_3": share(items.filter(pl.col("n") >= 3).height, items.height),
        "items_of_5_reviews_with_3": share(often.filter(pl.col("n") >= 3).height, often.height),
        "judgements": share(judged.height, judged.height + taken.height),
    }
