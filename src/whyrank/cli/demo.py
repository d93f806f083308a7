"""Command: demo."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whyrank.cli.app import Json, Seed, Threads, command, console, counted, print_json

if TYPE_CHECKING:
    from whyrank.data.split import Split
    from whyrank.evaluation import Comparison
    from whyrank.models.base import Model

MODELS = ("rand", "pop", "counts", "rucf", "pitf", "bper", "profile")
SHOWN: dict[str, Any] = {"diversity": 0.3}  # no two reasons that say nearly the same


@command("demo", "whyrank demo -o demo")
def demo_command(
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for everything the demo writes.")] = Path(
        "demo"
    ),
    seed: Seed = 0,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Try everything on simulated reviews: mine, split, fit, compare, explain, report."""
    begin = time.perf_counter()
    step = _Steps(quiet=json)
    split = _data(output, seed, step)
    step.say("fit and compare (the first run compiles kernels, later ones find them in a cache)")
    result, model = _compare(split, threads)
    _save(output / "model", model, split, threads)
    if not json:
        console().print(result.verdict())
        console().print(result.table())
    cases = _cases(model, split)
    if not json:
        _show(model, cases)
    report = _report(output, split, result, model, cases)
    seconds = time.perf_counter() - begin
    if json:
        print_json({"seconds": seconds, "report": report, "model": output / "model", **result.as_dict()})
        return
    out = console()
    out.print(f"\nDone in {seconds:.0f} s. The report: {report}", style="bold")
    out.print("Next, with data of your own:")
    out.print("  whyrank mine your_reviews.jsonl.gz -o mined")
    out.print("  whyrank fit mined -o model")
    out.print("  whyrank explain model --pairs pairs.parquet -o reasons.parquet")
    user = cases[0][0]
    out.print(f"Or try more here: whyrank recommend {output / 'model'} --user {user}")


class _Steps:
    """Says what happens, one line a step."""

    def __init__(self, quiet: bool) -> None:
        self.out, self.quiet, self.number = console(), quiet, 0

    def say(self, text: str) -> None:
        self.number += 1
        if not self.quiet:
            self.out.print(f"{self.number}. {text}")


def _save(folder: Path, model: Model, split: Split, threads: int | None) -> None:
    """The model, with the figures that the page shows of it."""
    from whyrank.evaluation import evaluate
    from whyrank.lab.experiments.record import record

    model.save(folder, record(model, split.test, evaluate(model, split, threads=threads), threads))


def _data(output: Path, seed: int, step: _Steps) -> Split:
    """Reviews, mined into triplets, split."""
    from whyrank.data.tables import write_table
    from whyrank.lab.simulate import simulate_reviews
    from whyrank.mining import mine

    reviews = write_table(simulate_reviews("small", seed=seed), output / "reviews.jsonl.gz")
    step.say(f"simulate hotel reviews with planted preferences -> {reviews}")
    mined = mine(reviews)
    mined.write(output / "mined")
    step.say(f"mine {mined.explanations.height:,} statements from them -> {output / 'mined'}")
    split = mined.triplets.split(seed=seed)
    split.write(output / "split")
    step.say(f"split {counted(split.data)} as the paper does -> {output / 'split'}")
    return split


def _compare(split: Split, threads: int | None) -> tuple[Comparison, Model]:
    from whyrank.evaluation import compare
    from whyrank.models import DEFAULT
    from whyrank.models import MODELS as ALL
    from whyrank.training import Run

    run = Run(threads=threads)
    chosen = {name: ALL[name]() for name in MODELS}
    result = compare(chosen, split, baseline="bper", run=run)
    return result, ALL[DEFAULT]().fit(split, run=run)


def _cases(model: Model, split: Split) -> list[tuple[str, str, list[str]]]:
    """Three test pairs of users with something to say, with what they really said."""
    import numpy as np

    test = split.test
    sizes = test.record_explanations.sizes()
    activity = np.bincount(split.train.record_user, minlength=len(split.data.users))[test.record_user]
    chosen = np.lexsort((np.arange(len(sizes)), -activity, -np.minimum(sizes, 3)))
    _, first = np.unique(test.record_user[chosen], return_index=True)
    records = chosen[np.sort(first)][:3]
    return [
        (
            test.users.ids[int(test.record_user[record])],
            test.items.ids[int(test.record_item[record])],
            test.text_of(test.record_explanations.row(int(record))).to_list(),
        )
        for record in records
    ]


def _show(model: Model, cases: list[tuple[str, str, list[str]]]) -> None:
    from whyrank.cli.explain import show

    for user, item, truth in cases:
        title = f"{item} for {user}   (what the user wrote later: {'; '.join(truth)})"
        show(title, model.explain(user, item, 3, **SHOWN), scores=False, quotes=True)


def _report(
    output: Path, split: Split, result: Comparison, model: Model, cases: list[tuple[str, str, list[str]]]
) -> Path:
    from whyrank.lab.experiments.report import ExperimentReport

    report = ExperimentReport("whyrank: a demonstration", f"Simulated hotel reviews, mined into {counted(split.data)}.")
    report.summary(result.verdict())
    report.heading("Models compared").table(*result.cells()).paragraph(result.note(), note=True)
    report.heading("Reasons for three users")
    report.paragraph("In the order in which they are shown: the highest score first, one reason for each aspect.")
    for user, item, truth in cases:
        report.paragraph(f"{item} for {user}. What the user wrote later: {'; '.join(truth)}.")
        rows = [
            [
                reason.sentence,
                f"{reason.score:.2f}",
                str(reason.evidence.supporting),
                str(reason.evidence.opposing),
                str(reason.evidence.user_says),
            ]
            for reason in model.explain(user, item, 5, **SHOWN)
        ]
        report.table(["because", "score", "people who say so", "the opposite", "this user, of items"], rows)
    return report.write(output)
