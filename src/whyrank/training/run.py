"""How a model is trained, as opposed to what it learns: nothing here changes the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from whyrank.errors import ParameterError
from whyrank.training.monitor import Monitor


class Solver(Protocol):
    """Runs the epochs of a factor model's training."""

    def epoch(self, number: int) -> tuple[int, int]:
        """Run one epoch; the number of updates and of scores out of range."""
        ...

    def gather(self) -> None:
        """Bring all that was learned to the storage that it was made for."""
        ...


@dataclass(frozen=True)
class Run:
    """Threads, progress and checkpoints of one fit.

    threads: None for all cores.
    monitors: are called after every epoch, and may stop the training.
    checkpoint: the file in which the state of the training is saved, so that it can be resumed.
    resume: go on from the checkpoint if there is one.
    checkpoint_seconds: how often the state is saved; it always is at the end and when interrupted.
    solver: makes what runs the epochs of factor models, as `whyrank.lab.ray.training.solver_on` gives it: of a storage,
        passes, settings, the record of each triplet, and rows to report after epochs. None: this machine runs them.
    """

    threads: int | None = None
    monitors: tuple[Monitor, ...] = ()
    checkpoint: Path | None = None
    resume: bool = False
    checkpoint_seconds: float = 30.0
    solver: Callable[..., Solver] | None = None

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise ParameterError(f"threads = {self.threads!r}: expected a whole number of at least 1")
