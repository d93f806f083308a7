"""Counts alone, in Profile's form, and what lies between them and what Profile learns: for data with few records."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.data.triplets import Triplets
from whyrank.models.profile_records import reason_records
from whyrank.training._metrics import hits
from whyrank.training.checkpoint import Arrays
from whyrank.training.softmax import START

MIXTURES = (0.0, 0.25, 0.5, 0.75, 1.0)  # shares of what was learned
FOLDS = 5
USER, ITEM = 0, 1  # sides
RECORDS = 400  # by which the strengths of a side are chosen
ENOUGH = 100  # fewer decide nothing
PRIOR = ((0.5, 0.5), (0.1, 0.5))  # strength and power of both sides where nothing is known
STRENGTHS = (1e-4, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0)  # of one mention
POWERS = (0.0, 0.5, 1.0)  # of popularity, by which it is divided


def counts_alone(popularity: NDArray[np.int64], factors: int, theta: NDArray[np.float64] | None = None) -> Arrays:
    """What Profile learns, as if it had learned nothing but popularity and the strengths of mentions."""
    pool = len(popularity)
    widths = {"keys": 2 * factors, "first": factors, "second": factors}
    vectors: Arrays = {name: np.zeros((pool, width), np.float32) for name, width in widths.items()}
    share = np.log((popularity + 0.5) / max(popularity.sum(), 1))
    return vectors | {"bias": share.astype(np.float32), "theta": np.array(START) if theta is None else theta}


def mixture(counts: Arrays, learned: Arrays, shares: NDArray[np.float64]) -> Arrays:
    """Between counts alone (0) and what was learned (1), by a share for users and one for items."""
    found, d = dict(learned), learned["first"].shape[1]
    found["keys"] = (np.repeat(shares, d) * learned["keys"]).astype(np.float32)
    found["bias"] = ((1 - shares[ITEM]) * counts["bias"] + shares[ITEM] * learned["bias"]).astype(np.float32)
    of_theta = np.repeat(shares, 3)
    found["theta"] = (1 - of_theta) * counts["theta"] + of_theta * learned["theta"]
    return found


def best_counts(learn: Triplets, factors: int) -> Arrays:
    """Counts alone, with the strengths by which records are predicted best when each is left out of its own counts.

    Strengths about the item, of the user's own mentions and about the item again are chosen in turn; the user's by
    records of people who have said something else, and not at all where there are hardly any.
    """
    share = np.log((learn.popularity + 0.5) / max(learn.popularity.sum(), 1))
    picked, others = list(PRIOR), np.bincount(learn.record_user, minlength=len(learn.users))[learn.record_user] > 1
    samples = [_Sample.of(learn, np.flatnonzero(others)), _Sample.of(learn, np.arange(learn.records))]
    settings = [(strength, power) for strength in STRENGTHS for power in POWERS]
    for side in (ITEM, USER, ITEM):
        if len(samples[side].indptr) > ENOUGH:
            rest = share.astype(np.float32) + _added(samples[side].counts[1 - side], share, *picked[1 - side])
            tries = [picked[side], *settings]
            scores = [samples[side].quality(rest + _added(samples[side].counts[side], share, *each)) for each in tries]
            picked[side] = tries[int(np.argmax(scores))]
    theta = [number for strength, power in picked for number in (np.log(strength), power, 0.0)]
    return counts_alone(learn.popularity, factors, np.array(theta))


class _Sample(NamedTuple):
    """Some records: what they say, and the counts of both of their sides without them."""

    indptr: NDArray[np.int64]
    targets: NDArray[np.int32]
    counts: tuple[NDArray[np.float32], NDArray[np.float32]]

    @classmethod
    def of(cls, learn: Triplets, records: NDArray[np.int64]) -> _Sample:
        records = np.sort(np.random.default_rng(0).permutation(records)[:RECORDS])
        lists, sizes = reason_records(learn).of(records), (len(records), len(learn.explanations))
        of_side = np.repeat(np.arange(len(lists.places) - 1), np.diff(lists.places))
        sides = []
        for side in (USER, ITEM):
            inside, counts = of_side % 2 == side, np.zeros(sizes, np.float32)
            counts[of_side[inside] // 2, lists.numbers[inside]] = lists.counts[inside]
            sides.append(counts)
        return cls(lists.indptr, lists.targets, (sides[0], sides[1]))

    def quality(self, scores: NDArray[np.float32], k: int = 10) -> float:
        """Mean DCG of the k best."""
        k = min(k, scores.shape[1])
        best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(scores, best, 1), axis=1, kind="stable")
        ranked = np.take_along_axis(best, order, 1).astype(np.int32)
        return float((hits(ranked, self.indptr, self.targets) / np.log2(np.arange(2, k + 2))).sum(1).mean())


def _added(
    counts: NDArray[np.float32], share: NDArray[np.float64], strength: float, power: float
) -> NDArray[np.float32]:
    return np.log1p(counts * (strength * np.exp(-power * share)).astype(np.float32))
