"""Training of BPER+ on fixed feature vectors: mini-batches, our own kernels, no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.data.triplets import Triplets
from whyrank.errors import ParameterError, TrainingError
from whyrank.training._semantic import adamw_rows, pairwise_gradients, product, product_with_transposed
from whyrank.training.checkpoint import Arrays, set_arrays
from whyrank.training.fusion import FUSIONS
from whyrank.training.loop import Trained, Trainer
from whyrank.training.text_batches import TextBatch, TextBatches

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
SIDES = ("user", "item")
START_DOMAIN = 11  # keeps the random numbers of different purposes apart
LAYER_EPSILON = 1e-8  # of AdamW on the text layer and the fusion, which every batch touches
START_SCALE = {"text": 0.01, "random": 0.1}  # with "text", what explanations say makes rows different soon enough


@dataclass(frozen=True)
class TextSettings:
    """How BPER+ is trained; the parameters of the model say what each means."""

    factors: int
    fusion: str
    learning_rate: float
    text_learning_rate: float
    regularization: float
    epochs: int
    batch: int
    popular_negatives: bool
    start: str
    seed: int
    schedule: str = "linear"
    epsilon: float = 0.01


class SideGradients(NamedTuple):
    """What one side of a batch says: its loss, and the gradients of its rows, of the text vectors, of the fusion."""

    loss: float
    tables: dict[str, tuple[Numbers, Floats]]
    text: Floats
    weights: Arrays


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
        arrays[f"explanation_by_{side}"] = normal(pool, scale, centre=id_centre(settings))
        arrays[f"bias_by_{side}"] = np.zeros((pool, 1), np.float32)
    arrays["text_layer"] = normal(width, width**-0.5)
    arrays["text_shift"] = np.zeros((1, factors), np.float32)
    for name, (rows, columns) in fusion.shapes(factors).items():
        arrays[name] = normal(rows, rows**-0.5 if rows > 1 else 0.0, columns)
    return arrays


def start_from(tables: Arrays, width: int, settings: TextSettings) -> Arrays:
    """Tables learned without texts, and a text vector that changes nothing: training goes on from their ranking."""
    neutral = FUSIONS[settings.fusion].neutral
    if neutral is None:
        raise ParameterError(f"start='bper' with fusion={settings.fusion!r}: use fusion='multiply' or 'add'")
    layer = np.zeros((width, settings.factors), np.float32)
    return {**tables, "text_layer": layer, "text_shift": np.full((1, settings.factors), neutral, np.float32)}


def id_centre(settings: TextSettings) -> float:
    """Where ID factors start, and where regularization pulls them."""
    return FUSIONS[settings.fusion].identity if settings.start == "text" else 0.0


class FrozenTrainer(Trainer):
    """Learns `arrays` in place from training triplets and one feature vector per explanation."""

    advice = "use a smaller learning_rate"

    def __init__(self, train: Triplets, features: Floats, arrays: Arrays, settings: TextSettings) -> None:
        self.features, self.arrays, self.settings = features, arrays, settings
        self.of, self.done, self.triplets = settings.epochs, 0, len(train)
        self.batches = TextBatches(train, settings.batch, settings.seed, popular=settings.popular_negatives)
        self.fusion = FUSIONS[settings.fusion]
        self.weights = {name: arrays[name] for name in self.fusion.shapes(settings.factors)}
        self.moments = {
            f"{name}.{part}": np.zeros_like(array) for name, array in arrays.items() for part in ("first", "second")
        }
        self.updates = {f"{name}.updates": np.zeros(len(array), np.int32) for name, array in arrays.items()}

    def state(self) -> Arrays:
        return {**self.arrays, **self.moments, **self.updates, "done": np.array([self.done])}

    def restore(self, arrays: Arrays) -> None:
        set_arrays({**self.arrays, **self.moments, **self.updates}, arrays)
        self.done = int(arrays["done"][0])

    def epoch(self) -> Trained:
        """One pass over all triplets; the mean loss of a triplet."""
        loss = sum(self._step(batch, left) for batch, left in self.steps())
        self.done += 1
        if not np.isfinite(loss):
            raise TrainingError(f"training diverged in epoch {self.done}; {self.advice}")
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
        factors, ids = self.arrays[f"{name}_factors"][rows], self.arrays[f"explanation_by_{name}"][numbers]
        bias = self.arrays[f"bias_by_{name}"][numbers]
        fused = self.fusion.fuse(ids, text, self.weights)
        by_factors, by_fused, by_bias = np.zeros_like(factors), np.zeros_like(fused), np.zeros_like(bias)
        loss = pairwise_gradients(
            factors, fused, bias, place, batch.positive, batch.negatives[side], np.float32(1 / len(place)),
            by_factors, by_fused, by_bias,
        )  # fmt: skip
        by_ids, by_text, by_weight = self.fusion.gradients(by_fused, ids, text, self.weights)
        tables = {
            f"{name}_factors": (rows.astype(np.int64), by_factors),
            f"explanation_by_{name}": (numbers.astype(np.int64), by_ids),
            f"bias_by_{name}": (numbers.astype(np.int64), by_bias),
        }
        return SideGradients(loss, tables, by_text, by_weight)

    def _update(self, name: str, rows: Numbers | None, gradient: Floats, left: float) -> None:
        """AdamW on the given rows of a table; without rows, on a layer that all explanations share."""
        values, settings = self.arrays[name], self.settings
        rate, epsilon = settings.learning_rate, settings.epsilon
        if rows is None:
            rows, rate, epsilon = np.arange(len(values)), settings.text_learning_rate, LAYER_EPSILON
        centre = id_centre(settings) if name.startswith("explanation_by") else 0.0
        decay = 0.0 if "bias" in name or "shift" in name else settings.regularization
        moments = self.moments[f"{name}.first"], self.moments[f"{name}.second"], self.updates[f"{name}.updates"]
        rates = np.float32(rate * left), np.float32(decay), np.float32(centre), np.float32(epsilon)
        adamw_rows(values, *moments, rows, gradient, *rates)
