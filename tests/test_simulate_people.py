"""People who react to reasons: what is known of them is true of what they do."""

from __future__ import annotations

import numpy as np
import pytest

from whyrank.errors import ParameterError
from whyrank.lab.simulate import simulate
from whyrank.lab.simulate.people import FATIGUE, SimulatedPeople, simulate_people


@pytest.fixture(scope="module")
def people() -> SimulatedPeople:
    return simulate_people(users=60, items=20, explanations=60, records=400, seed=2)


def test_they_are_the_people_behind_the_simulated_triplets(people: SimulatedPeople) -> None:
    made = simulate(users=60, items=20, explanations=60, records=400, seed=2)
    assert people.triplets.explanation.tolist() == made.explanation.tolist()
    assert people.triplets.aspects is not None
    assert people.triplets.aspects[7] == people.pool.aspects[people.pool.aspect[7]]


def test_a_list_of_two_worked_by_hand(people: SimulatedPeople) -> None:
    users, items, lists = np.array([4]), np.array([5]), np.array([[10, 30]])
    a, b = people.appeal(users, items, lists[0])
    first = 1.0 * a
    second = 0.7 * b * (first * FATIGUE + (1 - first))
    assert people.expected_clicks(users, items, lists)[0] == pytest.approx(first + second)


def test_people_click_as_often_as_is_known_of_them(people: SimulatedPeople) -> None:
    rng = np.random.default_rng(0)
    users, items = people.visits(400, rng)
    lists = np.array([rng.permutation(60)[:4] for _ in users])
    lists[::5, 3] = -1
    known = people.expected_clicks(users, items, lists)
    times = 300
    seen = sum(people.react(users, items, lists, rng).sum(1) for _ in range(times)) / times
    assert seen.mean() == pytest.approx(known.mean(), abs=4 * np.sqrt(known.mean() / (times * len(users))))
    assert np.abs(seen - known).max() < 6 * np.sqrt(known.max() / times)


def test_true_reasons_and_liked_aspects_are_clicked_more(people: SimulatedPeople) -> None:
    pool, world = people.pool, people.world
    praise = np.flatnonzero(pool.positive)
    users, items = np.meshgrid(np.arange(60), np.arange(20), indexing="ij")
    users, items = users.ravel(), items.ravel()
    for reason in praise[:5]:
        good = world.quality[items, pool.aspect[reason]] > 0
        found = people.appeal(users, items, np.full(len(users), reason))
        assert found[good].mean() > found[~good].mean()


def test_the_same_seed_gives_the_same_people_and_nobody_reads_long_lists(people: SimulatedPeople) -> None:
    again = simulate_people(users=60, items=20, explanations=60, records=400, seed=2)
    lists = np.arange(12).reshape(3, 4)
    at = np.arange(3)
    assert np.array_equal(people.expected_clicks(at, at, lists), again.expected_clicks(at, at, lists))
    with pytest.raises(ParameterError, match="look at 5"):
        people.expected_clicks(at[:1], at[:1], np.arange(6)[None])
