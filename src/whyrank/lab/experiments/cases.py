"""Table 5 of the paper: what users said about single items beside what models would have shown."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.data.triplets import Triplets
from whyrank.errors import ParameterError
from whyrank.lab.experiments.cache import Facts
from whyrank.lab.experiments.jobs import Job, experiment
from whyrank.lab.experiments.lab import Lab
from whyrank.lab.experiments.report import ExperimentReport

MODELS = ("pitf", "bper", "bper+", "profile")
TOP = 5
MARK = "✓ "
Records = NDArray[np.int64]


def jobs(lab: Lab) -> list[Job]:
    return [Job(name, 0) for name in lab.pick(MODELS)]


@experiment("cases", 7, jobs)
def write(lab: Lab, report: ExperimentReport) -> Facts:
    report.heading("Single cases (paper, Table 5)")
    models = lab.pick(MODELS)
    test = lab.splits[0].test
    chosen = _given(lab, test) if lab.pairs else _sampled(lab, test)
    cases = []
    for number, (kind, record) in enumerate(chosen, 1):
        user, item = test.users.ids[int(test.record_user[record])], test.items.ids[int(test.record_item[record])]
        truth = test.record_explanations.row(record)
        columns = {"the user said": test.text_of(truth).to_list()}
        for name in models:
            shown = lab.result(Job(name, 0)).arrays["lists"][record, :TOP].astype(np.int32)
            shown = shown[shown >= 0]
            marks = (MARK if number in truth else "" for number in shown)
            columns[name] = [f"{m}{text}" for m, text in zip(marks, test.text_of(shown).to_list(), strict=True)]
        rating = "" if test.rating is None or np.isnan(test.rating[record]) else f", rated {test.rating[record]:g}"
        title = f" ({lab.titles[item]})" if item in lab.titles else ""
        report.paragraph(f"Case {number}, {kind}: item {item}{title} for user {user}{rating}.")
        depth = max(map(len, columns.values()))
        rows = [[texts[place] if place < len(texts) else "" for texts in columns.values()] for place in range(depth)]
        marked = [[text.startswith(MARK) for text in row] for row in rows]
        report.table(list(columns), rows, marked, name=f"case_{number}")
        cases.append({"kind": kind, "user": user, "item": item, **columns})
    how = "given" if lab.pairs else "drawn by a fixed seed among the test pairs of the first split"
    words = f"{lab.name}; top {TOP}; the pairs were {how}; {MARK.strip()} marks what the user did say."
    report.paragraph(words, note=True)
    return {"cases": cases}


def _given(lab: Lab, test: Triplets) -> list[tuple[str, int]]:
    found = []
    for user, item in lab.pairs:
        numbers = [v.numbers([each], missing="negative")[0] for v, each in ((test.users, user), (test.items, item))]
        records = np.flatnonzero((test.record_user == numbers[0]) & (test.record_item == numbers[1]))
        if not len(records):
            raise ParameterError(f"({user}, {item}) is not a test pair of the first split; choose one that is")
        found.append(("chosen", int(records[0])))
    return found


def _sampled(lab: Lab, test: Triplets) -> list[tuple[str, int]]:
    """Draw a pair that the user liked and one that the user did not, with two explanations or more where there are."""
    liked, disliked = _opinions(lab, test)
    rng = np.random.default_rng(0)
    found = []
    for kind, records in (("recommendation", liked), ("disrecommendation", disliked)):
        several = records[test.record_explanations.sizes()[records] > 1]
        if len(records):
            found.append((kind, int(rng.choice(several if len(several) else records))))
    return found or [("drawn", int(rng.integers(test.records)))]


def _opinions(lab: Lab, test: Triplets) -> tuple[Records, Records]:
    """Records by rating; by the sentiment of what was said where there are no ratings."""
    if test.rating is not None and not np.isnan(test.rating).all():
        low, high = np.nanmin(test.rating), np.nanmax(test.rating)
        span = high - low
        return np.flatnonzero(test.rating >= high - 0.2 * span), np.flatnonzero(test.rating <= low + 0.3 * span)
    sentiment = Catalog.of(lab.splits[0].training).sentiment[test.explanation]
    record = test.record_explanations.rows_of_entries()
    least, most = np.full(test.records, np.inf), np.full(test.records, -np.inf)
    np.minimum.at(least, record, sentiment)
    np.maximum.at(most, record, sentiment)
    return np.flatnonzero(least > 0), np.flatnonzero(most < 0)
