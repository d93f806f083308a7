"""How a model is trained, as opposed to what it learns: nothing here changes the result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from whyrank.training.monitor import Monitor


@dataclass(frozen=True)
class Run:
    """Threads, progress and checkpoints of one training.

    threads: None for all cores.
    monitors: are told of every epoch.
    checkpoint: where the state of the training is kept, so that it can be resumed.
    resume: go on from the checkpoint if there is one.
    """

    threads: int | None = None
    monitors: tuple[Monitor, ...] = ()
    checkpoint: Path | None = None
    resume: bool = False
