"""Softmax training of profiles: its loss and gradients against a plain oracle and its finite differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from whyrank import Profile, Triplets
from whyrank.models.profile_records import item_records, reason_records
from whyrank.models.profile_stages import comparison_steps
from whyrank.simd import LANES
from whyrank.training import Run
from whyrank.training.softmax import SoftmaxSettings, SoftmaxTask, SoftmaxTraining

Doubles = NDArray[np.float64]
FACTORS = 5  # both sides are ten columns: one group of lanes and a rest


def task_of(data: Triplets) -> SoftmaxTask:
    pool = len(data.explanations)
    return SoftmaxTask(reason_records(data), data.popularity, (pool, pool), True)


@pytest.fixture
def training(data: Triplets) -> SoftmaxTraining:
    made = SoftmaxTraining(task_of(data), SoftmaxSettings(factors=FACTORS, threads=1))
    assert made.width % LANES
    rng = np.random.default_rng(1)  # larger than at the start, so that every part of the gradient shows
    for vectors in (made.keys, *made.inputs):
        vectors.own.x[:] = rng.normal(0, 0.5, vectors.own.x.shape)
    made.theta[:] = rng.normal((-1, 0.5, 0.1, -1, 0.5, 0.2), 0.3)
    return made


def parameters(training: SoftmaxTraining) -> dict[str, Doubles]:
    named = {"keys": training.keys.value, "first": training.inputs[0].value, "second": training.inputs[1].value}
    named |= {"bias": training.bias.x[:, 0], "theta": training.theta}
    return {name: np.array(array, np.float64) for name, array in named.items()}


def plain_loss(data: Triplets, records: NDArray[np.int64], at: dict[str, Doubles], among: bool = False) -> float:
    """The formulas of models/profile.py, record by record, over the whole pool, or over the item's."""
    pool = len(data.explanations)
    share = (data.popularity + 0.5) / data.popularity.sum()
    total = 0.0
    for r in records:
        own = data.record_explanations.row(r)
        logits, theta = at["bias"].copy(), at["theta"].reshape(2, 3)
        rows = (data.user_explanations, data.record_user[r]), (data.item_explanations, data.record_item[r])
        for side, (relation, row) in enumerate(rows):
            counts = np.zeros(pool)
            begin, end = relation.indptr[row], relation.indptr[row + 1]
            counts[relation.indices[begin:end]] = relation.counts[begin:end]
            counts[own] -= 1
            x = counts @ at[("first", "second")[side]] / np.sqrt(max(counts.sum(), 1))
            logits += at["keys"][:, side * FACTORS : (side + 1) * FACTORS] @ x
            scale, of_share, of_activity = theta[side]
            logits += np.log1p(np.exp(scale) * counts * share**-of_share * (1 + counts.sum()) ** -of_activity)
        competing = data.item_explanations.row(int(data.record_item[r])) if among else slice(None)
        total -= logits[own].sum() - len(own) * np.log(np.exp(logits[competing]).sum())
    return total


