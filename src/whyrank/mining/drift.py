"""What new reviews say that those before did not: new statements and aspects, rising and falling ones."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import polars as pl

from whyrank.mining.mined import Mined

SHOWN = 20  # rows of each list
SURE = 2.0  # standard errors from which on a share is called rising or falling
Rows = list[dict[str, object]]


@dataclass(frozen=True)
class Drift:
    """Shares are of records: (user, item) pairs with at least one explanation."""

    records_before: int
    records_new: int
    distance: float | None  # total variation between what was said and what is said: 0 the same, 1 nothing in common
    new_statements: Rows  # explanation, text, aspect, new (records), share
    new_aspects: Rows  # aspect, new, share
    rising: Rows  # explanation, text, aspect, before, new, share_before, share_new, z
    falling: Rows
    totals: dict[str, int]  # how many there are of each, beyond the 20 that are listed

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    def summary(self) -> str:
        """One line for people."""
        if not self.records_before:
            return f"{self.records_new:,} records, and nothing before to compare them with"
        return (
            f"{self.records_new:,} new records beside {self.records_before:,}: "
            f"{self.totals['new_statements']:,} new statements, {self.totals['new_aspects']:,} new aspects, "
            f"{self.totals['rising']:,} rising, {self.totals['falling']:,} falling; "
            f"distance {self.distance or 0:.3f}"
        )

    def markdown(self) -> str:
        """A report for people."""
        lines = ["# What new reviews say", "", self.summary() + ".", ""]
        moved = ("text", "aspect", "before", "new", "share_before", "share_new")
        for title, rows, columns in (
            ("New statements", self.new_statements, ("text", "aspect", "new", "share")),
            ("New aspects", self.new_aspects, ("aspect", "new", "share")),
            ("Rising", self.rising, moved),
            ("Falling", self.falling, moved),
        ):
            lines += [f"## {title}", ""]
            if not rows:
                lines += ["None.", ""]
                continue
            lines += [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
            lines += [f"| {' | '.join(_cell(row[name]) for name in columns)} |" for row in rows]
            lines.append("")
        return "\n".join(lines)


def drift(old: Mined | None, new: Mined) -> Drift:
    """Compare the triplets of a pool with those that a later pool has beyond them.

    Args:
        old: What was mined before; None: nothing was.
        new: What was mined since, with `pool=old`.

    Returns:
        New statements and aspects (said before by nobody), the most frequent first; rising and falling statements,
        whose share of the records differs by at least two standard errors, the surest first. Lists end after 20.

    >>> texts = ["The bed was comfortable."] * 9 + ["The pool was warm."] * 9
    >>> people = {"user": [str(k) for k in range(18)], "item": [str(k % 3) for k in range(18)]}
    >>> from whyrank.mining import mine
    >>> one = mine(pl.DataFrame({name: rows[:9] for name, rows in people.items()} | {"text": texts[:9]}))
    >>> two = mine(pl.DataFrame({name: rows[9:] for name, rows in people.items()} | {"text": texts[9:]}), pool=one)
    >>> sorted(row["text"] for row in drift(one, two).new_statements)
    ['great pool', 'warm pool']
    """
    keys = ["user", "item", "explanation"]
    after = new.pool.triplets.select(keys)
    before = after.clear() if old is None else old.pool.triplets.select(keys)
    fresh = after.join(before, on=keys, how="anti")
    sizes = tuple(each.select("user", "item").n_unique() if each.height else 0 for each in (before, fresh))
    about = new.explanations.select(pl.col("id").alias("explanation"), "text", "aspect")
    statements = _moved(before, fresh, "explanation", sizes).join(about, on="explanation", how="left")
    by_aspect = [
        each.join(about, on="explanation", how="inner").drop_nulls("aspect").unique(["user", "item", "aspect"])
        for each in (before, fresh)
    ]
    aspects = _moved(by_aspect[0], by_aspect[1], "aspect", sizes)
    columns = ("explanation", "text", "aspect", "before", "new", "share_before", "share_new", "z")
    surely = statements.filter((pl.col("before") > 0) & (pl.col("z").abs() >= SURE)).select(columns)
    surely = surely.sort(pl.col("z").abs(), "explanation", descending=[True, False])
    total = statements.select(pl.col("before").sum(), pl.col("new").sum()).row(0)
    apart = (pl.col("before") / max(total[0], 1) - pl.col("new") / max(total[1], 1)).abs().sum() / 2
    lists = {
        "new_statements": _not_said_before(statements, ("explanation", "text", "aspect")),
        "new_aspects": _not_said_before(aspects, ("aspect",)),
        "rising": surely.filter(pl.col("z") > 0),
        "falling": surely.filter(pl.col("z") < 0),
    }
    if not sizes[0]:
        lists = {name: table.clear() for name, table in lists.items()}
    return Drift(
        records_before=sizes[0],
        records_new=sizes[1],
        distance=float(statements.select(apart).item()) if all(total) else None,
        **{name: table.head(SHOWN).to_dicts() for name, table in lists.items()},
        totals={name: table.height for name, table in lists.items()},
    )


def _moved(before: pl.DataFrame, fresh: pl.DataFrame, key: str, sizes: tuple[int, ...]) -> pl.DataFrame:
    """Counts and shares of records before and now, and the z of two proportions."""
    counts = [
        each.group_by(key).agg(pl.len().cast(pl.Int64).alias(name))
        for name, each in (("before", before), ("new", fresh))
    ]
    table = (
        counts[0].join(counts[1], on=key, how="full", coalesce=True).with_columns(pl.col("before", "new").fill_null(0))
    )
    one, two = max(sizes[0], 1), max(sizes[1], 1)
    shares = table.with_columns(share_before=pl.col("before") / one, share_new=pl.col("new") / two)
    pooled = (pl.col("before") + pl.col("new")) / (one + two)
    error = (pooled * (1 - pooled) * (1 / one + 1 / two)).sqrt()
    z = pl.when(error > 0).then((pl.col("share_new") - pl.col("share_before")) / error).otherwise(0.0)
    return shares.with_columns(z=z)


def _not_said_before(table: pl.DataFrame, columns: tuple[str, ...]) -> pl.DataFrame:
    """What nobody said before, the most frequent first."""
    new = table.filter(pl.col("before") == 0).sort("new", columns[0], descending=[True, False])
    return new.select(*columns, "new", pl.col("share_new").alias("share"))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2%}" if math.isfinite(value) else ""
    return "" if value is None else str(value).replace("|", "\\|").replace("\n", " ")
