"""The paper's study of joint ranking: both tasks over alpha (figure), and what they gain from each other (Table 6)."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from whyrank.lab.experiments.cache import Facts
from whyrank.lab.experiments.curves import caption
from whyrank.lab.experiments.jobs import Job, experiment
from whyrank.lab.experiments.lab import Lab
from whyrank.lab.experiments.measures import STEPS
from whyrank.lab.experiments.plots import Curve, Panel, draw, over_splits
from whyrank.lab.experiments.published import published_for
from whyrank.lab.experiments.report import ExperimentReport
from whyrank.models import MODELS, Model

JOINT = ("bper-j", "cd-j", "pitf-j")
ITEMS_ONLY, OURS = "bpr", "profile-j"
Values = NDArray[np.float64]


def has_alpha(kind: type[Model]) -> bool:
    return kind.ranks_items and "alpha" in {each.name for each in dataclasses.fields(kind)} and kind.id != ITEMS_ONLY


def plain(name: str) -> str:
    """Return the same model without items."""
    return name.removesuffix("-j")


def _models(lab: Lab) -> list[str]:
    """Joint models with alpha whose plain form runs here, too."""
    return [name for name in lab.pick(JOINT, has_alpha) if plain(name) in MODELS and plain(name) not in lab.skipped]


def alpha_jobs(lab: Lab) -> list[Job]:
    models = _models(lab)
    found = [_job(name, split, alpha) for name in models for split in lab.numbers for alpha in STEPS]
    return found + [Job(plain(name), split) for name in models for split in lab.numbers]


def joint_jobs(lab: Lab) -> list[Job]:
    return alpha_jobs(lab) + [Job(name, split, "means") for name in _own(lab) for split in lab.numbers]


def _own(lab: Lab) -> list[str]:
    """Pick what ranks items without an alpha to choose: the plain recommender, and our own joint model."""
    return lab.pick([ITEMS_ONLY, OURS], lambda kind: kind.ranks_items and not has_alpha(kind))


def _job(name: str, split: int, alpha: float) -> Job:
    return Job(name, split, "means", (("alpha", alpha),))


def _curve(lab: Lab, name: str, part: str, metric: str) -> Values:
    """(splits, alphas), as fractions; NaN where there is no figure, as where no item was recommended rightly."""
    rows = [[lab.facts(_job(name, split, alpha))[part].get(metric, np.nan) for alpha in STEPS] for split in lab.numbers]
    return np.array(rows, np.float64)


def _mean(values: Values) -> Values:
    """Over the splits that have a figure."""
    return over_splits(np.nanmean, values)


def _cell(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.2f}"


def _separate(lab: Lab, name: str, metric: str) -> float:
    """Reasons of the model that learns them alone."""
    return float(np.mean([lab.facts(Job(plain(name), split))["explanation"][metric] for split in lab.numbers]))


# -- figure ------------------------------------------------------------------------------------------------------------


@experiment("alpha", 5, alpha_jobs)
def write_alpha(lab: Lab, report: ExperimentReport) -> Facts:
    report.heading("The weight alpha of the explanation task (paper, figure on alpha)")
    models = _models(lab)
    if not models:
        report.paragraph("None of the chosen models has alpha.")
        return {}
    panels, found = [], {}
    for name in models:
        reasons, rewarded, items = (
            100 * _curve(lab, name, part, "f1") for part in ("explanation", "on_recommended", "recommendation")
        )
        alone = 100 * _separate(lab, name, "f1")
        lines = [
            Curve("explanations, all pairs", STEPS, reasons, style=1),
            Curve("explanations, recommended (paper)", STEPS, rewarded, style=3),
        ]
        panels.append(
            Panel(
                lines,
                "alpha",
                "explanations: F1@10 (%)",
                name,
                level=("explanations, not joint", alone),
            )
        )
        panels.append(Panel([Curve("items", STEPS, items, style=0)], "alpha", "items: F1@10 (%)", name))
        found[name] = {"alpha": STEPS, "alone": alone, "explanation": _mean(reasons).tolist()}
        found[name] |= {"on_recommended": _mean(rewarded).tolist(), "recommendation": _mean(items).tolist()}
    words = (
        "F1 of both tasks over alpha; at alpha = 0 items are ranked by BPR. The paper measures explanations only on "
        "test pairs whose item was recommended; over all pairs they compare fairly with the dotted line."
    )
    report.picture("alpha", *draw("alpha", panels), caption(lab, words))
    return found


# -- table -------------------------------------------------------------------------------------------------------------

SCALES = {"explanation": 100, "on_recommended": 100, "recommendation": 1000}
COLUMNS = [(part, metric, scale) for part, scale in SCALES.items() for metric in ("ndcg_paper", "f1")]
HEADERS = ("explanations NDCG %", "F1 %", "on recommended NDCG %", "F1 %", "items NDCG ‰", "F1 ‰")


@experiment("joint", 6, joint_jobs)
def write_joint(lab: Lab, report: ExperimentReport) -> Facts:
    report.heading("Joint ranking of items and explanations (paper, Table 6)")
    models, found = _models(lab), {}
    rows: list[list[str]] = []
    for name in models:
        found[name] = _rows_of(lab, name)
        separate = found[name]["separate"]
        rows.append([f"{name}: separate tasks", *map(_cell, separate)])
        for label in ("best explanations", "best items"):
            cells = [_with_arrow(v, s) for v, s in zip(found[name][label], separate, strict=True)]
            alphas = ", ".join(f"{alpha:g}" for alpha in dict.fromkeys(found[name][label + " alpha"]))
            rows.append([f"{name}: {label}, alpha {alphas}", *cells])
        rows.append([f"{name}: improvement", *_improvements(found[name])])
    for name in _own(lab):
        results = [lab.facts(Job(name, split, "means")) for split in lab.numbers]
        columns = [[[facts[part].get(m, np.nan)] for facts in results] for part, m, _ in COLUMNS]
        values = [scale * float(_mean(np.array(c))[0]) for c, (*_, scale) in zip(columns, COLUMNS, strict=True)]
        if name == ITEMS_ONLY:  # its reasons are untrained
            found[name] = {"items": values[4:]}
            rows.append([f"{name}: items alone", *[""] * 4, *map(_cell, values[4:])])
        else:
            found[name] = {"joint": values}
            rows.append([f"{name}: joint (has no alpha)", *map(_cell, values)])
    if not rows:
        report.paragraph("None of the chosen models ranks items.")
        return {}
    report.table(["model", *HEADERS], rows, name="joint")
    report.paragraph(
        "Top 10. 'Separate' are the explanations of the model that learns them alone and the items at alpha = 0. "
        "Alpha is chosen on validation of every split, by NDCG of explanations (over all pairs) or of items; the rows "
        "are test figures. Arrows compare with the separate tasks. 'On recommended' counts only test pairs whose "
        "item was recommended, as the paper does; its separate row is over all pairs, also as the paper does, so "
        f"a gain there is partly one of easier pairs. {caption(lab)}",
        note=True,
    )
    _published(lab, found, report)
    return found


def _rows_of(lab: Lab, name: str) -> Facts:
    curves = [scale * _mean(_curve(lab, name, part, metric)) for part, metric, scale in COLUMNS]
    separate = [scale * _separate(lab, name, metric) for part, metric, scale in COLUMNS[:4]]
    separate += [float(curve[0]) for curve in curves[4:]]
    facts: Facts = {"separate": separate}
    for label, chosen_by in (("best explanations", "validation"), ("best items", "validation_items")):
        places = 1 + _curve(lab, name, chosen_by, "ndcg_paper")[:, 1:].argmax(
            1
        )  # of every split; alpha = 0 is not joint
        facts[label] = [
            scale * float(_mean(np.take_along_axis(_curve(lab, name, part, metric), places[:, None], 1))[0])
            for part, metric, scale in COLUMNS
        ]
        facts[label + " alpha"] = [STEPS[place] for place in places]
    return facts


def _improvements(facts: Facts) -> list[str]:
    """Return the gain of each task, at its own best, over the separate task."""
    best = [*facts["best explanations"][:4], *facts["best items"][4:]]
    pairs = zip(best, facts["separate"], strict=True)
    return ["-" if np.isnan(b) else f"{(b / s - 1) * 100:+.1f}%" if s else "inf" for b, s in pairs]


def _with_arrow(value: float, separate: float) -> str:
    if np.isnan(value):
        return _cell(value)
    if f"{value:.2f}" == f"{separate:.2f}":
        return f"{value:.2f} ↕"
    return f"{value:.2f} {'↑' if value > separate else '↓'}"


def _published(lab: Lab, found: Facts, report: ExperimentReport) -> None:
    known = published_for(lab.data)
    if known is None or not known.joint:
        return
    rows = []
    for name, theirs in known.joint.items():
        if name not in found:
            continue
        for label, row in zip(("separate", "best explanations", "best items"), theirs, strict=True):
            own = found[name][label]
            ours = [*(own[:2] if label == "separate" else own[2:4]), *own[4:]]
            rows.append([f"{name}: {label}", *(f"{t:.1f} / {o:.1f}" for t, o in zip(row, ours, strict=True))])
    report.paragraph(f"The paper's figures for {known.name} and ours (published / here):")
    headers = ["", "explanations NDCG %", "F1 %", "items NDCG ‰", "F1 ‰"]
    report.table(headers, rows, name="joint_published")
