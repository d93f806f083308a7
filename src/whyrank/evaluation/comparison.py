"""Models side by side on the same pairs: a table with the best in bold, significance and improvement."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np
from numpy.typing import NDArray

from whyrank.data.split import Split
from whyrank.errors import ParameterError
from whyrank.evaluation.evaluator import Evaluation, evaluate
from whyrank.evaluation.significance import TESTS
from whyrank.models.base import Model
from whyrank.render import Fitted, html_table, latex_table, markdown_table
from whyrank.training import Run

SHOWN = ("ndcg_paper", "ndcg", "precision", "recall", "f1", "personalization")
NEITHER = ("personalization",)  # more is not better: random lists have the most
LEVEL = 0.01


@dataclass(frozen=True)
class Row:
    """One model over all splits."""

    name: str
    evaluations: list[Evaluation] = field(repr=False)
    training_seconds: list[float] = field(default_factory=list)

    def values(self, metric: str) -> NDArray[np.float64]:
        """The mean of each split."""
        return np.array([each.explanation.get(metric, np.nan) for each in self.evaluations])

    def per_pair(self, metric: str) -> NDArray[np.float64]:
        """The value of each test pair of every split."""
        return np.concatenate([each.per_pair[metric] for each in self.evaluations])


@dataclass(frozen=True)
class Comparison:
    """Rows of models; `baseline` is the one that others are tested against."""

    rows: list[Row]
    k: int
    baseline: str
    test: str = "student"

    @property
    def splits(self) -> int:
        return len(self.rows[0].evaluations)

    def row(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)

    def best(self, metric: str) -> str:
        """The name of the model with the highest mean."""
        return max(self.rows, key=lambda row: float(np.nan_to_num(row.values(metric).mean(), nan=-np.inf))).name

    def p_value(self, name: str, metric: str = "ndcg_paper", against: str | None = None) -> float:
        """Paired over all test pairs of all splits."""
        return TESTS[self.test](self.row(name).per_pair(metric), self.row(against or self.baseline).per_pair(metric))

    def improvement(self, name: str, metric: str = "ndcg_paper") -> float:
        """Relative to the baseline, as a fraction."""
        theirs = float(self.row(self.baseline).values(metric).mean())
        return float(self.row(name).values(metric).mean()) / theirs - 1 if theirs else float("inf")

    def as_dict(self) -> dict[str, object]:
        """For machines: fractions, deviations over splits, p-values and improvements against the baseline."""
        return {
            "k": self.k,
            "splits": self.splits,
            "pairs": sum(each.pairs for each in self.rows[0].evaluations),
            "baseline": self.baseline,
            "test": self.test,
            "models": [self._row_dict(row) for row in self.rows],
        }

    def _row_dict(self, row: Row) -> dict[str, object]:
        metrics = row.evaluations[0].explanation
        tested = row.evaluations[0].per_pair
        other = row.name != self.baseline
        return {
            "name": row.name,
            "explanation": {metric: float(row.values(metric).mean()) for metric in metrics},
            "deviation": {metric: float(row.values(metric).std()) for metric in metrics},
            "p_value": {metric: self.p_value(row.name, metric) for metric in tested} if other else None,
            "improvement": {metric: self.improvement(row.name, metric) for metric in tested} if other else None,
            "recommendation": _mean_of([each.recommendation for each in row.evaluations]),
            "explanation_on_recommended": _mean_of([each.explanation_on_recommended for each in row.evaluations]),
            "training_seconds": float(np.mean(row.training_seconds)) if row.training_seconds else None,
        }

    # -- for people ----------------------------------------------------------------------------------------------------

    def cells(self, metrics: Sequence[str] = SHOWN) -> tuple[list[str], list[list[str]], list[list[bool]]]:
        """Headers, texts and which texts are the best of their column."""
        short = {"precision": "pre", "recall": "rec", "personalization": "personal"}
        headers = ["model", *(f"{short.get(metric, metric)} @{self.k} %" for metric in metrics)]
        headers += [f"vs {self.baseline}", "training"]
        bests = {metric: None if metric in NEITHER else self.best(metric) for metric in metrics}
        texts, bold = [], []
        for row in self.rows:
            texts.append([row.name, *(self._cell(row, metric) for metric in metrics), self._versus(row), _seconds(row)])
            bold.append([False, *(bests[metric] == row.name for metric in metrics), False, False])
        return headers, texts, bold

    def _cell(self, row: Row, metric: str) -> str:
        values = row.values(metric) * 100
        deviation = f" ±{values.std():.2f}" if self.splits > 1 else ""
        star = ""
        if row.name != self.baseline and metric in row.evaluations[0].per_pair:
            star = "*" if self.p_value(row.name, metric) < LEVEL else ""
        return f"{values.mean():.3f}{deviation}{star}"

    def _versus(self, row: Row) -> str:
        return "" if row.name == self.baseline else f"{self.improvement(row.name) * 100:+.1f}%"

    def verdict(self) -> str:
        """The result in a sentence: how often the best model and the baseline find a right reason, and how certain
        the difference is."""
        best = self.best("ndcg_paper")
        others = [row.name for row in self.rows if row.name != best]
        if not others:
            return f"{best} finds a right reason in {self._lists(best)}."
        other = self.baseline if self.baseline != best else self.best_of(others)
        p = self.p_value(best, "hit", other)
        sure = (
            f"the difference is certain (p < {LEVEL})" if p < LEVEL else f"the difference may be chance (p = {p:.2f})"
        )
        return (
            f"{best} finds a right reason in {self._lists(best)}, {other} in {self._lists(other, short=True)}; {sure}."
        )

    def best_of(self, names: Sequence[str], metric: str = "ndcg_paper") -> str:
        """The best of some of the models."""
        return max(names, key=lambda name: float(self.row(name).values(metric).mean()))

    def _lists(self, name: str, short: bool = False) -> str:
        found = 100 * float(self.row(name).per_pair("hit").mean())
        return f"{found:.0f}" if short else f"{found:.0f} of 100 lists of {self.k}"

    def note(self) -> str:
        """What the marks mean."""
        pairs = sum(each.pairs for each in self.rows[0].evaluations)
        over = f"{self.splits} splits, " if self.splits > 1 else ""
        return (
            f"{over}{pairs:,} test pairs; * differs from {self.baseline} with p < {LEVEL} (paired, {self.test}); "
            "'vs' compares ndcg_paper"
        )

    def table(self, metrics: Sequence[str] = SHOWN) -> Fitted:
        """For a terminal; what does not fit is left out, column by column."""
        headers, texts, bold = self.cells(metrics)
        last, first = headers[-1], headers[1 : 1 + len(metrics)]
        return Fitted(headers, texts, bold, caption=self.note(), drop=[last, *reversed(first[1:]), headers[-2]])

    def markdown(self, metrics: Sequence[str] = SHOWN) -> str:
        return f"{markdown_table(*self.cells(metrics))}\n{self.note()}\n"

    def latex(self, metrics: Sequence[str] = SHOWN) -> str:
        return f"{latex_table(*self.cells(metrics))}% {self.note()}\n"

    def _repr_html_(self) -> str:
        """For notebooks."""
        return f"{html_table(*self.cells())}<p>{escape(self.note())}</p>"


def compare(
    models: Mapping[str, Model],
    splits: Split | Sequence[Split],
    k: int = 10,
    *,
    baseline: str | None = None,
    test: str = "student",
    run: Run | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> Comparison:
    """Measure models on the test parts of one or more splits.

    With one split, fitted models are taken as they are. Models that are not fitted are fitted on the split's training
    part; with several splits, every model is fitted anew on each. `baseline` is what others are tested against: the
    second-best model by ndcg_paper unless named.
    """
    parts = splits if isinstance(splits, Sequence) else [splits]
    if not isinstance(models, Mapping) or not all(isinstance(part, Split) for part in parts):
        raise ParameterError('compare takes models by name and splits: {"BPER": BPER()}, triplets.split()')
    if not models or not parts:
        raise ParameterError("nothing to compare; give at least one model and one split")
    if baseline is not None and baseline not in models:
        raise ParameterError(f"baseline is {baseline!r}; use one of {', '.join(models)}")
    if test not in TESTS:
        raise ParameterError(f"test is {test!r}; use one of {', '.join(TESTS)}")
    rows = [Row(name, []) for name in models]
    for number, split in enumerate(parts, 1):
        for row, model in zip(rows, models.values(), strict=True):
            if progress:
                progress(row.name, number)
            fitted = len(parts) == 1 and hasattr(model, "catalog_")
            if not fitted:
                model = copy.copy(model)
                begin = time.perf_counter()
                model.fit(split, run=run)
                row.training_seconds.append(time.perf_counter() - begin)
            row.evaluations.append(evaluate(model, split, k, threads=run.threads if run else None))
    ordered = sorted(rows, key=lambda row: -float(row.values("ndcg_paper").mean()))
    return Comparison(rows, k, baseline or ordered[min(1, len(ordered) - 1)].name, test)


def _seconds(row: Row) -> str:
    return f"{np.mean(row.training_seconds):.1f} s" if row.training_seconds else "-"


def _mean_of(parts: Sequence[Mapping[str, float] | None]) -> dict[str, float] | None:
    known = [part for part in parts if part is not None]
    names = dict.fromkeys(name for part in known for name in part)
    return {name: float(np.mean([part[name] for part in known if name in part])) for name in names} if known else None
