"""Explanations that mean the same in other words, found with the sentence encoder all-MiniLM-L6-v2."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.mining.groups import Pairs, group
from whyrank.mining.tags import is_negated

LONGEST = 128  # tokens of a text that are encoded
ROWS = 1024  # rows of the matrix of cosines that are held at a time
RATING_GAP = 0.75  # what people say of good and of bad items does not mean the same
Progress = Callable[[str, int, int | None], None]


def paraphrases(
    explanations: pl.DataFrame, least: float, tell: Progress, opposites: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Which explanation goes into which other: cosine at least `least`, and not opposite in tone.

    Statements, for which the opposites of senses are given, must also share aspect and polarity, and not be opposites.

    Groups are made as those of near-duplicates are: the most frequent explanation takes all that are near it. Two are
    opposite in tone when only one is negated, their sentiments have different signs or their mean ratings lie apart.
    """
    vectors = encode(explanations["text"], tell)
    pairs = near_vectors(vectors, least)
    alike = _same_tone(explanations, pairs)
    if opposites is not None:
        alike &= _same_subject(explanations, pairs, opposites)
    center = group(explanations["count"].to_numpy(), explanations["text"], Pairs(pairs.left[alike], pairs.right[alike]))
    if opposites is not None:
        center = _without_opposites(center, explanations["sense"].to_list(), opposites)
    moved = np.flatnonzero(center != np.arange(len(center)))
    ids = explanations["id"]
    return dict(zip(ids.gather(moved), ids.gather(center[moved]), strict=True))


def near_vectors(vectors: NDArray[np.float32], least: float) -> Pairs:
    """All pairs of unit vectors with a cosine of at least `least`, block by block."""
    left, right = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for start in range(0, len(vectors), ROWS):
        cosines = vectors[start : start + ROWS] @ vectors[start:].T
        row, column = np.nonzero(cosines >= least)
        later = column > row
        left.append(row[later] + start)
        right.append(column[later] + start)
    return Pairs(np.concatenate(left), np.concatenate(right))


def _same_tone(explanations: pl.DataFrame, pairs: Pairs) -> NDArray[np.bool_]:
    negated = np.array([is_negated(text.lower()) for text in explanations["text"]], bool)
    sentiment = explanations["sentiment"].to_numpy()
    rating = explanations["rating"].fill_null(np.nan).to_numpy()
    gap = np.abs(rating[pairs.left] - rating[pairs.right])
    opposite = sentiment[pairs.left] * sentiment[pairs.right] < 0
    return (negated[pairs.left] == negated[pairs.right]) & ~opposite & ~(gap > RATING_GAP)


def _same_subject(explanations: pl.DataFrame, pairs: Pairs, opposites: Mapping[str, str]) -> NDArray[np.bool_]:
    """Whether two statements are about the same aspect, on the same side, in senses that do not deny each other."""
    subject = explanations.select("aspect", "polarity").rows()
    sense = explanations["sense"].to_list()
    found = [
        subject[a] == subject[b] and opposites.get(sense[a]) != sense[b] and opposites.get(sense[b]) != sense[a]
        for a, b in zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)
    ]
    return np.array(found, np.bool_)


def _without_opposites(center: NDArray[np.int64], senses: list[str], opposites: Mapping[str, str]) -> NDArray[np.int64]:
    """Groups in which no two statements deny each other: whoever denies an earlier one stays alone."""
    kept = center.copy()
    members: dict[int, set[str]] = {}
    for place, into in enumerate(center.tolist()):
        group = members.setdefault(into, {senses[into]})
        if place != into and any(
            opposites.get(senses[place]) == each or opposites.get(each) == senses[place] for each in group
        ):
            kept[place] = place
        else:
            group.add(senses[place])
    return kept


def encode(texts: pl.Series, tell: Progress) -> NDArray[np.float32]:
    """A unit vector per text: the mean of the encoder's token vectors. Needs no network."""
    from whyrank.text.encoder import Encoder, unit_vectors

    encoder = Encoder.find("minilm", pooling="mean", max_length=LONGEST)
    return unit_vectors(encoder(texts.to_list(), progress=lambda done, of: tell("encoding explanations", done, of)))
