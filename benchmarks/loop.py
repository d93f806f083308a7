"""The loop, on people whose tastes are known.

    python benchmarks/loop.py [clicks] [gate] [harm] [speed] [--runs 100] [--seeds 3]

clicks  From a model of reviews, through 100,000 exposures of drawn lists, to what is learned from them: 20,000 lists
        of the first model, then 80,000 of what the gate let through. Clicks per list without further drawing, as a
        share of what a policy gets that knows everybody.
gate    Runs with feedback that misleads, on five worlds: random clicks, clicks by position, clicks on what
        nobody likes until the newest lists, and a tenth of the people who click what nobody likes. How many models
        pass that are truly worse by 2% or more.
harm    The gate alone: models whose scores are disturbed, on honest logs of 3,000 lists.
speed   A million exposures joined, estimated and learned from.

The world and its seeds are those of `whyrank.simulate_people`, committed before anything was learned.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import whyrank as wr
from whyrank.explain.rank import rank
from whyrank.explain.topics import groups_of
from whyrank.index._grounded import ListRules, first_that_fit
from whyrank.lab.simulate import SimulatedPeople
from whyrank.lab.simulate.log import log_of, simulate_log, together
from whyrank.models.learned import Correction, with_correction
from whyrank.online.estimate import estimate
from whyrank.online.learn import CONFIDENCE, MARGIN, learn
from whyrank.online.propensity import Policy
from whyrank.online.reactions import learn_reactions
from whyrank.online.rewards import lists_of

N, DRAWN = 3, wr.Options(explore=2.0, epsilon=0.1)
Feedback = Callable[..., NDArray[np.bool_]]


def world(seed: int) -> tuple[SimulatedPeople, wr.Model]:
    people = wr.simulate_people(users=1000, items=100, explanations=300, records=20_000, seed=seed)
    return people, wr.Profile(seed=0).fit(people.triplets)


def clicks(people: SimulatedPeople, model: wr.Model, options: wr.Options | None = None, visits: int = 20_000) -> float:
    """Per list, exactly, over many visits."""
    users, items = people.visits(visits, np.random.default_rng(999))
    lists = rank(model, users, items, N, options or wr.Options()).numbers
    return float(people.expected_clicks(users, items, lists).mean())


def oracle(people: SimulatedPeople, model: wr.Model, visits: int = 20_000) -> float:
    """What a policy gets that knows everybody, among what the options allow."""
    users, items = people.visits(visits, np.random.default_rng(999))
    catalog = model.catalog_
    everything = wr.Options(per_aspect=0, consistent=False)
    numbers = rank(model, users, items, len(catalog.explanations), everything).numbers
    inside = numbers >= 0
    appeal = np.where(inside, people.appeal(users[:, None], items[:, None], np.maximum(numbers, 0)), -1.0)
    order = np.argsort(-appeal, axis=1, kind="stable")
    sorted_ = np.take_along_axis(numbers, order, 1).astype(np.int32)
    values = np.take_along_axis(appeal, order, 1).astype(np.float32)
    best, _ = first_that_fit(sorted_, values, ListRules(groups_of(catalog), catalog.signs, 1, True), N)
    return float(people.expected_clicks(users, items, best).mean())


def run_clicks(seeds: int) -> None:
    print(
        "| world | start | after 20,000 | gate | after 100,000 | gate | above the start |\n"
        "|---|--:|--:|---|--:|---|--:|"
    )
    for seed in range(seeds):
        people, start = world(seed)
        best, model, logs, cells = oracle(people, start), start, [], []
        for round_, lists in enumerate((20_000, 80_000)):
            logs.append(simulate_log(people, model, lists, DRAWN, seed=round_))
            found = learn(model, together(logs), DRAWN)
            model = found.model if found.passed else model
            passed = f"{'passed' if found.passed else 'held back'} ({100 * found.estimate.bounds[0]:+.1f}%)"
            cells += [f"{100 * clicks(people, model) / best:.1f}%", passed]
        first = clicks(people, start)
        gain = clicks(people, model) / first - 1
        print(f"| {seed} | {100 * first / best:.1f}% | {' | '.join(cells)} | {100 * gain:+.1f}% |", flush=True)


def by_position(rng: np.random.Generator, appeal: NDArray[np.float64], **_: object) -> NDArray[np.bool_]:
    return np.asarray(rng.random(appeal.shape) < np.array([0.2, 0.12, 0.08]))


def at_random(rng: np.random.Generator, appeal: NDArray[np.float64], **_: object) -> NDArray[np.bool_]:
    return np.asarray(rng.random(appeal.shape) < 0.12)


def reversed_until_lately(
    rng: np.random.Generator, appeal: NDArray[np.float64], true: NDArray[np.bool_], **_: object
) -> NDArray[np.bool_]:
    wrong = rng.random(appeal.shape) < 0.3 * (1 - appeal) ** 6
    older = np.arange(len(appeal))[:, None] < 0.7 * len(appeal)
    return np.where(older, wrong, true)


def some_mislead(
    rng: np.random.Generator,
    appeal: NDArray[np.float64],
    true: NDArray[np.bool_],
    users: NDArray[np.int32],
    **_: object,
) -> NDArray[np.bool_]:
    wrong = rng.random(appeal.shape) < 0.6 * (1 - appeal) ** 6
    return np.where((users % 10 == 0)[:, None], wrong, true)


KINDS: dict[str, Feedback] = {
    "random": at_random,
    "by position": by_position,
    "reversed until lately": reversed_until_lately,
    "a tenth misleads": some_mislead,
}


def run_gate(runs: int, lists: int = 10_000) -> None:
    counts = {kind: np.zeros(4, np.int64) for kind in KINDS}
    for run in range(runs):
        if run % (runs // 5 or 1) == 0:  # five worlds
            people, model = world(100 + run)
            before = clicks(people, model, DRAWN)
        kind = list(KINDS)[run % len(KINDS)]
        rng = np.random.default_rng(run)
        users, items = people.visits(lists, rng)
        found = rank(model, users, items, N, DRAWN)
        true = people.react(users, items, found.numbers, rng)
        appeal = people.appeal(users[:, None], items[:, None], np.maximum(found.numbers, 0))
        fed = KINDS[kind](rng, appeal, true=true, users=users) & (found.numbers >= 0)
        assert found.propensities is not None
        log = log_of(model.catalog_, (users, items), found.numbers, found.propensities, fed)
        learned = learn(model, log, DRAWN)
        worse = clicks(people, learned.model, DRAWN) < 0.98 * before
        counts[kind] += [1, worse, learned.passed, worse and learned.passed]
        print(f"\rrun {run + 1}: {sum(row[3] for row in counts.values())} worse and passed", end="", file=sys.stderr)
    print("| feedback | runs | truly worse by 2% | passed | worse and passed |\n|---|--:|--:|--:|--:|")
    counts["all"] = np.sum(list(counts.values()), axis=0)
    for kind, row in counts.items():
        print(f"| {kind} | {' | '.join(map(str, row.tolist()))} |")


def run_harm(runs: int, lists: int = 3000) -> None:
    """Models that are worse because their scores are disturbed, estimated on honest logs as the gate does."""
    people, model = world(100)
    before, pool = clicks(people, model, DRAWN), len(model.catalog_.explanations)
    users, items = len(model.catalog_.users), len(model.catalog_.items)
    kinds = ("worse by less than 2%, or better", "worse by 2% to 5%", "worse by more")
    counts = {kind: np.zeros(2, np.int64) for kind in kinds}
    for run in range(runs):
        rng = np.random.default_rng(run)
        bias = rng.normal(0, 0.5 * (1 + run % 4), pool).astype(np.float32)
        empty = (np.zeros((size, 0), np.float32) for size in (pool, users, items))
        new = with_correction(model, Correction(bias, *empty), "")
        log = simulate_log(people, model, lists, DRAWN, seed=1 + run)
        found = estimate(log, Policy(new, DRAWN), Policy(model, DRAWN), confidence=CONFIDENCE)
        loss = 1 - clicks(people, new, DRAWN) / before
        counts[kinds[0 if loss < 0.02 else 1 if loss < 0.05 else 2]] += [1, found.not_worse(MARGIN)]
    print("| disturbed model | runs | passed |\n|---|--:|--:|")
    for kind, row in counts.items():
        print(f"| {kind} | {row[0]} | {row[1]} |")


def run_speed(lists: int = 1_000_000) -> None:
    people = wr.simulate_people(users=50_000, items=2000, explanations=300, records=500_000, seed=0)
    model = wr.Profile(seed=0, epochs=1).fit(people.triplets)
    log = simulate_log(people, model, lists, DRAWN)
    begin, stages = (time.perf_counter(), time.process_time()), []

    def passed(name: str) -> None:
        nonlocal begin
        now = (time.perf_counter(), time.process_time())
        stages.append((name, now[0] - begin[0], now[1] - begin[1]))
        begin = now

    joined = lists_of(log)
    passed("join")
    learned = learn_reactions(model, joined.take(np.arange(int(0.7 * lists))))
    passed("learn from 70%")
    new = with_correction(model, learned.correction, "")
    estimate(joined.take(np.arange(int(0.7 * lists), lists)), Policy(new, DRAWN), Policy(model, DRAWN))
    passed("estimate on 30%")
    stages.append(("all", sum(each[1] for each in stages), sum(each[2] for each in stages)))
    print(f"{log.exposures.height:,} reasons of {lists:,} lists, {log.events.height:,} clicks\n")
    print("| stage | seconds | CPU seconds |\n|---|--:|--:|")
    for name, seconds, cpu in stages:
        print(f"| {name} | {seconds:.1f} | {cpu:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["clicks", "gate", "harm", "speed"])
    parser.add_argument("--runs", type=int, default=100, help="of the gate")
    parser.add_argument("--seeds", type=int, default=3, help="of worlds for clicks")
    arguments = parser.parse_args()
    parts: dict[str, Callable[[], None]] = {
        "clicks": lambda: run_clicks(arguments.seeds),
        "gate": lambda: run_gate(arguments.runs),
        "harm": lambda: run_harm(arguments.runs),
        "speed": run_speed,
    }
    for part in arguments.parts:
        print(f"## {part}", flush=True)
        parts[part]()


if __name__ == "__main__":
    main()
