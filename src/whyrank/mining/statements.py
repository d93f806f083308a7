"""From opinions to statements: which opinions count, which are often enough, and how a statement is written.

A statement is one aspect, one sense, one polarity. Nothing depends on the order of the reviews.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import polars as pl

from whyrank.data.statements import GENERAL, ITSELF
from whyrank.mining import _opinion_rows as kernel
from whyrank.mining.aspects import LEVELS, Nouns
from whyrank.mining.nouns import StatementEnglish
from whyrank.mining.senses import EXCESSIVE, FIXED, MISSING, polarities

SPOKEN = (kernel.R_PREDICATE, kernel.R_BARE, kernel.R_VERB, kernel.R_NO, kernel.R_AFFECT)  # rules beyond adjectives
NAMED = 3  # mentions by name that make a sense one that items can have
ALIKE = 0.1  # share of a sense that is said with the item's name below which pronouns mean something else
RARELY = 0.002  # share of what is said with its name below which that is not what items are
ALSO = 2.0  # times as often with a capital as behind other words: then the capital is not the noun's own
OWN = 0.5  # share of a noun's uses with a capital that makes it the item's own name
TWIN = 0.2  # share of one sense that makes another one of the same aspect mean the same
EXPECTED, SAID = 2.0, 0.05  # mentions with a verb that would be expected; share of them below which a word names sorts
MEASURED = 0.05  # share of what is said about a noun in words such as high and low that makes it a measure
MOSTLY = 0.5  # share of what is said about a noun in fragments above which that is how people say it
ODD = 0.25  # a sense that an aspect has so much less often than others have it was probably said about something else


class Limits(NamedTuple):
    """How often something must be said to count."""

    records: int  # that hold a statement
    users: int
    items: int


def limits_for(reviews: int, items: int) -> Limits:
    """What the size of the data asks for: 3 records in 10,000 reviews, 6 in 100,000, 13 in a million."""
    return Limits(max(3, round(0.2 * max(reviews, 1) ** 0.3)), 2, 2 if items > 20 else 1)


def is_known(ids: Iterable[str]) -> pl.Expr:
    """Whether a mention makes one of the given statements, at any level of its aspect and with any polarity."""
    pairs = sorted({each.rsplit("|", 1)[0] for each in ids})
    levels = (pl.concat_str(f"p{k}", "sense", separator="|").is_in(pairs) for k in range(LEVELS))
    return pl.any_horizontal(levels).fill_null(False) if pairs else pl.lit(False)


def overall(nouns: Nouns, language: StatementEnglish) -> pl.Expr:
    """Whether a mention judges the item as a whole: great hotel. A quiet hotel says more, and stays."""
    head = pl.col("p0").str.extract(r"(\S+)$")
    done = pl.col("verbal") & (pl.col("rule") != kernel.R_TO)  # worked perfectly
    return (head.is_in([ITSELF, *sorted(nouns.items | language.wholes)]) | done) & pl.col("sense").is_in(GENERAL)


def steady(mentions: pl.DataFrame, least: int, language: StatementEnglish) -> pl.DataFrame:
    """Mentions of aspects that people speak about (`the bed was hard`), not only in idioms (`short notice`).

    Where people write in fragments (`Clean rooms.`), most of what they say about an aspect stands alone like that. A
    noun that nobody describes there (`Nice cafe.`) is probably the item.
    """
    head, plain, user = f"p{LEVELS - 1}", pl.col("sense").is_in(GENERAL), pl.col("user")
    counts = mentions.group_by(head).agg(
        predicates=user.filter(pl.col("rule").is_in(SPOKEN)).n_unique(),
        fragments=user.filter(pl.col("alone")).n_unique(),
        described=user.filter(pl.col("alone") & ~plain).n_unique(),
        all=user.n_unique(),
        verbal=pl.col("verbal").any() | (pl.col(head).first() == ITSELF),
    )
    nouns = [each for each in counts[head].drop_nulls() if language.tags.get(each.split(" ")[-1], "")[:2] == "NN"]
    alone = (pl.col("fragments") >= MOSTLY * pl.col("all")) & (pl.col("described") >= least)
    mostly = alone & pl.col(head).is_in(nouns)
    some = (pl.col("predicates") >= max(2, least // 2)) & (pl.col("predicates") >= 0.1 * pl.col("all"))
    many = (pl.col("predicates") >= least) & (pl.col("predicates") >= 0.15 * pl.col("all"))
    known = mentions.join(counts.filter(some | mostly | pl.col("verbal")).select(head), on=head, how="semi")
    good = counts.filter(many | mostly | pl.col("verbal")).select(head)
    return pl.concat([known.filter(~plain), known.filter(plain).join(good, on=head, how="semi")])


def of_items(mentions: pl.DataFrame, language: StatementEnglish) -> pl.DataFrame:
    """Mentions without what pronouns say about the item in senses that hardly anybody uses with its name.

    Where many find `it` delicious and hardly anybody the restaurant, they mean a dish. An item is not missing, and
    there are not too many of it.
    """
    whole, about = pl.col("whole"), pl.col(f"p{LEVELS - 1}") == ITSELF
    mentions = mentions.filter(~(about & pl.col("sense").is_in([MISSING, EXCESSIVE])))
    named = mentions.filter(about).group_by("sense").agg(n=(~whole).sum(), all=pl.len())
    often = (pl.col("n") >= RARELY * pl.col("n").sum()) & (pl.col("n") >= ALIKE * pl.col("all"))
    named = named.filter(often & (pl.col("n") >= NAMED))
    fit = [word for word in mentions.filter(whole)["spoken"].unique().to_list() if language.describes(word)]
    good = pl.col("sense").is_in(named["sense"].to_list()) & pl.col("spoken").is_in(fit)
    return mentions.filter(~whole | good)


def odd_pairs(mentions: pl.DataFrame, language: StatementEnglish) -> pl.DataFrame:
    """Mentions without those whose sense hardly ever goes with their aspect: delicious service, helpful food.

    High and low are words for what can be measured: prices and pressure, not rooms. Nobody praises a noise or a queue.
    """
    head = f"p{LEVELS - 1}"
    level = pl.col("wording").is_in(sorted(language.levels))
    mentions = mentions.filter(~level | (level.mean().over(head) >= MEASURED))
    mentions = mentions.filter(~((pl.col("sense") == "great") & burdens(language)))
    counts = mentions.group_by(head, "sense").agg(n=pl.len())
    total = max(mentions.height, 1)
    counts = counts.with_columns(expected=pl.col("n").sum().over(head) * pl.col("n").sum().over("sense") / total)
    odd = counts.filter((pl.col("n") < ODD * pl.col("expected")) & ~pl.col("sense").is_in([*GENERAL, MISSING]))
    return mentions.join(odd.select(head, "sense"), on=[head, "sense"], how="anti")


def burdens(language: StatementEnglish) -> pl.Expr:
    """Whether the aspect of a mention is something that one would rather not have: noise, queue, fee."""
    return (pl.col("p0") == pl.col(f"p{LEVELS - 1}")) & pl.col("p0").is_in(sorted(language.burdens))


def own_names(mentions: pl.DataFrame) -> pl.DataFrame:
    """Mentions without names that one item has: a noun that people write with a capital about this item alone."""
    head, capital = f"p{LEVELS - 1}", pl.col("capital") == 1
    inside = mentions.filter((pl.col("capital") >= 0) & ~pl.col("whole"))
    counts = inside.group_by(head, "item").agg(n=pl.len(), capitals=capital.sum(), users=pl.col("user").n_unique())
    own = (pl.col("capitals") >= OWN * pl.col("n")) & (2 * pl.col("capitals") >= pl.col("capitals").sum().over(head))
    names = counts.filter(own & (pl.col("capitals") >= 3) & (pl.col("users") >= 2))
    return mentions.join(names.select(head, "item"), on=[head, "item"], how="anti")


def place_names(mentions: pl.DataFrame) -> pl.DataFrame:
    """Mentions without names of places and things: Central Park, Grand Central Station, though a park is none.

    The noun mostly has a capital behind this word, and much less often behind others (a TV always has one).
    """
    head, capital = f"p{LEVELS - 1}", pl.col("capital") == 1
    inside = mentions.filter((pl.col("capital") >= 0) & ~pl.col("whole") & ~pl.col("verbal"))
    counts = inside.group_by(head, "spoken").agg(
        n=pl.len(), capitals=capital.sum(), before=(pl.col("rule") == kernel.R_ATTRIBUTE).sum()
    )
    others, elsewhere = (pl.col(each).sum().over(head) - pl.col(each) for each in ("n", "capitals"))
    named = (pl.col("capitals") >= OWN * pl.col("n")) & (pl.col("before") >= OWN * pl.col("n"))
    rarer = (others > 0) & (pl.col("capitals") * others >= ALSO * elsewhere * pl.col("n"))
    found = counts.filter(named & rarer & (pl.col("capitals") >= NAMED))
    return mentions.join(found.select(head, "spoken"), on=[head, "spoken"], how="anti")


def sorts(mentions: pl.DataFrame, language: StatementEnglish) -> pl.DataFrame:
    """Mentions without words that only say which sort of a thing is meant: dry ingredients, boneless thighs.

    Such a word stands before this noun only, though people say it of other things with a verb (the cake was dry). Words
    that no list of senses has, and that nobody ever says with a verb, name sorts wherever they stand.
    """
    head = f"p{LEVELS - 1}"
    named = (pl.col("rule") == kernel.R_ATTRIBUTE) & ~pl.col("verbal")
    counts = mentions.group_by(head, "sense").agg(n=pl.len(), said=(~named).sum())
    total, spoken = pl.col("n").sum().over("sense"), pl.col("said").sum().over("sense")
    expected = pl.col("n") * spoken / total
    before_only = (expected >= EXPECTED) & (pl.col("said") <= ODD * expected)
    fixed = [sense for sense, polarity in language.sense_polarity.items() if polarity in FIXED]
    listed = pl.col("sense").is_in([*language.sense_polarity, MISSING, EXCESSIVE])
    judges = pl.col("sense").is_in([*(set(fixed) - language.sorts), MISSING, EXCESSIVE])
    never = ~listed & (total >= 2 * EXPECTED) & (spoken < SAID * total)
    found = counts.filter((before_only & ~judges) | never)
    return mentions.join(found.select(head, "sense"), on=[head, "sense"], how="anti")


def joined_twins(mentions: pl.DataFrame, language: StatementEnglish) -> pl.DataFrame:
    """Mentions with one sense for two where an aspect has both: a hard game is a difficult one, a hard bed is not."""
    head = f"p{LEVELS - 1}"
    into = pl.col("sense").replace_strict(language.twins, default=None, return_dtype=pl.String)
    counts = mentions.group_by(head, "sense").agg(n=pl.len())
    own = counts.with_columns(into=into).drop_nulls("into")
    others = counts.select(head, into="sense", other="n")
    both = (
        own.join(others, on=[head, "into"]).filter(pl.col("other") >= TWIN * pl.col("n")).select(head, "sense", "into")
    )
    joined = mentions.join(both, on=[head, "sense"], how="left", maintain_order="left")
    taken = pl.col("into").is_not_null()
    fixed = pl.col("into").replace_strict(language.sense_polarity, default=None, return_dtype=pl.String)
    return joined.with_columns(
        sense=pl.coalesce("into", "sense"),
        fixed=pl.when(taken).then(fixed.replace_strict(FIXED, default=None, return_dtype=pl.Int8)).otherwise("fixed"),
    ).drop("into")


def idle_absences(mentions: pl.DataFrame) -> pl.DataFrame:
    """Mentions without `no clue`, `no excuse`: absences of what is hardly ever there."""
    head = f"p{LEVELS - 1}"
    absent = pl.col("sense") == MISSING
    idle = mentions.group_by(head).agg(share=absent.mean()).filter(pl.col("share") > 0.5)
    return mentions.join(idle.select(head), on=head, how="anti")


def choose(
    mentions: pl.DataFrame, limits: Limits, language: StatementEnglish, known: Iterable[str] = ()
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Mentions with their statement (aspect, surface, sense, polarity, id), and those that found none.

    Each mention takes the most specific aspect whose statement enough people make; where not even its last noun gets
    there, praise and blame count as such. Plain praise and blame, which say the
    least, need twice as many people.
    """
    old = list(known)
    taken, left = [], mentions.with_columns(said=pl.col("wording"))
    for level in (*range(LEVELS), LEVELS):
        aspect, surface = f"p{min(level, LEVELS - 1)}", f"s{min(level, LEVELS - 1)}"
        if level == LEVELS:
            left = _generalized(left, language)
        left = polarities(left.drop("polarity", "id", strict=False), aspect)
        sign = pl.col("polarity").replace_strict({-1: "-", 0: "0", 1: "+"}, return_dtype=pl.String)
        left = left.with_columns(id=pl.concat_str(aspect, "sense", sign, separator="|"))
        counts = (
            left.filter(pl.col("polarity") != 0)
            .group_by("id")
            .agg(
                users=pl.col("user").n_unique(),
                items=pl.col("item").n_unique(),
                pairs=pl.struct("user", "item").n_unique(),
                plain=pl.col("sense").first().is_in(GENERAL),
            )
        )
        least = pl.when(pl.col("plain")).then(2 * limits.records).otherwise(limits.records)
        enough = counts.filter(
            (pl.col("pairs") >= least) & (pl.col("users") >= limits.users) & (pl.col("items") >= limits.items)
        )
        chosen = pl.col("id").is_in([*enough["id"].to_list(), *old])
        taken.append(left.filter(chosen).with_columns(aspect=pl.col(aspect), surface=pl.col(surface)))
        left = left.filter(~chosen)
    return _told(pl.concat(taken), left, limits.records, old)


