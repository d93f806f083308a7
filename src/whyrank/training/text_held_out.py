"""The text layer of BPER+ learned from records that the factors have not seen."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from whyrank.data.triplets import Triplets
from whyrank.training._semantic import product, product_with_transposed
from whyrank.training.checkpoint import Arrays
from whyrank.training.text_frozen import SIDES, Floats, FrozenTrainer, TextSettings

SHARE = 0.1  # of the records, held out
RECORDS = 256  # a step
DOMAIN = 14  # keeps the random numbers of different purposes apart


def parted(train: Triplets, seed: int) -> tuple[Triplets, Triplets]:
    """The records that factors learn from, and those that the text layer learns from."""
    order = np.random.default_rng([seed, DOMAIN]).permutation(train.records)
    held = max(round(SHARE * train.records), 1)
    return train.take(np.sort(order[held:])), train.take(np.sort(order[:held]))


class HeldOutTrainer(FrozenTrainer):
    """Learns the text layer alone, by a softmax over the pool of what is ranked: both sides, weighed by `mu`."""

    advice = "use a smaller text_learning_rate"

    def __init__(self, held: Triplets, features: Floats, arrays: Arrays, settings: TextSettings, mu: float) -> None:
        super().__init__(held, features, arrays, settings)
        self.held, self.shares = held, {"user": np.float32(mu), "item": np.float32(1 - mu)}

    def steps(self) -> Iterator[tuple[Triplets, float]]:  # type: ignore[override]  # records in place of triplets
        order = np.random.default_rng([self.settings.seed, DOMAIN, self.done + 1]).permutation(self.held.records)
        parts = np.array_split(order, -(-len(order) // RECORDS))
        for step, records in enumerate(parts):
            yield self.held.take(records), 1 - (self.done * len(parts) + step) / (self.of * len(parts))

    def _step(self, said: Triplets, left: float) -> float:  # type: ignore[override]
        """One step; the summed loss of the triplets."""
        text = product(self.features, self.arrays["text_layer"]) + self.arrays["text_shift"]
        rows = {"user": said.record_user, "item": said.record_item}
        factors = {side: self.shares[side] * self.arrays[f"{side}_factors"][rows[side]] for side in SIDES}
        ids = {side: self.arrays[f"explanation_by_{side}"] for side in SIDES}
        scores = np.zeros((said.records, len(text)), np.float32)
        for side in SIDES:
            scores += product(factors[side], np.ascontiguousarray(self.fusion.fuse(ids[side], text, {}).T))
            scores += self.shares[side] * self.arrays[f"bias_by_{side}"][:, 0]
        loss, by_scores = _softmax(scores, said)
        by_text = np.zeros_like(text)
        for side in SIDES:
            by_fused = product_with_transposed(by_scores, factors[side])
            by_text += self.fusion.gradients(by_fused, ids[side], text, {})[1]
        self._update("text_layer", None, product_with_transposed(self.features, by_text), left)
        self._update("text_shift", None, by_text.sum(0, keepdims=True), left)
        return loss


def _softmax(scores: Floats, said: Triplets) -> tuple[float, NDArray[np.float32]]:
    """The summed loss -ln p(e) of all triplets, and the derivative of its mean by the scores."""
    scores -= scores.max(1, keepdims=True)
    chances = np.exp(scores)
    total = chances.sum(1, keepdims=True)
    record, explanation = said.record_explanations.rows_of_entries(), said.explanation
    loss = float((np.log(total[record, 0]) - scores[record, explanation]).sum())
    chances *= said.record_explanations.sizes()[:, None] / total
    chances[record, explanation] -= 1
    return loss, (chances / max(len(said), 1)).astype(np.float32)
