"""The flagship on a cluster: records are found part by part and come to the machine that has the parameters.

Those belong to explanations (and to items, where they are ranked), so one machine holds them, an epoch at a time; its
state is then in the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.cluster.dataset import Dataset
from whyrank.cluster.export import write_model
from whyrank.cluster.held_out import Holdout, hold_out
from whyrank.cluster.records import Streamed
from whyrank.cluster.session import Cluster, here, retried
from whyrank.cluster.store import Arrays, Store
from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.data.people import People
from whyrank.data.triplets import Triplets
from whyrank.data.vocabulary import Vocabulary
from whyrank.errors import ArtifactError
from whyrank.experiments.cache import digest
from whyrank.models import model_class
from whyrank.models.parameters import values
from whyrank.models.profile import Profile, ProfileJ, ValidationUsers, item_task, word_rows
from whyrank.training import Run
from whyrank.training.candidates import CandidateTrainer
from whyrank.training.checkpoint import Checkpoint, part_of
from whyrank.training.loop import Trained, Trainer, run_epochs

FOLDER = "profile"
FORMAT = 3  # of states in a store


@dataclass(frozen=True, eq=False)
class ProfileJob:
    """Which model learns from what."""

    holdout: Holdout
    model: str
    parameters: dict[str, Any]
    threads: int

    @property
    def store(self) -> Store:
        return self.holdout.whole.store

    def new_model(self) -> Profile:
        model = model_class(self.model)(**self.parameters)
        assert isinstance(model, Profile)
        model._forget()
        return model

    def epochs(self, stage: str) -> int:
        return int(self.parameters["item_epochs" if stage == "items" else "epochs"])


class StageTrainer(Trainer):
    """A stage whose every epoch is a task of the cluster; its state is in the store, and named by a manifest."""

    def __init__(self, cluster: Cluster, job: ProfileJob, stage: str, manifest: dict[str, Any]) -> None:
        self.cluster, self.job, self.stage, self.manifest = cluster, job, stage, manifest
        self.curve, self.of = "item_loss" if stage == "items" else "loss", job.epochs(stage)
        self.saved: dict[str, Any] = manifest["stages"].get(stage, {"name": None, "done": 0})

    @property
    def done(self) -> int:  # type: ignore[override]
        return int(self.saved["done"])

    @property
    def finished(self) -> bool:
        return bool(self.saved.get("finished", False))

    @property
    def may_stop(self) -> bool:
        return bool(self.saved.get("may_stop", False))

    def epoch(self) -> Trained | None:
        before, job = self.saved["name"], self.job
        submit = self.cluster.submit
        found = retried(
            lambda: self.cluster.gather([submit(learn_epoch, job, self.stage, before, cpus=job.threads)])[0]
        )
        self.saved, trained = found
        self.manifest["stages"][self.stage] = self.saved
        job.store.write_document(f"{FOLDER}/manifest", self.manifest)
        if before is not None:
            job.store.remove(f"{before}.safetensors")
        return trained

    def state(self) -> Arrays:
        return {}  # is in the store

    def restore(self, arrays: Arrays) -> None:
        """Is named by the manifest."""


def fit_profile(
    cluster: Cluster, model: Profile, data: Dataset, output: Path, run: Run, validation: Dataset | None
) -> Path:
    """Fit and save as `Model.fit` and `Model.save` would; `run.resume` goes on after the last epoch in the store."""
    digests = {"data": data.digest, "validation": validation.digest if validation else ""}
    mark = digest({"format": FORMAT, "model": model.id, "parameters": values(model), **digests})
    manifest = (data.store.read_document(f"{FOLDER}/manifest") if run.resume else None) or {"mark": mark, "stages": {}}
    if manifest["mark"] != mark:
        raise ArtifactError(f"{data.store.url}: belongs to other data or settings; remove it or leave out --resume")
    holdout = retried(lambda: hold_out(cluster, data, validation))
    job = ProfileJob(holdout, model.id, dict(values(model)), run.threads or 1)
    for stage in model.stages:
        run_epochs(StageTrainer(cluster, job, stage, manifest), run, Checkpoint(Run()), stage)
    ends = {stage: saved["name"] for stage, saved in manifest["stages"].items()}
    cluster.gather([cluster.submit(finish, job, ends, output.resolve())])
    return output


# -- what machines do --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SomeUsers(Catalog):
    """Rows of a few users and items, and how popular all items are."""

    users_of_items: NDArray[np.int64]

    @property
    def item_popularity(self) -> NDArray[np.int64]:
        return self.users_of_items


def learn_epoch(job: ProfileJob, stage: str, before: str | None) -> tuple[dict[str, Any], Trained | None]:
    """What a stage's trainer does next; the name of its state, where it is, and what there is to report."""
    trainer = trainer_of(job, stage)
    if before is not None:
        trainer.restore(job.store.read(before))
    trained = trainer.epoch()
    name = f"{FOLDER}/{stage}-{trainer.started}-{trainer.done:04d}"
    job.store.write(name, trainer.state())
    return {"name": name, "done": trainer.done, "finished": trainer.finished, "may_stop": trainer.may_stop}, trained


