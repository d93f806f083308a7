"""Whether an explanation praises or blames."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.ratings import Range, count_scales, scale_of
from whyrank.errors import MissingExtra

LONGEST = 1000  # characters that VADER looks at: its time grows with the square of their number
PRIOR = 5.0  # as many imaginary records at the overall mean steady the mean of a rare explanation


def sentiment_of(
    texts: pl.Series | None,
    mean_rating: NDArray[np.float32],
    popularity: NDArray[np.int64],
    rating_range: Range | None = None,
) -> NDArray[np.float32]:
    """-1 to 1 from ratings and words: the mean of both where both say something, otherwise the one that does.

    Words say nothing where there are no texts, VADER knows none of them or is not installed; ratings where there are
    none, or all are the same. What says nothing at all is neutral: 0.
    """
    ratings = from_ratings(mean_rating, popularity, rating_range)
    words = np.zeros(len(ratings), np.float32) if texts is None or not _has_lexicon() else from_words(texts)
    both = (words != 0) & ~np.isnan(ratings)
    alone = np.where(np.isnan(ratings), words, ratings)
    return np.where(both, (words + ratings) / 2, alone).astype(np.float32)


def sources_of(texts: pl.Series | None, mean_rating: NDArray[np.float32]) -> str | None:
    """What `sentiment_of` has to go by: ratings, words, both, or nothing."""
    told = [name for name, there in (("ratings", _differ(mean_rating)), ("words", texts is not None)) if there]
    if "words" in told and not _has_lexicon():
        told.remove("words")
    return " and ".join(told) or None


def _has_lexicon() -> bool:
    try:
        import vaderSentiment.vaderSentiment  # noqa: F401
    except ImportError:
        return False
    return True


def _differ(ratings: NDArray[np.float32]) -> bool:
    """Whether ratings say anything: there are some, and not all are the same."""
    known = ratings[np.isfinite(ratings)]
    return bool(len(known) and known.min() < known.max())


def from_ratings(
    mean_rating: NDArray[np.float32], popularity: NDArray[np.int64], rating_range: Range | None = None
) -> NDArray[np.float32]:
    """-1 to 1 from the mean rating of the records that hold an explanation; NaN where ratings say nothing.

    People rate kindly, so the turning point is not the middle of the scale but half-way between that and the overall
    mean (on one to five stars with a mean of 4.1: 3.55). The scale is recognised from the ratings unless it is named.
    """
    sentiment = np.full(len(mean_rating), np.nan, np.float32)
    known = np.isfinite(mean_rating)
    ratings, counts = mean_rating[known].astype(np.float64), popularity[known].astype(np.float64)
    if not _differ(mean_rating):
        return sentiment
    low, high = rating_range or scale_of(count_scales(ratings)) or (ratings.min(), ratings.max())
    ratings = np.clip(ratings, low, high)  # models of version 0.1 know ratings outside of their scale
    overall = np.average(ratings, weights=np.maximum(counts, 1e-9))
    turning = ((low + high) / 2 + overall) / 2
    steady = (ratings * counts + overall * PRIOR) / (counts + PRIOR)
    reach = np.where(steady > turning, max(high - turning, 1e-9), max(turning - low, 1e-9))
    sentiment[known] = np.clip((steady - turning) / reach, -1, 1)
    return sentiment


def from_words(texts: pl.Series) -> NDArray[np.float32]:
    """-1 to 1 from the words, by VADER's lexicon; of a long text from its beginning."""
    analyzer, starts = _analyzer(), texts.str.head(LONGEST).to_list()
    return np.array([analyzer.polarity_scores(text)["compound"] for text in starts], np.float32)


@cache
def _analyzer() -> Any:
    """VADER, which reads its lexicon from a file."""
    try:
        from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer
    except ImportError as error:
        raise MissingExtra("mine", "sentiment of explanations without ratings") from error
    return SentimentIntensityAnalyzer()
