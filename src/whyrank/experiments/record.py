"""What the page shows of a fitted model: metrics, the curve over mu, and quality by popularity."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from whyrank.data.triplets import Triplets
from whyrank.errors import DataError
from whyrank.evaluation import Evaluation, evaluate
from whyrank.evaluation.evaluator import in_terms_of, padded
from whyrank.experiments.measures import METRICS, STEPS
from whyrank.experiments.strata import by_explanation, popularity_strata
from whyrank.models import Model
from whyrank.ranking.rank import rank

Row = dict[str, float | str | None]


def record(model: Model, test: Triplets, measured: Evaluation, threads: int | None = None) -> dict[str, object]:
    """The parts of a report that follow from one fit."""
    return {
        "evaluation": measured.as_dict(),
        "mu_curve": mu_curve(model, test, measured.k, threads),
        "strata": strata(model, test, measured.k, threads),
    }


def mu_curve(model: Model, test: Triplets, k: int, threads: int | None) -> list[Row]:
    """Metrics over mu, without another fit; empty for models that have none."""
    if not hasattr(model, "mu"):
        return []
    chosen, rows = model.mu, []
    for model.mu in STEPS:
        found = evaluate(model, test, k, items=False, beyond_accuracy=False, threads=threads).explanation
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
    return [
        {
            "stratum": _named(popularity[of_pool == place]),
            "pairs": len(np.unique(pair[said == place])),
            "ndcg": figures[place],
        }
        for place in reversed(range(count))
        if (of_pool == place).any()
    ]


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


def _named(popularity: NDArray[np.int64]) -> str:
    low, high = int(popularity.min()), int(popularity.max())
    return f"{low:,} times" if low == high else f"{low:,} to {high:,} times"
