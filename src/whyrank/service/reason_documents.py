"""Reasons as JSON: the rows of `whyrank.explain.reasons`, pair by pair."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.explain.reasons import rows_of
from whyrank.explain.result import Explained
from whyrank.service.problems import json_of


class ReasonDocuments:
    """The reasons of one model; `sentiments` by explanation number, None where there are none."""

    def __init__(self, catalog: Catalog, sentiments: NDArray[np.float64] | None) -> None:
        self._catalog, self._sentiments = catalog, sentiments

    def lists(self, found: Explained, others: Sequence[int | None] | None = None) -> list[msgspec.Raw]:
        """The reasons of each pair; `others` are the ranks of reasons in another list."""
        made = self.each(found, others=others)
        starts = found.starts.tolist()
        return [msgspec.Raw(b"[" + b",".join(made[start:stop]) + b"]") for start, stop in pairwise(starts)]

    def each(
        self, found: Explained, ranks: Sequence[int] | None = None, others: Sequence[int | None] | None = None
    ) -> list[bytes]:
        """Reason by reason, with their own ranks unless others are given."""
        numbers, parts, made = found.explanation.tolist(), list(found.parts), []
        for at, row in enumerate(rows_of(found)):
            _, rank, (id_, text, aspect, polarity), sentence, score, shares, counts, quotes, fallback, chance = row
            document = {
                "rank": rank if ranks is None else ranks[at],
                "explanation": id_,
                "text": text,
                "sentence": sentence,
                "score": score,
                "parts": dict(zip(parts, shares, strict=True)),
                "evidence": counts.as_dict(),
                "aspect": aspect,
                "polarity": polarity,
                "quotes": quotes,
                "fallback": fallback,
                **({} if found.chances is None else {"propensity": chance}),
                "sentiment": None if self._sentiments is None else float(self._sentiments[numbers[at]]),
                "other_rank": None if others is None else others[at],
            }
            made.append(json_of(document))
        return made
