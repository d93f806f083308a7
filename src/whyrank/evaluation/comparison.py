"""Models side by side on the same pairs: a table with the best in bold, significance and improvement."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np
from numpy.typing import NDArray

from whyrank.data.split import Split
from whyrank.errors import ParameterError
from whyrank.evaluation.candidates import Kind, check_kind
from whyrank.evaluation.evaluator import Evaluation, evaluate
from whyrank.evaluation.significance import (
    ENOUGH_SPLITS,
    TESTS,
    clustered_mean,
    combined,
    holm,
    p_text,
    resampled,
    resampled_mean,
    user_means,
)
from whyrank.models.base import Model
from whyrank.render import FittingTable, html_table, latex_table, markdown_table
from whyrank.training import Run

SHOWN = ("ndcg_paper", "ndcg", "precision", "recall", "f1", "personalization")
MAIN = "ndcg_paper"  # orders the table; improvements and the verdict are about it
NEITHER = ("personalization",)  # more is not better: random lists have the most
LEVEL = 0.01


@dataclass(frozen=True)
class Row:
    """One model over all splits."""

    name: str
    evaluations: list[Evaluation] = field(repr=False)
    training_seconds: list[float] = field(default_factory=list)

    def values(self, metric: str, by_user: bool = False) -> NDArray[np.float64]:
        """Return the mean of each split, over pairs or over the means of users."""
        if by_user:
            return np.array([user_means(each.per_pair[metric], each.users).mean() for each in self.evaluations])
        return np.array([each.explanation.get(metric, np.nan) for each in self.evaluations])

    def mean(self, metric: str, by_user: bool = False) -> float:
        """Return the mean over the splits that have a figure; NaN where none has."""
        values = self.values(metric, by_user)
        known = values[~np.isnan(values)]
        return float(known.mean()) if len(known) else math.nan

    def served(self, metric: str) -> float:
        """Over splits, of the lists that `explain` shows; NaN where they were not measured."""
        shown = [each if each.candidates == "served" else each.served for each in self.evaluations]
        return float(np.mean([math.nan if each is None else each.explanation[metric] for each in shown]))

    def without_reason(self) -> float:
        """Over splits, the share of pairs for which `explain` shows nothing; NaN where it was not measured."""
        shown = [each if each.candidates == "served" else each.served for each in self.evaluations]
        return float(np.mean([math.nan if each is None else each.without_reason for each in shown]))

    def deviation(self, metric: str) -> float:
        """Return the standard deviation over splits, with n - 1; NaN where there is only one."""
        known = self.values(metric)[~np.isnan(self.values(metric))]
        return float(known.std(ddof=1)) if len(known) > 1 else math.nan

    def tests(self, metric: str) -> bool:
        """Return whether a metric has a value for every pair, so that it can be tested."""
        return metric in self.evaluations[0].per_pair


@dataclass(frozen=True)
class Comparison:
    """Rows of models; `baseline` is the one that others are tested against.

    `ratio` is the number of test records over that of training records, for tests over several splits.
    """

    rows: list[Row]
    k: int
    baseline: str
    test: str = "student"
    ratio: float = 3 / 7

    @property
    def splits(self) -> int:
        return len(self.rows[0].evaluations)

    @property
    def pairs(self) -> int:
        return sum(each.pairs for each in self.rows[0].evaluations)

    @property
    def over_splits(self) -> bool:
        """Whether there are enough splits to test how figures vary over them."""
        return self.splits >= ENOUGH_SPLITS

    def row(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)

    def best(self, metric: str) -> str:
        """Return the name of the model with the highest mean."""
        return max(self.rows, key=lambda row: -math.inf if math.isnan(row.mean(metric)) else row.mean(metric)).name

    def p_value(self, name: str, metric: str = MAIN) -> float:
        """Return the p-value of a model against the baseline, of this one comparison alone; see `p_values`.

        Five splits and more: the corrected resampled t-test over their means. Fewer: `test` within each, paired over
        its pairs and clustered by user; twice the mean of these p-values, as the splits share users.
        """
        ours, theirs = self.row(name), self.row(self.baseline)
        if self.over_splits:
            return resampled(ours.values(metric), theirs.values(metric), self.ratio)
        test = TESTS[self.test]
        within = [
            test(one.per_pair[metric], other.per_pair[metric], one.users)
            for one, other in zip(ours.evaluations, theirs.evaluations, strict=True)
        ]
        return combined((ours.values(metric) - theirs.values(metric)).tolist(), within)

    def p_values(self, metrics: Sequence[str] = SHOWN) -> dict[str, dict[str, float]]:
        """Return, by metric, those of all models against the baseline, with Holm's correction for models and metrics.

        Metrics without a value for every pair are left out.
        """
        names = [row.name for row in self.rows if row.name != self.baseline]
        cells = [(metric, name) for metric in metrics if self.rows[0].tests(metric) for name in names]
        found: dict[str, dict[str, float]] = {metric: {} for metric, _ in cells}
        corrected = holm([self.p_value(name, metric) for metric, name in cells])
        for (metric, name), p in zip(cells, corrected, strict=True):
            found[metric][name] = p
        return found

    def half(self, name: str, metric: str, by_user: bool = False) -> float:
        """Return half the width of the 95% interval of a mean; NaN where it cannot be known.

        It is clustered by user. Of two to four splits, it is the mean of theirs: however much they depend on each
        other, their mean varies no more than that. Of more, it follows from how they vary, corrected for what they
        share.
        """
        row = self.row(name)
        if not row.tests(metric):
            return math.nan
        if self.over_splits:
            half = resampled_mean(row.values(metric, by_user), self.ratio).half()
        else:
            within = [
                clustered_mean(user_means(each.per_pair[metric], each.users))
                if by_user
                else clustered_mean(each.per_pair[metric], each.users)
                for each in row.evaluations
            ]
            half = float(np.mean([each.half() for each in within]))
        return half if math.isfinite(half) else math.nan

    def improvement(self, name: str, metric: str = MAIN) -> float:
        """Return the change relative to the baseline, as a fraction; NaN where the baseline has nothing."""
        theirs = self.row(self.baseline).mean(metric)
        return self.row(name).mean(metric) / theirs - 1 if theirs else math.nan

    def as_dict(self) -> dict[str, object]:
        """Return all figures for machines: fractions, intervals, p-values and improvements against the baseline.

        `p_value` is that of one comparison alone, `p_holm` is corrected for the models and metrics of the table; what
        was not measured is None.
        """
        corrected = self.p_values()
        return {
            "k": self.k,
            "splits": self.splits,
            "pairs": self.pairs,
            "candidates": self.rows[0].evaluations[0].candidates,
            "reach": _mean_of([each.reach for each in self.rows[0].evaluations]),
            "baseline": self.baseline,
            "test": "resampled" if self.over_splits else self.test,
            "models": [self._row_dict(row, corrected) for row in self.rows],
        }

    def _row_dict(self, row: Row, corrected: Mapping[str, Mapping[str, float]]) -> dict[str, object]:
        metrics, tested = row.evaluations[0].explanation, row.evaluations[0].per_pair
        other = row.name != self.baseline
        return {
            "name": row.name,
            "explanation": {metric: _known(row.mean(metric)) for metric in metrics},
            "interval": {metric: self._interval(row, metric) for metric in tested},
            "by_user": {metric: _known(row.mean(metric, by_user=True)) for metric in tested},
            "by_user_interval": {metric: self._interval(row, metric, by_user=True) for metric in tested},
            "deviation": {metric: _known(row.deviation(metric)) for metric in metrics},
            "served": {metric: _known(row.served(metric)) for metric in tested},
            "without_reason": _known(row.without_reason()),
            "p_value": {metric: self.p_value(row.name, metric) for metric in tested} if other else None,
            "p_holm": {metric: values[row.name] for metric, values in corrected.items()} if other else None,
            "improvement": {m: _known(self.improvement(row.name, m)) for m in tested} if other else None,
            "recommendation": _mean_of([each.recommendation for each in row.evaluations]),
            "explanation_on_recommended": _mean_of([each.explanation_on_recommended for each in row.evaluations]),
            "training_seconds": float(np.mean(row.training_seconds)) if row.training_seconds else None,
        }

    def _interval(self, row: Row, metric: str, by_user: bool = False) -> list[float] | None:
        mean, half = row.mean(metric, by_user), self.half(row.name, metric, by_user)
        return None if math.isnan(half) else [mean - half, mean + half]

    # -- for people ----------------------------------------------------------------------------------------------------

    def cells(self, metrics: Sequence[str] = SHOWN) -> tuple[list[str], list[list[str]], list[list[bool]]]:
        """Return headers, texts and which texts are the best of their column."""
        short = {"precision": "pre", "recall": "rec", "personalization": "personal"}
        headers = ["model", *(f"{short.get(metric, metric)} @{self.k} %" for metric in metrics)]
        headers += ["by user", "served", f"vs {self.baseline}", "training"]
        bests = {metric: None if metric in NEITHER else self.best(metric) for metric in metrics}
        by_user = max(self.rows, key=lambda row: row.mean(metrics[0], by_user=True)).name
        corrected = self.p_values(metrics)
        texts, bold = [], []
        for row in self.rows:
            values = (self._cell(row, metric, corrected.get(metric, {}).get(row.name, 1.0)) for metric in metrics)
            also = (self._cell(row, metrics[0], 1.0, True), _percent(row.served(metrics[0])))
            texts.append([row.name, *values, *also, self._versus(row), _seconds(row)])
            best = (bests[metric] == row.name for metric in metrics)
            bold.append([False, *best, by_user == row.name, False, False, False])
        return headers, texts, bold

    def _cell(self, row: Row, metric: str, p: float, by_user: bool = False) -> str:
        mean, half = 100 * row.mean(metric, by_user), 100 * self.half(row.name, metric, by_user)
        if math.isnan(mean):
            return "-"
        spread = "" if math.isnan(half) else f" ±{half:.2f}"
        return f"{mean:.3f}{spread}{'*' if p < LEVEL else ''}"

    def _versus(self, row: Row) -> str:
        change = self.improvement(row.name)
        return "" if row.name == self.baseline or math.isnan(change) else f"{change * 100:+.1f}%"

    def verdict(self) -> str:
        """Return the result in two sentences: how often the best model and another one find a right reason, and the
        difference of the table's metric with its corrected p-value."""
        best = self.best(MAIN)
        others = [row.name for row in self.rows if row.name != best]
        found = f"{best} finds a right reason in {self._lists(best)} of 100 lists of {self.k}"
        if not others:
            return f"{found}."
        other = self.baseline if self.baseline != best else max(others, key=lambda name: self.row(name).mean(MAIN))
        p = self.p_values()[MAIN][best if best != self.baseline else other]
        theirs = self.row(other).mean(MAIN)
        change = f"{100 * (self.row(best).mean(MAIN) / theirs - 1):+.1f}%" if theirs else "above nothing"
        sure = f"{p_text(p)}, corrected for models and metrics"
        return f"{found}, {other} in {self._lists(other)}. By {MAIN} it is {change} ({sure})."

    def _lists(self, name: str) -> str:
        return f"{100 * self.row(name).mean('hit'):.0f}"

    def note(self) -> str:
        """Return what the marks mean."""
        over = f"{self.splits} splits, " if self.splits > 1 else ""
        how = f"paired, by user, {self.test}"
        if self.over_splits:
            how = "corrected resampled t-test over splits"
        elif self.splits > 1:
            how += ", twice the mean p of the splits"
        first = self.rows[0].evaluations[0]
        reach = _mean_of([each.reach for each in self.rows[0].evaluations])
        ranked = "" if reach is None else f"{reach_text(first.candidates, reach)}; "
        if learned := [row.name for row in self.rows if row.evaluations[0].learned_among == "item-all"]:
            ranked += f"{', '.join(learned)} learned from such candidates (candidates=item-all); "
        return (
            f"{over}{self.pairs:,} test pairs; {ranked}means over pairs, 'by user' of the first metric over users, "
            f"± 95% intervals with users as units; * differs from {self.baseline} with p < {LEVEL} ({how}; Holm's "
            f"correction for models and metrics); 'vs' compares {MAIN}; 'served' is the first metric over the lists "
            f"that explain shows{self._missing()}"
        )

    def _missing(self) -> str:
        """For how many pairs there is nothing to show, in words: the least and the most of the models."""
        shares = [share for row in self.rows if not math.isnan(share := row.without_reason())]
        return f"; {min(shares):.1%} to {max(shares):.1%} of the pairs have no reason, a miss" if shares else ""

    def table(self, metrics: Sequence[str] = SHOWN) -> FittingTable:
        """Return a table for a terminal; what does not fit is left out, column by column."""
        headers, texts, bold = self.cells(metrics)
        first, (by_user, served, versus, last) = headers[1 : 1 + len(metrics)], headers[-4:]
        drop = [last, *reversed(first[1:]), by_user, versus, served]
        return FittingTable(headers, texts, bold, caption=self.note(), drop=drop)

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
    candidates: Kind = "pool",
    run: Run | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> Comparison:
    """Measure models on the test parts of one or more splits.

    With one split, fitted models are taken as they are. Models that are not fitted are fitted to the split: to its
    whole training part, or to its train part with an eye on validation where they use it. With several splits, every
    model is fitted anew to each.

    Args:
        models: Models by the name that the table shows.
        splits: One split or several.
        k: Length of the lists.
        baseline: The model that the others are tested against; the second-best by ndcg_paper unless named.
        test: Within splits: "student", "wilcoxon" or "randomization", all clustered by user. Means of five splits and
            more are tested by the corrected resampled t-test instead.
        candidates: As in `evaluate`. With "item-all", Profile is fitted with `candidates="item-all"`, and learns to
            rank what anybody ever said about an item.
        run: Threads, checkpoints and the like for the models that are fitted.
        progress: Called as `progress(name, split)` before each model.

    Returns:
        The figures of every model, with p-values.

    Raises:
        ParameterError: A name does not exist, or the models cannot be compared.

    Examples:
        >>> import whyrank as wr
        >>> split = wr.simulate("small", users=60, items=9, records=300, triplets=500, seed=0).split(seed=0)
        >>> compare({"POP": wr.POP(), "RAND": wr.RAND()}, split).best("ndcg")
        'POP'
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
    check_kind(candidates)
    rows = [Row(name, []) for name in models]
    for number, split in enumerate(parts, 1):
        for row, model in zip(rows, models.values(), strict=True):
            if progress:
                progress(row.name, number)
            fitted = len(parts) == 1 and hasattr(model, "catalog_")
            if not fitted:
                model = model.suited_to(candidates)
                begin = time.perf_counter()
                model.fit(split, run=run)
                row.training_seconds.append(time.perf_counter() - begin)
            row.evaluations.append(
                evaluate(model, split, k, candidates=candidates, threads=run.threads if run else None)
            )
    ordered = sorted(rows, key=lambda row: -row.mean("ndcg_paper"))
    return Comparison(rows, k, baseline or ordered[min(1, len(ordered) - 1)].name, test, test_ratio(parts))


def test_ratio(splits: Sequence[Split]) -> float:
    """Test records over training records, as the corrected resampled t-test needs it."""
    shares = [len(s.test_records) / max(len(s.train_records) + len(s.validation_records), 1) for s in splits]
    return float(np.mean(shares))


def reach_text(candidates: Kind, reach: Mapping[str, float]) -> str:
    """What of the test part is measured, in words."""
    whose = "the training part" if candidates == "item" else "anybody, test included,"
    return (
        f"ranked: the {reach['candidates']:.1f} explanations of a pair's item that {whose} knows; "
        f"{reach['pairs']:.1%} of the test pairs and {reach['truths']:.1%} of their explanations can be reached"
    )


def _known(value: float) -> float | None:
    """None where nothing was measured."""
    return None if math.isnan(value) else value


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.3f}"


def _seconds(row: Row) -> str:
    return f"{np.mean(row.training_seconds):.1f} s" if row.training_seconds else "-"


def _mean_of(parts: Sequence[Mapping[str, float] | None]) -> dict[str, float] | None:
    known = [part for part in parts if part is not None]
    names = dict.fromkeys(name for part in known for name in part)
    return {name: float(np.mean([part[name] for part in known if name in part])) for name in names} if known else None
