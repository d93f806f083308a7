"""The training loop: epochs, monitors, checkpoints and interrupts, the same for everything that learns."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Mapping
from types import FrameType, TracebackType
from typing import NamedTuple, Protocol

from whyrank.training.checkpoint import Arrays, Checkpoint, require_reachable
from whyrank.training.monitor import Epoch
from whyrank.training.run import Run
from whyrank.training.storage import Storage


class Trained(NamedTuple):
    """What an epoch did: its mean loss, the number of updates, and which candidate it belongs to."""

    loss: float
    updates: float
    candidate: int = 0


class Trainer(Protocol):
    """Something that learns, an epoch at a time."""

    curve: str = "loss"  # the name of its loss in reports
    storage: Storage | None = None  # the tables of factor models, for monitors
    of: int  # epochs at most
    done: int = 0  # epochs

    def epoch(self) -> Trained | None:
        """Learn for an epoch; None: for a part of one that nobody need hear of."""
        ...

    def state(self) -> Arrays:
        """Everything that another trainer of the same data and settings needs to go on from here."""
        ...

    def restore(self, arrays: Arrays) -> None:
        """Go on from a state; raises ValueError or KeyError where it does not fit."""
        ...

    @property
    def finished(self) -> bool:
        return self.done >= self.of

    @property
    def may_stop(self) -> bool:
        """Whether a monitor may stop it here; otherwise it goes on until it is so."""
        return True

    def check(self) -> None:
        """Raise TrainingError if what was learned is of no use."""
        return


def run_epochs(trainer: Trainer, run: Run, checkpoint: Checkpoint, stage: str = "training") -> None:
    """Train until the trainer is finished, a monitor stops it, or the user interrupts it.

    The state is saved every `run.checkpoint_seconds`, when stopped or interrupted, and at the end; a run that is
    resumed from it ends with the same bits as one that was never disturbed. A fit of several stages calls this for
    each, with one checkpoint.
    """
    if checkpoint.read(trainer.restore, stage):
        require_reachable(checkpoint.path, trainer.done, trainer.of)
    for monitor in run.monitors:
        monitor.on_start(trainer.done, trainer.of)
    began = saved = time.monotonic()
    ran, stop = 0, False
    with LateInterrupt() as interrupt:
        while not trainer.finished and not (stop and trainer.may_stop):
            epoch_began = time.monotonic()
            trained = trainer.epoch()
            now = time.monotonic()
            if trained is not None:
                ran += 1
                speed, eta = trained.updates / max(now - epoch_began, 1e-9), (now - began) / ran
                report = Epoch(
                    trainer.done, trainer.of, trained.loss, speed, now - began, eta * (trainer.of - trainer.done),
                    trainer.curve, trained.candidate,
                )  # fmt: skip
                stop |= any([monitor.on_epoch(report, trainer.storage) for monitor in run.monitors])  # noqa: C419
            over = trainer.finished or (stop and trainer.may_stop) or interrupt.wanted
            if over or now - saved >= run.checkpoint_seconds:
                trainer.check()
                checkpoint.save(stage, trainer.state() if checkpoint.path else {})
                saved = now
            if interrupt.wanted:
                raise KeyboardInterrupt
    trainer.check()


class EarlyStopping:
    """Remembers the best state of a trainer by a measure, and says when it is enough.

    It is when the measure has not risen for `patience` epochs, or falls below `fall` times its best after the first.
    """

    def __init__(self, patience: int | None = None, fall: float = 0.0) -> None:
        self.patience, self.fall = patience, fall
        self.best: Arrays = {}
        self.score, self.when, self.enough = -1.0, 0, False

    def look(self, epoch: int, score: float, state: Mapping[str, object]) -> None:
        """After so many epochs, the measure is `score`."""
        self.enough = score < self.fall * self.score and epoch > 1
        if score > self.score:
            self.best, self.score, self.when = dict(state), score, epoch  # type: ignore[arg-type]
        if self.patience is not None:
            self.enough |= epoch >= self.when + self.patience


class LateInterrupt:
    """Lets a first Ctrl-C wait for the end of the epoch; a second one acts at once."""

    def __init__(self) -> None:
        self.wanted = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True

    def __enter__(self) -> LateInterrupt:
        self._mine = threading.current_thread() is threading.main_thread()
        if self._mine:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._mine:
            signal.signal(signal.SIGINT, self._before)
