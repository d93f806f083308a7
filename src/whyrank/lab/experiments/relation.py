"""Section 4.4 of the paper in numbers: BPER is a CD, PITF is a BPER, and where the printed equation errs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from whyrank.data.split import Split
from whyrank.lab.experiments.cache import Facts, Result
from whyrank.lab.experiments.jobs import Job, experiment
from whyrank.models import BPER, CD, PITF, Model

if TYPE_CHECKING:
    from whyrank.lab.experiments.lab import Lab
    from whyrank.lab.experiments.report import ExperimentReport

PAIRS, TOP = 200, 10
Scores = NDArray[np.float64]


def jobs(lab: Lab) -> list[Job]:
    return [Job(name, 0, "relation") for name in lab.pick(["bper", "pitf", "bper+"], has_relation)]


@experiment("relation", 8, jobs)
def write(lab: Lab, report: ExperimentReport) -> Facts:
    """Write a row per claim: the largest difference of scores, and how far the top lists agree."""
    chosen = jobs(lab)
    report.heading("Relations between the models (paper, Section 4.4)")
    if not chosen:
        report.paragraph("None of the chosen models takes part in a relation; use bper, pitf or bper+.")
        return {}
    claims: list[Facts] = [claim for job in chosen for claim in lab.facts(job)["claims"]]
    rows = [
        [c["claim"], f"{c['difference']:.1e}", f"{c['scale']:.2f}", f"{c['overlap'] * 100:.1f} %", c["verdict"]]
        for c in claims
    ]
    headers = ["claim", "largest difference of scores", "spread of scores", f"same top {TOP}", "holds"]
    report.table(headers, rows, name="relation")
    report.paragraph(
        f"Checked on {PAIRS} test pairs against the whole pool with fitted models. Scores are single precision; "
        "differences at the level of 1e-6 of the spread are rounding. The equation that writes BPER as CD is wrong as "
        "printed: mu and 1 - mu stand in the slots that the other side leaves and multiply on every coordinate, so "
        "that both sides get the weight mu (1 - mu). With ones in those slots it holds.",
        note=True,
    )
    return {"claims": claims}


def has_relation(kind: type[Model]) -> bool:
    return hasattr(kind, "as_cd") or hasattr(kind, "as_bper")


def ask_relation(model: Model, split: Split, threads: int | None) -> Result:
    """Compare the scores of the model's other forms on test pairs."""
    users, items = split.test.record_user[:PAIRS], split.test.record_item[:PAIRS]
    own, claims = scores(model, users, items), []
    if hasattr(model, "as_cd"):
        claims.append(
            _claim(f"{model.id} = CD with 2d + 2 factors, corrected", own, scores(model.as_cd(), users, items))
        )
    if isinstance(model, BPER):
        printed = scores(printed_cd(model), users, items)
        claims.append(_claim(f"{model.id} = CD with 2d + 2 factors, as printed", own, printed))
    if isinstance(model, PITF):
        halved = scores(model.as_bper(), users, items)
        claims.append(_claim("pitf = 2 x BPER with mu = 0.5 and no biases", own, 2 * halved))
    return Result({"claims": claims})


def scores(model: Model, users: NDArray[np.int32], items: NDArray[np.int32]) -> Scores:
    """Score every explanation, one row per pair; for models without a bonus."""
    return model.queries(users, items).astype(np.float64) @ model.keys().astype(np.float64).T


def printed_cd(model: BPER) -> CD:
    """BPER as CD by the equation as it is printed."""
    cd, mu, rest, d = model.as_cd(), np.float32(model.mu), np.float32(1 - model.mu), model.factors
    user = np.full((len(model.user_factors_), 2 * d + 2), mu)
    user[:, :d] = mu * model.user_factors_
    item = np.full((len(model.item_factors_), 2 * d + 2), rest)
    item[:, d : 2 * d] = rest * model.item_factors_
    vars(cd).update(user_factors_=user, item_factors_=item)
    return cd


def _claim(claim: str, ours: Scores, theirs: Scores) -> Facts:
    difference, scale = float(np.abs(ours - theirs).max()), float(ours.std())
    tops = (np.argsort(-each, axis=1, kind="stable")[:, :TOP] for each in (ours, theirs))
    shared = [len(np.intersect1d(a, b)) / len(a) for a, b in zip(*tops, strict=True)]
    verdict = "yes" if difference <= 1e-5 * max(scale, 1e-9) else "no"
    overlap = float(np.mean(shared))
    return {"claim": claim, "difference": difference, "scale": scale, "overlap": overlap, "verdict": verdict}
