"""Tables 2 and 3 of the paper: what the data set is like, and what its explanations sound like."""

from __future__ import annotations

from dataclasses import asdict

from whyrank.data.describe import describe
from whyrank.lab.experiments.cache import Facts
from whyrank.lab.experiments.jobs import Job, experiment
from whyrank.lab.experiments.lab import Lab, plural
from whyrank.lab.experiments.published import published_for
from whyrank.lab.experiments.report import ExperimentReport


def jobs(lab: Lab) -> list[Job]:
    return []


@experiment("datasets", 1, jobs)
def write(lab: Lab, report: ExperimentReport) -> Facts:
    about = describe(lab.data)
    report.heading("The data set (paper, Tables 2 and 3)")
    rows = [
        ["users", f"{about.users:,}"],
        ["items", f"{about.items:,}"],
        ["explanations", f"{about.explanations:,}"],
        ["(user, item) pairs", f"{about.pairs:,}"],
        ["(user, item, explanation) triplets", f"{about.triplets:,}"],
        ["explanations per pair", f"{about.explanations_per_pair:.2f}"],
        ["density (x 10^-10)", f"{about.density * 1e10:,.2f}"],
    ]
    report.table(["", lab.name], rows, name="datasets")
    known = published_for(lab.data)
    if known:
        report.paragraph(f"These are the sizes of the paper's {known.name}; its figures stand beside ours.", note=True)
    tails = [("records per user", about.per_user), ("records per item", about.per_item)]
    tails.append(("triplets per explanation", about.per_explanation))
    cells = [
        [name, f"{t.median:g}", f"{t.mean:.1f}", f"{t.p90:g}", f"{t.largest:,}", f"{t.once:,}", f"{t.head_share:.0%}"]
        for name, t in tails
    ]
    headers = ["", "median", "mean", "90th percentile", "largest", "only once", "busiest 1% hold"]
    report.table(headers, cells, name="tails")
    said = [[text, f"{count:,}"] for text, count in about.most_said[:5]]
    report.table(["said most", "times"], said, name="most_said")
    report.table(["examples, drawn by how often they are said"], [[text] for text in about.examples], name="examples")
    parts = [(len(s.train_records), len(s.validation_records), len(s.test_records)) for s in lab.splits]
    report.paragraph(
        f"{plural(len(parts))}; the first has {parts[0][0]:,} training, {parts[0][1]:,} validation and "
        f"{parts[0][2]:,} test records (method {lab.splits[0].info['method']}, seed {lab.splits[0].info['seed']}).",
        note=True,
    )
    return asdict(about)
