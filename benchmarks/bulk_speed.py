"""Reasons in bulk: `whyrank explain MODEL --pairs` on millions of pairs, in a process of its own.

    python benchmarks/bulk_speed.py                          # 10 M pairs, BPER on `simulate yelp`, 3 reasons a pair
    python benchmarks/bulk_speed.py small --pairs 100000 --model profile-j

Prints pairs a second, peak memory of the process and the size of the output. One pair in a hundred has an unknown user.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import whyrank as wr


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", nargs="?", default="yelp")
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--model", default="bper")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--n", type=int, default=3)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), chosen), indent=1))


def measure(folder: Path, chosen: argparse.Namespace) -> dict[str, object]:
    data = wr.simulate(chosen.preset, seed=0)
    wr.MODELS[chosen.model](epochs=chosen.epochs).fit(data).save(folder / "model")
    draw_pairs(data, chosen.pairs).write_parquet(folder / "pairs.parquet")
    command = [sys.executable, "-m", "whyrank", "explain", folder / "model", "--pairs", folder / "pairs.parquet"]
    command += ["-o", folder / "reasons.parquet", "-n", str(chosen.n), "--json"]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    printed = process.stdout.read() if process.stdout else b""
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        raise SystemExit(f"explain failed with {status}")
    report = json.loads(printed)
    return {
        "preset": chosen.preset,
        "model": chosen.model,
        "pairs": report["pairs"],
        "reasons": report["reasons"],
        "statuses": report["statuses"],
        "seconds": round(seconds, 1),
        "pairs_per_second": round(report["pairs"] / seconds),
        "peak_memory_mb": round(used.ru_maxrss / 1e3),
        "output_mb": round((folder / "reasons.parquet").stat().st_size / 1e6),
    }


def draw_pairs(data: wr.Triplets, count: int) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    users, items = (rng.integers(0, len(ids), count) for ids in (data.users, data.items))
    names = data.users.ids.gather(users)
    unknown = pl.Series(rng.random(count) < 0.01)
    frame = pl.DataFrame({"user": names, "item": data.items.ids.gather(items), "unknown": unknown})
    return frame.select(pl.when("unknown").then(pl.lit("nobody")).otherwise("user").alias("user"), "item")


if __name__ == "__main__":
    main()
