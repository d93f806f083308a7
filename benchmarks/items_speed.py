"""Items in bulk: the items alone beside implicit's `recommend`, and items with reasons through the command line.

    python benchmarks/items_speed.py                                   # 3,397 users, 7,333 items; both parts
    python benchmarks/items_speed.py --users 1000000 --items 100000 --peer-users 10000 --models bper-j profile-j

    python benchmarks/items_speed.py --users 1000000 --items 100000 --folder FOLDER --only-fit   # then without it

implicit gets our factors, so that both answer the same question; ratios are from one run, the first call of each is not
counted. The command writes 10 items with 3 grounded reasons each, evidence on, sentences off.
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

import whyrank as wr
from whyrank.explain.rank import rank_items

N = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=3397)
    parser.add_argument("--items", type=int, default=7333)
    parser.add_argument("--explanations", type=int, default=5000)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--models", nargs="+", default=["bper-j"])
    parser.add_argument("--peer-users", type=int, default=None, help="users of the comparison; all unless given")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="keep models here for the next run")
    parser.add_argument("--only-fit", action="store_true", help="fit models into the folder, measure nothing")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        for name in chosen.models:
            saved = fitted(name, chosen, folder)
            if not chosen.only_fit:
                beside_implicit(name, wr.load(saved), chosen.peer_users or chosen.users, chosen.repeat)
                through_the_command_line(name, saved, folder / "items.parquet")


def fitted(name: str, chosen: argparse.Namespace, folder: Path) -> Path:
    """The folder of a model of the sizes asked for, fitted unless it is there."""
    saved = folder / f"{name}-{chosen.users}-{chosen.items}-{chosen.explanations}-{chosen.epochs}"
    if not saved.is_dir():
        data = wr.simulate(
            "tripadvisor",
            users=chosen.users,
            items=chosen.items,
            explanations=chosen.explanations,
            records=6 * chosen.users,
            triplets=12 * chosen.users,
        )
        quick = {"epochs": 1, "item_epochs": 1, "refit": False}  # how well it ranks does not matter here
        wr.MODELS[name](**(quick if name == "profile-j" else {"epochs": chosen.epochs})).fit(data).save(saved)
    return saved


def beside_implicit(name: str, model: wr.Model, count: int, repeat: int) -> None:
    """Print the seconds of both, the ratio, and how many items are the same."""
    from implicit.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix

    catalog = model.catalog_
    users = np.arange(min(count, len(catalog.users)), dtype=np.int32)
    keys, queries, seen = model.item_keys(), model.item_queries(users), catalog.user_items.take(users)
    peer = AlternatingLeastSquares(factors=keys.shape[1], num_threads=os.cpu_count() or 1)
    peer.user_factors, peer.item_factors = np.ascontiguousarray(queries), np.ascontiguousarray(keys)
    known = csr_matrix((np.ones(len(seen.indices), np.float32), seen.indices, seen.indptr), (len(users), len(keys)))
    best = [float("inf"), float("inf")]
    for turn in range(repeat + 1):
        begin = time.perf_counter()
        ours = rank_items(model, users, N).numbers
        between = time.perf_counter()
        theirs, _ = peer.recommend(users, known, N=N, filter_already_liked_items=True)
        end = time.perf_counter()
        if turn:
            best = [min(best[0], between - begin), min(best[1], end - between)]
    print(
        f"{name}: {len(users):,} users x {len(keys):,} items x {N}: whyrank {best[0]:.3f} s, "
        f"implicit {best[1]:.3f} s, ratio {best[1] / best[0]:.1f}, the same items {np.mean(ours == theirs):.2%}",
        flush=True,
    )


def through_the_command_line(name: str, model: Path, output: Path) -> None:
    """Print what `whyrank recommend MODEL --users all` takes in a process of its own."""
    command = [sys.executable, "-m", "whyrank", "recommend", model, "--users", "all"]
    command += ["-o", output, "-n", str(N), "--reasons", "3", "--no-sentences", "--json"]
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    printed = process.stdout.read() if process.stdout else b""
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    if status:
        raise SystemExit(f"recommend failed with {status}")
    report = json.loads(printed)
    print(
        f"{name}: recommend --users all: {report['users']:,} users, {report['items']:,} items, "
        f"{report['reasons']:,} reasons in {seconds:.1f} s "
        f"({used.ru_utime + used.ru_stime:.1f} s of processors), peak {used.ru_maxrss / 1e6:.1f} GB, "
        f"{output.stat().st_size / 1e6:.0f} MB",
        flush=True,
    )


if __name__ == "__main__":
    main()
