"""Reasons for a file of pairs: in constant memory, resumable, nothing half-written."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from whyrank.atomic import new_file, sole_writer
from whyrank.data.compressed import check_expansion
from whyrank.data.parquet import check_parquet
from whyrank.data.tables import UNREADABLE, first_line, form_of
from whyrank.errors import DataError, ParameterError
from whyrank.ranking.explain import explain
from whyrank.ranking.options import Options
from whyrank.ranking.rank import Ranker
from whyrank.ranking.reasons import table
from whyrank.ranking.sentences import Templates

ROWS = 250_000  # pairs in memory at once, and lost at most when the run is killed


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
        counts = {**self.statuses, "unknown_user (answered without them)": self.unknown_users}
        odd = ", ".join(f"{count:,} {name}" for name, count in counts.items() if name != "ok" and count)
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
    quotes: bool = False,
    templates: Templates | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> BulkReport:
    """Rank reasons for every pair of a file and write them as Parquet, in the order of the pairs.

    Pairs come as Parquet, CSV, TSV or JSON lines with columns user and item. Somebody unknown is answered from the item
    and popularity, with `fallback` unknown_user; a pair without a reason becomes one row with `status` no_reason or
    unknown_item. Parts are kept beside the output until all are done; the same call after an interruption goes on where
    it stopped.
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
        source = _prepare(pairs, parts, fingerprint(model, pairs, n, options, quotes, templates))
        total = int(_collected(source.select(pl.len()), pairs).item())
        done_before = done = 0
        for number, start in enumerate(range(0, total, ROWS)):
            part = parts / f"part-{number:06d}.arrow"
            if part.is_file():
                done_before = done = min(start + ROWS, total)
            else:
                some = _collected(source.slice(start, ROWS), pairs)
                found = explain(model, some, options, n, templates=templates, threads=threads)
                with new_file(part) as aside:
                    table(found, quotes=quotes).write_ipc(aside, compression="uncompressed")
                done = min(start + ROWS, total)
            if progress:
                progress(done, total)
        reasons, statuses, unknown = _finish(parts, output, total)
    seconds, resumed = time.perf_counter() - begin, min(done_before, total)
    return BulkReport(str(output), total, reasons, statuses, unknown, resumed, seconds)


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


def fingerprint(
    model: Ranker,
    pairs: Path,
    n: int,
    options: Options,
    quotes: bool = False,
    templates: Templates | None = None,
) -> str:
    """What a run depends on; parts are only used again for the same."""
    if options.keep is not None:
        raise ParameterError("keep= is a function and cannot be used in bulk; use exclude or banned")
    stat = pairs.stat()
    facts = {
        "pairs": [str(pairs.resolve()), stat.st_size, stat.st_mtime_ns],
        "model": model.digest(),
        "n": n,
        "options": {name: value for name, value in asdict(options).items() if name != "keep"},
        "quotes": quotes,
        "templates": None if templates is None else dict(templates.settings),
    }
    return json.dumps(facts, sort_keys=True, default=list)


def _finish(parts: Path, output: Path, total: int) -> tuple[int, dict[str, int], int]:
    """Join the parts into one file and count what is in it."""
    files = sorted(parts.glob("part-*.arrow"))
    if not files:
        raise DataError("no pairs", expected="at least one row")
    joined = pl.scan_ipc(files, glob=False)
    with new_file(output) as aside:
        joined.sink_parquet(aside)
    odd = joined.filter(pl.col("status") != "ok").group_by("status").len().collect()
    statuses = dict(zip(odd["status"].to_list(), odd["len"].to_list(), strict=True))
    answered = pl.col("rank").is_null() | (pl.col("rank") == 1)  # one row of every pair
    counts = joined.select(
        pl.col("rank").count(), (answered & (pl.col("fallback") == "unknown_user")).sum().alias("unknown")
    )
    reasons, unknown = counts.collect().row(0)
    shutil.rmtree(parts, ignore_errors=True)
    return reasons, {"ok": total - sum(statuses.values()), **dict(sorted(statuses.items()))}, unknown
