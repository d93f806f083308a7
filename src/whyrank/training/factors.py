"""Training of factor models: tables and passes in, learned tables out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from whyrank.errors import ParameterError, TrainingError
from whyrank.thread_pool import ThreadPool
from whyrank.training.blocks import BlockSolver
from whyrank.training.checkpoint import Arrays, Checkpoint, set_arrays
from whyrank.training.loop import Trained, Trainer, run_epochs
from whyrank.training.loss import SampleLoss
from whyrank.training.passes import Pass, check
from whyrank.training.run import Run, Solver
from whyrank.training.sequential import SequentialSolver
from whyrank.training.settings import FactorSettings
from whyrank.training.storage import Storage, Table

WORTH_THREADS = 20_000  # triplets; below, waking threads costs more than they do
LARGEST = 1e4


def train(
    tables: Mapping[str, Table],
    passes: Sequence[Pass],
    settings: FactorSettings,
    run: Run | None = None,
    *,
    records: NDArray[np.int64] | None = None,
    start: Storage | None = None,
) -> Storage:
    """Learn the tables from the passes.

    `records` (the record of every triplet, in order) is needed for `epoch_unit="records"`. `start` continues from given
    tables, which are changed.
    """
    passes, run = tuple(passes), run or Run()
    check(tables, passes)
    if settings.epoch_unit == "records" and records is None:
        raise ParameterError("epoch_unit = 'records': needs to know the records")
    checkpoint = Checkpoint(
        run, settings.decides(), tuple(tables.items()), passes, records, None if start is None else start.values
    )
    storage = start or Storage.started(tables, settings.seed, settings.factor_range)
    cores = run.threads or os.cpu_count() or 1
    with ThreadPool(cores if passes[0].triplets >= WORTH_THREADS else 1) as threads:
        loss = SampleLoss.of(storage, passes, settings.seed) if run.monitors else None
        if run.solver is not None:
            solver = run.solver(storage, passes, settings, records, loss.rows() if loss else {})
        elif settings.solver == "blocks":
            solver = BlockSolver(storage, passes, settings, threads, records)
        else:
            solver = SequentialSolver(storage, passes, settings, records)
        run_epochs(FactorTrainer(storage, settings, solver, loss), run, checkpoint)
    return storage


class FactorTrainer(Trainer):
    """Learns the tables of a storage by a solver; the loss is measured where somebody looks at it."""

    def __init__(self, storage: Storage, settings: FactorSettings, solver: Solver, loss: SampleLoss | None) -> None:
        self.storage: Storage = storage
        self.settings, self.solver, self.loss = settings, solver, loss
        self.of, self.done = settings.epochs, 0

    def epoch(self) -> Trained:
        updates, trouble = self.solver.epoch(self.done + 1)
        self.done += 1
        if trouble:
            raise diverged(self.done, self.settings)
        return Trained(self.loss.mean() if self.loss else float("nan"), updates)

    def state(self) -> Arrays:
        return {"values": self.storage.values, "done": np.array([self.done])}

    def restore(self, arrays: Arrays) -> None:
        set_arrays({"values": self.storage.values}, arrays)
        self.done = int(arrays["done"][0])

    def check(self) -> None:
        self.solver.gather()
        if not np.abs(self.storage.values).max(initial=0) <= LARGEST:
            raise diverged(self.done, self.settings)


def diverged(epoch: int, settings: FactorSettings) -> TrainingError:
    rate = settings.learning_rate
    return TrainingError(
        f"values out of range in epoch {epoch}: lower learning_rate, for example from {rate:g} to {rate / 10:g}"
    )
