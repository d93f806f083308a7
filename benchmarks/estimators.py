"""Bias and coverage of the estimators over many logs of people whose value is known.

    python benchmarks/estimators.py [--logs 1000] [--lists 2000] [--clip 50] [--distinctive 0.2] [--obp]

Each log holds lists that a Profile model has shown, drawn with explore 1 and epsilon 0.1; estimated is what COUNTS
would have got under the same options. The truth is the mean of the known chances of clicks over two million lists.
Mean weights are 1 where the log has all that COUNTS would show up to a position. With another `--distinctive` than the
default, COUNTS would also show reasons that were never logged: 0.21 makes that a ninth of its lists.
`--obp` compares three estimators with the Open Bandit Pipeline on one log, where it is installed.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

import whyrank as wr
from whyrank.explain.rank import rank
from whyrank.lab.simulate import SimulatedPeople
from whyrank.lab.simulate.log import simulate_log
from whyrank.online import estimators
from whyrank.online.estimate import estimate
from whyrank.online.propensity import Policy, along, anywhere
from whyrank.online.rewards import ShownLists, lists_of

OPTIONS, N = wr.Options(explore=1.0, epsilon=0.1), 3


def truth(people: SimulatedPeople, policy: Policy, lists: int = 2_000_000, piece: int = 200_000) -> float:
    """What a policy gets per list."""
    found = []
    for draw in range(lists // piece):
        users, items = people.visits(piece, np.random.default_rng(10_000 + draw))
        shown = rank(policy.model, users, items, N, replace(policy.options, draw=draw)).numbers
        found.append(people.expected_clicks(users, items, shown).mean())
    return float(np.mean(found))


def mean_weights(policy: Policy, lists: ShownLists, clip: float) -> NDArray[np.float64]:
    """Up to every position."""
    nothing = np.zeros((len(policy.model.catalog_.explanations), N))
    chance = along(policy, lists, (nothing, nothing), np.zeros(len(lists.length), np.int64)).chance
    return estimators.list_weights(chance, lists.propensity, clip).mean(0)


def run(people: SimulatedPeople, shown: wr.Model, new: Policy, logs: int, lists: int, clip: float) -> None:
    known, old = truth(people, new), Policy(shown, OPTIONS)
    rows: dict[str, list[tuple[float, bool, float]]] = {name: [] for name in estimators.ESTIMATORS}
    weights, refused = [], 0
    for number in range(logs):
        log = lists_of(simulate_log(people, shown, lists, OPTIONS, seed=1 + number))
        found = estimate(log, new, old, clip=clip)
        refused += bool(found.refusals)
        for each in found.lines:
            rows[each.estimator].append((each.value, each.low <= known <= each.high, each.high - each.low))
        weights.append(mean_weights(new, log, clip))
    print(f"{logs:,} logs of {lists:,} lists; the truth is {known:.5f} clicks per list; clip {clip:g}")
    print(f"{refused / logs:.1%} of the logs are refused")
    means, errors = np.mean(weights, axis=0), np.std(weights, axis=0, ddof=1) / np.sqrt(logs)
    told = (f"{mean:.4f} (+-{error:.4f})" for mean, error in zip(means, errors, strict=True))
    print(f"mean weights up to each position: {', '.join(told)}\n")
    print("| estimator | bias | its standard error | root mean square error | 95% intervals that cover | width |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, answers in rows.items():
        values = np.array([value for value, _, _ in answers])
        covered, width = np.mean([inside for _, inside, _ in answers]), np.mean([wide for _, _, wide in answers])
        error = values.std(ddof=1) / np.sqrt(logs)
        shares = (values.mean() - known, error, np.sqrt(((values - known) ** 2).mean()))
        cells = [
            f"{100 * each / known:+.2f}%" if each is shares[0] else f"{100 * each / known:.2f}%" for each in shares
        ]
        print(f"| {name} | {' | '.join(cells)} | {100 * covered:.1f}% | {100 * width / known:.1f}% |")


def compare_with_obp(people: SimulatedPeople, shown: wr.Model, other: wr.Model) -> None:
    """The same numbers by another hand, from the same weights, over lists of full length."""
    from obp.ope import SlateIndependentIPS, SlateRewardInteractionIPS, SlateStandardIPS

    lists = lists_of(simulate_log(people, shown, 5000, OPTIONS))
    lists = lists.take(np.flatnonzero(lists.length == N))
    nothing = np.zeros((len(other.catalog_.explanations), N))
    new, old, fold = Policy(other, OPTIONS), Policy(shown, OPTIONS), np.zeros(len(lists.length), np.int64)
    chance = along(new, lists, (nothing, nothing), fold).chance
    weights = estimators.list_weights(chance, lists.propensity, 1e12)
    at_new, at_old = anywhere(new, lists), anywhere(old, lists)
    count = len(lists.length)
    slate, position = np.repeat(np.arange(count), N), np.tile(np.arange(N), count)
    whole = [np.repeat(each.prod(1), N) for each in (lists.propensity, chance)]
    above = [np.cumprod(each, axis=1).ravel() for each in (lists.propensity, chance)]
    alone = [at_old.ravel(), at_new.ravel()]
    theirs = {
        "ips": (SlateStandardIPS(len_list=N), "pscore", "evaluation_policy_pscore", whole),
        "cascade": (
            *(SlateRewardInteractionIPS(len_list=N), "pscore_cascade", "evaluation_policy_pscore_cascade", above),
        ),
        "independent": (
            *(SlateIndependentIPS(len_list=N), "pscore_item_position", "evaluation_policy_pscore_item_position", alone),
        ),
    }
    ours = {
        "ips": estimators.ips(weights, lists.reward).mean,
        "cascade": estimators.cascade(weights, lists.reward).mean,
        "independent": estimators.independent(at_new, at_old, lists.reward, 1e12).mean,
    }
    print("\n| estimator | whyrank | obp |\n|---|--:|--:|")
    for name, (estimator, logged, evaluated, (first, second)) in theirs.items():
        given = {"slate_id": slate, "reward": lists.reward.ravel(), "position": position}
        found = estimator.estimate_policy_value(**given, **{logged: first, evaluated: second})
        print(f"| {name} | {ours[name]:.9f} | {found:.9f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--lists", type=int, default=2000)
    parser.add_argument("--clip", type=float, default=50.0, help="the largest weight")
    parser.add_argument("--distinctive", type=float, default=OPTIONS.distinctive, help="of what is estimated")
    parser.add_argument("--obp", action="store_true", help="compare with the Open Bandit Pipeline")
    arguments = parser.parse_args()
    people = wr.simulate_people(users=1000, items=100, explanations=300, records=20_000, seed=0)
    shown, other = wr.Profile(seed=0).fit(people.triplets), wr.COUNTS().fit(people.triplets)
    if arguments.logs:
        new = Policy(other, replace(OPTIONS, distinctive=arguments.distinctive))
        run(people, shown, new, arguments.logs, arguments.lists, arguments.clip)
    if arguments.obp:
        compare_with_obp(people, shown, other)


if __name__ == "__main__":
    main()
