"""The exact search against full sorts."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from whyrank.compile import kernel
from whyrank.data.csr import CSR
from whyrank.errors import ParameterError
from whyrank.index import bounds as upper_bounds
from whyrank.index import search as search_module
from whyrank.index._grounded import ItemRules, ListRules
from whyrank.index._heap import empty_into, entry_of, offer
from whyrank.index.bounds import UpperBounds
from whyrank.index.form import Bonus
from whyrank.index.search import Search
from whyrank.simd import BLOCK

Floats = NDArray[np.float32]
Numbers = NDArray[np.int32]
Pairs = tuple[Numbers, Numbers]


class World(NamedTuple):
    """A search, queries of users and items, and what the oracle needs."""

    search: Search
    queries: Floats
    pairs: Pairs
    ties: NDArray[np.int64]
    n: int
    rng: np.random.Generator


def full_sort(world: World, added: Floats, allowed: NDArray[np.bool_]) -> tuple[Numbers, Floats]:
    """The oracle: every explanation scored, all sorted by score and then by tie order."""
    everything = np.tile(np.arange(len(world.ties), dtype=np.int32), (len(world.queries), 1))
    scores = np.where(allowed, world.search.scores(world.queries, everything) + added, np.float32(-np.inf))
    numbers = np.full((len(scores), world.n), -1, np.int32)
    values = np.full((len(scores), world.n), -np.inf, np.float32)
    for row, score in enumerate(scores):
        order = np.lexsort((world.ties, -score))[: world.n]
        order = order[score[order] > -np.inf]
        numbers[row, : len(order)], values[row, : len(order)] = order, score[order]
    return numbers, values


def random_bonus(rng: np.random.Generator, rows: int, pool: int) -> Bonus:
    sets = [np.flatnonzero(rng.random(pool) < rng.choice([0.0, 0.02, 0.5])) for _ in range(rows)]
    indptr = np.concatenate([[0], np.cumsum([len(each) for each in sets])]).astype(np.int64)
    explanations = np.concatenate(sets).astype(np.int32)
    return Bonus(indptr, explanations, rng.exponential(1.0, len(explanations)).astype(np.float32))


def dense(bonus: Bonus | None, rows: int, pool: int) -> Floats:
    added = np.zeros((rows, pool), np.float32)
    if bonus is not None:
        added[np.repeat(np.arange(rows), np.diff(bonus.indptr)), bonus.explanations] = bonus.values
    return added


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Keys, queries and ties of many kinds: dominated by biases or by factors, coarse (many ties), zero, uneven."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pool = draw(st.sampled_from([1, 2, 31, 33, 200, 1500, 3000]))
    width, rows = draw(st.sampled_from([0, 1, 5, 8, 20, 41])), draw(st.sampled_from([1, 3, 40, 90]))
    constant = draw(st.integers(0, min(2, width)))
    columns, split = width - constant, draw(st.integers(0, width - constant))
    bias, spread = draw(st.sampled_from([0.0, 0.1, 10.0])), draw(st.sampled_from([0.0, 1e-30, 0.01, 1.0, 1e8]))
    keys = rng.normal(size=(pool, width)) * spread * rng.exponential(1.0, (pool, 1)) ** draw(st.sampled_from([0, 1, 4]))
    keys[:, columns:] = bias * rng.normal(size=(pool, constant)) - draw(st.sampled_from([0.0, 5.0]))
    pairs: Pairs = (rng.integers(-1, 5, rows).astype(np.int32), rng.integers(-1, 8, rows).astype(np.int32))
    users, items = (rng.normal(size=(10, columns)) * rng.exponential(1.0, (10, 1)) for _ in range(2))
    queries = np.empty((rows, width))
    queries[:, :split], queries[:, split:columns] = users[pairs[0], :split], items[pairs[1], split:]
    if draw(st.booleans()):  # few distinct values: equal scores everywhere
        keys, queries = np.rint(np.clip(keys, -9, 9)), np.rint(queries)
    if draw(st.booleans()):  # the same explanation many times
        keys = keys[rng.integers(0, pool, pool) // 2]
    queries[:, columns:] = rng.choice([0.25, 0.75], size=(draw(st.sampled_from([1, rows])), constant))
    ties, n = rng.permutation(pool), draw(st.sampled_from([1, 10, BLOCK, BLOCK + 1, pool, pool + 3]))
    typical = draw(st.sampled_from([None, queries.astype(np.float32)]))
    search = Search(keys.astype(np.float32), ties, constant=constant, split=split, typical=typical)
    return World(search, queries.astype(np.float32), pairs, ties, n, rng)


def assert_finds(world: World, expected: tuple[Numbers, Floats], **given: Any) -> None:
    """Compare lists by norms, by bounds of parts, and with threads, with what is expected."""
    for pairs, uses, threads in ((None, 1, 1), (world.pairs, 1, 1), (world.pairs, 3, 2)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(UpperBounds, "_uses_before_bounds_pay", lambda _, uses=uses: uses)
            patch.setattr(search_module, "TASK", 16)
            found = world.search.top(world.queries, world.n, pairs=pairs, threads=threads, **given)
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])


@settings(max_examples=100, deadline=None)
@given(worlds(), st.booleans(), st.booleans())
def test_the_search_finds_what_a_full_sort_finds(world: World, with_bonus: bool, with_filter: bool) -> None:
    rng, rows, pool = world.rng, len(world.queries), len(world.ties)
    bonus = random_bonus(rng, rows, pool) if with_bonus else None
    allowed = rng.random(pool) < rng.choice([0.0, 0.05, 0.7]) if with_filter else None
    everything = np.ones(pool, bool) if allowed is None else allowed
    assert_finds(world, full_sort(world, dense(bonus, rows, pool), everything), bonus=bonus, allowed=allowed)


@settings(max_examples=30, deadline=None)
@given(worlds())
def test_a_boost_counts_as_part_of_what_scores_begin_from(world: World) -> None:
    pool, rows = len(world.ties), len(world.queries)
    boost = world.rng.normal(size=pool).astype(np.float32)
    everything = np.tile(np.arange(pool, dtype=np.int32), (rows, 1))
    scores = world.search.scores(world.queries, everything, boost=boost)
    order = np.stack([np.lexsort((world.ties, -row))[: world.n] for row in scores])
    numbers = np.pad(order, ((0, 0), (0, world.n - order.shape[1])), constant_values=-1)
    values = np.where(numbers < 0, np.float32(-np.inf), np.take_along_axis(scores, numbers, 1))
    assert_finds(world, (numbers, values), boost=boost)


def fits(chosen: list[int], e: int, limits: ListRules) -> bool:
    """Whether a list may have one more, in plain words."""
    topic, counted, sense = limits.groups[:, e]
    if topic < 0:
        return True
    for other in chosen:
        if limits.per_aspect and sense >= 0 and limits.groups[2, other] == sense:
            return False
        if limits.consistent and limits.groups[0, other] == topic and limits.signs[other] * limits.signs[e] < 0:
            return False
    same = [other for other in chosen if counted >= 0 and limits.groups[1, other] == counted]
    return not limits.per_aspect or len(same) < limits.per_aspect


@settings(max_examples=60, deadline=None)
@given(worlds(), st.booleans(), st.booleans(), st.sampled_from([0, 1, 2]), st.booleans(), st.booleans())
def test_lists_of_items_are_those_of_a_full_sort_by_the_rules(
    world: World, with_bonus: bool, with_boost: bool, per_aspect: int, consistent: bool, counted: bool
) -> None:
    search, queries, (_, items), ties, n, rng = world
    rows, pool = len(queries), len(ties)
    bonus = random_bonus(rng, rows, pool) if with_bonus else None
    boost = rng.normal(size=pool).astype(np.float32) if with_boost else None
    allowed = rng.random(pool) < 0.8 if with_boost else np.empty(0, bool)
    said = random_bonus(rng, 8, pool)
    size = len(said.explanations) if counted else 0
    supporting, opposing = rng.integers(0, 9, (2, size)).astype(np.int32)
    standing = rng.random(size).astype(np.float32)
    worth = rng.choice([-np.inf, -0.5, 0.0, 1.5], size).astype(np.float32)
    known = ItemRules(*said[:2], supporting, opposing, standing, worth, 1.5, 2, 0.7, allowed)
    topic = rng.integers(-1, 3, pool)
    groups = np.stack([topic, np.where(topic == 2, -1, topic), rng.integers(-1, 4, pool)]).astype(np.int32)
    limits = ListRules(groups, rng.integers(-1, 2, pool).astype(np.int8), per_aspect, consistent)
    found = search.among(queries, items, n, (known, limits), bonus=bonus, boost=boost, threads=1)
    everything = np.tile(np.arange(pool, dtype=np.int32), (rows, 1))
    scores = search.scores(queries, everything, boost=boost) + dense(bonus, rows, pool)
    for row, item in enumerate(items.tolist()):
        mine: dict[int, np.float32] = {}
        for entry in range(said.indptr[item], said.indptr[item + 1]) if item >= 0 else ():
            e = int(said.explanations[entry])
            backed = not counted or (
                supporting[entry] >= 2 and supporting[entry] > 1.5 * opposing[entry] and standing[entry] <= 0.7
            )
            if backed and (not with_boost or allowed[e]) and not (counted and worth[entry] == -np.inf):
                mine[e] = scores[row, e] + worth[entry] if counted else scores[row, e]
        chosen: list[int] = []
        for e in sorted(mine, key=lambda e: (-mine[e], ties[e])):
            if len(chosen) < n and fits(chosen, e, limits):
                chosen.append(e)
        assert found[0][row].tolist() == chosen + [-1] * (n - len(chosen))
        assert found[1][row, : len(chosen)].tolist() == [mine[e] for e in chosen]


@settings(max_examples=30, deadline=None)
@given(worlds())
def test_excluded_explanations_never_come_and_the_rest_is_exact(world: World) -> None:
    rows, pool = len(world.queries), len(world.ties)
    best = world.search.top(world.queries, world.n)[0]
    sizes = world.rng.integers(0, 40, rows)  # of what would have been found
    pairs = [(row, number) for row in range(rows) for number in best[row][: sizes[row]] if number >= 0]
    at = np.array(pairs, np.int64).reshape(-1, 2)
    excluded, allowed = CSR.from_pairs(at[:, 0], at[:, 1], rows, pool), np.ones((rows, pool), bool)
    allowed[at[:, 0], at[:, 1]] = False
    assert_finds(world, full_sort(world, np.float32(0), allowed), excluded=excluded)


@settings(max_examples=30, deadline=None)
@given(worlds())
def test_scores_are_near_the_exact_dot_product(world: World) -> None:
    numbers, scores = world.search.top(world.queries, 3)
    keys = world.search.keys.astype(np.float64)
    for row in range(len(world.queries)):
        for number, score in zip(numbers[row], scores[row], strict=True):
            if number >= 0:
                terms = keys[number] * world.queries[row]
                assert abs(score - terms.sum()) <= 1e-5 * np.abs(terms).sum() + 1e-36


@settings(max_examples=30, deadline=None)
@given(worlds())
def test_no_score_is_above_the_bound_of_its_query(world: World) -> None:
    best = world.search.top(world.queries, 1)[1][:, 0]
    assert (world.search.bounds(world.queries) >= best).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 5, 20]), st.integers(0, 3))
def test_upper_bounds_of_parts_hold_what_any_score_in_a_group_can_be(seed: int, width: int, split: int) -> None:
    """With margins left out, rounding alone would bring some sums of bounds below the scores."""
    rng = np.random.default_rng(seed)
    keys = np.full((64, width + split), 1 / 3, np.float32) * rng.choice([1, 1e-3, 1e3], (64, 1)).astype(np.float32)
    queries = rng.choice([0.1, 0.7, -0.3], (50, width + split)).astype(np.float32)
    search, pairs = Search(keys, rng.permutation(64), split=split), (np.arange(50, dtype=np.int32),) * 2
    everything = np.tile(np.arange(64, dtype=np.int32), (50, 1))
    expected = np.sort(search.scores(queries, everything), axis=1)[:, ::-1]
    for _ in range(2):
        np.testing.assert_array_equal(search.top(queries, 3, pairs=pairs)[1], expected[:, :3])


@kernel
def best_of(values: Any, ranks: Any, heap: Any, scores: Any, numbers: Any) -> None:
    for k in range(len(values)):
        if values[k] > -np.inf:
            offer(heap, entry_of(values[k], ranks[k]))
    empty_into(heap, np.arange(len(values), dtype=np.int32), scores, numbers, 0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 10, 100]), st.integers(0, 300))
def test_a_heap_holds_what_a_sort_leaves(seed: int, n: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.choice([-np.inf, -1e30, -2.5, 0.0, 1e-40, 0.5, 0.5, 3e38], count).astype(np.float32)
    ranks, heap = rng.permutation(count).astype(np.int32), np.zeros(n, np.uint64)
    for _ in range(2):  # one that was emptied is as good as new
        scores, numbers = np.zeros((1, n), np.float32), np.zeros((1, n), np.int32)
        best_of(values, ranks, heap, scores, numbers)
        order = [k for k in np.lexsort((ranks, -values)) if values[k] > -np.inf][:n]
        assert numbers[0].tolist() == ranks[order].tolist() + [-1] * (n - len(order))
        assert scores[0].tolist() == values[order].tolist() + [-np.inf] * (n - len(order))


def test_ties_go_to_the_lower_tie_order() -> None:
    search = Search(np.ones((100, 4), np.float32), np.arange(100)[::-1])
    assert search.top(np.ones((1, 4), np.float32), 3)[0].tolist() == [[99, 98, 97]]


def two_parts(rng: np.random.Generator, pool: int, people: int, count: int) -> tuple[Search, Floats, Pairs]:
    """Keys, and queries of some users and items."""
    keys = (0.5 * rng.normal(size=(pool, 9))).astype(np.float32)
    users, items = rng.normal(size=(2, people, 4))
    who, what = rng.integers(0, people, (2, count)).astype(np.int32)
    queries = np.hstack([users[who], items[what], np.ones((count, 1))]).astype(np.float32)
    return Search(keys, np.arange(pool), constant=1, split=4), queries, (who, what)


def test_bounds_of_parts_leave_out_more_than_norms_do() -> None:
    by_norms, queries, pairs = two_parts(np.random.default_rng(0), 20_000, 30, 1000)
    by_bounds = two_parts(np.random.default_rng(0), 20_000, 30, 1000)[0]
    by_norms.top(queries, 10)
    for _ in range(8):
        by_bounds.top(queries, 10, pairs=pairs)
    assert by_bounds.scored() < 0.5 * by_norms.scored()


def test_most_of_a_pool_with_strong_biases_is_left_out() -> None:
    rng = np.random.default_rng(0)
    keys = np.hstack([0.05 * rng.normal(size=(20_000, 16)), rng.normal(size=(20_000, 1))]).astype(np.float32)
    queries = np.hstack([rng.normal(size=(200, 16)), np.ones((200, 1))]).astype(np.float32)
    search = Search(keys, np.arange(20_000), constant=1, typical=queries)
    search.top(queries, 10)
    assert search.scored() < 0.05


def test_a_part_that_changed_is_not_bounded_by_what_it_was() -> None:
    search, queries, pairs = two_parts(np.random.default_rng(1), 3000, 20, 600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UpperBounds, "_uses_before_bounds_pay", lambda _: 1)
        search.top(queries, 5, pairs=pairs)
        other = np.ascontiguousarray(queries[::-1])
        for _ in range(2):
            np.testing.assert_array_equal(search.top(other, 5, pairs=pairs)[0], search.top(other, 5)[0])


def test_bounds_stay_within_their_memory_and_change_nothing() -> None:
    rng = np.random.default_rng(2)
    rich, queries, pairs = two_parts(rng, 3000, 200, 900)
    poor = Search(rich.keys, np.arange(3000), constant=1, split=4, memory=40_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UpperBounds, "_uses_before_bounds_pay", lambda _: 1)
        for _ in range(2):
            np.testing.assert_array_equal(poor.top(queries, 5, pairs=pairs)[0], rich.top(queries, 5)[0])
    sizes = [side.parts.nbytes + side.bounds.nbytes for side in poor._prepare()[1]._sides]
    assert sum(sizes) <= 40_000


def test_an_interrupted_computation_leaves_no_wrong_bounds() -> None:
    search, queries, pairs = two_parts(np.random.default_rng(3), 3000, 20, 300)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UpperBounds, "_uses_before_bounds_pay", lambda _: 1)
        with patch.context() as broken:
            broken.setattr(upper_bounds.kernels, "compute_bounds", interrupted)
            with pytest.raises(KeyboardInterrupt):
                search.top(queries, 5, pairs=pairs)
        np.testing.assert_array_equal(search.top(queries, 5, pairs=pairs)[0], search.top(queries, 5)[0])


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("values", [1, 3])
def test_among_equals_what_loses_every_tie_is_not_scored(values: int) -> None:
    rng = np.random.default_rng(0)
    keys, ties = rng.integers(0, values, (20_000, 1)).astype(np.float32), rng.permutation(20_000)
    search, queries = Search(keys, ties, constant=1), np.ones((50, 1), np.float32)
    nobody = np.full(50, -1, np.int32)
    world = World(search, queries, (nobody, nobody), ties, 10, rng)
    bonus = random_bonus(rng, 50, 20_000)
    assert_finds(world, full_sort(world, dense(bonus, 50, 20_000), np.ones(20_000, bool)), bonus=bonus)
    assert search.scored() < 0.05


def test_threads_answer_in_a_forked_process_too() -> None:
    code = """
