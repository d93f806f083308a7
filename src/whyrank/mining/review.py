"""A pool reviewed by hand: a table of explanations to accept, merge or reject, written as CSV and read back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl

from whyrank.atomic import new_file
from whyrank.data.columns import for_spreadsheets
from whyrank.data.problems import Problems
from whyrank.data.tables import read_table
from whyrank.errors import DataError
from whyrank.mining.mined import Mined
from whyrank.mining.pool import described, merged

DECISIONS = ("accept", "merge", "reject")
EXAMPLES = 3  # other wordings shown per explanation


def write_review(mined: Mined, path: str | Path) -> Path:
    """Write the explanations, the most frequent first, with a column `decision` to fill in.

    `accept` keeps an explanation (an edited `text` becomes its text), `reject` drops it, `merge` makes it part of the
    explanation whose id is in `into`.
    """
    wordings = mined.wordings.sort("count", "text", descending=[True, False])
    examples = wordings.group_by("explanation", maintain_order=True).agg(
        pl.col("text").head(EXAMPLES + 1).str.join(" | ")
    )
    table = mined.explanations.join(
        examples.rename({"text": "examples"}),
        left_on="id",
        right_on="explanation",
        how="left",
        maintain_order="left",
    )
    with new_file(path) as aside:
        table = table.select(pl.lit("accept").alias("decision"), pl.lit("").alias("into"), pl.all())
        table.with_columns(for_spreadsheets()).write_csv(aside, float_precision=3)
    return Path(path)


def apply_review(mined: Mined, path: str | Path) -> Mined:
    """The mined pool after the decisions in a table that `write_review` wrote and a person edited.

    Explanations that are not in the table stay as they are. What is rejected stays rejected when more reviews are mined
    into the pool.
    """
    path = Path(path)
    table = read_table(path, ("decision", "into", "id", "text"), None, Problems("raise", may_skip=False))
    into, rejected, texts = _decisions(table, set(mined.explanations["id"]), path)
    pool = merged(mined.pool, into)
    gone = pl.col("explanation").is_in(sorted(rejected))
    names = pl.DataFrame({"id": list(texts), "edited": list(texts.values())}, {"id": pl.String, "edited": pl.String})
    explanations = pool.explanations.filter(~pl.col("id").is_in(sorted(rejected))).join(names, on="id", how="left")
    pool = pool._replace(
        triplets=pool.triplets.filter(~gone),
        wordings=pool.wordings.with_columns(explanation=pl.when(gone).then(None).otherwise("explanation")),
        explanations=explanations.with_columns(text=pl.coalesce("edited", "text")).drop("edited"),
    )
    report = replace(mined.report, dropped=dict(mined.report.dropped), wordings=dict(mined.report.wordings))
    report.examples = dict(mined.report.examples)
    report.add_wordings("review", mined.explanations.filter(pl.col("id").is_in(sorted(rejected))))
    return replace(mined, pool=described(pool), report=report)


def _decisions(table: pl.DataFrame, known: set[str], path: Path) -> tuple[dict[str, str], set[str], dict[str, str]]:
    """Merges, rejections and edited texts; every mistake names its row."""
    into: dict[str, str] = {}
    rejected: set[str] = set()
    texts: dict[str, str] = {}
    for name in ("decision", "id"):
        if name not in table.columns:
            raise DataError("missing column", path=path, column=name, expected="the table that --review wrote")
    for number, row in enumerate(table.iter_rows(named=True), 2):
        decision = (row["decision"] or "accept").strip().lower()
        target = (row.get("into") or "").strip()
        if row["id"] not in known:
            raise DataError(f"unknown explanation {row['id']!r}", path=path, row=number, column="id")
        if decision not in DECISIONS:
            raise DataError(f"unknown decision {decision!r}", path=path, row=number, expected=" or ".join(DECISIONS))
        if decision == "merge" and (target not in known or target == row["id"]):
            raise DataError(
                f"cannot merge into {target!r}",
                path=path,
                row=number,
                expected="the id of another explanation",
            )
        if decision == "merge":
            into[row["id"]] = target
        elif decision == "reject":
            rejected.add(row["id"])
        elif (row.get("text") or "").strip():
            texts[row["id"]] = row["text"].strip()
    return {one: _last(one, into, rejected, path) for one in into}, rejected, texts


def _last(one: str, into: dict[str, str], rejected: set[str], path: Path) -> str:
    """Where a chain of merges ends."""
    seen = {one}
    while one in into:
        one = into[one]
        if one in seen:
            raise DataError(f"explanation {one!r} is merged into itself", path=path, column="into")
        seen.add(one)
    if one in rejected:
        raise DataError(f"explanation {one!r} is rejected, but others are merged into it", path=path, column="into")
    return one
