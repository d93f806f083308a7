"""How well models rank under every protocol of the field: one table per protocol and data set, as Markdown.

    python benchmarks/protocols.py DATA... [--protocols pool,item,item-all,time,leave-last,small] [--models pop,counts]
        [--splits 2] [--trials 12] [--min-uses 5] [--min-user-pairs 3] [--columns user=0,item=1,explanation=2,time=3]

pool, item, item-all: random splits (70% training), and what is ranked for a pair. time: the latest 30% are the test.
leave-last: the last record of every user. small: samples of 200 to 2,000 records of whole users, `--repeats` splits of
each by hash, as a random split would have to keep nearly all of such records in training. With
`--trials`, every model with something to tune is tuned on validation of each split, under the protocol of the table,
with the same number of trials; otherwise models have their defaults. Models with mu have it chosen on validation of
every split either way. Seconds are those of the last fit.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import whyrank as wr
from whyrank.cli.app import parse_columns
from whyrank.evaluation.candidates import of_split
from whyrank.evaluation.comparison import Comparison, Row, test_ratio
from whyrank.evaluation.evaluator import evaluate
from whyrank.experiments.measures import choose_mu
from whyrank.experiments.spaces import SPACES, space_of
from whyrank.experiments.tuning import tune
from whyrank.training import Run

MODELS = "pop,userpop,itempop,counts,pitf,bper,profile"
PROTOCOLS = ("pool", "item", "item-all", "time", "leave-last", "small")
SHOWN = ("ndcg_paper", "ndcg", "recall", "ndcg_propensity")
SIZES = (200, 500, 1000, 2000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--protocols", default=",".join(PROTOCOLS))
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--trials", type=int, default=0)
    parser.add_argument("--min-uses", type=int, default=1)
    parser.add_argument("--min-user-pairs", type=int, default=1)
    parser.add_argument("--columns")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    protocols = arguments.protocols.split(",")
    if unknown := set(protocols) - set(PROTOCOLS):
        parser.error(f"unknown protocol {unknown.pop()}; use some of {', '.join(PROTOCOLS)}")
    for path in arguments.data:
        data = wr.read(path, columns=parse_columns(arguments.columns))
        if max(arguments.min_uses, arguments.min_user_pairs) > 1:
            data = data.filtered(user_pairs=arguments.min_user_pairs, explanation_uses=arguments.min_uses)
        print(f"\n## {path.parent.name}/{path.name}: {data!r}", flush=True)
        random = [protocol for protocol in protocols if protocol in ("pool", "item", "item-all")]
        if random:
            tables(wr.splits(data, arguments.splits, seed=arguments.seed), random, arguments)
        for method in ("time", "leave-last"):
            if method in protocols and data.time is not None:
                tables([data.split(seed=arguments.seed, method=method)], ["pool"], arguments, method)
            elif method in protocols:
                print(f"\n### {method}\nno times", flush=True)
        if "small" in protocols:
            small(data, arguments)


def tables(splits: Sequence[wr.Split], kinds: Sequence[Any], arguments: argparse.Namespace, title: str = "") -> None:
    """Fit every model to each split, and measure it under every kind of candidates."""
    found: dict[str, dict[str, Row]] = {kind: {} for kind in kinds}
    for name in arguments.models.split(","):
        for split in splits:
            for kind, model, seconds in fitted(name, split, kinds, arguments):
                row = found[kind].setdefault(name, Row(name, []))
                row.training_seconds.append(seconds)
                row.evaluations.append(evaluate(model, split, candidates=kind, items=False, threads=arguments.threads))
    for kind, rows in found.items():
        metric = "ndcg" if kind != "pool" else "ndcg_paper"
        ordered = sorted(rows.values(), key=lambda row: -row.mean(metric))
        result = Comparison(list(rows.values()), 10, ordered[min(1, len(ordered) - 1)].name, ratio=test_ratio(splits))
        print(f"\n### {title or kind}\n\n{result.markdown(SHOWN)}", flush=True)


def fitted(
    name: str, split: wr.Split, kinds: Sequence[Any], arguments: argparse.Namespace
) -> Iterator[tuple[Any, Any, float]]:
    """The model for every kind of candidates, with what validation chooses under it, and the seconds of its last fit.

    With defaults all kinds share a fit, and mu alone differs.
    """
    kind_of, run = wr.MODELS[name], Run(threads=arguments.threads)
    tuned = bool(arguments.trials) and name in SPACES
    first: Any = None
    model: Any = None
    seconds = 0.0
    for kind in kinds:
        settings: dict[str, Any] = {}
        if tuned:
            options = {"trials": arguments.trials, "threads": arguments.threads, "candidates": kind}
            settings = dict(tune(name, split, space_of(name, "tpe"), **options).parameters)
        if "mu" in kind_of.__dataclass_fields__ and "mu" not in settings:
            first = first or kind_of().fit(split.inner, run=run)
            part, among = of_split(split.inner, kind)
            settings["mu"] = choose_mu(first, part.test, arguments.threads, among)
        if model is None or tuned:
            begin = time.perf_counter()
            model = kind_of(**settings).fit(split, run=run)
            seconds = time.perf_counter() - begin
        elif "mu" in settings:
            model.mu = settings["mu"]
        yield kind, model, seconds


def small(data: wr.Triplets, arguments: argparse.Namespace) -> None:
    """Means over splits of small samples, each model against the best simple one."""
    names = arguments.models.split(",")
    print(f"\n### small samples: ndcg_paper@10 %, means of {arguments.repeats} splits\n")
    print(f"| records | {' | '.join(names)} |\n|---|{'--:|' * len(names)}", flush=True)
    for size, sample in samples(data, arguments.seed):
        values: dict[str, list[float]] = {name: [] for name in names}
        for split in wr.splits(sample, arguments.repeats, seed=arguments.seed, method="hash"):
            if not len(split.test_records) or not len(split.validation_records):
                continue
            for name in names:
                for _, model, _ in fitted(name, split, ["pool"], arguments):
                    found = evaluate(model, split, items=False, beyond_accuracy=False, threads=arguments.threads)
                    values[name].append(100 * found.explanation["ndcg_paper"])
        cells = [f"{np.mean(each):.2f}" if each else "-" for each in values.values()]
        print(f"| {size:,} | {' | '.join(cells)} |", flush=True)


def samples(data: wr.Triplets, seed: int) -> Iterator[tuple[int, wr.Triplets]]:
    """Records of whole users, so that a sample is as dense as the data."""
    order = np.random.default_rng(seed).permutation(len(data.users))
    place = np.argsort(order)[data.record_user]
    by_user = np.argsort(place, kind="stable")
    for size in SIZES:
        if size < data.records:
            yield size, wr.Triplets.from_frame(data.take(np.sort(by_user[:size])).frame())


if __name__ == "__main__":
    main()