import os, numpy as np
from whyrank.index.search import TASK, Search
rng = np.random.default_rng(0)
queries = rng.normal(size=(4 * TASK, 8)).astype(np.float32)
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


def test_lists_are_full_where_only_bases_differ_and_by_much() -> None:
    keys = np.zeros((500, 5), np.float32)
    keys[:, 4] = np.linspace(-1e14, 1e14, 500)
    queries = np.ones((4, 5), np.float32)
    found = Search(keys, np.arange(500), constant=1, split=2).top(queries, 3)[0]
    np.testing.assert_array_equal(found, np.tile([499, 498, 497], (4, 1)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(bad: float) -> None:
    good, broken = np.ones((4, 3), np.float32), np.ones((4, 3), np.float32)
    broken[2, 1] = bad
    with pytest.raises(ParameterError, match="keys"):
        Search(broken, np.arange(4))
    search = Search(good, np.arange(4), constant=1)
    with pytest.raises(ParameterError, match="query 2"):
        search.top(broken, 2)
    broken[2, 1], broken[2, 2] = 1, bad  # among the constants
    with pytest.raises(ParameterError, match="query 2"):
        search.top(broken, 2)
    with pytest.raises(ParameterError, match="boost"):
        search.top(good, 2, boost=np.full(4, bad, np.float32))


def one_bonus(number: int, value: float, end: int = 1) -> Bonus:
    return Bonus(np.array([0, end]), np.array([number], np.int32), np.array([value], np.float32))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"n": 0}, "n is 0"),
        ({"allowed": np.ones(3, bool)}, "allowed"),
        ({"boost": np.ones(3, np.float32)}, "boost"),
        ({"bonus": one_bonus(0, -1.0)}, "bonus"),
        ({"bonus": one_bonus(0, np.nan)}, "bonus"),
        ({"bonus": one_bonus(4, 1.0)}, "bonus"),
        ({"bonus": one_bonus(0, 1.0, end=2)}, "bonus"),
        ({"bonus": one_bonus(0, 1e38)}, "scores"),
        ({"queries": np.ones((1, 2), np.float32)}, "columns"),
        ({"queries": np.full((1, 3), 1e38, np.float32)}, "scale"),
        ({"pairs": (np.zeros(2, np.int32), np.zeros(1, np.int32))}, "pairs"),
        ({"excluded": CSR.from_pairs(np.zeros(1, int), np.zeros(1, int), 2, 3)}, "excluded"),
        ({"excluded": CSR.from_pairs(np.zeros(1, int), np.zeros(1, int), 1, 3), "bonus": one_bonus(0, 1)}, "excluded"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], named: str) -> None:
    search = Search(np.ones((4, 3), np.float32), np.arange(4))
    asked = {"queries": np.ones((1, 3), np.float32), "n": 1} | arguments
    with pytest.raises(ParameterError, match=named):
        search.top(**asked)


def test_a_search_that_does_not_fit_together_is_refused() -> None:
    with pytest.raises(ParameterError, match="split"):
        Search(np.ones((4, 3), np.float32), np.arange(4), split=4)
    with pytest.raises(ParameterError, match="tie_order"):
        Search(np.ones((4, 3), np.float32), np.arange(5))


def test_an_item_that_is_not_there_is_refused() -> None:
    search, none = Search(np.ones((4, 3), np.float32), np.arange(4)), np.empty(0, np.int32)
    floats, zeros = np.empty(0, np.float32), np.zeros(4, np.int32)
    known = ItemRules(np.zeros(3, np.int64), none, none, none, floats, floats, 0.0, 0, 1.0, np.empty(0, bool))
    rules = known, ListRules(np.stack([zeros] * 3), zeros.astype(np.int8), 0, False)
    for items in ([2], [0, 1]):
        with pytest.raises(ParameterError, match="items"):
            search.among(np.ones((1, 3), np.float32), np.array(items, np.int32), 1, rules)
