"""Profile on a cluster: every machine has all records and tables, and does some parts of every step.

What is learned belongs to explanations (and to items, where they are ranked), and every step needs the one before it.
So machines share the work of a step and not the data: each reads all parts once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from whyrank.errors import ArtifactError
from whyrank.lab.experiments.cache import digest
from whyrank.lab.ray.dataset import Dataset
from whyrank.lab.ray.export import write_model
from whyrank.lab.ray.fit_workers import FitWorker, FitWorkers, InStore
from whyrank.lab.ray.peers import Address, PeersTeam
from whyrank.lab.ray.session import Cluster, here, retried
from whyrank.lab.ray.store import Arrays, StateStore
from whyrank.models import model_class
from whyrank.models.parameters import values
from whyrank.models.profile import AGAIN, Found, Profile
from whyrank.models.profile_records import Learning
from whyrank.training import Run
from whyrank.training.candidates import CandidateTrainer, FixedTrainer
from whyrank.training.loop import Trained, Trainer, run_epochs
from whyrank.training.softmax import MOST_PARTS

FOLDER = "profile"
FORMAT = 5  # of states in a store
Done = TypeVar("Done")


@dataclass(frozen=True, eq=False)
class ProfileJob:
    """Which model learns from what."""

    data: Dataset
    validation: Dataset | None
    model: str
    parameters: dict[str, Any]

    @property
    def store(self) -> StateStore:
        return self.data.store

    @property
    def mark(self) -> str:
        """A hash of what the result depends on."""
        digests = {"data": self.data.digest, "validation": self.validation.digest if self.validation else ""}
        return digest({"format": FORMAT, "model": self.model, "parameters": self.parameters, **digests})

    def new_model(self) -> Profile:
        model = model_class(self.model)(**self.parameters)
        assert isinstance(model, Profile)
        model._forget()
        return model


class ProfileWorker(FitWorker):
    """One machine of a fit; what all of them do alike is done by the first one for the others, where it is written."""

    def __init__(self, job: ProfileJob, me: int, host: str, secret: bytes, threads: int) -> None:
        super().__init__(me, host, secret)
        self.job, self.run = job, Run(threads=threads)
        self.team: PeersTeam | None = None
        self.trainer: CandidateTrainer | FixedTrainer | None = None

    def meet(self, addresses: list[Address]) -> None:
        super().meet(addresses)
        self.team = PeersTeam(self.peers, len(addresses)) if len(addresses) > 1 else None

    @cached_property
    def learning(self) -> Learning:
        """What a job learns from."""
        validation = self.job.validation.read() if self.job.validation else None
        train = self.job.data.read()
        return self.job.new_model().learning(train, validation and validation.renumbered(train))

    def take_up(self, name: str, found: Found | None, state: str | None) -> None:
        """Begin a training, or go on from a state of it."""
        self.trainer = self._trainer(name, found, state, replace(self.run, team=self.team))

    def _trainer(self, name: str, found: Found | None, state: str | None, run: Run) -> CandidateTrainer | FixedTrainer:
        trainer = self.job.new_model().trainer(name, self.learning, found, run)
        if state is not None:
            trainer.restore(self.job.store.read(state))
        return trainer

    def epoch(self) -> tuple[dict[str, Any], Trained | None]:
        """What a trainer does next; where it is then, and what there is to report."""
        trainer = self.trainer
        assert trainer is not None
        trained = self.leaving(trainer.epoch)
        facts = {"done": trainer.done, "finished": trainer.finished, "may_stop": trainer.may_stop}
        return facts | {"found": trainer.found, "started": trainer.started}, trained

    def write(self, state: str) -> None:
        assert self.trainer is not None
        self.job.store.write(state, self.trainer.state())

    def finish(self, stages: dict[str, Any]) -> str:
        """Write what every stage has learned at last; under which name."""
        model = self.job.new_model()
        for stage in model.stages:
            found = tuple(stages[stage]["found"]) if model.refit else None
            name = stage + AGAIN if model.refit else stage
            trainer = self._trainer(name, found, stages[name]["name"], self.run)
            held_out = self._trainer(stage, None, stages[stage]["name"], self.run).learned
            model.finish_stage(stage, self.learning, held_out, trainer.learned, trainer.found, self.run)
        learned = f"{FOLDER}/learned-{self.job.store.start}"
        self.job.store.write(learned, {name: getattr(model, f"{name}_") for name in model.fitted})
        return learned


class StageTrainer(Trainer):
    """A training by all machines; its states are in the store, and named by a manifest."""

    def __init__(
        self, workers: FitWorkers, job: ProfileJob, name: str, found: Found | None, manifest: dict[str, Any]
    ) -> None:
        self.workers, self.job, self.name, self.earlier, self.manifest = workers, job, name, found, manifest
        model = job.new_model()
        self.curve, self.of = model.curve(name), found[1] if found else model.most_epochs(name)
        self.saved: dict[str, Any] = manifest["stages"].get(name, {"name": None, "done": 0, "started": 0})
        self.facts, self.ready, self.calls = self.saved, False, 0

    @property
    def found(self) -> Found:
        candidate, epochs = self.facts["found"]
        return candidate, epochs

    @property
    def done(self) -> int:  # type: ignore[override]
        return int(self.facts["done"])

    @property
    def finished(self) -> bool:
        if self.earlier:  # what it was stopped at may be less than what there is to do
            return self.done >= self.of
        return bool(self.facts.get("finished", False))

    @property
    def may_stop(self) -> bool:
        return bool(self.facts.get("may_stop", False))

    def epoch(self) -> Trained | None:
        return self._reach(self.calls + 1, lambda trained: trained)

    def _reach(self, calls: int, work: Callable[[Trained | None], Done]) -> Done:
        """Go so many epochs beyond what is saved, and do something then; after a loss again from there."""

        def learn() -> Done:
            trained = None
            if not self.ready:
                self.workers.all("take_up", self.name, self.earlier, self.saved["name"])
                self.ready, self.calls = True, 0
            while self.calls < calls:
                self.facts, trained = self.workers.all("epoch")[0]
                self.calls += 1
            return work(trained)

        return self.workers.recovering(learn, self._assemble)

    def _assemble(self) -> None:
        self.ready = False
        assemble(self.workers, self.job)

    def state(self) -> Arrays:
        return {}  # is in the store

    def restore(self, arrays: Arrays) -> None:
        """Is named by the manifest."""

    def save(self) -> None:
        """Write the state, then the manifest; then the one before can go."""
        before, name = self.saved["name"], self._reach(self.calls, lambda trained: self._write())
        self.saved, self.calls = self.facts | {"name": name}, 0
        self.manifest["stages"][self.name] = self.saved
        self.workers.store.write_document(f"{FOLDER}/manifest", self.manifest)
        if before not in (None, name):
            self.job.store.remove(f"{before}.safetensors")

    def _write(self) -> str:
        # Workers that were given up have other names, even if one is just about to write.
        start = self.workers.store.start
        name = f"{FOLDER}/{self.name}-{self.facts['started']}-{self.done:04d}-{start}"
        self.workers.first("write", name)
        return name


def assemble(workers: FitWorkers, job: ProfileJob) -> None:
    """A worker on every machine of the cluster as it is now; a step has no more parts than some."""
    workers.start(workers.cluster.machines(workers.threads or 1)[:MOST_PARTS], ProfileWorker, job)


def fit_profile(
    cluster: Cluster,
    model: Profile,
    data: Dataset,
    output: Path,
    run: Run,
    validation: Dataset | None,
    whole: Dataset | None,
    report: Callable[[], Mapping[str, object]] | None,
) -> Path:
    """Fit and save as `Model.fit` and `Model.save` would; `run.resume` goes on after the last state in the store."""
    job = ProfileJob(data, validation, model.id, dict(values(model)))
    manifest = (data.store.read_document(f"{FOLDER}/manifest") if run.resume else None) or {
        "mark": job.mark,
        "stages": {},
    }
    if manifest["mark"] != job.mark:
        raise ArtifactError(f"{data.store.url}: belongs to other data or settings; remove it or leave out --resume")
    workers = FitWorkers(cluster, run.threads)
    try:
        for stage in model.stages:
            found = None
            for name in (stage, stage + AGAIN)[: 1 + model.refit]:
                trainer = StageTrainer(workers, job, name, found, manifest)
                run_epochs(trainer, run, InStore(trainer.save), name)
                found = trainer.found
        learned = workers.recovering(
            lambda: str(workers.first("finish", manifest["stages"])), lambda: assemble(workers, job)
        )
    finally:
        workers.dismiss()
    written = whole if whole is not None and model.refit else data
    said = report() if report else None
    retried(lambda: cluster.gather([cluster.submit(save, job, written, learned, output.resolve(), said)]))
    return output


def save(job: ProfileJob, data: Dataset, learned: str, output: Path, report: Mapping[str, object] | None) -> None:
    """Write the folder of what was learned."""
    write_model(here(), job.new_model(), data, job.store.read(learned), output, job.store, report)
