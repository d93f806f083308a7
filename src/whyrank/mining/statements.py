"""Statements: what may be said of items, proposed by mentions and by nouns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.statements import GENERAL, ITSELF, statement_id
from whyrank.mining.counting import Asked, Parsed, asked
from whyrank.mining.mentions import NOUN
from whyrank.mining.opinions import Names

ODD = 0.25  # a sense that an aspect has so much less often than others have it was probably said about something else
NOUNS = 30  # most of an item
MANY = 120  # statements of an item that mentions propose
VERDICTS = frozenset(GENERAL)


class Limits(NamedTuple):
    """How often something must be said to count."""

    records: int  # that hold a statement
    users: int
    items: int


def limits_for(reviews: int, items: int) -> Limits:
    """Return what the size of the data asks for: 3 records in 10,000 reviews, 6 in 100,000, 13 in a million."""
    return Limits(max(3, round(0.2 * max(reviews, 1) ** 0.3)), 2, 2 if items > 20 else 1)


def shared(mentions: pl.DataFrame, limits: Limits, known: Iterable[str]) -> pl.DataFrame:
    """Return the statements that enough people make: aspect, sense, sign, id, kind, people and items.

    Whoever says something about an aspect praises or blames it as a whole as well.
    """
    own = mentions.filter(pl.col("sign") != 0)
    verdict = (pl.col("aspect") == ITSELF) & pl.col("sense").is_in(GENERAL)
    own = own.filter(~verdict)
    whole = own.filter((pl.col("aspect") != ITSELF) & pl.col("kind").is_in(["opinion", "comparison"])).with_columns(
        sense=pl.when(pl.col("sign") > 0).then(pl.lit("great")).otherwise(pl.lit("bad")), kind=pl.lit("aspect")
    )
    every = pl.concat([own, whole])
    counts = every.group_by("aspect", "sense", "sign").agg(
        people=pl.col("user").n_unique().cast(pl.Int64),
        items=pl.col("item").n_unique(),
        kind=pl.col("kind").sort().first(),
        spoken=pl.col("said").mode(),
    )
    told = pl.col("people").sum().over("aspect") * pl.col("people").sum().over("sense")
    expected = told / pl.col("people").sum()
    odd = (pl.col("people") < ODD * expected) & ~pl.col("sense").is_in(GENERAL) & (pl.col("aspect") != ITSELF)
    counts = counts.filter(~odd)
    praised = counts.group_by(noun="aspect").agg(praised=pl.col("people").max())
    counts = counts.with_columns(noun=pl.col("sense").str.extract(r"^for .*?(\w+)$").str.replace(r"s$", ""))
    counts = counts.join(praised, on="noun", how="left").drop("noun")
    of_itself = (pl.col("kind") == "use") & (pl.col("praised").fill_null(0) > pl.col("people"))
    counts = counts.filter(~of_itself).drop("praised")  # great for food, of a restaurant
    enough = (pl.col("people") >= max(limits.records, limits.users)) & (pl.col("items") >= limits.items)
    sign = pl.when(pl.col("sign") > 0).then(pl.lit("+")).otherwise(pl.lit("-"))
    counts = counts.with_columns(id=pl.concat_str("aspect", "sense", sign, separator="|"))
    return counts.filter(enough | pl.col("id").is_in(list(known))).sort("id")


class Proposal(NamedTuple):
    """A statement that is asked of an item's clauses."""

    asked: Asked
    id: str
    kind: str


def of_mentions(mentions: pl.DataFrame, chosen: pl.DataFrame) -> dict[str, list[Proposal]]:
    """Propose of every item what its mentions say, the most frequent first."""
    named = chosen.select("aspect", "sense", "sign", "id", statement="kind")
    key = ["aspect", "sense", "sign"]
    own = mentions.select("item", "user", "kind", *key)
    whole = own.filter(pl.col("kind").is_in(["opinion", "comparison"])).with_columns(
        sense=pl.when(pl.col("sign") > 0).then(pl.lit("great")).otherwise(pl.lit("bad"))
    )
    counts = pl.concat([own, whole]).join(named, on=key).group_by("item", "id").agg(n=pl.col("user").n_unique())
    counts = (
        counts.sort(["item", "n", "id"], descending=[False, True, False])
        .group_by("item", maintain_order=True)
        .head(MANY)
    )
    proposals = {
        name: Proposal(asked(aspect, sense, sign), name, kind) for aspect, sense, sign, name, kind in named.iter_rows()
    }
    found: dict[str, list[Proposal]] = {}
    for item, name in counts.select("item", "id").iter_rows():
        found.setdefault(item, []).append(proposals[name])
    return found


def of_nouns(picked: NDArray[np.int32], parsed: Parsed, names: Names, known: Iterable[str]) -> list[Proposal]:
    """Propose nouns that several reviews of an item name, as praise and as blame of them."""
    reviews: dict[str, set[int]] = {}
    word, cut = parsed.given.word, parsed.cut
    for k in picked.tolist():
        review = int(cut.review[k])
        for at in range(cut.first[k], cut.last[k]):
            if parsed.bits[at] & NOUN:
                name = names.aspect((int(word[at]),))
                if name and name != ITSELF:
                    reviews.setdefault(name, set()).add(review)
    often = sorted((-len(each), name) for name, each in reviews.items() if len(each) >= 2)
    taken = set(known)
    keys = [(name, sense, sign) for _, name in often[:NOUNS] for sense, sign in (("great", 1), ("bad", -1))]
    ids = [statement_id(*key) for key in keys]
    return [Proposal(asked(*key), each, "noun") for key, each in zip(keys, ids, strict=True) if each not in taken]


def text_of(aspect: str, sense: str, kind: str, plural: bool) -> str:
    """Write a statement the short way.

    >>> text_of("bed", "comfortable", "opinion", False), text_of("hair", "leaves soft", "effect", False)
    ('comfortable bed', 'leaves hair soft')
    >>> text_of("it", "for families", "use", True), text_of("washer", "there", "fact", False)
    ('good for families', 'has a washer')
    """
    if kind == "use":
        return f"good {sense}"
    if kind == "nearness":
        return f"close to {sense.removeprefix('near ')}"
    if kind == "lack":
        return f"no {aspect}"
    if kind == "fact":
        return f"has {aspect}" if plural else f"has a{'n' if aspect[:1] in 'aeiou' else ''} {aspect}"
    if kind == "effect":
        verb, _, rest = sense.partition(" ")
        return f"{verb} {aspect} {rest}".strip()
    if sense == "plenty":
        return f"plenty of {aspect}"
    return sense if aspect == ITSELF else f"{sense} {aspect}"
