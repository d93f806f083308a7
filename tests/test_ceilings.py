"""What the search knows of the parts of queries: each part once, and numbers that no score of a group is above."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from whyrank.index._ceilings import lift
from whyrank.index.ceilings import FIRST, Ceilings
from whyrank.index.layout import Keys, Layout
from whyrank.index.search import FAR, Search

MUCH = 1 << 28


def alone(work, count: int) -> list:
    return [work(0, count)]


def ceilings_of(keys: NDArray[np.float32], split: int, memory: int = MUCH) -> Ceilings:
    prepared = Keys(keys, keys.shape[1], split)
    ranks = np.arange(len(keys), dtype=np.int32)
    return Ceilings(Layout(prepared, np.zeros(len(keys), np.float32), np.ones(2), ranks), memory)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 40, 700, 40_000]),
    st.sampled_from([(1, 2), (3, 8), (20, 40), (7, 9)]),
    st.sampled_from([0.0, 1e-30, 1.0, 1e15]),
    st.booleans(),
)
def test_no_part_of_a_score_is_above_its_ceiling_nor_far_below(
    seed: int, pool: int, shape: tuple[int, int], size: float, even: bool
) -> None:
    rng, (split, columns) = np.random.default_rng(seed), shape
    keys = (rng.normal(size=(pool, columns)) * rng.exponential(1.0, (pool, 1))).astype(np.float32)
    if even:
        keys = rng.choice(np.array([-1, 1], np.float32), (pool, columns))
    queries = (size * rng.normal(size=(6, columns)) * rng.exponential(1.0, (6, 1))).astype(np.float32)
    queries[0, :split] = 0
    known = ceilings_of(keys, split)
    rows, slots = np.arange(6), np.empty((6, 2), np.int32)
    assert known.find(queries, rows, slots, 1, alone).all()
    for side, highest, longest in highest_parts(known, keys, queries, split):
        found = known.tables()[side][slots[:, side]]
        assert (found >= highest).all()
        if even:  # codes are coarse where few keys are far longer than the others
            assert (found <= np.maximum(highest, 0) + 0.1 * longest[:, None] + 1e-35).all()


def highest_parts(known: Ceilings, keys: NDArray[np.float32], queries: NDArray[np.float32], split: int) -> Iterator:
    """Of each side: the highest part of a score in every group, and what it could be at most by lengths alone."""
    groups = known.layout.explanations.reshape(known.layout.groups, -1)
    for side, part in enumerate((slice(0, split), slice(split, keys.shape[1]))):
        mine, theirs = queries[:, part].astype(float), keys[:, part].astype(float)
        highest = np.where(groups >= 0, (mine @ theirs.T)[:, groups], -np.inf).max(2)
        yield side, highest, np.linalg.norm(mine, axis=1) * np.linalg.norm(theirs, axis=1).max()


def test_a_side_that_is_full_begins_anew() -> None:
    rng = np.random.default_rng(0)
    keys, parts = rng.normal(size=(300, 6)).astype(np.float32), rng.normal(size=(60, 3)).astype(np.float32)
    known, slots = ceilings_of(keys, 3, memory=6000), np.empty((10, 2), np.int32)
    assert 10 <= known.capacity < 60
    for _ in range(40):
        queries = np.hstack([parts[rng.integers(0, 60, 10)], parts[rng.integers(0, 60, 10)]])
        assert known.find(queries, np.arange(10), slots, 1, alone).all()
        for side, highest, _ in highest_parts(known, keys, queries, 3):
            assert (known.tables()[side][slots[:, side]] >= highest).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.sampled_from([1, 50, 3 * FIRST]))
def test_every_part_has_one_place_and_keeps_it(seed: int, width: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    # Bits that differ little: numbers with few of them, zeros of both signs, and the same ones in other columns.
    queries = rng.choice(np.array([0.0, -0.0, 1.0, -1.0, 2.0, 0.5], np.float32), (count, 2 * width))
    queries[rng.random(count) < 0.5, 0] = rng.integers(0, 1 << 20)
    queries[:, -1] += rng.integers(0, count, count).astype(np.float32)
    known, slots = ceilings_of(np.ones((5, 2 * width), np.float32), width), np.empty((count, 2), np.int32)
    for rows in np.array_split(rng.permutation(count), 3):
        assert known.find(queries, rows, slots, 1, alone).all()
    before = slots.copy()
    known.find(queries, np.arange(count), slots, 1, alone)
    np.testing.assert_array_equal(slots, before)
    for side in range(2):
        part = np.ascontiguousarray(queries[:, side * width : (side + 1) * width]).view(np.uint32)
        distinct, numbers = np.unique(part, axis=0, return_inverse=True)
        pairs = set(zip(numbers.reshape(-1).tolist(), slots[:, side].tolist(), strict=True))
        assert len(pairs) == len(distinct) == len({slot for _, slot in pairs})


def test_parts_get_ceilings_when_they_were_asked_often_and_queries_when_both_have_them() -> None:
    known, slots = ceilings_of(np.eye(4, dtype=np.float32), 2), np.empty((3, 2), np.int32)
    queries = np.array([[1, 0, 1, 0], [1, 0, 2, 0], [3, 0, 1, 0]], np.float32)
    rows = np.arange(3)
    assert known.find(queries, rows, slots, 2, alone).tolist() == [True, False, False]
    assert known.find(queries, rows[:2], slots, 2, alone).tolist() == [True, True]
    assert known.find(queries, rows, slots, 2, alone).tolist() == [True, True, True]


def test_an_interruption_leaves_no_part_with_ceilings_that_were_not_found() -> None:
    def interrupted(work, count: int) -> list:
        if getattr(work, "func", None) is lift:
            raise KeyboardInterrupt
        return alone(work, count)

    known, slots = ceilings_of(np.eye(4, dtype=np.float32), 2), np.empty((1, 2), np.int32)
    rows, queries = np.arange(1), np.ones((1, 4), np.float32)
    with pytest.raises(KeyboardInterrupt):
        known.find(queries, rows, slots, 1, interrupted)
    assert known.find(queries, rows, slots, 1, alone).all()
    assert all((table[0] >= 1).all() for table in known.tables())


def pool_that_norms_do_not_sieve(share: float = 0.06) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Scores of a popularity and two parts of twenty columns, whose sizes are `share` of its."""
    rng = np.random.default_rng(0)
    keys = rng.normal(size=(8000, 41)) * np.append(np.full(40, share), 1.0)
    users, items = rng.normal(size=(40, 20)), rng.normal(size=(30, 20))
    queries = np.hstack([users[rng.integers(0, 40, 400)], items[rng.integers(0, 30, 400)], np.ones((400, 1))])
    return keys.astype(np.float32), queries.astype(np.float32)


