"""The tables of a pool: who says what about what, what it is worth as a reason, and the words that tell it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.private import is_private
from whyrank.data.statements import GENERAL
from whyrank.mining import statements as st
from whyrank.mining.cards import CountedStatement, chosen, seen, showable
from whyrank.mining.counting import Parsed
from whyrank.mining.learned import LearnedWords
from whyrank.mining.quotes import hangs, presentable, written
from whyrank.mining.said import OfItem, Reader

QUOTES = 3  # of a statement and item
GOOD = -1.0  # how well a clause must stand alone, in log-odds, to be quoted
MOST = 3.0  # log-odds of a match beyond which a quote is no better for it
SURE, SURELY = 0.0, 1.5  # log-odds of a match from which a clause is quoted, where a rule found it and where none did
VERY = 1.5  # weight of saying the statement in so many words
STANDING = 0.6  # weight of how well a clause stands alone beside them


class Found(NamedTuple):
    """What reviews say, as the tables of a pool."""

    triplets: pl.DataFrame
    wordings: pl.DataFrame
    explanations: pl.DataFrame
    learned: LearnedWords
    coverage: dict[str, float]


class Statement(NamedTuple):
    """A statement of an item that is kept, with those who say it."""

    row: int  # of the item's proposals
    id: str
    worth: float | None


class Tables:
    """Makes the tables of what a reader has counted."""

    def __init__(self, reader: Reader, parsed: Parsed, items: list[OfItem]) -> None:
        self.reader, self.parsed, self.items = reader, parsed, items
        self.users: list[str] = reader.records["user"].to_list()
        self.said = reader.matcher.said
        self.by_rule = self._by_rule()
        self.people = self._people()
        mentioned = parsed.table.group_by("aspect").agg(n=pl.col("review").n_unique())
        total = max(int(reader.records["counts"].sum()), 1)
        self.aspects = {aspect: n / total for aspect, n in mentioned.iter_rows()}

    def _by_rule(self) -> dict[tuple[str, str], frozenset[str]]:
        """Return of whom a rule found each statement of each item."""
        key = ["aspect", "sense", "sign"]
        joined = self.parsed.table.join(self.reader.chosen.select(*key, "id"), on=key)
        pairs = joined.group_by("item", "id").agg(pl.col("user").unique())
        return {(item, name): frozenset(people) for item, name, people in pairs.iter_rows()}

    def _people(self) -> dict[str, int]:
        """Return how many people say each shared statement about any item."""
        people: dict[str, int] = {}
        for each in self.items:
            for proposal, group in zip(each.proposals, self.groups(each), strict=True):
                if proposal.id and group:
                    people[proposal.id] = people.get(proposal.id, 0) + len(group)
        return people

    def groups(self, each: OfItem) -> list[frozenset[str]]:
        """Return who says each proposal of an item."""
        says = each.best > self.said
        return [frozenset(self.users[k] for k in each.reviews[row]) for row in says]

    def made(self) -> Found:
        """Make the tables."""
        columns: dict[str, list[object]] = {name: [] for name in ("clause", "review", "explanation", "odds", "worth")}
        kinds: dict[str, st.Proposal] = {}
        for each in self.items:
            for statement in self.statements(each):
                kinds.setdefault(statement.id, each.proposals[statement.row])
                odds = each.best[statement.row]
                places = np.flatnonzero(odds > self.said)
                columns["clause"] += each.which[statement.row, places].tolist()
                columns["review"] += each.reviews[places].tolist()
                columns["explanation"] += [statement.id] * len(places)
                columns["odds"] += odds[places].tolist()
                columns["worth"] += [statement.worth] * len(places)
        kept = (pl.Int32, pl.Int32, pl.String, pl.Float64, pl.Float32)
        said = pl.DataFrame(columns, schema=dict(zip(columns, kept, strict=True)))
        names = self.names(kinds)
        return self._found(self.told(said, names), names)

    def statements(self, each: OfItem) -> list[Statement]:
        """Choose the statements of an item that are kept, and say what each is worth as a reason."""
        groups = self.groups(each)
        keep = self._kept(each, groups)
        counted = self._counted(each, groups, keep)
        worth = self._worth(each, keep, counted)
        shown = set(chosen(counted, worth))
        found = []
        for place, row in enumerate(keep):
            name = each.proposals[row].id
            blames = each.proposals[row].asked.sign < 0  # complaints have no worth: who asks for them sees them all
            own = round(float(worth[place]), 4) if place in shown else 0.0
            found.append(Statement(row, name, None if blames else own))
        return found

    def _kept(self, each: OfItem, groups: list[frozenset[str]]) -> list[int]:
        """Keep shared statements, and nouns that several people praise."""
        keep = []
        for row, proposal in enumerate(each.proposals):
            n = len(groups[row])
            limits = self.reader.limits
            several = n >= max(3, limits.users) or (
                n == 2 >= limits.users and self.people[proposal.id] >= limits.records
            )
            if n and (proposal.kind != "noun" or several):
                keep.append(row)
        return keep

    def _counted(self, each: OfItem, groups: list[frozenset[str]], keep: list[int]) -> list[CountedStatement]:
        """Return what the choice of reasons looks at."""
        against: dict[tuple[str, int], set[str]] = {}
        for proposal, group in zip(each.proposals, groups, strict=True):
            if proposal.asked.sense in GENERAL:
                against.setdefault((proposal.asked.aspect, proposal.asked.sign), set()).update(group)
        found = []
        for row in keep:
            proposal, group = each.proposals[row], groups[row]
            opposite = against.get((proposal.asked.aspect, -proposal.asked.sign), set())
            found.append(
                CountedStatement(
                    proposal.asked,
                    proposal.kind,
                    _chance(each.best[row]),
                    group,
                    len(self.by_rule.get((each.item, proposal.id), frozenset()) & group),
                    self.people.get(proposal.id, 0),
                    self.aspects.get(proposal.asked.aspect, 0.0),
                    len(opposite - group),
                )
            )
        return found

    def _worth(self, each: OfItem, keep: list[int], counted: list[CountedStatement]) -> NDArray[np.float32]:
        """Return what statements are worth: the chance that an editor shows one, times that its number is right."""
        if not counted:
            return np.zeros(0, np.float32)
        matcher, general = self.reader.matcher, self.reader.general
        said = float(_chance(np.float32(self.said)))
        facts = np.stack([seen(one, len(each.reviews), said, general) for one in counted])
        both = _chance(facts @ matcher.shown[:-1] + matcher.shown[-1]) * _chance(
            facts @ matcher.right[:-1] + matcher.right[-1]
        )
        good = [showable(one, general) for one in counted]
        return np.asarray(both * np.array(good), np.float32)

    def texts(self, clauses: NDArray[np.int32]) -> pl.Series:
        """Return clauses as they were written."""
        cut = self.parsed.cut
        first, last = cut.first[clauses], cut.last[clauses] - 1
        spans = pl.DataFrame(
            {"review": cut.review[clauses], "start": self.parsed.start[first], "end": self.parsed.end[last]}
        )
        return written(spans, self.reader.records["text"])

    def names(self, kinds: Mapping[str, st.Proposal]) -> pl.DataFrame:
        """Return the statements with their texts."""
        names, opposites = self.reader.names, dict(self.reader.language.tables["opposites"])
        opposites |= {other: one for one, other in opposites.items() if other not in opposites}
        opposites |= {"great": "bad", "bad": "great"}
        spoken = self._spoken()
        rows = []
        for name in sorted(kinds):
            proposal = kinds[name]
            says = proposal.asked
            plural = names.mass(says.aspect) or says.aspect.endswith("s")
            text = st.text_of(says.aspect, spoken.get(name, says.sense), proposal.kind, plural)
            rows.append((name, text, says.aspect, says.sense, says.sign, opposites.get(says.sense)))
        columns = ("id", "text", "aspect", "sense", "polarity", "opposite")
        return pl.DataFrame(
            rows, schema={name: pl.Int8 if name == "polarity" else pl.String for name in columns}, orient="row"
        )

    def _spoken(self) -> dict[str, str]:
        """Return the word of its sense in which people say a statement most often: an attractive price."""
        reader = self.reader
        words = reader.chosen.filter(pl.col("kind") == "opinion").select("id", "sense", "spoken")
        senses = reader.language.senses
        told = (
            (name, sense, min(reader.vocabulary[k] for k in most)) for name, sense, most in words.iter_rows() if most
        )
        return {name: word for name, sense, word in told if sense not in GENERAL and senses.get(word) == sense}

    def told(self, said: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
        """Return the triplets: each with its clause, and the best few with their quotes."""
        distinct = said["clause"].unique().sort()
        texts = self.texts(distinct.to_numpy())
        fit = self.parsed.fit[distinct.to_numpy()] - hangs(texts.to_list())
        good = presentable(texts, self.reader.language, vulgar=self.reader.rules.vulgar) & pl.Series(fit > GOOD)
        public = ~is_private(texts) & pl.Series(np.isfinite(fit))  # nor does it name people
        open_ = pl.select(pl.when(public).then(texts)).to_series()
        said = said.join(
            pl.DataFrame({"clause": distinct, "said": open_, "fit": fit, "good": good}),
            on="clause",
            maintain_order="left",
        )
        records = self.reader.records.select("review", "user", "item", "rating", "time", "source", "copy_group")
        said = said.join(records, on="review", maintain_order="left")
        said = said.join(names.select("id", "aspect", "sense", "polarity"), left_on="explanation", right_on="id")
        key = ["clause", "aspect", "sense", "polarity"]
        by_rule = self.parsed.table.select("clause", "aspect", "sense", "rule", polarity="sign")
        said = said.join(by_rule.unique(key, keep="first", maintain_order=True), on=key, how="left")
        said = said.with_columns(
            order=pl.col("odds").clip(-MOST, MOST)
            + STANDING * pl.col("fit")
            + VERY * pl.col("rule").is_not_null().cast(pl.Float64)
        )
        said = said.with_columns(pl.col("order").round(3))
        order = ["explanation", "item", "order", "said", "user", "copy_group"]
        said = said.sort([*order, "source"], descending=[False, False, True, False, False, False, False])
        said = said.unique(["user", "item", "explanation"], keep="first", maintain_order=True)
        surely = pl.when(pl.col("rule").is_not_null()).then(SURE).otherwise(SURELY)
        said = said.with_columns(good=pl.col("good") & (pl.col("odds") > surely))
        best = pl.col("good") & (pl.col("good").cum_sum().over("explanation", "item") <= QUOTES)
        capital = pl.col("said").str.slice(0, 1).str.to_uppercase() + pl.col("said").str.slice(1)
        return said.select(
            *("user", "item", "explanation", pl.col("rating").cast(pl.Float32), "time"),
            pl.when(best).then(capital).alias("sentence"),
            *("source", "said", "rule"),
            (1 / (1 + (-pl.col("odds")).exp())).round(4).cast(pl.Float32).alias("chance"),
            *("worth", "copy_group"),
        )

    def _found(self, triplets: pl.DataFrame, names: pl.DataFrame) -> Found:
        counts = triplets.group_by("explanation").agg(count=pl.len().cast(pl.UInt32))
        wordings = names.select(explanation="id", text="text", normalized="id").join(counts, on="explanation")
        wordings = wordings.select("explanation", "count", "text", "normalized").sort("explanation")
        return Found(triplets, wordings, names, self.reader.learned, self._coverage(triplets))

    def _coverage(self, triplets: pl.DataFrame) -> dict[str, float]:
        """Return how much of the reviews, users and items the statements reach."""
        fresh = self.reader.records.filter("counts")
        pairs = triplets.select("user", "item").unique()
        per_item = triplets.group_by("item").agg(n=pl.col("explanation").n_unique())
        items = (
            fresh.group_by("item").len().join(per_item, on="item", how="left").with_columns(pl.col("n").fill_null(0))
        )
        often = items.filter(pl.col("len") >= 5)

        def share(part: float, whole: float) -> float:
            return round(part / whole, 4) if whole else 0.0

        return {
            "reviews": share(fresh.join(pairs, on=["user", "item"], how="semi").height, fresh.height),
            "users": share(triplets["user"].n_unique(), fresh["user"].n_unique()),
            "items_with_3": share(items.filter(pl.col("n") >= 3).height, items.height),
            "items_of_5_reviews_with_3": share(often.filter(pl.col("n") >= 3).height, often.height),
        }


def _chance(odds: NDArray[np.float32] | np.float32) -> NDArray[np.float32]:
    """Return probabilities for log-odds."""
    return np.asarray(1 / (1 + np.exp(-odds)), np.float32)
