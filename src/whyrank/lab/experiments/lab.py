"""Where experiments run: data, splits, configurations, and runs that are done once and remembered."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from whyrank.data.split import Split
from whyrank.data.triplets import Triplets
from whyrank.errors import ParameterError, WhyrankError
from whyrank.evaluation.candidates import Kind, check_kind, of_split, options_for
from whyrank.lab.experiments import measures
from whyrank.lab.experiments.cache import Cache, Facts, Result
from whyrank.lab.experiments.jobs import Job, K
from whyrank.lab.experiments.workers import Call, ThisProcess, WorkerPool, results_of
from whyrank.models import MODELS, Model, model_class
from whyrank.models.parameters import values
from whyrank.training import Run
from whyrank.version import __version__

WARM = 200  # records that are enough to compile for
_WARM: set[str] = set()  # models whose kernels this process has compiled
Configs = dict[str, dict[str, object]]  # parameters by model


class _Fitted(NamedTuple):
    """A model that was fitted to a split, by what, and what validation says."""

    fit: tuple[object, ...]
    model: Model
    facts: Facts  # costs, and what was measured on validation
    mus: dict[Kind, float]  # what validation chose, by candidates; empty: the model's own


@dataclass
class Lab:
    """Runs jobs one after another, each with all threads, or side by side on workers, with one thread each."""

    name: str
    splits: Sequence[Split]
    cache: Cache
    configs: Configs = field(default_factory=dict)  # for all splits
    models: Sequence[str] | None = None  # None: what each experiment is made for
    pairs: Sequence[tuple[str, str]] = ()  # cases to show; sampled where none are given
    titles: Mapping[str, str] = field(default_factory=dict)  # of items, for people who read the report
    threads: int | None = None
    candidates: Kind = "pool"  # what the table of all models ranks
    tuned: dict[int, Configs] = field(default_factory=dict)  # for single splits, by place; these come first
    skipped: dict[str, str] = field(default_factory=dict)  # models that cannot run here, and why
    _last: _Fitted | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.splits:
            raise ParameterError("no split to run on; give at least one")
        check_kind(self.candidates)
        for name in self.models or ():
            model_class(name)

    @property
    def data(self) -> Triplets:
        return self.splits[0].data

    @property
    def numbers(self) -> range:
        """Number the splits."""
        return range(len(self.splits))

    @cached_property
    def _digests(self) -> list[str]:
        data = self.data.digest()
        return [f"{data}/{_records_digest(split)}" for split in self.splits]

    # -- which models --------------------------------------------------------------------------------------------------

    def pick(self, default: Sequence[str], suits: Callable[[type[Model]], bool] = lambda _: True) -> list[str]:
        """Pick the models of an experiment: those asked for that suit it, or its own."""
        wanted = default if self.models is None else self.models
        return [name for name in wanted if name in MODELS and suits(MODELS[name]) and name not in self.skipped]

    def make(self, job: Job) -> Model:
        """Make the model of a job, not fitted."""
        try:
            return model_class(job.model)(**self._settings(job))
        except TypeError as error:
            raise ParameterError(f"configuration of {job.model}: {error}") from error

    def chooses_mu(self, job: Job) -> bool:
        """Tell whether `mu` is left to validation."""
        has = "mu" in {each.name for each in dataclasses.fields(model_class(job.model))}
        return has and "mu" not in self._settings(job)

    def _settings(self, job: Job) -> dict[str, object]:
        """Return the settings of a job; a joint model without its own takes those of the model without items."""
        configs = self.configs | self.tuned.get(job.split, {})
        alone = configs.get(job.model.removesuffix("-j"), {})
        return configs.get(job.model, alone) | dict(job.parameters)

    # -- running -------------------------------------------------------------------------------------------------------

    def key(self, job: Job) -> dict[str, object]:
        """Name everything that a job's result depends on."""
        return {
            "data": self._digests[job.split],
            "model": job.model,
            "parameters": values(self.make(job)),
            "mu": "validation" if self.chooses_mu(job) else "given",
            "share": job.share,
            "ask": job.ask,
            "candidates": job.candidates,
            "k": K,
            "version": __version__,
        }

    def result(self, job: Job) -> Result:
        """Return the result of a job, from the cache or by running it."""
        return self.cache.load(self.key(job)) or self._run(job)

    def facts(self, job: Job) -> Facts:
        """Return the numbers of a job's result, without its arrays."""
        return (self.cache.load(self.key(job), arrays=False) or self._run(job)).facts

    def run(
        self,
        jobs: Sequence[Job],
        tell: Callable[[str, int, int], None] | None = None,
        workers: WorkerPool | None = None,
    ) -> None:
        """Do what is not in the cache yet; a model that cannot run here is skipped, with its reason."""
        missing, pool = self.missing(jobs), workers or ThisProcess()
        tell = tell or (lambda what, done, of: None)
        # The cache's folder must be one that all workers see.
        there = replace(self, cache=Cache(self.cache.folder.resolve()), threads=1, skipped={}, _last=None)
        shared = self if workers is None else pool.put(there)
        done = 0

        def calls() -> Iterator[Call]:
            """Make one call of all jobs that share a fit."""
            for _, same in groupby(missing, key=lambda job: job.fit):
                together = list(same)
                tell(f"{together[0].model}, split {together[0].split + 1}", done, len(missing))
                if together[0].model not in self.skipped:
                    yield Call(together, run_there, (shared, together))

        for together, skipped in results_of(calls(), pool):
            done += len(together)
            self.skipped.update(skipped)
        tell("done", len(missing), len(missing))

    def missing(self, jobs: Sequence[Job]) -> list[Job]:
        """List the jobs that are not in the cache yet, those that share a fit in a row."""
        missing = [job for job in dict.fromkeys(jobs) if not self.cache.has(self.key(job))]
        order = list(dict.fromkeys(job.fit for job in missing))
        return sorted(missing, key=lambda job: order.index(job.fit))

    def _run(self, job: Job) -> Result:
        split = self.splits[job.split] if job.share is None else self.splits[job.split].thinned(job.share)
        if self._last is None or self._last.fit != job.fit:
            self._last = None  # lets go of the old model before the next one is made
            self._last = self._fitted(job, split)
        _, model, facts, mus = self._last
        chosen: Facts = {}
        if mus:
            chosen["mu"] = model.mu = mus[job.candidates]  # type: ignore[attr-defined]
        if job.ask == "lists":
            result = measures.ask_lists(model, split, self.threads, job.candidates)
        else:
            result = measures.ASKS[job.ask](model, split, self.threads)
        result.facts.update(facts | chosen)
        return self.cache.save(self.key(job), result)

    def _fitted(self, job: Job, split: Split) -> _Fitted:
        """Choose on validation, where there is something to choose, then fit to the split."""
        model = self.make(job)
        self._warm_up(job, split)
        facts, mus = self._chosen(job, split) if not model.uses_validation else ({}, {})
        begin, cpu = time.perf_counter(), time.process_time()
        model.fit(split, run=Run(threads=self.threads))
        costs = {"training_seconds": time.perf_counter() - begin, "training_cpu": time.process_time() - cpu}
        if model.uses_validation and not getattr(model, "refit", False):  # otherwise it has learned from it
            facts = measures.on_validation(model, split, self.threads)
        return _Fitted(job.fit, model, facts | costs, mus)

    def _chosen(self, job: Job, split: Split) -> tuple[Facts, dict[Kind, float]]:
        """Ask validation about a model that has learned without it: figures, and the best mu by candidates."""
        if not (self.chooses_mu(job) or model_class(job.model).ranks_items):
            return {}, {}
        first, mus = self.make(job).fit(split.inner, run=Run(threads=self.threads)), dict[Kind, float]()
        if self.chooses_mu(job):
            for kind in dict.fromkeys((self.candidates, "pool")):
                part, among = of_split(split.inner, kind)
                mus[kind] = measures.choose_mu(first, part.test, self.threads, options_for(kind), among)
        return measures.on_validation(first, split, self.threads), mus

    def _warm_up(self, job: Job, split: Split) -> None:
        """Compile what a model's training needs before the clock starts."""
        model = self.make(job)
        if job.model in _WARM or not hasattr(model, "epochs") or hasattr(model, "encoder"):
            return
        _WARM.add(job.model)
        model.epochs = 1
        model.fit(split.train.take(np.arange(min(WARM, split.train.records))), run=Run(threads=self.threads))