def gradients(
    training: SoftmaxTraining,
    records: NDArray[np.int64],
    drawn: NDArray[np.int32] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[float, dict[str, Doubles]]:
    """What a step would move by, with the whole pool or with a sample."""
    noted: dict[str, Doubles] = {}
    if not training.task.among_second:
        monkeypatch.setattr(SoftmaxTraining, "full", drawn is None)
        monkeypatch.setattr(training, "_draw", lambda: drawn)
    training.chance = np.full_like(training.chance, 1 / training.settings.sample)  # the sample stands for itself

    step = training._prepared(training.batch(training.task.source.of(records)))
    loss, gradient = training.gradient(step)
    d, sides, none = training.inputs[0].value.shape[1], step.batch.sides, step.dx[:0]
    given = {
        "keys": (step.by_score, step.x, gradient.keys),
        "bias": (step.by_score, np.ones((len(step.x), 1)), gradient.bias),
        "first": (sides[0], step.dx[:, :d], none),
        "second": (sides[1], step.dx[:, d:], none),
    }
    for name, (by, near, far) in given.items():
        both = np.vstack([near, far]) if len(far) else near
        found = np.zeros((len(training.task.popularity), both.shape[1]))
        for t, row in enumerate(by.rows):
            places = by.order[by.indptr[t] : by.indptr[t + 1]]
            found[row] = by.coefficients[places].astype(np.float64) @ both[by.sources[places]]
        noted[name] = found[:, 0] if name == "bias" else found
    return loss, noted | {"theta": gradient.theta}


@pytest.mark.parametrize("over", ["pool", "sample", "item"])
def test_loss_and_gradients_are_those_of_the_formula(
    training: SoftmaxTraining, data: Triplets, over: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample that holds every explanation once stands for the pool."""
    records, rng = np.arange(0, data.records, 7), np.random.default_rng(2)
    among = over == "item"
    training.task = replace(training.task, among_second=among)
    drawn = np.arange(len(data.explanations), dtype=np.int32) if over == "sample" else None
    loss, gradient = gradients(training, records, drawn, monkeypatch)
    at, small = parameters(training), 1e-4
    assert loss == pytest.approx(plain_loss(data, records, at, among), rel=1e-4)
    for name, values in at.items():
        busiest = np.argsort(-np.abs(gradient[name]).reshape(-1))[:40]
        for place in rng.permutation(busiest)[:8]:
            sides = []
            for step in (small, -small):
                moved = values.copy()
                moved.reshape(-1)[place] += step
                sides.append(plain_loss(data, records, at | {name: moved}, among))
            slope = (sides[0] - sides[1]) / (2 * small)
            assert gradient[name].reshape(-1)[place] == pytest.approx(slope, rel=2e-3, abs=2e-3), (name, place)


@pytest.mark.parametrize("among", [False, True])
def test_threads_do_not_change_what_is_learned(data: Triplets, among: bool) -> None:
    states, task = [], replace(task_of(data), among_second=among)
    for threads in (1, 2, 5):
        training = SoftmaxTraining(task, SoftmaxSettings(factors=FACTORS, threads=threads))
        losses = [training.epoch() for _ in range(2)]
        states.append((losses, training.learned()))
    for losses, learned in states[1:]:
        assert losses == states[0][0]
        assert all(np.array_equal(array, learned[name]) for name, array in states[0][1].items())


def test_an_epoch_in_parts_is_the_whole_one_also_in_another_training(data: Triplets) -> None:
    settings = SoftmaxSettings(factors=FACTORS, batch=50, threads=1)
    whole, parts, other = (SoftmaxTraining(task_of(data), settings) for _ in range(3))
    losses = [whole.epoch() for _ in range(2)]
    parts.epoch(2)
    parts.epoch(1)
    assert (parts.epochs, parts.done) == (0, 150)
    other.epoch(1)  # forgotten
    other.restore({name: array.copy() for name, array in parts.state().items()})
    for training in (parts, other):
        assert [training.epoch() for _ in range(2)] == losses
        assert (training.epochs, training.done) == (2, 0)
        found = training.state()
        assert all(np.array_equal(found[name], array) for name, array in whole.state().items())


@pytest.mark.parametrize(("records", "steps"), [(43_000, 153), (60_000, 128), (359_000, 44), (10_000_000, 306)])
def test_penalties_are_compared_after_all_of_few_records_and_a_quarter_of_many(records: int, steps: int) -> None:
    assert comparison_steps(records, Profile().settings(records, Run())) == steps


@pytest.mark.parametrize(
    ("records", "batch"), [(500, 64), (43_000, 430), (60_000, 512), (359_000, 2051), (10_000_000, 8192)]
)
def test_batches_grow_with_the_data(records: int, batch: int) -> None:
    assert Profile().settings(records, Run()).batch == batch
    assert Profile(batch=300).settings(records, Run()).batch == min(300, batch)


def test_some_items_stand_for_all_of_a_user_with_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whyrank.models.profile_records.ITEMS_SEEN", 50)
    rows = {"user": ["one"] * 400 + ["two"] * 40, "item": [f"i{n:03d}" for n in (*range(400), *range(40))]}
    data = Triplets.from_frame(pl.DataFrame({**rows, "explanation": ["e"] * 440}))
    lists = item_records(data).of(np.arange(data.records))
    assert len(lists.numbers) <= 400 * 50 + 40 * 39  # not 400 * 399
    seen = np.zeros(400, int)
    for record in range(data.records):
        items, counts = (each[lists.places[2 * record] : lists.places[2 * record + 1]] for each in lists[2:4])
        assert data.record_item[record] not in items
        assert len(set(items.tolist())) == len(items)
        if record < 400:
            assert counts.sum() == pytest.approx(400, abs=8)
            seen[items] += 1
        else:
            assert sorted(items.tolist()) == [item for item in range(40) if item != data.record_item[record]]
            assert (counts == 1).all()
    assert seen.min() > 20  # each of them for someone
    assert seen.max() < 100
