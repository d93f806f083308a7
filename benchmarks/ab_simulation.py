"""How often experiments are decided wrongly when somebody looks at them a hundred times.

    python benchmarks/ab_simulation.py --tests 10000 --looks 100 --seed 0

Every test has two arms of people who come back (some often), each with a rate of their own, so that lists of one person
are alike. After every hundredth part of the lists the interval is computed by the code that `whyrank ab results` uses.
A/A: the arms are alike; a false alarm is a test in which any of the looks excludes "no difference". A/B: the second arm
has more clicks; a test is covered if the truth is inside the intervals at all of its looks, difference and uplift each.
For comparison the share of false alarms of a usual 95% interval (z-test at every look) is printed.
"""

# ruff: noqa: NPY002 - kernels have the older functions only

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from whyrank.online.results import FEWEST, FEWEST_ACTIVE
from whyrank.online.statistics import Moments, adjusted_rates, compared, widening

Real = NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """People: how many enter each arm, how often they come, what they click on average and how far they differ."""

    name: str
    users: int  # of one arm, at the end
    visits: float  # lists of a user, on average, spread over the time after they entered
    rate: float
    spread: float  # beta distribution of users' rates: its a + b; smaller means that people differ more
    uplift: float = 0.0
    early: float = 0.0  # share of users who are there from the beginning
    history: float = 0.0  # lists before the experiment, on average


WORLDS = (
    World("once, 10%", 5_000, 1, 0.10, 20),
    World("come back, 10%", 2_000, 5, 0.10, 5),
    World("same people, 20%", 1_000, 20, 0.20, 5, early=1.0),
    World("rare clicks, 1%", 5_000, 2, 0.01, 50),
    World("with history (CUPED)", 2_000, 5, 0.10, 3, history=10),
)


@njit(cache=True)  # type: ignore[untyped-decorator]
def fill(sums: Real, seed: int, rate: float, truth: float, world: tuple[float, ...]) -> None:
    """Sums over users at every look, of one arm: sums[sum, test, look]. Only changes are added up, then cumulated."""
    users, visits, spread, early, history = world
    tests, looks = sums.shape[1:]
    np.random.seed(seed)
    lists = np.zeros(looks, np.int64)
    for test in range(tests):
        for user in range(int(users)):
            enter = int(user * looks / users * (1 - early))
            person = np.random.beta(rate * spread, (1 - rate) * spread)
            x = 0.0
            if history:
                before = np.random.poisson(history)
                x = (np.random.binomial(before, person * truth / rate) - truth * before) / history
            lists[enter] += 1
            length = looks - enter
            more = np.random.poisson(np.random.gamma(2.0, 0.5) * (visits - 1) * 2 * length / looks / (1 + early))
            for _ in range(more):
                lists[enter + np.random.randint(length)] += 1
            c, n = 0.0, 0.0
            for name, value in ((0, 1.0), (6, x), (7, x * x)):
                sums[name, test, enter] += value
            for look in range(enter, looks):
                if lists[look]:
                    dn, dc = lists[look], float(np.random.binomial(lists[look], person))
                    lists[look] = 0
                    sums[1, test, look] += dc
                    sums[2, test, look] += dn
                    sums[3, test, look] += (c + dc) ** 2 - c**2
                    sums[4, test, look] += (c + dc) * (n + dn) - c * n
                    sums[5, test, look] += (n + dn) ** 2 - n**2
                    sums[8, test, look] += dc * x
                    sums[9, test, look] += dn * x
                    sums[10, test, look] += c == 0 and dc > 0
                    c, n = c + dc, n + dn


def simulate(world: World, tests: int, looks: int, arm: int, seed: int) -> tuple[Moments, NDArray[np.bool_]]:
    """Sums over users at every look, tests x looks, of one arm; and whether there is enough for an interval."""
    sums = np.zeros((len(Moments._fields) + 1, tests, looks))
    sizes = (float(world.users), float(world.visits), float(world.spread), float(world.early), float(world.history))
    fill(sums, seed, world.rate * (1 + world.uplift * arm), world.rate, sizes)
    *known, active = np.cumsum(sums, axis=2)
    return Moments(*known), (known[0] >= FEWEST) & (active >= FEWEST_ACTIVE)


def play(
    world: World, tests: int, looks: int, seeds: np.random.SeedSequence, planned: float, part: int
) -> dict[str, float]:
    """Shares of tests with a false alarm, with all intervals right, and decided."""
    truth = world.rate * world.uplift
    found = {"alarm": 0, "covers_difference": 0, "covers_uplift": 0, "decided": 0, "usual_alarm": 0}
    for start in range(0, tests, part):
        count = min(part, tests - start)
        first, second = (int(each.generate_state(1)[0]) for each in seeds.spawn(2))
        a, enough = simulate(world, count, looks, 0, first)
        b, enough_too = simulate(world, count, looks, 1, second)
        ready = enough & enough_too
        rates, _ = adjusted_rates([a, b])
        seen = compared(*rates, widening(a.n + b.n, planned, 0.05))
        usual = compared(*rates, 1.96**2)
        inside = (seen.low <= truth) & (truth <= seen.high)
        ratio = np.isnan(seen.uplift_low) | ((seen.uplift_low <= world.uplift) & (world.uplift <= seen.uplift_high))
        found["covers_difference"] += int((inside | ~ready).all(1).sum())
        found["covers_uplift"] += int((ratio | ~ready).all(1).sum())
        found["decided"] += int((((seen.low > 0) | (seen.high < 0)) & ready).any(1).sum())
        found["usual_alarm"] += int((((usual.low > truth) | (usual.high < truth)) & ready).any(1).sum())
    found["alarm"] = tests - found["covers_difference"]
    return {name: value / tests for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tests", type=int, default=10_000)
    parser.add_argument("--looks", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--uplift", type=float, default=0.1)
    parser.add_argument("--planned", type=float, default=10_000)
    parser.add_argument("--part", type=int, default=500, help="tests in memory at once")
    parser.add_argument("--worlds", default=",".join(str(at) for at in range(1, len(WORLDS) + 1)))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = []
    for number in map(int, given.worlds.split(",")):
        for uplift in (0.0, given.uplift):
            begin = time.perf_counter()
            world = World(**{**vars(WORLDS[number - 1]), "uplift": uplift})
            seeds = np.random.SeedSequence([given.seed, number, int(uplift > 0)])
            made = play(world, given.tests, given.looks, seeds, given.planned, given.part)
            rows.append({"world": world.name, "uplift": uplift, **made, "seconds": time.perf_counter() - begin})
            if not given.json:
                shown = ", ".join(f"{name} {value:.2%}" for name, value in made.items())
                print(f"{world.name}, uplift {uplift:.0%}: {shown} ({rows[-1]['seconds']:.0f} s)", flush=True)
    if given.json:
        print(json.dumps({"tests": given.tests, "looks": given.looks, "seed": given.seed, "rows": rows}))
    wrong = [
        row
        for row in rows
        if min(row["covers_difference"], row["covers_uplift"]) < 0.94 or (not row["uplift"] and row["alarm"] > 0.05)
    ]
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
