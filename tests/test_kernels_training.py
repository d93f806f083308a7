"""The training kernels against plain Python and NumPy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import Parameters, planted, splitmix
from whyrank.compile import kernel
from whyrank.data.csr import CSR
from whyrank.rng import below, draw, key_of, shuffled
from whyrank.thread_pool import ThreadPool
from whyrank.training import FactorSettings, Storage
from whyrank.training._negatives import Known, draw_negatives
from whyrank.training._negatives import known_of as known_of_arrays
from whyrank.training._pairwise import BlockPositives, Rates, pairwise_task
from whyrank.training._shards import rows_of_groups, shard_numbers, sort_into_blocks
from whyrank.training._start import draw_one_per_run
from whyrank.training._vectors import sigmoid_of_minus
from whyrank.training.blocks import BlockSolver
from whyrank.training.sequential import SequentialSolver

words = st.integers(0, 2**64 - 1)
ALL = np.empty(0, np.bool_)
SHAPES = ("bper", "cd", "pitf", "bper-j", "cd-j", "pitf-j")


@given(words, st.integers(0, 2**40))
def test_draws_are_those_of_splitmix64(key: int, position: int) -> None:
    assert int(draw(np.uint64(key), position)) == splitmix(key, position)


@given(words, st.integers(1, 2**31))
def test_below_scales_the_upper_half_of_the_bits(bits: int, n: int) -> None:
    assert below(np.uint64(bits), n) == (bits >> 32) * n >> 32


@given(st.integers(0, 300), words)
def test_a_shuffle_is_a_permutation_that_its_key_decides(count: int, key: int) -> None:
    order = shuffled(count, np.uint64(key))
    assert sorted(order.tolist()) == list(range(count))
    assert np.array_equal(order, shuffled(count, np.uint64(key)))


def test_keys_tell_order_and_length_of_their_parts_apart() -> None:
    keys = {int(key_of(*parts)) for parts in [(0,), (0, 0), (1,), (0, 1), (1, 0), (1, 1), (2, 0), (0, 2)]}
    assert len(keys) == 8


def test_the_sigmoid_is_exact_to_a_millionth() -> None:
    x = np.linspace(-80, 80, 4001).astype(np.float32)
    exact = 1 / (1 + np.exp(x.astype(np.float64)))
    got = np.array([sigmoid_of_minus(value) for value in x])
    assert np.abs(got / exact - 1).max() < 1e-6


def test_the_sigmoid_stays_finite_far_out() -> None:
    assert sigmoid_of_minus(np.float32(1e30)) < 1e-37
    assert sigmoid_of_minus(np.float32(-1e30)) == 1


def known_of(csr: CSR) -> Known:
    return known_of_arrays(csr.indptr, csr.indices)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 40), st.integers(0, 60), words)
def test_negatives_are_of_the_pool_and_unknown_to_the_row(columns: int, pairs: int, key: int) -> None:
    rng = np.random.default_rng(key)
    csr = CSR.from_pairs(rng.integers(0, 5, pairs), rng.integers(0, columns, pairs), 5, columns)
    pool = rng.choice(columns, rng.integers(1, columns + 1), replace=False).astype(np.int32)
    rows = rng.integers(0, 5, 30).astype(np.int32)
    for row, negative in zip(rows, draw_negatives(rows, pool, known_of(csr), np.uint64(key)), strict=True):
        free = set(pool.tolist()) - set(csr.row(row).tolist())
        assert negative in free or (negative == -1 and len(free) < len(pool) / 2)


def test_negatives_are_drawn_uniformly() -> None:
    csr = CSR.from_pairs(np.zeros(3, int), np.array([1, 4, 6]), 1, 8)
    drawn = draw_negatives(np.zeros(50_000, np.int32), np.arange(8, dtype=np.int32), known_of(csr), np.uint64(7))
    counts = np.bincount(drawn, minlength=8)
    assert counts[[1, 4, 6]].sum() == 0
    assert np.abs(counts[[0, 2, 3, 5, 7]] - 10_000).max() < 500


def test_a_row_that_knows_the_whole_pool_gets_no_negative() -> None:
    csr = CSR.from_pairs(np.zeros(4, int), np.arange(4), 1, 4)
    drawn = draw_negatives(np.zeros(3, np.int32), np.arange(4, dtype=np.int32), known_of(csr), np.uint64(0))
    assert drawn.tolist() == [-1, -1, -1]


@pytest.mark.parametrize("three_way", [False, True])
@pytest.mark.parametrize("some", [False, True])
def test_every_entry_lands_in_the_block_of_its_columns_in_order(three_way: bool, some: bool) -> None:
    rng = np.random.default_rng(3)
    columns, shards, entries = 11, 4, 200
    row = np.sort(rng.integers(0, 20, entries)).astype(np.int32)
    column, other = rng.integers(0, columns, (2, entries)).astype(np.int32)
    first, second = (shard_numbers(shuffled(columns, np.uint64(key)), 1, columns, shards) for key in (1, 2))
    active = rng.random(entries) < 0.7 if some else ALL
    given = (row, column, first, other if three_way else other[:0], second if three_way else second[:0], shards)
    blocks = shards * shards if three_way else shards
    offsets, rows, places = sort_into_blocks(*given, active)
    number = first[column].astype(int) * shards + second[other] if three_way else first[column].astype(int)
    for block in range(blocks):
        expected = [e for e in range(entries) if number[e] == block and (not some or active[e])]
        inside = slice(offsets[block], offsets[block + 1])
        assert rows[inside].tolist() == row[expected].tolist()
        assert places[inside].tolist() == (expected if three_way else column[expected].tolist())


@pytest.mark.parametrize("size", [1, 3])
def test_shards_of_groups_hold_every_row_once(size: int) -> None:
    rows, shards = 20, 4
    groups = shuffled(-(-rows // size), np.uint64(1))
    row_shards = shard_numbers(groups, size, rows, shards)
    mine = [groups[len(groups) * a // shards : len(groups) * (a + 1) // shards] for a in range(shards)]
    assert [set(rows_of_groups(g, size, rows)) for g in mine] == [
        set(np.flatnonzero(row_shards == a)) for a in range(shards)
    ]


def test_one_triplet_of_every_record_is_drawn_and_each_has_its_chance() -> None:
    records = np.array([0, 1, 1, 1, 3, 3, 3, 3, 3])
    drawn = np.array([draw_one_per_run(records, key_of(epoch)) for epoch in range(300)])
    assert (np.add.reduceat(drawn, [0, 1, 4], axis=1) == 1).all()
    assert drawn.any(0).all()


def test_a_block_task_makes_the_updates_of_algorithm_1_in_its_two_streams() -> None:
    data = planted(0, users=30, items=10, pool=12, records=80)
    tables, passes = data.model("bper", factors=5)
    storage = Storage.started(tables, seed=3, factor_range=0.5)
    storage.bias("by_user")[:] = np.linspace(-1, 1, 12)
    oracle, one = Parameters(storage), passes[0]
    order = np.argsort(one.positive_rows, kind="stable")
    rows, columns = one.positive_rows[order], one.positive_columns[order]
    pool, known, key = np.arange(12, dtype=np.int32), known_of(one.known), key_of(5)
    negatives = draw_negatives(rows, pool, known, key)
    rate, reg = 0.1, 0.02
    decay = np.float32(1 - rate * reg)
    updates, trouble = pairwise_task(
        storage.whole("user"), storage.whole("by_user"), BlockPositives(rows, columns, pool), known,
        storage.layout(True), Rates(np.float32(rate), decay, decay, decay, decay), key,
    )  # fmt: skip
    half = (len(rows) + 1) // 2
    for k in [k for pair in zip(range(half), range(half, 2 * half), strict=True) for k in pair if k < len(rows)]:
        if negatives[k] >= 0:  # the item side is given the same explanation twice, which moves nothing of the user side
            oracle.bper_step(rows[k], 0, columns[k], negatives[k], columns[k], rate, reg)
    assert (updates, trouble) == ((negatives >= 0).sum(), 0)
    np.testing.assert_allclose(storage.factors("user"), oracle.f["user"], atol=2e-6)
    np.testing.assert_allclose(storage.factors("by_user"), oracle.f["by_user"], atol=2e-6)
    np.testing.assert_allclose(storage.bias("by_user"), oracle.b["by_user"], atol=2e-6)


@pytest.mark.parametrize("factors", [3, 7, 8, 20])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_sequential_solver_follows_the_algorithms_step_by_step(shape: str, factors: int) -> None:
    data = planted(1, users=25, items=12, pool=15, records=70)
    tables, passes = data.model(shape, factors, alpha=0.3)
    storage = Storage.started(tables, seed=1, factor_range=0.5)
    oracle = Parameters(storage)
    solver = SequentialSolver(storage, tuple(passes), FactorSettings(learning_rate=0.1, regularization=0.05, seed=4))
    kept = ~data.test
    for epoch in (1, 2):
        positions, negatives = solver.draws(epoch)
        solver.epoch(epoch)
        for position, *away in zip(positions, *negatives, strict=True):
            record, place = divmod(int(position), 2)
            u, i, e = data.user[kept][record], data.item[kept][record], data.explanations[kept][record, place]
            oracle.step(shape, u, i, e, *away, rate=0.1, reg=0.05, alpha=0.3)
        for name in tables:
            np.testing.assert_allclose(storage.factors(name), oracle.f[name], atol=5e-6)
            np.testing.assert_allclose(storage.whole(name)[:, factors], oracle.b[name], atol=5e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_blocks_move_and_regularize_every_table_as_the_joint_update_does(shape: str) -> None:
    """A single draw, whose negatives are the only ones left: passes one after the other differ by second order only."""
    data = planted(3, users=1, items=2, pool=2, records=1, held=1)
    data.test[:] = False
    tables, passes = data.model(shape, factors=3, alpha=0.3)
    storage = Storage.started(tables, seed=1, factor_range=1.0)
    for name, table in tables.items():
        if table.bias:
            storage.bias(name)[:] = 5
    oracle, before, rate = Parameters(storage), storage.values.copy(), 1e-3
    chosen = FactorSettings(learning_rate=rate, regularization=1.0, shards=1)
    with ThreadPool(1) as pool:
        BlockSolver(storage, tuple(passes), chosen, pool).epoch(1)
    u, i, e = int(data.user[0]), int(data.item[0]), int(data.explanations[0, 0])
    away = {"explanation": 1 - e, "by_user": 1 - e, "by_item": 1 - e, "item": 1 - i}
    negatives = [away[one.column_tables[-1]] for one in passes]
    oracle.step(shape, u, i, e, *negatives, rate=rate, reg=1.0, alpha=0.3)
    for name in tables:
        expected = np.column_stack([oracle.f[name], oracle.b[name]])
        start = storage.starts[name]
        was = before[start : start + len(expected), : expected.shape[1]]
        got = storage.whole(name)[:, : expected.shape[1]]
        np.testing.assert_allclose((got - was) / rate, (expected - was) / rate, atol=0.01)


def test_a_kernel_keeps_its_python_meaning() -> None:
    @kernel
    def ratio(a: float, b: float) -> float:
        return a / b

    assert ratio(1.0, 4.0) == 0.25
    assert ratio(1.0, 0.0) == np.inf


USE_A_KERNEL = "from whyrank.rng import below; from whyrank.compile import cache_folder; import numpy as np\n" + (
    "assert below(np.uint64(1 << 63), 10) == 5; print(cache_folder())"
)


def run_with(environment: dict[str, str], code: str = USE_A_KERNEL) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_kernels_work_without_any_folder_for_their_machine_code(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    nowhere = {"NUMBA_CACHE_DIR": str(file), "XDG_CACHE_HOME": str(file), "HOME": str(file), "LOCALAPPDATA": str(file)}
    hidden = "import tempfile; tempfile.gettempdir = lambda: '" + str(file) + "'\n"
    assert run_with(nowhere, hidden + USE_A_KERNEL) == "None"


@pytest.mark.skipif(sys.platform != "linux", reason="names Linux folders")
def test_machine_code_goes_to_the_users_cache_folder(tmp_path: Path) -> None:
    assert run_with({"XDG_CACHE_HOME": str(tmp_path)}).startswith(str(tmp_path / "whyrank" / "kernels"))
    assert list(tmp_path.rglob("*.nbi"))