def test_pairs_of_users_and_items_that_come_again_look_at_an_eighth_as_much() -> None:
    keys, queries = pool_that_norms_do_not_sieve()
    search = Search(keys, np.arange(len(keys)), constant=1, parts=(20, 20))
    first = search.visits(queries, 10)
    expected = search.top(queries, 10)
    assert first.filtered * len(keys) / 32 > FAR
    for _ in range(3):
        found = search.top(queries, 10)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)
    assert search.visits(queries, 10).filtered < first.filtered / 8


def test_ceilings_that_leave_nearly_as_much_are_given_up() -> None:
    keys, queries = pool_that_norms_do_not_sieve(share=3.0)
    search = Search(keys, np.arange(len(keys)), constant=1, parts=(20, 20))
    visits = [search.visits(queries, 10).filtered for _ in range(4)]
    assert visits[1] < visits[0]
    assert visits[2] == visits[3] == visits[0]


def test_one_query_does_not_decide_whether_ceilings_pay() -> None:
    keys, queries = pool_that_norms_do_not_sieve(share=3.0)
    search = Search(keys, np.arange(len(keys)), constant=1, parts=(20, 20))
    visits = [search.visits(queries[:1], 10).filtered for _ in range(6)]
    assert visits[-1] < visits[0]


def test_what_was_made_known_is_known_in_the_first_call() -> None:
    keys, queries = pool_that_norms_do_not_sieve()
    new, known = (Search(keys, np.arange(len(keys)), constant=1, parts=(20, 20)) for _ in range(2))
    known.prepare(queries[::2])
    known.warm_up(queries)
    for threads in (1, 2):
        for a, b in zip(new.top(queries, 10, threads=threads), known.top(queries, 10, threads=threads), strict=True):
            np.testing.assert_array_equal(a, b)
    fresh = Search(keys, np.arange(len(keys)), constant=1, parts=(20, 20)).visits(queries, 10)
    assert known.visits(queries, 10).filtered < fresh.filtered / 8


