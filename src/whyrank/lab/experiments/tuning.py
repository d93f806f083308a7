"""Tuning with Optuna, on validation records only: one objective, or two for models that rank items, too."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from whyrank.atomic import new_file
from whyrank.data.split import Split
from whyrank.data.tables import first_line
from whyrank.errors import ArtifactError, DataError, MissingExtra, ParameterError, TrainingError
from whyrank.evaluation import evaluate
from whyrank.evaluation.candidates import Kind, of_split, options_for
from whyrank.lab.experiments import measures
from whyrank.lab.experiments.cache import digest
from whyrank.lab.experiments.spaces import Space, check_sampler, spaces_of
from whyrank.lab.experiments.workers import Call, ThisProcess, WorkerPool, results_of
from whyrank.models import Model, model_class
from whyrank.models.factors import FactorModel
from whyrank.models.profile import Profile
from whyrank.render import csv_table
from whyrank.training import Epoch, Monitor, Run, Storage
from whyrank.version import __version__

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.samplers import BaseSampler

SAMPLE = 4000  # validation pairs that are ranked at each look
Sampler = Literal["tpe", "grid"]
Tell = Callable[[int, int | None, str], None]


@dataclass(frozen=True)
class Tuned:
    """The best configuration, and how it was found. Values are ndcg_paper@10 on validation (explanations[, items])."""

    model: str
    parameters: dict[str, object]
    values: list[float]
    trials: list[dict[str, Any]]  # number, state, parameters, values
    front: list[dict[str, Any]]  # of two objectives: the trials that no other beats in both
    about: dict[str, object]

    @property
    def tasks(self) -> tuple[str, ...]:
        """Name what each value measures."""
        return ("items",) if self.model == "bpr" else ("explanations", "items")[: len(self.values)]

    def document(self) -> dict[str, object]:
        """Return what `whyrank fit --config` reads, with its origin."""
        found: dict[str, object] = {"model": self.model, "parameters": self.parameters}
        found |= {"validation": dict(zip(self.tasks, self.values, strict=True)), "about": self.about}
        return found | ({"front": self.front} if self.front else {})

    def write(self, path: str | Path) -> Path:
        """Write the configuration, and beside it all trials as CSV and the front as a picture."""
        path = Path(path)
        names = sorted({name for trial in self.trials for name in trial["parameters"]})
        rows = [
            [trial["number"], trial["state"], *(trial["parameters"].get(name, "") for name in names), *trial["values"]]
            for trial in self.trials
        ]
        table = csv_table(["trial", "state", *names, *self.tasks], rows)
        files = {".csv": table.encode()}
        if self.front:
            files[".svg"], files[".png"] = self.picture()
        files[".json"] = (json.dumps(self.document(), indent=2, default=str) + "\n").encode()
        for suffix, content in files.items():
            with new_file(path if suffix == ".json" else path.with_suffix(suffix)) as aside:
                aside.write_bytes(content)
        return path

    def picture(self) -> tuple[bytes, bytes]:
        """Draw all trials of two objectives, the front joined, the choice named."""
        from whyrank.lab.experiments.plots import front

        points = [tuple(100 * value for value in trial["values"]) for trial in self.trials if trial["values"]]
        edge = [tuple(100 * value for value in trial["values"]) for trial in self.front]
        chosen = tuple(100 * value for value in self.values)
        labels = ("explanations: NDCG@10 on validation (%)", "items: NDCG@10 on validation (%)")
        svg, png = front(f"front of {self.model}", points, edge, chosen, *labels)
        return svg.encode(), png


def tune(
    model: str,
    split: Split,
    space: Space,
    *,
    sampler: Sampler = "tpe",
    trials: int | None = None,
    seconds: float | None = None,
    storage: str | Path | None = None,
    seed: int = 0,
    threads: int | None = None,
    tell: Tell | None = None,
    workers: WorkerPool | None = None,
    candidates: Kind = "pool",
) -> Tuned:
    """Search for the parameters that rank validation best; the test part is never looked at.

    In whyrank's own space for TPE the model's defaults are the first trial. `trials` counts those of earlier runs that
    `storage` (an SQLite file) holds; `seconds` bounds this run. `candidates` says what is ranked, as in
    `whyrank.evaluate`: those of an item come from the train part, or (item-all) from train and validation. With
    `workers`, as many trials run at a time as they have processors; none of them is given up early then.
    """
    if not split.validation_records.size:
        raise DataError("the validation part is empty", expected="a split with validation records")
    check_sampler(sampler)
    search = _Search(model, split, space, threads, candidates)
    with _writing(storage):
        study = _study(search, sampler, storage, seed)
        return _found(search, study, sampler, trials, seconds, tell, workers)


def _found(
    search: _Search, study: Study, sampler: Sampler, trials: int | None, seconds: float | None, tell: Tell | None,
    workers: WorkerPool | None,
) -> Tuned:  # fmt: skip
    """Run the trials that are missing, and choose. Optuna proposes them, and hears of them here."""
    pool = workers or ThisProcess()
    size = search.grid_size() if sampler == "grid" else None
    wanted = min((each for each in (trials, size) if each is not None), default=None)
    finished = [trial for trial in study.trials if trial.state.is_finished()]
    end = time.monotonic() + (math.inf if seconds is None else seconds)
    own_space = sampler == "tpe" and search.space == spaces_of(search.kind).get("tpe")
    tried = any(trial.user_attrs.get("defaults") for trial in finished)
    shared = pool.put(search)

    def calls() -> Iterator[Call]:
        left = math.inf if wanted is None else wanted - len(finished)
        if left > 0 and own_space and not tried:
            yield Call(None, try_out, (shared, {}))
            left -= 1
        while left > 0 and time.monotonic() < end:
            trial = study.ask()
            chosen = {name: suggest(trial, name, values) for name, values in search.searched.items()}
            yield Call(trial, try_out, (shared, chosen, trial if workers is None else None))
            left -= 1

    for trial, (values, notes) in results_of(calls(), pool):
        number = _tell_optuna(study, trial, values, notes)
        if tell:
            done = sum(each.state.is_finished() for each in study.trials)
            measured = study.trials[number].values or []
            shown = " / ".join(f"{100 * value:.3f}" for value in measured) or study.trials[number].state.name.lower()
            tell(done, wanted, f"trial {number}: {shown}")
    return _tuned(search, study, sampler)


def _tell_optuna(study: Study, trial: Trial | None, values: list[float] | None, notes: dict[str, Any]) -> int:
    """Tell what a trial has measured (None: it was given up); return its number.

    Of the defaults, which are no trial of Optuna's own: some lie outside of the ranges that are searched.
    """
    import optuna

    states = optuna.trial.TrialState
    state = states.PRUNED if values is None else states.FAIL if any(map(math.isnan, values)) else states.COMPLETE
    if trial is None:
        notes = notes | {"defaults": True}
        measured = values if state == states.COMPLETE else None
        study.add_trial(optuna.trial.create_trial(state=state, values=measured, user_attrs=notes))
        return len(study.trials) - 1
    for name, value in notes.items():
        trial.set_user_attr(name, value)
    with contextlib.suppress(RuntimeError):  # the last trial of a grid wants to stop a loop that is not Optuna's
        study.tell(trial, values if state == states.COMPLETE else None, state)
    return trial.number


@contextlib.contextmanager
def _writing(storage: str | Path | None) -> Iterator[None]:
    """Trouble with the file of trials as an error of ours."""
    try:
        yield
    except Exception as error:
        if storage is None or type(error).__name__ not in ("OperationalError", "StorageInternalError"):
            raise
        raise ArtifactError(f"{storage}: cannot be written ({first_line(error)})") from error


def try_out(
    search: _Search, parameters: dict[str, Any], trial: Trial | None = None
) -> tuple[list[float] | None, dict[str, Any]]:
    """Run a trial with given parameters; its values (None: it was given up early), and what is noted of it.

    Only a `trial` of this process can be given up: that needs the others' progress.
    """
    parameters = dict(parameters)
    values = search.measured(trial, parameters)
    return values, {"parameters": parameters}


class _Search:
    """The objective: fit, sweep mu, and measure ndcg_paper on validation."""

    def __init__(self, model: str, split: Split, space: Space, threads: int | None, candidates: Kind = "pool") -> None:
        self.candidates = candidates
        self.kind, self.split, self.space, self.threads = model_class(model), split, space, threads
        self.joint = self.kind.ranks_items and self.kind.id != "bpr"
        # epochs of factor models are looked at during one fit, where there is one objective to prune by
        self.looks: list[int] = []
        if issubclass(self.kind, FactorModel) and not self.kind.ranks_items and isinstance(space.get("epochs"), list):
            self.looks = sorted(space["epochs"])
        self.searched = {name: values for name, values in space.items() if not (self.looks and name == "epochs")}

    def measured(self, trial: Trial | None, parameters: dict[str, Any]) -> list[float] | None:
        """Fit with these parameters, which become what was chosen on the way; None: the trial was given up."""
        if self.looks:
            parameters["epochs"] = self.looks[-1]
        model = self.kind(**parameters).suited_to(self.candidates)
        if isinstance(model, Profile):
            parameters |= {} if model.candidates == "pool" else {"candidates": model.candidates}
            model.refit = False  # it is measured on validation, and must not have learned from it
        watch = Watch(model, self.split, self.looks, None if self.joint else trial, self.threads, self.candidates)
        try:
            model.fit(self.split.train, self.split.validation, Run(threads=self.threads, monitors=(watch,)))
        except TrainingError:  # what was seen before it went wrong still counts
            if watch.best is None:
                return [0.0, 0.0] if self.joint else [0.0]
        if watch.pruned:
            return None
        value, epochs, mu = watch.best or watch.look(model)
        parameters |= ({"epochs": epochs} if self.looks else {}) | ({} if mu is None else {"mu": mu})
        if self.kind.id == "bpr":
            return [self._items(model)]
        return [value, self._items(model)] if self.joint else [value]

    def _items(self, model: Model) -> float:
        validation = self.split.validation
        found = evaluate(model, validation, beyond_accuracy=False, served=False, threads=self.threads).recommendation
        return found["ndcg_paper"] if found else 0.0

    def grid_size(self) -> int:
        return math.prod(len(values) for values in self.searched.values())


class Watch(Monitor):
    """Looks at validation after the epochs given, sweeps mu, remembers the best, and stops what Optuna gives up."""

    def __init__(
        self,
        model: Model,
        split: Split,
        looks: list[int],
        trial: Trial | None,
        threads: int | None = None,
        candidates: Kind = "pool",
    ) -> None:
        self.model, self.looks, self.trial, self.threads = model, set(looks), trial, threads
        measured, self.among = of_split(split.inner, candidates)
        self.options = options_for(candidates)
        self.validation = measures.sample(measured.test, SAMPLE)
        self.best: tuple[float, int, float | None] | None = None  # value, epochs, mu
        self.pruned = False

    def on_epoch(self, epoch: Epoch, storage: Storage | None) -> bool:
        if storage is None or epoch.number not in self.looks or not isinstance(self.model, FactorModel):
            return False
        value, _, _ = self.look(self.model.seen_at(storage), epoch.number)
        if self.trial is None:
            return False
        self.trial.report(value, epoch.number)
        self.pruned = epoch.number < epoch.of and self.trial.should_prune()
        return self.pruned

    def look(self, model: Model, epoch: int = 0) -> tuple[float, int, float | None]:
        """ndcg_paper of a model, the epoch, and the mu that is best for it."""
        given = (self.validation, self.threads, self.options, self.among)
        mu = measures.choose_mu(model, *given) if hasattr(model, "mu") else None
        found = (measures.means(model, *given)["ndcg_paper"], epoch, mu)
        if self.best is None or found[0] > self.best[0]:
            self.best = found
        return found


def suggest(trial: Trial, name: str, values: Any) -> Any:
    """Ask a trial for a value from a list or a range."""
    if isinstance(values, list):
        return trial.suggest_categorical(name, values)
    log = bool(values.get("log", False))
    if values.get("int"):
        return trial.suggest_int(name, int(values["low"]), int(values["high"]), log=log)
    return trial.suggest_float(name, float(values["low"]), float(values["high"]), log=log)


def _study(search: _Search, sampler: Sampler, storage: str | Path | None, seed: int) -> Study:
    try:
        import optuna
    except ImportError:
        raise MissingExtra("tune", "tuning") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    facts: Mapping[str, object] = {
        "model": search.kind.id,
        "data": search.split.train.digest() + search.split.validation.digest(),
        "space": search.space,
        "sampler": sampler,
        "version": __version__,
        **({} if search.candidates == "pool" else {"candidates": search.candidates}),
    }
    if storage is not None:
        Path(storage).parent.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        storage=None if storage is None else f"sqlite:///{Path(storage).resolve()}",
        study_name=f"{search.kind.id} {digest(facts)}",
        directions=["maximize"] * (2 if search.joint else 1),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=20),
        load_if_exists=True,
    )
    study.sampler = _sampler(search, sampler, seed, len(study.trials))
    return study


def _sampler(search: _Search, sampler: Sampler, seed: int, done: int) -> BaseSampler:
    from optuna.samplers import GridSampler, TPESampler

    if sampler == "grid":
        return GridSampler(search.searched, seed=seed)
    return TPESampler(seed=seed + done)  # a resumed search must not draw its first trials again


def _tuned(search: _Search, study: Study, sampler: Sampler) -> Tuned:
    trials = [
        {
            "number": trial.number,
            "state": trial.state.name.lower(),
            "parameters": trial.user_attrs.get("parameters", trial.params),
            "values": list(trial.values) if trial.state.name == "COMPLETE" else [],
        }
        for trial in study.trials
        if trial.state.is_finished()
    ]
    complete = [trial for trial in trials if trial["values"]]
    if not complete:
        raise ParameterError("no trial came to its end; give more --trials or --seconds")
    front = sorted(pareto(complete), key=lambda trial: trial["values"]) if search.joint else []
    chosen = balanced(front) if front else max(complete, key=lambda trial: trial["values"][0])
    about = {
        "data": search.split.data.digest(),
        "split": search.split.info,
        "sampler": sampler,
        "trials": len(trials),
        "pruned": sum(trial["state"] == "pruned" for trial in trials),
        "metric": "ndcg_paper@10 on validation",
        "candidates": search.candidates,
        "whyrank": __version__,
    }
    return Tuned(search.kind.id, chosen["parameters"], chosen["values"], trials, front, about)


def pareto(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Pick the trials that no other equals in all values and beats in one."""

    def beaten(trial: dict[str, Any]) -> bool:
        mine = trial["values"]
        return any(
            all(a >= b for a, b in zip(other["values"], mine, strict=True)) and other["values"] != mine
            for other in trials
        )

    return [trial for trial in trials if not beaten(trial)]


def balanced(front: list[dict[str, Any]]) -> dict[str, Any]:
    """Good for both tasks: the largest product of both values, each relative to the best of its kind."""
    tops = [max(trial["values"][side] for trial in front) or 1.0 for side in (0, 1)]
    return max(front, key=lambda trial: (trial["values"][0] / tops[0]) * (trial["values"][1] / tops[1]))
