"""All experiments by name, and the report they make."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Callable, Sequence
from pathlib import Path

from whyrank.artifacts.report import finite
from whyrank.atomic import new_file
from whyrank.data.describe import in_words
from whyrank.errors import ParameterError, WhyrankError
from whyrank.lab import experiments
from whyrank.lab.experiments.cache import Facts
from whyrank.lab.experiments.jobs import registered
from whyrank.lab.experiments.lab import Lab, plural
from whyrank.lab.experiments.report import ExperimentReport
from whyrank.lab.experiments.spaces import space_of, spaces_of
from whyrank.lab.experiments.tuning import tune
from whyrank.lab.experiments.workers import WorkerPool
from whyrank.models import model_class

for _module in pkgutil.iter_modules(experiments.__path__, f"{experiments.__name__}."):
    importlib.import_module(_module.name)  # experiments register themselves
EXPERIMENTS = registered()


def names_of(name: str) -> list[str]:
    """`all`, or names separated by commas."""
    names = list(EXPERIMENTS) if name == "all" else name.split(",")
    for each in names:
        if each not in EXPERIMENTS:
            raise ParameterError(f"unknown experiment {each!r}; use all or one of {', '.join(EXPERIMENTS)}")
    return names


def run(
    names: Sequence[str],
    lab: Lab,
    folder: str | Path,
    tell: Callable[[str, int, int], None] | None = None,
    workers: WorkerPool | None = None,
) -> tuple[Path, Facts]:
    """Do all runs, then write report.html, report.md, results.json, tables/ and figures/."""
    lab.run([job for name in names for job in EXPERIMENTS[name].jobs(lab)], tell, workers)
    title = f"whyrank experiments: {lab.name}" if len(names) > 1 else f"whyrank experiment {names[0]}: {lab.name}"
    report = ExperimentReport(title, _lead(lab))
    found = {name: EXPERIMENTS[name].write(lab, report) for name in names}
    for model, reason in lab.skipped.items():
        report.paragraph(f"{model} was left out: {reason}", note=True)
    page = report.write(folder)
    facts = {"data": lab.name, "splits": len(lab.splits), "skipped": lab.skipped, "experiments": found}
    with new_file(Path(folder) / "results.json") as aside:
        aside.write_text(json.dumps(finite(facts), indent=1, default=float) + "\n", encoding="utf-8")
    return page, facts


def tune_first(
    names: Sequence[str],
    lab: Lab,
    folder: Path,
    trials: int,
    tell: Callable[[str, int, int], None] | None = None,
    workers: WorkerPool | None = None,
) -> None:
    """Give every model of the experiments that has no configuration the best of as many trials, for every split anew.

    One split's validation records may be another's test records, so what is found for one is used for that one alone.
    Configurations and trials of split n stay in `folder`/n; a joint model takes what was found for the model without
    items.
    """
    models = {job.model: None for name in names for job in EXPERIMENTS[name].jobs(lab)}
    wanted = dict.fromkeys(name.removesuffix("-j") for name in models)
    missing = [
        (split, name)
        for split in lab.numbers
        for name in wanted
        if spaces_of(model_class(name)) and name not in lab.configs and name not in lab.tuned.get(split, {})
    ]
    for number, (split, name) in enumerate(missing):
        words = f"tuning {name}, split {split + 1}"

        def told(done: int, of: int | None, what: str, words: str = words, number: int = number) -> None:
            if tell:
                tell(f"{words}, {what}", number * trials + done, len(missing) * trials)

        place = folder / str(split + 1)
        try:
            found = tune(
                name, lab.splits[split], space_of(name, "tpe"), trials=trials, threads=lab.threads, tell=told,
                storage=place / f"{name}.sqlite", workers=workers, candidates=lab.candidates,
            )  # fmt: skip
        except WhyrankError as error:
            lab.skipped[name] = str(error)
            continue
        found.write(place / f"{name}.json")
        settings = {
            key: value for key, value in found.parameters.items() if key != "mu"
        }  # mu is chosen by split, later
        lab.tuned.setdefault(split, {})[name] = settings


def _lead(lab: Lab) -> str:
    each = ", ".join(dict.fromkeys(name for configs in lab.tuned.values() for name in configs))
    words = [f"settings tuned for every split for {each}"] if each else []
    words += [f"given settings for {', '.join(lab.configs)}"] if lab.configs else []
    tuned = " and ".join(words) or "default settings"
    return (
        f"{in_words(lab.data)}; {plural(len(lab.splits))}; {tuned}. Models learn from the whole training part; what is "
        "chosen (mu, alpha, early stops) is chosen on validation; the test part is measured once. Top 10 throughout."
    )
