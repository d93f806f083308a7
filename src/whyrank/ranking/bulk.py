"""Reasons for a file of pairs: in constant memory, resumable, nothing half-written."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import polars as pl

from whyrank.atomic import new_file, sole_writer
from whyrank.data.compressed import check_expansion
from whyrank.data.parquet import check_parquet
from whyrank.data.tables import UNREADABLE, first_line, form_of
from whyrank.errors import DataError, ParameterError
from whyrank.ranking.options import Options
from whyrank.ranking.rank import Ranked, Ranker, rank
from whyrank.ranking.reasons import reason_table

ROWS = 250_000  # pairs in memory at once, and lost at most when the run is killed
SCHEMA = {"rank": pl.Int32, "explanation": pl.String, "text": pl.String, "score": pl.Float32}
SCHEMA |= {"said_of_item": pl.Int32, "said_by_user": pl.Int32}


@dataclass(frozen=True)
class BulkReport:
    """What came of a file of pairs."""

    output: str
    pairs: int
    reasons: int
    statuses: dict[str, int]  # pairs by outcome: ok, unknown_user, unknown_item, no_reason
    resumed_at: int  # pairs that an earlier, interrupted run had done
    seconds: float

    def as_dict(self) -> dict[str, object]:
        return asdict(self) | {"pairs_per_second": self.pairs_per_second}

    @property
    def pairs_per_second(self) -> float:
        return (self.pairs - self.resumed_at) / max(self.seconds, 1e-9)

    def summary(self) -> str:
        odd = ", ".join(f"{count:,} {name}" for name, count in self.statuses.items() if name != "ok" and count)
        again = f", {self.resumed_at:,} of them by an earlier run" if self.resumed_at else ""
        return (
            f"{self.pairs:,} pairs{again}, {self.reasons:,} reasons in {self.seconds:.1f} s "
            f"({self.pairs_per_second:,.0f} pairs/s){'; ' + odd if odd else ''} -> {self.output}"
        )


def explain_file(
    model: Ranker,
    pairs: str | Path,
    output: str | Path,
    n: int = 10,
    options: Options | None = None,
    *,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> BulkReport:
    """Rank reasons for every pair of a file and write them as Parquet, in the order of the pairs.

    Pairs come as Parquet, CSV, TSV or JSON lines with columns user and item. A pair with an unknown id becomes one row
    with `status` unknown_user or unknown_item and no reason. Parts are kept beside the output until all are done; the
    same call after an interruption goes on where it stopped.
    """
    begin = time.perf_counter()
    pairs, output, options = Path(pairs), Path(output), options or Options()
    if output.suffix != ".parquet":
        raise ParameterError(f"{output}: reasons are written as Parquet; use a name that ends in .parquet")
    if not pairs.is_file():
        raise DataError("no such file", path=pairs)
    if output.exists() and output.samefile(pairs):
        raise ParameterError(f"{output}: is the file of pairs, which would be lost; name another output")
    parts = output.parent / f".{output.name}.parts"
    with sole_writer(output), _dropped_if_unreadable(parts):
        source = _prepare(pairs, parts, fingerprint(model, pairs, n, options))
        total = int(_collected(source.select(pl.len()), pairs).item())
        done_before = done = 0
        for number, start in enumerate(range(0, total, ROWS)):
            part = parts / f"part-{number:06d}.parquet"
            if part.is_file():
                done_before = done = min(start + ROWS, total)
            else:
                table = _explain_part(model, _collected(source.slice(start, ROWS), pairs), n, options, threads)
                with new_file(part) as aside:
                    table.write_parquet(aside)
                done = min(start + ROWS, total)
            if progress:
                progress(done, total)
        reasons, statuses = _finish(parts, output, total)
    seconds = time.perf_counter() - begin
    return BulkReport(str(output), total, reasons, statuses, done_before if done_before < total else total, seconds)


@contextmanager
def _dropped_if_unreadable(parts: Path) -> Iterator[None]:
    """Parts of pairs that cannot be read are of no use."""
    try:
        yield
    except DataError:
        shutil.rmtree(parts, ignore_errors=True)
        raise


def _collected(rows: pl.LazyFrame, pairs: Path) -> pl.DataFrame:
    """Rows of the file of pairs, whose damage shows only when they are read."""
    try:
        return rows.collect()
    except UNREADABLE as error:
        raise DataError(f"cannot be read: {first_line(error)}", path=pairs) from error


def _prepare(pairs: Path, parts: Path, fingerprint: str) -> pl.LazyFrame:
    """A lazy table of pairs; parts of a run with other pairs, model or options are thrown away."""
    marker = parts / "run.json"
    if not (marker.is_file() and marker.read_text(encoding="utf-8") == fingerprint):
        shutil.rmtree(parts, ignore_errors=True)
        with new_file(marker) as aside:
            aside.write_text(fingerprint, encoding="utf-8")
    try:
        source = _scan(pairs, parts)
        types = source.collect_schema()
    except UNREADABLE as error:
        raise DataError(f"cannot be read: {first_line(error)}", path=pairs) from error
    for name in ("user", "item"):
        kind = types.get(name)
        if kind is None or kind.is_nested() or kind in (pl.Duration, pl.Object):
            problem = "missing column" if kind is None else f"a column of type {kind}"
            raise DataError(problem, path=pairs, column=name, expected="ids in columns user and item")
    return source.select(pl.col("user", "item").cast(pl.String))


def _scan(pairs: Path, parts: Path) -> pl.LazyFrame:
    """Parquet as it is; other forms are turned into Parquet first, so that slices of them are cheap."""
    form, _ = form_of(pairs)
    if form == "parquet":
        return pl.scan_parquet(check_parquet(pairs), glob=False)
    staged = parts / "pairs.parquet"
    if not staged.is_file():
        check_expansion(pairs)
        with new_file(staged) as aside, pairs.open("rb") as file:
            if form == "jsonl":
                lazy = pl.scan_ndjson(file, schema={"user": pl.String, "item": pl.String})
            else:
                quote = None if form == "tsv" else '"'
                lazy = pl.scan_csv(file, separator="\t" if form == "tsv" else ",", quote_char=quote, infer_schema=False)
            try:
                lazy.sink_parquet(aside)
            except UNREADABLE as error:
                if getattr(error, "errno", None) or "(os error" in str(error):
                    raise  # it is the disk, not the file of pairs
                raise DataError(f"cannot be read: {first_line(error)}", path=pairs) from error
    return pl.scan_parquet(staged, glob=False)


def fingerprint(model: Ranker, pairs: Path, n: int, options: Options) -> str:
    """What a run depends on; parts are only used again for the same."""
    if options.keep is not None:
        raise ParameterError("keep= is a function and cannot be used in bulk; use exclude or banned")
    stat = pairs.stat()
    facts = {
        "pairs": [str(pairs.resolve()), stat.st_size, stat.st_mtime_ns],
        "model": model.digest(),
        "n": n,
        "options": {name: value for name, value in asdict(options).items() if name != "keep"},
    }
    return json.dumps(facts, sort_keys=True, default=list)


def _explain_part(model: Ranker, pairs: pl.DataFrame, n: int, options: Options, threads: int | None) -> pl.DataFrame:
    catalog = model.catalog_
    users = catalog.users.numbers(pairs["user"], missing="negative")
    items = catalog.items.numbers(pairs["item"], missing="negative")
    known = np.flatnonzero((users >= 0) & (items >= 0))
    ranked = rank(model, users[known], items[known], n, options, threads)
    rows = np.repeat(known, (ranked.numbers >= 0).sum(1))
    table = reason_table(model, pairs[known], users[known], items[known], Ranked(*ranked), similar=False)
    table = table.with_columns(pl.Series("row", rows), pl.lit("ok").alias("status"))
    without = np.setdiff1d(np.arange(len(pairs)), rows)
    codes = np.where(users[without] < 0, "unknown_user", np.where(items[without] < 0, "unknown_item", "no_reason"))
    odd = pairs[without].with_columns(pl.Series("row", without), pl.Series("status", codes, dtype=pl.String))
    both = pl.concat([table, odd], how="diagonal").sort("row", "rank", nulls_last=True)
    return both.select("user", "item", *(pl.col(name).cast(kind) for name, kind in SCHEMA.items()), "status")


def _finish(parts: Path, output: Path, total: int) -> tuple[int, dict[str, int]]:
    """Join the parts into one file and count what is in it."""
    files = sorted(parts.glob("part-*.parquet"))
    if not files:
        raise DataError("no pairs", expected="at least one row")
    joined = pl.scan_parquet(files, glob=False)
    with new_file(output) as aside:
        joined.sink_parquet(aside)
    odd = joined.filter(pl.col("status") != "ok").group_by("status").len().collect()
    statuses = dict(zip(odd["status"].to_list(), odd["len"].to_list(), strict=True))
    reasons = int(joined.select(pl.col("rank").count()).collect().item())
    shutil.rmtree(parts, ignore_errors=True)
    return reasons, {"ok": total - sum(statuses.values()), **dict(sorted(statuses.items()))}
