"""Training of several settings, of which the best goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from whyrank.training.checkpoint import Arrays, part_of
from whyrank.training.loop import EarlyStopping, Trained, Trainer
from whyrank.training.softmax import SoftmaxTraining

Found = tuple[int, int]  # a candidate, and for how many epochs it is to be trained
LAST = -1  # in place of a candidate's number: the run on all records, whose curve is the one to show


@dataclass
class Candidate:
    """A setting in training, and the best that it has been."""

    number: int
    training: SoftmaxTraining
    stopping: EarlyStopping


class CandidateTrainer(Trainer):
    """Every candidate starts, for some steps or an epoch; the one that validation ranks first goes on.

    `make` makes the training of a candidate, `measure` says how good what was learned is. Of two candidates that have
    started only the better one is kept in memory.
    """

    def __init__(
        self,
        make: Callable[[int], SoftmaxTraining],
        measure: Callable[[Arrays], float],
        stopping: Callable[[], EarlyStopping],
        epochs: int,
        *,
        candidates: int = 1,
        start_steps: int | None = None,
        curve: str = "loss",
    ) -> None:
        self.make, self.measure, self.stopping, self.of, self.curve = make, measure, stopping, epochs, curve
        self.candidates, self.start_steps, self.started, self.done = candidates, start_steps, 0, 0
        self.leader: Candidate | None = None

    @property
    def learned(self) -> Arrays:
        """What was learned when validation was best."""
        assert self.leader is not None
        return self.leader.stopping.best

    @property
    def found(self) -> Found:
        """The candidate that is best, and after how many epochs it is."""
        assert self.leader is not None
        return self.leader.number, max(self.leader.stopping.when, 1)

    @property
    def may_stop(self) -> bool:
        return self.started == self.candidates

    @property
    def finished(self) -> bool:
        return self.leader is not None and self.may_stop and (self.leader.stopping.enough or self.done >= self.of)

    def epoch(self) -> Trained | None:
        if self.leader is not None and self.may_stop:
            return self._train(self.leader, None)
        candidate = Candidate(self.started, self.make(self.started), self.stopping())
        trained = self._train(candidate, self.start_steps)
        if self.leader is None or candidate.stopping.score > self.leader.stopping.score:
            self.leader = candidate
        self.started += 1
        return trained

    def _train(self, candidate: Candidate, steps: int | None) -> Trained | None:
        """An epoch, its rest, or so many steps of it; then a look at validation."""
        training, source = candidate.training, candidate.training.task.source
        before = training.done / max(source.count, 1)
        loss = training.epoch(steps)
        learned = training.learned()
        candidate.stopping.look(training.epochs, self.measure(learned), learned)
        self.done = training.epochs
        return None if training.done else Trained(loss, source.entries * (1 - before), candidate.number)

    def state(self) -> Arrays:
        assert self.leader is not None
        stopping, training = self.leader.stopping, self.leader.training
        counts = [self.started, self.done, self.leader.number, stopping.when, stopping.enough]
        found: Arrays = {"counts": np.array(counts, np.int64), "score": np.array([stopping.score])}
        found |= {f"training.{name}": array for name, array in training.state().items()}
        return found | {f"best.{name}": array for name, array in stopping.best.items()}

    def restore(self, arrays: Arrays) -> None:
        self.started, self.done, number, when, enough = arrays["counts"].tolist()
        training, stopping = self.make(number), self.stopping()
        training.restore(part_of(arrays, "training"))
        stopping.best, stopping.score = part_of(arrays, "best"), float(arrays["score"][0])
        stopping.when, stopping.enough = when, bool(enough)
        self.leader = Candidate(number, training, stopping)


class FixedTrainer(Trainer):
    """The training that a CandidateTrainer has found, for as many epochs, without a look at validation."""

    started = 1  # candidates

    def __init__(self, make: Callable[[int], SoftmaxTraining], found: Found, curve: str = "loss") -> None:
        self.training, self.found, self.of, self.curve = make(found[0]), found, found[1], curve

    @property
    def learned(self) -> Arrays:
        return self.training.learned()

    def epoch(self) -> Trained:
        loss = self.training.epoch()
        self.done = self.training.epochs
        return Trained(loss, self.training.task.source.entries, LAST)

    def state(self) -> Arrays:
        return self.training.state()

    def restore(self, arrays: Arrays) -> None:
        self.training.restore(arrays)
        self.done = self.training.epochs
