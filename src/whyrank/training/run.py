"""How a model is trained, as opposed to what it learns: nothing here changes the result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from whyrank.errors import ParameterError
from whyrank.training.monitor import Monitor


@dataclass(frozen=True)
class Run:
    """Threads, progress and checkpoints of one fit.

    threads: None for all cores.
    monitors: are called after every epoch, and may stop the training.
    checkpoint: the file in which the state of the training is saved, so that it can be resumed.
    resume: go on from the checkpoint if there is one.
    checkpoint_seconds: how often the state is saved; it always is at the end and when interrupted.
    """

    threads: int | None = None
    monitors: tuple[Monitor, ...] = ()
    checkpoint: Path | None = None
    resume: bool = False
    checkpoint_seconds: float = 30.0

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise ParameterError(f"threads = {self.threads!r}: expected a whole number of at least 1")
