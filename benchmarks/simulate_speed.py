"""How long a preset takes to simulate, and how much memory: python benchmarks/simulate_speed.py yelp"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time

from whyrank.lab.simulate import simulate_reviews
from whyrank.lab.simulate.triplets import PRESETS, simulate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("preset", nargs="?", default="yelp", choices=list(PRESETS))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--reviews", action="store_true", help="simulate the reviews instead")
    arguments = parser.parse_args()
    make = simulate_reviews if arguments.reviews else simulate
    walls, cpus = [], []
    for seed in range(arguments.repeat):
        wall, cpu = time.perf_counter(), time.process_time()
        make(arguments.preset, seed=seed)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    report = {
        "preset": arguments.preset,
        "reviews": arguments.reviews,
        "seconds": round(min(walls), 2),
        "cpu_seconds": round(min(cpus), 2),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
