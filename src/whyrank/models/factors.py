"""Models of factors trained by the engine: what they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from whyrank.data.triplets import Triplets
from whyrank.models.base import Model
from whyrank.models.parameters import parameter
from whyrank.ranking.form import Floats
from whyrank.training import Pass, Run, Settings, Storage, Table, train


@dataclass(kw_only=True, eq=False)
class FactorModel(Model):
    """Says which tables it learns and by which passes over the triplets; the engine does the rest."""

    factors: int = parameter(20, "d: length of a vector of factors", at_least=1, at_most=4096)
    learning_rate: float = parameter(0.01, "gamma", above=0)
    regularization: float = parameter(0.01, "lambda", at_least=0)
    epochs: int = parameter(500, "T: passes over the training data", at_least=1)
    seed: int = parameter(0, "every random choice comes from it", at_least=0)
    solver: Literal["blocks", "sequential"] = parameter(
        "blocks", "blocks: parallel; sequential: the paper's loop", one_of=("blocks", "sequential")
    )
    shards: int | None = parameter(None, "blocks a side; None: by the size of the tables", at_least=1, at_most=256)
    epoch_unit: Literal["triplets", "records"] = parameter(
        "triplets",
        "an epoch visits every triplet (paper) or one per record (published code)",
        one_of=("triplets", "records"),
    )
    schedule: Literal["constant", "linear", "cosine"] = parameter(
        "constant", "how the learning rate changes over the epochs", one_of=("constant", "linear", "cosine")
    )
    factor_range: float = parameter(0.1, "factors start uniformly within plus or minus this", at_least=0)

    def tables(self, train: Triplets) -> dict[str, Table]:
        """What is learned."""
        raise NotImplementedError

    def passes(self, train: Triplets) -> tuple[Pass, ...]:
        """From what, under which loss."""
        raise NotImplementedError

    def _take(self, learned: Storage) -> None:
        """Keep what was learned as fitted attributes."""
        raise NotImplementedError

    def _fit(self, train_: Triplets, run: Run, validation: Triplets | None) -> None:
        learned = train(
            self.tables(train_),
            self.passes(train_),
            self.settings(run),
            records=train_.record_explanations.indptr,
            monitors=run.monitors,
            checkpoint=run.checkpoint,
            resume=run.resume,
        )
        self._take(learned)

    def settings(self, run: Run) -> Settings:
        return Settings(
            learning_rate=self.learning_rate,
            regularization=self.regularization,
            epochs=self.epochs,
            seed=self.seed,
            solver=self.solver,
            epoch_unit=self.epoch_unit,
            schedule=self.schedule,
            factor_range=self.factor_range,
            shards=self.shards,
            threads=run.threads,
        )


def popularity_start(counts: np.ndarray[tuple[int], np.dtype[np.int64]], rows: int, records: int) -> Floats:
    """The published code's start of a bias: how many rows hold an explanation, over all rows, minus the mean."""
    start = counts / max(rows, 1) - records / max(rows * len(counts), 1)
    return start.astype(np.float32)