@pytest.mark.parametrize(("share", "memory"), [(0.06, 400_000), (3.0, MUCH)])
def test_nothing_is_made_known_that_has_no_room_or_does_not_pay(share: float, memory: int) -> None:
    keys, queries = pool_that_norms_do_not_sieve(share)
    crowd = np.hstack([np.random.default_rng(1).normal(size=(4 * FIRST, 40)), np.ones((4 * FIRST, 1))])
    search = Search(keys, np.arange(len(keys)), constant=1, parts=(20, 20), memory=memory)
    search.prepare(queries)
    before = search.nbytes
    search.warm_up(crowd.astype(np.float32))
    assert search.nbytes == before


@pytest.mark.parametrize("memory", [1, 30_000, 60_000, 100_000])
def test_a_memory_that_is_too_small_for_all_parts_changes_nothing(memory: int) -> None:
    keys, queries = pool_that_norms_do_not_sieve()
    rich = Search(keys, np.arange(len(keys)), constant=1, parts=(20, 20))
    poor = Search(keys, np.arange(len(keys)), constant=1, parts=(20, 20), memory=memory)
    for start in (0, 0, 0, 15, 30, 15, 0, 0, 15, 0, 300, 0, 15, 0):
        some = queries[start : start + 20]
        for a, b in zip(rich.top(some, 10), poor.top(some, 10), strict=True):
            np.testing.assert_array_equal(a, b)


def test_threads_that_ask_at_once_get_what_each_would_get_alone() -> None:
    keys, queries = pool_that_norms_do_not_sieve()
    expected = Search(keys, np.arange(len(keys)), constant=1, parts=(20, 20)).top(queries, 10)[0]
    search = Search(keys, np.arange(len(keys)), constant=1, parts=(20, 20), memory=300_000)
    with ThreadPoolExecutor(4) as threads:
        stretches = [slice(start, start + 25) for start in range(0, 400, 25)] * 6
        found = list(threads.map(lambda part: search.top(queries[part], 10, threads=1)[0], stretches))
    for part, numbers in zip(stretches, found, strict=True):
        np.testing.assert_array_equal(numbers, expected[part])


@pytest.mark.parametrize("size", [1.0, 1e12, 1e30])
def test_a_part_of_zeros_reaches_zero_however_long_keys_are(size: float) -> None:
    keys = (size * np.random.default_rng(0).normal(size=(700, 8))).astype(np.float32)
    known, slots = ceilings_of(keys, 3), np.empty((1, 2), np.int32)
    known.find(np.zeros((1, 8), np.float32), np.arange(1), slots, 1, alone)
    for side in range(2):
        assert (known.tables()[side][slots[0, side]] == 0).all()


def test_running_out_of_memory_leaves_tables_that_fit_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, calls = np.random.default_rng(0), []
    known = ceilings_of(rng.normal(size=(700, 8)).astype(np.float32), 3)
    queries = rng.normal(size=(3 * FIRST, 8)).astype(np.float32)
    rows, slots = np.arange(len(queries)), np.empty((len(queries), 2), np.int32)

    def short(table: NDArray, count: int, more: int) -> NDArray:
        calls.append(count)
        if len(calls) == 3:
            raise MemoryError
        return table

    with monkeypatch.context() as patched:
        patched.setattr("whyrank.index.ceilings._grown", short)
        with pytest.raises(MemoryError):
            known.find(queries, rows, slots, 1, alone)
    side = known._sides[0]
    assert len(side.parts) == len(side.rows) == len(side.uses) == len(side.places) // 2
    assert known.find(queries, rows, slots, 1, alone).all()