def run_there(lab: Lab, jobs: list[Job]) -> dict[str, str]:
    """Do jobs that share a fit; return the model and the reason if it cannot run."""
    try:
        for job in jobs:
            lab._run(job)
    except WhyrankError as error:
        return {jobs[0].model: str(error)}
    return {}


def plural(count: int) -> str:
    return "one split" if count == 1 else f"{count} splits"


def read_tuned(folder: str | Path, splits: int) -> dict[int, Configs]:
    """Configurations for single splits, from folders 1, 2, ... in a folder; by place of the split."""
    places = ((number, Path(folder) / str(number + 1)) for number in range(splits))
    return {number: read_configs(place) for number, place in places if place.is_dir()}


def of_same_data(folder: str | Path, data: str) -> list[str]:
    """Models whose configuration for all splits was found on a split of the same data, by the data's digest.

    Its validation records may be test records of other splits.
    """
    found = []
    for path in sorted(Path(folder).glob("*.json")):
        try:
            document: Any = json.loads(path.read_text(encoding="utf-8"))
            if document["about"]["data"] == data:
                found.append(str(document["model"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue  # written by hand
    return found


def read_configs(folder: str | Path | None) -> Configs:
    """Read the files of a folder that `whyrank tune` wrote, by model; validation of each split chooses `mu`."""
    if folder is None:
        return {}
    folder = Path(folder)
    if not folder.is_dir():
        raise ParameterError(f"{folder}: is not a folder with configurations")
    configs: Configs = {}
    for path in sorted(folder.glob("*.json")):
        try:
            document: Any = json.loads(path.read_text(encoding="utf-8"))
            name, settings = str(document["model"]), dict(document["parameters"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ParameterError(f"{path}: is not a configuration file as `whyrank tune` writes it") from error
        if name in configs:
            raise ParameterError(f"{path}: is a second configuration of {name}; keep one per model")
        configs[name] = {key: value for key, value in settings.items() if key != "mu"}
    return configs


def _records_digest(split: Split) -> str:
    parts = (split.train_records, split.validation_records, split.test_records)
    return hashlib.sha256(b"/".join(part.astype("<i8").tobytes() for part in parts)).hexdigest()[:32]