def finish(job: ProfileJob, ends: dict[str, str], output: Path) -> None:
    """Save the model with the best state of every stage."""
    model = job.new_model()
    for stage, name in ends.items():
        model.set_stage(stage, part_of(job.store.read(name), "best"))
    learned = {name: getattr(model, f"{name}_") for name in model.fitted}
    write_model(here(), model, job.holdout.whole, learned, output)


def trainer_of(job: ProfileJob, stage: str) -> CandidateTrainer:
    """A stage's trainer, as `Profile.trainer` makes it of triplets."""
    holdout, model = job.holdout, job.new_model()
    check, counts = holdout.check(stage), holdout.counts()
    source, run = Streamed.of(here(), holdout.learn, stage), Run(threads=job.threads)
    explanations = pl.concat(list(holdout.whole.ids("explanations")), how="diagonal")
    texts = explanations["text" if "text" in explanations.columns else "id"]
    known = {side: _relation(check, side) for side in ("user", "item") if f"{side}.indptr" in check}
    catalog = _catalog(known, explanations["id"], texts, counts)
    relevant = CSR(check["indptr"], check["indices"], check["indices"])
    if stage == "items":
        assert isinstance(model, ProfileJ)
        users = ValidationUsers(np.arange(len(catalog.users), dtype=np.int32), relevant)
        return model.item_trainer(item_task(source, counts["records"]), catalog, users, run)
    words = word_rows(texts) if model.words else None
    records = Triplets(catalog.users, catalog.items, catalog.explanations, check["user"], check["item"], relevant)
    return model.reason_trainer(model.task(source, counts["popularity"], words), catalog, records, run)


def _relation(arrays: Arrays, side: str) -> CSR:
    return CSR(*(arrays[f"{side}.{name}"] for name in CSR._fields))


def _catalog(known: dict[str, CSR], ids: pl.Series, texts: pl.Series, counts: Arrays) -> Catalog:
    """What is known of those that validation asks for: of users what they say or, where items are ranked, have."""
    nothing = CSR(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
    users, of_items = known["user"], known.get("item")
    ranks_items = of_items is None
    return SomeUsers(
        users=_unnamed(users.rows),
        items=_unnamed(len(counts["users"]) if of_items is None else of_items.rows),
        explanations=Vocabulary(ids, "explanation"),
        texts=texts,
        popularity=counts["popularity"],
        mean_rating=np.full(len(ids), np.nan, np.float32),
        user_explanations=nothing if ranks_items else users,
        item_explanations=of_items or nothing,
        user_items=users if ranks_items else nothing,
        aspects=Vocabulary.of([], "aspect"),
        aspect=np.full(len(ids), -1, np.int32),
        polarity=None,
        people=People.restore(of_items or nothing, users.rows),
        users_of_items=counts["users"],
    )


def _unnamed(count: int) -> Vocabulary:
    return Vocabulary(pl.repeat("", count, dtype=pl.String, eager=True))
