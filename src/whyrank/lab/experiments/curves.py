"""Two figures of the paper: accuracy over mu, and over the share of records that models learn from."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from whyrank.lab.experiments.cache import Facts
from whyrank.lab.experiments.jobs import Job, experiment
from whyrank.lab.experiments.lab import Lab
from whyrank.lab.experiments.measures import METRICS, STEPS
from whyrank.lab.experiments.plots import Curve, Panel, draw
from whyrank.lab.experiments.report import ExperimentReport
from whyrank.models import Model

Values = NDArray[np.float64]
NAMES = {"ndcg_paper": "NDCG@10 (%)", "precision": "Precision@10 (%)", "recall": "Recall@10 (%)", "f1": "F1@10 (%)"}
SPARSE = ("pitf", "bper", "bper+", "profile")
SHARES = (0.3, 0.4, 0.5, 0.6, 0.7)


def caption(lab: Lab, words: str = "") -> str:
    """Add to a caption the data set, the number of splits and what the bars are."""
    count = len(lab.splits)
    bars = f"means over {count} splits, bars are standard deviations" if count > 1 else "one split"
    return f"{words} Data: {lab.name}; {bars}.".strip()


# -- mu ----------------------------------------------------------------------------------------------------------------


def has_mu(kind: type[Model]) -> bool:
    return "mu" in {each.name for each in dataclasses.fields(kind)}


def mu_jobs(lab: Lab) -> list[Job]:
    return [Job(name, split, "mu") for name in lab.pick(["bper", "bper+"], has_mu) for split in lab.numbers]


@experiment("mu", 3, mu_jobs)
def write_mu(lab: Lab, report: ExperimentReport) -> Facts:
    report.heading("The weight mu of the user's side (paper, figure on mu)")
    lines: dict[str, dict[str, Values]] = {}
    for name in lab.pick(["bper", "bper+"], has_mu):
        curves = [lab.facts(Job(name, split, "mu"))["curve"] for split in lab.numbers]
        lines[name] = {m: np.array([[100 * at[m] for at in curve] for curve in curves]) for m in METRICS}
    if not lines:
        report.paragraph("None of the chosen models has mu.")
        return {}
    panels = [
        Panel(
            [Curve(n, STEPS, v[m], mark=STEPS[int(v[m].mean(0).argmax())]) for n, v in lines.items()],
            "mu (0: item's side only, 1: user's)",
            NAMES[m],
            marks="best mu",
        )
        for m in METRICS
    ]
    words = "Accuracy on test pairs over mu, all from one fit per split; circles mark the best mean."
    report.picture("mu", *draw("mu", panels), caption(lab, words))
    return {name: {"mu": STEPS, **{m: v.mean(0).tolist() for m, v in values.items()}} for name, values in lines.items()}


# -- sparsity ----------------------------------------------------------------------------------------------------------


def shares(lab: Lab) -> list[float]:
    """Return the paper's shares that every split's training part can give."""
    most = min((len(s.train_records) + len(s.validation_records)) / s.data.records for s in lab.splits)
    return [share for share in SHARES if share <= most + 1e-9]


def sparsity_job(lab: Lab, name: str, split: int, share: float) -> Job:
    """Return the run of a share; one that is the whole training part is the run of Table 4."""
    part = lab.splits[split]
    have = len(part.train_records) + len(part.validation_records)
    return Job(name, split) if round(share * part.data.records) == have else Job(name, split, "means", share=share)


def sparsity_jobs(lab: Lab) -> list[Job]:
    grid = [(name, split, share) for name in lab.pick(SPARSE) for split in lab.numbers for share in shares(lab)]
    return [sparsity_job(lab, *each) for each in grid]


@experiment("sparsity", 4, sparsity_jobs)
def write_sparsity(lab: Lab, report: ExperimentReport) -> Facts:
    report.heading("Less data to learn from (paper, figure on sparseness)")
    at, models = shares(lab), lab.pick(SPARSE)
    if not at or not models:
        report.paragraph("The training part is smaller than the smallest share of the paper (30% of all records).")
        return {}
    found: dict[str, dict[str, Values]] = {}
    for name in models:
        jobs = [[sparsity_job(lab, name, split, share) for share in at] for split in lab.numbers]
        measured = [[lab.facts(job)["explanation"] for job in row] for row in jobs]
        found[name] = {m: np.array([[100 * each[m] for each in row] for row in measured]) for m in METRICS}
    percent = [100 * share for share in at]
    panels = [
        Panel([Curve(n, percent, v[m]) for n, v in found.items()], "records for training (% of all)", NAMES[m])
        for m in METRICS
    ]
    words = "Accuracy on the untouched test part; of the records for training, a tenth is used for validation."
    report.picture("sparsity", *draw("sparsity", panels), caption(lab, words))
    rows = [[name, *(f"{value:.3f}" for value in values["ndcg_paper"].mean(0))] for name, values in found.items()]
    report.table(["NDCG@10 (%)", *(f"{share:.0%}" for share in at)], rows, name="sparsity")
    return {name: {"share": at, **{m: v.mean(0).tolist() for m, v in each.items()}} for name, each in found.items()}
