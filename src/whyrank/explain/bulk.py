"""Reasons for a file of pairs, and items with reasons for a file of users or for all of them."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.errors import ParameterError
from whyrank.explain.options import Options
from whyrank.explain.parts import Made, Progress, check_columns, check_paths, parts_of, sink
from whyrank.explain.rank import ItemRanker, Ranker, check_count, fallback_of, rank_items, user_numbers
from whyrank.explain.reasons import table
from whyrank.explain.result import explain, explained, ranked_known
from whyrank.wording.templates import Templates

ROWS = 250_000  # pairs in memory at once, and lost at most when the run is killed
EVERYBODY = "all"


@dataclass(frozen=True)
class BulkReport:
    """What came of a file of pairs."""

    output: str
    pairs: int
    reasons: int
    statuses: dict[str, int]  # pairs by outcome: ok, no_reason, unknown_item
    unknown_users: int  # pairs that were answered from the item and popularity alone
    resumed_at: int  # pairs that an earlier, interrupted run had done
    seconds: float

    def as_dict(self) -> dict[str, object]:
        return asdict(self) | {"pairs_per_second": self.pairs_per_second}

    @property
    def pairs_per_second(self) -> float:
        return (self.pairs - self.resumed_at) / max(self.seconds, 1e-9)

    def summary(self) -> str:
        """One line for people."""
        counts = {**self.statuses, "unknown_user (answered without them)": self.unknown_users}
        again = f", {self.resumed_at:,} of them by an earlier run" if self.resumed_at else ""
        return (
            f"{self.pairs:,} pairs{again}, {self.reasons:,} reasons in {self.seconds:.1f} s "
            f"({self.pairs_per_second:,.0f} pairs/s){_odd(counts)} -> {self.output}"
        )


@dataclass(frozen=True)
class ItemsReport:
    """What came of recommending items to many users."""

    output: str
    users: int
    items: int
    reasons: int
    statuses: dict[str, int]  # items by outcome: ok, no_reason; and users without an item: no_item
    unknown_users: int  # users who were answered by popularity alone
    resumed_at: int  # users that an earlier, interrupted run had done
    seconds: float

    def as_dict(self) -> dict[str, object]:
        return asdict(self) | {"users_per_second": self.users_per_second}

    @property
    def users_per_second(self) -> float:
        return (self.users - self.resumed_at) / max(self.seconds, 1e-9)

    def summary(self) -> str:
        """One line for people."""
        counts = {**self.statuses, "unknown_user (answered without them)": self.unknown_users}
        again = f", {self.resumed_at:,} of them by an earlier run" if self.resumed_at else ""
        return (
            f"{self.users:,} users{again}, {self.items:,} items, {self.reasons:,} reasons in {self.seconds:.1f} s "
            f"({self.users_per_second:,.0f} users/s){_odd(counts)} -> {self.output}"
        )


def _odd(counts: dict[str, int]) -> str:
    odd = ", ".join(f"{count:,} {name}" for name, count in counts.items() if name != "ok" and count)
    return f"; {odd}" if odd else ""


@dataclass(frozen=True)
class BulkColumns:
    """What a file of reasons has beyond ids, scores and evidence."""

    sentences: bool = True
    quotes: bool = False
    titles: pl.DataFrame | None = None  # columns item and title
    templates: Templates | None = None


def explain_file(
    model: Ranker,
    pairs: str | Path,
    output: str | Path,
    n: int = 10,
    options: Options | None = None,
    shown: BulkColumns | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> BulkReport:
    """Rank reasons for every pair of a file and write them in the order of the pairs.

    Pairs come as Parquet, CSV, TSV or JSON lines with columns user and item; reasons are written in the form that the
    name of the output says. Somebody unknown is answered from the item and popularity, with `fallback` unknown_user; a
    pair without a reason becomes one row with `status` no_reason or unknown_item. Parts are saved beside the output
    until all are done; the same call after an interruption goes on where it stopped.

    Other columns of the pairs follow the columns of reasons in every row of their pair, `_of_pair` behind a name that
    reasons have, too.
    """
    begin = time.perf_counter()
    pairs, output, options, shown = Path(pairs), Path(output), options or Options(), shown or BulkColumns()
    check_paths(output, pairs, lists=shown.quotes)

    def make(some: pl.DataFrame, first: int) -> pl.DataFrame:
        places = np.arange(first, first + len(some), dtype=np.uint64)  # a pair that comes twice is drawn twice
        found = explain(model, some, options, n, templates=shown.templates, threads=threads, places=places)
        made = _with_titles(table(found, quotes=shown.quotes, sentences=shown.sentences), shown.titles)
        return _with_own_columns(made, some, found.starts)

    with parts_of(output, fingerprint(model, pairs, n, options, shown)) as parts:
        source = parts.scan(pairs, ("user", "item"))
        check_columns(source, output)
        made = parts.make(source, pairs, ROWS, make, progress)
        sink(made.table, output)
        reasons, statuses, unknown = _counts_of_pairs(made)
    return BulkReport(str(output), made.total, reasons, statuses, unknown, made.resumed, time.perf_counter() - begin)


def recommend_file(
    model: ItemRanker,
    users: str | Path,
    output: str | Path,
    n: int = 10,
    reasons: int = 3,
    options: Options | None = None,
    shown: BulkColumns | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> ItemsReport:
    """Rank items for every user of a file (or for `all` whom the model knows), with reasons, and write them.

    A file of users has a column user. There is a row for every reason; `item_rank` and `item_score` are those of its
    item. An item without a reason has one row with `status` no_reason, a user who knows every item one with no_item.
    Somebody unknown gets the items that are best without them, with `fallback` unknown_user. With `reasons` 0 there is
    one row for every item, without the columns of reasons. Interruptions as in `explain_file`.
    """
    begin = time.perf_counter()
    output, options, shown = Path(output), options or Options(), shown or BulkColumns()
    source = None if users == EVERYBODY else Path(users)
    check_count(n)
    check_paths(output, source, lists=shown.quotes and reasons > 0)

    def make(some: pl.DataFrame, first: int) -> pl.DataFrame:
        found = _items_of(model, some["user"], n, reasons, options, shown, threads, n * first)
        return _with_titles(found, shown.titles)

    model.item_keys()  # a model that ranks no items says so before anything is written
    with parts_of(output, fingerprint(model, source, (n, reasons), options, shown)) as parts:
        everybody = pl.LazyFrame({"user": model.catalog_.users.ids})
        asked = everybody if source is None else parts.scan(source, ("user",)).select("user")
        made = parts.make(asked, source, max(1, ROWS // n), make, progress)
        sink(made.table, output)
        counts = _counts_of_items(made, reasons > 0)
    return ItemsReport(str(output), made.total, *counts, made.resumed, time.perf_counter() - begin)


def fingerprint(
    model: Ranker, source: Path | None, size: int | tuple[int, int], options: Options, shown: BulkColumns
) -> str:
    """What a run depends on; parts are only used again for the same."""
    if options.keep is not None:
        raise ParameterError("keep= is a function and cannot be used in bulk; use exclude or banned")
    stat = None if source is None else source.stat()
    facts = {
        "source": None if stat is None else [str(source and source.resolve()), stat.st_size, stat.st_mtime_ns],
        "model": model.digest(),
        "n": size,
        "options": {name: value for name, value in asdict(options).items() if name != "keep"},
        "shown": [shown.sentences, shown.quotes],
        "titles": None if shown.titles is None else int(shown.titles.hash_rows().sum()),
        "templates": None if shown.templates is None else dict(shown.templates.settings),
    }
    return json.dumps(facts, sort_keys=True, default=list)


def _items_of(
    model: ItemRanker,
    users: pl.Series,
    n: int,
    how_many: int,
    options: Options,
    shown: BulkColumns,
    threads: int | None,
    first: int,
) -> pl.DataFrame:
    """The items of some users, with their reasons; `first` is the number of their first pair among all."""
    numbers = user_numbers(model.catalog_, users, options)
    ranked = rank_items(model, numbers, n, threads, options)
    row, place = np.nonzero(ranked.numbers >= 0)
    # A user without an item has a row, too; its item is unknown.
    without = np.flatnonzero((ranked.numbers < 0).all(1))
    at = np.searchsorted(row, without)
    row, place = np.insert(row, at, without), np.insert(place, at, 0)
    items, scores = ranked.numbers[row, place], ranked.scores[row, place]
    ids = pl.Series("item", model.catalog_.items.terms(np.maximum(items, 0)))
    about = pl.DataFrame(
        {
            "user": users.gather(row),
            "item_rank": pl.Series(place + 1, dtype=pl.Int32),
            "item": ids,
            "item_score": pl.Series(scores, dtype=pl.Float32),
            "status": pl.Series(np.where(items >= 0, "ok", "no_item"), dtype=pl.String),
            "fallback": pl.Series(np.where(numbers[row] < 0, fallback_of(options), ""), dtype=pl.String).replace(
                "", None
            ),
        }
    )
    if len(without):
        known = pl.col("status") == "ok"
        about = about.with_columns(pl.when(known).then(pl.col("item_rank", "item", "item_score")))
    if how_many == 0:
        return about
    pairs = (about["user"], ids)
    places = np.arange(first, first + len(row), dtype=np.uint64)
    lists = ranked_known(model, numbers[row], items, how_many, options, threads, places)
    found = explained(model, pairs, (numbers[row], items), lists, options, templates=shown.templates)
    listed = table(found, quotes=shown.quotes, sentences=shown.sentences)
    sizes = np.maximum(np.diff(found.starts), 1)
    spread = about[np.repeat(np.arange(len(row)), sizes)]
    status = pl.when(spread["status"] == "no_item").then(pl.lit("no_item")).otherwise(listed["status"])
    return spread.with_columns(status.alias("status")).hstack(listed.drop("user", "item", "status", "fallback"))


def _with_titles(made: pl.DataFrame, titles: pl.DataFrame | None) -> pl.DataFrame:
    """A column `title` after the item's id, where titles are given; null where there is none."""
    if titles is None:
        return made
    names = titles.select("item", "title").unique("item", keep="first")
    joined = made.select("item").join(names, on="item", how="left", maintain_order="left")
    return made.insert_column(made.columns.index("item") + 1, joined["title"])


