"""Run every benchmark and keep what it printed in benchmarks/output/.

    python benchmarks/run_all.py [triplets.parquet] [reviews.jsonl.gz]

The first file holds triplets, the second reviews; benchmarks that need one are left out without it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PLAIN = ("foundation_speed", "service_load", "ray_speed")
WITH_TRIPLETS = ("training_speed", "ranking_speed")
WITH_REVIEWS = ("mining_speed",)


def main() -> None:
    files = [Path(argument) for argument in sys.argv[1:]]
    triplets = [str(path) for path in files if ".parquet" in path.suffixes]
    reviews = [str(path) for path in files if ".jsonl" in path.suffixes]
    calls = [(name, triplets if name == "foundation_speed" else []) for name in PLAIN]
    calls += [(name, triplets) for name in WITH_TRIPLETS if triplets]
    calls += [(name, reviews) for name in WITH_REVIEWS if reviews]
    (HERE / "output").mkdir(exist_ok=True)
    for name, arguments in calls:
        print(f"== {name}", flush=True)
        done = subprocess.run([sys.executable, str(HERE / f"{name}.py"), *arguments], capture_output=True, text=True)
        text = done.stdout + (f"\nfailed with exit code {done.returncode}\n{done.stderr}" if done.returncode else "")
        (HERE / "output" / f"{name}.txt").write_text(text)
        print(text, flush=True)


if __name__ == "__main__":
    main()
