"""All experiments by name, and the report they make."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from whyrank.atomic import new_file
from whyrank.errors import ParameterError
from whyrank.experiments import beyond, cases, curves, datasets, joint, ranking, relation
from whyrank.experiments.cache import Facts
from whyrank.experiments.jobs import Job
from whyrank.experiments.lab import Lab, plural
from whyrank.experiments.report import Report


class Experiment(NamedTuple):
    """Which runs it needs, and how it writes them into a report."""

    jobs: Callable[[Lab], list[Job]]
    write: Callable[[Lab, Report], Facts]


EXPERIMENTS: dict[str, Experiment] = {
    "datasets": Experiment(datasets.jobs, datasets.write),
    "ranking": Experiment(ranking.jobs, ranking.write),
    "mu": Experiment(curves.mu_jobs, curves.write_mu),
    "sparsity": Experiment(curves.sparsity_jobs, curves.write_sparsity),
    "alpha": Experiment(joint.alpha_jobs, joint.write_alpha),
    "joint": Experiment(joint.joint_jobs, joint.write_joint),
    "cases": Experiment(cases.jobs, cases.write),
    "relation": Experiment(relation.jobs, relation.write),
    "beyond": Experiment(beyond.jobs, beyond.write),
}


def names_of(name: str) -> list[str]:
    """`all`, or names separated by commas."""
    names = list(EXPERIMENTS) if name == "all" else name.split(",")
    for each in names:
        if each not in EXPERIMENTS:
            raise ParameterError(f"unknown experiment {each!r}; use all or one of {', '.join(EXPERIMENTS)}")
    return names


def run(
    names: Sequence[str], lab: Lab, folder: str | Path, tell: Callable[[str, int, int], None] | None = None
) -> tuple[Path, Facts]:
    """Do all runs, then write report.html, report.md, results.json, tables/ and figures/."""
    lab.run([job for name in names for job in EXPERIMENTS[name].jobs(lab)], tell)
    title = f"whyrank experiments: {lab.name}" if len(names) > 1 else f"whyrank experiment {names[0]}: {lab.name}"
    report = Report(title, _lead(lab))
    found = {name: EXPERIMENTS[name].write(lab, report) for name in names}
    for model, reason in lab.skipped.items():
        report.paragraph(f"{model} was left out: {reason}", note=True)
    page = report.write(folder)
    facts = {"data": lab.name, "splits": len(lab.splits), "skipped": lab.skipped, "experiments": found}
    with new_file(Path(folder) / "results.json") as aside:
        aside.write_text(json.dumps(facts, indent=1, default=float) + "\n", encoding="utf-8")
    return page, facts


def _lead(lab: Lab) -> str:
    tuned = f"tuned settings for {', '.join(lab.configs)}" if lab.configs else "default settings"
    return (
        f"{lab.data!r}; {plural(len(lab.splits))}; {tuned}. Models learn from the training part; what is chosen (mu, "
        "alpha, early stops) is chosen on validation; the test part is measured once. Top 10 throughout."
    )