def _with_own_columns(made: pl.DataFrame, pairs: pl.DataFrame, starts: NDArray[np.int64]) -> pl.DataFrame:
    """Put what the file of pairs says of each pair behind the reasons, which begin at `starts`."""
    own = pairs.drop("user", "item")
    own = own.rename({name: f"{name}_of_pair" for name in own.columns if name in made.columns})
    return made.hstack(own[np.repeat(np.arange(len(own)), np.maximum(np.diff(starts), 1))])


def _counts_of_pairs(made: Made) -> tuple[int, dict[str, int], int]:
    """Reasons, pairs by outcome, pairs with an unknown user."""
    odd = made.table.filter(pl.col("status") != "ok").group_by("status").len().collect()
    statuses = dict(zip(odd["status"].to_list(), odd["len"].to_list(), strict=True))
    answered = pl.col("rank").is_null() | (pl.col("rank") == 1)  # one row of every pair
    counts = made.table.select(
        pl.col("rank").count(), (answered & (pl.col("fallback") == "unknown_user")).sum().alias("unknown")
    )
    reasons, unknown = counts.collect().row(0)
    return reasons, {"ok": made.total - sum(statuses.values()), **dict(sorted(statuses.items()))}, unknown


def _counts_of_items(made: Made, with_reasons: bool) -> tuple[int, int, dict[str, int], int]:
    """Items, reasons, items by outcome, unknown users."""
    first = (pl.col("rank").is_null() | (pl.col("rank") == 1)) if with_reasons else pl.lit(True)
    of_user = first & (pl.col("item_rank").is_null() | (pl.col("item_rank") == 1))
    counts = made.table.select(
        *((first & (pl.col("status") == name)).sum().alias(name) for name in ("ok", "no_reason", "no_item")),
        (of_user & (pl.col("fallback") == "unknown_user")).sum().alias("unknown"),
        (pl.col("rank").count() if with_reasons else pl.lit(0)).alias("reasons"),
    )
    ok, no_reason, no_item, unknown, reasons = counts.collect().row(0)
    statuses = {"ok": ok, "no_reason": no_reason, "no_item": no_item}
    odd = {name: count for name, count in statuses.items() if count or name == "ok"}
    return ok + no_reason, reasons, odd, unknown
