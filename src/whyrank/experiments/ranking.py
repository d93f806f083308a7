"""Table 4 of the paper: all methods by accuracy, with significance, improvement and training time."""

from __future__ import annotations

import numpy as np

from whyrank.evaluation import Comparison, Evaluation
from whyrank.evaluation.comparison import Row
from whyrank.evaluation.metrics import per_list
from whyrank.experiments.cache import Facts
from whyrank.experiments.jobs import Job, K
from whyrank.experiments.lab import Lab
from whyrank.experiments.published import published_for
from whyrank.experiments.report import Report

MODELS = ("rand", "pop", "counts", "share", "rucf", "ricf", "cd", "pitf", "bper", "bper+", "profile")
PROPOSED = ("bper", "bper+", "bper-j", "profile", "profile-j")  # not baselines: the paper's methods and ours
SHOWN = ("ndcg_paper", "precision", "recall", "f1", "ndcg")


def jobs(lab: Lab) -> list[Job]:
    return [Job(name, split) for name in lab.pick(MODELS) for split in lab.numbers]


def write(lab: Lab, report: Report) -> Facts:
    result = comparison(lab)
    report.summary(result.verdict())
    report.heading("Explanation ranking (paper, Table 4)")
    headers, texts, best = result.cells(SHOWN)
    texts.append(_improvement(result))
    best.append([False] * len(headers))
    report.table([_header(each) for each in headers], texts, best, name="ranking")
    report.paragraph(
        result.note() + ". NDCG divides by the DCG of a full list as the paper does; 'textbook NDCG' by that of the "
        "best possible list. The last row is the improvement of the best proposed method over the best baseline. "
        "The same pair may be tested in several splits, so p-values over all splits are somewhat too small.",
        note=True,
    )
    _chosen(lab, result, report)
    _published(lab, result, report)
    return result.as_dict()


def comparison(lab: Lab) -> Comparison:
    """The cached runs in the form that `whyrank compare` gives."""
    rows = []
    for name in lab.pick(MODELS):
        results = [lab.result(Job(name, split)) for split in lab.numbers]
        evaluations = []
        for split, result in zip(lab.splits, results, strict=True):
            per_pair = per_list(result.arrays["lists"].astype(np.int32), split.test.record_explanations)
            facts = result.facts
            evaluations.append(
                Evaluation(
                    name,
                    K,
                    split.test.records,
                    facts["explanation"],
                    facts.get("recommendation"),
                    facts.get("on_recommended"),
                    facts["ranking_seconds"],
                    per_pair,
                )
            )
        rows.append(Row(name, evaluations, [result.facts["training_seconds"] for result in results]))
    baselines = [row for row in rows if row.name not in PROPOSED] or rows
    best = max(baselines, key=lambda row: float(row.values("ndcg_paper").mean()))
    return Comparison(rows, K, best.name)


def _improvement(result: Comparison) -> list[str]:
    proposed = [row.name for row in result.rows if row.name in PROPOSED]
    if not proposed:
        return ["improvement", *([""] * (len(SHOWN) + 2))]
    best = max(proposed, key=lambda name: float(result.row(name).values("ndcg_paper").mean()))
    values = (f"{result.improvement(best, metric) * 100:+.1f}%" for metric in SHOWN)
    return [f"{best} over {result.baseline}", *values, "", ""]


def _header(text: str) -> str:
    names = {
        "ndcg_paper": "NDCG",
        "pre": "Precision",
        "rec": "Recall",
        "f1": "F1",
        "ndcg": "textbook NDCG",
    }
    metric, at, rest = text.partition("@")
    return f"{names.get(metric.strip(), metric.strip())}{at}{rest}"


def _chosen(lab: Lab, result: Comparison, report: Report) -> None:
    """Which mu validation chose."""
    found = []
    for row in result.rows:
        values = [lab.facts(Job(row.name, split)).get("mu") for split in lab.numbers]
        if values[0] is not None:
            found.append(f"{row.name} {', '.join(f'{value:g}' for value in values)}")
    if found:
        report.paragraph(f"mu as validation chose it, by split: {'; '.join(found)}.", note=True)


def _published(lab: Lab, result: Comparison, report: Report) -> None:
    known = published_for(lab.data)
    if known is None:
        return
    rows = []
    for row in result.rows:
        if row.name in known.ranking:
            ours = [float(row.values(metric).mean()) * 100 for metric in SHOWN[:4]]
            pairs = zip(known.ranking[row.name], ours, strict=True)
            rows.append([row.name, *(f"{theirs:.3f} / {our:.3f}" for theirs, our in pairs)])
    report.paragraph(f"The paper's figures for {known.name} and ours (published / here, percent):")
    report.table(["model", "NDCG@10", "Precision@10", "Recall@10", "F1@10"], rows, name="ranking_published")
