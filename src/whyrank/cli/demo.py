"""Command: demo."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from whyrank.cli.app import Json, Seed, Threads, command, console, counted, print_json, print_text

if TYPE_CHECKING:
    from whyrank.data.split import Split
    from whyrank.evaluation import Comparison
    from whyrank.explain.reasons import Reason
    from whyrank.models.base import Model

MODELS = ("rand", "pop", "counts", "rucf", "pitf", "bper", "profile")
SHOWN: dict[str, Any] = {"diversity": 0.3}  # no two reasons that say nearly the same
CARDS, LOOKED_AT = 3, 60  # cards that are shown, test pairs among which they are chosen


class Card(NamedTuple):
    """A pair of the test part and the reasons that its user would see."""

    user: str
    item: str
    reasons: list[Reason]


@command("demo", "whyrank demo -o demo")
def demo_command(
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for everything the demo writes.")] = Path(
        "demo"
    ),
    seed: Seed = 0,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Try everything on simulated reviews: mine, split, fit, explain, compare, report."""
    from whyrank.models import DEFAULT
    from whyrank.models import MODELS as ALL
    from whyrank.training import Run

    begin, step = time.perf_counter(), _Steps(quiet=json)
    split = _data(output, seed, step)
    step.say(f"fit {DEFAULT} -> {output / 'model'} (the first run compiles kernels, later ones find them in a cache)")
    model = ALL[DEFAULT]().fit(split, run=Run(threads=threads))
    _save(output / "model", model, split, threads)
    cards = _cards(model, split)
    step.say("explain: what three customers would see under a hotel")
    if not json:
        _show(cards)
    step.say(f"compare {', '.join(MODELS)}: which finds what people really wrote later?")
    result = _compare(split, threads)
    report = _report(output, split, result, cards)
    if json:
        seconds = time.perf_counter() - begin
        print_json({"seconds": seconds, "report": report, "model": output / "model", **result.as_dict()})
        return
    out = console()
    out.print(result.verdict())
    out.print(result.table())
    out.print(f"\nDone in {time.perf_counter() - begin:.0f} s. The report: {report}", style="bold")
    out.print("Next:")
    for line in next_lines(output, cards[0]):
        out.print(f"  {line}", soft_wrap=True)


def next_lines(output: Path, card: Card) -> list[str]:
    """Return commands that run as they stand here, from the folder in which the demo was run."""
    run, at = (
        program(),
        {name: shlex.quote(str(output / name)) for name in ("model", "mined", "own", "reviews.jsonl.gz")},
    )
    return [
        f"{run} explain {at['model']} --user {card.user} --item {card.item}",
        f"{run} recommend {at['model']} --user {card.user}",
        f"{run} mine {at['reviews.jsonl.gz']} -o {at['mined']}  # or reviews of your own",
        f"{run} fit {at['mined']} -o {at['own']}",
    ]


def program() -> str:
    """Return what starts this program here: its name where that is on the path, otherwise its file."""
    own, found = Path(sys.executable).with_name("whyrank"), shutil.which("whyrank")
    if found and Path(found).parent.resolve() == own.parent.resolve():
        return "whyrank"
    if not own.is_file():
        return f"{shlex.quote(sys.executable)} -m whyrank"
    here = Path.cwd()
    return shlex.quote(str(own.relative_to(here) if own.is_relative_to(here) else own))


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


def _cards(model: Model, split: Split) -> list[Card]:
    """Return full cards of different users and items: with quotes, and with as few who disagree as possible."""
    pairs = split.test.frame().select("user", "item").unique(maintain_order=True)
    pairs = pairs.unique("user", keep="first", maintain_order=True).unique("item", keep="first", maintain_order=True)
    cards = [Card(user, item, model.explain(user, item, 3, **SHOWN)) for user, item in pairs.head(LOOKED_AT).rows()]
    return sorted(cards, key=_lacks)[:CARDS]


def _lacks(card: Card) -> tuple[int, int, int]:
    """Rank what a card lacks to be one that people would show: reasons, quotes, agreement."""
    quoted = sum(bool(reason.quotes) for reason in card.reasons)
    return -len(card.reasons), -quoted, sum(reason.evidence.opposing for reason in card.reasons)


def _show(cards: list[Card]) -> None:
    from whyrank.cli.explain import show

    for card in cards:
        print_text("")
        show(f"{card.item} for {card.user}", card.reasons, scores=False, quotes=True)
    print_text("")


def _compare(split: Split, threads: int | None) -> Comparison:
    from whyrank.evaluation import compare
    from whyrank.models import MODELS as ALL
    from whyrank.training import Run

    chosen = {name: ALL[name]() for name in MODELS}
    return compare(chosen, split, baseline="bper", run=Run(threads=threads))


def _report(output: Path, split: Split, result: Comparison, cards: list[Card]) -> Path:
    from whyrank.cli.cards import counted as said_by
    from whyrank.lab.experiments.report import ExperimentReport

    report = ExperimentReport("whyrank: a demonstration", f"Simulated hotel reviews, mined into {counted(split.data)}.")
    report.heading("What three customers would see")
    for card in cards:
        rows = [[each.sentence, _quote(each), said_by(each)] for each in card.reasons]
        report.paragraph(f"{card.item} for {card.user}").table(["because", "in people's words", "who says it"], rows)
    report.heading("Which model finds what people really wrote").paragraph(result.verdict())
    report.table(*result.cells()).paragraph(result.note(), note=True)
    return report.write(output)


def _quote(reason: Reason) -> str:
    return f"“{reason.quotes[0]['text']}”" if reason.quotes else ""
