"""What the paper does not ask: who is served how well, how varied lists are, what they cost, what the options do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.data.split import Split
from whyrank.evaluation.beyond import POWER, propensity_ndcg
from whyrank.evaluation.metrics import per_list
from whyrank.lab.experiments import ranking, strata
from whyrank.lab.experiments.cache import Facts
from whyrank.lab.experiments.curves import caption
from whyrank.lab.experiments.jobs import Job, experiment
from whyrank.lab.experiments.lab import Lab
from whyrank.lab.experiments.measures import STEPS
from whyrank.lab.experiments.plots import Curve, Panel, draw, scatter
from whyrank.lab.experiments.report import ExperimentReport

CURVES = ("bper", "profile")
ENOUGH = 30  # test pairs; of fewer, no figure is marked as the best
ITEM_CURVES = ("bper-j", "profile-j")
DRAWN = ("pop", "counts", "rucf", "pitf", "bper", "bper+", "profile")  # as many as a picture carries
Lists = NDArray[np.int32]
Values = NDArray[np.float64]
Measure = Callable[[Split, Lists], Sequence[float | None]]


def jobs(lab: Lab) -> list[Job]:
    found = [Job(name, split) for name in lab.pick(ranking.MODELS) for split in lab.numbers]
    found += [Job(name, split, "unknown") for name in lab.pick(ranking.MODELS) for split in lab.numbers]
    asks = ("diversity", "specificity")
    found += [Job(name, split, ask) for name in lab.pick(CURVES) for split in lab.numbers for ask in asks]
    goals = ("serendipity", "fairness")
    return found + [Job(name, split, ask) for name in _with_items(lab) for split in lab.numbers for ask in goals]


@experiment("beyond", 9, jobs)
def write(lab: Lab, report: ExperimentReport) -> Facts:
    found: Facts = {"lists": _lists(lab, report), "popularity": _popularity(lab, report)}
    found |= {"known": _known(lab, report), "unknown": _unknown(lab, report)}
    found |= {"cost": _cost(lab, report), "options": _options(lab, report), "goals": _goals(lab, report)}
    return found


def _each(lab: Lab, name: str, measure: Measure) -> Values:
    """Return a row of figures per split; NaN where there is none."""
    rows = []
    for split, number in zip(lab.splits, lab.numbers, strict=True):
        lists = lab.result(Job(name, number)).arrays["lists"].astype(np.int32)
        rows.append([np.nan if value is None else value for value in measure(split, lists)])
    return np.array(rows, np.float64)


def _mean(values: Values) -> Values:
    """Over splits, leaving out those without a figure."""
    known = ~np.isnan(values)
    return np.where(known.any(0), np.where(known, values, 0).sum(0) / np.maximum(known.sum(0), 1), np.nan)


def _cells(values: Values, scale: float = 100) -> list[str]:
    return ["-" if np.isnan(value) else f"{scale * value:.2f}" for value in values]


def _bests(table: Sequence[Values], least: Sequence[bool]) -> list[list[bool]]:
    """Mark the best figures of every column."""
    values = np.array(table)
    flipped = np.where(np.array(least), -values, values)
    top = np.nanmax(np.where(np.isnan(flipped), -np.inf, flipped), axis=0)
    return [[False, *(row == top).tolist()] for row in flipped]


# -- how varied lists are ----------------------------------------------------------------------------------------------


def _lists(lab: Lab, report: ExperimentReport) -> Facts:
    report.heading("Beyond accuracy: how varied lists are")
    names = ("coverage", "novelty", "personalization", "redundancy")
    found: dict[str, Values] = {}
    for name in lab.pick(ranking.MODELS):
        results = [lab.facts(Job(name, split))["explanation"] for split in lab.numbers]
        found[name] = _mean(np.array([[facts[each] for each in names] for facts in results], np.float64))
    scales = np.array([100, 1, 100, 100])
    rows = [[name, *_cells(scales * values, 1)] for name, values in found.items()]
    headers = ["model", "coverage %", "novelty (bits)", "personalization %", "redundancy %"]
    report.table(headers, rows, name="beyond")
    report.paragraph(
        "Coverage: the share of the pool that is in some list. Novelty: surprise of what is shown, -log2 of its share "
        "of training triplets. Personalization: one minus the overlap of two users' lists. Redundancy: word overlap of "
        f"two reasons in one list (less is better). {caption(lab)}",
        note=True,
    )
    return {name: dict(zip(names, values.tolist(), strict=True)) for name, values in found.items()}


# -- popularity --------------------------------------------------------------------------------------------------------


def _popularity(lab: Lab, report: ExperimentReport) -> Facts:
    def measure(split: Split, lists: Lists) -> list[float | None]:
        popularity, relevant = split.training.popularity, split.test.record_explanations
        parts = strata.by_explanation(lists, relevant, strata.popularity_strata(popularity), 3)
        return [*parts, propensity_ndcg(lists, relevant, popularity)]

    report.heading("Beyond accuracy: popular and rare explanations")
    found = {name: _each(lab, name, measure) for name in lab.pick(ranking.MODELS)}
    table = [_mean(values) for values in found.values()]
    rows = [[name, *_cells(row)] for name, row in zip(found, table, strict=True)]
    headers = ["textbook NDCG@10 (%)", *strata.POPULARITY, "inverse propensity"]
    report.table(headers, rows, _bests(table, [False] * 4), name="popularity")
    drawn = [name for name in found if name in DRAWN]
    lines = [Curve(name, range(3), 100 * found[name][:, :3]) for name in drawn]
    panel = Panel(lines, "explanations by popularity", "textbook NDCG@10 (%)", ticks=strata.POPULARITY)
    words = (
        "NDCG when only head, middle or tail explanations are looked for; each third holds a third of the training "
        "triplets."
    )
    report.picture("popularity", *draw("popularity", [panel]), caption(lab, words))
    report.paragraph(
        "Inverse propensity: every relevant explanation counts by one over its assumed propensity to be said, "
        f"(popularity + 1)^{POWER}, normalized by the best possible lists. It asks how a model would do if "
        "people did not say the same popular things.",
        note=True,
    )
    return {name: _mean(values).tolist() for name, values in found.items()}


# -- how much is known -------------------------------------------------------------------------------------------------


def _known(lab: Lab, report: ExperimentReport) -> Facts:
    def measure(split: Split, lists: Lists) -> list[float | None]:
        train, test, count = split.training, split.test, len(strata.KNOWN)
        of_user, of_item = (strata.known_strata(each) for each in strata.records_of(train))
        accuracy = per_list(lists, test.record_explanations)["ndcg"]
        of_explanation = strata.known_strata(train.popularity)
        return [
            *strata.by_pair(accuracy, of_user[test.record_user], count),
            *strata.by_pair(accuracy, of_item[test.record_item], count),
            *strata.by_explanation(lists, test.record_explanations, of_explanation, count),
        ]

    report.heading("Beyond accuracy: little-known users, items and explanations")
    count = len(strata.KNOWN)
    sizes = _stratum_sizes(lab.splits[0])
    found = {name: _each(lab, name, measure) for name in lab.pick(ranking.MODELS)}
    sides = ("training records of the user", "training records of the item", "training triplets of the explanation")
    panels = []
    for side, words in enumerate(sides):
        part = slice(side * count, (side + 1) * count)
        table = [_mean(values[:, part]) for values in found.values()]
        some = [place for place in range(count) if any(not np.isnan(row[place]) for row in table)]
        rows = [[name, *_cells(row[some])] for name, row in zip(found, table, strict=True)]
        headers = [f"by {words}", *(strata.KNOWN[place] for place in some)]
        bests = np.array(_bests([row[some] for row in table], [False] * len(some)))
        bests[:, 1:] &= np.array([sizes[side][place] >= ENOUGH for place in some])
        marks = [[False] * (len(some) + 1), *bests.tolist()]
        rows.insert(0, ["test pairs (first split)", *(f"{sizes[side][place]:,}" for place in some)])
        report.table(headers, rows, marks, name=f"known_{('user', 'item', 'explanation')[side]}")
        drawn = [name for name in found if name in DRAWN]
        lines = [Curve(name, range(len(some)), 100 * found[name][:, part][:, some]) for name in drawn]
        panels.append(Panel(lines, words, "textbook NDCG@10 (%)", ticks=[strata.KNOWN[place] for place in some]))
    words = "Accuracy by how much training data there is."
    report.picture("known", *draw("known", panels, columns=1), caption(lab, words))
    return {name: _mean(values).reshape(3, count).tolist() for name, values in found.items()}


def _stratum_sizes(split: Split) -> list[list[int]]:
    """Count the test pairs behind each figure, by user, item and explanation."""
    test, of_user, of_item = split.test, *map(strata.known_strata, strata.records_of(split.training))
    said = strata.known_strata(split.training.popularity)[test.explanation]
    record = test.record_explanations.rows_of_entries()
    places = range(len(strata.KNOWN))
    sides = (of_user[test.record_user], of_item[test.record_item])
    sizes = [[int((side == at).sum()) for at in places] for side in sides]
    return [*sizes, [len(np.unique(record[said == at])) for at in places]]


def _unknown(lab: Lab, report: ExperimentReport) -> Facts:
    """Test pairs whose user, item or both are hidden from the model."""
    found: dict[str, Values] = {}
    for name in lab.pick(ranking.MODELS):
        rows = []
        for split in lab.numbers:
            hidden = lab.facts(Job(name, split, "unknown"))
            all_known = lab.facts(Job(name, split))["explanation"]
            rows.append([each["ndcg"] for each in (all_known, hidden["user"], hidden["item"], hidden["both"])])
        found[name] = np.array(rows)
    table = [values.mean(0) for values in found.values()]
    cells = [[name, *_cells(row)] for name, row in zip(found, table, strict=True)]
    report.paragraph("The same test pairs when the user, the item or both are new to the model (textbook NDCG@10, %):")
    headers = ["model", "both known", "user unknown", "item unknown", "both unknown"]
    report.table(headers, cells, _bests(table, [False] * 4), name="unknown")
    return {name: values.mean(0).tolist() for name, values in found.items()}


# -- cost --------------------------------------------------------------------------------------------------------------


def _cost(lab: Lab, report: ExperimentReport) -> Facts:
    report.heading("Beyond accuracy: cost against quality")
    rows, points, found = [], [], {}
    for name in lab.pick(ranking.MODELS):
        results = [lab.facts(Job(name, split)) for split in lab.numbers]
        quality = 100 * np.array([facts["explanation"]["ndcg_paper"] for facts in results])
        cpu, wall, ranked = (
            float(np.median([facts[each] for facts in results]))
            for each in ("training_cpu", "training_seconds", "ranking_seconds")
        )
        speed = lab.splits[0].test.records / max(ranked, 1e-9)
        rows.append([name, f"{quality.mean():.3f}", f"{cpu:.2f}", f"{wall:.2f}", f"{speed:,.0f}"])
        points.append(
            (name, max(cpu, 0.001), float(quality.mean()), float(quality.std(ddof=1)) if len(quality) > 1 else 0.0)
        )
        found[name] = {"ndcg_paper": quality.mean() / 100, "training_cpu": cpu, "pairs_per_second": speed}
    headers = ["model", "NDCG@10 (%)", "training (CPU s)", "training (s)", "pairs ranked a second"]
    report.table(headers, rows, name="cost")
    picture = scatter("cost", points, "training (CPU seconds, logarithmic)", "NDCG@10 (%)", logarithmic=True)
    words = "Training cost (median over splits; less than a millisecond is drawn as one) against accuracy."
    report.picture("cost", *picture, caption(lab, words))
    return found


# -- what options and goals cost ---------------------------------------------------------------------------------------


class Price(NamedTuple):
    """An ask whose curves show what is given for what: (metric, label, factor) of both; and the label of its axis."""

    ask: str
    given: tuple[str, str, float]
    gained: tuple[str, str, float]
    axis: str


REASONS = ("ndcg_paper", "NDCG@10 (%)", 100)
ITEMS = ("ndcg", "items: NDCG@10 (%)", 100)
OPTIONS = (
    Price("diversity", REASONS, ("redundancy", "redundancy (%)", 100), "diversity"),
    Price("specificity", REASONS, ("novelty", "novelty (bits)", 1), "specificity"),
)
GOALS = (
    Price("serendipity", ITEMS, ("unexpected", "unexpected (%)", 100), "serendipity"),
    Price("fairness", ITEMS, ("tail", "places of the tail (%)", 100), "least share of the tail"),
)


def _with_items(lab: Lab) -> list[str]:
    return lab.pick(ITEM_CURVES, lambda kind: kind.ranks_items)


def _prices(
    lab: Lab, report: ExperimentReport, name: str, models: list[str], prices: Sequence[Price], words: str
) -> Facts:
    """Draw what every price costs the models, and what they gain."""
    found: Facts = {}
    panels = []
    for price in prices:
        curves = {n: [lab.facts(Job(n, split, price.ask))["curve"] for split in lab.numbers] for n in models}
        for metric, label, factor in (price.given, price.gained):
            values = {n: np.array([[factor * at[metric] for at in curve] for curve in c]) for n, c in curves.items()}
            panels.append(Panel([Curve(n, STEPS, v) for n, v in values.items()], price.axis, label))
            found[f"{price.ask} {metric}"] = {n: v.mean(0).tolist() for n, v in values.items()}
    report.picture(name, *draw(name, panels), caption(lab, words))
    return found


def _options(lab: Lab, report: ExperimentReport) -> Facts:
    models = lab.pick(CURVES)
    report.heading("Beyond accuracy: what diversity and specificity cost")
    if not models:
        report.paragraph("None of the chosen models is among those of this part (bper, profile).")
        return {}
    words = (
        "Accuracy against what users asked for: diversity lowers the word overlap of reasons in a list, specificity "
        "raises how surprising they are."
    )
    return _prices(lab, report, "options", models, OPTIONS, words)


def _goals(lab: Lab, report: ExperimentReport) -> Facts:
    models = _with_items(lab)
    report.heading("Beyond accuracy: what serendipity and fair shares of items cost")
    if not models:
        report.paragraph("None of the chosen models ranks items.")
        return {}
    words = (
        "Accuracy of recommended items against goals: serendipity prefers items unlike the user's own and less known "
        "ones; fairness gives the tail, which is the less popular half of the items, a least share of the places at "
        "the least cost. Textbook NDCG; places count by 1 / log2(rank + 1)."
    )
    return _prices(lab, report, "goals", models, GOALS, words)
