"""How long Profile takes to train, its own race and early stop included, beside BPER with the paper's settings.

    python benchmarks/profile_speed.py SPLIT [--fits 5]       a folder that `whyrank split` has written
    python benchmarks/profile_speed.py amazon --fits 1        simulated data of that preset's size

Fits take turns. Prints the fastest and the median of each, and ndcg_paper@10 on test of one split, as a Markdown table.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median

import numpy as np

import whyrank as wr


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="a split folder, or a preset to simulate")
    parser.add_argument("--fits", type=int, default=5)
    chosen = parser.parse_args()
    folder = Path(chosen.data)
    split = wr.read_split(folder) if folder.is_dir() else wr.simulate(chosen.data, seed=0).split(seed=0)
    few = split.data.take(np.arange(min(500, split.data.records)))
    kinds = {"profile": wr.Profile, "bper": wr.BPER, "counts": wr.COUNTS}
    wr.Profile(epochs=1).fit(few)  # compiles
    wr.BPER(epochs=1).fit(few)
    seconds: dict[str, list[float]] = {name: [] for name in kinds}
    quality = {}
    for _ in range(chosen.fits):
        for name, kind in kinds.items():
            begin = time.perf_counter()
            model = kind().fit(split)
            seconds[name].append(time.perf_counter() - begin)
            if name not in quality:
                found = wr.evaluate(model, split, items=False, beyond_accuracy=False).explanation
                quality[name] = found["ndcg_paper"]
    print(f"| {folder.name}, {split.train.records:,} training records | fastest, s | median, s | NDCG@10 % |")
    print("|---|--:|--:|--:|")
    for name, taken in seconds.items():
        print(f"| {name} | {min(taken):.2f} | {median(taken):.2f} | {100 * quality[name]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
