"""Whether an explanation praises or blames."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.errors import MissingExtra

PRIOR = 5.0  # as many imaginary records at the overall mean steady the mean of a rare explanation


def from_ratings(mean_rating: NDArray[np.float32], popularity: NDArray[np.int64]) -> NDArray[np.float32]:
    """-1 to 1 from the mean rating of the records that hold an explanation.

    People rate kindly, so the turning point is not the middle of the scale but half-way between that and the overall
    mean (on one to five stars with a mean of 4.1: 3.55).
    """
    known = ~np.isnan(mean_rating)
    ratings, counts = mean_rating[known].astype(np.float64), popularity[known].astype(np.float64)
    low, high = ratings.min(), ratings.max()
    overall = np.average(ratings, weights=np.maximum(counts, 1e-9))
    turning = ((low + high) / 2 + overall) / 2
    steady = (ratings * counts + overall * PRIOR) / (counts + PRIOR)
    reach = np.where(steady > turning, max(high - turning, 1e-9), max(turning - low, 1e-9))
    sentiment = np.zeros(len(mean_rating), np.float32)
    sentiment[known] = np.clip((steady - turning) / reach, -1, 1)
    return sentiment


def from_words(texts: pl.Series) -> NDArray[np.float32]:
    """-1 to 1 from the words, by VADER's lexicon."""
    try:
        from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer
    except ImportError as error:
        raise MissingExtra("mine", "sentiment of explanations without ratings") from error
    analyzer = SentimentIntensityAnalyzer()
    return np.array([analyzer.polarity_scores(text)["compound"] for text in texts.to_list()], np.float32)
