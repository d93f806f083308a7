"""The flagship on a cluster: one machine reads all parts and learns, an epoch at a time, with its state in the store.

What is learned belongs to explanations (and to items, where they are ranked), and every step needs the one before it:
other machines could only hand over records, which costs more than reading them once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from whyrank.cluster.dataset import Dataset
from whyrank.cluster.export import write_model
from whyrank.cluster.session import Cluster, here, retried
from whyrank.cluster.store import Arrays, Store
from whyrank.errors import ArtifactError
from whyrank.experiments.cache import digest
from whyrank.models import model_class
from whyrank.models.parameters import values
from whyrank.models.profile import AGAIN, Found, Profile
from whyrank.models.profile_records import Learning
from whyrank.training import Run
from whyrank.training.candidates import CandidateTrainer, FixedTrainer
from whyrank.training.checkpoint import Checkpoint
from whyrank.training.loop import Trained, Trainer, run_epochs

FOLDER = "profile"
FORMAT = 4  # of states in a store


@dataclass(frozen=True, eq=False)
class ProfileJob:
    """Which model learns from what; equal where `mark` and the store are."""

    data: Dataset
    validation: Dataset | None
    model: str
    parameters: dict[str, Any]
    threads: int

    @property
    def store(self) -> Store:
        return self.data.store

    @property
    def mark(self) -> str:
        """A hash of what the result depends on."""
        digests = {"data": self.data.digest, "validation": self.validation.digest if self.validation else ""}
        return digest({"format": FORMAT, "model": self.model, "parameters": self.parameters, **digests})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProfileJob) and (self.store.url, self.mark) == (other.store.url, other.mark)

    def __hash__(self) -> int:
        return hash((self.store.url, self.mark))

    def new_model(self) -> Profile:
        model = model_class(self.model)(**self.parameters)
        assert isinstance(model, Profile)
        model._forget()
        return model


class StageTrainer(Trainer):
    """A training whose every epoch is a task of the cluster; its state is in the store, and named by a manifest."""

    def __init__(
        self, cluster: Cluster, job: ProfileJob, name: str, found: Found | None, manifest: dict[str, Any]
    ) -> None:
        self.cluster, self.job, self.name, self.earlier, self.manifest = cluster, job, name, found, manifest
        model = job.new_model()
        self.curve, self.of = model.curve(name), found[1] if found else model.most_epochs(name)
        self.saved: dict[str, Any] = manifest["stages"].get(name, {"name": None, "done": 0})

    @property
    def found(self) -> Found:
        candidate, epochs = self.saved["found"]
        return candidate, epochs

    @property
    def done(self) -> int:  # type: ignore[override]
        return int(self.saved["done"])

    @property
    def finished(self) -> bool:
        if self.earlier:  # what it was stopped at may be less than what there is to do
            return self.done >= self.of
        return bool(self.saved.get("finished", False))

    @property
    def may_stop(self) -> bool:
        return bool(self.saved.get("may_stop", False))

    def epoch(self) -> Trained | None:
        before, job = self.saved["name"], self.job
        work = (learn_epoch, job, self.name, self.earlier, before)
        self.saved, trained = retried(lambda: self.cluster.gather([self.cluster.submit(*work, cpus=job.threads)])[0])
        self.manifest["stages"][self.name] = self.saved
        job.store.write_document(f"{FOLDER}/manifest", self.manifest)
        if before is not None:
            job.store.remove(f"{before}.safetensors")
        return trained

    def state(self) -> Arrays:
        return {}  # is in the store

    def restore(self, arrays: Arrays) -> None:
        """Is named by the manifest."""


def fit_profile(
    cluster: Cluster,
    model: Profile,
    data: Dataset,
    output: Path,
    run: Run,
    validation: Dataset | None,
    whole: Dataset | None,
) -> Path:
    """Fit and save as `Model.fit` and `Model.save` would; `run.resume` goes on after the last epoch in the store."""
    job = ProfileJob(data, validation, model.id, dict(values(model)), run.threads or 1)
    manifest = (data.store.read_document(f"{FOLDER}/manifest") if run.resume else None) or {
        "mark": job.mark,
        "stages": {},
    }
    if manifest["mark"] != job.mark:
        raise ArtifactError(f"{data.store.url}: belongs to other data or settings; remove it or leave out --resume")
    for stage in model.stages:
        found = None
        for name in (stage, stage + AGAIN)[: 1 + model.refit]:
            trainer = StageTrainer(cluster, job, name, found, manifest)
            run_epochs(trainer, run, Checkpoint(Run()), name)
            found = trainer.found
    written = whole if whole is not None and model.refit else data
    retried(lambda: cluster.gather([cluster.submit(finish, job, manifest["stages"], written, output.resolve())]))
    return output


# -- what machines do --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def learning_of(job: ProfileJob) -> Learning:
    """What a job learns from; a process that learns for several epochs reads it once."""
    validation = job.validation.read() if job.validation else None
    train = job.data.read()
    return job.new_model().learning(train, validation and validation.renumbered(train))


def trainer_of(job: ProfileJob, name: str, found: Found | None, state: str | None) -> CandidateTrainer | FixedTrainer:
    """A trainer as it was when its state was written."""
    trainer = job.new_model().trainer(name, learning_of(job), found, Run(threads=job.threads))
    if state is not None:
        trainer.restore(job.store.read(state))
    return trainer


def learn_epoch(
    job: ProfileJob, name: str, found: Found | None, before: str | None
) -> tuple[dict[str, Any], Trained | None]:
    """What a trainer does next; the name of its state, where it is, and what there is to report."""
    trainer = trainer_of(job, name, found, before)
    trained = trainer.epoch()
    state = f"{FOLDER}/{name}-{trainer.started}-{trainer.done:04d}"
    job.store.write(state, trainer.state())
    facts = {"name": state, "done": trainer.done, "finished": trainer.finished, "may_stop": trainer.may_stop}
    return facts | {"found": trainer.found}, trained


def finish(job: ProfileJob, stages: dict[str, Any], data: Dataset, output: Path) -> None:
    """Save the model with what every stage has learned at last."""
    model, learning = job.new_model(), learning_of(job)
    model.recency_ = learning.recency
    for stage in model.stages:
        found = tuple(stages[stage]["found"]) if model.refit else None
        last = stages[stage + AGAIN if model.refit else stage]
        trainer = trainer_of(job, stage + AGAIN if model.refit else stage, found, last["name"])
        guarded = model.guarded(stage, learning, trainer.learned, trainer.found, Run(threads=job.threads))
        model.set_stage(stage, guarded)
    learned = {name: getattr(model, f"{name}_") for name in model.fitted}
    write_model(here(), model, data, learned, output)
