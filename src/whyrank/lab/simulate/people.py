"""People who react to reasons: a simulated world in which it is known what every list of reasons would get.

A person looks at the reason at position k with the chance `attention[k]`, times `FATIGUE` for every reason above it
that they clicked. Who looks at a reason clicks it with the chance sigmoid(BASE + liking + truth + wording):

    liking   TASTE x how much they write about the aspect
             + SILENT x how much people of their kind like the aspect without ever writing so
    truth    TRUTH x how good (for praise) or bad (for blame) the item really is there
    wording  WORDING x how well the sentence reads, the same for everybody

Reviews show the first part of the liking and some of the truth; the rest can be learned from reactions alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.triplets import Triplets
from whyrank.errors import ParameterError
from whyrank.lab.simulate.pool import SimulatedPool, build_pool
from whyrank.lab.simulate.triplets import resolve, simulate, stage
from whyrank.lab.simulate.world import GROUPS, World, build_world

Values = NDArray[np.float64]
ATTENTION = (1.0, 0.7, 0.5, 0.38, 0.3)
FATIGUE = 0.6
BASE, TASTE, SILENT, TRUTH, WORDING = -2.2, 0.5, 0.9, 0.5, 0.7


@dataclass(frozen=True, eq=False)
class SimulatedPeople:
    """The people, items and explanations behind simulated triplets, with everything that decides about clicks."""

    triplets: Triplets
    pool: SimulatedPool
    world: World
    silent: Values  # group x aspect: what a kind of people likes and does not write about
    wording: Values  # explanation
    attention: Values  # position

    @cached_property
    def _written(self) -> Values:
        """Measure how much each user writes about each aspect, as standardized logarithms."""
        logs = np.log(self.world.preference.astype(np.float64))
        return np.asarray((logs - logs.mean(1, keepdims=True)) / logs.std(1, keepdims=True))

    def appeal(
        self, users: NDArray[np.integer], items: NDArray[np.integer], explanations: NDArray[np.integer]
    ) -> Values:
        """Compute the chance that a person who looks at a reason clicks it, by number; arrays are broadcast."""
        aspect = self.pool.aspect[explanations]
        side = np.where(self.pool.positive[explanations], 1.0, -1.0)
        liking = TASTE * self._written[users, aspect] + SILENT * self.silent[self.world.group[users], aspect]
        truth = TRUTH * np.tanh(side * self.world.quality[items, aspect])
        return np.asarray(1 / (1 + np.exp(-(BASE + liking + truth + WORDING * self.wording[explanations]))))

    def expected_clicks(
        self, users: NDArray[np.integer], items: NDArray[np.integer], lists: NDArray[np.integer]
    ) -> Values:
        """Compute the clicks that every list of reasons (-1: none) would get on average, exactly.

        >>> people = simulate_people(users=20, items=10, explanations=24, records=60, seed=1)
        >>> nobody = np.array([[-1, -1]])
        >>> float(people.expected_clicks(np.array([3]), np.array([2]), nobody)[0])
        0.0
        """
        chances = self._chances(users, items, lists)
        having = np.zeros((len(users), lists.shape[1] + 1))  # the chance of so many clicks above
        having[:, 0] = 1.0
        tired = FATIGUE ** np.arange(lists.shape[1] + 1)
        clicks = np.zeros(len(users))
        for place in range(lists.shape[1]):
            clicked = having * chances[:, [place]] * tired
            clicks += clicked.sum(1)
            having = having - clicked
            having[:, 1:] += clicked[:, :-1]
        return clicks

    def react(
        self,
        users: NDArray[np.integer],
        items: NDArray[np.integer],
        lists: NDArray[np.integer],
        rng: np.random.Generator,
    ) -> NDArray[np.bool_]:
        """Draw which reasons of every list are clicked, from the chances above."""
        chances, drawn = self._chances(users, items, lists), rng.random(lists.shape)
        clicked = np.zeros(lists.shape, np.bool_)
        tired = np.ones(len(users))
        for place in range(lists.shape[1]):
            clicked[:, place] = drawn[:, place] < chances[:, place] * tired
            tired = np.where(clicked[:, place], tired * FATIGUE, tired)
        return clicked

    def visits(self, count: int, rng: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Users and items of so many exposures: people come equally often, items as often as they are written about."""
        users = rng.integers(len(self.triplets.users), size=count).astype(np.int32)
        items = self.triplets.record_item[rng.integers(self.triplets.records, size=count)]
        return users, items

    def _chances(self, users: NDArray[np.integer], items: NDArray[np.integer], lists: NDArray[np.integer]) -> Values:
        """Compute the chance of a click at every place, if nothing above was clicked."""
        if lists.shape[1] > len(self.attention):
            raise ParameterError(f"lists of {lists.shape[1]} reasons; these people look at {len(self.attention)}")
        found = self.appeal(users[:, None], items[:, None], np.maximum(lists, 0))
        return np.asarray(np.where(lists >= 0, found * self.attention[: lists.shape[1]], 0.0))


def simulate_people(
    preset: str = "small",
    *,
    users: int | None = None,
    items: int | None = None,
    explanations: int | None = None,
    records: int | None = None,
    triplets: int | None = None,
    seed: int = 0,
) -> SimulatedPeople:
    """Simulate the people behind `simulate` with the same arguments; its triplets have aspects and polarity.

    Args:
        preset: as for `simulate`, like the counts and the seed.

    Returns:
        People whose reactions to any list of reasons can be drawn, and whose average is known.

    Raises:
        ParameterError: an unknown preset, or counts that cannot be.

    >>> people = simulate_people(users=20, items=10, explanations=24, records=60, seed=1)
    >>> lists = np.array([[0, 1], [5, 7]])
    >>> people.react(np.array([0, 1]), np.array([0, 1]), lists, np.random.default_rng(0)).shape
    (2, 2)
    """
    domain, sizes = resolve(preset, users, items, explanations, records, triplets)
    pool = build_pool(domain, sizes.explanations, stage(seed, 0))
    made = simulate(preset, **sizes._asdict(), seed=seed)
    rng = stage(seed, 9)
    return SimulatedPeople(
        triplets=replace(
            made,
            aspects=pl.Series([pool.aspects[at] for at in pool.aspect], dtype=pl.String),
            polarity=np.where(pool.positive, 1, -1).astype(np.int8),
        ),
        pool=pool,
        world=build_world(sizes.users, sizes.items, len(pool.aspects), stage(seed, 1)),
        silent=rng.normal(size=(GROUPS, len(pool.aspects))),
        wording=rng.normal(size=sizes.explanations),
        attention=np.array(ATTENTION),
    )
