"""Simulated triplets with a planted structure, at any size and with exact counts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.data.triplets import Triplets
from whyrank.data.vocabulary import Vocabulary
from whyrank.errors import ParameterError
from whyrank.lab.simulate.draw import CHUNK, Integers, cover, make_distinct, spread, urn
from whyrank.lab.simulate.pool import SimulatedPool, build_pool
from whyrank.lab.simulate.world import Floats, World, build_world, draw_cells

CANDIDATES = 4  # items a user weighs before visiting one
# How often the wording is the user's own, the one of the user's group, or the usual one for the item.
USER_HABIT, GROUP_HABIT, ITEM_HABIT = 0.3, 0.25, 0.25
LONGEST_RECORD = 12
FIRST_DAY, DAYS = 15_340, 3_650  # 2012 and the ten years that follow, in days since 1970


class DataSizes(NamedTuple):
    users: int
    items: int
    explanations: int
    records: int
    triplets: int


class Preset(NamedTuple):
    domain: str
    sizes: DataSizes


PRESETS = {
    "small": Preset("hotel", DataSizes(600, 120, 300, 6_000, 10_000)),
    "amazon": Preset("movie", DataSizes(109_121, 47_113, 33_767, 569_838, 793_481)),
    "tripadvisor": Preset("hotel", DataSizes(123_374, 200_475, 76_293, 1_377_605, 2_618_340)),
    "yelp": Preset("restaurant", DataSizes(895_729, 164_779, 126_696, 2_608_860, 3_875_118)),
}


def simulate(
    preset: str = "small",
    *,
    users: int | None = None,
    items: int | None = None,
    explanations: int | None = None,
    records: int | None = None,
    triplets: int | None = None,
    seed: int = 0,
) -> Triplets:
    """Simulate a data set whose counts are exactly as asked for.

    Users and items prefer aspects ("breakfast", "wifi"), an explanation praises or blames one aspect, popularity is
    long-tailed, and ratings agree with the sentiment. The same seed gives the same data.

    Args:
        preset: "small" or, with the counts of the paper's Table 2, "amazon", "tripadvisor" or "yelp".
        users: How many users; the preset's number unless given.
        items: How many items.
        explanations: How many explanations.
        records: How many records; by default as many per user as in the preset.
        triplets: How many triplets; by default as many per record as in the preset.
        seed: Every random choice comes from it.

    Returns:
        The triplets.

    Examples:
        >>> simulate("small", users=100, records=500)
        Triplets(100 users, 120 items, 300 explanations, 500 records, 833 triplets)
    """
    domain, sizes = resolve(preset, users, items, explanations, records, triplets)
    pool = build_pool(domain, sizes.explanations, stage(seed, 0))
    world = build_world(sizes.users, sizes.items, len(pool.aspects), stage(seed, 1))
    record_user, record_item = _pairs(sizes, world, stage(seed, 2))
    lengths = _lengths(sizes, record_user, stage(seed, 3))
    record = np.repeat(np.arange(sizes.records), lengths)
    explanation = _explanations(record_user[record], record_item[record], record, pool, world, seed)
    csr = CSR.from_pairs(record, explanation, sizes.records, sizes.explanations)
    return Triplets(
        users=_ids("u", sizes.users, 6, "user"),
        items=_ids("i", sizes.items, 5, "item"),
        explanations=_ids("e", sizes.explanations, 5, "explanation"),
        texts=pl.Series("text", pool.texts, dtype=pl.String),
        record_user=record_user.astype(np.int32),
        record_item=record_item.astype(np.int32),
        record_explanations=csr,
        rating=_ratings(csr, record_user, record_item, pool, world, stage(seed, 6)),
        time=_times(sizes, record_user, stage(seed, 7)),
    )


def planted(preset: str = "small", *, explanations: int | None = None, seed: int = 0) -> SimulatedPool:
    """Return the truth about the explanations that `simulate` draws with these arguments, by internal number."""
    domain, usual = PRESETS[preset]
    return build_pool(domain, explanations or usual.explanations, stage(seed, 0))


def stage(seed: int, number: int) -> np.random.Generator:
    """Make an independent stream per stage, so that a change in one stage leaves the others as they were."""
    if seed < 0:
        raise ParameterError(f"seed is {seed}; it must be 0 or more")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(number,))))


def resolve(
    preset: str,
    users: int | None,
    items: int | None,
    explanations: int | None,
    records: int | None,
    triplets: int | None,
) -> tuple[str, DataSizes]:
    """Look up the domain, and sizes with the preset's proportions where none is given."""
    if preset not in PRESETS:
        raise ParameterError(f"unknown preset {preset!r}; choose one of {', '.join(PRESETS)}")
    domain, usual = PRESETS[preset]
    n_users = usual.users if users is None else users
    n_items = usual.items if items is None else items
    n_explanations = usual.explanations if explanations is None else explanations
    for name, count, least in (
        ("users", n_users, 1),
        ("items", n_items, 1),
        ("explanations", n_explanations, 2),
    ):
        if count < least:
            raise ParameterError(f"{name} is {count}; it must be {least} or more")
    if records is None:
        scaled = round(usual.records * n_users / usual.users)
        records = min(max(scaled, n_users, n_items), n_users * n_items)
    if not max(n_users, n_items) <= records <= n_users * n_items:
        raise ParameterError(
            f"records is {records:,}; {n_users:,} users and {n_items:,} items allow "
            f"{max(n_users, n_items):,} to {n_users * n_items:,}"
        )
    longest = min(n_explanations, LONGEST_RECORD)
    if n_explanations > records * longest:
        raise ParameterError(
            f"explanations is {n_explanations:,}; {records:,} records hold at most {records * longest:,}"
        )
    if triplets is None:
        triplets = min(max(round(records * usual.triplets / usual.records), n_explanations), records * longest)
    if not max(records, n_explanations) <= triplets <= records * longest:
        raise ParameterError(
            f"triplets is {triplets:,}; {records:,} records of {n_explanations:,} explanations allow "
            f"{max(records, n_explanations):,} to {records * longest:,}"
        )
    return domain, DataSizes(n_users, n_items, n_explanations, records, triplets)


