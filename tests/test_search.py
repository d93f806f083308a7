"""The exact search and the exact joint ranking against full sorts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from whyrank.compile import kernel
from whyrank.errors import ParameterError
from whyrank.index._heap import FEW, entry_of, offer, offer_all, settle, worst
from whyrank.index._layout import bound
from whyrank.index._topn import QUERY_OFFSET, STRETCH
from whyrank.index.form import Bonus
from whyrank.index.joint import PartBound, top_pairs
from whyrank.index.request import Candidates
from whyrank.index.search import Search
from whyrank.simd import ABREAST, BLOCK, GROUP, rate, rate_group, rate_highest, rate_one

Floats = NDArray[np.float32]


def full_sort(
    search: Search,
    queries: Floats,
    ties: NDArray[np.int64],
    n: int,
    added: Floats,
    allowed: NDArray[np.bool_],
) -> tuple[NDArray[np.int32], Floats]:
    """The oracle: every explanation scored, all sorted by score and then by tie order."""
    pool = np.tile(np.arange(len(ties), dtype=np.int32), (len(queries), 1))
    scores = np.where(allowed, search.scores(queries, pool) + added, np.float32(-np.inf))
    numbers, values = (
        np.full((len(queries), n), -1, np.int32),
        np.full((len(queries), n), -np.inf, np.float32),
    )
    for row, score in enumerate(scores):
        order = np.lexsort((ties, -score))[:n]
        order = order[score[order] > -np.inf]
        numbers[row, : len(order)], values[row, : len(order)] = order, score[order]
    return numbers, values


def assert_exact(
    search: Search,
    queries: Floats,
    ties: NDArray[np.int64],
    n: int,
    bonus: Bonus | None = None,
    **filters: NDArray,
) -> None:
    added = np.zeros((len(queries), len(ties)), np.float32)
    if bonus is not None:
        rows = np.repeat(np.arange(len(queries)), np.diff(bonus.indptr))
        added[rows, bonus.explanations] = bonus.values
    expected = full_sort(search, queries, ties, n, added, filters.get("allowed", np.ones(len(ties), bool)))
    for threads, often in ((1, np.inf), (2, np.inf), (1, 1), (2, 1)):
        with pytest.MonkeyPatch.context() as patch:  # without ceilings of the parts of queries, and with them
            patch.setattr("whyrank.index.search._often", lambda layout, often=often: often)
            found = search.top(queries, n, bonus=bonus, threads=threads, **filters)
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])


def random_bonus(rng: np.random.Generator, rows: int, pool: int) -> Bonus:
    sets = [np.flatnonzero(rng.random(pool) < rng.choice([0.0, 0.02, 0.5])) for _ in range(rows)]
    indptr = np.concatenate([[0], np.cumsum([len(each) for each in sets])]).astype(np.int64)
    explanations = np.concatenate(sets).astype(np.int32)
    return Bonus(indptr, explanations, rng.exponential(1.0, len(explanations)).astype(np.float32))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Search, Floats, NDArray[np.int64], int, np.random.Generator]:
    """Keys, queries and ties of many kinds: dominated by biases or by factors, coarse (many ties), zero, uneven."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pool, width = (
        draw(st.sampled_from([1, 2, 31, 33, 200, 1500, 2 * STRETCH * BLOCK + 5])),
        draw(st.sampled_from([0, 1, 5, 8, 20, 41])),
    )
    constant, rows = draw(st.integers(0, min(2, width))), draw(st.sampled_from([1, 3, 40, 90]))
    bias, spread = (
        draw(st.sampled_from([0.0, 0.1, 10.0])),
        draw(st.sampled_from([0.0, 1e-30, 0.01, 1.0, 1e8])),
    )
    keys = rng.normal(size=(pool, width)) * spread * rng.exponential(1.0, (pool, 1)) ** draw(st.sampled_from([0, 1, 4]))
    keys[:, width - constant :] = bias * rng.normal(size=(pool, constant)) - draw(st.sampled_from([0.0, 5.0]))
    queries = rng.normal(size=(rows, width)) * rng.exponential(1.0, (rows, 1))
    if draw(st.booleans()):  # few distinct values: equal scores everywhere
        keys, queries = np.rint(np.clip(keys, -9, 9)), np.rint(queries)
    if draw(st.booleans()):  # the same explanation many times
        keys = keys[rng.integers(0, pool, pool) // 2]
    queries[:, width - constant :] = rng.choice([0.25, 0.75], size=(draw(st.sampled_from([1, rows])), constant))
    ties, columns = rng.permutation(pool), width - constant
    parts = draw(st.sampled_from([None, (columns // 2, columns - columns // 2)]))
    search = Search(keys.astype(np.float32), ties, constant=constant, parts=parts)
    return (
        search,
        queries.astype(np.float32),
        ties,
        draw(st.sampled_from([1, 10, BLOCK, BLOCK + 1, pool, pool + 3])),
        rng,
    )


@settings(max_examples=100, deadline=None)
@given(worlds(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_the_search_finds_what_a_full_sort_finds(
    world, ready: bool, with_bonus: bool, with_filter: bool, with_boost: bool
) -> None:
    search, queries, ties, n, rng = world
    if ready:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("whyrank.index.search._often", lambda layout: 1)
            search.prepare(queries)
            search.warm_up(queries[rng.permutation(len(queries))])
    filters = {"allowed": rng.random(len(ties)) < rng.choice([0.0, 0.05, 0.7])} if with_filter else {}
    bonus = random_bonus(rng, len(queries), len(ties)) if with_bonus else None
    assert_exact(search, queries, ties, n, bonus, **filters)
    if with_boost:
        boost = rng.normal(size=len(ties)).astype(np.float32)
        everything = np.tile(np.arange(len(ties), dtype=np.int32), (len(queries), 1))
        numbers, scores = search.top(queries, len(ties), boost=boost, threads=1)
        at = np.take_along_axis(search.scores(queries, everything, boost=boost), numbers, 1)
        np.testing.assert_array_equal(at, scores)
        worse = (np.diff(scores) < 0) | ((np.diff(scores) == 0) & (np.diff(ties[numbers]) > 0))
        assert worse.all()
        assert search.top(queries, n, boost=boost)[0].tolist() == [(row + [-1] * n)[:n] for row in numbers.tolist()]


@settings(max_examples=40, deadline=None)
@given(worlds(), st.booleans())
def test_candidates_restrict_the_search(world, with_bonus: bool) -> None:
    search, queries, ties, n, rng = world
    bonus = random_bonus(rng, len(queries), len(ties)) if with_bonus else None
    given = random_bonus(rng, len(queries), len(ties))
    candidates = Candidates(given.indptr[:-1], given.indptr[1:], given.explanations)
    found = search.top(queries, n, bonus=bonus, candidates=candidates, threads=1)
    for row in range(len(queries)):
        one = slice(row, row + 1)
        allowed = np.zeros(len(ties), bool)
        allowed[given.explanations[given.indptr[row] : given.indptr[row + 1]]] = True
        mine = None
        if bonus is not None:
            inside = slice(*bonus.indptr[row : row + 2])
            mine = Bonus(np.array([0, inside.stop - inside.start]), bonus.explanations[inside], bonus.values[inside])
        expected = search.top(queries[one], n, bonus=mine, allowed=allowed)
        np.testing.assert_array_equal(found[0][one], expected[0])
        np.testing.assert_array_equal(found[1][one], expected[1])


@settings(max_examples=30, deadline=None)
@given(worlds())
def test_a_query_gets_the_same_bits_alone_in_a_batch_and_in_any_order(world) -> None:
    search, queries, _, n, rng = world
    numbers, scores = search.top(queries, n, threads=2)
    order = rng.permutation(len(queries))
    shuffled = search.top(queries[order], n, threads=1)
    np.testing.assert_array_equal(shuffled[0], numbers[order])
    np.testing.assert_array_equal(shuffled[1], scores[order])
    alone = search.top(queries[:1], n)
    np.testing.assert_array_equal(alone[0], numbers[:1])
    np.testing.assert_array_equal(alone[1], scores[:1])


@settings(max_examples=30, deadline=None)
@given(worlds())
def test_scores_are_near_the_exact_dot_product(world) -> None:
    search, queries, *_ = world
    numbers, scores = search.top(queries, 3)
    keys = search.keys.astype(np.float64)
    for row in range(len(queries)):
        for number, score in zip(numbers[row], scores[row], strict=True):
            if number >= 0:
                terms = keys[number] * queries[row]
                assert abs(score - terms.sum()) <= 1e-5 * np.abs(terms).sum() + 1e-36


@kernel
def rated(codes, pair, queries, starts, levels, rows, ratings, peaks):
    for block in range(len(codes)):
        rate(codes, block, pair, queries, starts, levels, rows, 0, ratings, block)
        rate_one(codes, block, pair, queries, starts, levels, rows, ABREAST, ratings, block)
        rate_highest(codes, block, pair, queries, starts, levels, rows, 0, peaks, 0)
    for block in range(0, len(codes), GROUP):
        rate_group(codes, block, pair, queries, starts, levels, rows, ABREAST + 1, ratings, block)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 21), st.integers(0, 5))
def test_ratings_are_the_sums_of_products_of_codes(seed: int, pairs: int, first: int) -> None:
    rng, blocks = np.random.default_rng(seed), 2 * GROUP
    codes = rng.integers(-127, 128, (blocks, first + pairs + 2, 2 * BLOCK)).astype(np.int8)
    queries, levels = rng.integers(0, 2 * QUERY_OFFSET, (7, pairs, 2)), rng.integers(0, 2, 7)
    starts = rng.integers(-(2**15), 2**15, (2, blocks * BLOCK)).astype(np.int16)
    packed = (queries * [1, 256]).sum(2) * 65537
    rows = rng.permutation(7)[: ABREAST + 2]
    ratings, peaks = np.zeros((7, (blocks + 1) * BLOCK), np.int16), np.full((7, BLOCK), -(2**15), np.int16)
    rated(codes, first, packed.astype(np.int32), starts, levels, rows, ratings, peaks)
    used = codes[:, first : first + pairs].reshape(blocks, pairs, BLOCK, 2)
    products = used[None].astype(int) * queries[:, None, :, None, :]
    sums = (products.sum((2, 4)).reshape(7, blocks * BLOCK) + starts[levels]).astype(np.int16)  # modulo 2 ** 16
    np.testing.assert_array_equal(ratings[rows, : blocks * BLOCK], sums[rows])
    np.testing.assert_array_equal(peaks[rows[:ABREAST]], sums.reshape(7, blocks, BLOCK).max(1)[rows[:ABREAST]])
    assert (np.delete(ratings, rows, axis=0) == 0).all()
    assert (ratings[:, blocks * BLOCK :] == 0).all()


def test_a_processor_without_the_instruction_for_codes_rates_the_same(tmp_path: Path) -> None:
    test = f"{__file__}::{test_ratings_are_the_sums_of_products_of_codes.__name__}"
    plain = {**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    done = subprocess.run(command, env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(0, 9), st.floats(0, 1))
def test_bounds_of_blocks_are_the_highest_sums_in_them(seed: int, blocks: int, cells: int, allowed: float) -> None:
    rng = np.random.default_rng(seed)
    base = np.where(rng.random(blocks * BLOCK) < allowed, rng.normal(size=blocks * BLOCK), -np.inf).astype(np.float32)
    norms, lengths = rng.random((2, len(base))).astype(np.float32), rng.random((cells, 2)).astype(np.float32)
    sums = base + (lengths[:, :1] * norms[0] + lengths[:, 1:] * norms[1])
    np.testing.assert_array_equal(bound(base, norms, lengths), sums.reshape(cells, blocks, BLOCK).max(2))


@kernel
def best_of(values, ranks, heap, sizes, lowest, scores, numbers):
    for k in range(len(values)):
        if values[k] > -np.inf:
            offer(heap, sizes, 1, entry_of(values[k], ranks[k]))
        if sizes[1] == heap.shape[1]:
            lowest[k] = worst(heap, 1)[0]
    settle(heap, sizes, 1, np.arange(len(values), dtype=np.int32), scores, numbers, 0)


@kernel
def best_of_some(values, ranks, heap, sizes, some, scores, numbers):
    entries = np.empty(len(values) + FEW, np.uint64)
    for first in range(0, len(values), some):
        count = 0
        for k in range(first, min(first + some, len(values))):
            entries[count] = entry_of(values[k], ranks[k])
            count += values[k] > -np.inf
        offer_all(heap, sizes, 1, entries, count)
    settle(heap, sizes, 1, np.arange(len(values), dtype=np.int32), scores, numbers, 0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 10, FEW, FEW + 1, 100]), st.integers(0, 300))
def test_rows_of_the_best_hold_what_a_sort_leaves(seed: int, n: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.choice([-np.inf, -1e30, -2.5, 0.0, 1e-40, 0.5, 0.5, 3e38], count).astype(np.float32)
    ranks = rng.permutation(count).astype(np.int32)
    heap, sizes, lowest = np.zeros((2, n), np.uint64), np.zeros(2, np.int64), np.full(count, np.nan, np.float32)
    for _ in range(2):  # a row that was emptied is as good as new
        scores, numbers = np.zeros((1, n), np.float32), np.zeros((1, n), np.int32)
        best_of(values, ranks, heap, sizes, lowest, scores, numbers)
        order = [k for k in np.lexsort((ranks, -values)) if values[k] > -np.inf][:n]
        assert numbers[0].tolist() == ranks[order].tolist() + [-1] * (n - len(order))
        assert scores[0].tolist() == values[order].tolist() + [-np.inf] * (n - len(order))
        for some in (1, 4, 40, 400):
            again, ranked = np.zeros((1, n), np.float32), np.zeros((1, n), np.int32)
            best_of_some(values, ranks, heap, sizes, some, again, ranked)
            assert again.tolist() == scores.tolist()
            assert ranked.tolist() == numbers.tolist()
    for k in range(count):
        offered = np.sort(values[: k + 1][values[: k + 1] > -np.inf])
        assert lowest[k] == offered[-n] if len(offered) >= n else np.isnan(lowest[k])


def test_ties_go_to_the_lower_tie_order() -> None:
    search = Search(np.ones((100, 4), np.float32), np.arange(100)[::-1])
    assert search.top(np.ones((1, 4), np.float32), 3)[0].tolist() == [[99, 98, 97]]


@settings(max_examples=40, deadline=None)
@given(worlds())
def test_floors_cut_the_lists_off_where_scores_fall_below(world) -> None:
    search, queries, ties, n, rng = world
    queries = np.repeat(queries[:12], 9, axis=0)  # some go on where others stop
    numbers, scores = search.top(queries, n)
    floors = scores[np.arange(len(queries)), rng.integers(0, min(n, len(ties)), len(queries))]
    above = scores >= floors[:, None]
    found = search.top(queries, n, floors=floors)
    np.testing.assert_array_equal(found[0], np.where(above, numbers, -1))
    np.testing.assert_array_equal(found[1], np.where(above, scores, -np.inf))


def test_floors_drop_lower_scores_and_keep_equal_ones() -> None:
    search = Search(np.arange(50, dtype=np.float32)[:, None], np.arange(50))
    numbers, _ = search.top(np.ones((1, 1), np.float32), 5, floors=np.array([48], np.float32))
    assert numbers.tolist() == [[49, 48, -1, -1, -1]]


def test_most_of_a_pool_with_strong_biases_is_left_out() -> None:
    rng = np.random.default_rng(0)
    keys = np.hstack([0.05 * rng.normal(size=(20_000, 16)), rng.normal(size=(20_000, 1))]).astype(np.float32)
    queries = np.hstack([rng.normal(size=(200, 16)), np.ones((200, 1))]).astype(np.float32)
    visits = Search(keys, np.arange(20_000), constant=1).visits(queries, 10)
    assert visits.filtered < 0.05
    assert visits.scored < 0.01


@pytest.mark.parametrize("values", [1, 3])
def test_among_equals_what_loses_every_tie_is_left_out(values: int) -> None:
    rng = np.random.default_rng(0)
    keys, ties = rng.integers(0, values, (20_000, 1)).astype(np.float32), rng.permutation(20_000)
    search, queries = Search(keys, ties, constant=1), np.ones((50, 1), np.float32)
    assert_exact(search, queries, ties, 10, random_bonus(rng, 50, 20_000))
    assert search.visits(queries, 10).filtered < 0.05


def test_a_small_memory_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    keys = rng.normal(size=(4000, 10)).astype(np.float32)
    queries = (rng.normal(size=(300, 10)) * rng.exponential(10.0, (300, 1)) ** 3).astype(np.float32)
    rich, poor = Search(keys, np.arange(4000)), Search(keys, np.arange(4000), memory=1)
    for a, b in zip(rich.top(queries, 7), poor.top(queries, 7), strict=True):
        np.testing.assert_array_equal(a, b)


def test_threads_answer_in_a_forked_process_too() -> None:
    code = """
import os, numpy as np
from whyrank.index.search import PIECE, Search
rng = np.random.default_rng(0)
queries = rng.normal(size=(4 * PIECE, 8)).astype(np.float32)
search = Search(rng.normal(size=(500, 8)).astype(np.float32), np.arange(500))
expected = search.top(queries, 3, threads=2)[0]
child = os.fork()
if child == 0:
    os._exit(0 if (search.top(queries, 3, threads=2)[0] == expected).all() else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=120)


def test_no_queries_give_empty_tables() -> None:
    numbers, scores = Search(np.ones((3, 2), np.float32), np.arange(3)).top(np.empty((0, 2), np.float32), 4)
    assert numbers.shape == scores.shape == (0, 4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(bad: float) -> None:
    good, broken = np.ones((4, 3), np.float32), np.ones((4, 3), np.float32)
    broken[2, 1] = bad
    with pytest.raises(ParameterError, match="keys"):
        Search(broken, np.arange(4))
    search = Search(good, np.arange(4), constant=1)
    with pytest.raises(ParameterError, match="query 2"):
        search.top(broken, 2)
    with pytest.raises(ParameterError, match="boost"):
        search.top(good, 2, boost=np.full(4, bad, np.float32))
    with pytest.raises(ParameterError, match="bonus"):
        search.top(good[:1], 2, bonus=Bonus(np.array([0, 1]), np.array([1], np.int32), np.array([bad], np.float32)))


def test_bad_arguments_are_refused() -> None:
    search, query = Search(np.ones((4, 3), np.float32), np.arange(4)), np.ones((1, 3), np.float32)
    for arguments, named in [
        ({"n": 0}, "n is 0"),
        ({"allowed": np.ones(3, bool)}, "allowed"),
        ({"boost": np.ones(3, np.float32)}, "boost"),
        ({"floors": np.array([np.nan], np.float32)}, "floors"),
        ({"candidates": Candidates(np.array([0]), np.array([2]), np.array([2, 1], np.int32))}, "candidates"),
        ({"candidates": Candidates(np.array([0]), np.array([1]), np.array([4], np.int32))}, "candidates"),
        ({"candidates": Candidates(np.array([0]), np.array([2]), np.array([1], np.int32))}, "candidates"),
        ({"candidates": Candidates(np.array([], int), np.array([], int), np.array([], np.int32))}, "each of 1"),
        ({"bonus": Bonus(np.array([0, 1]), np.array([0], np.int32), np.array([-1], np.float32))}, "bonus"),
    ]:
        with pytest.raises(ParameterError, match=named):
            search.top(query, **{"n": 1, **arguments})
    with pytest.raises(ParameterError, match="columns"):
        search.top(np.ones((1, 2), np.float32), 1)
    with pytest.raises(ParameterError, match="scale"):
        search.top(np.full((1, 3), 1e38, np.float32), 1)
    with pytest.raises(ParameterError, match="parts"):
        Search(np.ones((4, 3), np.float32), np.arange(4), parts=(1, 1))
    with pytest.raises(ParameterError, match="tie_order"):
        Search(np.ones((4, 3), np.float32), np.arange(5))


@st.composite
def users(draw: st.DrawFn) -> tuple[Search, Floats, Floats, int, float, np.random.Generator]:
    """A user's queries with all items, and item scores."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    items, pool, d = draw(st.sampled_from([1, 40, 300])), draw(st.sampled_from([1, 60, 400])), 6
    keys = rng.normal(size=(pool, 2 * d + 2)) * draw(st.sampled_from([0.1, 1.0]))
    user, item = np.tile(rng.normal(size=d), (items, 1)), rng.normal(size=(items, d))
    queries = np.hstack([0.7 * user, 0.3 * item, np.full((items, 1), 0.7), np.full((items, 1), 0.3)])
    item_scores = rng.normal(size=items) * draw(st.sampled_from([0.0, 1.0, 10.0]))
    if draw(st.booleans()):
        keys, queries, item_scores = np.rint(keys), np.rint(2 * queries), np.rint(item_scores)
    search = Search(keys.astype(np.float32), rng.permutation(pool), constant=2, parts=(d, d))
    n, weight = draw(st.sampled_from([1, 10, 50])), draw(st.sampled_from([0.1, 1.0, 3.0]))
    return search, queries.astype(np.float32), item_scores.astype(np.float32), n, weight, rng


@settings(max_examples=80, deadline=None)
@given(users(), st.booleans(), st.booleans(), st.booleans())
def test_joint_ranking_finds_what_all_pairs_sorted_give(user, additive: bool, filtered: bool, with_bonus: bool) -> None:
    search, queries, item_scores, n, weight, rng = user
    excluded = np.flatnonzero(rng.random(len(queries)) < 0.3).astype(np.int32)
    allowed = rng.random(len(search)) < 0.5 if filtered else None
    bonus = random_bonus(rng, len(queries), len(search)) if with_bonus else None

    def bonus_of(items: NDArray[np.int32]) -> Bonus | None:
        if bonus is None:
            return None
        parts = [slice(*bonus.indptr[item : item + 2]) for item in items]
        indptr = np.concatenate([[0], np.cumsum([part.stop - part.start for part in parts])])
        return Bonus(indptr, *(np.concatenate([each[part] for part in parts]) for each in bonus[1:]))

    bounds = None
    if additive:
        of_user, of_item = (PartBound(search.keys, side, constant=1) for side in ((*range(6), 12), (*range(6, 12), 13)))
        bounds = of_user(queries) + of_item(queries, bonus)
    found = top_pairs(
        item_scores, lambda items: queries[items], search, n,
        weight=weight, excluded=excluded, bounds=bounds, bonus_of=bonus_of, allowed=allowed,
    )  # fmt: skip
    numbers, scores = search.top(queries, len(search), bonus=bonus, allowed=allowed)
    totals = item_scores[:, None] + np.float32(weight) * scores
    totals[excluded] = -np.inf
    order = np.argsort(-totals, axis=None, kind="stable")[: min(n, int(np.isfinite(totals).sum()))]
    item, place = np.unravel_index(order, totals.shape)
    np.testing.assert_array_equal(found.items, item)
    np.testing.assert_array_equal(found.explanations, numbers[item, place])
    np.testing.assert_array_equal(found.scores, totals[item, place])


def test_joint_ranking_looks_at_few_items_when_item_scores_differ() -> None:
    rng = np.random.default_rng(0)
    search = Search(rng.normal(size=(500, 4)).astype(np.float32) * np.float32(0.1), np.arange(500))
    queries = rng.normal(size=(5000, 4)).astype(np.float32)
    found = top_pairs(np.arange(5000, dtype=np.float32), lambda items: queries[items], search, 10)
    assert found.items_searched <= 64


def test_joint_ranking_refuses_a_weight_that_is_not_positive() -> None:
    search = Search(np.ones((2, 1), np.float32), np.arange(2))
    for weight in (0.0, -1.0, np.nan):
        with pytest.raises(ParameterError, match="weight"):
            top_pairs(np.zeros(1, np.float32), lambda items: np.ones((1, 1), np.float32), search, 1, weight=weight)


def test_lists_are_full_where_only_bases_differ_and_by_much() -> None:
    keys = np.zeros((500, 5), np.float32)
    keys[:, 4] = np.linspace(-1e14, 1e14, 500)
    queries = np.ones((4, 5), np.float32)
    found = Search(keys, np.arange(500), constant=1, parts=(2, 2)).top(queries, 3)[0]
    np.testing.assert_array_equal(found, np.tile([499, 498, 497], (4, 1)))
