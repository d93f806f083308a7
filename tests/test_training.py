"""The training engine: quality, bits, checkpoints, monitors, trouble."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from oracles import planted
from whyrank.data.csr import CSR
from whyrank.data.triplets import Triplets
from whyrank.errors import ArtifactError, ParameterError, TrainingError
from whyrank.lab.simulate import simulate
from whyrank.models import BPER, BPERPlus, Model, Profile
from whyrank.thread_pool import ThreadPool
from whyrank.training import (
    Epoch,
    FactorSettings,
    History,
    Monitor,
    Run,
    Storage,
    Table,
    TriplePass,
    fold_in,
    grow,
    train,
)
from whyrank.training.blocks import BlockSolver
from whyrank.training.loop import EarlyStopping
from whyrank.training.sequential import SequentialSolver
from whyrank.training.shards import default_shards

SHAPES = ("bper", "pitf", "cd", "bper-j", "cd-j", "pitf-j")
SMALL = planted(0, users=40, items=20, pool=16, records=150)


def quick(shape: str = "bper", **changes: object) -> tuple[dict[str, Table], list[object], FactorSettings]:
    tables, passes = SMALL.model(shape)
    return tables, passes, FactorSettings(**({"learning_rate": 0.05, "epochs": 6, "shards": 3} | changes))


class Watch(Monitor):
    """Notes every epoch; stops, or interrupts, after one of them."""

    def __init__(self, stop_after: int = 0, interrupt_after: int = 0) -> None:
        self.stop_after, self.interrupt_after = stop_after, interrupt_after
        self.epochs: list[Epoch] = []

    def on_epoch(self, epoch: Epoch, storage: Storage | None) -> bool:
        self.epochs.append(epoch)
        if epoch.number == self.interrupt_after:
            os.kill(os.getpid(), signal.SIGINT)
        return epoch.number == self.stop_after


@pytest.mark.parametrize("shape", SHAPES)
def test_blocks_and_the_papers_loop_reach_the_same_ndcg(shape: str) -> None:
    # CD needs a wide start: products of two small numbers have next to no gradient
    factor_range = 0.5 if shape.startswith("cd") else 0.1
    scores = {}
    for solver in ("blocks", "sequential"):
        scores[solver] = []
        for seed in range(5):
            data = planted(seed)
            tables, passes = data.model(shape)
            chosen = FactorSettings(
                learning_rate=0.05, epochs=30, seed=seed, solver=solver, shards=2, factor_range=factor_range
            )
            scores[solver].append(data.ndcg(train(tables, passes, chosen), shape))
    blocks, loop = np.array(scores["blocks"]), np.array(scores["sequential"])
    untrained = np.mean([data.ndcg(Storage.started(tables, seed, 0.1), shape) for seed in range(5)])
    assert loop.mean() > 1.3 * untrained
    assert abs(blocks.mean() - loop.mean()) < 0.02


@pytest.mark.parametrize("shape", ["bper", "pitf", "cd", "bper-j"])
def test_the_bits_do_not_depend_on_the_number_of_threads(shape: str) -> None:
    results = []
    for threads in (1, 2, 8):
        tables, passes, chosen = quick(shape, shards=4)
        storage = Storage.started(tables, 0, 0.1)
        with ThreadPool(threads) as pool:
            solver = BlockSolver(storage, tuple(passes), chosen, pool)
            counts = [solver.epoch(epoch) for epoch in (1, 2, 3)]
        results.append((counts, storage.values.tobytes()))
    assert results[0] == results[1] == results[2]


def test_an_epoch_visits_every_triplet_once_in_every_pass() -> None:
    tables, passes, chosen = quick("bper-j", shards=2)
    with ThreadPool(1) as pool:
        updates, _ = BlockSolver(Storage.started(tables, 0, 0.1), tuple(passes), chosen, pool).epoch(1)
    assert updates <= 3 * passes[0].triplets
    assert updates > 2.5 * passes[0].triplets  # a few rows know their whole shard


def test_seed_shards_and_epoch_unit_change_the_result_and_nothing_else_is_left_to_chance() -> None:
    def bits(**changes: object) -> bytes:
        return train(*quick(**changes), records=SMALL.records()).values.tobytes()

    different = [bits(), bits(seed=1), bits(shards=2), bits(epoch_unit="records"), bits(schedule="cosine")]
    assert len(set(different)) == 5
    assert bits() == different[0]


def test_an_epoch_of_records_draws_one_explanation_of_each() -> None:
    tables, passes, chosen = quick("bper", epoch_unit="records")
    storage, record_of = Storage.started(tables, 0, 0.1), SMALL.records()
    records = int(record_of[-1]) + 1
    positions, _ = SequentialSolver(storage, tuple(passes), chosen, record_of).draws(1)
    assert sorted((positions // 2).tolist()) == list(range(records))
    with ThreadPool(1) as pool:
        updates, _ = BlockSolver(storage, tuple(passes), chosen, pool, record_of).epoch(1)
    assert 1.5 * records < updates <= 2 * records


def test_without_records_an_epoch_of_records_is_refused() -> None:
    with pytest.raises(ParameterError, match="records"):
        train(*quick(epoch_unit="records"))


@pytest.mark.parametrize("shape", ["bper-j", "pitf"])
@pytest.mark.parametrize("solver", ["blocks", "sequential"])
def test_a_resumed_run_has_the_bits_of_an_undisturbed_one(shape: str, solver: str, tmp_path: Path) -> None:
    file = tmp_path / "run.safetensors"
    tables, passes, chosen = quick(shape, solver=solver, schedule="linear")
    whole = train(tables, passes, chosen)
    train(tables, passes, chosen, Run(monitors=(Watch(stop_after=2),), checkpoint=file))
    seen = Watch()
    resumed = train(tables, passes, chosen, Run(monitors=(seen,), checkpoint=file, resume=True))
    assert resumed.values.tobytes() == whole.values.tobytes()
    assert [epoch.number for epoch in seen.epochs] == [3, 4, 5, 6]


FEATURES = np.random.default_rng(0).normal(size=(60, 5))


@pytest.mark.parametrize(
    "make",
    [
        lambda: BPER(factors=4, epochs=4),
        lambda: BPER(factors=4, epochs=4, solver="sequential"),
        lambda: Profile(factors=4, epochs=3),
        lambda: BPERPlus(factors=4, epochs=4, features=FEATURES),
    ],
    ids=["blocks", "sequential", "candidates", "frozen"],
)
@pytest.mark.parametrize("how", ["interrupt_after", "stop_after"])
def test_every_trainer_is_interrupted_stopped_and_resumed_alike(
    make: Callable[[], Model], how: str, tmp_path: Path
) -> None:
    data = simulate("small", users=80, items=30, explanations=60, records=500, triplets=900, seed=0)
    file, first, second, whole = tmp_path / "checkpoint", Watch(**{how: 2}), Watch(), Watch()
    with pytest.raises(KeyboardInterrupt) if how == "interrupt_after" else nullcontext():
        make().fit(data, run=Run(monitors=(first,), checkpoint=file))
    resumed = make().fit(data, run=Run(monitors=(second,), checkpoint=file, resume=True))
    undisturbed = make().fit(data, run=Run(monitors=(whole,)))
    seen, told = ([(e.candidate, e.number, e.loss) for e in w] for w in (first.epochs + second.epochs, whole.epochs))
    assert first.epochs[-1].number == 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert sorted(seen) == sorted(told)  # a stopped stage goes on after the next one has begun
    for name in type(resumed).fitted:
        assert np.array_equal(getattr(resumed, f"{name}_"), getattr(undisturbed, f"{name}_")), name


def test_resume_without_a_checkpoint_starts_at_the_beginning(tmp_path: Path) -> None:
    resumed = train(*quick(), Run(checkpoint=tmp_path / "none", resume=True))
    assert resumed.values.tobytes() == train(*quick()).values.tobytes()


def test_a_checkpoint_of_other_settings_or_a_damaged_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.safetensors"
    train(*quick(), Run(checkpoint=file))
    with pytest.raises(ArtifactError, match="other data or settings"):
        train(*quick(seed=1), Run(checkpoint=file, resume=True))
    whole = file.read_bytes()
    for damaged in (whole[:100], whole[:-1] + bytes([whole[-1] ^ 1])):  # one bit of an array would change the model
        file.write_bytes(damaged)
        with pytest.raises(ArtifactError, match="damaged"):
            train(*quick(), Run(checkpoint=file, resume=True))


def test_more_epochs_go_on_from_a_finished_run(tmp_path: Path) -> None:
    file = tmp_path / "run.safetensors"
    train(*quick(epochs=4), Run(checkpoint=file))
    longer = train(*quick(epochs=6), Run(checkpoint=file, resume=True))
    assert longer.values.tobytes() == train(*quick(epochs=6)).values.tobytes()


def test_fewer_epochs_than_a_checkpoint_holds_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.safetensors"
    train(*quick(epochs=6), Run(checkpoint=file))
    with pytest.raises(ArtifactError, match="holds 6 epochs and only 4 are asked for"):
        train(*quick(epochs=4), Run(checkpoint=file, resume=True))
    again = train(*quick(epochs=6), Run(checkpoint=file, resume=True))
    assert again.values.tobytes() == train(*quick(epochs=6)).values.tobytes()


def test_a_checkpoint_belongs_to_the_tables_that_its_run_started_from(tmp_path: Path) -> None:
    file, (tables, passes, chosen) = tmp_path / "run.safetensors", quick(epochs=3)
    train(tables, passes, chosen, Run(checkpoint=file), start=Storage.started(tables, 1, 0.1))
    for other in (None, Storage.started(tables, 2, 0.1)):
        with pytest.raises(ArtifactError, match="other data or settings"):
            train(tables, passes, chosen, Run(checkpoint=file, resume=True), start=other)
    train(tables, passes, chosen, Run(checkpoint=file, resume=True), start=Storage.started(tables, 1, 0.1))


def test_the_loss_on_the_sample_falls() -> None:
    seen = Watch()
    train(*quick("bper-j", epochs=20), Run(monitors=(seen,)))
    losses = [epoch.loss for epoch in seen.epochs]
    assert losses[-1] < 0.9 * losses[0]
    assert seen.epochs[-1].eta == 0
    assert all(epoch.updates_per_second > 0 for epoch in seen.epochs)


@pytest.mark.parametrize(
    ("rules", "scores", "epochs", "best"),
    [
        ({"patience": 3}, [0.1, 0.5, 0.3, 0.5, 0.2, 0.9], 5, 2),  # the first of equals
        ({"patience": 3}, [0.1, 0.5, 0.3, 0.6, 0.2], 5, 4),  # not yet
        ({"fall": 0.9}, [0.5, 0.46, 0.6, 0.53, 0.7], 4, 3),
        ({"fall": 0.9}, [0.5, 0.5, 0.5], 3, 1),
    ],
)
def test_early_stopping_says_when_it_is_enough_and_remembers_the_best(
    rules: dict[str, float], scores: list[float], epochs: int, best: int
) -> None:
    stopping, looked = EarlyStopping(**rules), 0
    for epoch, score in enumerate(scores, 1):
        looked = epoch
        stopping.look(epoch, score, {"epoch": np.array([epoch])})
        if stopping.enough:
            break
    assert (looked, stopping.when, stopping.best["epoch"][0]) == (epochs, best, best)
    assert stopping.enough == (looked < len(scores) or ("patience" in rules and len(scores) >= best + 3))


def test_the_history_of_a_resumed_run_is_that_of_an_undisturbed_one(tmp_path: Path) -> None:
    file, whole, first, second = tmp_path / "run.checkpoint", History(), History(), History()
    train(*quick(epochs=6), Run(monitors=(whole,)))
    train(*quick(epochs=6), Run(monitors=(first, Watch(stop_after=2)), checkpoint=file))
    train(*quick(epochs=6), Run(monitors=(second, Watch()), checkpoint=file, resume=True))
    assert len(first.rows) == 2
    assert second.rows == whole.rows


@pytest.mark.parametrize("solver", ["blocks", "sequential"])
def test_a_learning_rate_that_is_too_high_is_named(solver: str) -> None:
    with pytest.raises(TrainingError, match="learning_rate"):
        train(*quick("cd", solver=solver, learning_rate=90.0, epochs=30, factor_range=2.0))


@pytest.mark.parametrize(
    "changes",
    [
        {"learning_rate": 0.0}, {"learning_rate": float("nan")}, {"learning_rate": float("inf")},
        {"regularization": -1.0}, {"regularization": 200.0}, {"epochs": 0}, {"shards": 0}, {"solver": "magic"},
        {"schedule": "none"}, {"factor_range": -1.0}, {"epoch_unit": "pages"},
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused_by_name(data: Triplets, changes: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match=next(iter(changes))):
        BPER(**changes).fit(data)


def test_numbers_beyond_a_table_are_refused_before_anything_is_written_there() -> None:
    tables, passes, chosen = quick()
    with pytest.raises(ParameterError, match="user"):
        train(tables | {"user": Table(3, 8)}, passes, chosen)


def test_biases_start_where_they_are_told_and_zero_epochs_leave_them_there() -> None:
    tables, passes, chosen = quick(epochs=0)
    start = np.linspace(0, 1, 16, dtype=np.float32)
    learned = train(tables | {"by_user": Table(16, 8, bias=True, bias_start=start)}, passes, chosen)
    assert np.array_equal(learned.bias("by_user"), start)
    assert np.abs(learned.factors("user")).max() <= chosen.factor_range
    assert not learned.bias("by_item").any()


def test_small_tables_get_one_shard_and_large_ones_four() -> None:
    tables, passes = SMALL.model("bper")
    assert default_shards(tables, tuple(passes), passes[0].triplets) == 1
    large = {name: Table(10_000, 8) for name in tables}
    assert default_shards(large, tuple(passes), passes[0].triplets) == 4


def test_growing_keeps_old_rows_and_starts_new_ones_as_a_fresh_fit_would() -> None:
    tables, passes, chosen = quick()
    old = train(tables, passes, chosen)
    larger = tables | {"user": Table(45, 8)}
    new = grow(old, larger, chosen.seed, chosen.factor_range)
    fresh = Storage.started(larger, chosen.seed, chosen.factor_range)
    assert np.array_equal(new.whole("user")[:40], old.whole("user"))
    assert np.array_equal(new.whole("user")[40:], fresh.whole("user")[40:])
    assert np.array_equal(new.whole("by_item"), old.whole("by_item"))
    assert train(larger, passes, chosen, start=new) is new


def test_fold_in_ranks_a_new_rows_own_columns_high_and_alone_as_in_company() -> None:
    data = planted(2)
    tables, passes = data.model("bper")
    chosen = FactorSettings(learning_rate=0.05, epochs=40, shards=1)
    learned = train(tables, passes, chosen)
    known = passes[0].known
    some = known.take(np.arange(20))
    folded = fold_in(learned, "by_user", some, chosen)
    scores = folded @ learned.factors("by_user").T + learned.bias("by_user")
    own = np.mean([scores[row, some.row(row)].mean() for row in range(20)])
    assert own > scores.mean() + 0.5
    alone = fold_in(learned, "by_user", known.take(np.array([7])), chosen)
    assert np.array_equal(alone[0], folded[7])
    nobody = CSR(np.zeros(2, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
    assert not fold_in(learned, "by_user", nobody, chosen).any()


def test_a_checkpoint_without_its_values_is_refused(tmp_path: Path) -> None:
    from safetensors import safe_open
    from safetensors.numpy import save_file

    file = tmp_path / "run.safetensors"
    train(*quick(), Run(checkpoint=file))
    with safe_open(file, "numpy") as stored:
        about = stored.metadata()
    save_file({"other": np.zeros(1, np.float32)}, file, about)
    with pytest.raises(ArtifactError, match="damaged checkpoint"):
        train(*quick(), Run(checkpoint=file, resume=True))


@pytest.mark.parametrize("form", ["cd", "pitf"])
def test_negatives_of_a_pair_with_several_records_are_outside_of_all_of_them(form: str) -> None:
    user, item = np.zeros(3, np.int32), np.array([0, 0, 1], np.int32)
    said = CSR.from_pairs(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 2, 3, 4]), 3, 6)
    names = ("explanation",) if form == "cd" else ("by_user", "by_item")
    tables = {"user": Table(1, 2), "item": Table(2, 2)} | {name: Table(6, 2) for name in names}
    one = TriplePass(form, "user", "item", names, user, item, said)
    solver = SequentialSolver(Storage.started(tables, 0, 0.1), (one,), FactorSettings())
    for epoch in range(1, 30):
        positions, negatives = solver.draws(epoch)
        assert all(
            negative in (4, 5) for position, negative in zip(positions, negatives[0], strict=True) if position < 4
        )
    learned = Storage.started(tables, 0, 0.1)
    alone = TriplePass(form, "user", "item", names, user[:2], item[:2], said.take(np.arange(2)))
    with ThreadPool(1) as pool:
        blocks = BlockSolver(learned, (alone,), FactorSettings(regularization=0.0, learning_rate=0.5, shards=1), pool)
        for epoch in range(1, 30):
            blocks.epoch(epoch)
    # What is said of the pair is only ever a positive: its scores rise above those of 4 and 5.
    towards = learned.factors("user")[0] * (learned.factors("item")[0] if form == "cd" else 1)
    scores = learned.factors(names[0]) @ towards
    assert scores[:4].min() > scores[4:].max()
