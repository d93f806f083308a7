"""The flagship on a cluster: records are found part by part and come to the machine that has the parameters.

Those belong to explanations (and to items, where they are ranked), so one machine holds them, an epoch at a time; its
state is then in the store. Racers run side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.cluster.dataset import Dataset
from whyrank.cluster.export import write_model
from whyrank.cluster.held_out import Lesson, hold_out
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
from whyrank.models.courses import FORMAT, Course, Work
from whyrank.models.parameters import values
from whyrank.models.profile import (
    Asked,
    Items,
    Profile,
    ProfileJ,
    Reasons,
    item_task,
    word_rows,
)
from whyrank.training import Epoch, Monitor, Run, Storage
from whyrank.training.softmax import State
from whyrank.training.vectors import part_of

FOLDER = "profile"


@dataclass(frozen=True, eq=False)
class Plan:
    """Which model learns from what."""

    lesson: Lesson
    model: str
    parameters: dict[str, Any]
    threads: int

    @property
    def store(self) -> Store:
        return self.lesson.whole.store

    def new_model(self) -> Profile:
        model = model_class(self.model)(**self.parameters)
        assert isinstance(model, Profile)
        model._forget()
        return model


@dataclass(frozen=True)
class Standing:
    """Where a stage of the fit is: the file of its course, what was told of its last epoch, and whether it is over."""

    name: str
    score: float
    over: bool
    told: dict[str, Any] | None


def fit_profile(
    cluster: Cluster, model: Profile, data: Dataset, output: Path, run: Run, validation: Dataset | None
) -> Path:
    """Fit and save as `Model.fit` and `Model.save` would; `run.resume` goes on after the last epoch in the store."""
    digests = {"data": data.digest, "validation": validation.digest if validation else ""}
    mark = digest({"format": FORMAT, "model": model.id, "parameters": values(model), **digests})
    manifest = (data.store.read_document(f"{FOLDER}/manifest") if run.resume else None) or {"mark": mark, "stages": {}}
    if manifest["mark"] != mark:
        raise ArtifactError(f"{data.store.url}: belongs to other data or settings; remove it or leave out --resume")
    plan = Plan(retried(lambda: hold_out(cluster, data, validation)), model.id, dict(values(model)), run.threads or 1)

    def standings(task: Callable[..., Standing], *each: tuple[Any, ...]) -> tuple[list[Standing], bool]:
        """What comes of tasks that run side by side, and whether monitors want to stop after their epochs."""
        found: list[Standing] = retried(
            lambda: cluster.gather([cluster.submit(task, plan, *arguments, cpus=plan.threads) for arguments in each])
        )
        told = [Epoch(**standing.told) for standing in found if standing.told]
        return found, any([monitor.on_epoch(epoch, None) for monitor, epoch in product(run.monitors, told)])  # noqa: C419

    for stage, racers in model.stages.items():
        standing = Standing(**manifest["stages"][stage]) if stage in manifest["stages"] else None
        stopped = False
        while standing is None or not (standing.over or stopped):
            if standing is None:
                written, stopped = standings(start, *((stage, racer) for racer in range(racers)))
                standing = max(written, key=lambda each: each.score)  # the first of equals
            else:
                (after,), stopped = standings(go_on, (stage, standing))
                written, standing = [standing, after], after
            manifest["stages"][stage] = asdict(standing)
            data.store.write_document(f"{FOLDER}/manifest", manifest)
            for other in written:
                if other is not standing:
                    data.store.remove(f"{other.name}.safetensors")
    ends = {stage: standing["name"] for stage, standing in manifest["stages"].items()}
    cluster.gather([cluster.submit(finish, plan, ends, output.resolve())])
    return output


# -- what machines do --------------------------------------------------------------------------------------------------


class Heard(Monitor):
    """Remembers the last epoch."""

    told: dict[str, Any] | None = None

    def on_epoch(self, epoch: Epoch, storage: Storage | None) -> bool:
        self.told = asdict(epoch)
        return False


@dataclass(frozen=True, eq=False)
class SomeUsers(Catalog):
    """Rows of a few users and items, and how popular all items are."""

    users_of_items: NDArray[np.int64]

    @property
    def item_popularity(self) -> NDArray[np.int64]:
        return self.users_of_items


def start(plan: Plan, stage: str, racer: int) -> Standing:
    """A racer's start."""
    work, heard = work_of(plan, stage)
    return _kept(plan, stage, work.start(racer), heard)


def go_on(plan: Plan, stage: str, before: Standing) -> Standing:
    """An epoch more."""
    work, heard = work_of(plan, stage)
    course = Course.of(work, plan.store.read(before.name))
    work.go_on(course)
    return _kept(plan, stage, course, heard)


def finish(plan: Plan, ends: dict[str, str], output: Path) -> None:
    """Save the model with the best state of every stage."""
    model = plan.new_model()
    for stage, name in ends.items():
        model.keep_stage(stage, State.of(part_of(plan.store.read(name), "best")))
    learned = {name: getattr(model, f"{name}_") for name in model.fitted}
    write_model(here(), model, plan.lesson.whole, learned, output)


def _kept(plan: Plan, stage: str, course: Course, heard: Heard) -> Standing:
    name = f"{FOLDER}/{stage}-{course.racer}-{course.training.epochs:04d}"
    plan.store.write(name, course.arrays())
    return Standing(name, course.score, course.over, heard.told)


def work_of(plan: Plan, stage: str) -> tuple[Work, Heard]:
    """A stage's work, as `Profile.work` makes it of triplets, and who hears of its epochs."""
    lesson, model, heard = plan.lesson, plan.new_model(), Heard()
    check, counts = lesson.check(stage), lesson.counts()
    source, run = Streamed.of(here(), lesson.learn, stage), Run(threads=plan.threads, monitors=(heard,))
    explanations = pl.concat(list(lesson.whole.ids("explanations")), how="diagonal")
    texts = explanations["text" if "text" in explanations.columns else "id"]
    asked = {side: _relation(check, side) for side in ("user", "item") if f"{side}.indptr" in check}
    model.catalog_ = catalog = _catalog(asked, explanations["id"], texts, counts)
    relevant = CSR(check["indptr"], check["indices"], check["indices"])
    if stage == "items":
        assert isinstance(model, ProfileJ)
        users = np.arange(len(catalog.users), dtype=np.int32)
        return Items(model, item_task(source, counts["records"]), Asked(users, relevant), run), heard
    words = word_rows(texts) if model.words else None
    records = Triplets(catalog.users, catalog.items, catalog.explanations, check["user"], check["item"], relevant)
    return Reasons(model, model.task(source, counts["popularity"], words), records, run), heard


def _relation(arrays: Arrays, side: str) -> CSR:
    return CSR(*(arrays[f"{side}.{name}"] for name in CSR._fields))


def _catalog(asked: dict[str, CSR], ids: pl.Series, texts: pl.Series, counts: Arrays) -> Catalog:
    """What is known of those that validation asks for: of users what they say or, where items are ranked, have."""
    nothing = CSR(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
    users, of_items = asked["user"], asked.get("item")
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
