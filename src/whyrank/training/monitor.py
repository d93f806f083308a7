"""What watches a training run: progress, curves, anything that wants to see tables after an epoch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyrank.training.storage import Storage


@dataclass(frozen=True)
class Epoch:
    """The report of an epoch: `loss` is the mean over its sample, `eta` the seconds that remain at most.

    `curve` tells apart what one fit trains in turn, `candidate` the settings of which one goes on.
    """

    number: int
    of: int
    loss: float
    updates_per_second: float
    seconds: float
    eta: float
    curve: str = "loss"
    candidate: int = 0


class Monitor:
    """Base of monitors; does nothing."""

    def on_start(self, done: int, of: int) -> None:
        """Training starts after `done` of `of` epochs (more than 0 when resumed)."""

    def on_epoch(self, epoch: Epoch, storage: Storage | None) -> bool:
        """After every epoch; True stops what is being trained. Only factor models have a storage."""
        return False

    def state(self) -> dict[str, NDArray[np.generic]]:
        """What a checkpoint must hold so that a resumed run goes on as if nothing had happened."""
        return {}

    def restore(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """The opposite of `state`."""


class History(Monitor):
    """Notes the loss of every epoch; `rows` is the training curve of a report."""

    def __init__(self) -> None:
        self._noted: list[tuple[str, int, int, float]] = []  # curve, candidate, epoch, loss

    @property
    def rows(self) -> list[dict[str, float]]:
        """An epoch each, of the candidates that went on."""
        last = {curve: candidate for curve, candidate, _, _ in self._noted}
        return [{"epoch": number, curve: loss} for curve, one, number, loss in self._noted if last[curve] == one]

    def on_epoch(self, epoch: Epoch, storage: Storage | None) -> bool:
        self._noted.append((epoch.curve, epoch.candidate, epoch.number, epoch.loss))
        return False

    def state(self) -> dict[str, NDArray[np.generic]]:
        return {"noted": np.frombuffer(json.dumps(self._noted).encode(), np.uint8)}

    def restore(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        if "noted" in state:
            noted = json.loads(state["noted"].tobytes())
            self._noted = [(str(curve), int(one), int(epoch), float(loss)) for curve, one, epoch, loss in noted]
