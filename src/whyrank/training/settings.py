"""How factor models are trained."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class FactorSettings:
    """The defaults of `learning_rate`, `regularization` and `epochs` are the paper's.

    - `epoch_unit`: "triplets" visits every training triplet once an epoch, in random order (the paper draws as many
      with replacement); "records" draws one explanation of every record an epoch, as the published code does.
    - `schedule`: how the learning rate falls over the epochs: "constant", "linear" to zero, or "cosine" to zero.
    - `factor_range`: factors start uniformly in +-factor_range.
    - `solver`: "blocks", parallel; or "sequential", the paper's loop.
    - `shards`: into how many parts "blocks" cuts each table; None: by table size. The result depends on it.

    Parameters of models, which are checked there, have the same names.
    """

    learning_rate: float = 0.01
    regularization: float = 0.01
    epochs: int = 500
    seed: int = 0
    solver: Literal["blocks", "sequential"] = "blocks"
    epoch_unit: Literal["triplets", "records"] = "triplets"
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    factor_range: float = 0.1
    shards: int | None = None

    def rate(self, epoch: int) -> np.float32:
        """The learning rate of an epoch; epochs count from 1."""
        done = (epoch - 1) / max(self.epochs, 1)
        share = {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 + 0.5 * math.cos(math.pi * done)}[self.schedule]
        return np.float32(self.learning_rate * share)

    def step(self, epoch: int, weight: float) -> np.float32:
        """The learning rate of an epoch times the weight of a loss."""
        return np.float32(float(self.rate(epoch)) * weight)

    def decay(self, epoch: int, passes: int = 1) -> np.float32:
        """What regularization leaves of values that so many passes share."""
        return np.float32(1 - float(self.rate(epoch)) * self.regularization / passes)

    def decides(self) -> dict[str, object]:
        """What of it a result depends on: with a constant rate, more epochs go on from fewer."""
        return {k: v for k, v in vars(self).items() if k != "epochs" or self.schedule != "constant"}
