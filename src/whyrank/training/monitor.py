"""What watches a run: progress, early stopping, anything that wants to see the tables after an epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyrank.errors import ParameterError
from whyrank.training.storage import Storage


@dataclass(frozen=True)
class Epoch:
    """Where a run stands: `loss` is the mean over a fixed sample of pairs, `eta` the seconds that remain.

    `curve` tells apart what one fit trains in turn, `racer` the tries of which one goes on.
    """

    number: int
    of: int
    loss: float
    updates_per_second: float
    seconds: float
    eta: float
    curve: str = "loss"
    racer: int = 0


class Monitor:
    """Base of monitors; does nothing."""

    def on_start(self, done: int, of: int) -> None:
        """Training starts after `done` of `of` epochs (more than 0 when resumed)."""

    def on_epoch(self, epoch: Epoch, storage: Storage | None) -> bool:
        """After every epoch; True stops the training. Training outside of the engine has no storage."""
        return False

    def on_end(self, storage: Storage) -> None:
        """After the last epoch; may change the tables."""

    def state(self) -> dict[str, NDArray[np.generic]]:
        """What a checkpoint must keep so that a resumed run goes on as if nothing had happened."""
        return {}

    def restore(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """The opposite of `state`."""


class History(Monitor):
    """Keeps the loss of every epoch; `rows` is the training curve of a report."""

    def __init__(self) -> None:
        self._told: list[tuple[str, int, int, float]] = []  # curve, racer, epoch, loss

    @property
    def rows(self) -> list[dict[str, float]]:
        """An epoch each, of those who went on."""
        last = {curve: racer for curve, racer, _, _ in self._told}
        return [{"epoch": epoch, curve: loss} for curve, racer, epoch, loss in self._told if last[curve] == racer]

    def on_epoch(self, epoch: Epoch, storage: Storage | None) -> bool:
        self._told.append((epoch.curve, epoch.racer, epoch.number, epoch.loss))
        return False

    def state(self) -> dict[str, NDArray[np.generic]]:
        told = [(row["epoch"], row["loss"]) for row in self.rows if "loss" in row]
        return {"rows": np.array(told, np.float64).reshape(-1, 2)}

    def restore(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        if "rows" in state:
            self._told = [("loss", 0, int(number), float(loss)) for number, loss in state["rows"].tolist()]


class EarlyStopping(Monitor):
    """Stop when a metric has not risen for `patience` looks, one every `every` epochs; the best epoch's tables win.

    `metric` sees the tables as they are and gives a number, the higher the better.
    """

    def __init__(self, metric: Callable[[Storage], float], patience: int = 5, every: int = 1) -> None:
        if patience < 1 or every < 1:
            raise ParameterError("patience and every: expected whole numbers of at least 1")
        self.metric, self.patience, self.every = metric, patience, every
        self.history: list[tuple[int, float]] = []
        self.best: NDArray[np.float32] | None = None

    @property
    def best_epoch(self) -> int:
        """The epoch whose tables are kept; 0 before the first look."""
        return max(self.history, key=lambda look: (look[1], -look[0]), default=(0, 0.0))[0]

    def on_epoch(self, epoch: Epoch, storage: Storage | None) -> bool:
        if storage is None or (epoch.number % self.every and epoch.number != epoch.of):
            return False
        self.history.append((epoch.number, float(self.metric(storage))))
        if self.best_epoch == epoch.number:
            self.best = storage.values.copy()
        looks = [number for number, _ in self.history]
        return len(looks) - 1 - looks.index(self.best_epoch) >= self.patience

    def on_end(self, storage: Storage) -> None:
        if self.best is not None:
            storage.values[:] = self.best

    def state(self) -> dict[str, NDArray[np.generic]]:
        if self.best is None:
            return {}
        return {"history": np.array(self.history, np.float64), "best": self.best}

    def restore(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        if "best" in state:
            self.history = [(int(number), float(value)) for number, value in state["history"].tolist()]
            self.best = np.asarray(state["best"], np.float32)
