"""A model's search is ready before anybody asks: laid out, and warmed up for all users and items if that is cheap."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import whyrank as wr
from whyrank.data.csr import CSR
from whyrank.index import prepare
from whyrank.index.form import constant_and_parts
from whyrank.index.layout import Keys, Layout, View
from whyrank.index.search import FAR, Search
from whyrank.simd import BLOCK


@pytest.fixture(scope="module")
def model() -> wr.BPER:
    """Factors so large that norms leave nearly everything, and so small that ceilings do not."""
    triplets = wr.simulate("small", seed=0, users=300, items=200, explanations=4000, records=4000)
    return wr.BPER(epochs=1, factor_range=0.2, bias_start="popularity").fit(triplets)


def bare(model: wr.BPER) -> Search:
    constant, parts = constant_and_parts(model.blocks())
    return Search(model.keys(), model.catalog_.ranks, constant=constant, parts=parts)


def strangers(model: wr.BPER) -> np.ndarray:
    """Queries of pairs that nobody has asked about, each item once."""
    rng, users, items = np.random.default_rng(1), len(model.catalog_.users), len(model.catalog_.items)
    return model.queries(rng.permutation(users)[:items].astype(np.int32), rng.permutation(items).astype(np.int32))


def test_the_first_call_knows_all_users_and_items(model: wr.BPER, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "SAMPLE", 5)
    queries = strangers(model)
    new, ready = bare(model), prepare.prepared(model, model.catalog_)
    before = new.visits(queries, 10).filtered
    assert before * len(new) / BLOCK > FAR
    assert ready.visits(queries, 10).filtered < before / 3
    for a, b in zip(new.top(queries, 10), ready.top(queries, 10), strict=True):
        np.testing.assert_array_equal(a, b)


def test_where_it_would_take_long_users_and_items_become_known_as_they_come(
    model: wr.BPER, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "EFFORT", 1)
    monkeypatch.setattr(prepare, "SAMPLE", 5)
    queries, search = strangers(model), prepare.prepared(model, model.catalog_)
    first = search.visits(queries, 10).filtered
    for _ in range(8):
        search.top(queries, 10)
    assert search.visits(queries, 10).filtered < first / 3


def test_a_model_hands_out_the_search_that_was_prepared(model: wr.BPER) -> None:
    assert model.search() is model.search()
    assert model.search().nbytes == prepare.prepared(model, model.catalog_).nbytes > bare(model).nbytes


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 6), max_size=5), min_size=1, max_size=9), st.integers(1, 20))
def test_the_sample_is_of_pairs_that_there_are(rows: list[list[int]], size: int) -> None:
    pairs = [(user, item) for user, items in enumerate(rows) for item in sorted(set(items))]
    assume(pairs)
    users, items = (np.array(side) for side in zip(*pairs, strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare, "SAMPLE", size)
        some = list(zip(*prepare._some_pairs(CSR.from_pairs(users, items, len(rows), 7)), strict=True))
    assert len(some) == len(set(some)) == min(size, len(pairs))
    assert set(some) <= set(pairs)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_cells_are_the_same_when_threads_share_them(size: int) -> None:
    rng = np.random.default_rng(0)
    keys = Keys(rng.normal(size=(700, 6)).astype(np.float32), 6, 3)
    base, ranks = rng.normal(size=700).astype(np.float32), rng.permutation(700).astype(np.int32)
    wanted = [(a, b) for a in range(5) for b in range(4)]
    wanted = wanted[10:] + wanted[:10]

    def in_pieces(work, count: int) -> list:
        return [work(first, min(first + size, count)) for first in range(0, count, size)]

    def at_once(work, count: int) -> list:
        return [work(0, count)]

    pools = []
    for share in (in_pieces, at_once):
        view = View(Layout(keys, base, np.ones(2), ranks), base, 1 << 20)
        view.levels(np.ones((1, 4)), np.zeros(1, np.int64))
        places = view.cells(wanted[:7], share), view.cells(wanted, share)
        assert sorted(places[1]) == list(range(len(wanted)))
        assert places[1][:7] == places[0]
        pools.append(view.pool())
    np.testing.assert_array_equal(pools[0].order, pools[1].order)
    np.testing.assert_array_equal(pools[0].bounds, pools[1].bounds)
