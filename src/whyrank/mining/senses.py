"""What an opinion says: the sense of its words, and its polarity from words and ratings together."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from whyrank.data.statements import ABSENT, GENERAL
from whyrank.mining import _opinion_rows as kernel
from whyrank.mining import _wordclasses as words
from whyrank.mining.nouns import StatementEnglish

SHRINK = 8.0  # imaginary records at the guess that steady a mean rating
CLEAR = 0.2  # standard deviations from the mean that make a polarity
(MISSING, EXCESSIVE), WORTH = ABSENT, "worth"
FIXED = {"+": 1, "-": -1, "0": 0}  # polarities of senses that do not depend on their aspect
GUESSES = {"+": 1, "?+": 1, "-": -1, "?-": -1}
VERBAL = (kernel.R_VERB, kernel.R_AFFECT, kernel.R_DOES)  # rules whose opinion is a verb or a feeling
LACK = ("lack", "lacks", "lacked", "lacking")
EXCESS = ("many", "much")
UNKNOWN = 3  # marks the guess for a word that no list of senses has: then ratings must agree


class Sense(NamedTuple):
    """What an opinion says, whatever its aspect."""

    name: str
    polarity: int | None  # None: depends on the aspect
    guess: int
    wording: str  # as it is written before a noun


def sense_of(language: StatementEnglish, opinion: str, adverb: str, sign: int, rule: int) -> Sense | None:
    """The sense of an opinion word, turned by its negation; None where it says nothing that can be used."""
    if rule == kernel.R_NO:
        return Sense(MISSING, None, 0, "no") if sign == 2 else None
    word = language.word(opinion)
    if word.sense is None and adverb:
        leading = language.word(adverb)
        if leading.sense is None:
            return None
        word, opinion = leading._replace(bits=word.bits), f"{adverb} {opinion}"
    if sign == 3:  # could be better is a complaint; could be cleaner does not say that it is dirty
        return Sense("bad", -1, -1, "bad") if word.sense == "great" else None
    if opinion in LACK and sign == 1:
        return Sense(MISSING, None, 0, "lack of")
    if sign == 2 and opinion in EXCESS:
        return Sense(EXCESSIVE, -1, -1, f"too {opinion}")
    role = language.role_sign(opinion)
    told = rule == kernel.R_DOES and word.sense not in (None, *GENERAL)  # crashes, lasts
    if role is not None and not told and (rule in VERBAL or word.sense is None):
        good = sign == -2 or (sign != 2 and (role > 0) == (sign == 1))
        return Sense("great", 1, 1, "great") if good else Sense("bad", -1, -1, "bad")
    if word.sense is None:
        if rule == kernel.R_DOES:
            return Sense("broken", -1, -1, "broken") if sign == 2 else None
        if sign != 1 or not word.bits & (words.ADJ | words.PARTICIPLE):
            return None
        return Sense(opinion, None, UNKNOWN * language.lexicon_sign(opinion), opinion)
    polarity = language.sense_polarity[word.sense]
    fixed, guess = FIXED.get(polarity), GUESSES.get(polarity, 0)
    wording = language.adjective(opinion)
    if wording is None:
        return None
    if sign == 1:
        return Sense(word.sense, fixed, guess, wording)
    if sign == -2 and fixed != -1:
        return Sense(word.sense, 1, 1, wording)
    if sign == 2:
        if word.sense == "great":
            return Sense("bad", -1, -1, "bad")
        return (
            Sense(f"too {word.sense}", -1, -1, f"too {wording}") if fixed == 1 else Sense(word.sense, -1, -1, wording)
        )
    other = language.opposites.get(word.sense)
    if other is None:  # nothing that could be written before a noun
        return None
    of_other = language.sense_polarity[other]
    return Sense(other, FIXED.get(of_other), GUESSES.get(of_other, 0), other)


def senses(mentions: pl.DataFrame, texts: dict[int, str], language: StatementEnglish) -> pl.DataFrame:
    """Mentions with their sense: name, fixed (null where it depends), guess, wording; others go."""
    key = ["opinion", "adverb", "sign", "rule"]
    distinct = mentions.select(key).unique()
    rows = []
    for opinion, adverb, sign, rule in distinct.iter_rows():
        found = sense_of(language, texts.get(opinion, ""), texts.get(adverb, ""), sign, rule)
        rows.append((*found[:4], texts.get(opinion, "")) if found else (None,) * 5)
    schema = {"sense": pl.String, "fixed": pl.Int8, "guess": pl.Int8, "wording": pl.String, "spoken": pl.String}
    table = pl.concat([distinct, pl.DataFrame(rows, schema=schema, orient="row")], how="horizontal")
    return mentions.join(table, on=key, how="left").drop_nulls("sense")


def polarities(mentions: pl.DataFrame, level: str) -> pl.DataFrame:
    """Mentions with their polarity: that of the sense, or what ratings say about the aspect and the sense together.

    A mean rating is measured in standard deviations from the mean of all, steadied towards that of the sense, and that
    towards the guess.
    """
    open_ones = mentions.filter(pl.col("fixed").is_null())
    rating = open_ones.filter(pl.col("score").is_not_null())
    by_sense = rating.group_by("sense").agg(
        total=pl.col("score").sum(), n=pl.len(), guess=pl.col("guess").first().clip(-1, 1)
    )
    by_sense = by_sense.select(
        "sense", base=(pl.col("total") + pl.col("guess") * 0.5 * SHRINK) / (pl.col("n") + SHRINK)
    )
    both = rating.group_by(level, "sense").agg(total=pl.col("score").sum(), n=pl.len()).join(by_sense, on="sense")
    both = both.select(level, "sense", mean=(pl.col("total") + pl.col("base") * SHRINK) / (pl.col("n") + SHRINK))
    joined = mentions.join(both, on=[level, "sense"], how="left")
    mean = pl.col("mean")
    guess = pl.col("guess")
    unknown = guess.abs() == UNKNOWN
    learned = pl.when(mean > CLEAR).then(1).when(mean < -CLEAR).then(-1).otherwise(0)
    likely = pl.when(mean * guess.sign() > -CLEAR / 2).then(guess.sign()).otherwise(learned)
    polarity = (
        pl.when(mean.is_null())
        .then(guess.sign())
        .when(unknown & (learned * guess <= 0))
        .then(0)
        .otherwise(pl.when(mean.abs() > CLEAR).then(learned).otherwise(likely))
    )
    return joined.with_columns(polarity=pl.coalesce("fixed", polarity).cast(pl.Int8)).drop("mean")


def scores_of(ratings: pl.Series) -> pl.Series:
    """Ratings in standard deviations from their mean; null where there are none, or no two that differ."""
    spread = ratings.std()
    if not isinstance(spread, float) or not spread:
        return pl.Series("score", [None] * len(ratings), dtype=pl.Float64)
    return ((ratings - ratings.mean()) / spread).alias("score")
