"""What mining gives: triplets, explanations, and an account of how they came about; as objects and as a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import polars as pl

from whyrank.atomic import Marker, json_object, new_folder
from whyrank.data.parquet import read_parquet
from whyrank.data.tables import UNREADABLE, inside
from whyrank.data.triplets import Triplets
from whyrank.errors import DataError
from whyrank.mining.learned import LearnedWords
from whyrank.mining.pool import COUNTED, Pool
from whyrank.mining.report import MiningReport
from whyrank.mining.reviews import Reading
from whyrank.mining.rules import MiningRules

FORMAT = 1
TABLES = ("triplets.parquet", "wordings.parquet", "explanations.parquet")
OF_WORDINGS = {"explanation": pl.String(), "text": pl.String(), "normalized": pl.String()}
OF_EXPLANATIONS = {name: pl.String() for name in ("id", "text", "aspect", "sense", "opposite")} | {
    "polarity": pl.Int8()
}
LEARNED = "learned.json"
KEYS = "reviews.parquet"  # which reviews were read, so that none counts twice


def is_mined(folder: Path) -> bool:
    """Whether a folder is one that `Mined.write` wrote."""
    account = json_object(folder / MARKER.file)
    kinds = {"format": int, "rules": dict, "sha256": dict}
    return all(isinstance(account.get(name), kind) for name, kind in kinds.items())


MARKER = Marker(
    "mining.json", r"mining\.json|learned\.json|(triplets|wordings|explanations|reviews)\.parquet", is_mined
)


@dataclass(frozen=True, eq=False, repr=False)
class Mined:
    """Explanations mined from reviews.

    `explanations` has one row per explanation, the most frequent first: id, text, count (records), users, items, rating
    (their mean), sentiment (-1 or 1), aspect, sense, polarity, specificity (bits) and wordings (how many
    different ones stand behind it). `rule_report()` says what each rule dropped.
    """

    pool: Pool
    rules: MiningRules
    report: MiningReport
    reviews: int  # read
    rejected: dict[str, int] = field(default_factory=dict)  # reviews by cause
    problems: dict[str, list[str]] = field(default_factory=dict)  # examples of broken rows
    seconds: float = 0.0
    coverage: dict[str, float] = field(default_factory=dict)  # shares of reviews, users and items
    titles: dict[str, str] = field(default_factory=dict)  # names of items, as they were given
    keys: pl.Series = field(default_factory=lambda: _no_keys())  # of the reviews behind statements
    learned: LearnedWords | None = None  # of the reviews' words

    @classmethod
    def of(
        cls,
        pool: Pool,
        rules: MiningRules,
        report: MiningReport,
        reading: Reading,
        seconds: float,
        coverage: dict[str, float] | None = None,
    ) -> Mined:
        examples = reading.problems.examples
        return cls(pool, rules, report, reading.reviews, dict(reading.rejected), examples, seconds, coverage or {})

    def __repr__(self) -> str:
        triplets = self.pool.triplets.height
        return f"Mined({self.explanations.height:,} statements, {triplets:,} triplets of {self.reviews:,} reviews)"

    @property
    def explanations(self) -> pl.DataFrame:
        return self.pool.explanations

    @property
    def wordings(self) -> pl.DataFrame:
        """Which sentences each explanation stands for: explanation, count (records), text, normalized."""
        return self.pool.wordings

    @cached_property
    def triplets(self) -> Triplets:
        """The triplets, with texts and the original sentences."""
        if not self.pool.triplets.height:
            raise DataError("no explanation was found", expected="more reviews, or a lower min_count")
        return Triplets.from_frame(self.frame())

    def frame(self) -> pl.DataFrame:
        """The triplets as a table: user, item, explanation, text, rating, time, sentence."""
        own = ("aspect", "polarity", "sense", "opposite")
        texts = self.explanations.select(pl.col("id").alias("explanation"), "text", *own)
        table = self.pool.triplets.join(texts, on="explanation", how="left", maintain_order="left")
        known = [name for name in ("rating", "time") if table[name].null_count() < table.height]
        return table.select("user", "item", "explanation", "text", *own, *known, "sentence", "source", *COUNTED)

    def rule_report(self) -> list[dict[str, object]]:
        """What each rule dropped, in the order of the rules: rule, drops, sentences, wordings, examples."""
        return self.report.rows()

    def summary(self) -> dict[str, object]:
        """The account of the mining as plain data: counts, rules, what was rejected and dropped, hashes."""
        return {
            "format": FORMAT,
            "reviews": self.reviews,
            "rejected": self.rejected,
            "problems": self.problems,
            "sentences": self.report.sentences,
            "explanations": self.explanations.height,
            "triplets": self.pool.triplets.height,
            "records": self.pool.triplets.select("user", "item").unique().height,
            "coverage": self.coverage,
            "rules": self.rules.as_dict(),
            "dropped": self.rule_report(),
            "seconds": round(self.seconds, 3),
        }

    def write(self, folder: str | Path) -> Path:
        """Write a data folder: triplets.parquet, explanations.parquet, wordings.parquet and mining.json."""
        with new_folder(folder, MARKER) as aside:
            hashes = {}
            tables = dict(zip(TABLES, (self.frame(), self.wordings, self.explanations), strict=True))
            tables[KEYS] = pl.DataFrame({"key": self.keys})
            for name, table in tables.items():
                table.write_parquet(aside / name)
                hashes[name] = sha256((aside / name).read_bytes()).hexdigest()
            if self.learned is not None:
                (aside / LEARNED).write_text(json.dumps(self.learned.as_dict()), encoding="utf-8")
                hashes[LEARNED] = sha256((aside / LEARNED).read_bytes()).hexdigest()
            account = self.summary() | {"titles": self.titles, "sha256": hashes}
            (aside / MARKER.file).write_text(json.dumps(account, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return Path(folder)

    @classmethod
    def read(cls, folder: str | Path) -> Mined:
        """Read a folder that `write` wrote; its files must be as they were written."""
        folder = Path(folder)
        try:
            account = json.loads((folder / MARKER.file).read_text(encoding="utf-8"))
            triplets, wordings, explanations = (
                _read_table(inside(folder, name), account["sha256"][name]) for name in TABLES
            )
            report = MiningReport(sentences=account["sentences"])
            for row in account["dropped"]:
                report.dropped[row["rule"]], report.examples[row["rule"]] = row["sentences"], row["examples"]
                report.wordings |= {row["rule"]: row["wordings"]} if row["wordings"] is not None else {}
            pool = Pool(
                _whole(triplets.drop("text", "aspect", "polarity", "sense", "opposite", strict=False)),
                _with_columns(wordings, OF_WORDINGS),
                _with_columns(explanations, OF_EXPLANATIONS),
            )
            rules = MiningRules().changed(account["rules"])
            facts = [account[name] for name in ("reviews", "rejected", "problems", "seconds")]
            facts += [account.get("coverage", {}), dict(account.get("titles", {}))]
            facts.append(_read_table(inside(folder, KEYS), account["sha256"][KEYS])["key"].cast(pl.UInt64))
            facts.append(_read_learned(folder, account["sha256"].get(LEARNED)))
        except (*UNREADABLE, LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(
                f"not a mining folder: {error}", path=folder, expected="the folder of whyrank mine -o"
            ) from error
        return cls(pool, rules, report, *facts)


def _no_keys() -> pl.Series:
    return pl.Series([], dtype=pl.UInt64)


def _read_table(file: Path, digest: str) -> pl.DataFrame:
    """One of a mined folder's tables, as it was written."""
    if sha256(file.read_bytes()).hexdigest() != digest:
        raise DataError("changed since it was written", path=file, expected="a fresh mining folder")
    return read_parquet(file)


def _read_learned(folder: Path, digest: str | None) -> LearnedWords | None:
    """What a pool has learned, as it was written."""
    if digest is None:
        return None
    text = inside(folder, LEARNED).read_bytes()
    if sha256(text).hexdigest() != digest:
        raise DataError("changed since it was written", path=folder / LEARNED, expected="a fresh mining folder")
    return LearnedWords.of(json.loads(text))


def _with_columns(table: pl.DataFrame, needed: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """The table, if it has these columns."""
    for name, kind in needed.items():
        if table.schema.get(name) != kind:
            raise ValueError(f"its tables lack a column {name!r} of {kind}")
    return table


def _whole(triplets: pl.DataFrame) -> pl.DataFrame:
    """Triplets with columns rating and time, even where they are unknown."""
    missing = {"rating": pl.Float32, "time": pl.Int64}
    empty = [pl.lit(None, kind).alias(name) for name, kind in missing.items() if name not in triplets.columns]
    columns = ("user", "item", "explanation", "rating", "time", "sentence", "source", *COUNTED)
    return triplets.with_columns(empty).select(columns)
