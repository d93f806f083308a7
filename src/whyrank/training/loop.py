"""The epoch loop: seeds, epochs, reports, checkpoints, interrupts and numerical trouble."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType

import numpy as np
from numpy.typing import NDArray

from whyrank.crew import Crew
from whyrank.errors import ParameterError, TrainingError
from whyrank.kernels.rng import key_of
from whyrank.kernels.start import draw_one_per_record
from whyrank.training import checkpoint as checkpoints
from whyrank.training.blocks import BlockSolver
from whyrank.training.loss import SampleLoss
from whyrank.training.monitor import Epoch, Monitor
from whyrank.training.passes import Pass, Settings, Table, check
from whyrank.training.sequential import SequentialSolver
from whyrank.training.storage import Storage

RECORD_DOMAIN = 6
WORTH_THREADS = 20_000  # triplets; below, waking threads costs more than they do
LARGEST = 1e4
ALL = np.empty(0, np.bool_)


def train(
    tables: Mapping[str, Table],
    passes: Sequence[Pass],
    settings: Settings,
    *,
    records: NDArray[np.int64] | None = None,
    start: Storage | None = None,
    monitors: Sequence[Monitor] = (),
    checkpoint: Path | None = None,
    resume: bool = False,
) -> Storage:
    """Learn the tables from the passes.

    `records` (where each record's triplets start, and the end) is needed for `epoch_unit="records"`. `start` continues
    from given tables, which are changed. With `checkpoint`, the state is kept in that file every `checkpoint_seconds`,
    when interrupted, and at the end; `resume` goes on from it, to the same bits as a run that was never disturbed.
    """
    passes = tuple(passes)
    check(tables, passes)
    if settings.epoch_unit == "records" and records is None:
        raise ParameterError("epoch_unit = 'records': needs to know the records")
    storage = start or Storage.started(tables, settings.seed, settings.factor_range)
    mark = checkpoints.fingerprint(tables, passes, settings, records, start) if checkpoint else ""
    done = checkpoints.load(checkpoint, storage, monitors, mark, settings.epochs) if checkpoint and resume else 0
    threads = settings.threads or os.cpu_count() or 1
    with Crew(threads if passes[0].triplets >= WORTH_THREADS else 1) as crew, _LateInterrupt() as interrupt:
        run = _Run(storage, passes, settings, crew, records, monitors)
        run.from_epoch(done, checkpoint, mark, interrupt)
    for monitor in monitors:
        monitor.on_end(storage)
    return storage


class _Run:
    """The parts of one call of `train`."""

    def __init__(
        self,
        storage: Storage,
        passes: tuple[Pass, ...],
        settings: Settings,
        crew: Crew,
        records: NDArray[np.int64] | None,
        monitors: Sequence[Monitor],
    ) -> None:
        self.storage, self.settings, self.records, self.monitors = storage, settings, records, monitors
        blocks = settings.solver == "blocks"
        solver = BlockSolver(storage, passes, settings, crew) if blocks else SequentialSolver(storage, passes, settings)
        self.solver: BlockSolver | SequentialSolver = solver
        self.loss = SampleLoss.of(storage, passes, settings.seed) if monitors else None

    def from_epoch(self, done: int, checkpoint: Path | None, mark: str, interrupt: _LateInterrupt) -> None:
        """Epochs done + 1 to the last, or until a monitor or the user stops."""
        began = saved = time.monotonic()
        first, last = done, self.settings.epochs
        for monitor in self.monitors:
            monitor.on_start(done, last)
        stop = False
        while done < last and not stop:
            epoch_began = time.monotonic()
            updates = self._epoch(done + 1)
            done, now = done + 1, time.monotonic()
            eta = (now - began) / (done - first) * (last - done)
            report = Epoch(done, last, self._loss(), updates / max(now - epoch_began, 1e-9), now - began, eta)
            stop = any([monitor.on_epoch(report, self.storage) for monitor in self.monitors])  # noqa: C419 - ask all
            over = done == last or stop or interrupt.wanted
            if checkpoint and (over or now - saved >= self.settings.checkpoint_seconds):
                self._require_sound(done)
                checkpoints.save(checkpoint, self.storage, self.monitors, done, mark)
                saved = now
            if interrupt.wanted:
                raise KeyboardInterrupt
        self._require_sound(done)

    def _epoch(self, number: int) -> int:
        updates, trouble = self.solver.epoch(number, self._active(number))
        if trouble:
            self._require_sound(number, score_out_of_range=True)
        return updates

    def _active(self, number: int) -> NDArray[np.bool_]:
        if self.settings.epoch_unit == "triplets" or self.records is None:
            return ALL
        return draw_one_per_record(self.records, key_of(self.settings.seed, RECORD_DOMAIN, number))

    def _loss(self) -> float:
        return self.loss.mean() if self.loss else float("nan")

    def _require_sound(self, epoch: int, score_out_of_range: bool = False) -> None:
        largest = np.abs(self.storage.values).max(initial=0)
        if score_out_of_range or not largest <= LARGEST:
            rate = self.settings.learning_rate
            raise TrainingError(
                f"values out of range in epoch {epoch}: lower learning_rate, for example from {rate:g} to {rate / 10:g}"
            )


class _LateInterrupt:
    """Lets a first Ctrl-C wait for the end of the epoch; a second one acts at once."""

    def __init__(self) -> None:
        self.wanted = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True

    def __enter__(self) -> _LateInterrupt:
        self._mine = threading.current_thread() is threading.main_thread()
        if self._mine:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._mine:
            signal.signal(signal.SIGINT, self._before)
