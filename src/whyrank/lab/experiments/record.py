"""What the page shows of a fitted model: metrics, the curve over mu, and quality by popularity."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from whyrank.data.triplets import Triplets
from whyrank.errors import DataError
from whyrank.evaluation import Evaluation, evaluate
from whyrank.evaluation.evaluator import in_terms_of, padded
from whyrank.evaluation.metrics import per_list
from whyrank.evaluation.significance import student
from whyrank.explain.rank import rank
from whyrank.lab.experiments.measures import METRICS, STEPS
from whyrank.lab.experiments.strata import by_explanation, popularity_strata
from whyrank.models import Model

Row = dict[str, float | str | None]
MISSED = 20  # pairs that are listed


def record(model: Model, test: Triplets, measured: Evaluation, threads: int | None = None) -> dict[str, object]:
    """Measure the parts of a report that follow from one fit."""
    return {
        "evaluation": measured.as_dict(),
        "baseline": baseline(model, test, measured),
        "missed": missed(test, measured),
        "mu_curve": mu_curve(model, test, measured.k, threads),
        "strata": strata(model, test, measured.k, threads),
    }


def baseline(model: Model, test: Triplets, measured: Evaluation) -> dict[str, Row]:
    """Metrics of showing everybody the most popular explanations, and how certain the differences are."""
    popular = np.argsort(model.catalog_.ranks)[: measured.k].astype(np.int32)
    lists = padded(np.tile(popular, (test.records, 1)), measured.k)
    theirs = per_list(lists, in_terms_of(model, test)[2])
    return {
        "explanation": {name: float(values.mean()) for name, values in theirs.items()},
        "p_value": {name: student(measured.per_pair[name], values, measured.users) for name, values in theirs.items()},
    }


def missed(test: Triplets, measured: Evaluation) -> list[dict[str, object]]:
    """Test pairs whose list holds nothing of what the user said, those who said most first."""
    without = np.flatnonzero(measured.per_pair["hit"] == 0)
    sizes = test.record_explanations.sizes()[without]
    return [
        {
            "user": test.users.ids[int(test.record_user[record])],
            "item": test.items.ids[int(test.record_item[record])],
            "said": test.text_of(test.record_explanations.row(record)).to_list(),
        }
        for record in without[np.lexsort((without, -sizes))][:MISSED].tolist()
    ]


def mu_curve(model: Model, test: Triplets, k: int, threads: int | None) -> list[Row]:
    """Metrics over mu, without another fit; empty for models that have none."""
    if not hasattr(model, "mu"):
        return []
    chosen, rows = model.mu, []
    for model.mu in STEPS:
        found = evaluate(model, test, k, items=False, beyond_accuracy=False, served=False, threads=threads).explanation
        rows.append({"mu": model.mu, **{name: found[name] for name in METRICS}})
    model.mu = chosen
    return rows


def strata(model: Model, test: Triplets, k: int, threads: int | None) -> list[Row]:
    """Textbook NDCG of explanations that are rarely, sometimes and often said; each stratum has a third of what is."""
    popularity = model.catalog_.popularity
    users, items, relevant = in_terms_of(model, test)
    of_pool = popularity_strata(popularity)
    unknown = np.full(max(int(relevant.indices.max(initial=-1)) + 1 - len(of_pool), 0), 2)
    of_all, count = np.concatenate([of_pool, unknown]), int(of_pool.max()) + 1
    lists = padded(rank(model, users, items, k, threads=threads).numbers, k)
    figures = by_explanation(lists, relevant, of_all, count)
    said, pair = of_all[relevant.indices], relevant.rows_of_entries()
    rows: list[Row] = []
    below: int | None = None  # the largest count of the stratum before: explanations said equally often may be in both
    for place in (place for place in reversed(range(count)) if (of_pool == place).any()):
        counts = popularity[of_pool == place]
        low, high = int(counts.min()), int(counts.max())
        rows.append(
            {
                "stratum": _named(low if below is None else max(low, min(below + 1, high)), high),
                "pairs": len(np.unique(pair[said == place])),
                "ndcg": figures[place],
            }
        )
        below = high
    return rows


def alpha_curve(file: Path, model: Model) -> list[Row]:
    """Both tasks over alpha, from the results.json of `whyrank experiment alpha`."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))["experiments"]["alpha"]
        if model.id not in found:
            raise DataError(f"{file}: has no curve over alpha for {model.id}, only for {', '.join(found) or 'nobody'}")
        curve = found[model.id]
        names = {"explanation": "explanation_f1", "recommendation": "recommendation_f1"}
        columns = {name: [value / 100 for value in curve[part]] for part, name in names.items()}
        return [
            {"alpha": alpha, **{name: values[at] for name, values in columns.items()}}
            for at, alpha in enumerate(curve["alpha"])
        ]
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise DataError(f"{file}: is not the results.json of `whyrank experiment alpha`") from error


def _named(low: int, high: int) -> str:
    return f"{low:,} times" if low == high else f"{low:,} to {high:,} times"
