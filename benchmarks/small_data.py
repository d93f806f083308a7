"""Is Profile below simple models where there are few records? Samples of 200 to 2,000 records, many splits of each.

    python benchmarks/small_data.py DATA [--samples 10] [--repeats 20] [--models profile,counts,pop] [--min-uses 5]
        [--min-user-pairs 3] [--columns user=0,item=1,explanation=2,time=3]

A sample has the records of whole users, so that it is as dense as the data; no two samples have the same users first.
Splits are by hash, as a random one would have to put nearly all of such records into training. All models have their
defaults, mu included. One row per sample: ndcg_paper@10 as means over splits, Profile against COUNTS and against the
best of the others; then the means of the samples and the worst of them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import whyrank as wr
from whyrank.cli.app import parse_columns
from whyrank.training import Run

MODELS = "profile,counts,pop,userpop,itempop"
SIZES = (200, 400, 700, 1200, 2000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--min-uses", type=int, default=1)
    parser.add_argument("--min-user-pairs", type=int, default=1)
    parser.add_argument("--columns")
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    data = wr.read(arguments.data, columns=parse_columns(arguments.columns))
    if max(arguments.min_uses, arguments.min_user_pairs) > 1:
        data = data.filtered(user_pairs=arguments.min_user_pairs, explanation_uses=arguments.min_uses)
    names = arguments.models.split(",")
    print(f"{arguments.data.parent.name}: ndcg_paper@10 %, means of {arguments.repeats} splits\n")
    print(f"| records | {' | '.join(names)} | over COUNTS % | of the best simple |\n|--:|{'--:|' * (len(names) + 2)}")
    rows = []
    for number in range(arguments.samples):
        part = sample(data, SIZES[number % len(SIZES)], number)
        means = measured(part, names, arguments)
        best = max(value for name, value in means.items() if name != "profile")
        rows.append((100 * (means["profile"] / means["counts"] - 1), means["profile"] / best))
        cells = " | ".join(f"{means[name]:.2f}" for name in names)
        print(f"| {part.records:,} | {cells} | {rows[-1][0]:+.1f} | {rows[-1][1]:.3f} |", flush=True)
    over, of_best = zip(*rows, strict=True)
    print(f"\nmean over COUNTS {np.mean(over):+.1f}%; worst against the best simple model {min(of_best):.3f}")


def measured(part: wr.Triplets, names: list[str], arguments: argparse.Namespace) -> dict[str, float]:
    """Means over splits that have something in every part."""
    values: dict[str, list[float]] = {name: [] for name in names}
    for split in wr.splits(part, arguments.repeats, method="hash"):
        if len(split.test_records) and len(split.validation_records):
            for name in names:
                model = wr.MODELS[name]().fit(split, run=Run(threads=arguments.threads))
                found = wr.evaluate(model, split, items=False, beyond_accuracy=False, threads=arguments.threads)
                values[name].append(100 * found.explanation["ndcg_paper"])
    return {name: float(np.mean(each)) for name, each in values.items()}


def sample(data: wr.Triplets, size: int, seed: int) -> wr.Triplets:
    order = np.random.default_rng(seed).permutation(len(data.users))
    by_user = np.argsort(np.argsort(order)[data.record_user], kind="stable")
    return wr.Triplets.from_frame(data.take(np.sort(by_user[:size])).frame())


if __name__ == "__main__":
    main()
