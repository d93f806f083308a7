"""Courses of a fit: trainings that race, go on while validation rises, and are kept in a file on their way."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from whyrank.data.triplets import Triplets
from whyrank.models.base import Model
from whyrank.models.parameters import values
from whyrank.training import Run
from whyrank.training.checkpoint import read_arrays, write_arrays
from whyrank.training.softmax import SoftmaxTraining, State
from whyrank.training.vectors import part_of

FORMAT = 2  # of courses in files


@dataclass
class Course:
    """A training on its way: where it stands, and the best that it has been."""

    training: SoftmaxTraining
    best: State
    score: float
    when: int  # the epoch of the best
    over: bool
    racer: int = 0

    def arrays(self) -> dict[str, NDArray[Any]]:
        found = {f"training.{name}": array for name, array in self.training.arrays().items()}
        found |= {f"best.{name}": array for name, array in self.best.arrays().items()}
        return found | {"standing": np.array([self.score, self.when, self.over, self.racer], np.float64)}

    @classmethod
    def of(cls, work: Work, arrays: Mapping[str, NDArray[Any]]) -> Course:
        score, when, over, racer = arrays["standing"].tolist()
        training = work.training(int(racer))
        training.restore(part_of(arrays, "training"))
        return cls(training, State.of(part_of(arrays, "best")), score, int(when), bool(over), int(racer))


class Work(Protocol):
    """A stage of a fit: one or more courses start, one goes on, an epoch at a time, until it is over.

    `stopped` says that a monitor wants no more epochs.
    """

    stopped: bool

    def training(self, racer: int) -> SoftmaxTraining: ...
    def start(self, racer: int) -> Course: ...
    def go_on(self, course: Course) -> None: ...


def race(work: Work, racers: int) -> Course:
    """The course that goes on, the first of equals; the others' tables are let go of."""
    best = work.start(0)
    for racer in range(1, racers):
        other = work.start(racer)
        best = other if other.score > best.score else best
    return best


class Checkpoint:
    """Courses in a file, so that an interrupted fit goes on; of a stage that is over, its end."""

    def __init__(self, path: Path | None, mark: str, arrays: dict[str, NDArray[Any]]) -> None:
        self.path, self.mark, self.arrays = path, mark, arrays

    @classmethod
    def of(cls, model: Model, train: Triplets, validation: Triplets | None, run: Run) -> Checkpoint:
        if run.checkpoint is None:
            return cls(None, "", {})
        facts = [FORMAT, model.id, values(model), train.digest(), validation.digest() if validation else ""]
        mark = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
        return cls(run.checkpoint, mark, read_arrays(run.checkpoint, mark) if run.resume else {})

    def course(self, work: Work, stage: str) -> Course | None:
        """Where a stage was left, None if it was not begun."""
        arrays = part_of(self.arrays, stage)
        return Course.of(work, arrays) if arrays else None

    def keep(self, stage: str, course: Course) -> None:
        if self.path is not None:
            self.arrays |= {f"{stage}.{name}": array for name, array in course.arrays().items()}
            write_arrays(self.path, self.mark, self.arrays)
