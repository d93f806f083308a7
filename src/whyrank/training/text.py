"""Training of BPER+ on vectors of what explanations say: mini-batches, our own kernels, no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.data.triplets import Triplets
from whyrank.errors import TrainingError
from whyrank.rng import key_of
from whyrank.training._descent import (
    AdamMoments,
    AdamStep,
    Pairs,
    Scored,
    adam_rows,
    bpr_gradients,
    product,
    product_with_transposed,
)
from whyrank.training._negatives import draw_negatives, known_of
from whyrank.training.checkpoint import Arrays, set_arrays
from whyrank.training.fusion import FUSIONS
from whyrank.training.loop import Trained, Trainer

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
SIDES = ("user", "item")
START_DOMAIN, ORDER_DOMAIN, NEGATIVE_DOMAIN = 11, 12, 13  # keep the random numbers of different purposes apart
START_SCALE = {"text": 0.01, "random": 0.1}  # with "text", what explanations say makes rows different soon enough


class TextSettings(NamedTuple):
    """How BPER+ is trained: parameters of the model, which says what each means."""

    factors: int
    fusion: str
    start: str
    negatives: str
    learning_rate: float
    text_learning_rate: float
    schedule: str
    epsilon: float
    regularization: float
    epochs: int
    batch: int
    seed: int

    @property
    def id_centre(self) -> float:
        """Where ID factors start, and where regularization pulls them."""
        return FUSIONS[self.fusion].identity if self.start == "text" else 0.0


class SideGradients(NamedTuple):
    """What one side of a batch says: its loss, and the gradients of its rows, of the text vectors, of the fusion."""

    loss: float
    tables: dict[str, tuple[Numbers, Floats]]
    text: Floats
    weights: Arrays


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

    def __init__(self, train: Triplets, size: int, seed: int, popular: bool) -> None:
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


def start(train: Triplets, width: int, settings: TextSettings) -> Arrays:
    """Random values to start from, without bias.

    "random": all small. "text": ID factors let the text vector through, so that an explanation is what it says.
    """
    rng = np.random.default_rng([settings.seed, START_DOMAIN])
    fusion, factors, pool = FUSIONS[settings.fusion], settings.factors, len(train.explanations)
    scale = START_SCALE[settings.start]

    def normal(rows: int, scale: float, columns: int = factors, centre: float = 0.0) -> Floats:
        return (centre + scale * rng.standard_normal((rows, columns))).astype(np.float32)

    arrays = {
        "user_factors": normal(len(train.users), scale),
        "item_factors": normal(len(train.items), scale),
    }
    for side in SIDES:
        arrays[f"explanation_by_{side}"] = normal(pool, scale, centre=settings.id_centre)
        arrays[f"bias_by_{side}"] = np.zeros((pool, 1), np.float32)
    arrays["text_layer"] = normal(width, width**-0.5)
    arrays["text_shift"] = np.zeros((1, factors), np.float32)
    for name, (rows, columns) in fusion.shapes(factors).items():
        arrays[name] = normal(rows, rows**-0.5 if rows > 1 else 0.0, columns)
    return arrays


class FrozenTrainer(Trainer):
    """Learns `arrays` in place from training triplets and one feature vector per explanation."""

    def __init__(self, train: Triplets, features: Floats, arrays: Arrays, settings: TextSettings) -> None:
        self.features, self.arrays, self.settings = features, arrays, settings
        self.of, self.done, self.triplets = settings.epochs, 0, len(train)
        self.batches = TextBatches(train, settings.batch, settings.seed, settings.negatives == "popular")
        self.fusion = FUSIONS[settings.fusion]
        self.weights = {name: arrays[name] for name in self.fusion.shapes(settings.factors)}
        self.moments = {name: AdamMoments.of(array) for name, array in arrays.items()}

    def state(self) -> Arrays:
        return {**self._tables(), "done": np.array([self.done])}

    def restore(self, arrays: Arrays) -> None:
        set_arrays(self._tables(), arrays)
        self.done = int(arrays["done"][0])

    def _tables(self) -> Arrays:
        moments = ((name, each._asdict()) for name, each in self.moments.items())
        return self.arrays | {f"{name}.{part}": array for name, parts in moments for part, array in parts.items()}

    def epoch(self) -> Trained:
        """One pass over all triplets; the mean loss of a triplet."""
        loss = sum(self._step(batch, left) for batch, left in self.steps())
        self.done += 1
        if not np.isfinite(loss):
            raise TrainingError(f"training diverged in epoch {self.done}; use a smaller learning_rate")
        return Trained(loss / max(self.triplets, 1), 2 * self.triplets)

    def steps(self) -> Iterator[tuple[TextBatch, float]]:
        """The batches of the next epoch, each with the share of all steps that is still to come."""
        steps = len(self.batches)
        for step, batch in enumerate(self.batches.epoch(self.done + 1)):
            left = 1 - (self.done * steps + step) / (self.of * steps)
            yield batch, left if self.settings.schedule == "linear" else 1.0

    def features_of(self, explanations: NDArray[np.int32]) -> Floats:
        return self.features[explanations]

    def learn_features(self, by_text: Floats, left: float) -> None:
        """Called with the gradient of the text vectors of the last `features_of`; here features are fixed."""

    def _step(self, batch: TextBatch, left: float) -> float:
        """Learn from one batch; every distinct explanation of it is fused once. `left` is the share of steps to go."""
        features = self.features_of(batch.explanations)
        text = product(features, self.arrays["text_layer"]) + self.arrays["text_shift"]
        sides = [self._side(side, name, batch, text) for side, name in enumerate(SIDES)]
        by_text = sides[0].text + sides[1].text
        self.learn_features(by_text, left)
        self._update("text_layer", None, product_with_transposed(features, by_text), left)
        self._update("text_shift", None, by_text.sum(0, keepdims=True), left)
        for name in self.weights:
            self._update(name, None, sides[0].weights[name] + sides[1].weights[name], left)
        for side in sides:
            for name, (rows, gradient) in side.tables.items():
                self._update(name, rows, gradient, left)
        return sides[0].loss + sides[1].loss

    def _side(self, side: int, name: str, batch: TextBatch, text: Floats) -> SideGradients:
        rows, place = np.unique(batch.rows[side], return_inverse=True)
        numbers = batch.explanations
        ids = self.arrays[f"explanation_by_{name}"][numbers]
        fused, bias = self.fusion.fuse(ids, text, self.weights), self.arrays[f"bias_by_{name}"][numbers]
        values = Scored(self.arrays[f"{name}_factors"][rows], fused, bias)
        slopes, pairs = values.zeros(), Pairs(place, batch.positive, batch.negatives[side])
        loss = bpr_gradients(values, pairs, np.float32(1 / len(place)), slopes)
        by_ids, by_text, by_weight = self.fusion.gradients(slopes.columns, ids, text, self.weights)
        tables = {
            f"{name}_factors": (rows.astype(np.int64), slopes.rows),
            f"explanation_by_{name}": (numbers.astype(np.int64), by_ids),
            f"bias_by_{name}": (numbers.astype(np.int64), slopes.bias),
        }
        return SideGradients(loss, tables, by_text, by_weight)

    def _update(self, name: str, rows: Numbers | None, gradient: Floats, left: float) -> None:
        """AdamW on the given rows of a table; without rows, on a layer that all explanations share."""
        table, settings = self.arrays[name], self.settings
        rate, epsilon = settings.learning_rate, settings.epsilon
        if rows is None:  # every batch touches all of it
            rows, rate, epsilon = np.arange(len(table)), settings.text_learning_rate, 1e-8
        centre = settings.id_centre if name.startswith("explanation_by") else 0.0
        decay = 0.0 if "bias" in name or "shift" in name else settings.regularization
        adam_rows(table, self.moments[name], rows, gradient, AdamStep.of(rate * left, epsilon, decay, centre))
