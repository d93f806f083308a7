"""Table 4 of the paper: all methods by accuracy, with significance, improvement and training time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyrank.data.triplets import Triplets
from whyrank.evaluation import Comparison, Evaluation
from whyrank.evaluation.candidates import of_split
from whyrank.evaluation.comparison import Row, test_ratio
from whyrank.evaluation.evaluator import by_user
from whyrank.evaluation.metrics import per_list
from whyrank.lab.experiments.cache import Facts
from whyrank.lab.experiments.jobs import Job, K, experiment
from whyrank.lab.experiments.lab import Lab
from whyrank.lab.experiments.published import published_for
from whyrank.lab.experiments.report import ExperimentReport
from whyrank.models import model_class

MODELS = (
    "rand",
    "pop",
    "userpop",
    "itempop",
    "counts",
    "share",
    "rucf",
    "ricf",
    "cd",
    "pitf",
    "expgcn",
    "bper",
    "bper+",
    "profile",
)
PROPOSED = ("bper", "bper+", "bper-j", "profile", "profile-j")  # not baselines: the paper's methods and ours
SHOWN = ("ndcg_paper", "precision", "recall", "f1", "ndcg")


def jobs(lab: Lab) -> list[Job]:
    return [_job(lab, name, split) for name in lab.pick(MODELS) for split in lab.numbers]


def _job(lab: Lab, name: str, split: int) -> Job:
    """Models that can learn from the candidates do."""
    suited = model_class(name)().suited_to(lab.candidates)
    own = () if suited.learned_among == "pool" else (("candidates", suited.learned_among),)
    return Job(name, split, parameters=own, candidates=lab.candidates)


@experiment("ranking", 2, jobs)
def write(lab: Lab, report: ExperimentReport) -> Facts:
    result = comparison(lab)
    report.summary(result.verdict())
    report.heading("Explanation ranking (paper, Table 4)")
    headers, texts, best = result.cells(SHOWN)
    texts.append(_improvement(result))
    best.append([False] * len(headers))
    report.table([_header(each) for each in headers], texts, best, name="ranking")
    report.paragraph(
        result.note() + ". NDCG divides by the DCG of a full list as the paper does; 'textbook NDCG' by that of the "
        "best possible list. The last row is the improvement of the best proposed method over the best baseline.",
        note=True,
    )
    _chosen(lab, result, report)
    _published(lab, result, report)
    return result.as_dict()


def comparison(lab: Lab) -> Comparison:
    """Return the cached runs in the form that `whyrank compare` gives."""
    rows, tests = [], [of_split(split, lab.candidates)[0].test for split in lab.splits]
    for name in lab.pick(MODELS):
        results = [lab.result(_job(lab, name, split)) for split in lab.numbers]
        learned = lab.make(_job(lab, name, 0)).learned_among
        evaluations = []
        for split, test, result in zip(lab.splits, tests, results, strict=True):
            found, facts, served = result.arrays["lists"], result.facts, None
            if "served" in result.arrays:
                served = _evaluation(name, split.test, result.arrays["served"], candidates="served")
            about = {"recommendation": facts.get("recommendation"), "reach": facts.get("reach"), "served": served}
            about |= {"explanation_on_recommended": facts.get("on_recommended"), "seconds": facts["ranking_seconds"]}
            measured = _evaluation(name, test, found, candidates=lab.candidates, learned_among=learned, **about)
            measured.explanation.update(facts["explanation"])
            evaluations.append(measured)
        rows.append(Row(name, evaluations, [result.facts["training_seconds"] for result in results]))
    baselines = [row for row in rows if row.name not in PROPOSED] or rows
    best = max(baselines, key=lambda row: row.mean("ndcg_paper"))
    return Comparison(rows, K, best.name, ratio=test_ratio(lab.splits))


def _evaluation(name: str, test: Triplets, lists: NDArray[np.generic], **about: Any) -> Evaluation:
    """Measure cached lists."""
    per_pair = per_list(lists.astype(np.int32), test.record_explanations)
    given: dict[str, Any] = {"recommendation": None, "explanation_on_recommended": None, "seconds": 0.0} | about
    return Evaluation(
        model=name,
        k=K,
        pairs=test.records,
        explanation={metric: float(values.mean()) for metric, values in per_pair.items()},
        per_pair=per_pair,
        users=test.record_user,
        by_user=by_user(per_pair, test.record_user),
        without_reason=float((lists[:, 0].astype(np.int32) < 0).mean()),
        **given,
    )


def _improvement(result: Comparison) -> list[str]:
    proposed = [row.name for row in result.rows if row.name in PROPOSED]
    if not proposed:
        return ["improvement", *([""] * (len(SHOWN) + 4))]
    best = max(proposed, key=lambda name: result.row(name).mean("ndcg_paper"))
    changes = [100 * result.improvement(best, metric) for metric in SHOWN]
    values = ("-" if math.isnan(change) else f"{change:+.1f}%" for change in changes)
    return [f"{best} over {result.baseline}", *values, "", "", "", ""]


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


def _chosen(lab: Lab, result: Comparison, report: ExperimentReport) -> None:
    """Print the mu that validation chose."""
    found = []
    for row in result.rows:
        values = [lab.facts(_job(lab, row.name, split)).get("mu") for split in lab.numbers]
        if values[0] is not None:
            found.append(f"{row.name} {', '.join(f'{value:g}' for value in values)}")
    if found:
        report.paragraph(f"mu as validation chose it, by split: {'; '.join(found)}.", note=True)


def _published(lab: Lab, result: Comparison, report: ExperimentReport) -> None:
    known = published_for(lab.data)
    if known is None or lab.candidates != "pool":
        return
    rows = []
    for row in result.rows:
        if row.name in known.ranking:
            ours = [row.mean(metric) * 100 for metric in SHOWN[:4]]
            pairs = zip(known.ranking[row.name], ours, strict=True)
            rows.append([row.name, *(f"{theirs:.3f} / {our:.3f}" for theirs, our in pairs)])
    report.paragraph(f"The paper's figures for {known.name} and ours (published / here, percent):")
    report.table(["model", "NDCG@10", "Precision@10", "Recall@10", "F1@10"], rows, name="ranking_published")
