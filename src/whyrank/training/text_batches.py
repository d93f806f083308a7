"""The batches of an epoch: which triplets, which negatives. They depend on the seed only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.data.triplets import Triplets
from whyrank.rng import key_of
from whyrank.training._negatives import draw_negatives, known_of

Numbers = NDArray[np.int64]
ORDER_DOMAIN, NEGATIVE_DOMAIN = 12, 13  # keep the random numbers of different purposes apart


class TextBatch(NamedTuple):
    """`explanations` are the distinct ones; `positive` and `negatives` (by user, by item) are places among them.

    A negative of -1 stands for a user or item that knows the whole pool.
    """

    rows: tuple[NDArray[np.int32], NDArray[np.int32]]  # users, items
    explanations: NDArray[np.int32]
    positive: Numbers
    negatives: tuple[Numbers, Numbers]


class TextBatches:
    """Every triplet once an epoch in random order, each with a negative for its user and one for its item.

    `popular` draws negatives as often as they are used instead of all alike.
    """

    def __init__(self, train: Triplets, size: int, seed: int, *, popular: bool = False) -> None:
        self.train, self.size, self.seed = train, size, seed
        self.known = [
            known_of(said.indptr, said.indices) for said in (train.user_explanations, train.item_explanations)
        ]
        self.pool = train.explanation if popular else np.flatnonzero(train.popularity).astype(np.int32)

    def __len__(self) -> int:
        return -(-len(self.train) // self.size)

    def epoch(self, number: int) -> Iterator[TextBatch]:
        order = np.random.default_rng([self.seed, ORDER_DOMAIN, number]).permutation(len(self.train))
        for step in range(len(self)):
            chosen = order[step * self.size : (step + 1) * self.size]
            yield self._batch(chosen, number, step)

    def _batch(self, chosen: Numbers, epoch: int, step: int) -> TextBatch:
        rows = self.train.user[chosen], self.train.item[chosen]
        negatives = [
            draw_negatives(
                rows[side], self.pool, self.known[side], key_of(self.seed, NEGATIVE_DOMAIN, epoch, step, side)
            )
            for side in (0, 1)
        ]
        drawn = np.concatenate([self.train.explanation[chosen], *negatives])
        explanations, places = np.unique(drawn, return_inverse=True)
        if explanations[0] < 0:
            explanations, places = explanations[1:], places - 1
        positive, by_user, by_item = places.reshape(3, -1)
        return TextBatch(rows, explanations, positive, (by_user, by_item))
