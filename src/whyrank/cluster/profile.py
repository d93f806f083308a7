"""The flagship on a cluster. Its parameters belong to explanations, so a training fits one machine: the racers run on
different ones, and the winner goes on as a chain of tasks, an epoch each, whose states are in the store."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from whyrank.cluster.session import Cluster
from whyrank.cluster.store import Store
from whyrank.data import read
from whyrank.data.catalog import Catalog
from whyrank.data.triplets import Triplets
from whyrank.errors import ArtifactError
from whyrank.experiments.cache import digest
from whyrank.models import model_class
from whyrank.models.counts import held_out
from whyrank.models.parameters import values
from whyrank.models.profile import Course, Profile
from whyrank.training import Run
from whyrank.training.softmax import State, part_of

FOLDER = "profile"


@dataclass(frozen=True)
class Source:
    """Where every machine reads the data from, and which model learns from it."""

    data: Path
    changed: int  # when the data was written
    columns: tuple[tuple[str, str | int], ...]
    number: int
    model: str
    parameters: tuple[tuple[str, Any], ...]
    threads: int

    @classmethod
    def of(
        cls, model: Profile, data: Path, columns: dict[str, str | int] | None, number: int, threads: int | None
    ) -> Source:
        chosen = tuple(sorted((columns or {}).items())), number, model.id, tuple(sorted(values(model).items()))
        return cls(data.resolve(), data.stat().st_mtime_ns, *chosen, threads or 1)


@dataclass(frozen=True)
class Standing:
    """Where a stage of the fit is: the file of its course, and whether it is over."""

    name: str
    score: float
    epochs: int
    over: bool


def fit_profile(cluster: Cluster, source: Source, store: Store, output: Path, *, resume: bool = False) -> Path:
    """Fit and save as `Model.fit` and `Model.save` would here; `resume` goes on after the last epoch in the store."""
    mark = digest(asdict(source) | {"threads": None})
    manifest = (store.read_document(f"{FOLDER}/manifest") if resume else None) or {"mark": mark, "stages": {}}
    if manifest["mark"] != mark:
        raise ArtifactError(f"{store.url}: belongs to other data or settings; remove it or leave out --resume")
    kind = model_class(source.model)
    assert issubclass(kind, Profile)
    cpus = source.threads
    for stage in kind.stages:
        standing = Standing(**manifest["stages"][stage]) if stage in manifest["stages"] else None
        if standing is None:
            racers = cluster.gather([cluster.submit(racers_of, source, stage)])[0]
            starts = [cluster.submit(start, source, store, stage, racer, cpus=cpus) for racer in range(racers)]
            standing = max(cluster.gather(starts), key=lambda each: each.score)  # the first of equals
        while True:
            manifest["stages"][stage] = asdict(standing)
            store.write_document(f"{FOLDER}/manifest", manifest)
            if standing.over:
                break
            standing = cluster.gather([cluster.submit(go_on, source, store, stage, standing, cpus=cpus)])[0]
    ends = {stage: Standing(**standing) for stage, standing in manifest["stages"].items()}
    cluster.gather([cluster.submit(finish, source, store, ends, output.resolve())])
    return output


# -- what machines do --------------------------------------------------------------------------------------------------


@lru_cache(1)
def _data(source: Source) -> Triplets:
    return read(source.data, columns=dict(source.columns) or None, number=source.number)


def _model(source: Source) -> Profile:
    model = model_class(source.model)(**dict(source.parameters))
    assert isinstance(model, Profile)
    model._forget_searches()
    return model


@lru_cache(2)
def _work(source: Source, stage: str) -> Any:
    train = _data(source)
    model = _model(source)
    model.catalog_ = Catalog.of(held_out(train, None)[0])
    return model.work(stage, train, None, Run(threads=source.threads))


def racers_of(source: Source, stage: str) -> int:
    return int(_work(source, stage).racers)


def start(source: Source, store: Store, stage: str, racer: int) -> Standing:
    """A racer's start."""
    return _kept(store, stage, _work(source, stage).start(racer))


def go_on(source: Source, store: Store, stage: str, before: Standing) -> Standing:
    """An epoch more."""
    work = _work(source, stage)
    course = Course.of(work, store.read(before.name))
    work.go_on(course)
    return _kept(store, stage, course)


def _kept(store: Store, stage: str, course: Course) -> Standing:
    name = f"{FOLDER}/{stage}-{course.racer}-{course.training.epochs:04d}"
    store.write(name, course.arrays())
    return Standing(name, course.score, course.training.epochs, course.over)


def finish(source: Source, store: Store, ends: dict[str, Standing], output: Path) -> None:
    """Save the model with the best state of every stage."""
    train = _data(source)
    model = _model(source)
    model.catalog_, model.data_digest_ = Catalog.of(train), train.digest()
    for stage, end in ends.items():
        model.keep_stage(stage, State.of(part_of(store.read(end.name), "best")))
    model.save(output)
