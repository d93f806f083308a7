"""Quotes: the best short sentence behind a triplet, without names, addresses or words that should not be shown."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.columns import from_lines
from whyrank.data.private import is_private
from whyrank.mining._tokens import gather_lines
from whyrank.mining.nouns import StatementEnglish

SHORT, GOOD, LONG = 15, 90, 200  # characters of a quote: the least, the best, the most
MARKUP = r"(?i)\[/?(?:b|i|u|h\d|strike|spoiler|quote|list|olist|url|\*)(?:=[^\]]*)?\]"  # [b]very[/b]
WORD = r"[\p{L}]+"
TOKEN = r"[\p{L}]+(?:['’]t\b)?"  # wasn't is one word
NAME = r"\p{Lu}[\p{L}'’]*"  # a word with a capital, wherever it stands


def pick(mentions: pl.DataFrame) -> pl.DataFrame:
    """One mention for each user, item and statement: a sentence of good length that does not also say the opposite."""
    mentions = mentions.select("review", "user", "item", "id", "polarity", "spoken", "start", "length", "mixed", "copy")
    odd = (pl.col("length") < SHORT) | (pl.col("length") > LONG)
    ranked = mentions.with_columns(distance=(pl.col("length") - GOOD).abs() + 1000 * odd + 500 * pl.col("mixed"))
    order = ranked.sort("user", "item", "id", "distance", "length", "copy", "start")
    return order.unique(("user", "item", "id"), keep="first", maintain_order=True).drop("distance")


def read_quotes(
    text: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int32],
    language: StatementEnglish,
    vulgar: bool,
    names: frozenset[str] = frozenset(),
    praise: pl.Series | None = None,
) -> pl.Series:
    """The sentences at the given places as quotes; null where one should not be shown.

    `praise` has the opinion of those sentences that stand behind praise: they must not also complain about anything or
    take it back, whatever the opinion itself may sound like (creepy, of a game's atmosphere).
    `names` are words in lower case that people mostly write with a capital: whoever does not still names somebody.
    """
    sentences = from_lines(gather_lines(text, starts, lengths))
    tidy = sentences.str.replace_all(MARKUP, "").str.replace_all(r"\s+", " ").str.strip_chars(" -*\"'.,;:)(")
    good = (tidy.str.len_chars() >= SHORT) & (tidy.str.len_chars() <= LONG) & ~is_private(tidy)
    if not vulgar:
        words = "|".join(sorted(language.vulgar))
        good &= ~tidy.str.contains(rf"(?i)\b(?:{words})\b")
    good &= ~tidy.str.contains("\ufffd", literal=True)
    good &= ~_names(tidy.filter(good), language, good)
    good &= ~_hold(tidy.filter(good), names, good)
    if praise is not None:
        praising = good & praise.is_not_null()
        good &= ~_complaints(tidy.filter(praising), praise.filter(praising), language, praising)
    first = tidy.str.slice(0, 1).str.to_uppercase() + tidy.str.slice(1)
    return pl.select(pl.when(good).then(first)).to_series().alias("sentence")


def _hold(candidates: pl.Series, names: frozenset[str], among: pl.Series) -> pl.Series:
    """Which sentences hold one of the names, in whatever case."""
    found = candidates.str.to_lowercase().str.extract_all(WORD).to_frame("word").with_row_index("at").explode("word")
    named = found.filter(pl.col("word").is_in(sorted(names)))["at"].unique().to_numpy()
    return _marked(named, among)


def _complaints(candidates: pl.Series, opinions: pl.Series, language: StatementEnglish, among: pl.Series) -> pl.Series:
    """Which sentences hold a word that spoils praise and is not the opinion itself, or ask something."""
    plain = candidates.str.to_lowercase().str.replace_all("’", "'", literal=True)
    own = opinions.str.to_lowercase().str.extract_all(TOKEN)
    words = plain.str.extract_all(TOKEN).list.set_difference(own)
    found = words.to_frame("word").with_row_index("at").explode("word").drop_nulls()
    spoiling = [word for word in found["word"].unique().to_list() if language.spoils_praise(word)]
    asking = candidates.str.contains("?", literal=True).arg_true()
    spoiled = found.filter(pl.col("word").is_in(spoiling))["at"]
    return _marked(pl.concat([spoiled, asking]).unique().to_numpy(), among)


def _names(candidates: pl.Series, language: StatementEnglish, among: pl.Series) -> pl.Series:
    """Which sentences hold a word with a capital that is not a plain word of the language."""
    found = candidates.str.extract_all(NAME).to_frame("word").with_row_index("at").explode("word").drop_nulls()
    found = found.with_columns(pl.col("word").str.to_lowercase().str.strip_chars("'’"))
    plain = [word for word in found["word"].unique().to_list() if language.is_plain(word.split("'")[0])]
    named = found.filter(~pl.col("word").is_in(plain))["at"].unique().to_numpy()
    return _marked(named, among)


def _marked(found: NDArray[np.uint32], among: pl.Series) -> pl.Series:
    """A mark for those of the chosen ones that were found."""
    mask = np.zeros(len(among), np.bool_)
    mask[np.flatnonzero(among.to_numpy())[found]] = True
    return pl.Series(mask)
