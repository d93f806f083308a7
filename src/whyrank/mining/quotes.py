"""Quotes: which clause tells a statement best, in words that can be shown."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.private import is_private
from whyrank.mining.counting import Cut
from whyrank.mining.language import Language
from whyrank.mining.lexicon import Lexicon
from whyrank.mining.mentions import NSUBJ, NSUBJPASS, ROOT, Sentences, _bit
from whyrank.mining.parse import TAGS
from whyrank.mining.patterns import Bits

SHORTEST, LONGEST = 12, 110  # characters
ONCE = 0.985  # weight of a word that hardly anybody else uses: a name, a slip
MARKUP = r"(?i)\[/?(?:b|i|u|h\d|strike|spoiler|quote|list|olist|url|\*)(?:=[^\]]*)?\]"
LEADING = (
    r"^(?:(?i:and|but|or|so|also|plus|then|because|as|although|though|which|that"
    r"|with|while|for example|overall)\b[\s,]*|[\s,.;:!?*()'\"-]+)+"
)
HANGING = frozenset(
    [
        *("it", "its", "is", "are", "was", "were", "made"),
        "they",
        "them",
        "he",
        "she",
        "his",
        "her",
        "their",
        "this",
        "that",
        "these",
        "those",
        "which",
        "who",
        "him",
        "there",
    ]
)
PUNCTUATION = " ,.;:!?*-–—('\""


def written(spans: pl.DataFrame, texts: pl.Series) -> pl.Series:
    """Return clauses as they were written, without what leads to them: spans have review, start, end (characters)."""
    whole = spans.select(text=texts.gather(spans["review"]), start="start", size=pl.col("end") - pl.col("start"))
    cut = whole.select(pl.col("text").str.slice(pl.col("start"), pl.col("size"))).to_series()
    tidy = cut.str.replace_all(MARKUP, "").str.replace_all(r"\s+", " ").str.replace(LEADING, "")
    return tidy.str.strip_chars(PUNCTUATION)


def presentable(texts: pl.Series, language: Language, *, vulgar: bool) -> pl.Series:
    """Tell which texts can be shown: of a good length, nothing private, no vulgar words, whole brackets and marks."""
    length = texts.str.len_chars()
    good = length.is_between(SHORTEST, LONGEST) & ~is_private(texts)
    if not vulgar and language.vulgar:
        good &= ~texts.str.contains(language.vulgar)
    odd = texts.str.contains(r"[\[\]{}()<>_=\x22\x{fffd}*#]|\.\.|--|[!?].")
    capitals = texts.str.count_matches(r"\p{Lu}\p{Lu}+") > 2
    return good & ~odd & ~capitals & ~texts.str.contains(r"\?$")


def quality(
    clauses: Cut, given: Sentences, bits: Bits, lexicon: Lexicon, aspects: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Return how well clauses can stand alone, in log-odds: praise, one thing, a sentence, plain words, no story.

    Args:
        clauses: The clauses.
        given: The parse.
        bits: The classes of its words.
        lexicon: What was learned about words.
        aspects: How many aspects are mentioned in each clause.
    """
    first, last = clauses.first, clauses.last

    def count(mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        sums = np.concatenate([[0], np.cumsum(mask)])
        return np.asarray(sums[last] - sums[first], np.float32)

    rare = count((lexicon.weight[given.word] > ONCE) & ((bits & _bit("num")) == 0))
    named = count(lexicon.names[given.word] & given.capital)
    mine = count((bits & _bit("first")) != 0)
    verb = count((bits & _bit("verb")) != 0)
    subject = count((given.label == NSUBJ) | (given.label == NSUBJPASS))
    root = count(given.label == ROOT)
    begins = given.tag[first] == TAGS.index("VB")
    excess = count((bits & _bit("too")) != 0)
    num = count((bits & _bit("num")) != 0)
    size = (last - first).astype(np.float32)
    found = 1.2 * np.clip(clauses.sign, -1, 1)
    found -= 1.0 * rare + 1.5 * named + 0.7 * mine + 1.0 * clauses.negated + 2.0 * clauses.unreal
    found -= 0.8 * np.maximum(aspects - 1, 0) + 2.0 * begins + 1.0 * (excess > 0)
    found += 0.5 * ((verb > 0) & (subject > 0)) - 0.6 * ((verb > 0) & (subject == 0)) + 0.3 * (root > 0)
    found += 0.3 * (num > 0) - 0.08 * np.maximum(size - 12, 0) - 0.5 * np.maximum(4 - size, 0)
    return found.astype(np.float32)


def hangs(texts: Iterable[str]) -> NDArray[np.bool_]:
    """Tell which texts begin with a word that stands for something said before."""
    return np.array([text.split(" ", 1)[0].lower() in HANGING for text in texts], np.bool_)