def _ids(letter: str, count: int, least_width: int, kind: str) -> Vocabulary:
    width = max(least_width, len(str(count - 1)))
    numbers = pl.select(pl.int_range(count).cast(pl.String).str.zfill(width)).to_series()
    return Vocabulary((letter + numbers).rename(kind), kind)


def _pairs(sizes: DataSizes, world: World, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Distinct pairs, sorted: activity and fame are long-tailed, and users choose items to their taste."""
    activity = rng.lognormal(0.0, 1.1, size=sizes.users)
    user = np.repeat(np.arange(sizes.users), spread(rng, sizes.records, activity, sizes.items))
    fame = urn(np.exp(rng.normal(0.0, 1.1, size=sizes.items) + 0.3 * world.quality.mean(axis=1)))

    def choose(places: Integers) -> Integers:
        chosen = np.empty(len(places), np.int64)
        for start in range(0, len(places), CHUNK):
            group = world.group[user[places[start : start + CHUNK]]]
            candidates = fame[rng.integers(len(fame), size=(len(group), CANDIDATES))]
            appeal = world.affinity[group[:, None], candidates] * rng.random(candidates.shape, dtype=np.float32)
            chosen[start : start + CHUNK] = candidates[np.arange(len(group)), appeal.argmax(axis=1)]
        return chosen

    item = choose(np.arange(sizes.records))
    make_distinct(rng, user, item, sizes.items, choose)
    cover(rng, item, np.zeros(sizes.items, np.int64))
    pair = np.sort(user * sizes.items + item)
    return pair // sizes.items, pair % sizes.items


def _lengths(sizes: DataSizes, record_user: Integers, rng: np.random.Generator) -> Integers:
    """Explanations per record: some users are wordier than others."""
    wordiness = rng.gamma(2.0, size=sizes.users)[record_user] * rng.standard_exponential(sizes.records)
    return spread(rng, sizes.triplets, wordiness, min(sizes.explanations, LONGEST_RECORD))


def _explanations(
    user: Integers, item: Integers, record: Integers, pool: SimulatedPool, world: World, seed: int
) -> Integers:
    """Draw an explanation per triplet, distinct within its record; every explanation occurs."""
    rng = stage(seed, 4)
    salt = stage(seed, 5).integers(1 << 62, size=3).astype(np.uint64)
    by_cell = np.argsort(pool.cell, kind="stable")
    cumulative = np.cumsum(pool.weight[by_cell])  # every cell adds 1, so cell c spans c to c + 1

    def write(places: Integers) -> Integers:
        chosen = np.empty(len(places), np.int64)
        for start in range(0, len(places), CHUNK):
            who, what = user[places[start : start + CHUNK]], item[places[start : start + CHUNK]]
            cell = draw_cells(rng, who, what, world)
            wording, mood = rng.random((2, len(who)))
            habits: tuple[tuple[NDArray[np.integer], float], ...] = (
                (who, USER_HABIT),
                (what, ITEM_HABIT),
                (world.group[who], GROUP_HABIT),
            )
            for (source, share), pepper in zip(habits, salt, strict=True):
                habitual = (mood >= 0) & (mood < share)
                wording[habitual] = _habit(source[habitual], cell[habitual], pepper)
                mood -= share
            place = np.searchsorted(cumulative, cell + wording * (1 - 1e-9), side="right")
            chosen[start : start + CHUNK] = by_cell[np.minimum(place, len(by_cell) - 1)]
        return chosen

    explanation = write(np.arange(len(record)))
    make_distinct(rng, record, explanation, len(pool.texts), write)
    cover(rng, explanation, pool.cell)
    return explanation


def _habit(who: NDArray[np.integer], cell: Integers, salt: np.uint64) -> NDArray[np.float64]:
    """Hash (splitmix64) a user (item, group) and a cell to a number in [0, 1), always the same."""
    mixed = (who.astype(np.uint64) << np.uint64(16)) + cell.astype(np.uint64) + salt
    mixed = mixed * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _ratings(
    csr: CSR, record_user: Integers, record_item: Integers, pool: SimulatedPool, world: World, rng: np.random.Generator
) -> Floats:
    """Draw one to five stars that follow the mean sentiment of the record."""
    tone = np.add.reduceat(pool.sentiment[csr.indices], csr.indptr[:-1]) / csr.sizes()
    overall = world.quality.mean(axis=1)[record_item] + 0.5 * world.generosity[record_user]
    stars = 3.3 + 1.7 * tone + 0.4 * overall + rng.normal(0.0, 0.5, size=len(tone))
    return np.asarray(np.clip(np.rint(stars), 1, 5), np.float32)


def _times(sizes: DataSizes, record_user: Integers, rng: np.random.Generator) -> Integers:
    """Seconds since 1970: users join over ten years and write from then on."""
    joined = np.sqrt(rng.random(sizes.users))[record_user]
    when = joined + (1.0 - joined) * rng.random(sizes.records)
    return ((FIRST_DAY + when * DAYS) * 86_400).astype(np.int64)
