"""How quick the ground is: importing, help, reading and interning. Best of several runs, each in a process of its own.

python benchmarks/foundation_speed.py [triplets.parquet]
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

READ = """
import resource, sys, time
begin = time.perf_counter()
import whyrank
triplets = whyrank.read(sys.argv[1])
views = triplets.user_explanations, triplets.item_explanations, triplets.user_items
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"{time.perf_counter() - begin:.2f} s, peak {peak:.0f} MB, {triplets!r}")
"""


def best(command: list[str], times: int = 5) -> float:
    seconds = []
    for _ in range(times):
        begin = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def main() -> None:
    empty = best([sys.executable, "-c", "pass"])
    print(f"python -c pass              {empty:.3f} s")
    print(f"python -c 'import whyrank'  {best([sys.executable, '-c', 'import whyrank']):.3f} s (limit 0.3)")
    print(f"whyrank --help              {best([sys.executable, '-m', 'whyrank', '--help']):.3f} s (limit 0.5)")
    for path in sys.argv[1:]:
        lines = [
            subprocess.run(
                [sys.executable, "-c", READ, path], check=True, capture_output=True, text=True
            ).stdout.strip()
            for _ in range(3)
        ]
        print(f"read, intern and index {Path(path).name}: {min(lines)} (limits 2 s, 500 MB)")


if __name__ == "__main__":
    main()