def _told(taken: pl.DataFrame, left: pl.DataFrame, least: int, known: list[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Plain praise only of aspects that people also praise for something specific, or very many speak; so blame."""
    plain = pl.col("sense").is_in(GENERAL)
    noun = pl.col("aspect").str.extract(r"(\S+)$")
    side = pl.concat_str(noun, pl.col("polarity").cast(pl.String), separator="|")
    rich = taken.filter(~plain).select(side.unique()).to_series().to_list()
    often = (
        taken.filter(plain).group_by("id").agg(n=pl.struct("user", "item").n_unique()).filter(pl.col("n") >= 4 * least)
    )
    good = ~plain | side.is_in(rich) | pl.col("id").is_in([*often["id"].to_list(), *known])
    said = pl.col("rule").is_in(SPOKEN) | pl.col("verbal") | (pl.col("aspect") == ITSELF)
    told = said.any() | (pl.col("alone").mean() >= MOSTLY)
    counts = taken.group_by("id").agg(n=pl.struct("user", "item").n_unique(), said=told)
    named = counts.filter(~pl.col("said") & (pl.col("n") < least + 2))["id"].to_list()  # fresh lime, empty bottle
    good &= ~pl.col("id").is_in(named) | pl.col("id").is_in(known)
    return taken.filter(good), pl.concat([left, taken.filter(~good).select(left.columns)])


def _generalized(mentions: pl.DataFrame, language: StatementEnglish) -> pl.DataFrame:
    """Mentions of clear polarity as plain praise or blame of their aspect."""
    fixed = pl.col("fixed")
    named = pl.col(f"p{LEVELS - 1}") != ITSELF
    praise = fixed > 0
    clear = mentions.filter((fixed != 0) & (pl.col("sense") != MISSING) & ~pl.col("verbal") & named)
    clear = clear.filter(~(praise & burdens(language)))
    return clear.with_columns(
        sense=pl.when(praise).then(pl.lit("great")).otherwise(pl.lit("bad")),
        wording=pl.when(praise).then(pl.lit("great")).otherwise(pl.lit("bad")),
    )


def describe(taken: pl.DataFrame, language: StatementEnglish) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The wordings of every statement, and the statements: id, text, aspect, sense, polarity.

    A statement is written as most people say it: the opinion word and the noun that are most frequent, each by itself.
    """
    people = pl.struct("user", "item").n_unique()
    phrase = (
        pl.when(pl.col("verbal") & (pl.col("rule") == kernel.R_TO))
        .then(pl.concat_str("said", pl.lit("to"), "surface", separator=" "))
        .when(pl.col("verbal") & pl.col("aspect").str.starts_with("to "))
        .then(pl.concat_str("surface", "spoken", separator=" "))
        .otherwise(pl.concat_str("said", "surface", separator=" "))
    )
    taken = taken.with_columns(phrase=phrase)
    wordings = taken.group_by("id", "key", "phrase").agg(count=people)
    wordings = wordings.select(
        explanation="id",
        count=pl.col("count").cast(pl.Int64),
        text="phrase",
        normalized=pl.concat_str("key", "phrase", separator="#"),
    ).sort("explanation", "count", "text", descending=[False, True, False])

    pairs = taken.select("aspect", "surface").unique()
    own = [
        surface if aspect == ITSELF or language.singular(surface) == aspect else aspect
        for aspect, surface in pairs.iter_rows()
    ]
    taken = taken.join(pairs.with_columns(own=pl.Series(own, dtype=pl.String)), on=["aspect", "surface"], how="left")

    def most(column: str) -> pl.DataFrame:
        counts = taken.group_by("id", column).agg(n=people).sort("id", "n", column, descending=[False, True, False])
        return counts.unique("id", keep="first", maintain_order=True).select("id", column)

    facts = taken.group_by("id").agg(
        pl.col("aspect", "sense", "polarity").first(),
        verbal=(pl.col("verbal") & pl.col("aspect").str.starts_with("to ")).all(),
    )
    table = facts.join(most("wording"), on="id").join(most("own"), on="id").join(most("phrase"), on="id")
    noun = pl.concat_str("wording", "own", separator=" ")
    text = pl.when("verbal").then("phrase").otherwise(noun)
    aspect = pl.when(pl.col("text").str.contains(" to ")).then(pl.lit(ITSELF)).otherwise("aspect").alias("aspect")
    table = table.with_columns(text=text)
    table = table.with_columns(text=pl.Series([language.spelled(each) for each in table["text"]], dtype=pl.String))
    opposite = pl.col("sense").replace_strict(opposites(table["sense"], language), return_dtype=pl.String)
    return wordings, table.select("id", "text", aspect, "sense", "polarity", opposite=opposite).sort("id")


def opposites(senses: pl.Series, language: StatementEnglish) -> dict[str, str | None]:
    """Map senses to those that say the opposite: quiet and noisy, too quiet and quiet; an average one has none."""
    found: dict[str, str | None] = {sense: language.opposites.get(sense) for sense in senses.unique().to_list()}
    found |= {sense: sense.removeprefix("too ") for sense in found if sense.startswith("too ")}
    return found | {"average": None, MISSING: EXCESSIVE}
